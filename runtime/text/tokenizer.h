/* Tokenizers turn text into token ids and back. There are three kinds. Their ids are those of Hugging Face's tokenizers
 * when no special tokens are added around the text:
 *   bytes      256 ids, the bytes themselves.
 *   BPE        byte-level byte-pair encoding, GPT-2's (Radford et al. 2019; Sennrich et al. 2016). A fixed pattern cuts
 *              text into words. In each word the pair learnt first is joined, until no learnt pair is left. Every
 *              sequence of bytes is encoded without loss; bytes that are not UTF-8 count as punctuation.
 *   WordPiece  BERT's (Devlin et al. 2019). Text is cleaned, lower-cased if the vocabulary is uncased, and cut into
 *              words and punctuation. Tokens cover a word from its left, each as long as possible; a word that they
 *              cannot cover becomes [UNK].
 * Special tokens are found in text before all else. utf8proc decides which characters are letters, digits and marks;
 * text with characters newer than its Unicode version, or Hugging Face's, may be cut differently. */
#ifndef SL_TOKENIZER_H
#define SL_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tokenizer remembers the tokens of words it has met, so only one thread at a time may use it. */
typedef struct sl_tokenizer sl_tokenizer;

typedef enum sl_special {
  SL_SPECIAL_END,
  SL_SPECIAL_MASK,
  SL_SPECIAL_UNKNOWN,
  SL_SPECIAL_CLS,
  SL_SPECIAL_SEP,
  SL_SPECIAL_PAD
} sl_special;

/* path: "bytes", or a tokenizer.json, a vocab.txt (WordPiece), or a folder that holds one of these or vocab.json and
 * merges.txt (BPE), looked for in this order. A vocab.txt is uncased unless a tokenizer_config.json beside it says
 * otherwise (do_lower_case, strip_accents, tokenize_chinese_chars) or its tokens have capital letters. SL_ENOTFOUND,
 * SL_EIO; SL_EFORMAT names file and line or key: invalid JSON, duplicate or missing ids, duplicate tokens, merges of
 * unknown tokens; SL_EUNSUPPORTED: another model, normalizer or pre-tokenizer. */
sl_status sl_tokenizer_open(const char *path, sl_tokenizer **tokenizer);
void sl_tokenizer_close(sl_tokenizer *tokenizer); /* NULL is allowed */

int64_t sl_tokenizer_vocabulary(const sl_tokenizer *tokenizer);                /* ids are 0 .. vocabulary - 1 */
int32_t sl_tokenizer_special(const sl_tokenizer *tokenizer, sl_special which); /* -1: none */

/* The caller must free(*tokens), which is never NULL on success. SL_EINVAL: a byte without a token in a vocabulary
 * without an unknown token, or a word of 2^30 bytes. */
sl_status sl_tokenizer_encode(sl_tokenizer *tokenizer, const char *text, size_t bytes, int32_t **tokens, size_t *n);
/* The last position in 1 .. bytes - 1 where a long text may be cut: both parts, encoded separately, give the tokens of
 * the whole, whatever text follows. 0: none. */
size_t sl_tokenizer_cut(const sl_tokenizer *tokenizer, const char *text, size_t bytes);
/* The caller must free(*text), which ends in a zero byte. BPE restores the text exactly; WordPiece puts a space between
 * words. SL_EINVAL: an id beyond the vocabulary. Tokens may be decoded in parts; WordPiece's only in parts that begin
 * with a new word. */
sl_status sl_tokenizer_decode(const sl_tokenizer *tokenizer, const int32_t *tokens, size_t n, char **text,
                              size_t *bytes);
/* Writes a tokenizer.json that Hugging Face's tokenizers read. "bytes" becomes a BPE without merges. */
sl_status sl_tokenizer_save(const sl_tokenizer *tokenizer, const char *path);
/* The text that sl_tokenizer_save writes; the caller frees it. SL_ENOMEM. */
sl_status sl_tokenizer_text(const sl_tokenizer *tokenizer, char **text);

/* Learning a byte-level BPE: texts are added, then the most frequent pair of tokens becomes a token (the smaller ids
 * first among equally frequent pairs), until the vocabulary is full or no pair occurs twice. Ids are 256 bytes in
 * GPT-2's order, the joined pairs, and <|endoftext|> last. Only a word's first 1,024 bytes count. */
typedef struct sl_bpe_trainer sl_bpe_trainer;
sl_status sl_bpe_trainer_create(sl_bpe_trainer **trainer);
/* <|endoftext|> separates texts and is not learnt from. Cut long texts with sl_bpe_trainer_cut. */
sl_status sl_bpe_trainer_add(sl_bpe_trainer *trainer, const char *text, size_t bytes);
size_t sl_bpe_trainer_cut(const char *text, size_t bytes); /* as sl_tokenizer_cut */
/* vocabulary: 257 or more; the result may have fewer. SL_EINVAL. The trainer can only be destroyed afterwards. */
sl_status sl_bpe_trainer_finish(sl_bpe_trainer *trainer, int64_t vocabulary, sl_tokenizer **tokenizer);
void sl_bpe_trainer_destroy(sl_bpe_trainer *trainer); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
