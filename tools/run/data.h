/* The data that a model is trained and scored on, behind one descriptor for each kind: images, or tokens. A new kind
 * (audio, say) is a file beside data_images.c that fills in an sl__data_kind, and its tasks' row in data.c; commands
 * ask the descriptor and tell no kinds apart. */
#ifndef SL_TOOLS_DATA_H
#define SL_TOOLS_DATA_H

#include <stdio.h>

#include "models/models.h"
#include "runtime/data/dataset.h"
#include "runtime/data/tokens.h"

typedef struct sl__data_options {
  const sl_model *model;
  const char *path; /* --data; NULL: the usual image set */
  double val_fraction;
  uint64_t seed; /* of the images set aside */
  int64_t length,
      vocabulary; /* of token models; 0: the model's, or the vocabulary of the tokenizer beside the tokens */
} sl__data_options;

typedef struct sl__data_kind sl__data_kind;

typedef struct sl__data {
  const sl__data_kind *kind;
  sl_dataset *images; /* at most one of these three is there */
  sl_tokens *tokens;
  struct sl__pool *pool;     /* samples made up */
  sl_model_data model;       /* what the model is built for */
  int64_t n[SL_SPLIT_COUNT]; /* samples */
  char *path;                /* absolute path, or a list of several files; NULL: synthetic data */
  char *tokenizer;           /* tokenizer.json beside the tokens; NULL: none */
  char **class_names;        /* [model.classes] of images; borrowed */
  uint64_t digest;           /* digest of the samples; 0 for images, whose means and deviations reveal other data */
} sl__data;

/* What commands need to know of a kind of data. */
struct sl__data_kind {
  const char *samples; /* what is read, in the plural: "windows" */
  const char *counted; /* what a score counts: "tokens" */
  const char *classes; /* what the classes of the model are called: "kinds" */
  const char *rate;    /* unit of throughput: "tokens/s" */
  /* 1: scores show the perplexity, and of two models the one of less loss is better; 0: the more accurate one. */
  int perplexity;
  int augments; /* whether --augment applies */

  /* Opens what options->path names; fills in all but kind. */
  sl_status (*open)(const sl__data_options *options, sl__data *data);
  sl_sample_source (*source)(const sl__data *data, sl_split split);
  /* "windows of 256 tokens" */
  void (*text)(const sl_model_data *data, char *text, size_t n);
  /* Contribution of a sample to the rate: 1, or its number of tokens. */
  int64_t (*units)(const sl_model_data *data);
  size_t (*sample_bytes)(const sl_model *model, const sl_model_data *data);
  /* Makes up one sample, of sample_bytes, by calling random(state). */
  void (*make_up)(const sl_model *model, const sl_model_data *data, uint64_t (*random)(uint64_t *state),
                  uint64_t *state, void *sample);
  /* Adds lines "NAME: VALUE" that differ if ranks have different data. */
  void (*compare)(const sl__data *data, FILE *to);
};

extern const sl__data_kind sl__data_images, sl__data_tokens;
const sl__data_kind *sl__data_kind_of(const sl_model *model);

sl_status sl__data_open(const sl__data_options *options, sl__data *data);
/* Noise of the given sizes for bench and calibrate: a pool of samples in memory, handed out in turn, so that reading
 * one costs a copy, as it does from a data set. */
sl_status sl__data_make_up(const sl_model *model, const sl_model_data *sizes, sl__data *data);
void sl__data_close(sl__data *data); /* a zeroed one is allowed */
sl_sample_source sl__data_source(const sl__data *data, sl_split split);

/* "images of 28x28x1" */
char *sl__data_text(const sl__data_kind *kind, const sl_model_data *data, char *text, size_t n);

#endif
