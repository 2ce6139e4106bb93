/* Where the program that simulates is. */
#ifndef SL_SIMULATE_FIND_H
#define SL_SIMULATE_FIND_H

#include <stddef.h>

#include "runtime/base/status.h"

/* The path of starling-sim: $STARLING_SIM, else beside this program, else where quickstart builds it. SL_ENOTFOUND says
 * how to build it. */
sl_status sl__simulator_find(char *path, size_t n);

#endif
