/* The monotonic clock. */
#include "runtime/base/time.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

int64_t sl_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double sl_seconds(void) { return 1e-9 * (double)sl_now(); }

double sl_seconds_starved(void) {
  double ns = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; tasks && (d = readdir(tasks));) {
    char path[300];
    unsigned long long ran, waited;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", d->d_name);
    FILE *file = *d->d_name == '.' ? NULL : fopen(path, "re");
    if (file && fscanf(file, "%llu %llu", &ran, &waited) == 2) ns += (double)waited;
    if (file) fclose(file);
  }
  if (tasks) closedir(tasks);
  return 1e-9 * ns;
}
