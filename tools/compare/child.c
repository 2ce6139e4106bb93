/* Runs a program in a process of its own and reads the JSON that it prints. Measurements and simulations need
 * processes: StarPU starts once in each, and one that fails ends no other. */
#include "tools/compare/child.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "tools/settings/exit_codes.h"

enum { GRACE = 10 }; /* seconds to end after SIGTERM */

/* The last error of starling in a process's standard error, without the command's name; else its last line: mpiexec
 * adds lines of its own after the error. */
static char *last_error(const char *text) {
  static const char name[] = "starling: ", warning[] = "starling: warning: ";
  const char *found = NULL, *last = NULL;
  for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (*line != '\n') last = line;
    if (strncmp(line, name, sizeof name - 1) == 0 && strncmp(line, warning, sizeof warning - 1) != 0)
      found = line + sizeof name - 1;
  }
  if (!found) found = last;
  return found ? strndup(found, strcspn(found, "\n")) : strdup("it ended without an error message");
}

static sl_status read_all(FILE *file, char **text) {
  const int fd = fileno(file);
  const off_t size = lseek(fd, 0, SEEK_END);
  *text = calloc((size_t)size + 1, 1);
  if (!*text) return sl_no_memory("for a process's output");
  for (off_t at = 0; at < size;) {
    const ssize_t n = pread(fd, *text + at, (size_t)(size - at), at);
    if (n <= 0) return sl_fail(SL_EIO, "a process's output cannot be read: %s", strerror(errno));
    at += n;
  }
  return SL_OK;
}

/* Sets *late if the process did not end within child->most seconds and was ended. A signal that stops this command
 * ends the process too. SIGTERM comes first, so that the process can remove its temporary files. */
static sl_status run(const sl__child *child, FILE *output, FILE *errors, int *state, int *late) {
  const double began = sl_seconds();
  double asked = INFINITY; /* time at which it was told to end */
  const pid_t pid = fork();
  if (pid < 0) return sl_fail(SL_EIO, "cannot start a process: %s", strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody else ends it if this process is killed */
    dup2(fileno(output), STDOUT_FILENO), dup2(fileno(errors), STDERR_FILENO);
    /* This link starts the program that runs now, even if its file has been built anew since. */
    if (child->program)
      execvp(child->program, child->argv);
    else
      execv("/proc/self/exe", child->argv);
    dprintf(STDERR_FILENO, "starling: the process for %s cannot be started: %s\n", child->argv[1], strerror(errno));
    _exit(127);
  }
  sl__child_measuring(pid);
  *late = 0;
  while (waitpid(pid, state, WNOHANG) == 0) {
    const double time = sl_seconds();
    if (time - began > child->most) *late = 1;
    if ((*late || sl__child_stopped()) && isinf(asked)) asked = time, kill(pid, SIGTERM);
    if (time - asked > GRACE) kill(pid, SIGKILL);
    if (child->tick) child->tick(child->arg);
    usleep(5000);
  }
  sl__child_measuring(0);
  return SL_OK;
}

sl_status sl__child_json(const sl__child *child, json_t **out, char **reason, int *code) {
  char *said = NULL, *complaint = NULL;
  int state = 0, late = 0;
  FILE *output = tmpfile(), *errors = tmpfile();
  sl_status status = SL_OK;
  *out = NULL, *reason = NULL, *code = SL__EXIT_FAILURE;
  if (!output || !errors) SL_TRY_OUT(sl_fail(SL_EIO, "cannot make a temporary file: %s", strerror(errno)));
  SL_TRY_OUT(run(child, output, errors, &state, &late));
  SL_TRY_OUT(read_all(output, &said));
  SL_TRY_OUT(read_all(errors, &complaint));
  if (sl__child_stopped()) {
    *reason = strdup("stopped by a signal");
  } else if (late) {
    if (asprintf(reason, "it had not ended after %.0f s", child->most) < 0) *reason = NULL;
  } else if (!WIFEXITED(state)) {
    if (asprintf(reason, "signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state))) < 0) *reason = NULL;
  } else if ((*code = WEXITSTATUS(state)) != 0) {
    *reason = last_error(complaint);
  } else {
    status = sl_json_parse(said, strlen(said), 0, out, NULL);
    if (status == SL_EFORMAT) status = SL_OK;
    if (status == SL_OK && !*out) *reason = strdup("its output is not JSON");
  }
  if (status == SL_OK && !*out && !*reason) status = sl_no_memory("for a process's output");
out:
  if (output) fclose(output);
  if (errors) fclose(errors);
  free(said), free(complaint);
  return status;
}
