/* Token sets over mapped files. */
#include "runtime/data/tokens.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/mapping.h"
#include "runtime/data/token_file.h"

enum { HEADER_BYTES = SL_TOKEN_FILE_HEADER_BYTES, MOST_FILES = 65536 };

/* Kinds of files by the bytes of a token. */
static const struct {
  int32_t magic, version;
  int width;
} kinds[] = {{SL_TOKEN_FILE_MAGIC_16, SL_TOKEN_FILE_VERSION_16, 2},
             {SL_TOKEN_FILE_MAGIC_32, SL_TOKEN_FILE_VERSION_32, 4}};

struct sl_tokens_file {
  char *path;
  sl_mapping *mapping;
  const uint8_t *map; /* its data */
  size_t bytes;       /* of the map */
  size_t first;       /* offset of token 0 */
  int width;          /* bytes of a token: 1, 2 or 4 */
  int64_t n;          /* tokens */
  sl_split split;
};
typedef struct sl_tokens_file token_file;

/* A run of one file's tokens, and the number of its first sample in the split. */
typedef struct segment {
  const token_file *file;
  int64_t from, n, first;
} segment;

struct sl_tokens_split {
  int64_t window, stride;
  int n;
  segment segment[]; /* [n], ordered by first; runs shorter than a window are left out */
};

/* ---- files ------------------------------------------------------------------------------------------------------ */

static int ends_in(const char *name, const char *end) {
  const size_t n = strlen(name), m = strlen(end);
  return n > m && strcmp(name + n - m, end) == 0;
}

static sl_split split_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return strstr(name, "val") ? SL_SPLIT_VALIDATION : strstr(name, "test") ? SL_SPLIT_TEST : SL_SPLIT_TRAIN;
}

/* Takes over path, also on failure. */
static sl_status add_file(sl_tokens *t, char *path) {
  if (t->n_files == MOST_FILES) {
    free(path);
    return sl_fail(SL_EINVAL, "more than %d token files: join some of them", MOST_FILES);
  }
  token_file *larger = path ? realloc(t->files, (size_t)(t->n_files + 1) * sizeof *larger) : NULL;
  if (!larger) {
    free(path);
    return sl_no_memory("for %d token files", t->n_files + 1);
  }
  t->files = larger;
  t->files[t->n_files++] = (token_file){.path = path, .split = split_of(path)};
  return SL_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const token_file *)a)->path, ((const token_file *)b)->path);
}

static sl_status add_folder(sl_tokens *t, const char *folder) {
  static const char *const ends[] = {".bin", ".txt"};
  const int before = t->n_files;
  sl_status status = SL_OK;
  DIR *dir = sl_folder_open(folder);
  if (!dir) return sl_fail(SL_EIO, "cannot read the data folder %s: %s", folder, strerror(errno));
  for (int e = 0; e < 2 && t->n_files == before; e++) {
    int error;
    rewinddir(dir);
    for (struct dirent *entry; (entry = sl_folder_next(dir, folder, &error));) {
      char *path = NULL;
      if (entry->d_name[0] == '.' || !ends_in(entry->d_name, ends[e])) continue;
      if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) path = NULL;
      SL_TRY_OUT(add_file(t, path));
    }
    if (error) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read the data folder %s: %s", folder, strerror(error)));
  }
  if (t->n_files == before)
    SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "%s has neither .bin files (of tokens) nor .txt files", folder));
  qsort(t->files + before, (size_t)(t->n_files - before), sizeof *t->files, by_name);
out:
  closedir(dir);
  return status;
}

static sl_status add_path(sl_tokens *t, const char *path) {
  struct stat info;
  char *all = NULL;
  if (SL_CALL_OF_FILE("stat", path, stat(path, &info)) != 0)
    return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read the tokens of '%s': %s", path,
                   strerror(errno));
  char *real = realpath(path, NULL); /* NULL for a file that was deleted */
  const int made = asprintf(&all, "%s%s%s", t->paths ? t->paths : "", t->paths ? "," : "", real ? real : path);
  free(real);
  if (made < 0) return sl_no_memory("for %s", path);
  free(t->paths);
  t->paths = all;
  return S_ISDIR(info.st_mode) ? add_folder(t, path) : add_file(t, strdup(path));
}

