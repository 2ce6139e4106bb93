/* Finds starling-sim. */
#include "tools/simulate/find.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sl_status sl__simulator_find(char *path, size_t n) {
  static const char *const places[] = {"starling-sim", "../build-simulated/starling-sim"};
  const char *given = getenv("STARLING_SIM");
  char self[PATH_MAX];
  if (given && *given) {
    snprintf(path, n, "%s", given);
    return access(path, X_OK) == 0 ? SL_OK : sl_fail(SL_ENOTFOUND, "$STARLING_SIM is %s: %s", given, strerror(errno));
  }
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
    if (snprintf(path, n, "%s/%s", self, places[i]) < (int)n && access(path, X_OK) == 0) return SL_OK;
  }
  return sl_fail(SL_ENOTFOUND,
                 "the program starling-sim is not here; './quickstart simulate' in Starling's sources "
                 "builds it (or: tools/build-starpu --simgrid, then ../configure "
                 "--with-starpu=$HOME/.local/starpu-1.4-simgrid and make, in a folder build-simulated)");
}
