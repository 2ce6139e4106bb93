/* Lesson 8: runs StarPU under the policy in policy.so, which policy.c makes. It reads the questions that judge.c made
 * from standard input, writes its answers to descriptor 3, and says nothing about right and wrong: judge.c does.
 *
 * First it plays games by a simulated clock, so that the machine's speed does not matter. Tasks do no work: each
 * occupies its worker until the clock reaches the task's end. While the clock moves and tasks become ready, a gate is
 * shut and workers get no tasks; then it opens, and each idle worker asks the policy. Afterwards it runs training steps
 * of a network. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <starpu.h>
#include <starpu_scheduler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "answers.h"
#include "runtime/base/status.h"
#include "runtime/machine/policies.h"
#include "steps.h"

enum { WAITING, PUSHED, RUNNING, RELEASED, ENDED };

static const char *const library = "./policy.so";
static struct starpu_sched_policy *own; /* the policy in policy.so */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_open;                    /* the gate */
static int asking;                     /* workers that are inside the policy's pop_task */
static int refused[WORKERS];           /* 1: since the gate was opened, the policy had nothing for this worker */
static int holds[WORKERS];             /* 1: the policy gave it a task */
static int busy[WORKERS];              /* 1: that task has started */
static int state[TASKS], until[TASKS]; /* of this game's tasks: state, and tick of the end */
static int number, tick;               /* number of the game; tick of its clock */
static questions q;
static answers a;

/* Wraps the policy's own pop_task. */
static struct starpu_task *pop(unsigned context) {
  const unsigned worker = starpu_worker_get_id_check();
  pthread_mutex_lock(&mutex);
  const int shut = !is_open || worker >= WORKERS;
  asking += !shut;
  pthread_mutex_unlock(&mutex);
  if (shut) return NULL;
  struct starpu_task *task = own->pop_task(context);
  pthread_mutex_lock(&mutex);
  asking--;
  refused[worker] = !task, holds[worker] |= task != NULL;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return task;
}

/* A task starts when the policy gives it to a worker, and lasts until the clock reaches its end. */
static void work(void *buffers[], void *argument) {
  const int t = (int)(intptr_t)argument, worker = starpu_worker_get_id();
  (void)buffers;
  pthread_mutex_lock(&mutex);
  if (a.started[number] < TASKS)
    a.start[number][a.started[number]++] = (start){.task = t, .worker = worker, .tick = tick};
  state[t] = RUNNING, busy[worker] = 1, until[t] = tick + q.game[number][t].length;
  pthread_cond_broadcast(&changed);
  while (state[t] != RELEASED) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}
static struct starpu_codelet codelet = {.cpu_funcs = {work}, .nbuffers = 0, .name = "work"};

static void ended(void *argument) {
  const int t = (int)(intptr_t)argument;
  pthread_mutex_lock(&mutex);
  state[t] = ENDED;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

/* Pushes all tasks that have become ready to the policy; the gate is shut. */
static void push_ready(void) {
  for (int t = 0; t < TASKS; t++) {
    int ready = state[t] == WAITING;
    for (int b = 0; b < BEFORE && ready; b++)
      ready = q.game[number][t].before[b] < 0 || state[q.game[number][t].before[b]] == ENDED;
    if (!ready) continue;
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet;
    task->cl_arg = (void *)(intptr_t)t, task->callback_arg = task->cl_arg;
    task->callback_func = ended;
    task->priority = q.game[number][t].priority;
    state[t] = PUSHED;
    if (starpu_task_submit(task) != 0) abort();
  }
}

/* Waits a little for a change; called with the mutex locked. */
static void wait_a_little(void) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += 2000000;
  if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
  pthread_cond_timedwait(&changed, &mutex, &at);
}

/* Opens the gate until each worker has a task or was refused one. Returns the number of workers with tasks. */
static int let_start(void) {
  int at_work = 0, settled = 0;
  pthread_mutex_lock(&mutex);
  memset(refused, 0, sizeof refused);
  is_open = 1;
  while (!settled || asking) {
    if (is_open) {
      pthread_mutex_unlock(&mutex);
      for (int w = 0; w < a.workers; w++) starpu_wake_worker_relax_light((unsigned)w);
      pthread_mutex_lock(&mutex);
    }
    wait_a_little();
    settled = 1, at_work = 0;
    for (int w = 0; w < a.workers; w++) settled &= holds[w] ? busy[w] : refused[w], at_work += busy[w];
    if (settled) is_open = 0; /* from here on no further worker asks the policy */
  }
  pthread_mutex_unlock(&mutex);
  return at_work;
}

/* Moves the clock to the next end of a task, and waits until the tasks of that tick have ended. */
static void advance(void) {
  int next = -1, left = 1;
  pthread_mutex_lock(&mutex);
  for (int t = 0; t < TASKS; t++)
    if (state[t] == RUNNING && (next < 0 || until[t] < next)) next = until[t];
  tick = next;
  for (int s = 0; s < a.started[number]; s++) {
    const start *at = &a.start[number][s];
    if (state[at->task] == RUNNING && until[at->task] == tick) {
      state[at->task] = RELEASED;
      busy[at->worker] = holds[at->worker] = 0;
    }
  }
  pthread_cond_broadcast(&changed);
  while (left) {
    left = 0;
    for (int t = 0; t < TASKS; t++) left |= state[t] == RELEASED;
    if (left) pthread_cond_wait(&changed, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

/* Plays one game; 0: tasks are left that the policy gives to no worker. */
static int play(void) {
  tick = 0;
  memset(state, 0, sizeof state);
  for (;;) {
    push_ready();
    if (let_start() == 0) break;
    advance();
  }
  for (int t = 0; t < TASKS; t++)
    if (state[t] != ENDED) return 0;
  return 1;
}

static int play_all(void) {
  struct starpu_sched_policy gated = *own;
  struct starpu_conf conf;
  gated.pop_task = pop;
  starpu_conf_init(&conf);
  cpu_set_t allowed;
  const int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  conf.ncpus = cores < WORKERS ? 1 : WORKERS;
  conf.ncuda = conf.nopencl = 0;
  conf.sched_policy = &gated;
  /* The training steps set this, too. If only one of the two starts had it, StarPU 1.4 would free an object twice. */
  setenv("STARPU_WORKERS_GETBIND", "0", 1);
  if (starpu_init(&conf) != 0) return 0;
  a.workers = (int32_t)starpu_cpu_worker_get_count();
  for (number = 0; number < GAMES; number++)
    if (!play()) return 0; /* StarPU cannot stop while tasks are left */
  starpu_shutdown();
  return 1;
}

static int answer(void) {
  FILE *channel = fdopen(3, "wb");
  if (channel && fwrite(&a, sizeof a, 1, channel) == 1 && fclose(channel) == 0) return 0;
  puts("descriptor 3 is not open for the answers: use make run");
  return 2;
}

int main(void) {
  int is_own, code;
  if (fread(&q, sizeof q, 1, stdin) != 1) return puts("no questions on standard input: use make run"), 2;
  a.nonce = q.nonce;
  sl_status status = sl_policies_find(library, NULL, &own, &is_own);
  if (status == SL_OK && !play_all()) {
    puts("the policy keeps tasks that no worker gets");
    code = answer();
    fflush(stdout);
    _exit(code ? code : 1);
  }
  if (status == SL_OK) status = steps_run(library, q.seed, &a.parameters, &a.ms, a.policy);
  if (status != SL_OK) printf("%s\n", sl_error());
  code = answer();
  return code ? code : status != SL_OK;
}
