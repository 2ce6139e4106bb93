/* The starling command: finds the subcommand, runs it, and turns its status into a message and an exit code. */
#include <config.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/machine/runtime.h"
#include "tools/command/command.h"
#include "tools/ranks/ranks.h"
#include "tools/run/session.h"
#include "tools/settings/exit_codes.h"
#include "tools/settings/mends.h"
#include "tools/settings/messages.h"
#include "tools/settings/nearest.h"
#include "tools/watch/guard.h"
#include "tools/watch/watch.h"

static void usage(FILE *file) {
  fputs("Usage: starling COMMAND [OPTION]...\n\n", file);
  for (int i = 0; sl__commands[i]; i++)
    fprintf(file, "  %-9s %-19s %s\n", sl__commands[i]->name, sl__commands[i]->arguments, sl__commands[i]->summary);
  fputs("\n'starling COMMAND --help' lists a command's options; 'starling --version' names the build.\n", file);
}

/* All ranks of a job fail together, and the first rank prints the error. After a wrong command line MPI has not started
 * yet; sl__ranks_fail_unmet then starts it to meet the other ranks. */
static int complain(sl_status status) {
  char options[128];
  fflush(stdout);
  if (status != SL_OK) sl__ranks_fail_unmet(sl__launch_rank(), sl__exit_code(status));
  if (status != SL_OK && sl__launch_rank() == 0)
    fprintf(stderr, "starling: %s%s\n", sl_error(), sl__mending_options(sl_error_setting(), options, sizeof options));
  return sl__exit_code(status);
}

static int run(const sl__command *command, int argc, const char **argv) {
  sl__options options;
  int exit_code = SL__EXIT_DONE;
  sl_status status = sl__options_parse(command, argc - 1, argv + 1, &options);
  options.argc = argc;
  options.argv = argv;
  sl__mends_for(command);
  if (status == SL_OK && options.help)
    sl__options_help(command, stdout);
  else if (status == SL_OK) {
    const int measures = (command->bit & (SL__BENCH | SL__INFO)) && !options.no_measure;
    if (measures || (options.products && strcmp(options.products, "own") != 0))
      sl_runtime_blas_renew((char *const *)argv);
    if (sl__launch_rank() == 0) sl__messages_print(options.quiet);
    status = command->run(&options, &exit_code);
  }
  if (status != SL_OK) exit_code = complain(status);
  sl__options_free(&options);
  return exit_code;
}

static int command(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  int code = -1;
  if (!name) {
    usage(stderr);
    return SL__EXIT_USAGE;
  }
  for (int i = 0; sl__commands[i] && code < 0; i++)
    if (strcmp(sl__commands[i]->name, name) == 0) code = run(sl__commands[i], argc, (const char **)argv);
  if (code < 0 && (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0))
    usage(stdout), code = 0;
  if (code < 0 && strcmp(name, "--version") == 0) printf("%s (%s)\n", PACKAGE_STRING, sl__commit()), code = 0;
  if (code < 0 && strcmp(name, "--manual") == 0) sl__print_manual(stdout), code = 0;
  if (code < 0) {
    const char *names[32];
    char suggestion[128];
    int n = 0;
    for (; sl__commands[n]; n++) names[n] = sl__commands[n]->name;
    return complain(sl_fail(SL_EINVAL, "unknown command '%s'%s ('starling --help' lists them)", name,
                            sl__suggestion(name, names, n, suggestion, sizeof suggestion)));
  }
  /* The output may be the command's only result, so a full disk is a failure. */
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == SL__EXIT_DONE)
    return complain(sl_fail(SL_EWRITE, "cannot write to standard output: %s", strerror(errno)));
  return code;
}

/* A checkpoint has a file for each rank, and all of them are open while it is read. */
static void raise_open_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
  raise_open_files();
  signal(SIGXFSZ, SIG_IGN); /* a write beyond the file-size limit then fails with EFBIG, reported like a full disk */
  const int code = command(argc, argv);
  sl__watch_close();
  sl__guard_arm(code);
  sl_runtime_end_mpi();
  sl__watch_leave();
  if (sl_runtime_abandoned()) _exit(code); /* StarPU's threads go on */
  return code;
}
