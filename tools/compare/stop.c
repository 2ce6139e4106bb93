/* starling compare and scale: Ctrl-C and SIGTERM. The first signal ends the measuring process; compare then prints the
 * measurements so far. The second signal ends everything at once. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "tools/compare/parts.h"

static volatile sig_atomic_t stopped, measuring;
/* Paths prepared for the signal handler: the files in the folder, and the folder itself; "": there is none. */
static char paths[5][128];

void sl__compare_remove_folder(void) { /* also in a signal handler: system calls only */
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (paths[i][0] && unlink(paths[i]) != 0) rmdir(paths[i]);
}

static void on_signal(int number) {
  if (stopped++ == 0) return;
  if (measuring > 0) kill((pid_t)measuring, SIGKILL);
  sl__compare_remove_folder();
  _exit(128 + number);
}

void sl__child_catch(const char *folder) {
  static const char *const parts[] = {"/whole/timeline-0.safetensors", "/alone/timeline-0.safetensors", "/whole",
                                      "/alone", ""};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  for (size_t i = 0; folder && i < sizeof paths / sizeof *paths; i++)
    snprintf(paths[i], sizeof paths[i], "%s%s", folder, parts[i]);
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, NULL);
  if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
  sl_file_wait_until(sl__child_stopped);
}

int sl__child_stopped(void) { return stopped != 0; }

void sl__child_measuring(int pid) { measuring = pid; }
