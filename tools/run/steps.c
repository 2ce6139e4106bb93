/* Training steps to be measured. */
#include "tools/run/steps.h"

#include <stdlib.h>
#include <string.h>

#include "tools/run/session.h"

/* A pool that is neither in the caches as a whole nor large. */
enum { POOL = 4096, POOL_BYTES = 32 << 20 };

static sl_status read_synthetic(void *arg, int64_t i, void *sample, int32_t *label) {
  const sl__synthetic *s = arg;
  memcpy(sample, s->samples + (size_t)(i % s->n) * s->bytes, s->bytes);
  *label = (int32_t)(i % s->n % s->classes);
  return SL_OK;
}

static sl_status make_samples(sl__steps *s) {
  SL_TRY(sl__synthetic_data(s->o, s->model, &s->data));
  const sl_model_data *d = &s->data;
  sl__synthetic *made = &s->synthetic;
  const size_t tokens = sl__of_tokens(s->model) ? (size_t)sl__window(s->model, d->length) : 0;
  made->bytes = tokens ? 4 * tokens : (size_t)(d->height * d->width * d->channels);
  made->classes = (int32_t)d->classes;
  made->n = (int64_t)(POOL_BYTES / made->bytes);
  made->n = made->n < 1 ? 1 : made->n > POOL ? POOL : made->n;
  made->samples = malloc((size_t)made->n * made->bytes);
  if (!made->samples)
    return sl_fail(SL_ENOMEM, "no memory for %lld samples of %zu bytes", (long long)made->n, made->bytes);
  uint64_t x = 88172645463325252u; /* xorshift (Marsaglia 2003): any noise does */
  for (size_t i = 0; i < (size_t)made->n * (tokens ? tokens : made->bytes); i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    if (tokens)
      ((int32_t *)(void *)made->samples)[i] = (int32_t)((x >> 33) % (uint64_t)d->classes);
    else
      made->samples[i] = (uint8_t)(x >> 32);
  }
  return SL_OK;
}

static sl_status open_data(sl__steps *s, sl_sample_source *source) {
  if (!s->o->data) {
    SL_TRY(make_samples(s));
    *source = (sl_sample_source){
        .n = 65536, .sample_bytes = s->synthetic.bytes, .read = read_synthetic, .arg = &s->synthetic};
    return SL_OK;
  }
  const sl__data_options options = {.model = s->model, .path = s->o->data, .length = s->o->length};
  SL_TRY(sl__data_open(&options, &s->opened));
  s->data = s->opened.model;
  *source = sl__data_source(&s->opened, SL_SPLIT_TRAIN);
  return SL_OK;
}

/* The program over the store and its loader, for the leaves that this rank has now. */
static sl_status make_program(sl__steps *s) {
  const int64_t resident = sl__resident_memory();
  const sl_program_options options = {.recorder = s->recorder,
                                      .keep = &s->network.loss,
                                      .n_keep = 1,
                                      .first_leaf = s->ranks.first_leaf,
                                      .no_priorities = s->o->no_priorities,
                                      .exchange = s->ranks.exchange,
                                      .compression = s->ranks.compression,
                                      .zero = s->o->zero > 0};
  SL_TRY(sl_program_create(s->runtime, s->store, s->network.graph, &s->plan, &options, &s->program));
  SL_TRY(sl__watch_start(&s->ranks, &s->program, 1, s->o->stall_timeout, &s->watch));
  const sl_loader_options loader = {.source = s->source,
                                    .mode = SL_LOADER_TRAIN,
                                    .batch = s->plan.batch,
                                    .first = s->ranks.first_row,
                                    .rows = s->ranks.rows,
                                    .seed = s->plan.seed,
                                    .cursor = s->step * s->plan.batch};
  SL_TRY(sl_loader_create(&loader, &s->loader));
  const int64_t batches =
      sl_loader_depth(s->loader) * s->ranks.rows * (int64_t)(s->source.sample_bytes + sizeof(int32_t));
  s->predicted = resident + (int64_t)sl_program_bytes(s->program, s->step > 0) + batches;
  return SL_OK;
}

static void release_program(sl__steps *s) {
  sl__watch_stop(s->watch);
  sl_loader_destroy(s->loader);
  sl_program_destroy(s->program);
  s->watch = NULL, s->loader = NULL, s->program = NULL;
}

sl_status sl__steps_start(sl__steps *s, const sl__options *o, const char *what, int ranks) {
  s->o = o;
  SL_TRY(sl__find_model(o->model, &s->model));
  sl__training_of(o, s->model, &s->training);
  SL_TRY(sl__start(o, what, ranks, &s->runtime));
  SL_TRY(sl__ranks_open(s->runtime, &s->ranks));
  if (ranks) SL_TRY(sl__ranks_exchange(&s->ranks, s->runtime, o->allreduce, o->compress));
  return sl__plan_of(o, s->model, s->ranks.n, &s->plan);
}

sl_status sl__steps_build(sl__steps *s) {
  SL_TRY(open_data(s, &s->source));
  if (!s->o->no_record) SL_TRY(sl_recorder_create(0, &s->recorder));
  SL_TRY(sl_store_create(&s->store));
  SL_TRY(sl_network_training(s->model, &s->data, &s->training, s->plan.batch, &s->network));
  return make_program(s);
}

sl_status sl__steps_rebuild(sl__steps *s) {
  release_program(s);
  return make_program(s);
}

sl_status sl__steps_one(sl__steps *s) {
  sl_batch *batch;
  double loss;
  SL_TRY(sl_loader_next(s->loader, &batch));
  const sl_step step = {.number = ++s->step,
                        .seed = s->plan.seed,
                        .learning_rate = s->training.learning_rate,
                        .input = {[SL_SLOT_IMAGES] = batch->samples, [SL_SLOT_LABELS] = batch->labels},
                        .input_row0 = s->ranks.first_row};
  sl_status status = sl_program_run(s->program, &step);
  if (status == SL_OK) status = sl_program_read(s->program, s->network.loss, &loss);
  sl_loader_release(s->loader, batch);
  return status;
}

void sl__steps_close(sl__steps *s) {
  release_program(s);
  if (s->network.graph) sl_network_destroy(&s->network);
  sl_store_destroy(s->store);
  sl_recorder_destroy(s->recorder);
  sl__data_close(&s->opened);
  sl__ranks_close(&s->ranks);
  sl_runtime_stop(s->runtime);
  free(s->synthetic.samples);
}
