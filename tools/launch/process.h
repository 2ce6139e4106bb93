/* The process that a launcher starts (mpiexec, or the only rank), and how it ended. One at a time. */
#ifndef SL_TOOLS_PROCESS_H
#define SL_TOOLS_PROCESS_H

#include <sys/types.h>

#include "runtime/base/status.h"

/* The first rank to die, found from mpiexec's report and from the processes on this host. The report alone is not
 * enough: mpiexec kills the other ranks, and may name one of these. The report's lines are not passed on. */
typedef struct sl__obituary {
  char host[128];
  long pid; /* 0: unknown */
  int signal;
} sl__obituary;

/* Passes SIGINT, SIGTERM and SIGUSR1 on to the process from now on. */
void sl__process_catch(void);
int sl__process_signalled(void); /* whether one of them has come */

/* Starts the process. argv ends in NULL. launch: value of STARLING_LAUNCH for it and its children. relays: passes its
 * standard output on line by line. It gets SIGTERM when this process ends. SL_EIO. */
sl_status sl__process_start(char *const *argv, const char *launch, int relays);
/* Tells the launcher that this rank has started, if a launcher started the rank through mpiexec. The message is a line
 * of standard output: mpiexec brings it from any host, and the launcher does not pass it on. */
void sl__process_announce(int rank);
int sl__process_heard(int rank); /* whether that rank of the job has announced itself */
/* Watches these ranks on this host, so that the first one to end is known. host: this host's name. Call once for each
 * start. */
void sl__process_ranks(const char *host, const long *pid, int n);
/* Passes on output; waits a few milliseconds at most. Returns 1 when the process has ended; *state as waitpid gives
 * it. */
int sl__process_ended(int *state, sl__obituary *obituary);
void sl__process_kill(void);
/* Kills the processes on this host whose STARLING_LAUNCH is `launch`, and waits until they have ended. */
void sl__process_kill_rest(const char *launch);

#endif
