/* Finds mpiexec. MPICH's name goes first, because the library is built with it on Debian, where mpiexec alone may be
 * another MPI's. */
#include "tools/launch/mpiexec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int in_path(const char *name) {
  const char *path = getenv("PATH");
  char file[4096];
  for (const char *at = path; at && *at; at += strspn(at, ":")) {
    const int n = (int)strcspn(at, ":");
    snprintf(file, sizeof file, "%.*s/%s", n, at, name);
    if (access(file, X_OK) == 0) return 1;
    at += n;
  }
  return 0;
}

sl_status sl__mpiexec_find(const char *given, char *path, size_t n) {
  const char *name = given ? given : in_path("mpiexec.mpich") ? "mpiexec.mpich" : "mpiexec";
  if (strchr(name, '/') ? access(name, X_OK) != 0 : !in_path(name))
    return sl_fail(SL_EINVAL,
                   "--ranks starts mpiexec, but there is no program %s; --mpiexec names another (Debian: mpich)", name);
  snprintf(path, n, "%s", name);
  return SL_OK;
}
