/* Settings: each row describes one field of a struct. The row is enough to read the field from text, show it, compare
 * it, write it to JSON and read it back, so a new field needs only its row and the code that uses it.
 *
 * A field without a value holds NULL (text, choice), -1 (integer, named), NaN (real) or 0 (flag). */
#ifndef SL_SETTING_H
#define SL_SETTING_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_setting_kind {
  SL_SETTING_TEXT,    /* char *, allocated */
  SL_SETTING_CHOICE,  /* char *, allocated: one of the words of `argument` */
  SL_SETTING_INTEGER, /* int64_t */
  SL_SETTING_REAL,    /* double */
  SL_SETTING_FLAG,    /* int, 0 or 1 */
  SL_SETTING_NAMED    /* an enum: the index of a name in `names` */
} sl_setting_kind;

typedef struct sl_setting {
  const char *field;  /* "learning_rate" */
  const char *option; /* "learning-rate" */
  sl_setting_kind kind;
  size_t offset;            /* of the field in its struct */
  const char *argument;     /* what help shows: "DIR"; the words of a choice: "on|off" */
  const char *const *names; /* of SL_SETTING_NAMED; ends with NULL */
  double least, most;       /* of numbers */
} sl_setting;

void sl_setting_unset(const sl_setting *setting, void *base); /* writes "not given"; frees nothing */
void sl_setting_free(const sl_setting *setting, void *base);
void sl_setting_copy(const sl_setting *setting, void *to, const void *from); /* numbers, flags and names only */
int sl_setting_given(const sl_setting *setting, const void *base);

/* Reads the field from text; NULL: a flag without a value. `where` begins a message: "--", or "FILE, line 3: ".
 * SL_EINVAL says which values there are. */
sl_status sl_setting_set(const sl_setting *setting, void *base, const char *where, const char *text);
/* The value as text, from which sl_setting_set reads the same value. NULL: the field has no value. */
enum { SL_SETTING_BYTES = 32 };
const char *sl_setting_text(const sl_setting *setting, const void *base, char text[SL_SETTING_BYTES]);
/* The argument that help shows after the option: "DIR", "sgd|adamw"; NULL for a flag. */
const char *sl_setting_argument(const sl_setting *setting, char *text, size_t n);

/* The value as JSON: string, number or boolean. NULL: out of memory, or a real that is not finite. */
json_t *sl_setting_to_json(const sl_setting *setting, const void *base);
/* SL_EFORMAT names the field if the value has another type or is an unknown name. Fields that hold text must be NULL or
 * allocated. */
sl_status sl_setting_from_json(const sl_setting *setting, void *base, const json_t *value);
int sl_setting_equal(const sl_setting *setting, const void *a, const void *b);

#ifdef __cplusplus
}
#endif
#endif
