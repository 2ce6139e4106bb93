/* Mutexes and condition variables of simulated threads, in place of SimGrid's.
 *
 * StarPU locks some mutexes of every worker for every task. Each use of a SimGrid mutex costs a switch to SimGrid's
 * scheduler; with 128 workers this took nine tenths of a simulation's time. But simulated threads (actors) run one at a
 * time, and are switched only in calls to SimGrid. So a thread takes a free mutex by setting a flag, and only a thread
 * that must wait is suspended. Waiting threads go on in the order in which they came. The functions have the names and
 * types of SimGrid's, and StarPU's library finds those of the program first. */
#include <simgrid/actor.h>
#include <simgrid/cond.h>
#include <simgrid/mutex.h>
#include <stdlib.h>

/* An entry of a queue, on the stack of the thread that waits. */
typedef struct waiter {
  sg_actor_t actor;
  int woken;
  struct waiter *next;
} waiter;

typedef struct queue {
  waiter *first, *last;
} queue;

typedef struct mutex {
  int taken;
  queue waiting;
} mutex;

static void *allocate(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (!memory) abort(); /* as SimGrid does: these functions cannot return an error */
  return memory;
}

static void enter(queue *q, waiter *me) {
  *me = (waiter){.actor = sg_actor_self()};
  *(q->last ? &q->last->next : &q->first) = me;
  q->last = me;
}

/* Another thread may have run since the waiter entered the queue, and may have taken it out already. */
static void await(waiter *me) {
  while (!me->woken) sg_actor_suspend(me->actor);
}

static int wake_first(queue *q) {
  waiter *w = q->first;
  if (!w) return 0;
  sg_actor_t actor = w->actor;
  q->first = w->next;
  if (!q->first) q->last = NULL;
  w->woken = 1;
  sg_actor_resume(actor);
  return 1;
}

/* SimGrid's headers declare these two without a prototype. */
sg_mutex_t sg_mutex_init(void);
sg_cond_t sg_cond_init(void);

sg_mutex_t sg_mutex_init(void) { return allocate(sizeof(mutex)); }
void sg_mutex_destroy(const_sg_mutex_t m) { free((void *)m); }

void sg_mutex_lock(sg_mutex_t which) {
  mutex *m = (mutex *)which;
  waiter me;
  if (!m->taken) {
    m->taken = 1;
    return;
  }
  enter(&m->waiting, &me);
  await(&me); /* the thread that unlocks hands the mutex over */
}

int sg_mutex_try_lock(sg_mutex_t which) {
  mutex *m = (mutex *)which;
  const int is_free = !m->taken;
  m->taken = 1;
  return is_free;
}

void sg_mutex_unlock(sg_mutex_t which) {
  mutex *m = (mutex *)which;
  if (!m->waiting.first)
    m->taken = 0;
  else
    wake_first(&m->waiting);
}

sg_cond_t sg_cond_init(void) { return allocate(sizeof(queue)); }
void sg_cond_destroy(const_sg_cond_t c) { free((void *)c); }

void sg_cond_wait(sg_cond_t c, sg_mutex_t m) {
  waiter me;
  enter((queue *)c, &me);
  sg_mutex_unlock(m);
  await(&me);
  sg_mutex_lock(m);
}

/* StarPU waits nowhere with a time limit, so this sleeps for the whole time. Returns 1: timed out. */
int sg_cond_wait_for(sg_cond_t c, sg_mutex_t m, double delay) {
  (void)c;
  sg_mutex_unlock(m);
  sg_actor_sleep_for(delay);
  sg_mutex_lock(m);
  return 1;
}

void sg_cond_notify_one(sg_cond_t c) { wake_first((queue *)c); }
void sg_cond_notify_all(sg_cond_t c) {
  while (wake_first((queue *)c)) {
  }
}
