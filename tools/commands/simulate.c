/* starling simulate: training steps on a machine that is not here. This process checks the options and writes the
 * platform's files; then it becomes starling-sim, the same program built against StarPU for SimGrid. Meshes whose ranks
 * share samples are predicted here. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/temporary.h"
#include "tools/commands/commands.h"
#include "tools/simulate/find.h"
#include "tools/simulate/mesh.h"
#include "tools/simulate/node.h"

/* Files of platforms are small and many simulations may run at once, so each has a folder, which starling-sim removes.
 */
static sl_status make_folder(char *folder, size_t n) {
  const char *place = getenv("TMPDIR");
  snprintf(folder, n, "%s/starling-simulation.XXXXXX", place && *place ? place : "/tmp");
  return sl_temporary_folder(folder) == 0 ? SL_OK : sl_file_failed("make", folder, errno);
}

sl_status sl__simulate(sl__options *o, int *exit_code) {
  sl__simulated simulated;
  sl__mesh mesh;
  char program[PATH_MAX], folder[PATH_MAX];
  (void)exit_code;
  SL_TRY(sl__simulated_of(o, &simulated));
  SL_TRY(sl__mesh_of(o, simulated.ranks, &mesh));
  if (sl__mesh_model_ranks(&mesh) > 1) return sl__simulate_mesh(o, &simulated, &mesh);
  SL_TRY(sl__simulator_find(program, sizeof program));
  SL_TRY(make_folder(folder, sizeof folder));
  const sl_status status = sl__platform_write(&simulated.machine, &simulated.share, folder);
  if (status != SL_OK) {
    sl_temporary_remove(folder);
    return status;
  }
  setenv(SL__SIMULATION_FOLDER, folder, 1);
  setenv("STARPU_PERF_MODEL_DIR", folder, 1);
  setenv("STARPU_HOSTNAME", SL__PLATFORM_HOST, 1);
  fflush(NULL);
  const char **words = calloc((size_t)o->argc + 2, sizeof *words);
  if (!words) {
    sl_temporary_remove(folder);
    return sl_no_memory("for the words of a command");
  }
  memcpy(words, o->argv, (size_t)o->argc * sizeof *words);
  words[o->argc] = "--log=root.threshold:warning"; /* for SimGrid, which removes it from the arguments */
  sl_temporary_hand_over();                        /* starling-sim guards the folder once its libraries are loaded */
  execv(program, (char *const *)words);
  const int error = errno;
  free(words);
  sl_temporary_remove(folder);
  return sl_fail(SL_EIO, "%s does not start: %s", program, strerror(error));
}
