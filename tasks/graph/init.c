/* First contents of parameters and state. */
#include <string.h>

#include "runtime/base/philox.h"
#include "tasks/graph/bits.h"
#include "tasks/starpu/program.h"

static void set(sl_tensor *t, int64_t i, double x) {
  switch (t->dtype) {
    case SL_F32:
      ((float *)t->data)[i] = (float)x;
      break;
    case SL_F64:
      ((double *)t->data)[i] = x;
      break;
    case SL_I32:
      ((int32_t *)t->data)[i] = (int32_t)x;
      break;
    case SL_I64:
      ((int64_t *)t->data)[i] = (int64_t)x;
      break;
    default:
      break; /* no parameter has another type */
  }
}

void sl_tensor_init(sl_tensor *t, const sl_init *init, uint64_t seed) {
  int64_t n = sl_shape_count(&t->shape);
  uint32_t key = sl__hash_text(t->name);
  if (init->kind == SL_INIT_CONSTANT) {
    if (init->a == 0)
      memset(t->data, 0, (size_t)n * sl_dtype_bytes(t->dtype));
    else
      for (int64_t i = 0; i < n; i++) set(t, i, init->a);
    return;
  }
  for (int64_t first = 0; first < n; first += 4) {
    uint32_t word[4];
    double x[4];
    sl_random_u32x4(seed, 0, key, (uint64_t)first / 4, word);
    for (int k = 0; k < 4; k++)
      if (init->kind == SL_INIT_UNIFORM) {
        x[k] = (2 * ((word[k] >> 8) * 0x1p-24) - 1) * init->a;
      } else if (k % 2 == 0) { /* Box-Muller: words 2 j and 2 j + 1 give two normals */
        const double u = ((word[k] >> 8) + 1) * 0x1p-24, angle = 6.283185307179586 * ((word[k + 1] >> 8) * 0x1p-24);
        const double r = init->a * sqrt(-2 * log(u));
        x[k] = r * cos(angle);
        x[k + 1] = r * sin(angle);
      }
    for (int k = 0; k < 4 && first + k < n; k++) set(t, first + k, x[k]);
  }
}
