/* The kinds and numbers of workers that --workers and --gpus ask for. */
#ifndef SL_SETTINGS_WORKERS_H
#define SL_SETTINGS_WORKERS_H

#include "runtime/base/status.h"
#include "tools/settings/options.h"

typedef struct sl__workers {
  int cpus;   /* CPU workers; 0: all cores; -1: none */
  int gpus;   /* -1: all */
  int choose; /* --workers auto: find by measurement which kinds are faster */
} sl__workers;

/* SL_EINVAL: not a number or one of the words, or a word that --gpus contradicts. */
sl_status sl__workers_of(const sl__options *options, sl__workers *workers);

#endif
