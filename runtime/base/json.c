/* JSON files by jansson. */
#include "runtime/base/json.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"

enum { JSON_LIMIT_BYTES = 256 << 20 };

sl_status sl_json_read(const char *path, json_t **value) {
  char *text;
  size_t n;
  json_error_t error;
  *value = NULL;
  SL_TRY(sl_file_read(path, JSON_LIMIT_BYTES, &text, &n));
  *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  free(text);
  if (!*value) return sl_fail(SL_EFORMAT, "%s, line %d, column %d: %s", path, error.line, error.column, error.text);
  return SL_OK;
}

char *sl_json_text(const json_t *value, size_t flags) {
  const size_t n = json_dumpb(value, NULL, 0, flags);
  char *text = n ? malloc(n + 1) : NULL;
  if (!text || json_dumpb(value, text, n, flags) != n) {
    free(text);
    return NULL;
  }
  text[n] = '\0';
  return text;
}

sl_status sl_json_write(const char *path, const json_t *value) {
  if (!value) return sl_fail(SL_EINVAL, "nothing to write to %s: a value could not be made JSON", path);
  char *text = sl_json_text(value, JSON_INDENT(2) | JSON_ENCODE_ANY);
  if (!text) return sl_no_memory("for writing %s", path);
  sl_file *file;
  sl_status status = sl_file_create(path, &file);
  if (status == SL_OK) {
    status = sl_file_write(file, text, strlen(text));
    if (status == SL_OK) status = sl_file_write(file, "\n", 1);
    if (status == SL_OK)
      status = sl_file_commit(file);
    else
      sl_file_discard(file);
  }
  free(text);
  return status;
}
