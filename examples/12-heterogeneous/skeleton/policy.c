/* Lesson 12: a scheduling policy for CPUs and GPUs to fill in. At present tasks go to the workers in turn.
 *
 * StarPU calls push_task when a task has become ready, pop_task on an idle worker, and post_exec_hook when a task has
 * ended. Times are microseconds. */
#include <limits.h>
#include <pthread.h>
#include <starpu.h>
#include <starpu_scheduler.h>

static struct starpu_task *queue[STARPU_NMAXWORKERS]; /* ready tasks of a worker, by priority; linked by task->next */
static double load[STARPU_NMAXWORKERS];               /* time of the tasks in its queue and of the one that it runs */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Time of the task on a worker, and in *copies that of its inputs on their way there; -1: it cannot run there. */
static double length_of(struct starpu_task *task, unsigned worker, double *copies) {
  unsigned implementation;
  if (!starpu_worker_can_execute_task_first_impl(worker, task, &implementation)) return -1;
  *copies = starpu_task_expected_data_transfer_time_for(task, worker);
  return starpu_task_expected_length(task, starpu_worker_get_perf_archtype(worker, task->sched_ctx), implementation);
}

/* To do: choose the worker. length_of tells how long the task takes on each worker, and its copies; load what a worker
 * has to do before; starpu_worker_get_type whether it is a STARPU_CUDA_WORKER. The task's data are
 * STARPU_TASK_GET_HANDLE(task, k) for k = 0 ... STARPU_TASK_GET_NBUFFERS(task) - 1, of starpu_data_get_size bytes; a
 * handle is the same in every step. */
static int choose(struct starpu_task *task) {
  static unsigned turn;
  double copies;
  for (;;) {
    const unsigned worker = turn++ % starpu_worker_get_count();
    if (length_of(task, worker, &copies) >= 0) return (int)worker;
  }
}

static int push_task(struct starpu_task *task) {
  double copies = 0;
  unsigned implementation;
  pthread_mutex_lock(&mutex);
  const int worker = choose(task);
  const double length = length_of(task, (unsigned)worker, &copies);
  starpu_worker_can_execute_task_first_impl((unsigned)worker, task, &implementation);
  starpu_task_set_implementation(task, implementation);
  task->predicted = length;
  load[worker] += length;
  pthread_mutex_unlock(&mutex); /* asking for copies takes time, and workers must be able to look meanwhile */
  starpu_prefetch_task_input_for(task, (unsigned)worker);
  pthread_mutex_lock(&mutex);
  struct starpu_task **at = &queue[worker];
  while (*at && (*at)->priority >= task->priority) at = &(*at)->next; /* among equals the older one first */
  task->next = *at;
  *at = task;
  starpu_push_task_end(task);
  pthread_mutex_unlock(&mutex);
  starpu_wake_worker_relax_light((unsigned)worker);
  return 0;
}

static struct starpu_task *pop_task(unsigned context) {
  const unsigned worker = starpu_worker_get_id_check();
  (void)context;
  starpu_worker_relax_on(); /* lets other threads read this worker's state while it waits for the mutex */
  pthread_mutex_lock(&mutex);
  starpu_worker_relax_off();
  struct starpu_task *task = queue[worker];
  if (task) {
    queue[worker] = task->next;
    task->next = NULL;
  }
  pthread_mutex_unlock(&mutex);
  return task;
}

static void post_exec_hook(struct starpu_task *task, unsigned context) {
  const unsigned worker = starpu_worker_get_id_check();
  (void)context;
  starpu_worker_relax_on();
  pthread_mutex_lock(&mutex);
  starpu_worker_relax_off();
  load[worker] -= task->predicted;
  if (load[worker] < 0) load[worker] = 0;
  pthread_mutex_unlock(&mutex);
}

static void init_sched(unsigned context) {
  (void)context;
  starpu_sched_set_min_priority(INT_MIN); /* any int is a priority */
  starpu_sched_set_max_priority(INT_MAX);
}

static struct starpu_sched_policy policy = {
    .init_sched = init_sched,
    .push_task = push_task,
    .pop_task = pop_task,
    .post_exec_hook = post_exec_hook,
    .policy_name = "own",
    .policy_description = "mine",
    .worker_type = STARPU_WORKER_LIST,
};

/* The function that Starling's --sched-lib, and StarPU 1.4, look up. */
struct starpu_sched_policy **starpu_get_sched_lib_policies(void);
struct starpu_sched_policy **starpu_get_sched_lib_policies(void) {
  static struct starpu_sched_policy *all[] = {&policy, NULL};
  return all;
}
