/* stall-DATE.json: what each rank of a job did when the job stalled (docs/how-to/restarts.md says how to read it). Each
 * rank writes its part into the run's folder, .stall-RANK.part. The rank that ends the job joins the parts, and adds
 * what it knows about ranks that wrote none. */
#ifndef SL_TOOLS_STALL_H
#define SL_TOOLS_STALL_H

#include <stddef.h>

#include "runtime/base/status.h"

/* What is known of a rank. */
typedef struct sl__stall_rank {
  int rank;
  const char *host;  /* "": not known */
  long pid;          /* on this host; 0: not known */
  char state;        /* of the process, as /proc has it; 0: not known */
  const char *place; /* what it does, in words; "": work without a name, or not known */
  int waits, late;   /* it waits for others; others wait for it */
  int asked;
  double heard; /* seconds since its last report; < 0: none yet */
} sl__stall_rank;

/* Writes this rank's part: what it does, for how long nothing has moved in it, and the stacks of its threads, which
 * were asked a moment ago. waits_for: the exchange that waits; "" if it is none. late[ranks] marks the ranks that it
 * waits for. */
sl_status sl__stall_write_part(const char *folder, const sl__stall_rank *mine, double still, const char *waits_for,
                               const char *late, int ranks);
/* Finds the processes of this host's ranks, sets their pid, state and host, and asks their threads for their stacks.
 * go_on: continues stopped processes, so that they answer. */
void sl__stall_ask(sl__stall_rank *all, int ranks, int go_on);
/* Waits up to most_ms for the parts of the ranks that were asked. */
void sl__stall_wait(const char *folder, const sl__stall_rank *all, int ranks, int most_ms);
/* Whether a rank has written a part within the last `age` seconds. */
int sl__stall_has_part(const char *folder, int rank, double age);
/* Writes the stall file and removes the parts. message: what the job prints as it ends. told_by: the rank that ends it.
 * path[n]: receives the file's path. */
sl_status sl__stall_write(const char *folder, const char *message, double seconds, const sl__stall_rank *all, int ranks,
                          int told_by, char *path, size_t n);

#endif