static sl_status map_file(token_file *f) {
  struct stat info;
  sl_status status = SL_OK;
  const int fd = sl_file_open(f->path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return sl_fail(SL_EIO, "cannot read %s: %s", f->path, strerror(errno));
  if (fstat(fd, &info) != 0) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read %s: %s", f->path, strerror(errno)));
  if (!S_ISREG(info.st_mode))
    SL_TRY_OUT(sl_fail(SL_EIO, "%s is not a regular file; tokens are read from regular files", f->path));
  if (info.st_size == 0) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s is empty", f->path));
  SL_TRY_OUT(sl_mapping_open(fd, f->path, (size_t)info.st_size, &f->mapping));
  f->map = sl_mapping_data(f->mapping), f->bytes = (size_t)info.st_size;
out:
  close(fd);
  return status;
}

static int32_t header_at(const token_file *f, int i) {
  uint32_t x;
  memcpy(&x, f->map + 4 * i, sizeof x);
  return (int32_t)le32toh(x);
}

static sl_status read_header(token_file *f) {
  int kind = -1;
  for (int k = 0; k < 2 && f->bytes >= 4; k++)
    if (header_at(f, 0) == kinds[k].magic) kind = k;
  if (kind < 0 && ends_in(f->path, ".bin"))
    return f->bytes < 4 ? sl_fail(SL_EFORMAT, "%s: truncated, has %zu bytes and no header of %d", f->path, f->bytes,
                                  HEADER_BYTES)
                        : sl_fail(SL_EFORMAT,
                                  "%s: not a token file, its magic is %" PRId32 " and neither %" PRId32 " nor %" PRId32
                                  "; a text file, to be read as bytes, is named .txt",
                                  f->path, header_at(f, 0), kinds[0].magic, kinds[1].magic);
  if (kind < 0) {
    f->width = 1, f->n = (int64_t)f->bytes;
    return SL_OK;
  }
  if (f->bytes < HEADER_BYTES)
    return sl_fail(SL_EFORMAT, "%s: truncated, has %zu of the header's %d bytes", f->path, f->bytes, HEADER_BYTES);
  if (header_at(f, 1) != kinds[kind].version)
    return sl_fail(SL_EFORMAT, "%s: version %" PRId32 " at offset 4; with magic %" PRId32 " it is %" PRId32, f->path,
                   header_at(f, 1), kinds[kind].magic, kinds[kind].version);
  f->width = kinds[kind].width, f->first = HEADER_BYTES, f->n = header_at(f, 2);
  const int64_t there = (int64_t)(f->bytes - HEADER_BYTES);
  if (f->n < 0 || f->n * f->width != there)
    return sl_fail(SL_EFORMAT,
                   "%s: the header (offset 8) counts %" PRId64 " tokens of %d bytes, and %" PRId64
                   " bytes follow it: %s; fetch or make the file again",
                   f->path, f->n, f->width, there,
                   f->n < 0                  ? "broken"
                   : f->n * f->width > there ? "truncated"
                                             : "oversized");
  return SL_OK;
}

static int64_t token_at(const token_file *f, int64_t i) {
  const uint8_t *at = f->map + f->first + (size_t)i * (size_t)f->width;
  uint32_t x4;
  uint16_t x2;
  if (f->width == 1) return *at;
  if (f->width == 2) return memcpy(&x2, at, 2), le16toh(x2);
  return memcpy(&x4, at, 4), le32toh(x4);
}

/* Fails with SL_EFORMAT at the first id beyond the vocabulary. Does nothing if the type cannot hold such an id. */
static sl_status check_ids(const token_file *f, int64_t vocabulary) {
  const int64_t piece = SL_MAPPING_PIECE / f->width;
  if (vocabulary >= (int64_t)1 << 8 * f->width) return SL_OK;
  for (int64_t i = 0; i < f->n; i++) {
    if (i % piece == 0) sl_activity_begin_call("read", f->path, 0);
    const int64_t id = token_at(f, i);
    if (i % piece == piece - 1 || i == f->n - 1 || id >= vocabulary) sl_activity_end_call(0);
    if (id >= vocabulary)
      return sl_fail(SL_EFORMAT,
                     "%s: token %" PRId64 " (byte offset %zu) is %" PRId64 ", beyond the vocabulary of %" PRId64
                     "; was it made with another tokenizer?",
                     f->path, i, f->first + (size_t)i * (size_t)f->width, id, vocabulary);
  }
  return SL_OK;
}

/* Extends *digest, the digest of the files so far, by all bytes of this file. */
static sl_status add_digest(const token_file *f, uint64_t *digest) {
  XXH3_state_t *state = XXH3_createState();
  if (!state) return sl_no_memory("for %s", f->path);
  XXH3_64bits_reset_withSeed(state, *digest);
  for (size_t at = 0, n; at < f->bytes; at += n) {
    n = f->bytes - at < SL_MAPPING_PIECE ? f->bytes - at : SL_MAPPING_PIECE;
    sl_activity_begin_call("read", f->path, 0);
    XXH3_64bits_update(state, f->map + at, n);
    sl_activity_end_call(0);
  }
  *digest = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return SL_OK;
}

/* ---- splits ----------------------------------------------------------------------------------------------------- */

/* Makes a split from tokens [from, to) of the concatenated training files, or from all tokens of another split's files.
 */
static sl_status make_split(sl_tokens *t, sl_split files, sl_split split, int64_t from, int64_t to,
                            const sl_tokens_options *o) {
  struct sl_tokens_split *s = calloc(1, sizeof *s + (size_t)t->n_files * sizeof *s->segment);
  t->split[split] = s;
  if (!s) return sl_no_memory("for %s", t->paths);
  s->window = o->window, s->stride = o->stride > 0 ? o->stride : o->window;
  int64_t start = 0;
  for (int i = 0; i < t->n_files; i++) {
    const token_file *f = &t->files[i];
    if (f->split != files) continue;
    const int64_t a = from > start ? from - start : 0, b = to - start < f->n ? to - start : f->n;
    start += f->n;
    if (b <= a) continue;
    t->tokens[split] += b - a;
    if (b - a < s->window) continue;
    s->segment[s->n++] = (segment){.file = f, .from = a, .n = b - a, .first = t->n[split]};
    t->n[split] += (b - a - s->window) / s->stride + 1;
  }
  return SL_OK;
}

static sl_status make_splits(sl_tokens *t, const sl_tokens_options *o) {
  static const char *const purposes[SL_SPLIT_COUNT] = {"to train on", "for validation", "for testing"};
  int64_t total = 0;
  int files[SL_SPLIT_COUNT] = {0};
  for (int i = 0; i < t->n_files; i++) {
    files[t->files[i].split]++;
    if (t->files[i].split == SL_SPLIT_TRAIN) total += t->files[i].n;
  }
  const int cut = !files[SL_SPLIT_VALIDATION] && o->validation_fraction > 0 && files[SL_SPLIT_TRAIN];
  const int64_t border = total - (cut ? (int64_t)floor(o->validation_fraction * (double)total + 0.5) : 0);
  SL_TRY(make_split(t, SL_SPLIT_TRAIN, SL_SPLIT_TRAIN, 0, border, o));
  SL_TRY(
      make_split(t, cut ? SL_SPLIT_TRAIN : SL_SPLIT_VALIDATION, SL_SPLIT_VALIDATION, cut ? border : 0, INT64_MAX, o));
  SL_TRY(make_split(t, SL_SPLIT_TEST, SL_SPLIT_TEST, 0, INT64_MAX, o));
  for (int s = 0; s < SL_SPLIT_COUNT; s++)
    if (t->n[s] < 1 && (files[s] || (s == SL_SPLIT_VALIDATION && cut)))
      return sl_blame(
          sl_fail(SL_EINVAL,
                  "%s: has %" PRId64 " tokens %s%s, which hold no window of %" PRId64 ": shorten the window%s",
                  t->paths, t->tokens[s], purposes[s], files[s] > 1 ? " (the longest file decides)" : "", o->window,
                  cut ? " or change the validation fraction" : ""),
          cut ? "window, validation_fraction" : "window");
  return SL_OK;
}

sl_status sl_tokens_open(const sl_tokens_options *o, sl_tokens **result) {
  sl_status status = SL_OK;
  char *list = NULL;
  *result = NULL;
  if (o->window < 1 || o->stride < 0 || o->vocabulary < 1 || o->vocabulary > INT32_MAX)
    return sl_fail(SL_EINVAL, "windows of %" PRId64 " tokens, %" PRId64 " apart, of a vocabulary of %" PRId64,
                   o->window, o->stride, o->vocabulary);
  if (!(o->validation_fraction >= 0 && o->validation_fraction < 1))
    return sl_fail(SL_EINVAL, "a validation fraction of %g is not within 0 to 1", o->validation_fraction);
  sl_tokens *t = calloc(1, sizeof *t);
  if (!t || !(list = strdup(o->paths))) SL_TRY_OUT(sl_no_memory("for %s", o->paths));
  char *rest = list;
  for (char *path; (path = strsep(&rest, ","));)
    if (*path) SL_TRY_OUT(add_path(t, path));
  if (!t->n_files) SL_TRY_OUT(sl_fail(SL_EINVAL, "'%s' names no file of tokens", o->paths));
  for (int i = 0; i < t->n_files; i++) {
    token_file *f = &t->files[i];
    SL_TRY_OUT(map_file(f));
    sl_activity_begin_call("read", f->path, 0);
    status = read_header(f);
    sl_activity_end_call(0);
    SL_TRY_OUT(status);
    SL_TRY_OUT(check_ids(f, o->vocabulary));
    t->text |= f->width == 1;
    SL_TRY_OUT(add_digest(f, &t->digest));
    SL_TRY_OUT(sl_mapping_check(f->mapping));
  }
  SL_TRY_OUT(make_splits(t, o));
  *result = t;
  t = NULL;
out:
  free(list);
  sl_tokens_close(t);
  return status;
}

void sl_tokens_close(sl_tokens *t) {
  if (!t) return;
  for (int i = 0; i < t->n_files; i++) {
    sl_mapping_close(t->files[i].mapping);
    free(t->files[i].path);
  }
  for (int s = 0; s < SL_SPLIT_COUNT; s++) free(t->split[s]);
  free(t->files), free(t->paths), free(t);
}

static sl_status read_sample(void *arg, int64_t i, void *sample, int32_t *label) {
  const struct sl_tokens_split *s = arg;
  int low = 0, high = s->n;
  while (high - low > 1) { /* finds the last segment whose first sample is at most i */
    const int middle = low + (high - low) / 2;
    if (s->segment[middle].first <= i)
      low = middle;
    else
      high = middle;
  }
  const segment *g = &s->segment[low];
  const int64_t from = g->from + (i - g->first) * s->stride;
  int32_t *token = sample;
  sl_activity_begin_call("read", g->file->path, 0);
  for (int64_t k = 0; k < s->window; k++) token[k] = (int32_t)token_at(g->file, from + k);
  sl_activity_end_call(0);
  *label = 0;
  return sl_mapping_check(g->file->mapping);
}

sl_sample_source sl_tokens_source(const sl_tokens *t, sl_split split) {
  return (sl_sample_source){.n = t->n[split],
                            .sample_bytes = (size_t)t->split[split]->window * sizeof(int32_t),
                            .read = read_sample,
                            .arg = t->split[split]};
}
