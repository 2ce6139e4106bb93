/* Helpers shared by the readers and writers of tokenizer files. */
#include "runtime/text/tokenizer_json.h"

#include <string.h>

sl_status sl__json_flag(const char *path, const json_t *object, const char *key, int *value) {
  const char *dot = strrchr(key, '.');
  const json_t *found = json_object_get(object, dot ? dot + 1 : key);
  if (!found || json_is_null(found)) return SL_OK;
  if (!json_is_boolean(found)) return sl_fail(SL_EFORMAT, "%s: %s is neither true nor false", path, key);
  *value = json_is_true(found);
  return SL_OK;
}

const char *sl__json_type(const json_t *object) {
  const char *type = json_string_value(json_object_get(object, "type"));
  return type ? type : "none";
}

int sl__json_null(const json_t *value) { return !value || json_is_null(value); }

sl_status sl__unsupported(const char *path, const char *key, const char *what) {
  return sl_fail(
      SL_EUNSUPPORTED,
      "%s: %s is %s, which is not supported: Starling reads byte-level BPE as in GPT-2, and WordPiece as in BERT", path,
      key, what);
}

sl_status sl__unknown_of(const char *path, const json_t *model, sl_tokenizer *t) {
  const json_t *unknown = json_object_get(model, "unk_token");
  if (sl__json_null(unknown)) return SL_OK;
  const char *text = json_string_value(unknown);
  const int64_t id = text ? sl__strings_find(&t->names, text, strlen(text)) : -1;
  if (id < 0)
    return sl_fail(SL_EFORMAT, "%s: model.unk_token '%s' is not in the vocabulary", path, text ? text : "(no text)");
  t->unknown = (int32_t)id;
  return SL_OK;
}

json_t *sl__json_name(const sl_tokenizer *t, size_t id) {
  size_t n;
  const char *name = sl__strings_get(&t->names, id, &n);
  return json_stringn(name, n);
}

json_t *sl__json_added(const sl_tokenizer *t) {
  json_t *list = json_array();
  for (size_t i = 0; i < t->n_added; i++) {
    const sl__added *a = &t->added[i];
    json_array_append_new(
        list, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", a->id, "content", sl__json_name(t, (size_t)a->id),
                        "single_word", a->single_word, "lstrip", a->lstrip, "rstrip", a->rstrip, "normalized",
                        a->normalized, "special", a->special));
  }
  return list;
}

int sl__next_line(char **at, char *end, char **line, size_t *n) {
  if (*at >= end) return 0;
  char *newline = memchr(*at, '\n', (size_t)(end - *at)), *stop = newline ? newline : end;
  *line = *at, *n = (size_t)(stop - *at);
  *at = newline ? newline + 1 : end;
  if (*n > 0 && (*line)[*n - 1] == '\r') --*n;
  return 1;
}

sl_status sl__add_specials(sl_tokenizer *t, const char *const *names) {
  for (; *names; names++) {
    const int64_t id = sl__strings_find(&t->names, *names, strlen(*names));
    if (id >= 0) SL_TRY(sl__tokenizer_add(t, (int32_t)id, *names, (sl__added){.special = 1}));
  }
  return SL_OK;
}
