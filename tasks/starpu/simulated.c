/* A simulated task: StarPU asks for its time and lets that time pass, in place of calling the codelet's function. */
#include "tasks/starpu/simulated.h"

#include <math.h>

#include "runtime/base/time.h"
#include "runtime/numbers/philox.h"
#include "runtime/simulated/simulation.h"
#include "tasks/schedule/contention.h"
#include "tasks/schedule/times.h"
#include "tasks/starpu/residence.h"

double sl__simulated_time(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned implementation) {
  const sl__task *t = task->cl_arg;
  (void)implementation;
  if (t->drawn > 0) return 1e6 * t->drawn;
  return 1e6 * t->simulated[arch->devices[0].type == STARPU_CPU_WORKER ? SL_KIND_CPU : SL_KIND_GPU];
}

/* Policies know the mean of a task's times, but the times vary: this one is drawn from the log-normal distribution with
 * the measured mean and deviation. It depends on task and step only, so all policies get the same times. */
static double draw(sl__task *t, int kind) {
  enum { SEED = 1, STREAM = 0x51 };
  const double variance = log(1 + t->deviation[kind] * t->deviation[kind]);
  const double z = sl_random_normal(SEED, (uint64_t)t->executed++, STREAM, (uint64_t)t->index);
  return t->simulated[kind] * exp(sqrt(variance) * z - variance / 2);
}

static int kind_here(void) {
  return starpu_worker_get_type(starpu_worker_get_id()) == STARPU_CPU_WORKER ? SL_KIND_CPU : SL_KIND_GPU;
}

/* The process is one rank, and simulated threads run one at a time. */
static sl_contention load;
static int busy; /* CPU workers with a task */

static void update(void) {
  sl_contention_update(&load, 1e-9 * (double)sl_now(), busy == sl_simulation_current()->cpus);
}

void sl__simulated_exchange_begins(double work, double seconds) {
  update();
  sl_contention_begin(&load, work, seconds);
}

void sl__simulated_exchange_ends(double work, double seconds) {
  update();
  sl_contention_end(&load, work, seconds);
}

/* In place of codelet.c's: draws the task's time, and notes that the worker is busy. */
static void taken(void *arg) {
  sl__task *t = arg;
  const int kind = kind_here();
  t->taken = sl_now();
  t->drawn = draw(t, kind);
  if (kind != SL_KIND_CPU) return;
  update();
  busy++;
}

/* What exchanges took from a task of a CPU worker passes here, at its end. Returns its seconds. */
static double pay(void) {
  update();
  const double seconds = sl_contention_pay(&load);
  if (seconds > 0) starpu_sleep((float)seconds);
  update();
  busy--;
  return seconds;
}

static void ended(void *arg) {
  sl__task *t = arg;
  const int worker = starpu_worker_get_id();
  const double seconds = t->drawn + (kind_here() == SL_KIND_CPU ? pay() : 0);
  const int64_t end = sl_now();
  t->drawn = 0;
  atomic_store_explicit(&t->worker, worker, memory_order_relaxed);
  atomic_store_explicit(&t->run->last, t->index, memory_order_relaxed);
  if (t->recorder) sl__task_record(t, worker, end - (int64_t)(1e9 * seconds), end);
  if (t->n_moves && worker == t->bound) sl__residences_after(t);
  sl__run_end(t);
}

void sl__simulated_task(sl__task *t, const sl_machine *machine, const sl_graph *graph, const sl_node *node,
                        const sl_cost *cost) {
  const uint32_t footprint = machine->times ? sl_node_footprint(graph, node) : 0;
  for (int k = 0; k < SL_KINDS; k++) {
    t->simulated[k] = sl_machine_seconds(machine, graph, node, cost, k);
    t->deviation[k] = sl_times_deviation(machine->times, node->op->name, footprint, k);
  }
  t->told = 1;
  t->task->prologue_callback_pop_func = taken;
  t->task->prologue_callback_pop_arg = t;
  t->task->epilogue_callback_func = ended;
  t->task->epilogue_callback_arg = t;
}
