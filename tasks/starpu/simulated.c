/* A simulated task: StarPU asks for its time and lets that time pass, in place of calling the codelet's function. */
#include "tasks/starpu/simulated.h"

#include "runtime/base/time.h"
#include "tasks/starpu/residence.h"

double sl__simulated_time(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned implementation) {
  const sl__task *t = task->cl_arg;
  (void)implementation;
  return 1e6 * t->simulated[arch->devices[0].type == STARPU_CPU_WORKER ? SL_KIND_CPU : SL_KIND_GPU];
}

static void ended(void *arg) {
  sl__task *t = arg;
  const int worker = starpu_worker_get_id();
  const int kind = starpu_worker_get_type(worker) == STARPU_CPU_WORKER ? SL_KIND_CPU : SL_KIND_GPU;
  const int64_t end = sl_now();
  atomic_store_explicit(&t->worker, worker, memory_order_relaxed);
  atomic_store_explicit(&t->run->last, t->index, memory_order_relaxed);
  if (t->recorder) sl__task_record(t, worker, end - (int64_t)(1e9 * t->simulated[kind]), end);
  if (t->n_moves && worker == t->bound) sl__residences_after(t);
  sl__run_end(t);
}

void sl__simulated_task(sl__task *t, const sl_machine *machine, const sl_graph *graph, const sl_node *node,
                        const sl_cost *cost) {
  for (int k = 0; k < SL_KINDS; k++) t->simulated[k] = sl_machine_seconds(machine, graph, node, cost, k);
  t->told = 1;
  t->task->epilogue_callback_func = ended;
  t->task->epilogue_callback_arg = t;
}
