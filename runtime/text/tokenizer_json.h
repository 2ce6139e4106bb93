/* Helpers shared by the readers and writers of tokenizer files: flags, types and names in JSON, and lines of text. */
#ifndef SL_TOKENIZER_JSON_H
#define SL_TOKENIZER_JSON_H

#include <jansson.h>

#include "runtime/text/tokenizer_parts.h"

enum { SL__TOKENIZER_FILE_MOST = 256 << 20 }; /* largest text file of a tokenizer, in bytes */

int sl__json_null(const json_t *value); /* null, or absent */
/* Reads true or false. key: "model.dropout", for error texts; its last part is looked up in object. Absent or null:
 * *value stays. */
sl_status sl__json_flag(const char *path, const json_t *object, const char *key, int *value);
const char *sl__json_type(const json_t *object); /* its "type"; "none" if it has none */
sl_status sl__unsupported(const char *path, const char *key, const char *what);
/* Sets t->unknown from the model's unk_token. */
sl_status sl__unknown_of(const char *path, const json_t *model, sl_tokenizer *t);
/* Makes the tokens with these names special tokens; other names are ignored. The list ends in NULL. */
sl_status sl__add_specials(sl_tokenizer *t, const char *const *names);

json_t *sl__json_name(const sl_tokenizer *t, size_t id); /* a token's name */
json_t *sl__json_added(const sl_tokenizer *t);           /* the list "added_tokens" */

/* The next line of text, without its newline; 0: no line is left. */
int sl__next_line(char **at, char *end, char **line, size_t *n);

#endif
