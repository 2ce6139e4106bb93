/* The stacks of a process's threads. Each thread takes its own when a signal asks for it, so this needs no debugger and
 * no privileges. A process stopped by SIGSTOP reports where it stopped as soon as it continues. */
#ifndef SL_TOOLS_STACKS_H
#define SL_TOOLS_STACKS_H

#include <jansson.h>
#include <sys/types.h>

/* Installs the handler, so that sl__stacks_ask works on this process. */
void sl__stacks_open(void);
/* Asks all threads of a process on this host (perhaps this one) for their stacks. Returns 0 if that is impossible: the
 * process is gone, belongs to another user or has not called sl__stacks_open. */
int sl__stacks_ask(pid_t pid);
/* The process that asked last since the previous sl__stacks_json; 0: none. */
pid_t sl__stacks_asked(void);
/* The answers: sl__process_threads of this process, with a "stack" for each thread, the innermost function first. Call
 * it a tenth of a second after sl__stacks_ask. NULL: no memory. */
json_t *sl__stacks_json(void);

#endif
