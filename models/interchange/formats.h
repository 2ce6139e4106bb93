/* The tables of interchange: the names and layouts of tensors in each format, and where to find the sizes. In names,
 * '#' matches a number, '*' any text, and '^' a number that is one less than Starling's. The matches of one name
 * replace the signs of the other name, in order. */
#ifndef SL_MODELS_FORMATS_H
#define SL_MODELS_FORMATS_H

#include "models/interchange/interchange.h"

/* The published layout of one of Starling's tensors. */
typedef enum sl__layout {
  SL__SAME,
  SL__TRANSPOSED, /* [out, in] as [in, out] */
  SL__STACKED,    /* rows of q, k and v, published as three tensors */
  SL__FILTERS,    /* [O, kh, kw, C] or [O, kh kw C] as [O, C, kh, kw]; tensors of other dimensions: the same */
  SL__PADDED,     /* the same elements in `dims` dimensions, the first of size 1 */
  SL__LONGER      /* the same; a file may have more rows than needed */
} sl__layout;

enum { SL__PARTS = 3 };
typedef struct sl__rule {
  const char *ours;
  sl__layout layout;
  const char *published[SL__PARTS]; /* one name, or one for each stacked tensor */
  int dims;
} sl__rule;

/* How to find a size in the published tensors whose names match a pattern. For a list, the pattern's first number is
 * the index. If two rows of a table give the same size, the later row counts. */
typedef enum sl__how {
  SL__UNSEEN, /* not in the tensors */
  SL__DIM,    /* a dimension */
  SL__COUNT,  /* number of matches: the pattern's largest last number + 1 */
  SL__EXISTS, /* 1: such a tensor exists */
  SL__LACKS,  /* 1: no such tensor exists */
  SL__IS,     /* 1: a dimension has length `is` */
  SL__SIDE    /* side of a square image: the root of (a dimension - 1, or - 2), times the size `patch` */
} sl__how;

/* A size: its key in config.json, and how to find it in the tensors. */
typedef struct sl__key {
  const char *name;     /* NULL: config.json lacks it; the tensors give it, or it is derived from other sizes */
  const char *size;     /* row of the family's table, or a size of the data: SL__IMAGE, SL__CHANNELS */
  const char *standard; /* JSON, the value of an absent key; NULL: the key is required; "null": the size is open */
  sl__how how;
  const char *tensor;
  int dim, is;
  const char *const (*words)[2]; /* strings of config.json, or "true" and "false" for its booleans, and the sizes that
                                    they mean; ended by NULL. SL__EXISTS ...: the word for 1 comes first */
} sl__key;
#define SL__IMAGE "images' height and width"
#define SL__CHANNELS "images' channels"

/* A key that must be absent or have this value (JSON text). */
typedef struct sl__fixed {
  const char *name, *value;
  const char *part; /* what Starling lacks for another value, in words */
} sl__fixed;

struct sl_format {
  const char *name, *library, *architecture;
  const sl_family *family;
  const char *sizes;   /* sizes that all its networks share, for sl_sizes_parse: "stem=0"; NULL: none */
  const char *square;  /* filters in which fewer input than output channels mean a grouped convolution; NULL: none */
  const char *mark;    /* the published tensor that identifies the format, without prefix */
  const char *classes; /* the published tensor with a row for each class or token */
  const char *prefix;  /* of the published names except the head's; files may leave it out */
  const sl__rule *rules;
  const char *const (*spellings)[2]; /* pairs: an old ending of names, the current ending */
  const char *const (*tied)[2];      /* pairs: the optional second name of a tied tensor, its first name */
  const char *const *buffers;        /* tensors without weights */
  const char *const (*parts)[2];     /* parts that our networks lack: patterns of names, and words for them */
  const char *const (*before)[2]; /* likewise, parts that the logits depend on: errors, unless the classifier is new */
  int counters;                   /* 1: each NAME.running_var has a NAME.num_batches_tracked */
  int first;                      /* the number in names that means index 0 of a list */
  int has_config;                 /* 1: config.json belongs to the weights */
  const sl__key *keys;
  const sl__fixed *fixed;
  const sl__fixed *written; /* keys that are written but not read */
  int labels;               /* 1: id2label names the classes */
};

extern const sl_format *const sl__formats[]; /* ended by NULL */

/* Whether `name` matches the pattern. If it does, sets `text` to `other`, with the signs in `other` replaced by the
 * matches. */
int sl__rename(const char *pattern, const char *name, const char *other, char *text, size_t n);
/* Whether a published name, without its prefix and with current endings, matches the pattern. number: the first two
 * numbers that '#' and '^' matched; -1: there are fewer. */
int sl__name_matches(const sl_format *format, const char *pattern, const char *name, int64_t number[2]);

#endif
