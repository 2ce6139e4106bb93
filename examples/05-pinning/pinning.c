/* Lesson 5: a copy of lesson 4, but the same steps run under three placements of the threads: each on its own core, as
 * the runtime binds them; wherever the system puts them; all on one core, as happens if several processes each assume
 * that they are alone. The placement changes the time of a step, but no bit of its result. */
#include <hwloc.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/base/time.h"
#include "runtime/data/dataset.h"
#include "tasks/starpu/program.h"

enum { WARM = 3, STEPS = 12, ROUNDS = 5, MOST_WORKERS = 1024 };
enum { PINNED, FREE, ONE_CORE, PLACES };
static const char *const names[PLACES] = {"a core each", "not bound", "all on one"};

typedef struct placement {
  sl_runtime *runtime;
  int where;
} placement;

/* On the thread of each worker: binds it, and the threads of the team that it leads, to processing units (PU). */
static void bind(void *arg, int worker, sl_team *team) {
  const placement *p = arg;
  const hwloc_topology_t topology = sl_runtime_topology(p->runtime);
  const unsigned first = sl_runtime_team(p->runtime, 0)->pu[0];
  (void)worker;
#pragma omp parallel num_threads(team->threads)
  {
    hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
    if (p->where != FREE) hwloc_bitmap_only(set, p->where == PINNED ? team->pu[omp_get_thread_num()] : first);
    hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
  }
}

/* Nanoseconds in which each worker was ready to run but waited for a core, since its thread began (Linux's schedstat).
 */
static void waited(void *arg, int worker, sl_team *team) {
  double *of = arg;
  FILE *file = fopen("/proc/thread-self/schedstat", "r");
  (void)team;
  if (!file || fscanf(file, "%*f %lf", &of[worker]) != 1) of[worker] = 0;
  if (file) fclose(file);
}

/* A fingerprint of all parameters (FNV-1a, by Fowler, Noll and Vo): different bits give a different number. */
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

/* For doubles, and for figures, which begin with a double. */
static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) * 2 - 1; }

/* Results of a round of steps from the same initial weights: the median time of a step, the share of time in which a
 * worker waited for a core, and the fingerprint of the parameters. */
typedef struct figures {
  double ms, waited;
  uint64_t hash;
} figures;

static sl_status measure(sl_runtime *runtime, const sl_dataset *data, int where, figures *f) {
  sl_status status = SL_OK;
  sl_store *store = NULL;
  sl_program *program = NULL;
  sl_network network = {0};
  const sl_model *model;
  double times[STEPS], before[MOST_WORKERS] = {0}, after[MOST_WORKERS] = {0};
  const int workers = sl_runtime_cpu_workers(runtime);
  sl_plan plan = {.seed = 1};
  sl_model_data shapes = {.height = 28, .width = 28, .channels = 1, .classes = data->classes, .deviation = {1}};
  SL_TRY_OUT(sl_model_find("mlp", &model));
  plan.batch = model->batch;
  SL_TRY_OUT(sl_plan_complete(&plan));
  SL_TRY_OUT(sl_store_create(&store));
  SL_TRY_OUT(sl_network_training(model, &shapes, &model->training, plan.batch, &network));
  SL_TRY_OUT(sl_program_create(runtime, store, network.graph, &plan, &(sl_program_options){0}, &program));
  SL_TRY_OUT(sl_runtime_each_worker(runtime, bind, &(placement){runtime, where}));
  SL_TRY_OUT(sl_runtime_each_worker(runtime, waited, before));
  const int64_t began = sl_now();
  for (int s = 0; s < WARM + STEPS; s++) {
    const sl_step step = {.number = s + 1,
                          .learning_rate = model->training.learning_rate,
                          .input = {[SL_SLOT_SAMPLES] = data->train.pixels + s * plan.batch * 784,
                                    [SL_SLOT_LABELS] = data->train.labels + s * plan.batch}};
    const int64_t from = sl_now();
    SL_TRY_OUT(sl_program_run(program, &step));
    if (s >= WARM) times[s - WARM] = 1e-6 * (double)(sl_now() - from);
  }
  const double all = (double)(sl_now() - began) * workers;
  SL_TRY_OUT(sl_runtime_each_worker(runtime, waited, after));
  for (int w = 0; w < workers; w++) f->waited += (after[w] - before[w]) / all;
  qsort(times, STEPS, sizeof *times, ascending);
  f->ms = times[STEPS / 2];
  status = fingerprint(store, &f->hash);
out:
  sl_program_destroy(program);
  sl_network_destroy(&network);
  sl_store_destroy(store);
  return status;
}

static sl_status lesson(const char *folder, int *ok) {
  sl_status status = SL_OK;
  sl_runtime *runtime = NULL;
  sl_dataset *data = NULL;
  figures f[PLACES][ROUNDS] = {0};
  char warning[1024];
  const sl_runtime_options alone = {.mpi = 0};
  SL_TRY_OUT(sl_dataset_open(&(sl_dataset_options){.directory = folder}, &data));
  SL_TRY_OUT(sl_runtime_start(&alone, &runtime));
  const sl_share *share = sl_runtime_share(runtime);
  printf("%d cores may be used; the runtime divides them like this:\n", share->cores);
  sl_share_print(share, stdout);
  if (*sl_share_warning(share, warning, sizeof warning)) printf("warning: %s\n", warning);
  /* The placements take turns, so that other programs disturb all three alike. */
  for (int r = 0; r < ROUNDS; r++)
    for (int where = 0; where < PLACES; where++) {
      SL_TRY_OUT(measure(runtime, data, where, &f[where][r]));
      if (f[where][r].hash != f[PINNED][0].hash) printf("%s: other parameters\n", names[where]), *ok = 0;
    }
  for (int where = 0; where < PLACES; where++) {
    qsort(f[where], ROUNDS, sizeof **f, ascending);
    const figures *median = &f[where][ROUNDS / 2];
    printf("%-12s %8.2f ms a step, %.2f times as long; workers waited for a core %2.0f %% of it\n", names[where],
           median->ms, median->ms / f[PINNED][ROUNDS / 2].ms, 100 * median->waited);
  }
  printf("parameters after %d steps: %016llx\n", WARM + STEPS, (unsigned long long)f[PINNED][0].hash);
  if (share->nworkers * share->threads_per_worker < 2)
    puts("one thread on one core: all placements are the same");
  else if (f[PINNED][ROUNDS / 2].waited > 0.1)
    puts("other programs use the same cores, so the times say nothing");
  else if (f[ONE_CORE][ROUNDS / 2].ms < 1.2 * f[PINNED][ROUNDS / 2].ms)
    *ok = 0;
out:
  sl_runtime_stop(runtime);
  sl_dataset_close(data);
  return status;
}

int main(int argc, char **argv) {
  int ok = 1;
  if (lesson(argc > 1 ? argv[1] : NULL, &ok) != SL_OK) return fprintf(stderr, "%s\n", sl_error()), 2;
  puts(ok ? "ok" : "not ok");
  return !ok;
}
