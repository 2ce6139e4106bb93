/* Converts text to the tokens of a trained model and back, with a tokenizer; without one, text consists of decimal ids.
 */
#ifndef SL_TOOLS_CODER_H
#define SL_TOOLS_CODER_H

#include "runtime/text/tokenizer.h"

typedef struct sl__coder {
  sl_tokenizer *tokenizer; /* NULL: ids */
  int64_t vocabulary;      /* ids must be below it */
} sl__coder;

/* tokenizer: --tokenizer; NULL: the one beside the model's file or, if there is none and the vocabulary is 256, bytes.
 * vocabulary: the model's; SL_EINVAL if the tokenizer's is larger. */
sl_status sl__coder_open(const char *tokenizer, const char *model, int64_t vocabulary, sl__coder *coder);
void sl__coder_close(sl__coder *coder); /* a zeroed one is allowed */
/* *tokens is the caller's to free(). */
sl_status sl__coder_encode(const sl__coder *coder, const char *text, size_t bytes, int32_t **tokens, size_t *n);
/* *text is the caller's to free(). */
sl_status sl__coder_decode(const sl__coder *coder, const int32_t *tokens, size_t n, char **text, size_t *bytes);
int32_t sl__coder_first(const sl__coder *coder); /* the token before the first one of a text without a prompt */
int32_t sl__coder_end(const sl__coder *coder);   /* the token that ends a text; -1: none */

#endif
