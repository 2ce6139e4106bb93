/* Training steps of the network `uneven`: a chain of short operations beside wide paths of long ones. The policy
 * changes their time, but no bit of their results. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/models.h"
#include "runtime/base/time.h"
#include "runtime/machine/runtime.h"
#include "tasks/starpu/program.h"

enum { STEPS = 3, SAMPLES = 64, PIXELS = 784 };

/* FNV-1a, by Fowler, Noll and Vo: different bits give a different number. */
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

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) * 2 - 1; }

sl_status steps_run(const char *library, uint32_t seed, uint64_t *hash, double *ms, char *name) {
  static uint8_t images[SAMPLES * PIXELS];
  static int32_t labels[SAMPLES];
  sl_status status = SL_OK;
  sl_runtime *runtime = NULL;
  sl_store *store = NULL;
  sl_program *program = NULL;
  sl_network network = {0};
  const sl_model *model;
  double times[STEPS];
  sl_plan plan = {.batch = SAMPLES, .seed = 1};
  const sl_model_data shapes = {.height = 28, .width = 28, .channels = 1, .classes = 10, .deviation = {1}};
  const sl_runtime_options options = {.sched = library ? NULL : "eager", .sched_lib = library ? library : ""};
  for (uint32_t i = 0; i < SAMPLES * PIXELS; i++) images[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
  for (int i = 0; i < SAMPLES; i++) labels[i] = i % 10;
  SL_TRY_OUT(sl_runtime_start(&options, &runtime));
  snprintf(name, 64, "%s", sl_runtime_sched(runtime));
  SL_TRY_OUT(sl_model_find("uneven", &model));
  SL_TRY_OUT(sl_plan_complete(&plan));
  SL_TRY_OUT(sl_store_create(&store));
  SL_TRY_OUT(sl_network_training(model, &shapes, &model->training, plan.batch, &network));
  SL_TRY_OUT(sl_program_create(runtime, store, network.graph, &plan, &(sl_program_options){0}, &program));
  for (int s = 0; s < STEPS; s++) {
    const sl_step step = {.number = s + 1,
                          .learning_rate = model->training.learning_rate,
                          .input = {[SL_SLOT_SAMPLES] = images, [SL_SLOT_LABELS] = labels}};
    const int64_t from = sl_now();
    SL_TRY_OUT(sl_program_run(program, &step)); /* fails if the policy keeps ready tasks for 10 s */
    times[s] = 1e-6 * (double)(sl_now() - from);
  }
  qsort(times, STEPS, sizeof *times, ascending);
  *ms = times[STEPS / 2];
  status = fingerprint(store, hash);
out:
  sl_program_destroy(program);
  sl_network_destroy(&network);
  sl_store_destroy(store);
  sl_runtime_stop(runtime);
  return status;
}
