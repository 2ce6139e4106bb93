/* WordPiece: the steps of the kind (tokenizer_parts.h), and the kind. */
#ifndef SL_WORDPIECE_H
#define SL_WORDPIECE_H

#include "runtime/text/tokenizer_parts.h"

extern const sl__tokenizer_kind sl__wordpiece;

sl_status sl__wordpiece_normalize(sl_tokenizer *t, const char *text, size_t bytes, size_t *n);
sl_status sl__wordpiece_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids);
sl_status sl__wordpiece_word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids);
size_t sl__wordpiece_text(const sl_tokenizer *t, int32_t id, const char *name, size_t n, int first, char *out);

#endif
