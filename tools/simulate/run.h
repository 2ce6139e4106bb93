/* The simulation itself, in starling-sim. */
#ifndef SL_SIMULATE_RUN_H
#define SL_SIMULATE_RUN_H

#include "tools/settings/options.h"

sl_status sl__simulation_run(sl__options *options, int *exit_code);

#endif
