/* The guard of MPI_Finalize: a thread that ends the process if MPI_Finalize does not return. All results are on disk by
 * then. Ranks wait for one another before MPI_Finalize, so all of them have been inside it for about the same time.
 * Each guard first stops the main thread of its rank: otherwise the end of one rank would let another rank go on into a
 * barrier of mpiexec, which would then call the job failed. */
#include "tools/watch/guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/machine/runtime.h"
#include "tools/watch/siblings.h"
#include "tools/watch/watch.h"

enum { STOP_SECONDS = 15, END_SECONDS = 20, NOT_ARMED = -1 };

static int code = NOT_ARMED, running;
static pthread_t guard, waiting;

static void stop_here(int signal) {
  (void)signal;
  for (;;) pause();
}

/* A stopped rank of this host keeps the others in MPI_Finalize. Naming it is the task of the watch. */
static int one_stands(void) {
  int state;
  if (sl_runtime_promised_ranks() <= 1) return 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* the next call holds locks of the C library */
  const int n = sl__siblings_standing();
  pthread_setcancelstate(state, NULL);
  return n > 0;
}

static void *end_anyway(void *arg) {
  (void)arg;
  sleep(STOP_SECONDS);
  while (one_stands()) sleep(1);
  signal(SIGRTMAX - 1, stop_here);
  pthread_kill(waiting, SIGRTMAX - 1);
  sleep(END_SECONDS - STOP_SECONDS);
  sl_log(SL_LOG_WARNING, "MPI_Finalize did not return in %d s: this process, whose work is done, ends without it",
         END_SECONDS);
  sl__watch_exit(code);
}

void sl__guard_arm(int exit_code) { code = exit_code; }

void sl__guard_begin(void) {
  if (code == NOT_ARMED || fflush(stdout) != 0) return; /* what is not written now would be lost */
  waiting = pthread_self();
  running = pthread_create(&guard, NULL, end_anyway, NULL) == 0;
}

void sl__guard_end(void) {
  if (running) pthread_cancel(guard), pthread_join(guard, NULL);
  running = 0;
}
