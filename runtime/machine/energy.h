/* Energy that the processors use: packages by RAPL (Linux's powercap), GPUs by NVML. The counters cover whole packages
 * and cards, so other processes on them count too. If a counter cannot be read, the reason is kept. */
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
  const char *const *gpus; /* PCI addresses of the GPUs in use: "0000:17:00.0" */
  int n_gpus;
} sl_energy_options;

/* Fails with SL_ENOMEM only. sl_energy_joules reports counters that cannot be read. */
sl_status sl_energy_open(const sl_energy_options *options, sl_energy **energy);
void sl_energy_close(sl_energy *energy); /* NULL is allowed */

/* Begins counting. */
void sl_energy_start(sl_energy *energy);
/* Call it often: RAPL's counters wrap after minutes. It reads them at most every ten seconds. */
void sl_energy_watch(sl_energy *energy);
/* Ends counting: reads the counters for the last time. */
void sl_energy_stop(sl_energy *energy);

typedef enum sl_energy_part { SL_ENERGY_PACKAGES, SL_ENERGY_GPUS, SL_ENERGY_PARTS } sl_energy_part;
/* Joules between start and stop; 0 without GPUs. NaN if unknown: *reason then says why ("no RAPL: ...") and is valid as
 * long as energy. */
double sl_energy_joules(const sl_energy *energy, sl_energy_part part, const char **reason);

#ifdef __cplusplus
}
#endif
#endif
