/* The mesh of a job's ranks: how many divide the samples, and how many the layers. */
#ifndef SL_TOOLS_MESH_H
#define SL_TOOLS_MESH_H

#include "tools/settings/options.h"

typedef struct sl__mesh {
  int data; /* divide the samples */
  int pipe; /* stages of a pipeline: divide the layers; consecutive ranks */
} sl__mesh;

/* Reads --mesh ("pipe=2", "data=2,pipe=2") for a job of so many ranks; without it all ranks divide the samples. The
 * size that is not given follows from the ranks. A usage error names what is unknown or does not fit. */
sl_status sl__mesh_of(const sl__options *options, int ranks, sl__mesh *mesh);

#endif
