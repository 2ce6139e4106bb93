/* Safetensors files: a JSON header, then named arrays; the format of models and checkpoints. Source: the format section
 * of https://github.com/huggingface/safetensors.
 *
 * The whole header is validated before any data is read: its length, keys (no duplicates), types, sizes (shape times
 * type), offsets, and data without overlaps or holes. Data is read straight into the caller's memory, not mapped: that
 * needs neither a second copy nor alignment, and a file that is truncated meanwhile gives an error, not SIGBUS. */
#ifndef SL_SAFETENSORS_H
#define SL_SAFETENSORS_H

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_named_array {
  const char *name;
  sl_dtype dtype;
  sl_shape shape;   /* ndim 0: a scalar */
  const void *data; /* data to write; NULL in arrays that a reader returns */
} sl_named_array;

typedef struct sl_safetensors sl_safetensors;

/* Reads and validates the header. SL_ENOTFOUND, SL_EIO, SL_EFORMAT (naming file, tensor and offset), SL_EUNSUPPORTED (a
 * type or a number of dimensions that Starling lacks), SL_ENOMEM. */
sl_status sl_safetensors_open(const char *path, sl_safetensors **st);
void sl_safetensors_close(sl_safetensors *st);

int sl_safetensors_count(const sl_safetensors *st);
/* Tensor i in the file's order; valid until closed. */
const sl_named_array *sl_safetensors_get(const sl_safetensors *st, int i);
/* The number of the tensor with that name; -1: none. */
int sl_safetensors_find(const sl_safetensors *st, const char *name);
/* A string of __metadata__, or NULL. */
const char *sl_safetensors_metadata(const sl_safetensors *st, const char *key);
/* Reads the elements of tensor i into data, which must have room for them. SL_EIO, SL_EFORMAT (truncated file). */
sl_status sl_safetensors_read(const sl_safetensors *st, int i, void *data);

/* Writes the arrays in the given order, atomically; metadata is nmetadata pairs of strings (key, value). The same
 * arguments give the same bytes. SL_EINVAL (a name twice, or reserved), SL_EWRITE, SL_EIO. */
sl_status sl_safetensors_write(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                               int nmetadata);
/* The same file in memory; path appears only in messages. The caller must free(*bytes). SL_EINVAL, SL_ENOMEM. */
sl_status sl_safetensors_pack(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                              int nmetadata, char **bytes, size_t *size);
/* Makes the beginning of such a file, up to the first array's data. path appears only in messages. The caller must
 * free(*bytes). */
sl_status sl_safetensors_head(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                              int nmetadata, char **bytes, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
