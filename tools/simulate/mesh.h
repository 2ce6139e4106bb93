/* Simulates a mesh whose ranks share samples (pipe, tensor) by the joint predicted schedule of these ranks. */
#ifndef SL_SIMULATE_MESH_H
#define SL_SIMULATE_MESH_H

#include "tools/settings/workers.h"
#include "tools/simulate/node.h"

/* Predicts the step and prints what sl__simulation_run prints for other jobs, and the bubble. SL_EINVAL: an option that
 * has no meaning for a mesh; a model that cannot be divided so. */
sl_status sl__simulate_mesh(const sl__options *options, const sl__simulated *simulated, const sl__mesh *mesh);

#endif
