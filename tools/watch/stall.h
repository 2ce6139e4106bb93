/* stall-DATE.json: what each rank of a job did when nothing moved any more (docs/how-to/restarts.md tells how to read
 * it). Each rank writes its part into the run's folder, .stall-RANK.part; the rank that ends the job puts them
 * together, and adds what it knows of ranks that wrote none. */
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
  double heard; /* seconds since it was last heard of; < 0: never */
} sl__stall_rank;

/* Writes the part of this rank: where it is, how long nothing has moved in it, and the stacks of its threads, which
 * were asked a moment ago. waits_for: what waits, "" where nothing is known, with late[ranks] marking for whom. */
sl_status sl__stall_write_part(const char *folder, const sl__stall_rank *mine, double still, const char *waits_for,
                               const char *late, int ranks);
/* Finds the processes of the ranks that are on this host, sets their pid, state and host, and asks their threads for
 * their stacks; go_on: those that were stopped continue, to answer. */
void sl__stall_ask(sl__stall_rank *all, int ranks, int go_on);
/* Waits until the ranks that were asked have written their parts, so many milliseconds at most. */
void sl__stall_wait(const char *folder, const sl__stall_rank *all, int ranks, int most_ms);
/* Whether a rank's part is there that is younger than so many seconds. */
int sl__stall_has_part(const char *folder, int rank, double age);
/* Writes the whole, and removes the parts. message: what the job says as it ends. path[n]: where it lies. */
sl_status sl__stall_write(const char *folder, const char *message, double seconds, const sl__stall_rank *all, int ranks,
                          int told_by, char *path, size_t n);

#endif
