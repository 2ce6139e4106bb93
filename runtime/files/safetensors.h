/* Safetensors files: named arrays behind a JSON header; the format of models and checkpoints. Source: the format
 * section of https://github.com/huggingface/safetensors.
 *
 * The whole header is validated before any data is read: its length against the file, no duplicate key, known types,
 * sizes equal to shape times type, offsets in range, and data without overlaps or holes. Data is read straight into the
 * caller's memory, not mapped. So there is no second copy and no alignment to keep, and a file that is truncated
 * meanwhile gives an error, not SIGBUS. */
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
/* In the order of the data in the file; valid until closed. */
const sl_named_array *sl_safetensors_get(const sl_safetensors *st, int i);
/* The number of the tensor of that name, or -1. */
int sl_safetensors_find(const sl_safetensors *st, const char *name);
/* A string of __metadata__, or NULL. */
const char *sl_safetensors_metadata(const sl_safetensors *st, const char *key);
/* Reads the elements of tensor i into data, which must have room for them. SL_EIO, SL_EFORMAT (truncated file). */
sl_status sl_safetensors_read(const sl_safetensors *st, int i, void *data);

/* Writes the arrays in the given order, atomically; metadata is nmetadata pairs of strings (key, value). The same
 * arguments give the same bytes. SL_EINVAL (a name twice, or reserved), SL_EWRITE, SL_EIO. */
sl_status sl_safetensors_write(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                               int nmetadata);
/* The same file in memory; path is used in messages only. The caller must free(*bytes). SL_EINVAL, SL_ENOMEM. */
sl_status sl_safetensors_pack(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                              int nmetadata, char **bytes, size_t *size);
/* The beginning of such a file, up to the first array's data. path is used in messages only. The caller must
 * free(*bytes). */
sl_status sl_safetensors_head(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                              int nmetadata, char **bytes, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
