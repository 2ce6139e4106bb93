/* The stacks of a process's threads, each taken by the thread itself when a signal asks for it: so they need no
 * debugger and no rights, and a process that is stopped (SIGSTOP) tells where it stopped as soon as it continues. */
#ifndef SL_TOOLS_STACKS_H
#define SL_TOOLS_STACKS_H

#include <jansson.h>
#include <sys/types.h>

/* From now on this process can be asked. */
void sl__stacks_open(void);
/* Asks all threads of a process of this host, which may be this one. Returns 0 where it cannot be asked: it is gone, is
 * another user's or has not come to sl__stacks_open. */
int sl__stacks_ask(pid_t pid);
/* The process that asked last, since the last sl__stacks_json; 0: none. */
pid_t sl__stacks_asked(void);
/* What the threads answered: sl__process_threads of this process, with a "stack" of each, the innermost function first.
 * Call it a tenth of a second after sl__stacks_ask. NULL: no memory. */
json_t *sl__stacks_json(void);

#endif
