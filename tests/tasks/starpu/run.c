/* tasks/starpu/run.c: a step ends with its last task, on whichever thread. Ready tasks that no worker takes are
 * reported with their layer; running kernels and tasks that wait for others are not. The test makes tasks by hand, and
 * threads act as workers. */
#include "tasks/starpu/run.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/machine/starved.h"
#include "runtime/machine/yield.h"
#include "tasks/starpu/codelet.h"
#include "tests/support/scratch.h"

enum { N = 4, PATIENCE = 5 }; /* seconds */

/* A step: 0 -> 1 -> 2 (an exchange) -> 3. */
typedef struct step {
  sl__run run;
  sl__task task[N];
  int before[N], order[N];
  sl_step number;
  sl_operation op;
  sl_status status;
  double patience;
  char error[2048];
  atomic_int over; /* the wait is */
} step;

static void make(step *s) {
  static const char *const layers[N] = {"fc1", "fc2", "sum", "fc3"};
  memset(s, 0, sizeof *s);
  s->number.number = 7, s->op.name = "linear", s->patience = PATIENCE;
  assert_ok(sl__run_create(&s->run));
  for (int i = 0; i < N; i++) {
    s->order[i] = i, s->before[i] = i - 1;
    s->task[i].run = &s->run;
    s->task[i].index = i;
    s->task[i].name = layers[i];
    s->task[i].op = &s->op;
    s->task[i].tasks = s->task;
    s->task[i].program_step = &s->number;
    s->task[i].before = &s->before[i];
    s->task[i].n_before = i > 0;
    s->task[i].exchange = i == 2;
    atomic_store(&s->task[i].state, SL__ENDED); /* by the previous step */
  }
  sl__run_begin(&s->run, s->task, N);
}

static void *wait_for(void *arg) {
  step *s = arg;
  s->status = sl__run_wait(&s->run, s->task, s->order, N, "mine", s->patience);
  snprintf(s->error, sizeof s->error, "%s", sl_error());
  atomic_store(&s->over, 1);
  return NULL;
}

/* In place of the measurement: threads of all steps wait for a processor for so many seconds in each second. */
static _Atomic double starving;
double sl_seconds_starved(sl_starved *s) {
  (void)s;
  return atomic_load(&starving);
}

/* In place of StarPU's workers. */
static atomic_int yielding;
void sl_workers_yield(int yields) { atomic_store(&yielding, yields); }

