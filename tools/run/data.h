/* The data that a model is trained and scored on: an image set or a token set, as the model's task has it. What differs
 * between the two is told apart here, so that the subcommands need not. */
#ifndef SL_TOOLS_DATA_H
#define SL_TOOLS_DATA_H

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

typedef struct sl__data {
  sl_dataset *images; /* one of these, and the other is NULL */
  sl_tokens *tokens;
  sl_model_data model;       /* what the model is built for */
  int64_t n[SL_SPLIT_COUNT]; /* samples */
  char *path;                /* absolute; a list where several files make the set */
  char *tokenizer;           /* tokenizer.json beside the tokens; NULL: none */
  char **class_names;        /* [model.classes] of images; borrowed */
} sl__data;

sl_status sl__data_open(const sl__data_options *options, sl__data *data);
void sl__data_close(sl__data *data); /* a zeroed one is allowed */
sl_sample_source sl__data_source(const sl__data *data, sl_split split);

/* What is read: "images of 28x28x1", "windows of 256 tokens". */
char *sl__data_text(const sl_model_data *data, char *text, size_t n);
/* Whether samples are windows of tokens. */
static inline int sl__of_tokens(const sl_model *model) { return model->task != SL_TASK_CLASSIFY; }
/* "images", "windows" */
const char *sl__samples(const sl_model *model);
/* Tokens of a sample in slot SL_SLOT_IMAGES: one more than the model reads where it is to foretell each next one. */
int64_t sl__window(const sl_model *model, int64_t length);

#endif
