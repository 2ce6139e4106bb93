/* Measures the network between the ranks of a job. */
#ifndef SL_TOOLS_MACHINES_NETWORK_H
#define SL_TOOLS_MACHINES_NETWORK_H

#include <mpi.h>

#include "tools/machines/description.h"

/* Collective over comm; `node`: the ranks of this node; cpu: the operating system's number of a CPU that this rank
 * alone uses, -1: it has none, so that processor times stay unknown. All ranks get the same figures. The figures of
 * shared memory need a node with two ranks or more, those between nodes need two nodes or more; a figure that could not
 * be measured is 0. The topology is a star: all pairs are measured at once, each between two neighbours. SL_EMPI,
 * SL_ENOMEM, and what an exchange returns. */
sl_status sl__network_measure(MPI_Comm comm, MPI_Comm node, int cpu, sl__network_description *network);

#endif
