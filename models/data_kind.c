/* Opens data of any kind, or makes noise in their place, and closes them. */
#include "models/data_kind.h"

#include <stdlib.h>
#include <string.h>

#include "models/models.h"

#define ADDRESS(name) &sl_data_##name,
const sl_data_kind *const sl_data_kinds[] = {SL_DATA_KINDS(ADDRESS) NULL};

sl_status sl_data_open(const sl_data_options *o, sl_data *d) {
  memset(d, 0, sizeof *d);
  d->kind = o->model->family->data;
  const sl_status status = d->kind->open(o, d);
  if (status != SL_OK) sl_data_close(d);
  return status;
}

void sl_data_close(sl_data *d) {
  if (d->kind) d->kind->close(d->set);
  free(d->pool);
  free(d->path), free(d->tokenizer);
  memset(d, 0, sizeof *d);
}

size_t sl_data_sample_bytes(const sl_data_kind *kind, const sl_model_data *data) {
  const sl_shape shape = kind->shape(data);
  return (size_t)sl_shape_count(&shape) * sl_dtype_bytes(kind->dtype);
}

char *sl_data_text(const sl_data_kind *kind, const sl_model_data *data, char *text, size_t n) {
  char size[64];
  snprintf(text, n, "%s of %s", kind->samples, kind->size(data, size, sizeof size));
  return text;
}

int sl_data_equal(const sl_data_kind *kind, const sl_model_data *a, const sl_model_data *b) {
  json_t *x = kind->to_json(a), *y = kind->to_json(b);
  const int equal = x && y && json_equal(x, y);
  json_decref(x), json_decref(y);
  return equal;
}

/* ---- made up ---------------------------------------------------------------------------------------------------- */

/* The pool of noise is small, but larger than the caches. It is read as if it had SAMPLES samples. */
enum { POOL = 4096, POOL_BYTES = 32 << 20, SAMPLES = 65536 };

typedef struct sl__pool {
  int64_t n;
  size_t bytes;
  int32_t classes;
  _Alignas(16) uint8_t samples[]; /* [n, bytes] */
} sl__pool;

static uint64_t xorshift(uint64_t *x) { /* Marsaglia 2003: any noise will do */
  *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
  return *x;
}

static sl_status read_pool(void *arg, int64_t i, void *sample, int32_t *label) {
  const sl__pool *p = arg;
  memcpy(sample, p->samples + (size_t)(i % p->n) * p->bytes, p->bytes);
  *label = (int32_t)(i % p->n % p->classes);
  return SL_OK;
}

sl_status sl_data_make_up(const sl_model *model, const sl_model_data *sizes, sl_data *d) {
  *d = (sl_data){.kind = model->family->data, .model = *sizes, .n = {[SL_SPLIT_TRAIN] = SAMPLES}};
  const size_t bytes = sl_data_sample_bytes(d->kind, sizes);
  int64_t n = (int64_t)(POOL_BYTES / bytes);
  n = n < 1 ? 1 : n > POOL ? POOL : n;
  sl__pool *pool = d->pool = malloc(sizeof *pool + (size_t)n * bytes);
  if (!pool) return sl_no_memory("for %lld samples of %zu bytes", (long long)n, bytes);
  pool->n = n, pool->bytes = bytes, pool->classes = (int32_t)sizes->classes;
  uint64_t state = 88172645463325252u;
  for (int64_t i = 0; i < n; i++) d->kind->make_up(sizes, xorshift, &state, bytes, pool->samples + (size_t)i * bytes);
  return SL_OK;
}

sl_sample_source sl_data_source(const sl_data *d, sl_split split) {
  if (!d->pool) return d->kind->source(d, split);
  return (sl_sample_source){.n = SAMPLES, .sample_bytes = d->pool->bytes, .read = read_pool, .arg = d->pool};
}
