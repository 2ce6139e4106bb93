/* Converts between text and the tokens of trained models. */
#include "tools/text/coder.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/checkpoint.h"

enum { BYTES = 256 };

/* Finds the tokenizer in the folder of the model's file, or of a checkpoint's run; it is no error if there is none. */
static sl_status open_beside(const char *model, sl__coder *c) {
  const char *slash = strrchr(model, '/');
  char *folder = NULL;
  if (sl_checkpoint_is(model))
    folder = asprintf(&folder, "%s/../..", model) < 0 ? NULL : folder;
  else
    folder = slash ? strndup(model, (size_t)(slash - model) + 1) : strdup(".");
  if (!folder) return sl_no_memory("for a path");
  const sl_status status = sl_tokenizer_open(folder, &c->tokenizer);
  free(folder);
  return status == SL_ENOTFOUND ? SL_OK : status;
}

sl_status sl__coder_open(const char *tokenizer, const char *model, int64_t vocabulary, sl__coder *c) {
  *c = (sl__coder){.vocabulary = vocabulary};
  SL_TRY(tokenizer ? sl_tokenizer_open(tokenizer, &c->tokenizer) : open_beside(model, c));
  if (!c->tokenizer && vocabulary == BYTES) SL_TRY(sl_tokenizer_open("bytes", &c->tokenizer));
  if (!c->tokenizer) return SL_OK;
  c->vocabulary = sl_tokenizer_vocabulary(c->tokenizer);
  return c->vocabulary <= vocabulary
             ? SL_OK
             : sl_fail(SL_EINVAL, "the tokenizer %s %s has %lld tokens, but the model a vocabulary of %lld",
                       tokenizer ? "of" : "beside", tokenizer ? tokenizer : model, (long long)c->vocabulary,
                       (long long)vocabulary);
}

void sl__coder_close(sl__coder *c) { sl_tokenizer_close(c->tokenizer); }

/* Reads ids in decimal, separated by spaces. */
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
                     "the prompt has no token id at byte %zu, and there is no tokenizer beside the model: name one "
                     "with --tokenizer",
                     i);
    tokens[(*n)++] = (int32_t)id;
    i = (size_t)(end - text);
  }
  return SL_OK;
}

sl_status sl__coder_encode(const sl__coder *c, const char *text, size_t bytes, int32_t **tokens, size_t *n) {
  if (c->tokenizer) return sl_tokenizer_encode(c->tokenizer, text ? text : "", bytes, tokens, n);
  *n = 0;
  *tokens = malloc((bytes + 1) * sizeof **tokens);
  if (!*tokens) return sl_no_memory("for %zu bytes of text", bytes);
  const sl_status status = read_ids(text, bytes, *tokens, n);
  if (status != SL_OK) free(*tokens), *tokens = NULL;
  return status;
}

sl_status sl__coder_decode(const sl__coder *c, const int32_t *tokens, size_t n, char **text, size_t *bytes) {
  enum { DIGITS = 12 };
  if (c->tokenizer) return sl_tokenizer_decode(c->tokenizer, tokens, n, text, bytes);
  *bytes = 0;
  *text = malloc(n * DIGITS + 1);
  if (!*text) return sl_no_memory("for the text of %zu tokens", n);
  for (size_t i = 0; i < n; i++) *bytes += (size_t)snprintf(*text + *bytes, DIGITS + 1, " %d", tokens[i]);
  return SL_OK;
}

/* The token in front of a text: the token that ends texts or, for bytes, a newline. */
int32_t sl__coder_first(const sl__coder *c) {
  const int32_t end = sl__coder_end(c);
  return end >= 0 ? end : c->tokenizer && c->vocabulary == BYTES ? '\n' : 0;
}

/* As tokenize puts it between texts. */
int32_t sl__coder_end(const sl__coder *c) {
  const int32_t end = c->tokenizer ? sl_tokenizer_special(c->tokenizer, SL_SPECIAL_END) : -1;
  return end < 0 && c->tokenizer ? sl_tokenizer_special(c->tokenizer, SL_SPECIAL_SEP) : end;
}
