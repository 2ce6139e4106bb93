/* Interchange: reads and writes weights in the formats of Hugging Face's transformers and torchvision. Tables
 * (formats.c) map names and layouts of tensors. Only names, shapes and config.json decide how a tensor is mapped. */
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
const char *sl_format_name(const sl_format *format);    /* "gpt2": model_type of config.json; "resnet" */
const char *sl_format_library(const sl_format *format); /* the library that uses these names: "hf" or "torchvision" */
const sl_family *sl_format_family(const sl_format *format); /* of its networks */
int sl_format_has_config(const sl_format *format);          /* 1: a config.json belongs to the weights */
/* Number of classes of the classifier in the weights, or of tokens in their vocabulary; 0: the weights lack that
 * tensor. */
int64_t sl_format_classes(const sl_format *format, const sl_weights *weights);
/* The format of a file's tensors; NULL: the tensors have no known format. */
const sl_format *sl_format_of_weights(const sl_weights *weights);
/* The format of a library for a model. SL_EUNSUPPORTED: the error names the sizes that the format cannot express, and
 * the libraries that can express them. */
sl_status sl_format_of_model(const sl_model *model, const char *library, const sl_format **format);

/* How weights fit a network: a line for each tensor that does not fit, and counts. */
typedef struct sl_fit {
  int missing; /* the file has no tensor of that name */
  int wrong;   /* tensors of another shape or type; second copies of a tied tensor that differ from the first; parts in
                  front of the classifier that the network lacks */
  int extra;   /* tensors of layers that the network lacks */
  int unknown; /* tensors without a rule: listed and left out */
  int parts;   /* poolers, heads and other parts that the network lacks: left out, one line each */
  int fresh;   /* tensors of the new classifier, left as they were */
  char *lines; /* "missing h.0.ln_1.weight: ...\n"; "" if all fits; sl_fit_clear frees it */
} sl_fit;
void sl_fit_clear(sl_fit *fit);
/* SL_OK if no tensor is missing, wrong or extra; else SL_EFORMAT with the counts. */
sl_status sl_fit_status(const sl_fit *fit, const char *path);

/* Reads weights into the tensors of the store that are parameters or state of a forward graph (sl_network_evaluation).
 * format NULL: the weights have Starling's own names. store NULL: only compares names and shapes. head: the logits; the
 * parameters of the classifier that computes them stay unchanged. SL_NONE: reads these parameters, too. SL_EINVAL: the
 * classifier is tied. *fit lists every misfit; if there is one, the store is unusable. SL_OK means only that the files
 * could be read. */
sl_status sl_interchange_read(const sl_weights *weights, const sl_format *format, const sl_graph *graph,
                              sl_store *store, sl_value head, sl_fit *fit);

/* The tensors of a network, with the names and in the layouts of a format. */
typedef struct sl_published {
  sl_named_array *arrays; /* data: the store's memory, or one of buffers */
  char **names;
  void **buffers;
  int n;
} sl_published;
/* The caller must keep the store acquired while it uses the arrays. SL_EUNSUPPORTED: the error names a tensor for which
 * the format has no rule. */
sl_status sl_interchange_arrays(const sl_format *format, const sl_graph *graph, const sl_store *store,
                                sl_published *published);
void sl_published_clear(sl_published *published);

/* Adds the graph's parameters and state to the store, filled with zeros. */
sl_status sl_interchange_store(const sl_graph *graph, sl_store *store);

/* ---- config.json ------------------------------------------------------------------------------------------------ */

/* The sizes of a published network, from config.json or from the tensors' shapes. */
typedef struct sl_config {
  const sl_format *format;         /* NULL: nothing was read */
  void *sizes;                     /* the family's struct; 0: open or unknown */
  int64_t height, width, channels; /* of images; 0: unknown */
  int64_t labels;                  /* classes of a classifier; 0: unknown or none */
  char **label_names;              /* [labels], or NULL */
} sl_config;
void sl_config_clear(sl_config *config);

/* SL_EFORMAT, SL_EUNSUPPORTED: the error names file, key and value. */
sl_status sl_config_read(const char *path, sl_config *config);
/* Finds the sizes in names and shapes of the tensors. SL_EUNSUPPORTED: the error names a part that Starling lacks. */
sl_status sl_config_measure(const sl_format *format, const sl_weights *weights, sl_config *config);
/* Fills the sizes that config.json (path) leaves open with the measured sizes. SL_EFORMAT: the error lists all sizes
 * that differ. */
sl_status sl_config_take_measured(sl_config *config, const char *path, const sl_config *measured);
/* Compares the file's sizes (path) with the network's; SL_ESHAPE: the error lists all sizes that differ. The network
 * may have fewer positions than the file. */
sl_status sl_config_compare(const sl_config *file, const char *path, const sl_model *model, const sl_model_data *data);
/* Makes the config.json that transformers' from_pretrained reads; the caller must json_decref(*json). label_names:
 * [data->classes], or NULL. SL_EUNSUPPORTED: the error names a size that config.json cannot express. */
sl_status sl_config_to_json(const sl_format *format, const sl_model *model, const sl_model_data *data,
                            char *const *label_names, json_t **json);

#ifdef __cplusplus
}
#endif
#endif
