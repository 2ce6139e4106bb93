/* From text to the tokens of a trained model and back: by a tokenizer or, where there is none, as the ids themselves in
 * decimal. */
#ifndef SL_TOOLS_CODER_H
#define SL_TOOLS_CODER_H

#include "runtime/text/tokenizer.h"

typedef struct sl__coder {
  sl_tokenizer *tokenizer; /* NULL: ids */
  int64_t vocabulary;      /* ids that can be decoded are below it */
} sl__coder;

/* tokenizer: --tokenizer; or NULL, when one beside the model's file is taken, and without one a vocabulary of 256 is
 * bytes. vocabulary: the model's; SL_EINVAL where the tokenizer has more. */
sl_status sl__coder_open(const char *tokenizer, const char *model, int64_t vocabulary, sl__coder *coder);
void sl__coder_close(sl__coder *coder); /* a zeroed one is allowed */
/* *tokens is the caller's to free(). */
sl_status sl__coder_encode(const sl__coder *coder, const char *text, size_t bytes, int32_t **tokens, size_t *n);
/* *text is the caller's to free(). */
sl_status sl__coder_decode(const sl__coder *coder, const int32_t *tokens, size_t n, char **text, size_t *bytes);
int32_t sl__coder_first(const sl__coder *coder); /* what a text without a prompt begins behind */
int32_t sl__coder_end(const sl__coder *coder);   /* what ends a text; -1: nothing does */

#endif
