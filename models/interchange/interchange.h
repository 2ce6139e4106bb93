/* Interchange: weights as Hugging Face's transformers and torchvision store them, from and to our tensors. Tables
 * (formats.c) say which tensor is which and how it lies in memory; only names, shapes and config.json are looked at. */
#ifndef SL_INTERCHANGE_H
#define SL_INTERCHANGE_H

#include <jansson.h>

#include "models/models.h"
#include "runtime/files/weights.h"
#include "runtime/machine/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A format: the names, layouts and config.json under which a library publishes the networks of a family. */
typedef struct sl_format sl_format;
const char *sl_format_name(const sl_format *format);        /* "gpt2": model_type of config.json; "resnet" */
const char *sl_format_library(const sl_format *format);     /* "hf" or "torchvision": whose names these are */
const sl_family *sl_format_family(const sl_format *format); /* of the networks */
int sl_format_has_config(const sl_format *format);          /* 1: a config.json belongs to the weights */
/* Classes of a classifier, or tokens of the vocabulary, that the weights are for; 0: they lack that tensor. */
int64_t sl_format_classes(const sl_format *format, const sl_weights *weights);
/* The format of a file's tensors; NULL: none. */
const sl_format *sl_format_of_weights(const sl_weights *weights);
/* A library's format for a model. SL_EUNSUPPORTED says what the library has no place for, and which libraries have. */
sl_status sl_format_of_model(const sl_model *model, const char *library, const sl_format **format);

/* How weights fit a network: a line for each tensor that does not, and counts of them. */
typedef struct sl_fit {
  int missing, wrong; /* no tensor of that name; another shape or type */
  int extra;          /* tensors of layers that the network has not */
  int unknown;        /* tensors that no rule knows: listed, and left out */
  int parts;          /* poolers, heads and other parts that the network lacks: a line each, and left out */
  int fresh;          /* left as they were: the new classifier */
  char *lines;        /* "missing  h.0.ln_1.weight: ...\n"; "" when all fits; to be freed */
} sl_fit;
void sl_fit_clear(sl_fit *fit);
/* Whether nothing that matters is amiss; else SL_EFORMAT with the counts. */
sl_status sl_fit_status(const sl_fit *fit, const char *path);

/* Fills the store's tensors that are parameters or state of the graph (a forward one: sl_network_evaluation) from
 * weights of the format, or, where it is NULL, of our own names. store NULL: only looks at names and shapes. head not
 * SL_NONE: the logits, whose own parameters are left alone (SL_EINVAL when they have none, being tied). All that does
 * not fit is told in *fit, and then nothing is to be made of the store. SL_OK means that the files could be read. */
sl_status sl_interchange_read(const sl_weights *weights, const sl_format *format, const sl_graph *graph,
                              sl_store *store, sl_value head, sl_fit *fit);

/* The network's tensors under the format's names and in its layouts. */
typedef struct sl_published {
  sl_named_array *arrays; /* data: the store's own, or of buffers */
  char **names;
  void **buffers;
  int n;
} sl_published;
/* The store must be at rest (acquired) as long as the arrays are used. SL_EUNSUPPORTED names a tensor without a rule.
 */
sl_status sl_interchange_arrays(const sl_format *format, const sl_graph *graph, const sl_store *store,
                                sl_published *published);
void sl_published_clear(sl_published *published);

/* Adds the graph's parameters and state to the store, zero. */
sl_status sl_interchange_store(const sl_graph *graph, sl_store *store);

/* ---- config.json ------------------------------------------------------------------------------------------------ */

/* The sizes of a published network: what config.json says, or what the tensors' shapes tell. */
typedef struct sl_config {
  const sl_format *format;         /* NULL: nothing was read */
  void *sizes;                     /* of the family's struct; 0: open, or not told */
  int64_t height, width, channels; /* of images; 0: not told */
  int64_t labels;                  /* classes of a classifier; 0: not said, or none */
  char **label_names;              /* [labels], or NULL */
} sl_config;
void sl_config_clear(sl_config *config);

/* SL_EFORMAT and SL_EUNSUPPORTED name file, key and value. */
sl_status sl_config_read(const char *path, sl_config *config);
/* From names and shapes of the tensors. SL_EUNSUPPORTED names a part that Starling lacks. */
sl_status sl_config_measure(const sl_format *format, const sl_weights *weights, sl_config *config);
/* Takes from the measured sizes those that config.json (path) leaves open. SL_EFORMAT lists all that differ. */
sl_status sl_config_take_measured(sl_config *config, const char *path, const sl_config *measured);
/* SL_ESHAPE lists all that differ: the file (path) says one thing, the network is another. Positions may be fewer in
 * the network than in the file. */
sl_status sl_config_compare(const sl_config *file, const char *path, const sl_model *model, const sl_model_data *data);
/* What transformers' from_pretrained reads; *json is to be json_decref()ed. label_names: [data->classes], or NULL.
 * SL_EUNSUPPORTED names a size that config.json has no place for. */
sl_status sl_config_to_json(const sl_format *format, const sl_model *model, const sl_model_data *data,
                            char *const *label_names, json_t **json);

#ifdef __cplusplus
}
#endif
#endif
