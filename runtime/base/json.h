/* JSON by jansson, read strictly (duplicate keys rejected); files are written atomically. Use these functions in place
 * of jansson's own: when memory runs out, jansson leaves out keys without an error. Here jansson's allocations have a
 * reserve. If the reserve does not suffice either, the value is not written, and the function fails with SL_ENOMEM. */
#ifndef SL_JSON_H
#define SL_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a text of n bytes, with jansson's flags for decoding. The caller must json_decref(*value). error, unless
 * NULL: where and why the text is malformed (SL_EFORMAT). SL_ENOMEM. */
sl_status sl_json_parse(const char *text, size_t n, size_t flags, json_t **value, json_error_t *error);
/* The same for a file. Errors name path, line and column. */
sl_status sl_json_read(const char *path, json_t **value);
/* The same for a file that Starling wrote, which must be regular (sl_file_open_regular). */
sl_status sl_json_read_regular(const char *path, json_t **value);
/* The value as text, with jansson's flags for encoding. The caller must free() it. NULL: out of memory, or value is
 * NULL. */
char *sl_json_text(const json_t *value, size_t flags);
/* Prints indented text and a newline. Real numbers have `digits` digits. SL_ENOMEM, also where value is NULL. */
sl_status sl_json_print(FILE *to, const json_t *value, int digits);
/* Writes indented text, keys in the order of insertion. The caller keeps its reference. A NULL value, which a failed
 * constructor such as json_real(NAN) returns, is SL_EINVAL. */
sl_status sl_json_write(const char *path, const json_t *value);

#ifdef __cplusplus
}
#endif
#endif
