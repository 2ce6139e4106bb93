/* Writes a program's records to the rank's timeline file. */
#ifndef SL_TOOLS_TIMELINE_H
#define SL_TOOLS_TIMELINE_H

#include "tasks/starpu/program.h"
#include "tools/files/model_file.h"
#include "tools/run/machine.h"

/* Readings of this rank's and rank 0's clocks: at the start, and at the end if all ranks get there. */
typedef struct sl__clocks {
  sl_clock clock[2];
  int n;
} sl__clocks;

/* Collective: reads rank 0's clock once more. */
sl_status sl__clocks_look(const sl_runtime *runtime, sl__clocks *clocks);

/* Writes this rank's file to the folder. machine: the speeds that the run may reach, by its precision and
 * kernels. */
sl_status sl__timeline_save(const sl_program *program, const char *model, const sl__clocks *clocks,
                            const sl__machine *machine, const sl__model_facts *facts, const char *folder);

#endif
