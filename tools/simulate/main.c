/* starling-sim: what `starling simulate` becomes after it has written the platform's files. StarPU's header renames
 * main, because SimGrid's own runs first. */
#include <config.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/temporary.h"
#include "tools/run/session.h"
#include "tools/settings/mends.h"
#include "tools/settings/messages.h"
#include "tools/simulate/node.h"
#include "tools/simulate/run.h"

static const sl__command simulate = {
    .name = "simulate", .bit = SL__SIMULATE, .arguments = "MODEL ", .least = 1, .most = 1};

int main(int argc, char **argv) {
  const char *folder = getenv(SL__SIMULATION_FOLDER);
  sl__options options;
  char named[128];
  int exit_code = 0;
  if (folder) sl_temporary_guard(folder);
  sl_status status = sl__options_parse(&simulate, argc - 1, (const char **)argv + 1, &options);
  options.argc = argc, options.argv = (const char **)argv;
  if (status == SL_OK) {
    sl__messages_print(options.quiet);
    status = sl__simulation_run(&options, &exit_code);
  }
  if (status != SL_OK) {
    fprintf(stderr, "starling: %s%s\n", sl_error(), sl__mending_options(sl_error_setting(), named, sizeof named));
    exit_code = sl__exit_code(status);
  }
  sl__options_free(&options);
  if (folder) sl_temporary_remove(folder);
  fflush(NULL);
  if (sl_runtime_abandoned()) _exit(exit_code); /* SimGrid would report the threads that still wait */
  return exit_code;
}
