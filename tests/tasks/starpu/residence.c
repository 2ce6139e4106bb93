/* tasks/starpu/residence.c: where StarPU holds buffers before and after the moves of a memory plan. Plans worked out by
 * hand, as in tests/tasks/schedule/residence.c; no kernel runs. Needs a GPU, and StarPU 1.4, which can evict. */
#include "tasks/starpu/residence.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/machine/vectors.h"
#include "runtime/processors/cuda_context.h"
#include "tests/tasks/toy.h"

static int can_evict(void) {
#if defined SL_HAVE_CUDA && defined STARPU_USE_CUDA && (STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION > 3)
  return sl_cuda_devices() > 0;
#else
  return 0;
#endif
}

enum { BYTES = 1024, BUFFERS = 8 }; /* of each value; the most buffers of a plan */

/* A plan of one GPU's memory, and its buffers, which lie in that memory and nowhere else. */
typedef struct carried {
  sl_runtime *rt;
  sl_graph *g;
  sl_schedule *s;
  sl_memory *m;
  sl__residences *all;
  sl__task *task;
  int gpu_node, n;
  char data[BUFFERS][BYTES];
  starpu_data_handle_t handle[BUFFERS];
} carried;

static void on_gpu_only(const carried *c, int buffer) {
  assert_int_equal(starpu_data_acquire_on_node(c->handle[buffer], c->gpu_node, STARPU_RW), 0);
  starpu_data_release_on_node(c->handle[buffer], c->gpu_node);
}

static carried *carry(sl_graph *g, size_t bytes) {
  carried *c = calloc(1, sizeof *c);
  assert_non_null(c);
  sl_runtime_options o = sl_runtime_defaults();
  o.mpi = 0;
  o.workers = 0, o.gpus_alone = 1, o.gpus = 1;
  o.gpu_memory = bytes;
  assert_ok(sl_runtime_start(&o, &c->rt));
  const sl_machine machine = {.kind = {{0, 1, 1e30, 0}, {1, 4, 1e30, 0}}, .exchange = 1e30, .link = 1e30};
  c->g = g;
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &c->s));
  assert_ok(sl_memory_plan(g, c->s, NULL, 0.02, &c->m));
  assert_ok(sl__residences_create(c->rt, g, c->s, c->m, &machine, NULL, 0, 0, &c->all));
  assert_non_null(c->all);
  int worker;
  assert_int_equal(starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &worker, 1), 1);
  c->gpu_node = (int)starpu_worker_get_memory_node((unsigned)worker);
  c->n = c->m->n_slots + g->n_values;
  assert_true(c->n <= BUFFERS);
  for (int b = 0; b < c->n; b++) {
    sl_vector_register(&c->handle[b], c->data[b], BYTES, 1);
    on_gpu_only(c, b);
  }
  c->task = calloc((size_t)g->n_nodes, sizeof *c->task);
  assert_non_null(c->task);
  assert_ok(sl__residences_bind(c->all, c->task, g->n_nodes, c->handle));
  for (int k = 0; k < g->n_nodes; k++) assert_int_equal(c->task[k].bound, worker);
  return c;
}

static void release(carried *c) {
  for (int b = 0; b < c->n; b++) starpu_data_unregister_no_coherency(c->handle[b]);
  sl__residences_destroy(c->all);
  sl_memory_destroy(c->m);
  sl_schedule_destroy(c->s);
  sl_graph_destroy(c->g);
  sl_runtime_stop(c->rt);
  free(c->task);
  free(c);
}

static int valid(const carried *c, int buffer, int node) {
  int allocated, valid, requested;
  starpu_data_query_status(c->handle[buffer], node, &allocated, &valid, &requested);
  return valid;
}

/* Waits ten seconds at most until the contents of the buffer are valid in host memory and on the GPU, or not. */
static void lies(const carried *c, int buffer, int on_host, int on_gpu) {
  for (int tries = 0; tries < 1000; tries++) {
    if (valid(c, buffer, STARPU_MAIN_RAM) == on_host && valid(c, buffer, c->gpu_node) == on_gpu) return;
    usleep(10000);
  }
  fail_msg("buffer %d: on the host %d, on the GPU %d, not %d and %d", buffer, valid(c, buffer, STARPU_MAIN_RAM),
           valid(c, buffer, c->gpu_node), on_host, on_gpu);
}

/* Four parameters that are updated in turn, and room for three: 1 is evicted as a step begins, 0 after the first task,
 * and after the second task 1 is written back and stays. */
static void parameters_in_turn(void **state) {
  (void)state;
  if (!can_evict()) skip();
  sl_graph *g = toy_graph(4);
  for (int k = 0; k < 4; k++) {
    const sl_value v = toy_value(g, SL_ROLE_PARAMETER, BYTES / 4);
    toy_task(g, 4, &v, 1, v);
  }
  carried *c = carry(g, 3 * BYTES);
  const int first = c->m->n_slots;
  sl__residences_begin(c->all);
  lies(c, first + 1, 1, 0);
  lies(c, first, 0, 1);
  on_gpu_only(c, first + 1);
  sl__residences_after(&c->task[0]);
  lies(c, first, 1, 0);
  lies(c, first + 1, 0, 1);
  sl__residences_after(&c->task[1]);
  lies(c, first + 1, 1, 1);
  for (int k = 2; k < 4; k++) {
    sl__residences_after(&c->task[k]);
    lies(c, first + k, 0, 1);
  }
  release(c);
}

/* A chain w -> x -> y -> z, then w again, and room for two: w is evicted before its second use, and y, which is dead by
 * then, is valid nowhere but in host memory, to which nothing is copied. */
static void a_chain(void **state) {
  (void)state;
  if (!can_evict()) skip();
  sl_graph *g = toy_graph(4);
  sl_value v[4];
  for (int k = 0; k < 4; k++) v[k] = toy_value(g, k ? SL_ROLE_TEMPORARY : SL_ROLE_PARAMETER, BYTES / 4);
  for (int k = 0; k < 3; k++) toy_task(g, 4, &v[k], 1, v[k + 1]);
  toy_task(g, 4, (sl_value[]){v[3], v[0]}, 2, SL_NONE);
  carried *c = carry(g, 2 * BYTES);
  const sl_residence *plan = sl__residences_of(c->all, 0);
  const int w = c->m->n_slots + v[0], y = c->m->slot[v[2]];
  int evicted = 0;
  memset(c->data[y], 1, BYTES);
  sl__residences_begin(c->all);
  for (int k = 0; k < 4; k++) {
    for (int i = 0; i < plan->n_moves; i++) evicted |= plan->move[i].after == k && plan->move[i].buffer == w;
    sl__residences_after(&c->task[k]);
    lies(c, w, evicted, !evicted);
    lies(c, y, k >= 2, k < 2);
  }
  assert_true(evicted);
  for (int i = 0; i < BYTES; i++) assert_int_equal(c->data[y][i], 1);
  release(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parameters_in_turn), cmocka_unit_test(a_chain)};
  return cmocka_run_group_tests_name("starpu/residence", tests, NULL, NULL);
}
