/* Lesson 6: a copy of lesson 4, but for any number of MPI ranks: processes, on one machine or many, that share a batch.
 *
 * The plan cuts the batch into leaves, and their gradients are added by one binary tree over the leaves' numbers. Ranks
 * own leaves, so the division of work changes neither the tree nor a bit of the result. Run it on one rank, then on two
 * with the fingerprint that one rank printed:
 *
 * Usage: [mpiexec -n N] ranks [DATA [FINGERPRINT]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/base/time.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "runtime/exchange/leaves.h"
#include "tasks/starpu/program.h"

enum { BATCH = 256, LEAVES = 4, STEPS = 100 };

typedef struct lesson {
  sl_dataset *data;
  sl_runtime *runtime;
  sl_store *store;
  sl_network network;
  sl_program *program;
  sl_loader *loader;
  int64_t first_row; /* this rank's first row in each batch */
  double seconds, loss;
  uint64_t fingerprint;
} lesson;

static sl_status prepare(lesson *l, const sl_model *model, const char *folder) {
  sl_plan plan = {.batch = BATCH, .leaves = LEAVES, .seed = 1};
  const sl_runtime_options options = sl_runtime_defaults(); /* with MPI; without mpiexec there is one rank */
  SL_TRY(sl_dataset_open(&(sl_dataset_options){.directory = folder}, &l->data));
  SL_TRY(sl_runtime_start(&options, &l->runtime));
  const int rank = sl_runtime_rank(l->runtime), ranks = sl_runtime_ranks(l->runtime);
  if (ranks > LEAVES) return sl_fail(SL_EINVAL, "%d ranks for %d leaves", ranks, LEAVES);
  SL_TRY(sl_plan_complete(&plan));
  SL_TRY(sl_store_create(&l->store));
  sl_model_data data = {.height = 28, .width = 28, .channels = 1, .classes = l->data->classes, .deviation = {1}};
  SL_TRY(sl_network_training(model, &data, &model->training, BATCH, &l->network));
  /* Rank r computes leaves first_leaf[r] to first_leaf[r + 1] - 1, and so these rows of each batch: */
  int first_leaf[LEAVES + 1] = {0};
  for (int r = 0; r < ranks; r++) first_leaf[r + 1] = first_leaf[r] + sl_leaves_of_rank(LEAVES, r, ranks).n;
  int64_t end, rows;
  sl_plan_leaf(&plan, first_leaf[rank], &l->first_row, &rows);
  sl_plan_leaf(&plan, first_leaf[rank + 1] - 1, &end, &rows);
  rows += end - l->first_row;
  printf("rank %d of %d: rows %lld to %lld of each batch, %d workers\n", rank, ranks, (long long)l->first_row,
         (long long)(l->first_row + rows - 1), sl_runtime_workers(l->runtime));
  const sl_loader_options loader = {.source = sl_dataset_source(l->data, SL_SPLIT_TRAIN),
                                    .batch = BATCH,
                                    .first = l->first_row,
                                    .rows = rows,
                                    .seed = plan.seed};
  SL_TRY(sl_loader_create(&loader, &l->loader));
  const sl_program_options how = {.keep = &l->network.loss, .n_keep = 1, .first_leaf = first_leaf};
  return sl_program_create(l->runtime, l->store, l->network.graph, &plan, &how, &l->program);
}

/* All ranks must make the same calls, because exchanges wait for all ranks. */
static sl_status train(lesson *l, const sl_model *model) {
  const int64_t from = sl_now();
  for (int s = 0; s < STEPS; s++) {
    sl_batch *batch;
    SL_TRY(sl_loader_next(l->loader, &batch));
    const sl_step step = {.number = s + 1,
                          .seed = 1,
                          .learning_rate = model->training.learning_rate,
                          .input = {[SL_SLOT_SAMPLES] = batch->samples, [SL_SLOT_LABELS] = batch->labels},
                          .input_row0 = l->first_row};
    SL_TRY(sl_program_run(l->program, &step));
    sl_loader_release(l->loader, batch);
  }
  l->seconds = 1e-9 * (double)(sl_now() - from);
  return sl_program_read(l->program, l->network.loss, &l->loss);
}

/* FNV-1a, as in lesson 5. */
static sl_status fingerprint(sl_store *store, uint64_t *hash) {
  *hash = 14695981039346656037u;
  SL_TRY(sl_store_acquire(store, 0));
  for (int t = 0; t < sl_store_count(store); t++) {
    const sl_tensor *tensor = sl_store_at(store, t);
    const size_t bytes = (size_t)sl_shape_count(&tensor->shape) * sl_dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < bytes; i++) *hash = (*hash ^ ((const uint8_t *)tensor->data)[i]) * 1099511628211u;
  }
  sl_store_release(store);
  return SL_OK;
}

int main(int argc, char **argv) {
  lesson l = {0};
  const sl_model *model;
  int ok = 0;
  sl_status status = sl_model_find("mlp", &model);
  if (status == SL_OK) status = prepare(&l, model, argc > 1 && *argv[1] ? argv[1] : NULL);
  if (status == SL_OK) status = train(&l, model);
  if (status == SL_OK) status = fingerprint(l.store, &l.fingerprint);
  if (status != SL_OK) fprintf(stderr, "%s\n", sl_error());
  if (status == SL_OK) {
    const int first = sl_runtime_rank(l.runtime) == 0;
    ok = l.loss < 0.7 && (argc < 3 || strtoull(argv[2], NULL, 16) == l.fingerprint);
    if (argc > 2 && strtoull(argv[2], NULL, 16) != l.fingerprint)
      printf("wrong: rank %d has fingerprint %016llx, not %s\n", sl_runtime_rank(l.runtime),
             (unsigned long long)l.fingerprint, argv[2]);
    if (first || !ok)
      printf("%d steps in %.2f s, loss %.4f, fingerprint %016llx\n%s\n", STEPS, l.seconds, l.loss,
             (unsigned long long)l.fingerprint, ok ? "ok" : "not ok");
  }
  sl_loader_destroy(l.loader);
  sl_program_destroy(l.program);
  sl_network_destroy(&l.network);
  sl_store_destroy(l.store);
  sl_runtime_stop(l.runtime); /* which also ends MPI */
  sl_dataset_close(l.data);
  return status != SL_OK ? 2 : !ok;
}
