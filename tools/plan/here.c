/* The machine that this process runs on: `starling info --machine` measures and describes it in a process of its own,
 * because StarPU starts once in a process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/temporary.h"
#include "tools/plan/parts.h"

sl_status sl__plan_here(sl__planning *s) {
  int state = 0;
  const char *place = getenv("TMPDIR");
  snprintf(s->described, sizeof s->described, "%s/starling-machine.XXXXXX",
           place && *place && strlen(place) < 32 ? place : "/tmp");
  const int fd = sl_temporary_file(s->described);
  if (fd < 0) {
    s->described[0] = 0;
    return sl_fail(SL_EIO, "cannot make a temporary file for this machine's description: %s", strerror(errno));
  }
  sl__meter_show(&s->meter, 0, 0, "measuring this machine");
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(fd, STDOUT_FILENO);
    execl("/proc/self/exe", "starling", "info", "--machine", "--quiet", (char *)NULL);
    _exit(127);
  }
  close(fd);
  if (pid < 0) return sl_fail(SL_EIO, "cannot start a process: %s", strerror(errno));
  while (waitpid(pid, &state, 0) < 0)
    if (errno != EINTR) return sl_fail(SL_EIO, "the process that describes this machine is lost: %s", strerror(errno));
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
    return sl_fail(SL_EUNSUPPORTED,
                   "this machine could not be measured ('starling info --machine' says why): name one "
                   "with --machine");
  free(s->o->described);
  s->o->described = strdup(s->described);
  return s->o->described ? SL_OK : sl_no_memory("for a path");
}

void sl__plan_here_remove(sl__planning *s) {
  if (s->described[0]) sl_temporary_remove(s->described);
}
