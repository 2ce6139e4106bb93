/* Element types and shapes: the two facts about an array that everything else agrees on. Arrays are dense and
 * row-major; images are NHWC ([B, H, W, C]). */
#ifndef SL_TENSOR_H
#define SL_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, bytes per element, safetensors name */
#define SL_DTYPE_LIST(X) \
  X(SL_F32, 4, "F32")    \
  X(SL_F64, 8, "F64")    \
  X(SL_I32, 4, "I32")    \
  X(SL_U8, 1, "U8")      \
  X(SL_I64, 8, "I64")    \
  X(SL_F16, 2, "F16")    \
  X(SL_BF16, 2, "BF16")

typedef enum sl_dtype {
#define SL_DTYPE_ENUM(name, bytes, text) name,
  SL_DTYPE_LIST(SL_DTYPE_ENUM)
#undef SL_DTYPE_ENUM
      SL_DTYPE_COUNT
} sl_dtype;

enum { SL_MAX_DIMS = 6 };

typedef struct sl_shape {
  int ndim;
  int64_t dim[SL_MAX_DIMS];
} sl_shape;

/* SL_SHAPE(64, 10) is [64, 10]; every dimension an int64_t or convertible constant. */
#define SL_SHAPE(...) \
  sl_shape_make((const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
sl_shape sl_shape_make(const int64_t *dim, int ndim);
int64_t sl_shape_count(const sl_shape *shape); /* elements; 1 for a scalar (ndim 0) */
int64_t sl_shape_row(const sl_shape *shape);   /* elements per index of dimension 0 */
int sl_shape_equal(const sl_shape *a, const sl_shape *b);
/* Writes "[64, 28, 28, 1]" into text (at most n bytes) and returns text. */
char *sl_shape_text(const sl_shape *shape, char *text, size_t n);
enum { SL_SHAPE_TEXT = 128 };

/* A part of a whole array: elements [outer][from ... to - 1][inner] of [outer][size][inner], in this order. outer = 1:
 * a run of rows; inner = the columns of a unit: a run of columns. size 0: not a part. */
typedef struct sl_part {
  sl_shape whole; /* of outer * size * inner elements */
  int64_t outer, size, inner, from, to;
} sl_part;
/* Copies a part out of its whole array, or into it. bytes: of an element. */
void sl_part_take(const sl_part *part, size_t bytes, const void *whole, void *to);
void sl_part_put(const sl_part *part, size_t bytes, const void *from, void *whole);
/* A part's name is that of its whole array and "@2/4": the third of four. Writes the whole array's name. */
enum { SL_PART_NAME = 256 };
const char *sl_part_whole_name(const char *name, char text[SL_PART_NAME]);

size_t sl_dtype_bytes(sl_dtype dtype);
const char *sl_dtype_name(sl_dtype dtype); /* as safetensors spells it */

#ifdef __cplusplus
}
#endif
#endif
