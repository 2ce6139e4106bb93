/* The joint schedule of a mesh as timelines, one a rank, which `starling report` and `starling trace` read as those of
 * a real run. */
#ifndef SL_TOOLS_MESH_TIMELINE_H
#define SL_TOOLS_MESH_TIMELINE_H

#include "tools/mesh/predict.h"

/* Writes one predicted step of the ranks of the first data replica into a folder, which is made. model, machine: names
 * in the page. SL_EIO, SL_EWRITE. */
sl_status sl__mesh_timelines(const sl__mesh_steps *steps, const char *model, const char *machine, const char *folder);

#endif
