/* Element types and shapes. */
#include "runtime/base/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
  size_t bytes;
  const char *text;
} dtypes[SL_DTYPE_COUNT] = {
#define SL_DTYPE_ROW(name, bytes, text) {bytes, text},
    SL_DTYPE_LIST(SL_DTYPE_ROW)
#undef SL_DTYPE_ROW
};

size_t sl_dtype_bytes(sl_dtype dtype) { return dtypes[dtype].bytes; }
const char *sl_dtype_name(sl_dtype dtype) { return dtypes[dtype].text; }

sl_shape sl_shape_make(const int64_t *dim, int ndim) {
  sl_shape shape = {.ndim = ndim};
  if (ndim > 0) memcpy(shape.dim, dim, (size_t)ndim * sizeof *dim);
  return shape;
}

int64_t sl_shape_count(const sl_shape *shape) {
  int64_t n = 1;
  for (int i = 0; i < shape->ndim; i++) n *= shape->dim[i];
  return n;
}

int64_t sl_shape_row(const sl_shape *shape) {
  int64_t n = 1;
  for (int i = 1; i < shape->ndim; i++) n *= shape->dim[i];
  return n;
}

int sl_shape_equal(const sl_shape *a, const sl_shape *b) {
  return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

char *sl_shape_text(const sl_shape *shape, char *text, size_t n) {
  size_t used = 0;
  used += (size_t)snprintf(text, n, "[");
  for (int i = 0; i < shape->ndim && used < n; i++)
    used += (size_t)snprintf(text + used, n - used, i ? ", %lld" : "%lld", (long long)shape->dim[i]);
  if (used < n) snprintf(text + used, n - used, "]");
  return text;
}

static void move(const sl_part *p, size_t bytes, char *whole, char *part, int put) {
  const size_t run = (size_t)(p->to - p->from) * (size_t)p->inner * bytes,
               row = (size_t)p->size * (size_t)p->inner * bytes;
  whole += (size_t)p->from * (size_t)p->inner * bytes;
  for (int64_t o = 0; o < p->outer; o++, whole += row, part += run) memcpy(put ? whole : part, put ? part : whole, run);
}
void sl_part_take(const sl_part *p, size_t bytes, const void *whole, void *to) { move(p, bytes, (char *)whole, to, 0); }
void sl_part_put(const sl_part *p, size_t bytes, const void *from, void *whole) {
  move(p, bytes, whole, (char *)from, 1);
}

const char *sl_part_whole_name(const char *name, char text[SL_PART_NAME]) {
  snprintf(text, SL_PART_NAME, "%.*s", (int)strcspn(name, "@"), name);
  return text;
}
