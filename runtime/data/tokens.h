/* A token set: files of token ids, or of text whose bytes are the tokens, mapped into memory and checked whole when
 * opened. Samples are windows of consecutive tokens; each window lies within one file.
 *
 * A file that begins with a token file's magic (runtime/data/token_file.h) is a token file. A file named .bin must be a
 * token file. All other files are text. */
#ifndef SL_TOKENS_H
#define SL_TOKENS_H

#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/data/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_tokens_options {
  /* Files and folders, with commas between. A folder gives its .bin files or, if it has none, its .txt files, in the
   * order of their names. Files with "val" in their name are for validation, files with "test" for testing, all others
   * for training. */
  const char *paths;
  int64_t vocabulary; /* every id is below it */
  int64_t window;     /* tokens of a sample */
  int64_t stride;     /* distance between the first tokens of two samples; 0: window */
  double
      validation_fraction; /* share of the training tokens, from their end; used if no file is for validation; 0 <= f <
                              1 */
} sl_tokens_options;

typedef struct sl_tokens {
  char *paths;                    /* absolute, as options.paths takes them */
  int64_t n[SL_SPLIT_COUNT];      /* samples in each split */
  int64_t tokens[SL_SPLIT_COUNT]; /* tokens in each split */
  int text;                       /* 1: at least one file is text */
  uint64_t digest;                /* XXH3 of all contents, which identifies the set */
  struct sl_tokens_file *files;   /* private */
  int n_files;
  struct sl_tokens_split *split[SL_SPLIT_COUNT]; /* private */
} sl_tokens;

/* SL_ENOTFOUND; SL_EIO; SL_EFORMAT names the file and the fault: a wrong magic or version, a count that contradicts the
 * file's size, an id beyond the vocabulary (with index and byte offset); SL_EINVAL: a split too short for a window. */
sl_status sl_tokens_open(const sl_tokens_options *options, sl_tokens **tokens);
void sl_tokens_close(sl_tokens *tokens); /* NULL is allowed */

/* The samples of one split, I32 [window] each, labels 0, in the order of the files; valid until closed. */
sl_sample_source sl_tokens_source(const sl_tokens *tokens, sl_split split);

#ifdef __cplusplus
}
#endif
#endif
