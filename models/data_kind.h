/* Kinds of data, on which models are trained and scored. A kind is one descriptor in a file of models/data, such as
 * images.c. The descriptor says how samples are read, what a batch holds and what a run reports. All other code asks
 * the descriptor and does not distinguish kinds. To add a kind, add a file, and its name to DATA_KINDS in Makefile.am.
 * If its samples have sizes that no other kind has, add these as members of sl_model_data. */
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

/* The sizes of the data for which a model is built; they come from the data set. Images have height x width pixels,
 * `channels` channels and `classes` classes; windows have `length` tokens out of a vocabulary of `classes` tokens.
 * Members that a kind does not use are 0. */
typedef struct sl_model_data {
  int64_t height, width, channels, classes;
  int64_t length;
  /* Mean and deviation of the pixels of each channel, as parts of 255 (0 to 1). With more than SL_MAX_CHANNELS
   * channels, the first number applies to all. */
  double mean[SL_MAX_CHANNELS], deviation[SL_MAX_CHANNELS];
} sl_model_data;

typedef struct sl_data_options {
  const sl_model *model;
  const char *path;           /* NULL: the kind's usual set, if it has one */
  double validation_fraction; /* of the training samples, set aside; 0 <= f < 1 */
  uint64_t seed;              /* chooses the samples set aside */
  int64_t length;             /* of samples that are cut from longer ones; 0: the model's usual */
  int64_t vocabulary;         /* 0: that of the tokenizer beside the tokens, else the model's */
  int trained;                /* 1: the model is trained already: another mask than the tokenizer's is only warned of */
} sl_data_options;

/* An opened data set, or noise. */
typedef struct sl_data {
  const sl_data_kind *kind;
  void *set;                 /* the kind's own; NULL: not opened */
  struct sl__pool *pool;     /* noise; NULL: none */
  sl_model_data model;       /* sizes for which its models are built */
  int64_t n[SL_SPLIT_COUNT]; /* samples */
  char *path;                /* absolute path, or a list of several files; NULL: noise */
  char *tokenizer;           /* tokenizer.json beside the tokens; NULL: none */
  char **class_names;        /* [model.classes], the set's own; NULL: classes have no names */
  uint64_t digest;           /* of the samples; 0: the kind makes none */
} sl_data;

struct sl_data_kind {
  /* Words for messages. */
  const char *name;    /* "tokens", as in "a model of tokens" */
  const char *samples; /* what is read, in the plural: "windows" */
  const char *counted; /* what a score counts: "tokens" */
  const char *classes; /* what the model's classes are called: "kinds" */
  const char *rate;    /* unit of throughput: "tokens/s" */
  const char *files;   /* help text for --data; NULL: the text of an earlier kind in the list holds for this one, too */

  int perplexity;           /* 1: scores show the perplexity, and less loss is better; 0: more accuracy is */
  int classifies;           /* 1: a sample has one label, classes have names, an evaluation gives probabilities */
  int pictures;             /* 1: samples are U8 [height, width, channels], which augmentation and prediction take */
  int normalises;           /* 1: mean and deviation of sl_model_data are used */
  int continues;            /* 1: a model predicts the next token, so it can generate text */
  const char *classes_size; /* the model's size that is the number of classes: "vocabulary"; NULL: none is */

  /* ---- data sets ---- */
  /* Opens the data set that options->path names, and sets all members of *data but kind and pool. close closes `set`,
   * which may be NULL. */
  sl_status (*open)(const sl_data_options *options, sl_data *data);
  void (*close)(void *set);
  sl_sample_source (*source)(const sl_data *data, sl_split split);
  /* Writes lines "NAME: VALUE". The lines of two ranks differ if the ranks have different data. */
  void (*compare)(const sl_data *data, FILE *to);
  /* Fills one sample with noise, which comes from calls of random(state). */
  void (*make_up)(const sl_model_data *data, uint64_t (*random)(uint64_t *state), uint64_t *state, size_t bytes,
                  void *sample);

  /* ---- sizes ---- */
  /* The sizes for which the model is usually built; members of `wanted` above 0 take precedence. */
  void (*usual)(const sl_model *model, const sl_model_data *wanted, sl_model_data *data);
  char *(*size)(const sl_model_data *data, char *text, size_t n); /* of a sample: "256 tokens" */
  int64_t (*units)(const sl_model_data *data);                    /* of a sample, for the rate */
  /* Number of shards into which a batch of `samples` samples should be divided, if a sample has many rows of its own;
   * -1: the plan decides. */
  int64_t (*shards)(const sl_model *model, const sl_model_data *data, int64_t samples);
  /* Copies the sizes in which samples may differ, if the model takes samples of any size (sl_family.any_size). NULL:
   * samples may not differ. */
  void (*resize)(const sl_model_data *from, sl_model_data *data);

  /* ---- the graph ---- */
  /* Type and shape of a sample, as the loader gives it. */
  sl_dtype dtype;
  sl_shape (*shape)(const sl_model_data *data);
  /* Adds the nodes that turn a batch of samples and its labels (I32 [B], -1: the sample does not count) into the input
   * of the first layer and the targets of the loss. */
  sl_status (*prepare)(sl_graph *graph, const sl_model *model, const sl_model_data *data, sl_value samples,
                       sl_value labels, sl_value *input, sl_value *targets);

  /* ---- files ---- */
  /* The description of the data in model files. from_json: SL_EFORMAT: the error says what is wrong. */
  json_t *(*to_json)(const sl_model_data *data); /* NULL: no memory */
  sl_status (*from_json)(json_t *json, sl_model_data *data);
  /* For published weights. published: sets the normalisation that models of torchvision or Hugging Face have by
   * default. from_processor: reads preprocessor_config.json (sized: the sizes are known without this file).
   * to_processor: makes this file. NULL: the kind has none. */
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
/* Makes noise of the given sizes: a pool of samples in memory, which are read in turn. So reading a sample costs a
 * copy, as it does with a data set. */
sl_status sl_data_make_up(const sl_model *model, const sl_model_data *sizes, sl_data *data);
void sl_data_close(sl_data *data); /* a zeroed one is allowed */
sl_sample_source sl_data_source(const sl_data *data, sl_split split);

size_t sl_data_sample_bytes(const sl_data_kind *kind, const sl_model_data *data);
/* "images of 28x28x1" */
char *sl_data_text(const sl_data_kind *kind, const sl_model_data *data, char *text, size_t n);
/* Whether the descriptions of a and b in model files would be equal. */
int sl_data_equal(const sl_data_kind *kind, const sl_model_data *a, const sl_model_data *b);

#ifdef __cplusplus
}
#endif
#endif
