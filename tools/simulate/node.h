/* From options to the simulated job: which machine, how many nodes and ranks, which workers a rank has. */
#ifndef SL_SIMULATE_NODE_H
#define SL_SIMULATE_NODE_H

#include "models/models.h"
#include "runtime/processors/cuda_context.h"
#include "runtime/simulated/simulation.h"
#include "tasks/graph/plan.h"
#include "tasks/graph/precision.h"
#include "tasks/schedule/machine.h"
#include "tools/machines/description.h"
#include "tools/settings/options.h"
#include "tools/simulate/platform.h"

typedef struct sl__simulated {
  sl__machine_description machine;
  int nodes, ranks;     /* ranks of the whole job */
  int threads;          /* cores of a CPU worker */
  sl__node_share share; /* of one rank */
  sl_gpu_kernels kernels;
} sl__simulated;

/* SL_EINVAL: more ranks than cores, a number that does not divide, no worker at all. */
sl_status sl__simulated_of(const sl__options *options, sl__simulated *simulated);
/* The workers of one rank, as predicted schedules see them. */
sl_machine sl__simulated_machine(const sl__simulated *simulated);
/* The machine by which a rank's program plans priorities and memory. A real run plans without measured times
 * (sl__machine_predicts), so a simulation with such times does, too: by the rates of GPUs, or by those of an ordinary
 * machine. */
sl_machine sl__simulated_planned(const sl__simulated *simulated, const sl_machine *machine, const sl_plan *plan);
/* The simulation as the runtime needs it. Borrows the machine's name. */
sl_simulation sl__simulation_of(const sl__simulated *simulated);
/* FLOP/s of all workers of the job at their peaks. */
double sl__simulated_peak(const sl__simulated *simulated, sl_precision precision);
/* The precision in words, with TF32 if GPUs use it. */
const char *sl__simulated_precision(const sl__simulated *simulated, sl_precision precision);
/* Bytes that a rank takes besides its program: the process and the batches that its loader reads ahead. rows: its
 * samples of a batch. */
double sl__simulated_beside(const sl__simulated *simulated, const sl_network *network, int64_t rows);
/* Watts of all nodes, if the workers of the simulated one are busy for this share of the time; NaN: unknown. The
 * simulated node may be slow by a factor (--slow-node); the others then compute for less time. */
double sl__simulated_watts(const sl__simulated *simulated, double busy, double slower);

/* Environment variable with the folder of the platform's files. A process that has this variable is the simulation
 * itself. */
#define SL__SIMULATION_FOLDER "STARLING_SIMULATION"

#endif
