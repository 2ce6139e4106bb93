/* Waits for a step's tasks and watches the scheduling policy: a policy that never returns a task would make the step
 * wait forever. */
#include "tasks/starpu/run.h"

#include <config.h>
#include <limits.h>
#include <starpu.h>
#include <stdio.h>
#include <time.h>

#include "runtime/machine/starved.h"
#include "runtime/machine/yield.h"
#include "tasks/starpu/codelet.h"

void sl__run_begin(sl__run *p, sl__task *task, int n) {
  int left = 0;
  atomic_store(&p->status, SL_OK);
  atomic_store(&p->claimed, 0);
  atomic_store(&p->first_bad, INT_MAX);
  atomic_store(&p->last, -1);
  for (int i = 0; i < n; i++) {
    atomic_store_explicit(&task[i].state, SL__WAITING, memory_order_relaxed);
    left += !task[i].exchange;
  }
  atomic_store(&p->left, left);
  if (!SL_SIMULATED) sl_workers_yield(p->yields);
}

void sl__run_end(sl__task *t) {
  sl__run *p = t->run;
  atomic_store_explicit(&t->state, SL__ENDED, memory_order_release);
  if (t->exchange || atomic_fetch_sub(&p->left, 1) > 1) return;
  /* Other threads have work now: the one that waits for this step and submits the next, and the loader. With a worker
   * on each core, they would wait for the end of a worker's time slice, up to 4 ms. */
  if (!SL_SIMULATED) sl_workers_yield(1);
  starpu_pthread_mutex_lock(&p->mutex); /* pthread's, except in a simulation */
  starpu_pthread_cond_signal(&p->none_left);
  starpu_pthread_mutex_unlock(&p->mutex);
}

static int state_of(const sl__task *t) { return atomic_load_explicit(&t->state, memory_order_acquire); }

/* Counts ready tasks that no worker has started and exchanges whose data StarPU has not brought to host memory. *first:
 * the first of them. 0 while a kernel runs or an exchange is under way. */
static int left_lying(const sl__task *task, const int *order, int n, const sl__task **first) {
  int lying = 0;
  for (int k = 0; k < n; k++) {
    const sl__task *t = &task[order[k]];
    int ready = state_of(t) == SL__WAITING;
    if (!t->exchange && state_of(t) == SL__BEGUN) return 0;
    for (int i = 0; ready && i < t->n_before; i++) ready = state_of(&task[t->before[i]]) == SL__ENDED;
    if (ready && t->exchange && (!t->lacking || atomic_load(t->lacking) <= 0)) return 0;
    if (ready && lying++ == 0) *first = t;
  }
  return lying;
}

/* Whether all tasks before a task have ended. */
static int is_ready(const sl__task *task, const sl__task *t) {
  for (int i = 0; i < t->n_before; i++)
    if (state_of(&task[t->before[i]]) != SL__ENDED) return 0;
  return 1;
}

/* Whether StarPU may have given the task to this worker. */
static int may_run_on(const struct starpu_task *t, int worker) {
  const uint32_t where = t->where == -1 ? t->cl->where : (uint32_t)t->where;
  return (where == 0 || where & STARPU_CUDA) && (!t->execute_on_a_specific_worker || (int)t->workerid == worker);
}

/* First ready task whose data exceed the memory of a GPU that may have it; StarPU would retry the allocation for ever.
 * NULL: none. */
static const sl__task *too_large(const sl__task *task, const int *order, int n, size_t *bytes, size_t *memory,
                                 int *gpu) {
  int worker[STARPU_NMAXWORKERS];
  const unsigned gpus =
      starpu_is_initialized() ? starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, worker, STARPU_NMAXWORKERS) : 0;
  for (unsigned g = 0; g < gpus; g++) {
    const starpu_ssize_t all = starpu_memory_get_total(starpu_worker_get_memory_node((unsigned)worker[g]));
    for (int k = 0; all >= 0 && k < n; k++) {
      struct starpu_task *t = task[order[k]].task;
      *bytes = 0;
      if (!t || !t->cl || state_of(&task[order[k]]) != SL__WAITING || !is_ready(task, &task[order[k]])) continue;
      if (!may_run_on(t, worker[g])) continue;
      for (unsigned i = 0; i < (unsigned)STARPU_TASK_GET_NBUFFERS(t); i++)
        *bytes += starpu_data_get_size(STARPU_TASK_GET_HANDLE(t, i));
      *memory = (size_t)all;
      *gpu = starpu_worker_get_devid(worker[g]);
      if (*bytes > *memory) return &task[order[k]];
    }
  }
  return NULL;
}

