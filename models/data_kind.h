/* Kinds of data: what models are trained and scored on. A kind is one descriptor in a file of models/data, such as
 * images.c: how samples are read, what a batch holds, what a run reports. Everything else asks the descriptor and tells
 * no kinds apart. A new kind is a file and its line in Makefile.am's DATA_KINDS; sizes of samples that no kind has had
 * before are new members of sl_model_data. */
#ifndef SL_DATA_KIND_H
#define SL_DATA_KIND_H

#include <jansson.h>
#include <stdio.h>

#include "codelets/codelets.h"
#include "models/data_kinds.h"
#include "runtime/data/loader.h"
#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_model sl_model;
typedef struct sl_data_kind sl_data_kind;

/* What a model is built for; it comes from the data set. Images of height x width x channels in `classes` classes; or
 * windows of `length` tokens out of a vocabulary of `classes`. Members that a kind does not use are 0. */
typedef struct sl_model_data {
  int64_t height, width, channels, classes;
  int64_t length;
  sl_masking masking; /* masked language models: of the vocabulary; to = 0: the model's usual one */
  /* Of pixels, as parts of 255 (0 to 1), of each channel; with more than SL_MAX_CHANNELS the first is for all. */
  double mean[SL_MAX_CHANNELS], deviation[SL_MAX_CHANNELS];
} sl_model_data;

typedef struct sl_data_options {
  const sl_model *model;
  const char *path;           /* NULL: the kind's usual set, if it has one */
  double validation_fraction; /* of the training samples, set aside; 0 <= f < 1 */
  uint64_t seed;              /* chooses the samples set aside */
  int64_t length;             /* of samples that are cut from longer ones; 0: the model's usual */
  int64_t vocabulary;         /* 0: that of the tokenizer beside the tokens, else the model's */
} sl_data_options;

/* An opened data set, or noise. */
typedef struct sl_data {
  const sl_data_kind *kind;
  void *set;                 /* the kind's own; NULL: not opened */
  struct sl__pool *pool;     /* noise; NULL: none */
  sl_model_data model;       /* what a model for it is built for */
  int64_t n[SL_SPLIT_COUNT]; /* samples */
  char *path;                /* absolute path, or a list of several files; NULL: noise */
  char *tokenizer;           /* tokenizer.json beside the tokens; NULL: none */
  char **class_names;        /* [model.classes], the set's own; NULL: classes have no names */
  uint64_t digest;           /* digest of the samples; 0: the kind has none, `compare` reveals other data */
} sl_data;

struct sl_data_kind {
  /* Words for messages. */
  const char *name;    /* "tokens", as in "a model of tokens" */
  const char *samples; /* what is read, in the plural: "windows" */
  const char *counted; /* what a score counts: "tokens" */
  const char *classes; /* what the model's classes are called: "kinds" */
  const char *rate;    /* unit of throughput: "tokens/s" */
  const char *files;   /* what a path may name, for help; NULL: an earlier kind of the list says so */

  int perplexity;           /* 1: scores show the perplexity, and less loss is better; 0: more accuracy is */
  int classifies;           /* 1: a sample has one label, classes have names, an evaluation gives probabilities */
  int pictures;             /* 1: samples are U8 [height, width, channels], which augmentation and prediction take */
  int normalises;           /* 1: mean and deviation of sl_model_data are used */
  int continues;            /* 1: a model foretells what follows a sequence, so it can write */
  const char *classes_size; /* the model's size that is the number of classes: "vocabulary"; NULL: none is */

  /* ---- data sets ---- */
  /* Opens what options->path names; fills in all but kind and pool. close takes `set`, which may be NULL. */
  sl_status (*open)(const sl_data_options *options, sl_data *data);
  void (*close)(void *set);
  sl_sample_source (*source)(const sl_data *data, sl_split split);
  /* Adds lines "NAME: VALUE" that differ if ranks have different data. */
  void (*compare)(const sl_data *data, FILE *to);
  /* Fills in one sample of noise by calling random(state). */
  void (*make_up)(const sl_model_data *data, uint64_t (*random)(uint64_t *state), uint64_t *state, size_t bytes,
                  void *sample);

  /* ---- sizes ---- */
  /* What the model is usually built for; members of `wanted` above 0 take precedence. */
  void (*usual)(const sl_model *model, const sl_model_data *wanted, sl_model_data *data);
  char *(*size)(const sl_model_data *data, char *text, size_t n); /* of a sample: "256 tokens" */
  int64_t (*units)(const sl_model_data *data);                    /* of a sample, for the rate */
  /* Number of shards that so many samples are worth, if a sample has many rows of its own; -1: the plan decides. */
  int64_t (*shards)(const sl_model *model, const sl_model_data *data, int64_t samples);
  /* Takes over the sizes that may differ between samples of a model of any size (sl_family.any_size). NULL: none may.
   */
  void (*resize)(const sl_model_data *from, sl_model_data *data);

  /* ---- the graph ---- */
  /* A sample as the loader gives it. */
  sl_dtype dtype;
  sl_shape (*shape)(const sl_model_data *data);
  /* Adds what turns a batch of them and its labels (I32 [B], -1: does not count) into the first layer's input and the
   * targets of the loss. */
  sl_status (*prepare)(sl_graph *graph, const sl_model *model, const sl_model_data *data, sl_value samples,
                       sl_value labels, sl_value *input, sl_value *targets);

  /* ---- files ---- */
  /* Model files describe the data by this. from_json: SL_EFORMAT says what is wrong. */
  json_t *(*to_json)(const sl_model_data *data); /* NULL: no memory */
  sl_status (*from_json)(json_t *json, sl_model_data *data);
  /* Published weights: normalisation as torchvision's models or Hugging Face's have it by default, then what
   * preprocessor_config.json says (sized: sizes are known without it); and that file. NULL: the kind has none. */
  void (*published)(int torchvision, sl_model_data *data);
  sl_status (*from_processor)(const json_t *json, int sized, sl_model_data *data);
  json_t *(*to_processor)(const sl_model_data *data);
};

#define SL_DATA_KIND(name) extern const sl_data_kind sl_data_##name;
SL_DATA_KINDS(SL_DATA_KIND)
#undef SL_DATA_KIND
extern const sl_data_kind *const sl_data_kinds[]; /* in the order of Makefile.am, ended by NULL */

/* Opens a data set of the kind that the model's family reads. */
sl_status sl_data_open(const sl_data_options *options, sl_data *data);
/* Noise of the given sizes: a pool of samples in memory, handed out in turn, so that reading one costs a copy, as it
 * does from a data set. */
sl_status sl_data_make_up(const sl_model *model, const sl_model_data *sizes, sl_data *data);
void sl_data_close(sl_data *data); /* a zeroed one is allowed */
sl_sample_source sl_data_source(const sl_data *data, sl_split split);

size_t sl_data_sample_bytes(const sl_data_kind *kind, const sl_model_data *data);
/* "images of 28x28x1" */
char *sl_data_text(const sl_data_kind *kind, const sl_model_data *data, char *text, size_t n);
/* Whether model files would describe both alike. */
int sl_data_equal(const sl_data_kind *kind, const sl_model_data *a, const sl_model_data *b);

#ifdef __cplusplus
}
#endif
#endif
