/* The signal that asks threads for their stacks, its handler, and the answers as JSON. */
#include "tools/watch/stacks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/watch/siblings.h"
#include "tools/watch/symbols.h"

enum { THREADS = 1024, DEPTH = 64, OWN = 2 /* the handler, and the kernel's frame that calls it */ };

#define ASKS (SIGRTMIN + 7) /* used by no library of ours */

static struct answer {
  long thread;
  int depth;
  void *at[DEPTH];
  atomic_int whole;
} answers[THREADS];
static atomic_int taken, asker;

static void answer(int number, siginfo_t *info, void *context) {
  const int before = errno, i = atomic_fetch_add(&taken, 1);
  (void)number, (void)context;
  if (i < THREADS) {
    answers[i].thread = syscall(SYS_gettid);
    answers[i].depth = backtrace(answers[i].at, DEPTH);
    atomic_store(&answers[i].whole, 1);
  }
  atomic_store(&asker, (int)info->si_pid);
  errno = before;
}

void sl__stacks_open(void) {
  void *first[2];
  char text[64];
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_RESTART | SA_SIGINFO};
  /* Called here once, because the first calls load a library and read a file, which a handler must not. */
  backtrace(first, 2);
  sl__symbol_of(first[0], text, sizeof text);
  sigemptyset(&action.sa_mask);
  sigaction(ASKS, &action, NULL);
}

int sl__stacks_ask(pid_t pid) {
  char folder[64];
  int asked = 0;
  if (!sl__process_catches(pid, ASKS)) return 0; /* without a handler the signal would end it */
  snprintf(folder, sizeof folder, "/proc/%ld/task", (long)pid);
  DIR *all = opendir(folder);
  for (struct dirent *d; all && (d = readdir(all));)
    if (isdigit((unsigned char)d->d_name[0])) asked |= syscall(SYS_tgkill, pid, (pid_t)atol(d->d_name), ASKS) == 0;
  if (all) closedir(all);
  return asked;
}

pid_t sl__stacks_asked(void) { return (pid_t)atomic_load(&asker); }

static json_t *stack_of(long thread) {
  char text[256];
  const int n = atomic_load(&taken) < THREADS ? atomic_load(&taken) : THREADS;
  for (int i = n - 1; i >= 0; i--) {
    const struct answer *a = &answers[i];
    if (!atomic_load(&a->whole) || a->thread != thread) continue;
    json_t *stack = json_array();
    for (int k = OWN; k < a->depth; k++) {
      /* A return address lies behind its call, perhaps in the next function; the innermost is the instruction itself.
       */
      const void *at = (const char *)a->at[k] - (k > OWN);
      json_array_append_new(stack, json_string(sl__symbol_of(at, text, sizeof text)));
    }
    return stack;
  }
  return NULL;
}

json_t *sl__stacks_json(void) {
  json_t *threads = sl__process_threads(getpid()), *t;
  size_t i;
  json_array_foreach(threads, i, t) {
    json_t *stack = stack_of((long)json_integer_value(json_object_get(t, "thread")));
    if (stack) json_object_set_new(t, "stack", stack);
  }
  for (int k = 0; k < THREADS; k++) atomic_store(&answers[k].whole, 0);
  atomic_store(&taken, 0);
  atomic_store(&asker, 0);
  return threads;
}
