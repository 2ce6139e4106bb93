/* The models and their graphs: a training step, an evaluation, and a forward pass up to the logits for generating
 * text. */
#ifndef SL_MODELS_H
#define SL_MODELS_H

#include "codelets/training.h"
#include "models/data_kind.h"
#include "models/rate.h"
#include "models/size.h"
#include "tasks/graph/graph.h"
#include "tasks/graph/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A family of networks: one function builds them all, and they differ only in their sizes. */
typedef struct sl_family sl_family;
struct sl_family {
  const char *name;         /* "gpt2" */
  const char *summary;      /* "decoder-only transformers ..." */
  const sl_data_kind *data; /* kind of its data, which also determines the learned prediction: &sl_data_images */
  const sl_size *sizes;     /* table of its sizes; NULL: none */
  size_t size_bytes;        /* of its struct of sizes */
  /* Derives the open sizes and checks that the sizes are compatible; the error text names them. NULL: nothing to do. */
  sl_status (*complete)(void *sizes);
  /* Adds the layers and returns the logits: images F32 [B, H, W, C] to [B, classes], or tokens I32 [B, T] to [B, T,
   * classes]. sizes: complete. training: 1 in a training step. */
  sl_value (*build)(sl_graph *graph, sl_value x, const sl_model_data *data, const void *sizes,
                    const sl_training *options, int training);
  int any_size;                             /* 1: samples of any size fit the same parameters */
  sl_masking (*masking)(const void *sizes); /* of masked language models; sizes: complete */
  const sl_model *models;                   /* the named ones; the last has no name */
};

/* A model: a family, sizes, and the usual settings of training. */
struct sl_model {
  const char *name;
  const char *summary; /* "GPT-2, 124 million parameters" */
  const sl_family *family;
  const void *sizes;   /* the family's struct; open members are derived */
  int64_t batch;       /* usual global batch */
  int epochs;          /* usual number of epochs */
  sl_rate_kind rate;   /* usual schedule ... */
  double warmup;       /* ... and the warm-up's share of all steps */
  sl_model_data usual; /* usual sizes of its data; open ones are derived by the kind: images of 28 x 28 x 1 in 10
                          classes */
  sl_training training;
};

/* The members of sl_training that have the same value in most models. */
#define SL_TRAINING_USUAL .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

/* The families, ended by NULL. sl_model_at: model i of all families; NULL past the last. */
extern const sl_family *const sl_families[];
const sl_model *sl_model_at(int i);
sl_status sl_model_find(const char *name, const sl_model **model); /* SL_ENOTFOUND lists the names */

/* Copies the model with other sizes, such as "layers=6,width=72" (NULL: its own), and checks them. The caller must
 * free(*sized), one block. SL_ENOTFOUND: the error names a key that the family lacks. SL_EINVAL: the error names
 * incompatible sizes. */
sl_status sl_model_sized(const sl_model *model, const char *text, sl_model **sized);
/* The same with the sizes from a struct, and with the sizes from a JSON object, which holds those that differ from the
 * model's (NULL: none). */
sl_status sl_model_with(const sl_model *model, const void *sizes, sl_model **sized);
sl_status sl_model_from_json(const sl_model *model, const json_t *json, sl_model **sized);
json_t *sl_model_sizes_to_json(
    const sl_model *model); /* all sizes, in the form that sl_model_from_json reads; NULL: no memory */
/* Copies the model with all open sizes derived; the caller must free(*whole). */
sl_status sl_model_complete(const sl_model *model, sl_model **whole);
/* Finds the model of the list that differs from these sizes in the fewest sizes (of equals, the first), and copies it
 * with these sizes. The caller must free(*sized). */
sl_status sl_model_of_sizes(const sl_family *family, const void *sizes, sl_model **sized);
/* The size with this name, which must be a whole number that is never open. 0: the family lacks the size. */
int64_t sl_model_size(const sl_model *model, const char *name);
/* The model's name, and the sizes that differ from those in the list: "gpt2" or "gpt2 layers=6,width=72". */
char *sl_model_text(const sl_model *model, char *text, size_t n);
/* Only the sizes that differ, in the form that sl_model_sized reads; "": none. */
char *sl_model_sizes_text(const sl_model *model, char *text, size_t n);
/* A language model's usual window length (at most its positions) and usual vocabulary. */
int64_t sl_model_length(const sl_model *model);
int64_t sl_model_vocabulary(const sl_model *model);

/* ---- networks of any size, for models that the list lacks ------------------------------------------------------- */

/* activation: the sl_activation of the perceptrons, or 4: none; SL_ACTIVATION_NONE: the family's usual activation.
 * hidden: number of features inside the perceptrons; 0: 4 times width. eps: the number that the layernorms add to the
 * variance; 0: the family's usual eps. width: a multiple of heads. dropout: 0 in an evaluation. */

extern const sl_family sl_family_gpt2, sl_family_bert, sl_family_vit, sl_family_resnet;

/* A decoder-only transformer (gpt2.c): tokens I32 [B, T] to logits F32 [B, T, data->classes]; T at most positions. */
typedef struct sl_gpt_size {
  int64_t layers, heads, width, hidden, positions, vocabulary; /* vocabulary: the usual one; the graph uses
                                                                  data->classes */
  int64_t activation;
  double eps;
  int64_t untied; /* 1: the head has a weight of its own, head.weight; 0: wte.weight */
} sl_gpt_size;
sl_value sl_gpt(sl_graph *graph, sl_value tokens, const sl_model_data *data, const sl_gpt_size *size, double dropout);

