/* Peaks of one CPU worker of this machine (sgemm, memory bandwidth), kept in a file for runs that do not measure them.
 */
#ifndef SL_TOOLS_MACHINE_H
#define SL_TOOLS_MACHINE_H

#include "runtime/machine/runtime.h"

/* While all workers of the node work; 0: not known. */
typedef struct sl__machine {
  double gflops;    /* sgemm */
  double gigabytes; /* a second, triad */
} sl__machine;

/* One file beside StarPU's performance models for each machine, number of workers on it and size of their teams;
 * docs/reference/formats.md describes it. What cannot be read or written is no failure, but a warning: then nothing is
 * known. */
sl__machine sl__machine_read(const sl_runtime *runtime);
/* Raises *machine to what earlier runs found, since other work on a machine only lowers what is measured; the node's
 * first rank writes it. */
void sl__machine_keep(const sl_runtime *runtime, sl__machine *machine);

#endif
