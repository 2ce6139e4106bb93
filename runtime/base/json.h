/* JSON files by jansson: read strictly (duplicate keys rejected), written atomically. */
#ifndef SL_JSON_H
#define SL_JSON_H

#include <jansson.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The caller must json_decref(*value). Errors name path, line and column. */
sl_status sl_json_read(const char *path, json_t **value);
/* The value as text, with jansson's flags. The caller must free() it. NULL: out of memory. Use it in place of
 * json_dumps, which can leave out a key and still succeed when memory runs out (jansson 2.14). */
char *sl_json_text(const json_t *value, size_t flags);
/* Writes indented text, keys in the order of insertion. The caller keeps its reference. A NULL value, which a failed
 * constructor such as json_real(NAN) returns, is SL_EINVAL. */
sl_status sl_json_write(const char *path, const json_t *value);

#ifdef __cplusplus
}
#endif
#endif
