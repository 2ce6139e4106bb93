/* Initial contents of parameters and state. */
#include "tasks/graph/init.h"

#include <string.h>

#include "runtime/numbers/hash.h"
#include "runtime/numbers/philox.h"

static void set(sl_dtype dtype, void *data, int64_t i, double x) {
  switch (dtype) {
    case SL_F32:
      ((float *)data)[i] = (float)x;
      break;
    case SL_F64:
      ((double *)data)[i] = x;
      break;
    case SL_I32:
      ((int32_t *)data)[i] = (int32_t)x;
      break;
    case SL_I64:
      ((int64_t *)data)[i] = (int64_t)x;
      break;
    default:
      break; /* no parameter has another type */
  }
}

/* Fills data with elements [from, to) of the tensor. */
static void fill(const sl_init *init, uint64_t seed, uint32_t key, sl_dtype dtype, int64_t from, int64_t to,
                 void *data) {
  if (init->kind == SL_INIT_CONSTANT) {
    if (init->a == 0)
      memset(data, 0, (size_t)(to - from) * sl_dtype_bytes(dtype));
    else
      for (int64_t i = from; i < to; i++) set(dtype, data, i - from, init->a);
    return;
  }
  for (int64_t first = from - from % 4; first < to; first += 4) {
    uint32_t word[4];
    double x[4];
    sl_random_u32x4(seed, 0, key, (uint64_t)first / 4, word);
    for (int k = 0; k < 4; k++)
      if (init->kind == SL_INIT_UNIFORM) {
        x[k] = (2 * ((word[k] >> 8) * 0x1p-24) - 1) * init->a;
      } else if (k % 2 == 0) {
        sl_random_normal2(word[k], word[k + 1], init->a, &x[k]);
      }
    for (int k = 0; k < 4; k++)
      if (first + k >= from && first + k < to) set(dtype, data, first + k - from, x[k]);
  }
}

void sl_init_fill(const sl_init *init, uint64_t seed, const char *name, sl_dtype dtype, const sl_shape *shape,
                  void *data) {
  fill(init, seed, sl_hash32_text(name), dtype, 0, sl_shape_count(shape), data);
}

void sl_init_fill_part(const sl_init *init, uint64_t seed, const char *name, sl_dtype dtype, const sl_part *p,
                       void *data) {
  const uint32_t key = sl_hash32_text(name);
  const size_t run = (size_t)(p->to - p->from) * (size_t)p->inner * sl_dtype_bytes(dtype);
  for (int64_t o = 0; o < p->outer; o++)
    fill(init, seed, key, dtype, (o * p->size + p->from) * p->inner, (o * p->size + p->to) * p->inner,
         (char *)data + (size_t)o * run);
}
