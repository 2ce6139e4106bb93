/* IDX files (MNIST's format): two zero bytes, a type byte, the number of dimensions, the dimensions and the elements,
 * all big-endian. Plain or gzip; the content decides. Source: Y. LeCun, http://yann.lecun.com/exdb/mnist/.
 *
 * The header is not trusted: a file with fewer or more bytes than its header promises, or with a wrong gzip checksum,
 * gives SL_EFORMAT, and the error text says what is wrong at which byte. */
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
/* The same from bytes in memory; errors show `name` as the path. */
sl_status sl_idx_read_bytes(const char *name, const void *bytes, size_t n, sl_idx *idx);
void sl_idx_clear(sl_idx *idx);

/* A mapped, uncompressed file of unsigned bytes; pages are read when first used. sl_mapping_check(file) tells whether
 * the file is still whole. */
typedef struct sl_idx_mapping {
  sl_shape shape;
  const uint8_t *data; /* sl_shape_count(&shape) bytes within the file; not aligned */
  sl_mapping *file;
} sl_idx_mapping;

/* The errors of sl_idx_read, and SL_EUNSUPPORTED for files that only sl_idx_read can read: gzip, other types, not
 * regular. On failure *mapping is all zero. */
sl_status sl_idx_map(const char *path, sl_idx_mapping *mapping);
void sl_idx_unmap(sl_idx_mapping *mapping);

/* Writes an array of dtype SL_U8, SL_I32, SL_F32 or SL_F64 atomically, with gzip if path ends in ".gz". */
sl_status sl_idx_write(const char *path, sl_dtype dtype, const sl_shape *shape, const void *data);

#ifdef __cplusplus
}
#endif
#endif
