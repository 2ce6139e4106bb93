/* The description of the machine that this process runs on. */
#ifndef SL_TOOLS_RUN_DESCRIBE_H
#define SL_TOOLS_RUN_DESCRIBE_H

#include "tools/machines/description.h"
#include "tools/run/machine.h"

/* Describes the node of this rank. `measured`: the speeds of its workers. *machine describes the GPUs only if calibrate
 * has measured them. *gpus: the number of GPUs of the node's ranks together. Collective over the ranks of the node.
 * SL_EUNCALIBRATED: the speed of the CPUs is not known. */
sl_status sl__describe_this(const sl_runtime *runtime, const sl__machine *measured, sl__machine_description *machine,
                            int *gpus);

#endif