/* The state that StarPU reports of a task that no worker has started, in words. */
static const char *status_of(const sl__task *t) {
  switch (t->task ? t->task->status : STARPU_TASK_INIT) {
    case STARPU_TASK_READY:
      return "it is the policy's, or its data are on their way";
    case STARPU_TASK_BLOCKED_ON_DATA:
      return "it waits for its data";
    case STARPU_TASK_BLOCKED_ON_TASK:
    case STARPU_TASK_BLOCKED:
      return "it waits for other tasks";
    case STARPU_TASK_RUNNING:
      return "a worker has it";
    default:
      return "it is not submitted";
  }
}

/* Where StarPU has a task's data: " Data 0: valid in memory 0, on its way to memory 1." Memory 0 is the host's. */
static const char *places_of(const sl__task *t, char *text, size_t size) {
  enum { MOST = 6 };
  size_t used = 0;
  const int buffers = t->task && t->task->cl && starpu_is_initialized() ? STARPU_TASK_GET_NBUFFERS(t->task) : 0;
  text[0] = 0;
  for (int i = 0; i < buffers && i < MOST && used < size; i++) {
    const char *between = "";
    used += (size_t)snprintf(text + used, size - used, " Data %d: ", i);
    for (unsigned node = 0; node < starpu_memory_nodes_get_count() && used < size; node++) {
      int allocated = 0, valid = 0, requested = 0;
      starpu_data_query_status(STARPU_TASK_GET_HANDLE(t->task, i), (int)node, &allocated, &valid, &requested);
      if (!allocated && !valid && !requested) continue;
      used += (size_t)snprintf(text + used, size - used, "%s%s memory %u", between,
                               requested ? "on its way to"
                               : valid   ? "valid in"
                                         : "allocated in",
                               node);
      between = ", ";
    }
    if (used < size) used += (size_t)snprintf(text + used, size - used, "%s.", *between ? "" : "nowhere");
  }
  return text;
}

/* SL_EPOLICY if a ready task can never run, because its data exceed a GPU's memory. */
static sl_status tell_too_large(const sl__task *task, const int *order, int n) {
  const sl__task *first = NULL;
  size_t bytes, memory;
  int gpu;
  const sl__task *large = left_lying(task, order, n, &first) ? too_large(task, order, n, &bytes, &memory, &gpu) : NULL;
  if (!large) return SL_OK;
  return sl_blame(
      sl_fail(SL_EPOLICY,
              "step %lld: layer '%s' (%s) needs %.1f MiB at once, and GPU %d has %.1f MiB for StarPU: use a "
              "smaller batch, more shards, row blocks or folds, or no GPUs",
              (long long)large->program_step->number, large->name, large->op->name, (double)bytes / (1 << 20), gpu,
              (double)memory / (1 << 20)),
      "batch, shards, row_blocks, folds, gpus");
}

/* starving: seconds that threads have waited for a processor, summed over the threads. */
static sl_status tell(const sl__task *task, const int *order, int n, const char *policy, int seconds, double starving) {
  const sl__task *first = NULL;
  const int lying = left_lying(task, order, n, &first);
  char places[512], waited[96] = "";
  if (starving >= 1)
    snprintf(waited, sizeof waited, ", in which its threads have waited %.0f s for a processor", starving);
  if (lying && first->exchange)
    return sl_fail(SL_ESTARPU,
                   "step %lld: StarPU has not brought the data of layer '%s' (%s) to host memory for %d s%s, and no "
                   "worker has anything to do; %d such exchanges and ready tasks wait",
                   (long long)first->program_step->number, first->name, first->op->name, seconds, waited, lying);
  if (lying)
    return sl_fail(SL_EPOLICY,
                   "step %lld: scheduling policy '%s' has left %d ready tasks lying for %d s%s, the first of layer "
                   "'%s' (%s), and no worker has anything to do (StarPU: %s): does its pop_task give out all that its "
                   "push_task was given?%s",
                   (long long)first->program_step->number, policy, lying, seconds, waited, first->name, first->op->name,
                   status_of(first), places_of(first, places, sizeof places));
  return SL_OK;
}

