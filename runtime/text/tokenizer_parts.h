/* What the files of the tokenizer share: its fields, and the steps from text to words to ids. */
#ifndef SL_TOKENIZER_PARTS_H
#define SL_TOKENIZER_PARTS_H

#include <utf8proc.h>

#include "runtime/base/numbering.h"
#include "runtime/text/tokenizer.h"

typedef enum { SL__BYTES, SL__BPE, SL__WORDPIECE } sl__tokenizer_kind;

/* A token that is found in text before words are made of it, with Hugging Face's flags. */
typedef struct sl__added {
  int32_t id;
  char *text; /* what is looked for; normalised where the flag says so */
  size_t n;
  int special, single_word, lstrip, rstrip, normalized;
} sl__added;

typedef struct sl__ids {
  int32_t *id;
  size_t n, room;
} sl__ids;

typedef struct sl__symbol {
  int32_t id;                   /* -1: joined to what is before it */
  int32_t previous, next, rank; /* rank of the merge with next, -1: none */
} sl__symbol;

struct sl_tokenizer {
  sl__tokenizer_kind kind;
  sl__strings names; /* by id, as files write them */
  sl__added *added;
  size_t n_added;
  unsigned char added_first[2][256],
      added_last[256]; /* bytes that plain, normalised and any added ones begin and end with */
  int cut_before[2];   /* space, newline */
  int32_t unknown;     /* -1: none */

  /* BPE */
  int32_t byte_id[256]; /* -1: none */
  sl__pairs merges;     /* by rank */
  int32_t *merged;      /* [merges.n] */
  int prefix_space, words_by_pattern;

  /* WordPiece */
  int clean, chinese, strip_accents, lower;
  char *prefix;
  size_t prefix_bytes, longest; /* bytes; of any token */
  int64_t most_characters;      /* of a word */

  /* Tokens of words met: word i has known.id[known_end[i - 1] .. known_end[i]]. */
  sl__strings words;
  size_t *known_end, known_room;
  sl__ids known;

  /* Scratch. */
  sl__symbol *symbols;
  uint64_t *heap;
  size_t symbols_room, heap_room;
  char *buffer;
  size_t buffer_room;
  int32_t *points;
  size_t points_room;
};

sl_status sl__ids_add(sl__ids *ids, int32_t id);
/* Appends the tokens of a word, remembered or found anew. */
sl_status sl__word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids);

/* Words of a stretch of text without added tokens, and the tokens of one word. */
sl_status sl__bpe_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids);
sl_status sl__bpe_word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids);
sl_status sl__wordpiece_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids);
sl_status sl__wordpiece_word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids);
/* Normalised text, into t->buffer; *n is its length. */
sl_status sl__wordpiece_normalize(sl_tokenizer *t, const char *text, size_t bytes, size_t *n);

/* Bytes of the first word by GPT-2's pattern; n > 0. */
size_t sl__gpt2_word(const char *text, size_t n);
/* GPT-2 writes bytes as printable characters: the byte's text (1 or 2 bytes) and its length. */
size_t sl__byte_name(unsigned char byte, char text[2]);
/* The bytes that such a text stands for, into bytes (room for n), and how many; -1: it has other characters. */
int64_t sl__bytes_of_name(const char *name, size_t n, char *bytes);

/* An empty tokenizer of that kind; and what holds once names and added tokens are there. */
sl_status sl__tokenizer_new(sl__tokenizer_kind kind, sl_tokenizer **tokenizer);
sl_status sl__tokenizer_finish(sl_tokenizer *t);
sl_status sl__tokenizer_add(sl_tokenizer *t, int32_t id, const char *text, sl__added flags);
/* Fills byte_id from names. */
void sl__bpe_bytes(sl_tokenizer *t);

static inline int sl__white(int32_t c) { /* Unicode's White_Space */
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
/* The first character of n > 0 bytes, -1 for a byte that is not UTF-8, and its length. */
static inline size_t sl__character(const char *text, size_t n, int32_t *c) {
  if ((unsigned char)*text < 0x80) {
    *c = *text;
    return 1;
  }
  const utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, n < 4 ? (utf8proc_ssize_t)n : 4, c);
  if (length > 0) return (size_t)length;
  *c = -1;
  return 1;
}

#endif
