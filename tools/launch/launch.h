/* starling train --ranks N --restarts R: this process runs mpiexec, and starts the job again from its last checkpoint
 * if a rank is lost. */
#ifndef SL_TOOLS_LAUNCH_H
#define SL_TOOLS_LAUNCH_H

#include "tools/settings/options.h"

/* Whether the options ask for a launcher. */
int sl__launch_wanted(const sl__options *options);
/* Runs the job. *exit_code: the job's; SL__EXIT_LOST if ranks were lost more often than --restarts allows. SL_EINVAL:
 * wrong options. */
sl_status sl__launch(const sl__options *options, int *exit_code);

#endif