static void pause_for(double seconds) {
  const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static void begins_afresh(void **state) {
  (void)state;
  step s;
  make(&s);
  assert_int_equal(atomic_load(&s.run.left), N - 1); /* without the exchange */
  for (int i = 0; i < N; i++) assert_int_equal(atomic_load(&s.task[i].state), SL__WAITING);
  atomic_store(&s.run.status, SL_EIO), atomic_store(&s.run.claimed, 1), atomic_store(&s.run.first_bad, 2);
  sl__run_begin(&s.run, s.task, N);
  assert_int_equal(atomic_load(&s.run.status), SL_OK);
  assert_int_equal(atomic_load(&s.run.claimed), 0);
  assert_int_equal(atomic_load(&s.run.first_bad), INT_MAX);
  assert_int_equal(atomic_load(&s.run.last), -1);
  sl__run_destroy(&s.run);
}

/* The waiting thread continues at the last task's end, neither earlier nor at the exchange's end, and from then until
 * the next step idle workers leave it a core. */
static void the_last_end_wakes(void **state) {
  (void)state;
  step s;
  pthread_t waiter;
  atomic_store(&yielding, 1);
  make(&s);
  assert_int_equal(pthread_create(&waiter, NULL, wait_for, &s), 0);
  for (int i = 0; i < N; i++) {
    assert_int_equal(atomic_load(&s.run.left), i < 2 ? 3 - i : 1);
    if (i == N - 1) pause_for(0.05);
    assert_int_equal(atomic_load(&s.over), 0);
    assert_int_equal(atomic_load(&yielding), 0);
    sl__run_end(&s.task[i]);
    assert_int_equal(atomic_load(&s.task[i].state), SL__ENDED);
  }
  assert_int_equal(pthread_join(waiter, NULL), 0);
  assert_int_equal(s.status, SL_OK);
  assert_int_equal(atomic_load(&yielding), 1);
  assert_int_equal(atomic_load(&s.run.left), 0);
  assert_ok(sl__run_wait(&s.run, s.task, s.order, N, "mine", PATIENCE)); /* no task is left */
  s.run.yields = 1;                                                      /* a program with exchanges */
  atomic_store(&yielding, 0);
  sl__run_begin(&s.run, s.task, N);
  assert_int_equal(atomic_load(&yielding), 1);
  sl__run_destroy(&s.run);
}

enum { LYING, RUNS, EXCHANGES, NEXT, TWO, BESIDE, SLOW, LACKS, SOON, LATE, STEPS };

/* Ends a task of step SLOW at four fifths of the patience, as step SOON counts it, and the others only when a step
 * whose patience is half as long again has been reported. */
static void *end_slowly(void *arg) {
  step *s = arg;
  while (!atomic_load(&s[SOON].over)) pause_for(0.01);
  sl__run_end(&s[SLOW].task[0]);
  while (!atomic_load(&s[LATE].over)) pause_for(0.01);
  for (int i = 1; i < N; i++) sl__run_end(&s[SLOW].task[i]);
  return NULL;
}

/* Ten steps at once; all but one are without progress for longer than the policy's limit. */
static void only_ready_tasks_lie(void **state) {
  (void)state;
  atomic_int lacking = 1, moving = 0;
  step s[STEPS];
  pthread_t waiter[STEPS], slow;
  for (int k = 0; k < STEPS; k++) make(&s[k]);
  atomic_store(&s[RUNS].task[0].state, SL__BEGUN);                        /* a long kernel */
  sl__run_end(&s[EXCHANGES].task[0]), sl__run_end(&s[EXCHANGES].task[1]); /* 3 waits for the exchange */
  sl__run_end(&s[NEXT].task[0]);
  s[NEXT].order[0] = 3, s[NEXT].order[3] = 0;
  s[TWO].task[3].n_before = 0, s[TWO].order[0] = 3, s[TWO].order[3] = 0; /* 0 and 3 are ready, 3 is the more urgent */
  s[BESIDE].task[3].n_before = 0;                                        /* ready, while 0 runs */
  atomic_store(&s[BESIDE].task[0].state, SL__BEGUN);
  sl__run_end(&s[LACKS].task[0]), sl__run_end(&s[LACKS].task[1]);
  s[LACKS].patience = s[EXCHANGES].patience = 1; /* copies may take six times that */
  s[LACKS].task[2].lacking = &lacking, s[EXCHANGES].task[2].lacking = &moving;
  s[SOON].patience = 0.8 * PATIENCE, s[LATE].patience = 1.5 * PATIENCE;
  for (int k = 0; k < STEPS; k++) assert_int_equal(pthread_create(&waiter[k], NULL, wait_for, &s[k]), 0);
  assert_int_equal(pthread_create(&slow, NULL, end_slowly, s), 0);
  assert_int_equal(pthread_join(waiter[LYING], NULL), 0);
  assert_int_equal(s[LYING].status, SL_EPOLICY);
  int seconds = 0;
  const char *const words =
      "step 7: scheduling policy 'mine' has left 1 ready tasks lying for %d s, the first of layer ";
  assert_int_equal(sscanf(s[LYING].error, words, &seconds), 1);
  assert_int_equal(seconds, PATIENCE);
  assert_non_null(strstr(s[LYING].error, "'fc1' (linear)"));
  assert_non_null(strstr(s[LYING].error, "(StarPU: it is not submitted)")); /* these tasks are not StarPU's */
  assert_int_equal(pthread_join(waiter[NEXT], NULL), 0);
  assert_int_equal(s[NEXT].status, SL_EPOLICY);
  assert_non_null(strstr(s[NEXT].error, "'fc2' (linear)"));
  assert_int_equal(pthread_join(waiter[TWO], NULL), 0);
  assert_int_equal(s[TWO].status, SL_EPOLICY);
  assert_non_null(strstr(s[TWO].error, "has left 2 ready tasks lying"));
  assert_non_null(strstr(s[TWO].error, "'fc3' (linear)"));
  assert_int_equal(pthread_join(waiter[LACKS], NULL), 0);
  assert_int_equal(s[LACKS].status, SL_ESTARPU);
  assert_non_null(
      strstr(s[LACKS].error, "StarPU has not brought the data of layer 'sum' (linear) to host memory for "));
  assert_int_equal(pthread_join(slow, NULL), 0);
  assert_int_equal(pthread_join(waiter[SLOW], NULL), 0);
  assert_int_equal(s[SLOW].status, SL_OK);
  for (int k = SOON; k <= LATE; k++) {
    assert_int_equal(pthread_join(waiter[k], NULL), 0);
    assert_int_equal(s[k].status, SL_EPOLICY);
  }
  pause_for(1.5); /* the other steps have been checked too */
  assert_int_equal(atomic_load(&s[RUNS].run.left), 3);
  for (int i = 0; i < N; i++) sl__run_end(&s[RUNS].task[i]), sl__run_end(&s[BESIDE].task[i]);
  for (int i = 2; i < N; i++) sl__run_end(&s[EXCHANGES].task[i]);
  const int fine[] = {RUNS, EXCHANGES, BESIDE};
  for (int k = 0; k < 3; k++) {
    assert_int_equal(pthread_join(waiter[fine[k]], NULL), 0);
    assert_int_equal(s[fine[k]].status, SL_OK);
  }
  for (int k = 0; k < STEPS; k++) sl__run_destroy(&s[k].run);
}

/* A second in which threads waited for a processor counts as a sixth. */
static void a_busy_machine(void **state) {
  (void)state;
  step s;
  make(&s);
  s.patience = 1;
  atomic_store(&starving, 0.9);
  wait_for(&s);
  atomic_store(&starving, 0);
  assert_int_equal(s.status, SL_EPOLICY);
  assert_non_null(strstr(s.error, "1 ready tasks lying for 6 s"));
  sl__run_destroy(&s.run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(begins_afresh),
      cmocka_unit_test(the_last_end_wakes),
      cmocka_unit_test(only_ready_tasks_lie),
      cmocka_unit_test(a_busy_machine),
  };
  return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
