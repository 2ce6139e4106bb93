/* Model files: safetensors files whose metadata hold everything else that evaluation needs (architecture, input,
 * normalisation, class names), so that one file suffices. A checkpoint has the same metadata and is read like a model
 * file. */
#ifndef SL_TOOLS_MODEL_FILE_H
#define SL_TOOLS_MODEL_FILE_H

#include <jansson.h>

#include "models/interchange/interchange.h"
#include "runtime/data/augment.h"
#include "runtime/machine/store.h"

/* The metadata of a model file. */
typedef struct sl__model_facts {
  const sl_model *model;
  sl_model *sized; /* the model's memory if its sizes are not the list's; freed with the file */
  sl_model_data data;
  sl_training training;
  sl_plan plan;
  double val_fraction;
  sl_augment augment; /* of the training images */
  char **class_names; /* [data.classes] for images; NULL or empty for tokens */
  int64_t step;       /* after which the parameters were saved */
} sl__model_facts;

/* Writes the parameters and state of graph, an evaluation's. */
sl_status sl__model_save(const char *path, sl_store *store, const sl_graph *graph, const sl__model_facts *facts);
/* The file's content in memory; path is used in messages only. The caller must free(*bytes). */
sl_status sl__model_pack(const char *path, sl_store *store, const sl_graph *graph, const sl__model_facts *facts,
                         char **bytes, size_t *size);
/* The same metadata for a checkpoint's header; NULL without memory. */
json_t *sl__model_metadata(const sl__model_facts *facts);

typedef struct sl__model_file sl__model_file;
/* path: a model file, a checkpoint, a run directory (its model.safetensors), or published weights: a folder, a file or
 * an index, whose model follows from config.json or the shapes. */
sl_status sl__model_open(const char *path, sl__model_file **file);
/* A checkpoint, of whose parts it verifies a share (sl_checkpoint_open_share in runtime/files/checkpoint.h). */
sl_status sl__model_open_share(const char *path, int share, int shares, sl__model_file **file);
/* What the user states about published weights. */
typedef struct sl__model_wish {
  const sl_model *model; /* NULL: not stated; ignored if the weights are of another family */
  const char *sizes;     /* sizes that are fixed, in the form of --size; NULL: none */
  int exactly;           /* 1: these sizes override the weights' */
} sl__model_wish;
sl_status sl__model_open_as(const char *path, const sl__model_wish *wish, sl__model_file **file);
void sl__model_close(sl__model_file *file);                            /* NULL is allowed */
const sl__model_facts *sl__model_facts_of(const sl__model_file *file); /* valid until closed */
const char *sl__model_path(const sl__model_file *file);
const sl_format *sl__model_format(const sl__model_file *file); /* of published weights; NULL: written by Starling */
int sl__model_has(const sl__model_file *file, const char *tensor);
/* Another member of a checkpoint's header; SL_EFORMAT if it is missing. The caller calls json_decref(). */
sl_status sl__model_member(const sl__model_file *file, const char *key, json_t **value);
/* Reads this rank's tensors of the store (those of graph; NULL: all) from the file. SL_EFORMAT names a tensor that is
 * missing or does not fit. lenient: state of training that the file lacks stays as it is. */
sl_status sl__model_read(const sl__model_file *file, sl_store *store, const sl_graph *graph, int lenient);
/* Reads one tensor of the file, which must have tensor's name, type and shape, into data. */
sl_status sl__model_read_tensor(const sl__model_file *file, const sl_tensor *tensor, void *data);
/* Reads the tensors of the model's network (an evaluation on such data) into the store, from a model file or published
 * weights. Logs each tensor that does not fit. new_head: leaves the classifier unchanged. */
sl_status sl__model_fill(const sl__model_file *file, sl_store *store, const sl_network *network, const sl_model *model,
                         const sl_model_data *data, int new_head);

#endif
