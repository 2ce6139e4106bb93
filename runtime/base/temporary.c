/* Removes temporary folders and files. */
#include "runtime/base/temporary.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 };

static char guarded[4096];

/* A handler may call fork and exec, but not readdir; so rm removes the folder. */
static void on_signal(int number) {
  const pid_t pid = guarded[0] ? _Fork() : -1;
  if (pid == 0) {
    execl("/bin/rm", "rm", "-rf", "--", guarded, (char *)NULL);
    _exit(127);
  }
  if (pid > 0) waitpid(pid, NULL, 0);
  raise(number); /* which ends the process once the handler returns, by SA_RESETHAND */
}

void sl_temporary_guard(const char *path) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, before;
  snprintf(guarded, sizeof guarded, "%s", path);
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  remove(path);
  return 0;
}

void sl_temporary_remove(const char *path) {
  nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
  guarded[0] = 0;
}
