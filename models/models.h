/* The models, and the two graphs that each is used in: a training step and an evaluation. */
#ifndef SL_MODELS_H
#define SL_MODELS_H

#include "codelets/codelets.h"
#include "codelets/training.h"
#include "models/rate.h"
#include "tasks/graph/graph.h"
#include "tasks/graph/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a model is built for; it comes from the data set. Images of height x width x channels in `classes` classes; or,
 * where length is above 0, windows of that many tokens out of a vocabulary of `classes`. */
typedef struct sl_model_data {
  int64_t height, width, channels, classes;
  int64_t length;
  sl_masking masking; /* masked language models: of the vocabulary; to = 0: the model's usual one */
  /* Of pixels, as parts of 255 (0 to 1), of each channel; with more than SL_MAX_CHANNELS the first is for all. */
  double mean[SL_MAX_CHANNELS], deviation[SL_MAX_CHANNELS];
} sl_model_data;

/* What is learned: the class of an image; of each token of a window the one that follows; the tokens that were masked.
 */
typedef enum sl_task { SL_TASK_CLASSIFY, SL_TASK_NEXT_TOKEN, SL_TASK_MASKED_TOKEN } sl_task;

typedef struct sl_model sl_model;
struct sl_model {
  const char *name;
  const char *summary; /* "784-1024-1024-10 perceptron" */
  sl_task task;
  int64_t batch;     /* usual global batch */
  int epochs;        /* usual length */
  sl_rate_kind rate; /* usual schedule ... */
  double warmup;     /* ... and its warm-up, as a part of all steps */
  int64_t length;    /* language models: usual tokens of a window, and vocabulary; 0: a model of images */
  int64_t vocabulary;
  int64_t image[3], classes; /* models of images: usual height, width, channels, and classes; 0: 28 x 28 x 1, and 10 */
  sl_masking masking;        /* of masked language models, for that vocabulary */
  sl_training training;
  /* Adds the layers from x (images F32 [B, H, W, C], or tokens I32 [B, T]) to the logits ([B, classes], or [B, T,
   * classes]). training: 1 in a training step. */
  sl_value (*build)(sl_graph *graph, sl_value x, const sl_model_data *data, const sl_training *options, int training);
};

/* A decoder-only transformer of any size (transformer.c), for models beside those in the list: tokens I32 [B, T] to
 * logits F32 [B, T, data->classes]; T at most positions, width a multiple of heads. dropout: 0 in an evaluation. */
typedef struct sl_gpt_size {
  int layers, heads;
  int64_t width, positions;
} sl_gpt_size;
sl_value sl_gpt(sl_graph *graph, sl_value tokens, const sl_model_data *data, const sl_gpt_size *size, double dropout);

/* A residual network of any size (resnet.c), likewise: images F32 [B, H, W, C] to logits F32 [B, data->classes]. Names
 * are torchvision's: conv1, bn1, layer1.0.conv1, layer1.0.downsample.0, fc. */
typedef struct sl_resnet_size {
  int bottleneck; /* 1: blocks 1x1, 3x3, 1x1 to 4 times the width; 0: basic ones, 3x3 and 3x3 */
  int small;      /* 1: begins with a 3x3 convolution; 0: with a 7x7 one of stride 2, and max-pooling by 2 */
  int64_t width;  /* channels of the first stage; they double with each */
  int blocks[4];  /* of each stage, 0: the stage is left out; from the second on they begin with stride 2 */
} sl_resnet_size;
sl_value sl_resnet(sl_graph *graph, sl_value images, const sl_model_data *data, const sl_resnet_size *size,
                   sl_batchnorm_over batchnorm, int training);

/* A vision transformer of any size (vit.c), likewise. Of sides that patch does not divide, the last
 * pixels are not seen. */
typedef struct sl_vit_size {
  int layers, heads;
  int64_t width;
  int patch; /* pixels of a patch's side */
  int stem; /* 0: patches are cut and projected; else, with patches of 4, by two 3x3 convolutions of stride 2, the first
               with so many channels (Xiao et al. 2021) */
} sl_vit_size;
sl_value sl_vit(sl_graph *graph, sl_value images, const sl_model_data *data, const sl_vit_size *size, double dropout);

/* BERT's encoder of any size (bert.c), with its head for masked tokens: tokens I32 [B, T] to logits F32 [B, T,
 * data->classes]. lengths: I32 [B] tokens of a sample that are not padding, or SL_NONE: all. type: of all tokens, 0 or
 * 1. Others as above. */
typedef struct sl_bert_size {
  int layers, heads;
  int64_t width, positions, type;
} sl_bert_size;
sl_value sl_bert(sl_graph *graph, sl_value tokens, sl_value lengths, const sl_model_data *data,
                 const sl_bert_size *size, double dropout);

extern const sl_model *const sl_models[];                          /* ended by NULL */
sl_status sl_model_find(const char *name, const sl_model **model); /* SL_ENOTFOUND lists the names */

/* Slots of sl_step.input. */
enum { SL_SLOT_IMAGES, SL_SLOT_LABELS };

/* A graph and its values of interest. */
typedef struct sl_network {
  sl_graph *graph;
  size_t sample_bytes;     /* of one image or window in slot SL_SLOT_IMAGES */
  sl_value logits;         /* F32 [B, classes] or [B, T, classes] */
  sl_value probabilities;  /* the same shape; evaluation of images only */
  sl_value loss;           /* F64 [1], mean over the labels that count, nats */
  sl_value correct, count; /* F64 [1] */
  sl_value top5;           /* F64 [1], targets among the five largest logits; evaluation only */
  sl_value clip;           /* F64 [1], factor of the gradients; SL_NONE: not clipped. Not finite: nothing was updated */
  int n_parameters;
  int64_t parameter_count; /* elements */
} sl_network;

/* Images U8 [B, H, W, C], or windows of tokens I32 [B, T + 1] ([B, T] where tokens are masked: which ones depends on
 * the step's number and seed), in slot SL_SLOT_IMAGES; labels I32 [B] in SL_SLOT_LABELS
 * (-1: does not count; of windows only the sign matters). A training step: forward, loss, gradients, clipping, update.
 */
sl_status sl_network_training(const sl_model *model, const sl_model_data *data, const sl_training *options,
                              int64_t batch, sl_network *network);
/* Tokens I32 [B, T] (T = data->length) in slot SL_SLOT_IMAGES to logits and no further: for generating text. Its only
 * values are logits and sample_bytes. */
sl_status sl_network_logits(const sl_model *model, const sl_model_data *data, const sl_training *options, int64_t batch,
                            sl_network *network);
/* Forward only, with running statistics and no dropout. */
sl_status sl_network_evaluation(const sl_model *model, const sl_model_data *data, const sl_training *options,
                                int64_t batch, sl_network *network);
void sl_network_destroy(sl_network *network);

#ifdef __cplusplus
}
#endif
#endif
