/* IDX files (MNIST's format): two zero bytes, a type byte, the number of dimensions, the dimensions and the elements,
 * all big-endian; plain or gzip, told apart by content. Source: Y. LeCun, http://yann.lecun.com/exdb/mnist/.
 *
 * Nothing the header says is believed before the bytes are there: a file that promises more than it has, has more than
 * it promised, or fails gzip's checksum is SL_EFORMAT, named with what is wrong and where. */
#ifndef SL_IDX_H
#define SL_IDX_H

#include <stdint.h>

#include "runtime/base/mapping.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_IDX_MAX_DIMS = 4 };

/* Elements in the machine's byte order, 64-byte aligned. Types: unsigned byte as SL_U8; signed byte, short and int as
 * SL_I32; float as SL_F32; double as SL_F64. */
typedef struct sl_idx {
  sl_dtype dtype;
  sl_shape shape; /* 1 to SL_IDX_MAX_DIMS dimensions, each 0 or more */
  void *data;     /* sl_shape_count(&shape) elements; owned */
} sl_idx;

/* SL_ENOTFOUND, SL_EIO, SL_EFORMAT, SL_ENOMEM; on failure *idx is all zero. */
sl_status sl_idx_read(const char *path, sl_idx *idx);
/* The same of bytes in memory; `name` stands for the path in errors. */
sl_status sl_idx_read_bytes(const char *name, const void *bytes, size_t n, sl_idx *idx);
void sl_idx_clear(sl_idx *idx);

/* A plain file of unsigned bytes, mapped: nothing is read before it is used. sl_mapping_check(file) says whether the
 * file is still whole. */
typedef struct sl_idx_mapping {
  sl_shape shape;
  const uint8_t *data; /* sl_shape_count(&shape) bytes within the file; not aligned */
  sl_mapping *file;
} sl_idx_mapping;

/* The errors of sl_idx_read, and SL_EUNSUPPORTED where only that will do: gzip, other types, no regular file. On
 * failure *mapping is all zero. */
sl_status sl_idx_map(const char *path, sl_idx_mapping *mapping);
void sl_idx_unmap(sl_idx_mapping *mapping);

/* Writes dtype (SL_U8, SL_I32, SL_F32 or SL_F64) of the given shape atomically, gzip when path ends in ".gz". */
sl_status sl_idx_write(const char *path, sl_dtype dtype, const sl_shape *shape, const void *data);

#ifdef __cplusplus
}
#endif
#endif
