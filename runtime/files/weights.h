/* Weights as other libraries publish them: named arrays in one safetensors file, or in several files and an index (a
 * JSON file whose weight_map gives each tensor's file). All are read as F32, whatever their stored type. */
#ifndef SL_WEIGHTS_H
#define SL_WEIGHTS_H

#include "runtime/files/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_WEIGHTS_FILE "model.safetensors"
#define SL_WEIGHTS_INDEX "model.safetensors.index.json"

typedef struct sl_weights sl_weights;

/* path: a safetensors file, an index (its name ends in .json), a checkpoint (checkpoint.h), or a folder with
 * model.safetensors or with model.safetensors.index.json. Errors are those of sl_safetensors_open. An index must list
 * exactly the tensors of its files, which lie beside it. SL_EFORMAT names index, tensor and file. */
sl_status sl_weights_open(const char *path, sl_weights **weights);
/* A checkpoint, of whose parts it verifies a share (sl_checkpoint_open_share). */
sl_status sl_weights_open_share(const char *path, int share, int shares, sl_weights **weights);
sl_status sl_weights_open_index(const char *path, sl_weights **weights); /* whatever its name ends in */
void sl_weights_close(sl_weights *weights);                              /* NULL is allowed */

const char *sl_weights_path(const sl_weights *weights); /* the file or index that was opened */
int sl_weights_count(const sl_weights *weights);
/* Tensor i in the order of files, then of data; valid until closed. */
const sl_named_array *sl_weights_get(const sl_weights *weights, int i);
int sl_weights_find(const sl_weights *weights, const char *name); /* -1 when there is none */
/* The file that holds tensor i. */
const char *sl_weights_file(const sl_weights *weights, int i);
/* A string of the first file's __metadata__, or of a checkpoint's header; NULL when there is none. */
const char *sl_weights_metadata(const sl_weights *weights, const char *key);
/* Tensor i's elements as F32: F16 and BF16 are converted, which is exact. SL_EUNSUPPORTED names a tensor of another
 * type; SL_EIO, SL_EFORMAT as sl_safetensors_read. */
sl_status sl_weights_read(const sl_weights *weights, int i, float *data);

/* The same elements in their stored type. */
sl_status sl_weights_read_as_is(const sl_weights *weights, int i, void *data);

/* Writes the arrays into an existing folder: as model.safetensors or, if they take more than shard_bytes (0: no limit),
 * as an index and files of at most shard_bytes, or of one larger tensor. */
sl_status sl_weights_write(const char *folder, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                           int nmetadata, int64_t shard_bytes);

#ifdef __cplusplus
}
#endif
#endif
