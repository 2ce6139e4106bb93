/* The process that a launcher starts, mpiexec or a rank alone, and what it leaves behind. One at a time. */
#ifndef SL_TOOLS_PROCESS_H
#define SL_TOOLS_PROCESS_H

#include <sys/types.h>

#include "runtime/base/status.h"

/* The rank that died first: what mpiexec said of it, in lines that are not passed on, and what was seen here. mpiexec
 * kills the others, and may name one of those. */
typedef struct sl__obituary {
  char host[128];
  long pid; /* 0: mpiexec said nothing */
  int signal;
} sl__obituary;

/* From now on SIGINT, SIGTERM and SIGUSR1 go to the process. Returns at once. */
void sl__process_catch(void);
int sl__process_signalled(void); /* one of them has come */

/* argv ends in NULL. launch: the value of STARLING_LAUNCH in the environment of all that it starts; relays: its
 * standard output is passed on line by line. It ends with SIGTERM when this process does. SL_EIO. */
sl_status sl__process_start(char *const *argv, const char *launch, int relays);
/* The processes of ranks on this host, by its name, so that the first one to end is known. Once a start. */
void sl__process_ranks(const char *host, const long *pid, int n);
/* Passes on output; waits a few milliseconds at most. Returns 1 once the process has ended, with waitpid's state. */
int sl__process_ended(int *state, sl__obituary *obituary);
void sl__process_kill(void);
/* Kills the processes of this host that have this launch in their environment, and waits for their end. */
void sl__process_kill_rest(const char *launch);

#endif
