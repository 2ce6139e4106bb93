/* Byte-level byte-pair encoding: the steps that encoding, learning and files share. */
#ifndef SL_BPE_H
#define SL_BPE_H

#include "runtime/text/tokenizer_parts.h"

extern const sl__tokenizer_kind sl__bpe;

/* Steps of the kind (tokenizer_parts.h). */
sl_status sl__bpe_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids);
sl_status sl__bpe_word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids);
size_t sl__bpe_text(const sl_tokenizer *t, int32_t id, const char *name, size_t n, int first, char *out);

/* Bytes of the first word by GPT-2's pattern; n > 0. */
size_t sl__gpt2_word(const char *text, size_t n);
/* Writes the printable character by which GPT-2 names a byte, and returns its length (1 or 2 bytes). */
size_t sl__byte_name(unsigned char byte, char text[2]);
/* Fills byte_id from names. */
void sl__bpe_bytes(sl_tokenizer *t);

#endif
