/* The tables that interchange goes by: for each format the names and layouts of its tensors, and where its sizes stand.
 * In names '#' is a number, '*' is anything, and '^' is a number that is one less than ours; what they match on one
 * side is put in on the other, in order. */
#ifndef SL_MODELS_FORMATS_H
#define SL_MODELS_FORMATS_H

#include "models/interchange/interchange.h"

/* How ours lies in the published array. */
typedef enum sl__layout {
  SL__SAME,
  SL__TRANSPOSED, /* [out, in] as [in, out] */
  SL__STACKED,    /* rows of q, k and v, which are three tensors there */
  SL__FILTERS, /* [O, kh, kw, C], or [O, kh kw C], as [O, C, kh, kw]; what has another number of dimensions: the same */
  SL__PADDED,  /* the same elements; there, `dims` dimensions, the first of them 1 */
  SL__LONGER   /* the same; a file may have more rows than are needed */
} sl__layout;

enum { SL__PARTS = 3 };
typedef struct sl__rule {
  const char *ours;
  sl__layout layout;
  const char *published[SL__PARTS]; /* one, or as many as are stacked */
  int dims;
} sl__rule;

/* How a size shows in the published tensors whose names match a pattern. For a list the pattern's first number is the
 * place in it. Where two rows of a table tell the same size, the later one counts. */
typedef enum sl__how {
  SL__UNSEEN, /* it does not show */
  SL__DIM,    /* a dimension */
  SL__COUNT,  /* how many there are: one more than the pattern's last number */
  SL__EXISTS, /* 1: there is one */
  SL__IS,     /* 1: a dimension is of this length */
  SL__SIDE    /* side of a square image: the root of a dimension, less one, times the size `patch` */
} sl__how;

/* A size: its key in config.json, and how it shows. */
typedef struct sl__key {
  const char *name;     /* NULL: config.json does not say it; it is then as the other sizes make it, or must show */
  const char *size;     /* row of the family's table; or of the data: SL__IMAGE, SL__CHANNELS */
  const char *standard; /* JSON that stands for an absent key; NULL: it must be there; "null": the size is open */
  sl__how how;
  const char *tensor;
  int dim, is;
  const char *const (*words)[2]; /* strings of config.json, and the size that each means; ended by NULL */
} sl__key;
#define SL__IMAGE "images' height and width"
#define SL__CHANNELS "images' channels"

/* A key that must have this value (as JSON text), or be absent. */
typedef struct sl__fixed {
  const char *name, *value;
} sl__fixed;

struct sl_format {
  const char *name, *library, *architecture;
  const sl_family *family;
  const char *sizes;   /* what all its networks have, as sl_sizes_parse reads it: "stem=0"; NULL: nothing in common */
  const char *square;  /* filters that have as many input as output channels unless they are grouped; NULL: none */
  const char *mark;    /* the published tensor that tells the format, without prefix */
  const char *classes; /* the published one that has a row for each class, or token */
  const char *prefix;  /* before the published names of what the head stands on; files may leave it out */
  const sl__rule *rules;
  const char *const (*spellings)[2]; /* endings of names: old, and what they are now */
  const char *const (*tied)[2];      /* may be there too: the same tensor as another */
  const char *const *buffers;        /* hold no weights */
  const char *const (*parts)[2];     /* parts of published networks that ours lack: names, and what to call them */
  int counters;                      /* 1: NAME.num_batches_tracked stands beside each NAME.running_var */
  int first;                         /* the number in names of the first place of a list */
  int has_config;                    /* 1: config.json is beside the weights */
  const sl__key *keys;
  const sl__fixed *fixed;
  const sl__fixed *written; /* written and not looked at */
  int labels;               /* 1: id2label names the classes */
};

extern const sl_format *const sl__formats[]; /* ended by NULL */

/* Whether name is of the pattern; if so, what the signs stood for goes into `other`'s, and the result into text. */
int sl__rename(const char *pattern, const char *name, const char *other, char *text, size_t n);
/* Whether a published name, without prefix and spelt as today, is of the pattern, spelt likewise; the numbers that '#'
 * and '^' stood for, at most two of them, -1 where there are fewer. */
int sl__name_matches(const sl_format *format, const char *pattern, const char *name, int64_t number[2]);

#endif
