/* heartbeat.json: what a run does now, for operators and their scripts. Rank 0 replaces it about once a second, and
 * once more at the end, with the exit code. Launchers of MPI may lose exit codes; this file does not. */
#ifndef SL_TOOLS_HEARTBEAT_H
#define SL_TOOLS_HEARTBEAT_H

#include <mpi.h>
#include <stdint.h>

#include "runtime/base/status.h"

#define SL__HEARTBEAT_NAME "heartbeat.json"
/* Environment variable with the launch's name; copied to the field `launch`. */
#define SL__HEARTBEAT_LAUNCH "STARLING_LAUNCH"

typedef enum sl__heartbeat_state {
  SL__STARTING,
  SL__TRAINING,
  SL__VALIDATING,
  SL__CHECKPOINTING,
  SL__ENDED
} sl__heartbeat_state;

/* Starts the heartbeat; collective over comm (MPI_COMM_NULL: one rank). Rank 0 writes into the folder; the others
 * remember its path. If the folder cannot be written, the run continues without a heartbeat. step: of the checkpoint
 * that the run continues from, or 0; steps: in all. SL_ENOMEM, SL_EIO: no thread. */
sl_status sl__heartbeat_open(const char *folder, MPI_Comm comm, int64_t step, int64_t steps);
void sl__heartbeat_step(int64_t step, double loss);
void sl__heartbeat_is(sl__heartbeat_state state);
/* Ends the heartbeat: rank 0 writes the job's exit code as the last beat. */
void sl__heartbeat_end(int exit_code);
/* Writes the exit code before a rank ends the job for all; any rank may call this. */
void sl__heartbeat_abort(int exit_code);
/* Stops the heartbeat without a last write; the folder is about to be removed. */
void sl__heartbeat_drop(void);

/* The contents of a heartbeat file. */
typedef struct sl__heartbeat {
  char launch[128];
  int64_t from, step; /* the step that this launch continued from; the last step */
  int ranks;
  int exit_code; /* -1: it has not ended */
} sl__heartbeat;

/* SL_ENOTFOUND, SL_EFORMAT. */
sl_status sl__heartbeat_read(const char *folder, sl__heartbeat *heartbeat);
/* The rank of process pid on a host, as the file has it; -1: unknown. host NULL: any. */
int sl__heartbeat_rank(const char *folder, const char *host, long pid);
/* Fills pid[] with at most n processes on a host, as the file has them; returns how many. */
int sl__heartbeat_processes(const char *folder, const char *host, long *pid, int n);

#endif
