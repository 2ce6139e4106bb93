/* Runs an untrusted program once, under limits and with an environment of its own. So an endless loop, a fork bomb, a
 * leak or a flood of output harms only the program's own run. The sandbox (sandbox.h) limits its folders and its
 * network. */
#ifndef SL_TOOLS_TRIAL_H
#define SL_TOOLS_TRIAL_H

#include <stddef.h>
#include <sys/types.h>

#include "runtime/base/status.h"

typedef struct sl__limits {
  double seconds; /* of processor time of all its processes, and of time in which all of them sleep. Waiting for a
                   * processor does not count, so a busy machine changes no verdict. 20 times as long, and a minute
                   * more, ends the run whatever it did. */
  size_t bytes;   /* resident bytes of all its processes together */
  int processes;  /* processes at once */
} sl__limits;

typedef enum sl__trial_end { SL__TRIAL_EXITED, SL__TRIAL_TIME, SL__TRIAL_MEMORY, SL__TRIAL_PROCESSES } sl__trial_end;

enum { SL__TRIAL_OUTPUT = 1 << 16, SL__TRIAL_CHANNEL = 1 << 24 };

typedef struct sl__trial {
  sl__trial_end end;
  int exit;                          /* exit code, or 128 + the signal that ended it */
  double seconds;                    /* from start to end */
  size_t peak;                       /* peak resident bytes of all its processes */
  char output[SL__TRIAL_OUTPUT + 1]; /* standard output and error, in order, cut off at the limit; a string */
  size_t n_channel;
  char channel[SL__TRIAL_CHANNEL]; /* what it wrote to descriptor 3, likewise cut off */
} sl__trial;

typedef struct sl__attempt {
  const char *folder; /* its working folder */
  char *const *argv, *const *environment;
  int in;    /* descriptor of its standard input; -1: none */
  uid_t uid; /* user and group that it runs as; 0: the caller's */
} sl__attempt;

/* Runs argv in a session of its own. When its first process has ended, or a limit is exceeded, all its descendants are
 * killed. This process must have no other children meanwhile. SL_EIO: it could not be started, or does not end; what
 * the program itself does is no failure here. */
sl_status sl__try(const sl__attempt *run, const sl__limits *limits, sl__trial *trial);

#endif
