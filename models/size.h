/* Sizes: the numbers in which two networks of a family differ. Each family describes its sizes in one table, which
 * --size, YAML files, model files, config.json, help and manual all use. The values are members of the family's struct
 * (sl_gpt_size ...); each row of the table gives the offset of one member. A member that is 0 is open: the family
 * derives its value from the other members. */
#ifndef SL_SIZE_H
#define SL_SIZE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_size_kind {
  SL_SIZE_WHOLE, /* int64_t */
  SL_SIZE_LIST,  /* int64_t [SL_SIZE_LIST_MOST], 0 after the last number; as text "3-4-6-3" */
  SL_SIZE_REAL,  /* double */
  SL_SIZE_CHOICE /* int64_t: index into choices */
} sl_size_kind;
enum { SL_SIZE_LIST_MOST = 8 };

typedef struct sl_size {
  const char *name; /* "width"; NULL ends the table */
  const char *help; /* "columns of an embedding" */
  size_t offset;    /* of the member */
  sl_size_kind kind;
  double least, most;         /* of numbers */
  const char *derived;        /* the value of an open size, in words; NULL: it is never open */
  const char *const *choices; /* ended by NULL; "" cannot be chosen */
} sl_size;

const sl_size *sl_size_find(const sl_size *table, const char *name); /* NULL: no such size */

/* Sets members from "layers=6,width=72", each at most once; the other members stay unchanged. SL_ENOTFOUND: the error
 * names a key that the table lacks. SL_EINVAL: the error names a key whose value is out of range. `of` names the family
 * in error texts. */
sl_status sl_sizes_parse(const sl_size *table, const char *of, const char *text, void *sizes);
/* The same from a JSON object: numbers, arrays of numbers, choices as strings. */
sl_status sl_sizes_from_json(const sl_size *table, const char *of, const json_t *json, void *sizes);
/* One member from a JSON value. */
sl_status sl_size_from_json(const sl_size *size, const char *of, const json_t *value, void *sizes);
json_t *sl_size_to_json(const sl_size *size, const void *sizes);   /* NULL without memory */
json_t *sl_sizes_to_json(const sl_size *table, const void *sizes); /* the sizes that are not open; likewise */
/* One member as text; "": the member is open. */
char *sl_size_text(const sl_size *size, const void *sizes, char *text, size_t n);
/* All members that are not open, in the form that sl_sizes_parse reads. */
char *sl_sizes_text(const sl_size *table, const void *sizes, char *text, size_t n);
enum { SL_SIZES_TEXT = 512 };
int sl_size_equal(const sl_size *size, const void *a, const void *b);

#ifdef __cplusplus
}
#endif
#endif
