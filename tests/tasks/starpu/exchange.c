/* tasks/starpu/exchange.c: exchange nodes as tasks of a program. Two ranks give the bits of one, step after step, with
 * parameters updated everywhere or by owners; with MPI's sums they give the same numbers to rounding. Starts itself
 * again under mpiexec. */
#include "tasks/starpu/exchange.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/exchange/exchange.h"
#include "runtime/machine/comm.h"
#include "runtime/machine/store.h"
#include "runtime/machine/yield.h"
#include "tasks/starpu/program.h"
#include "tests/support/ranks.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

enum { BATCH = 24, LEAVES = 5, STEPS = 4, PARAMETERS = 64 * 5 + 3 * 64 };

/* MPI's sums do their work, so that no rank waits in them, and then may return an error. */
static int sums_fail;
int MPI_Iallreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
  const int code = PMPI_Iallreduce(from, to, n, type, op, comm, request);
  return sums_fail ? MPI_ERR_OTHER : code;
}

/* The values of a bucket come into host memory one after another: all but the first are asked for late. */
typedef struct asking {
  starpu_data_handle_t handle;
  int node;
  enum starpu_data_access_mode mode;
  void (*callback)(void *);
  void *arg;
  int consistency;
} asking;
static int (*ask)(starpu_data_handle_t, int, enum starpu_data_access_mode, void (*)(void *), void *, int);

static void *ask_late(void *arg) {
  asking *a = arg;
  usleep(20000);
  RANK_CHECK(ask(a->handle, a->node, a->mode, a->callback, a->arg, a->consistency) == 0);
  free(a);
  return NULL;
}

int starpu_data_acquire_on_node_cb_sequential_consistency(starpu_data_handle_t handle, int node,
                                                          enum starpu_data_access_mode mode, void (*callback)(void *),
                                                          void *arg, int consistency) {
  static _Thread_local const void *bucket;
  pthread_t late;
  if (!ask) *(void **)&ask = dlsym(RTLD_NEXT, __func__);
  if (arg != bucket) {
    bucket = arg;
    return ask(handle, node, mode, callback, arg, consistency);
  }
  asking *a = malloc(sizeof *a);
  RANK_CHECK(a);
  *a = (asking){handle, node, mode, callback, arg, consistency};
  RANK_CHECK(pthread_create(&late, NULL, ask_late, a) == 0 && pthread_detach(late) == 0);
  return 0;
}

/* In place of the workers' switch: what the thread that submits has asked for last. */
static int yielding;
void sl_workers_yield(int yields) {
  if (starpu_worker_get_id() < 0) yielding = yields;
}

/* Concatenated parameters, in the order of the store. */
static int collect(sl_store *store, float *to) {
  int n = 0;
  RANK_CHECK(sl_store_acquire(store, 0) == SL_OK);
  for (int i = 0; i < sl_store_count(store); i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (!t->parameter) continue;
    memcpy(to + n, t->data, (size_t)sl_shape_count(&t->shape) * sizeof *to);
    n += (int)sl_shape_count(&t->shape);
  }
  sl_store_release(store);
  return n;
}

/* Runs some steps on this rank's leaves, by first_leaf (NULL: all), and returns losses and parameters. */
static void train(sl_runtime *rt, const int *first, int zero, int by_mpi, double *loss, float *parameters) {
  sl_plan plan = {.batch = BATCH, .leaves = LEAVES, .shards = LEAVES, .seed = 1};
  sl_value value;
  sl_graph *g = toy_training(BATCH, &value);
  sl_store *store;
  sl_program *program;
  RANK_CHECK(sl_plan_complete(&plan) == SL_OK && sl_store_create(&store) == SL_OK);
  const sl_program_options options = {.keep = &value,
                                      .n_keep = 1,
                                      .first_leaf = first,
                                      .zero = zero,
                                      .exchange = sl_exchange_find(by_mpi ? "mpi" : "tree")};
  RANK_CHECK(sl_program_create(rt, store, g, &plan, &options, &program) == SL_OK);
  for (int step = 0; step < STEPS; step++) {
    const sl_step now = {.number = step + 1, .seed = 1, .learning_rate = 0.0078125};
    if (first && sl_runtime_rank(rt) == step % 2) usleep(20000); /* the other rank waits */
    RANK_CHECK(sl_program_run(program, &now) == SL_OK);
    RANK_CHECK(yielding == (first != NULL)); /* within steps, idle workers yield to exchanges only */
    RANK_CHECK(sl_program_read(program, value, &loss[step]) == SL_OK);
  }
  RANK_CHECK(collect(store, parameters) == PARAMETERS);
  if (by_mpi) { /* a failed exchange ends the step, as its failure */
    sums_fail = 1;
    RANK_CHECK(sl_program_run(program, &(sl_step){.number = STEPS + 1, .seed = 1}) != SL_OK);
    RANK_CHECK(strstr(sl_error(), "MPI"));
    sums_fail = 0;
  }
  sl_program_destroy(program);
  sl_store_destroy(store);
  sl_graph_destroy(g);
}

static void ranks_train(void) {
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  o.workers = 1;
  RANK_CHECK(sl_runtime_start(&o, &rt) == SL_OK);
  const int first[] = {0, 2, LEAVES};
  double loss[STEPS], mine[STEPS];
  float parameters[PARAMETERS], my[PARAMETERS];
  train(rt, NULL, 0, 0, loss, parameters);
  RANK_CHECK(loss[STEPS - 1] < loss[0] && isfinite(loss[STEPS - 1]));
  for (int zero = 0; zero < 2; zero++) {
    train(rt, first, zero, 0, mine, my);
    RANK_CHECK(memcmp(loss, mine, sizeof loss) == 0);
    RANK_CHECK(memcmp(parameters, my, sizeof my) == 0);
  }
  train(rt, first, 0, 1, mine, my);
  for (int i = 0; i < STEPS; i++) RANK_CHECK(fabs(mine[i] - loss[i]) <= 1e-5 * fabs(loss[i]));
  for (int i = 0; i < PARAMETERS; i++) RANK_CHECK(fabsf(my[i] - parameters[i]) <= 1e-4f);
  sl_runtime_stop(rt);
}

static void two_ranks(void **state) {
  (void)state;
  ranks_run(2, "train");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "train") == 0) {
    ranks_train();
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_ranks)};
  return cmocka_run_group_tests_name("tasks/exchange", tests, NULL, NULL);
}
