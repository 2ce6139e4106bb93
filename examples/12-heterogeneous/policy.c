/* Lesson 12: a scheduling policy for CPUs and GPUs that keeps parameters where they are. Each large piece of data gets
 * a home, the GPU with the least work so far, and all tasks that use it run there: the owner computes. Other tasks go
 * to the worker that ends them first, its queue and their copies included, as in Topcuoglu, Hariri and Wu,
 * "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous Computing" (2002), and StarPU's dmdas.
 *
 * StarPU calls push_task when a task has become ready, pop_task on an idle worker, and post_exec_hook when a task has
 * ended. Times are microseconds. */
#include <limits.h>
#include <pthread.h>
#include <starpu.h>
#include <starpu_scheduler.h>

enum { LARGE = 4000000, HOMES = 4096 }; /* bytes; pieces of data at most */

static struct starpu_task *queue[STARPU_NMAXWORKERS]; /* ready tasks of a worker, by priority; linked by task->next */
static double load[STARPU_NMAXWORKERS];               /* time of the tasks in its queue and of the one that it runs */
static double given[STARPU_NMAXWORKERS];              /* time of all tasks that it got because of their data */
static struct {
  starpu_data_handle_t data;
  int worker;
} home[HOMES];
static int homes;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Time of the task on a worker, and in *copies that of its inputs on their way there; -1: it cannot run there. */
static double length_of(struct starpu_task *task, unsigned worker, double *copies) {
  unsigned implementation;
  if (!starpu_worker_can_execute_task_first_impl(worker, task, &implementation)) return -1;
  *copies = starpu_task_expected_data_transfer_time_for(task, worker);
  return starpu_task_expected_length(task, starpu_worker_get_perf_archtype(worker, task->sched_ctx), implementation);
}

/* The place of a piece of data in home[]; homes: it has none yet. */
static int find(starpu_data_handle_t data) {
  int i = 0;
  while (i < homes && home[i].data != data) i++;
  return i;
}

/* The GPU that has been given least. */
static int least_given(void) {
  int least = -1;
  for (unsigned w = 0; w < starpu_worker_get_count(); w++)
    if (starpu_worker_get_type((int)w) == STARPU_CUDA_WORKER && (least < 0 || given[w] < given[least])) least = (int)w;
  return least;
}

/* The home of the task's large pieces of data; -1: it has none. Where they have several homes, they move together to
 * that of the oldest: so a gradient is computed, from the next step on, where the weights lie that it will update. */
static int owner_of(struct starpu_task *task) {
  int oldest = HOMES, large = 0;
  for (unsigned k = 0; k < STARPU_TASK_GET_NBUFFERS(task); k++) {
    starpu_data_handle_t data = STARPU_TASK_GET_HANDLE(task, k);
    if (starpu_data_get_size(data) < LARGE) continue;
    const int at = find(data);
    large = 1;
    if (at < homes && at < oldest) oldest = at;
  }
  if (!large) return -1;
  const int owner = oldest < HOMES ? home[oldest].worker : least_given();
  for (unsigned k = 0; k < STARPU_TASK_GET_NBUFFERS(task) && owner >= 0; k++) {
    starpu_data_handle_t data = STARPU_TASK_GET_HANDLE(task, k);
    if (starpu_data_get_size(data) < LARGE) continue;
    const int at = find(data);
    if (at == HOMES) continue;
    homes += at == homes;
    home[at].data = data, home[at].worker = owner;
  }
  return owner;
}

/* The worker that will have ended the task first. */
static int earliest(struct starpu_task *task) {
  double first = 0, copies;
  int best = -1;
  for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
    const double length = length_of(task, w, &copies);
    if (length < 0 || (best >= 0 && load[w] + copies + length >= first)) continue;
    first = load[w] + copies + length, best = (int)w;
  }
  return best;
}

static int push_task(struct starpu_task *task) {
  double length = -1, copies = 0;
  unsigned implementation;
  pthread_mutex_lock(&mutex);
  int worker = owner_of(task);
  const int owned = worker >= 0 && (length = length_of(task, (unsigned)worker, &copies)) >= 0;
  if (!owned) {
    worker = earliest(task);
    length = length_of(task, (unsigned)worker, &copies) + copies;
  }
  starpu_worker_can_execute_task_first_impl((unsigned)worker, task, &implementation);
  starpu_task_set_implementation(task, implementation);
  task->predicted = length;
  load[worker] += length;
  if (owned) given[worker] += length;
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
    .policy_description = "the owner of large data computes, else the earliest end",
    .worker_type = STARPU_WORKER_LIST,
};

/* The function that Starling's --sched-lib, and StarPU 1.4, look up. */
struct starpu_sched_policy **starpu_get_sched_lib_policies(void);
struct starpu_sched_policy **starpu_get_sched_lib_policies(void) {
  static struct starpu_sched_policy *all[] = {&policy, NULL};
  return all;
}
