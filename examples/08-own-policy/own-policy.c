/* Lesson 8: the steps of lesson 5, of a graph that is made uneven on purpose, and not its threads in other places but
 * its tasks in another order: StarPU's policy "eager", which hands tasks out as they become ready, and the one in
 * policy.so, which policy.c makes. What a step computes does not depend on the policy by a bit; what it takes does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/base/time.h"
#include "runtime/machine/runtime.h"
#include "runtime/trace/idle.h"
#include "tasks/starpu/program.h"

enum { WARM = 3, STEPS = 15, ROUNDS = 5, SAMPLES = 64 };
enum { EAGER, OWN, POLICIES };

/* What a policy made of the steps. */
typedef struct outcome {
  char name[64];
  double ms[ROUNDS]; /* medians of a step's time */
  double kernels;    /* part of the workers' time, in the last round */
  double idle[SL_IDLE_CAUSES];
  int64_t least; /* tasks of the worker that had the fewest */
  uint64_t hash; /* of all parameters */
} outcome;

/* A fingerprint of all parameters (FNV-1a, of Fowler, Noll and Vo): other bits give another number. */
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

/* The workers' time from `from` to `to`, and who did how much. */
static sl_status look(const sl_program *program, const sl_recorder *recorder, int workers, int64_t from, int64_t to,
                      outcome *o) {
  const sl_dependencies graph = sl_program_dependencies(program);
  sl_timeline *timeline;
  sl_usage usage;
  SL_TRY(sl_usage_since(recorder, workers, &graph, from, to, &usage));
  SL_TRY(sl_program_timeline(program, "uneven", &timeline));
  o->kernels = usage.kernels;
  memcpy(o->idle, usage.idle, sizeof o->idle);
  o->least = INT64_MAX;
  for (int w = 0; w < workers; w++)
    if (timeline->worker[w].tasks < o->least) o->least = timeline->worker[w].tasks;
  sl_timeline_destroy(timeline);
  return SL_OK;
}

/* Trains for some steps under a policy, from the same beginning and on the same images. The library is loaded by the
 * runtime; its policies come before StarPU's, and without a name the first of them is taken. */
static sl_status measure(const char *library, const char *policy, int round, outcome *o) {
  static uint8_t images[SAMPLES * 784];
  static int32_t labels[SAMPLES];
  sl_status status = SL_OK;
  sl_runtime *runtime = NULL;
  sl_store *store = NULL;
  sl_recorder *recorder = NULL;
  sl_program *program = NULL;
  sl_network network = {0};
  const sl_model *model;
  double times[STEPS];
  sl_plan plan = {.batch = SAMPLES, .seed = 1};
  const sl_model_data shapes = {.height = 28, .width = 28, .channels = 1, .classes = 10, .deviation = {1}};
  for (int i = 0; i < SAMPLES * 784; i++) images[i] = (uint8_t)(i * 2654435761u >> 24); /* any noise does */
  for (int i = 0; i < SAMPLES; i++) labels[i] = i % 10;
  SL_TRY_OUT(sl_runtime_start(&(sl_runtime_options){.sched = policy, .sched_lib = library}, &runtime));
  SL_TRY_OUT(sl_model_find("uneven", &model));
  SL_TRY_OUT(sl_plan_complete(&plan));
  SL_TRY_OUT(sl_store_create(&store));
  SL_TRY_OUT(sl_recorder_create(0, &recorder));
  SL_TRY_OUT(sl_network_training(model, &shapes, &model->training, plan.batch, &network));
  SL_TRY_OUT(
      sl_program_create(runtime, store, network.graph, &plan, &(sl_program_options){.recorder = recorder}, &program));
  snprintf(o->name, sizeof o->name, "%s", sl_runtime_sched(runtime));
  int64_t began = 0;
  for (int s = 0; s < WARM + STEPS; s++) {
    const sl_step step = {.number = s + 1,
                          .learning_rate = model->training.learning_rate,
                          .input = {[SL_SLOT_IMAGES] = images, [SL_SLOT_LABELS] = labels}};
    const int64_t from = sl_now();
    if (s == WARM) began = from;
    SL_TRY_OUT(sl_program_run(program, &step)); /* fails where the policy keeps tasks for 10 s that could run */
    if (s >= WARM) times[s - WARM] = 1e-6 * (double)(sl_now() - from);
  }
  qsort(times, STEPS, sizeof *times, ascending);
  o->ms[round] = times[STEPS / 2];
  SL_TRY_OUT(look(program, recorder, sl_runtime_workers(runtime), began, sl_now(), o));
  status = fingerprint(store, &o->hash);
out:
  sl_program_destroy(program);
  sl_recorder_destroy(recorder);
  sl_network_destroy(&network);
  sl_store_destroy(store);
  sl_runtime_stop(runtime);
  return status;
}

static void print(const outcome *o) {
  printf("%-10s %8.2f ms a step; kernels %.0f %%, idle:", o->name, o->ms[ROUNDS / 2], 100 * o->kernels);
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    printf(" %s %.0f %%", sl_idle_cause_name((sl_idle_cause)c), 100 * o->idle[c]);
  printf("; %016llx\n", (unsigned long long)o->hash);
}

int main(void) {
  const char *library = "./policy.so";
  outcome o[POLICIES];
  double ratio[ROUNDS];
  memset(o, 0, sizeof o);
  for (int r = 0; r < ROUNDS; r++) { /* in turns, so that what else the machine does troubles both alike */
    if (measure(library, "eager", r, &o[EAGER]) != SL_OK || measure(library, NULL, r, &o[OWN]) != SL_OK) {
      printf("%s\nnot ok\n", sl_error());
      return 1;
    }
    ratio[r] = o[OWN].ms[r] / o[EAGER].ms[r];
  }
  for (int p = 0; p < POLICIES; p++) {
    qsort(o[p].ms, ROUNDS, sizeof *o[p].ms, ascending);
    print(&o[p]);
  }
  qsort(ratio, ROUNDS, sizeof *ratio, ascending);
  printf("%s takes %.2f of the time of %s\n", o[OWN].name, ratio[ROUNDS / 2], o[EAGER].name);
  int ok = 1;
  if (o[OWN].hash != o[EAGER].hash) puts("the two gave other parameters"), ok = 0;
  if (o[OWN].least == 0) puts("a worker got no task at all"), ok = 0;
  if (ratio[ROUNDS / 2] > 1.1) puts("it is slower than eager"), ok = 0;
  puts(ok ? "ok" : "not ok");
  return !ok;
}
