/* Runs an untrusted program once under limits: an endless loop, a fork bomb, a leak or a flood of output costs its
 * own run and nothing else. It is no sandbox: the program can use the caller's files and network. */
#ifndef SL_TOOLS_TRIAL_H
#define SL_TOOLS_TRIAL_H

#include <stddef.h>

#include "runtime/base/status.h"

typedef struct sl__limits {
  double seconds; /* seconds from start to end */
  size_t bytes;   /* resident bytes of all its processes together */
  int processes;  /* processes at once */
} sl__limits;

typedef enum sl__trial_end { SL__TRIAL_EXITED, SL__TRIAL_TIME, SL__TRIAL_MEMORY, SL__TRIAL_PROCESSES } sl__trial_end;

enum { SL__TRIAL_OUTPUT = 1 << 16 };

typedef struct sl__trial {
  sl__trial_end end;
  int exit;   /* exit code, or 128 + the signal that ended it */
  int signal; /* that signal, or 0 */
  double seconds;
  size_t peak;                       /* peak resident bytes of all its processes */
  char output[SL__TRIAL_OUTPUT + 1]; /* standard output and error, in order, cut off at the limit; a string */
} sl__trial;

/* Runs argv in `folder`, without input, in a session of its own. When its first process has ended, or a limit is
 * exceeded, all its descendants are killed. This process must have no other children meanwhile. SL_EIO: it could not
 * be started; what the program itself does is no failure here. */
sl_status sl__try(const char *folder, char *const argv[], const sl__limits *limits, sl__trial *trial);

#endif
