/* A program that nobody vouches for, run once under limits: a loop without end, a bomb of processes, a leak or a flood
 * of output costs its own run and nothing else. It is no sandbox: files and the network are as open to it as to the
 * caller. */
#ifndef SL_TOOLS_TRIAL_H
#define SL_TOOLS_TRIAL_H

#include <stddef.h>

#include "runtime/base/status.h"

typedef struct sl__limits {
  double seconds; /* from start to end */
  size_t bytes;   /* resident, of all its processes together */
  int processes;  /* at once */
} sl__limits;

typedef enum sl__trial_end { SL__TRIAL_EXITED, SL__TRIAL_TIME, SL__TRIAL_MEMORY, SL__TRIAL_PROCESSES } sl__trial_end;

enum { SL__TRIAL_OUTPUT = 1 << 16 };

typedef struct sl__trial {
  sl__trial_end end;
  int exit;   /* code, or 128 + the signal that ended it */
  int signal; /* that signal, or 0 */
  double seconds;
  size_t peak;                       /* bytes resident, of all its processes */
  char output[SL__TRIAL_OUTPUT + 1]; /* standard output and error as they came, what is too much cut off; a string */
} sl__trial;

/* Runs argv in `folder`, without input, in a session of its own; when its first process has ended, or a limit is
 * passed, all that descends from it is killed. Nothing else of this process may have children meanwhile. SL_EIO: it
 * could not be run at all; what it does itself is no failure here. */
sl_status sl__try(const char *folder, char *const argv[], const sl__limits *limits, sl__trial *trial);

#endif
