/* Writes the timelines of commands that run steps. */
#include "tools/run/timeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/time.h"
#include "runtime/machine/comm.h"
#include "runtime/trace/ping.h"

sl_status sl__clocks_look(const sl_runtime *runtime, sl__clocks *clocks) {
  sl_clock *clock = &clocks->clock[clocks->n < 1 ? 0 : 1];
  const MPI_Comm comm = sl_runtime_comm(runtime);
  if (comm == MPI_COMM_NULL)
    *clock = (sl_clock){.local = sl_now()};
  else
    SL_TRY(sl_clock_offset(comm, clock));
  clocks->n = clocks->n < 1 ? 1 : 2;
  return SL_OK;
}

sl_status sl__timeline_save(const sl_program *program, const char *model, const sl__clocks *clocks,
                            const sl__machine *machine, const sl__model_facts *facts, const char *folder) {
  sl_timeline *timeline;
  char name[SL_TIMELINE_NAME], *path = NULL;
  SL_TRY(sl_program_timeline(program, model, &timeline));
  for (int i = 0; i < clocks->n; i++) timeline->clock[i] = clocks->clock[i];
  timeline->n_clocks = clocks->n;
  timeline->peak_gflops = sl__machine_peak(machine, facts->training.precision, facts->plan.kernels);
  timeline->peak_gigabytes = machine->gigabytes;
  sl_status status = asprintf(&path, "%s/%s", folder, sl_timeline_name(timeline->rank, name)) < 0
                         ? sl_no_memory("for a path")
                         : sl_timeline_write(path, timeline);
  free(path);
  sl_timeline_destroy(timeline);
  return status;
}
