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

/* Peak of a worker in GFLOP/s, in this precision with these kernels. In bf16 with avx512 kernels it is the peak of bf16
 * instructions if the CPU has them. */
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

/* The network that calibrate --network measured, kept in a file beside the files of speeds. Ask for the path while the
 * runtime runs: it contains $STARPU_HOSTNAME or the processor's name, so it is the same for any number of ranks and
 * workers. Figures that were never measured are 0. sl__network_keep leaves figures that were not measured this time as
 * they were in the file, and copies them to *network. */
void sl__network_path(const sl_runtime *runtime, char *path, size_t n);
sl__network_description sl__network_read(const char *path);
void sl__network_keep(const char *path, sl__network_description *network);

#endif
