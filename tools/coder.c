/* Tokens of text for trained models. */
#include "tools/coder.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 256 };

sl_status sl__coder_open(const char *tokenizer, const char *model, int64_t vocabulary, sl__coder *c) {
  (void)model;
  *c = (sl__coder){.kind = vocabulary == BYTES ? SL__CODER_BYTES : SL__CODER_IDS, .vocabulary = vocabulary};
  return tokenizer ? sl_fail(SL_EUNSUPPORTED, "--tokenizer %s: only bytes are known", tokenizer) : SL_OK;
}

void sl__coder_close(sl__coder *c) { (void)c; }

/* Ids in decimal, with spaces between. */
static sl_status read_ids(const char *text, size_t bytes, int32_t *tokens, size_t *n) {
  for (size_t i = 0; i < bytes;) {
    char *end;
    if (isspace((unsigned char)text[i])) {
      i++;
      continue;
    }
    const long long id = strtoll(text + i, &end, 10); /* a zero byte ends the text */
    if (end == text + i || id < 0 || id > INT32_MAX)
      return sl_fail(SL_EINVAL,
                     "the prompt at byte %zu is no id of a token, and there is no tokenizer beside the model: name one "
                     "with --tokenizer",
                     i);
    tokens[(*n)++] = (int32_t)id;
    i = (size_t)(end - text);
  }
  return SL_OK;
}

sl_status sl__coder_encode(const sl__coder *c, const char *text, size_t bytes, int32_t **tokens, size_t *n) {
  *n = 0;
  *tokens = malloc((bytes + 1) * sizeof **tokens);
  if (!*tokens) return sl_fail(SL_ENOMEM, "no memory for %zu bytes of text", bytes);
  if (c->kind == SL__CODER_BYTES) {
    for (; *n < bytes; ++*n) (*tokens)[*n] = (unsigned char)text[*n];
    return SL_OK;
  }
  const sl_status status = read_ids(text, bytes, *tokens, n);
  if (status != SL_OK) free(*tokens), *tokens = NULL;
  return status;
}

sl_status sl__coder_decode(const sl__coder *c, const int32_t *tokens, size_t n, char **text, size_t *bytes) {
  enum { DIGITS = 12 };
  *bytes = 0;
  *text = malloc(n * DIGITS + 1);
  if (!*text) return sl_fail(SL_ENOMEM, "no memory for the text of %zu tokens", n);
  for (size_t i = 0; i < n; i++) {
    if (c->kind == SL__CODER_BYTES)
      (*text)[(*bytes)++] = (char)tokens[i];
    else
      *bytes += (size_t)snprintf(*text + *bytes, DIGITS + 1, " %d", tokens[i]);
  }
  return SL_OK;
}

int32_t sl__coder_first(const sl__coder *c) { return c->kind == SL__CODER_BYTES ? '\n' : 0; }
int32_t sl__coder_end(const sl__coder *c) {
  (void)c;
  return -1;
}
