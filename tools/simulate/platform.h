/* The files by which StarPU's SimGrid build knows the machine that it simulates. */
#ifndef SL_SIMULATE_PLATFORM_H
#define SL_SIMULATE_PLATFORM_H

#include "runtime/base/status.h"
#include "tools/machines/description.h"

#define SL__PLATFORM_HOST "simulated" /* the machine's name among StarPU's performance models */

/* A share of a node that one rank has. */
typedef struct sl__node_share {
  int cpus, gpus; /* workers */
} sl__node_share;

/* Writes the platform (hosts, links, routes) and StarPU's bus files to folder/bus. SL_EWRITE. */
sl_status sl__platform_write(const sl__machine_description *machine, const sl__node_share *share, const char *folder);

#endif