#if SL_SIMULATED

/* Longer than any task. Where nothing else happens, SimGrid's clock gets there at once. */
static const float LONG_S = 1e6F;

static void *watch(void *arg) {
  sl__run *p = arg;
  for (int before = -1, left; !p->ends; before = left) {
    starpu_sleep(LONG_S);
    left = atomic_load(&p->left);
    if (left == 0 || left != before) continue;
    starpu_pthread_mutex_lock(&p->mutex);
    p->stands = 1;
    starpu_pthread_cond_signal(&p->none_left);
    starpu_pthread_mutex_unlock(&p->mutex);
  }
  return NULL;
}

sl_status sl__run_create(sl__run *p) {
  starpu_pthread_mutex_init(&p->mutex, NULL);
  starpu_pthread_cond_init(&p->none_left, NULL);
  starpu_pthread_create(&p->watch, NULL, watch, p);
  return SL_OK;
}

void sl__run_destroy(sl__run *p) {
  p->ends = 1;
  starpu_pthread_join(p->watch, NULL);
  starpu_pthread_cond_destroy(&p->none_left);
  starpu_pthread_mutex_destroy(&p->mutex);
}

sl_status sl__run_wait(sl__run *p, const sl__task *task, const int *order, int n, const char *policy, double patience) {
  (void)patience;
  starpu_pthread_mutex_lock(&p->mutex);
  while (atomic_load(&p->left) > 0 && !p->stands) starpu_pthread_cond_wait(&p->none_left, &p->mutex);
  starpu_pthread_mutex_unlock(&p->mutex);
  if (p->stands) SL_TRY(tell_too_large(task, order, n));
  return p->stands ? tell(task, order, n, policy, (int)LONG_S, 0) : SL_OK;
}

#else

/* Seconds without progress, as sl__run_wait counts them, until it looks for tasks too large for a GPU's memory. */
enum { LOOK_S = 10 };
/* If all threads together wait longer than this for a processor within a second, the second counts as a sixth. */
static const double STARVED_S = 0.5;

/* Whether the first entry that left_lying counts is an exchange. Its data may be large, and the link or disk slow. */
static int waits_for_copies(const sl__task *task, const int *order, int n) {
  const sl__task *first = NULL;
  return left_lying(task, order, n, &first) > 0 && first->exchange;
}

sl_status sl__run_create(sl__run *p) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  const int failed = pthread_mutex_init(&p->mutex, NULL) || pthread_cond_init(&p->none_left, &attr);
  pthread_condattr_destroy(&attr);
  return failed ? sl_no_memory("to wait for a program's tasks") : SL_OK;
}

void sl__run_destroy(sl__run *p) {
  pthread_cond_destroy(&p->none_left);
  pthread_mutex_destroy(&p->mutex);
}

/* Counts seconds by wake-ups, not by the clock, so that a process that was stopped for a while does not blame the
 * policy. A second in which threads waited for a processor counts as a sixth. */
sl_status sl__run_wait(sl__run *p, const sl__task *task, const int *order, int n, const char *policy, double patience) {
  sl_status status = SL_OK;
  enum { WHOLE = 6, SIXTH = 1, COPIES = 6 };
  int before = -1, seconds = 0, counted = 0;
  double starving = 0;
  sl_starved starved = {0};
  sl_seconds_starved(&starved);
  pthread_mutex_lock(&p->mutex);
  while (atomic_load(&p->left) > 0 && status == SL_OK) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    if (pthread_cond_timedwait(&p->none_left, &p->mutex, &until) != ETIMEDOUT) continue;
    const int left = atomic_load(&p->left);
    const double waited = sl_seconds_starved(&starved);
    seconds = left == before ? seconds + 1 : 0;
    counted = seconds == 0 ? 0 : counted + (waited > STARVED_S ? SIXTH : WHOLE);
    starving = seconds == 0 ? 0 : starving + waited;
    before = left;
    if (counted >= LOOK_S * WHOLE) status = tell_too_large(task, order, n);
    if (status != SL_OK || counted < patience * WHOLE) continue;
    if (seconds < COPIES * patience && waits_for_copies(task, order, n)) continue;
    status = tell(task, order, n, policy, seconds, starving);
    seconds = counted = 0;
  }
  pthread_mutex_unlock(&p->mutex);
  return status;
}
#endif
