/* Speeds of this machine's workers, saved in a file for runs that do not measure them. */
#ifndef SL_TOOLS_MACHINE_H
#define SL_TOOLS_MACHINE_H

#include "runtime/machine/runtime.h"
#include "tasks/graph/precision.h"
#include "tasks/schedule/machine.h"
#include "tools/machines/description.h"

/* Speeds of one worker while all workers of the node are busy; 0: unknown. */
typedef struct sl__machine {
  double gflops;    /* sgemm */
  double gigabytes; /* a second, triad */
  double bf16;      /* GFLOP/s of instructions that multiply bf16; the CPU may have none */
  /* Of one GPU: the highest that `calibrate` measured in any kind of task. */
  double gpu_gflops, gpu_gigabytes;
} sl__machine;

/* The peak of a worker in that precision with those kernels, GFLOP/s: in bf16 with avx512 that of such instructions
 * where the CPU has them. */
double sl__machine_peak(const sl__machine *machine, sl_precision precision, const char *kernels);

/* One file beside StarPU's performance models for each machine, number of workers on it and size of their teams;
 * docs/reference/formats.md describes it. If the file cannot be read or written, warns and leaves the speeds
 * unknown. */
sl__machine sl__machine_read(const sl_runtime *runtime);
/* The speeds in such a file. On failure all of *machine is unknown. SL_EFORMAT, or as sl_file_read. */
sl_status sl__machine_of_file(const char *path, sl__machine *machine);
/* Raises *machine to the highest earlier measurement, because other work on the machine only lowers them. The node's
 * first rank saves the result. */
void sl__machine_keep(const sl_runtime *runtime, sl__machine *machine);

/* Fills *machine for schedule predictions with CPUs and GPUs. Returns 0 without GPUs or if a speed is unknown; then
 * predictions use the speeds of an ordinary machine. */
int sl__machine_predicts(const sl_runtime *runtime, sl_machine *machine);

/* The network that calibrate --network measured, kept in a file beside those. The path is found while the runtime is
 * up: under $STARPU_HOSTNAME or the name of the processor, so that it is the same for any number of ranks and workers.
 * What was never measured is 0. Keeping leaves what was not measured this time as it was, and sets it in *network. */
void sl__network_path(const sl_runtime *runtime, char *path, size_t n);
sl__network_description sl__network_read(const char *path);
void sl__network_keep(const char *path, sl__network_description *network);

#endif
