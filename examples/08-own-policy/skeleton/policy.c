/* Lesson 8: a scheduling policy to fill in. StarPU calls push_task when a task has become ready, on any thread, and
 * pop_task on an idle worker. At present, tasks that are pushed are never popped. */
#include <limits.h>
#include <pthread.h>
#include <starpu.h>
#include <starpu_scheduler.h>

static struct starpu_task *first; /* of the ready tasks; linked by task->next */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int push_task(struct starpu_task *task) {
  const unsigned context = task->sched_ctx;
  pthread_mutex_lock(&mutex);
  /* To do: put the task where pop_task will find it. task->priority is the length of the longest path from its start to
   * the end of the step; task->next is free for your use. */
  starpu_push_task_end(task);
  pthread_mutex_unlock(&mutex);

  /* Wakes the idle workers, which sleep or are about to ask. */
  struct starpu_worker_collection *workers = starpu_sched_ctx_get_worker_collection(context);
  struct starpu_sched_ctx_iterator it;
  workers->init_iterator(workers, &it);
  while (workers->has_next(workers, &it)) starpu_wake_worker_relax_light(workers->get_next(workers, &it));
  return 0;
}

/* Runs on a worker, which may be a GPU; not every task can run there. */
static struct starpu_task *pop_task(unsigned context) {
  const unsigned worker = starpu_worker_get_id_check();
  unsigned implementation;
  (void)context;
  starpu_worker_relax_on(); /* lets other threads read this worker's state while it waits for the mutex */
  pthread_mutex_lock(&mutex);
  starpu_worker_relax_off();
  struct starpu_task *task = NULL;
  /* To do: take a task that this worker can execute (starpu_worker_can_execute_task_first_impl says whether, and with
   * which implementation), set the implementation (starpu_task_set_implementation), and set task->next to NULL again.
   */
  (void)worker, (void)implementation;
  pthread_mutex_unlock(&mutex);
  return task;
}

static void init_sched(unsigned context) {
  (void)context;
  first = NULL;
  starpu_sched_set_min_priority(INT_MIN); /* any int is a priority */
  starpu_sched_set_max_priority(INT_MAX);
}

static struct starpu_sched_policy policy = {
    .init_sched = init_sched,
    .push_task = push_task,
    .pop_task = pop_task,
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
