/* starling compare: runs this command in a process of its own for each measurement, and reads its JSON output. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "tools/compare/parts.h"
#include "tools/settings/exit_codes.h"

enum {
  PATIENCE = 120,
  CALIBRATING = 7200 /* seconds beyond a process's expected duration */,
  GRACE = 10 /* seconds to
                end after
                SIGTERM */
};

/* The last line of a process's standard error, without the leading command name. */
static char *last_line(const char *text) {
  size_t n = strlen(text);
  while (n > 0 && text[n - 1] == '\n') n--;
  size_t from = n;
  while (from > 0 && text[from - 1] != '\n') from--;
  const size_t name = strlen("starling: ");
  if (strncmp(text + from, "starling: ", name) == 0) from += name;
  return n > from ? strndup(text + from, n - from) : strdup("it ended without an error message");
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

/* argv: ended by NULL. A process that has not ended after `most` seconds is killed, and *late set. A signal that stops
 * the comparison also ends the process. */
static sl_status run(sl__comparison *c, char *const *argv, double most, FILE *output, FILE *errors, int *state,
                     int *late) {
  const double began = sl_seconds();
  double asked = INFINITY; /* time at which it was told to end */
  const pid_t pid = fork();
  if (pid < 0) return sl_fail(SL_EIO, "no process: %s", strerror(errno));
  if (pid == 0) {
    dup2(fileno(output), STDOUT_FILENO), dup2(fileno(errors), STDERR_FILENO);
    /* By this link it is the program that runs now, even if its file has been built anew since. */
    execv("/proc/self/exe", argv);
    dprintf(STDERR_FILENO, "starling: the process for %s cannot be started: %s\n", argv[1], strerror(errno));
    _exit(127);
  }
  sl__compare_measuring(pid);
  *late = 0;
  while (waitpid(pid, state, WNOHANG) == 0) {
    const double time = sl_seconds();
    if (!*late && time - began > most) *late = 1, kill(pid, SIGKILL);
    if (sl__compare_stopped() && isinf(asked)) asked = time, kill(pid, SIGTERM);
    if (time - asked > GRACE) kill(pid, SIGKILL);
    sl__compare_tick(c);
    usleep(5000);
  }
  sl__compare_measuring(0);
  return SL_OK;
}

/* Only the sets of options matter here. */
static const sl__command commands[] = {{.name = "bench", .bit = SL__BENCH},
                                       {.name = "calibrate", .bit = SL__CALIBRATE},
                                       {.name = "simulate", .bit = SL__SIMULATE},
                                       {.name = "compare", .bit = SL__COMPARE, .also = SL__BENCH}};

static const sl__command *named(const char *command) {
  int i = 0;
  while (strcmp(commands[i].name, command) != 0) i++;
  return &commands[i];
}

const sl__command *sl__compare_itself(void) { return named("compare"); }

sl_status sl__compare_words(const sl__comparison *c, const char *command, char ***words, int *n) {
  static const char *const ours[] = {"out", "bundle", "json", "quiet", "sched", "steps", "calibrate", NULL};
  return sl__options_words(c->o, named(command), ours, words, n);
}

sl_status sl__compare_run(sl__comparison *c, const char *command, const char *const *more, json_t **out, char **reason,
                          int *code) {
  char **words = NULL, **argv = NULL, *said = NULL, *complaint = NULL;
  int n = 0, n_more = 0, state = 0, late = 0;
  FILE *output = tmpfile(), *errors = tmpfile();
  sl_status status = SL_OK;
  *out = NULL, *reason = NULL, *code = SL__EXIT_FAILURE;
  if (!output || !errors) SL_TRY_OUT(sl_fail(SL_EIO, "no temporary file: %s", strerror(errno)));
  SL_TRY_OUT(sl__compare_words(c, command, &words, &n));
  while (more[n_more]) n_more++;
  argv = calloc((size_t)(n + n_more) + 5, sizeof *argv);
  if (!argv) SL_TRY_OUT(sl_no_memory("for %d arguments", n));
  argv[0] = (char *)"starling", argv[1] = (char *)command, argv[2] = c->o->model, argv[3] = (char *)"--json";
  for (int i = 0; i < n; i++) argv[4 + i] = words[i];
  for (int i = 0; i < n_more; i++) argv[4 + n + i] = (char *)more[i];
  const double most =
      (strcmp(command, "calibrate") == 0 ? CALIBRATING : PATIENCE) + 30 * (c->steps > 0 ? (double)c->steps / 10 : 1);
  SL_TRY_OUT(run(c, argv, most, output, errors, &state, &late));
  c->processes++;
  SL_TRY_OUT(read_all(output, &said));
  SL_TRY_OUT(read_all(errors, &complaint));
  if (sl__compare_stopped()) {
    *reason = strdup("stopped by a signal");
  } else if (late) {
    if (asprintf(reason, "it had not ended after %.0f s", most) < 0) *reason = NULL;
  } else if (!WIFEXITED(state)) {
    if (asprintf(reason, "signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state))) < 0) *reason = NULL;
  } else if ((*code = WEXITSTATUS(state)) != 0) {
    *reason = last_line(complaint);
  } else {
    status = sl_json_parse(said, strlen(said), 0, out, NULL);
    if (status == SL_EFORMAT) status = SL_OK;
    if (status == SL_OK && !*out) *reason = strdup("its output is not JSON");
  }
  if (!*out && !*reason) status = sl_no_memory("for a process's output");
out:
  if (output) fclose(output);
  if (errors) fclose(errors);
  sl__options_words_free(words, n);
  free(argv), free(said), free(complaint);
  return status;
}