/* BERT's encoder (bert.c), with its head for masked tokens: tokens I32 [B, T] to logits F32 [B, T, data->classes].
 * lengths: I32 [B], number of tokens of each sample before its padding; SL_NONE: no padding. types: number of rows of
 * the table of token types (0: 2); type: the row that all tokens use. mask: the token that replaces masked tokens;
 * tokens 0 to specials - 1 are never masked. If mask or specials is 0, it is derived from the vocabulary. */
typedef struct sl_bert_size {
  int64_t layers, heads, width, hidden, positions, vocabulary, types, type, mask, specials;
  int64_t activation;
  double eps;
  int64_t untied; /* 1: the decoder has weights of its own, head.decoder; 0: wte.weight and decoder.bias */
} sl_bert_size;
sl_value sl_bert(sl_graph *graph, sl_value tokens, sl_value lengths, const sl_model_data *data,
                 const sl_bert_size *size, double dropout);

/* A vision transformer (vit.c): images F32 [B, H, W, C] to logits F32 [B, data->classes]. If patch does not divide a
 * side of the image, the last pixels of that side are ignored. */
typedef struct sl_vit_size {
  int64_t layers, heads, width, hidden;
  int64_t patch;     /* pixels of a patch's side */
  int64_t stem;      /* 0: patches are cut out and projected; else two 3x3 convolutions of stride 2 make patches of 4,
                        the first with `stem` channels (Xiao et al. 2021) */
  int64_t distilled; /* 1: a distillation token follows the class token, as in DeiT (Touvron et al. 2021) */
  int64_t activation;
  double eps;
  int64_t unbiased; /* 1: the layers that make queries, keys and values have no biases */
} sl_vit_size;
sl_value sl_vit(sl_graph *graph, sl_value images, const sl_model_data *data, const sl_vit_size *size, double dropout);

/* A residual network (resnet.c): images F32 [B, H, W, C] to logits F32 [B, data->classes]. Names are torchvision's:
 * conv1, bn1, layer1.0.conv1, layer1.0.downsample.0, fc. */
typedef struct sl_resnet_size {
  int64_t bottleneck; /* 1: blocks of 1x1, 3x3, 1x1 convolutions; 0: basic blocks, 3x3 and 3x3 */
  int64_t small;      /* 1: begins with a 3x3 convolution; 0: with a 7x7 convolution of stride 2 and max-pooling by 2 */
  int64_t width;      /* channels of the first stage; each stage doubles them */
  int64_t blocks[SL_SIZE_LIST_MOST];   /* of each stage; stages after the first begin with stride 2 */
  int64_t stem;                        /* channels before the first stage; 0: width */
  int64_t channels[SL_SIZE_LIST_MOST]; /* of each stage's output; 0: derived from width, 4 times as many with
                                          bottlenecks */
  int64_t inner[SL_SIZE_LIST_MOST];    /* inside its bottlenecks; 0: a quarter of channels */
  int64_t first_stride;                /* of the first stage's first block; 0: 1 */
  int64_t early_stride; /* 1: a bottleneck's stride belongs to its first 1x1 convolution (He et al. 2015); 0: to its
                           3x3, as torchvision has it */
  int64_t activation;   /* behind the stem and at the end of each block; inside blocks it is relu. 0: relu */
} sl_resnet_size;
sl_value sl_resnet(sl_graph *graph, sl_value images, const sl_model_data *data, const sl_resnet_size *size,
                   sl_batchnorm_over batchnorm, int training);

/* Slots of sl_step.input. */
enum { SL_SLOT_SAMPLES, SL_SLOT_LABELS };

/* A graph, and the values that the users of the graph read. */
typedef struct sl_network {
  sl_graph *graph;
  size_t sample_bytes;     /* of one sample in slot SL_SLOT_SAMPLES */
  sl_value logits;         /* F32 [B, classes] or [B, T, classes] */
  sl_value probabilities;  /* the same shape; evaluation of images only */
  sl_value loss;           /* F64 [1], nats, mean over the labels that count */
  sl_value correct, count; /* F64 [1] */
  sl_value top5;           /* F64 [1], number of targets among the five largest logits; evaluation only */
  sl_value scale;          /* F64 [1], loss scale of this step; SL_NONE: none (all but fp16) */
  sl_value clip;           /* F64 [1], factor of the gradients; SL_NONE: no clipping. If it is not finite, nothing was
                              updated */
  int n_parameters;
  int64_t parameter_count; /* elements */
} sl_network;

/* A training step: forward, loss, gradients, clipping, update. Slot SL_SLOT_SAMPLES: images U8 [B, H, W, C], or windows
 * of tokens I32 [B, T + 1]. Masked language models read I32 [B, T]; seed and step choose the masked tokens. Slot
 * SL_SLOT_LABELS: labels I32 [B]; -1: the sample does not count. For windows only the sign matters. */
sl_status sl_network_training(const sl_model *model, const sl_model_data *data, const sl_training *options,
                              int64_t batch, sl_network *network);
/* Forward up to the logits, for generating text: tokens I32 [B, T] (T = data->length) in slot SL_SLOT_SAMPLES. Sets
 * only logits and sample_bytes. */
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
