/* Data of any kind: opened, or made up, and closed. */
#include "tools/run/data.h"

#include <stdlib.h>
#include <string.h>

/* The kind that each task of a model reads. */
static const sl__data_kind *const kinds[] = {[SL_TASK_CLASSIFY] = &sl__data_images,
                                             [SL_TASK_NEXT_TOKEN] = &sl__data_tokens,
                                             [SL_TASK_MASKED_TOKEN] = &sl__data_tokens};

const sl__data_kind *sl__data_kind_of(const sl_model *model) { return kinds[model->family->task]; }

sl_status sl__data_open(const sl__data_options *o, sl__data *d) {
  memset(d, 0, sizeof *d);
  d->kind = sl__data_kind_of(o->model);
  const sl_status status = d->kind->open(o, d);
  if (status != SL_OK) sl__data_close(d);
  return status;
}

void sl__data_close(sl__data *d) {
  sl_dataset_close(d->images);
  sl_tokens_close(d->tokens);
  free(d->pool);
  free(d->path), free(d->tokenizer);
  memset(d, 0, sizeof *d);
}

char *sl__data_text(const sl__data_kind *kind, const sl_model_data *data, char *text, size_t n) {
  kind->text(data, text, n);
  return text;
}

/* ---- made up ---------------------------------------------------------------------------------------------------- */

/* The pool exceeds the caches but stays small; it is read as if it were a set of SAMPLES. */
enum { POOL = 4096, POOL_BYTES = 32 << 20, SAMPLES = 65536 };

typedef struct sl__pool {
  int64_t n;
  size_t bytes;
  int32_t classes;
  _Alignas(16) uint8_t samples[]; /* [n, bytes] */
} sl__pool;

static uint64_t xorshift(uint64_t *x) { /* Marsaglia 2003: any noise does */
  *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
  return *x;
}

static sl_status read_pool(void *arg, int64_t i, void *sample, int32_t *label) {
  const sl__pool *p = arg;
  memcpy(sample, p->samples + (size_t)(i % p->n) * p->bytes, p->bytes);
  *label = (int32_t)(i % p->n % p->classes);
  return SL_OK;
}

sl_status sl__data_make_up(const sl_model *model, const sl_model_data *sizes, sl__data *d) {
  *d = (sl__data){.kind = sl__data_kind_of(model), .model = *sizes, .n = {[SL_SPLIT_TRAIN] = SAMPLES}};
  const size_t bytes = d->kind->sample_bytes(model, sizes);
  int64_t n = (int64_t)(POOL_BYTES / bytes);
  n = n < 1 ? 1 : n > POOL ? POOL : n;
  sl__pool *pool = d->pool = malloc(sizeof *pool + (size_t)n * bytes);
  if (!pool) return sl_no_memory("for %lld samples of %zu bytes", (long long)n, bytes);
  pool->n = n, pool->bytes = bytes, pool->classes = (int32_t)sizes->classes;
  uint64_t state = 88172645463325252u;
  for (int64_t i = 0; i < n; i++) d->kind->make_up(model, sizes, xorshift, &state, pool->samples + (size_t)i * bytes);
  return SL_OK;
}

sl_sample_source sl__data_source(const sl__data *d, sl_split split) {
  if (!d->pool) return d->kind->source(d, split);
  return (sl_sample_source){.n = SAMPLES, .sample_bytes = d->pool->bytes, .read = read_pool, .arg = d->pool};
}
