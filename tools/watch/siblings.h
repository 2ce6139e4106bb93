/* The ranks of this host: the processes that the same launcher started. Read from /proc, which also describes stopped
 * processes. */
#ifndef SL_TOOLS_SIBLINGS_H
#define SL_TOOLS_SIBLINGS_H

#include <jansson.h>
#include <sys/types.h>

enum { SL__SIBLINGS_MOST = 512 };

typedef struct sl__sibling {
  pid_t pid;
  int rank;   /* -1: not known */
  char state; /* of /proc/PID/stat: 'T' stopped, 'D' waits for a device */
} sl__sibling;

/* Fills found[SL__SIBLINGS_MOST], this process included; returns how many there are. */
int sl__siblings_find(sl__sibling *found);
/* How many of them are stopped; for any thread. */
int sl__siblings_standing(void);
static inline int sl__sibling_stands(const sl__sibling *s) { return s->state == 'T' || s->state == 't'; }
/* The state of a process or thread on this host, as in /proc; '?' if it is gone. */
char sl__process_state(pid_t pid);
/* Whether a process of this host has a handler for the signal. */
int sl__process_catches(pid_t pid, int signal);
/* What the kernel reports of each thread of a process: an array of {thread, name, state, in, syscall}. NULL: no
 * memory. */
json_t *sl__process_threads(pid_t pid);

#endif
