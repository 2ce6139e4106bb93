/* Files of token ids: the layout, which readers share, and the writer. A file has a header of 256 integers of 32 bits
 * (magic, version, count, zeros), then ids of 16 or 32 bits, all little-endian. The layout is llm.c's, so that its
 * programs and published data sets work with Starling's. */
#ifndef SL_TOKEN_FILE_H
#define SL_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SL_TOKEN_FILE_HEADER_BYTES = 1024,
  SL_TOKEN_FILE_MAGIC_16 = 20240520,
  SL_TOKEN_FILE_VERSION_16 = 1,
  SL_TOKEN_FILE_MAGIC_32 = 20240801,
  SL_TOKEN_FILE_VERSION_32 = 7
};

/* A token file being written; nothing is at its path until sl_token_file_commit. */
typedef struct sl_token_file sl_token_file;

/* bits: 16 or 32. SL_EINVAL, SL_EIO. */
sl_status sl_token_file_create(const char *path, int bits, sl_token_file **file);
/* SL_EINVAL: an id that is negative or does not fit into 16 bits, or more than 2^31 - 1 tokens, which the header cannot
 * count. After a failure, call only sl_token_file_discard. */
sl_status sl_token_file_append(sl_token_file *file, const int32_t *tokens, size_t n);
int64_t sl_token_file_count(const sl_token_file *file); /* tokens so far */
/* Writes the count, puts the file at its path and frees file, also on failure. */
sl_status sl_token_file_commit(sl_token_file *file);
void sl_token_file_discard(sl_token_file *file); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
