/* The inside of a tokenizer, for the files of this folder: its fields, the functions that a kind of tokenizer provides,
 * and the memory of words. */
#ifndef SL_TOKENIZER_PARTS_H
#define SL_TOKENIZER_PARTS_H

#include <utf8proc.h>

#include "runtime/text/numbering.h"
#include "runtime/text/tokenizer.h"

struct json_t;

/* A token that is found before the text is cut into words, with Hugging Face's flags. */
typedef struct sl__added {
  int32_t id;
  char *text; /* text to find; normalised if the flag says so */
  size_t n;
  int special, single_word, lstrip, rstrip, normalized;
} sl__added;

typedef struct sl__ids {
  int32_t *id;
  size_t n, room;
} sl__ids;

typedef struct sl__symbol {
  int32_t id;                   /* -1: merged into the symbol before it */
  int32_t previous, next, rank; /* rank of the merge with next, -1: none */
} sl__symbol;

/* A kind of tokenizer. A new kind is one of these, listed in tokenizer_file.c. */
typedef struct sl__tokenizer_kind {
  const char *type; /* "model.type" of a tokenizer.json; NULL: never in such a file */
  int cut_anywhere; /* 1: every byte is a token, so text may be cut after any byte */
  /* Writes the normalised text to t->buffer and its bytes to *n. NULL: text stays as it is. */
  sl_status (*normalize)(sl_tokenizer *t, const char *text, size_t bytes, size_t *n);
  /* Appends the tokens of a stretch of text without added tokens. */
  sl_status (*stretch)(sl_tokenizer *t, const char *text, size_t bytes, sl__ids *ids);
  /* Appends the tokens of one word; sl__word calls it. NULL: stretch does not cut text into words. */
  sl_status (*word)(sl_tokenizer *t, const char *word, size_t bytes, sl__ids *ids);
  /* Writes the text of token id, named `name` of n bytes, to `out`, which has room for n + 2 bytes. first: 1 if no
   * token precedes it. Returns the number of bytes. */
  size_t (*text)(const sl_tokenizer *t, int32_t id, const char *name, size_t n, int first, char *out);
  /* Read and write the members of a tokenizer.json other than names and added tokens; read is NULL if type is. */
  sl_status (*read)(const char *path, const struct json_t *root, const struct json_t *model, sl_tokenizer *t);
  struct json_t *(*write)(const sl_tokenizer *t, struct json_t *vocabulary);
} sl__tokenizer_kind;

struct sl_tokenizer {
  const sl__tokenizer_kind *kind;
  sl__strings names; /* by id, as spelt in files */
  sl__added *added;
  size_t n_added;
  /* 1: an added token begins, ends with this byte. added_first[1]: tokens found in normalised text, [0]: others */
  unsigned char added_first[2][256], added_last[256];
  int cut_before[2]; /* whether sl_tokenizer_cut may cut before a space, before a newline */
  int32_t unknown;   /* -1: none */

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

  /* Tokens of remembered words: word i has known.id[known_end[i - 1] .. known_end[i]]. */
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

/* Makes an empty tokenizer of that kind. The caller adds names and added tokens, then calls sl__tokenizer_finish. */
sl_status sl__tokenizer_new(const sl__tokenizer_kind *kind, sl_tokenizer **tokenizer);
sl_status sl__tokenizer_add(sl_tokenizer *t, int32_t id, const char *text, sl__added flags);
sl_status sl__tokenizer_finish(sl_tokenizer *t);

/* The last place where a text may be cut: before a space (kinds[0]) or a newline (kinds[1]) that follows a visible
 * character whose last byte is not one of not_after[256]. 0: there is none. */
size_t sl__cut_before_space(const char *text, size_t bytes, const int *kinds, const unsigned char *not_after);
sl_status sl__ids_add(sl__ids *ids, int32_t id);
/* Appends the tokens of a word: the remembered ones, or those from kind->word. */
sl_status sl__word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids);

static inline int sl__white(int32_t c) { /* Unicode's White_Space */
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
/* Decodes the first character of n > 0 bytes (-1: a byte that is not UTF-8) and returns its length. */
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
