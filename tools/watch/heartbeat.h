/* heartbeat.json: what a run does now, for operators and their scripts. Rank 0 replaces it about once a second, and
 * once more at the end, with the exit code. Launchers of MPI may lose exit codes; this file does not. */
#ifndef SL_TOOLS_HEARTBEAT_H
#define SL_TOOLS_HEARTBEAT_H

#include <mpi.h>
#include <stdint.h>

#include "runtime/base/status.h"

#define SL__HEARTBEAT_NAME "heartbeat.json"
/* A variable that names the start of a job, for whoever starts one: the heartbeat's "launch". */
#define SL__HEARTBEAT_LAUNCH "STARLING_LAUNCH"

typedef enum sl__heartbeat_state {
  SL__STARTING,
  SL__TRAINING,
  SL__VALIDATING,
  SL__CHECKPOINTING,
  SL__ENDED
} sl__heartbeat_state;

/* Collective over comm, MPI_COMM_NULL for one rank. Rank 0 begins to write into the folder; the others learn where. A
 * folder that cannot be written costs the heartbeat only. step: of the checkpoint that the run goes on from, or 0;
 * steps: in all. SL_ENOMEM, SL_EIO: no thread. */
sl_status sl__heartbeat_open(const char *folder, MPI_Comm comm, int64_t step, int64_t steps);
void sl__heartbeat_step(int64_t step, double loss);
void sl__heartbeat_is(sl__heartbeat_state state);
/* The job has ended: rank 0 writes its exit code, and no more. */
void sl__heartbeat_end(int exit_code);
/* Any rank, before it ends the job for all. */
void sl__heartbeat_abort(int exit_code);
/* No more is written, not even an end: the folder goes away. */
void sl__heartbeat_drop(void);

/* What a heartbeat file says. */
typedef struct sl__heartbeat {
  char launch[128];
  int64_t from, step; /* the step that this start goes on from; the last one */
  int exit_code;      /* -1: it has not ended */
} sl__heartbeat;

/* SL_ENOTFOUND, SL_EFORMAT. */
sl_status sl__heartbeat_read(const char *folder, sl__heartbeat *heartbeat);
/* The rank of a process of that number on a host, by the file; -1: not known. host NULL: any. */
int sl__heartbeat_rank(const char *folder, const char *host, long pid);
/* Writes the numbers of at most n processes on this host, by the file, to pid[]; returns how many. */
int sl__heartbeat_processes(const char *folder, const char *host, long *pid, int n);

#endif
