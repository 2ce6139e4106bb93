/* Interchange: the weights of GPT-2, BERT and ViT as Hugging Face's transformers store them, of residual networks as
 * torchvision does, from and to our tensors. Which tensor is which, and how it lies in memory, is said by tables
 * (families.c); names and shapes are all that is gone by. */
#ifndef SL_INTERCHANGE_H
#define SL_INTERCHANGE_H

#include <jansson.h>

#include "models/models.h"
#include "runtime/files/weights.h"
#include "runtime/machine/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kind of network that is published under agreed names. */
typedef struct sl_family sl_family;
const char *sl_family_name(const sl_family *family);    /* "gpt2": model_type of config.json; "resnet" */
const char *sl_family_library(const sl_family *family); /* "hf" or "torchvision": whose names these are */
int sl_family_has_config(const sl_family *family);      /* 1: a config.json belongs to the weights */
/* Classes of a classifier, or tokens of the vocabulary, that the weights are for; 0: they lack that tensor. */
int64_t sl_family_classes(const sl_family *family, const sl_weights *weights);
/* NULL: none. */
const sl_family *sl_family_of_graph(const sl_graph *graph);
const sl_family *sl_family_of_weights(const sl_weights *weights);

/* How weights fit a network: a line for each tensor that does not, and counts of them. */
typedef struct sl_fit {
  int missing, wrong; /* no tensor of that name; another shape or type */
  int extra;          /* tensors of layers that the network has not */
  int unknown;        /* tensors that no rule knows: listed, and left out */
  int fresh;          /* left as they were: the new classifier */
  char *lines;        /* "missing  h.0.ln_1.weight: ...\n"; "" when all fits; to be freed */
} sl_fit;
void sl_fit_clear(sl_fit *fit);
/* Whether nothing that matters is amiss; else SL_EFORMAT with the counts. */
sl_status sl_fit_status(const sl_fit *fit, const char *path);

/* Fills the store's tensors that are parameters or state of the graph (a forward one: sl_network_evaluation) from
 * weights of the family, or, where it is NULL, of our own names. store NULL: only looks at names and shapes. head not
 * SL_NONE: the logits, whose own parameters are left alone (SL_EINVAL when they have none, being tied). All that does
 * not fit is told in *fit, and then nothing is to be made of the store. SL_OK means that the files could be read. */
sl_status sl_interchange_read(const sl_weights *weights, const sl_family *family, const sl_graph *graph,
                              sl_store *store, sl_value head, sl_fit *fit);

/* The network's tensors under the family's names and in its layouts. */
typedef struct sl_published {
  sl_named_array *arrays; /* data: the store's own, or of buffers */
  char **names;
  void **buffers;
  int n;
} sl_published;
/* The store must be at rest (acquired) as long as the arrays are used. SL_EUNSUPPORTED names a tensor without a rule.
 */
sl_status sl_interchange_arrays(const sl_family *family, const sl_graph *graph, const sl_store *store,
                                sl_published *published);
void sl_published_clear(sl_published *published);

/* Adds the graph's parameters and state to the store, zero. */
sl_status sl_interchange_store(const sl_graph *graph, sl_store *store);

/* ---- config.json ------------------------------------------------------------------------------------------------ */

typedef enum sl_size {
  SL_SIZE_LAYERS,
  SL_SIZE_HEADS,
  SL_SIZE_WIDTH,
  SL_SIZE_HIDDEN,
  SL_SIZE_POSITIONS,
  SL_SIZE_VOCABULARY,
  SL_SIZE_TYPES, /* of segments */
  SL_SIZE_IMAGE, /* height and width */
  SL_SIZE_PATCH,
  SL_SIZE_CHANNELS,
  SL_SIZE_COUNT
} sl_size;

/* What config.json says, or what a graph would have it say. */
typedef struct sl_config {
  const sl_family *family;
  int64_t size[SL_SIZE_COUNT]; /* 0: the family has no such size */
  double eps;                  /* of the layernorms */
  sl_gelu_form gelu;
  int64_t labels;     /* classes of a classifier; 0: not said, or none */
  char **label_names; /* [labels], or NULL; to be freed with sl_config_clear */
} sl_config;
void sl_config_clear(sl_config *config);

/* SL_EFORMAT and SL_EUNSUPPORTED name file, key and value. */
sl_status sl_config_read(const char *path, sl_config *config);
sl_status sl_config_of_graph(const sl_graph *graph, const sl_model_data *data, sl_config *config);
/* SL_ESHAPE lists all that differs: the file (path) says one thing, the network is another. Positions may be fewer in
 * the network than in the file. */
sl_status sl_config_compare(const sl_config *file, const char *path, const sl_config *network, const char *name);
/* What transformers' from_pretrained reads; *json is to be json_decref()ed. labels: config->label_names. */
sl_status sl_config_to_json(const sl_config *config, json_t **json);

#ifdef __cplusplus
}
#endif
#endif
