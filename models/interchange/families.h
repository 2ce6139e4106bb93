/* The tables that interchange goes by. In names '#' stands for a number and '*' for anything; what they stood for on
 * one side is put in on the other, in order. */
#ifndef SL_MODELS_FAMILIES_H
#define SL_MODELS_FAMILIES_H

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

/* A whole number of config.json, and where the network has it: dimension `dim` of tensor `tensor`; NULL: config.c
 * knows.
 */
typedef struct sl__key {
  const char *name;
  sl_size size;
  const char *tensor;
  int dim;
  int64_t standard; /* when the file does not say; 0: it must; -1: as another size makes it */
} sl__key;

/* A key that must have this value (as JSON text), or be absent. */
typedef struct sl__fixed {
  const char *name, *value;
} sl__fixed;

struct sl_family {
  const char *name, *library, *architecture;
  const char *marker;  /* the tensor of ours that tells the family: no other has it */
  const char *mark;    /* the published one, without prefix */
  const char *classes; /* the published one that has a row for each class, or token */
  const char *prefix;  /* before the published names of what the head stands on; files may leave it out */
  const sl__rule *rules;
  const char *const (*spellings)[2]; /* endings of names: old, and what they are now */
  const char *const (*tied)[2];      /* may be there too: the same tensor as another */
  const char *const *left_out;       /* what carries no weights that we use */
  int counters;                      /* 1: NAME.num_batches_tracked stands beside each NAME.running_var */
  const sl__key *keys;               /* NULL: there is no config.json */
  const char *eps_key, *gelu_key, *gelu_standard;
  double eps_standard;
  const sl__fixed *fixed;
  const sl__fixed *written; /* written and not looked at */
  int labels;               /* 1: id2label names the classes */
};

extern const sl_family *const sl__families[]; /* ended by NULL */

/* Whether name is of the pattern; if so, what '#' and '*' stood for goes into `other`'s, and the result into text. */
int sl__rename(const char *pattern, const char *name, const char *other, char *text, size_t n);

#endif
