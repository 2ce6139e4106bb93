/* Measures how long threads wait for a processor, from schedstat and stat of each thread in /proc. */
#include "runtime/machine/starved.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/time.h"

/* The first line of a thread's file; empty if there is none. */
static const char *line_of(const char *thread, const char *name, char *line, int n) {
  char path[300];
  snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, name);
  FILE *file = fopen(path, "re");
  if (!file || !fgets(line, n, file)) *line = '\0';
  if (file) fclose(file);
  return line;
}

static int is_ready(const char *thread) {
  char line[512];
  const char *end = strrchr(line_of(thread, "stat", line, sizeof line), ')'); /* of the thread's name */
  return end && end[1] == ' ' && end[2] == 'R';
}

double sl_seconds_starved(sl_starved *s) {
  static const sl_starved none;
  const double now = sl_seconds();
  const long own = syscall(SYS_gettid);
  double ns = 0;
  sl_starved seen = none;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; tasks && seen.n < SL_STARVED_THREADS && (d = readdir(tasks));) {
    unsigned long long ran, waited;
    char line[128];
    if (*d->d_name == '.') continue;
    if (sscanf(line_of(d->d_name, "schedstat", line, sizeof line), "%llu %llu", &ran, &waited) != 2) continue;
    const long thread = atol(d->d_name);
    seen.last[seen.n].thread = thread, seen.last[seen.n].ran = ran, seen.last[seen.n].waited = waited;
    seen.n++;
    int i = 0;
    while (i < s->n && s->last[i].thread != thread) i++;
    if (i == s->n) continue;
    /* The kernel adds a wait only when it is over. For a waiting thread, all time not spent running counts as waiting.
     * The calling thread is not waiting: it slept. */
    const double passed = 1e9 * (now - s->when);
    const int waits = thread != own && is_ready(d->d_name);
    const double wait = waits ? passed - (double)(ran - s->last[i].ran) : (double)(waited - s->last[i].waited);
    ns += wait < 0 ? 0 : wait < passed ? wait : passed;
  }
  if (tasks) closedir(tasks);
  seen.when = now;
  *s = seen;
  return 1e-9 * ns;
}
