/* Writes token files. The header is written twice, because its count is known only at the end. */
#include "runtime/data/token_file.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"

enum { BUFFER = 1 << 16 }; /* tokens */

struct sl_token_file {
  sl_file *file;
  char *path;
  int bits;
  int64_t count;
  size_t n; /* tokens in the buffer */
  uint32_t buffer[BUFFER];
};

static sl_status flush(sl_token_file *f) {
  const size_t bytes = f->n * (size_t)f->bits / 8;
  f->n = 0;
  return sl_file_write(f->file, f->buffer, bytes);
}

sl_status sl_token_file_create(const char *path, int bits, sl_token_file **result) {
  static const uint8_t blank[SL_TOKEN_FILE_HEADER_BYTES];
  *result = NULL;
  if (bits != 16 && bits != 32) return sl_fail(SL_EINVAL, "%s: tokens of %d bits; there are 16 and 32", path, bits);
  sl_token_file *f = malloc(sizeof *f);
  if (!f) return sl_no_memory("for writing %s", path);
  f->file = NULL, f->path = strdup(path), f->bits = bits, f->count = 0, f->n = 0;
  sl_status status = f->path ? sl_file_create(path, &f->file) : sl_no_memory("for writing %s", path);
  if (status == SL_OK) status = sl_file_write(f->file, blank, sizeof blank);
  if (status != SL_OK) {
    sl_token_file_discard(f);
    return status;
  }
  *result = f;
  return SL_OK;
}

sl_status sl_token_file_append(sl_token_file *f, const int32_t *tokens, size_t n) {
  const int32_t most = f->bits == 16 ? UINT16_MAX : INT32_MAX;
  if (n > (size_t)(INT32_MAX - f->count))
    return sl_fail(SL_EINVAL, "%s: more than 2147483647 tokens, which its header cannot count: write several files",
                   f->path);
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] > most)
      return sl_fail(SL_EINVAL, "%s: token %lld is %d, which does not fit into %d bits", f->path,
                     (long long)f->count + (long long)i, (int)tokens[i], f->bits);
    if (f->bits == 16)
      ((uint16_t *)f->buffer)[f->n++] = htole16((uint16_t)tokens[i]);
    else
      f->buffer[f->n++] = htole32((uint32_t)tokens[i]);
    if (f->n == BUFFER) SL_TRY(flush(f));
  }
  f->count += (int64_t)n;
  return SL_OK;
}

int64_t sl_token_file_count(const sl_token_file *f) { return f->count; }

sl_status sl_token_file_commit(sl_token_file *f) {
  const int wide = f->bits == 32;
  const uint32_t header[3] = {htole32(wide ? SL_TOKEN_FILE_MAGIC_32 : SL_TOKEN_FILE_MAGIC_16),
                              htole32(wide ? SL_TOKEN_FILE_VERSION_32 : SL_TOKEN_FILE_VERSION_16),
                              htole32((uint32_t)f->count)};
  sl_status status = flush(f);
  if (status == SL_OK) status = sl_file_overwrite(f->file, 0, header, sizeof header);
  if (status == SL_OK) {
    status = sl_file_commit(f->file);
    f->file = NULL;
  }
  sl_token_file_discard(f);
  return status;
}

void sl_token_file_discard(sl_token_file *f) {
  if (!f) return;
  sl_file_discard(f->file);
  free(f->path), free(f);
}
