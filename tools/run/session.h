/* What the subcommands that compute have in common: a running machine, signals, memory of the process. */
#ifndef SL_TOOLS_SESSION_H
#define SL_TOOLS_SESSION_H

#include <jansson.h>

#include "runtime/machine/runtime.h"
#include "tools/settings/model.h"

/* Starts the runtime with the options. what: the command's name. Refuses several ranks unless `ranks` is set. */
sl_status sl__start(const sl__options *options, const char *what, int ranks, sl_runtime **runtime);

/* Completes sl_environment's object after the runtime has started: adds `machine`, and versions to `libraries`. */
sl_status sl__environment_complete(json_t *environment, const sl_runtime *runtime);

/* Makes SIGUSR1 (Slurm's warning before the end) set a flag. Call it before MPI_Init: MPICH installs its own handler
 * there, which calls the handler that it finds. Later sl__catch_signals calls this function again, which removes
 * MPICH's handler. */
void sl__catch_warning(void);
/* Makes SIGINT, SIGTERM and SIGUSR1 set a flag; a second SIGINT or SIGTERM ends the process as usual. */
void sl__catch_signals(void);
int sl__signalled(void);

/* The rank that the launcher gave this process; 0 without a launcher. Decides which process prints before MPI starts
 * and after it has ended. */
int sl__launch_rank(void);

/* What a rank takes of its node's memory besides its programs: the process with the runtime; the recorder;
 * SL__NETWORK_BYTES, which a job touches before it makes its programs, mostly code and the logical graph: 1.9 MB
 * for gpt2, 3.7 for mlp; SL__FIRST_STEP_BYTES, which the first step touches besides its data, mostly code: 1.6 to 3.2
 * MB with StarPU 1.3, 2.7 to 6 with 1.4; and the SL__BATCHES_AHEAD batches that its loader holds. rows: the rank's
 * samples of a batch. */
enum { SL__NETWORK_BYTES = 2500000, SL__FIRST_STEP_BYTES = 2000000, SL__BATCHES_AHEAD = 3 };
static inline int64_t sl__loader_bytes(const sl_network *network, int64_t rows) {
  return SL__BATCHES_AHEAD * rows * (int64_t)(network->sample_bytes + sizeof(int32_t));
}

int64_t sl__resident_memory(void); /* bytes: VmRSS of this process; 0 when unknown */
/* Resets the peak of resident memory, if the system allows it. */
void sl__peak_memory_restart(void);
int64_t sl__peak_memory(void); /* bytes: VmHWM of this process; 0 when unknown */

/* The command's exit code after a failure. */
int sl__exit_code(sl_status status);

/* The commit that this was built from. */
const char *sl__commit(void);

#endif
