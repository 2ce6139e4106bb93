/* Removes temporary folders and files. */
#include "runtime/base/temporary.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 };

static char guarded[4096];
static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* Lets the signals wait, or ends this: how is SIG_BLOCK or SIG_UNBLOCK. */
static void mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < NUMBERS; i++) sigaddset(&set, numbers[i]);
  pthread_sigmask(how, &set, NULL);
}

void sl_temporary_hand_over(void) { mask(SIG_BLOCK); }

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
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, before;
  snprintf(guarded, sizeof guarded, "%s", path);
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < NUMBERS; i++)
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
  mask(SIG_UNBLOCK);
}

int sl_temporary_folder(char *path) {
  mask(SIG_BLOCK);
  const int code = mkdtemp(path) ? 0 : -1, error = errno;
  if (code == 0)
    sl_temporary_guard(path);
  else
    mask(SIG_UNBLOCK);
  errno = error;
  return code;
}

int sl_temporary_file(char *path) {
  mask(SIG_BLOCK);
  const int fd = mkstemp(path), error = errno;
  if (fd >= 0)
    sl_temporary_guard(path);
  else
    mask(SIG_UNBLOCK);
  errno = error;
  return fd;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  remove(path);
  return 0;
}

void sl_temporary_remove(const char *path) {
  nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
  guarded[0] = 0;
  mask(SIG_UNBLOCK);
}
