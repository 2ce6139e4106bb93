/* Energy that the processors take: packages by RAPL (Linux's powercap), GPUs by NVML. Counters of whole packages and
 * cards, so what else runs on them counts too; and where they cannot be read, the reason. */
#ifndef SL_ENERGY_H
#define SL_ENERGY_H

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_energy sl_energy;

typedef struct sl_energy_options {
  const char *powercap;    /* NULL: "/sys/class/powercap" */
  const char *nvml;        /* NULL: "libnvidia-ml.so.1" */
  const char *const *gpus; /* PCI addresses, "0000:17:00.0", of those in use */
  int n_gpus;
} sl_energy_options;

/* SL_ENOMEM only: what cannot be read is told by sl_energy_joules. */
sl_status sl_energy_open(const sl_energy_options *options, sl_energy **energy);
void sl_energy_close(sl_energy *energy); /* NULL is allowed */

/* Begins to count. */
void sl_energy_start(sl_energy *energy);
/* To be called now and then, since RAPL's counters turn over after minutes; reads them every ten seconds only. */
void sl_energy_watch(sl_energy *energy);
/* Reads for the last time. */
void sl_energy_stop(sl_energy *energy);

typedef enum sl_energy_part { SL_ENERGY_PACKAGES, SL_ENERGY_GPUS, SL_ENERGY_PARTS } sl_energy_part;
/* Joules between start and stop; NaN where they are not known, and why in *reason ("no RAPL: ..."), which lives as long
 * as energy. Of no GPUs it is 0. */
double sl_energy_joules(const sl_energy *energy, sl_energy_part part, const char **reason);

#ifdef __cplusplus
}
#endif
#endif
