/* The models, and the two graphs that each is used in: a training step and an evaluation. */
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

/* A family: networks that one function builds and that differ in their sizes alone. */
typedef struct sl_family sl_family;
struct sl_family {
  const char *name;         /* "gpt2" */
  const char *summary;      /* "decoder-only transformers ..." */
  const sl_data_kind *data; /* that it reads, which also says what is learned: &sl_data_images */
  const sl_size *sizes;     /* the rows of its table; NULL: it has no sizes */
  size_t size_bytes;        /* of its struct of sizes */
  /* Derives the members that are open, and checks what goes together; the text names the sizes. NULL: nothing to do. */
  sl_status (*complete)(void *sizes);
  /* Adds the layers from x (images F32 [B, H, W, C], or tokens I32 [B, T]) to the logits ([B, classes], or [B, T,
   * classes]). sizes: complete. training: 1 in a training step. */
  sl_value (*build)(sl_graph *graph, sl_value x, const sl_model_data *data, const void *sizes,
                    const sl_training *options, int training);
  int any_size;                             /* 1: samples of any size fit the same parameters */
  sl_masking (*masking)(const void *sizes); /* of masked language models; sizes: complete */
  const sl_model *models;                   /* those of the list; the last has no name */
};

/* A model: a family, its sizes, and how it is usually trained. */
struct sl_model {
  const char *name;
  const char *summary; /* "GPT-2, 124 million parameters" */
  const sl_family *family;
  const void *sizes;   /* of the family's struct; open members are derived */
  int64_t batch;       /* usual global batch */
  int epochs;          /* usual length */
  sl_rate_kind rate;   /* usual schedule ... */
  double warmup;       /* ... and its warm-up, as a part of all steps */
  sl_model_data usual; /* usual sizes of its data; open ones are the kind's: images of 28 x 28 x 1 in 10 classes */
  sl_training training;
};

/* Members of sl_training that most models have in common. */
#define SL_TRAINING_USUAL .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

/* The families, ended by NULL, and the models of all of them, one after another (NULL past the last). */
extern const sl_family *const sl_families[];
const sl_model *sl_model_at(int i);
sl_status sl_model_find(const char *name, const sl_model **model); /* SL_ENOTFOUND lists the names */

/* The model with other sizes: "layers=6,width=72" (NULL: its own), checked. One block, the caller's to free().
 * SL_ENOTFOUND names a key that the family lacks, SL_EINVAL sizes that do not go together. */
sl_status sl_model_sized(const sl_model *model, const char *text, sl_model **sized);
/* The same from a struct of sizes, and from a JSON object of those that are not the model's (NULL: none). */
sl_status sl_model_with(const sl_model *model, const void *sizes, sl_model **sized);
sl_status sl_model_from_json(const sl_model *model, const json_t *json, sl_model **sized);
json_t *sl_model_sizes_to_json(
    const sl_model *model); /* all of them, as sl_model_from_json reads them; NULL: no memory */
/* The model with all open sizes derived; likewise the caller's to free(). */
sl_status sl_model_complete(const sl_model *model, sl_model **whole);
/* The model of the list whose sizes differ from these in the fewest rows, the first of equals, as a model of these
 * sizes; likewise the caller's to free(). */
sl_status sl_model_of_sizes(const sl_family *family, const void *sizes, sl_model **sized);
/* A size that is a whole number and never open; 0: the family has none of that name. */
int64_t sl_model_size(const sl_model *model, const char *name);
/* The model as people name it: "gpt2", or where sizes differ from the list's "gpt2 layers=6,width=72". */
char *sl_model_text(const sl_model *model, char *text, size_t n);
/* Those differences alone, as sl_model_sized takes them; "": none. */
char *sl_model_sizes_text(const sl_model *model, char *text, size_t n);
/* Usual data of a language model: its length, at most its positions, and its vocabulary. */
int64_t sl_model_length(const sl_model *model);
int64_t sl_model_vocabulary(const sl_model *model);

/* ---- networks of any size, for models beside those of the list --------------------------------------------------- */

/* activation: sl_activation of the perceptrons; SL_ACTIVATION_NONE: the family's usual one. hidden: features inside
 * them; 0: 4 times width. eps: of the layernorms; 0: the family's usual one. width is a multiple of heads. dropout: 0
 * in an evaluation. */

extern const sl_family sl_family_gpt2, sl_family_bert, sl_family_vit, sl_family_resnet;

/* A decoder-only transformer (gpt2.c): tokens I32 [B, T] to logits F32 [B, T, data->classes]; T at most positions. */
typedef struct sl_gpt_size {
  int64_t layers, heads, width, hidden, positions, vocabulary; /* vocabulary: usual; data->classes decides */
  int64_t activation;
  double eps;
} sl_gpt_size;
sl_value sl_gpt(sl_graph *graph, sl_value tokens, const sl_model_data *data, const sl_gpt_size *size, double dropout);

/* BERT's encoder (bert.c), with its head for masked tokens: tokens I32 [B, T] to logits F32 [B, T, data->classes].
 * lengths: I32 [B] tokens of a sample that are not padding, or SL_NONE: all. type: the row of the token types (`types`
 * of them, 0: 2) that all tokens have. mask, specials: the token that hides others, and how many tokens from 0 on are
 * never hidden; 0: as the vocabulary has it. */
typedef struct sl_bert_size {
  int64_t layers, heads, width, hidden, positions, vocabulary, types, type, mask, specials;
  int64_t activation;
  double eps;
} sl_bert_size;
sl_value sl_bert(sl_graph *graph, sl_value tokens, sl_value lengths, const sl_model_data *data,
                 const sl_bert_size *size, double dropout);

/* A vision transformer (vit.c): images F32 [B, H, W, C] to logits F32 [B, data->classes]. Of sides that patch does not
 * divide, the last pixels are not seen. */
typedef struct sl_vit_size {
  int64_t layers, heads, width, hidden;
  int64_t patch;     /* pixels of a patch's side */
  int64_t stem;      /* 0: patches are cut and projected; else, with patches of 4, by two 3x3 convolutions of stride 2,
                        the first with so many channels (Xiao et al. 2021) */
  int64_t distilled; /* 1: a second token behind the class token, as DeiT has it (Touvron et al. 2021) */
  int64_t activation;
  double eps;
} sl_vit_size;
sl_value sl_vit(sl_graph *graph, sl_value images, const sl_model_data *data, const sl_vit_size *size, double dropout);

/* A residual network (resnet.c), likewise. Names are torchvision's: conv1, bn1, layer1.0.conv1, layer1.0.downsample.0,
 * fc. */
typedef struct sl_resnet_size {
  int64_t bottleneck; /* 1: blocks 1x1, 3x3, 1x1; 0: basic ones, 3x3 and 3x3 */
  int64_t small;      /* 1: begins with a 3x3 convolution; 0: with a 7x7 one of stride 2, and max-pooling by 2 */
  int64_t width;      /* of the first stage; doubles with each */
  int64_t blocks[SL_SIZE_LIST_MOST];   /* of each stage; from the second on they begin with stride 2 */
  int64_t stem;                        /* channels that the stages begin with; 0: width */
  int64_t channels[SL_SIZE_LIST_MOST]; /* that each stage gives; 0: from width, and 4 times that of bottlenecks */
  int64_t inner[SL_SIZE_LIST_MOST];    /* inside its bottlenecks; 0: a fourth of channels */
} sl_resnet_size;
sl_value sl_resnet(sl_graph *graph, sl_value images, const sl_model_data *data, const sl_resnet_size *size,
                   sl_batchnorm_over batchnorm, int training);

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
