/* Maps the library's fields to the command's options. */
#include "tools/settings/mends.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *setting, *option;
} table[] = {
    {"bf16_sums", "--bf16-sums"},
    {"calibrate", "--calibrate"},
    {"compress", "--compress"},
    {"data", "--data"},
    {"directory", "--data"},
    {"gpus", "--gpus"},
    {"gpu_kernels", "--gpu-kernels exact"},
    {"library", "--to"},
    {"path", "--out"},
    {"pipe_chunks", "--pipe-chunks"},
    {"precision", "--precision fp32"},
    {"products", "--products own"},
    {"row_blocks", "--row-blocks"},
    {"sched_lib", "--sched-lib"},
    {"threads_per_worker", "--threads-per-worker"},
    {"validation_fraction", "--val-fraction"},
    {"window", "--length"},
    {"workers", "--workers"},
};

static const char *option_of(const char *setting, size_t n) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strlen(table[i].setting) == n && memcmp(table[i].setting, setting, n) == 0) return table[i].option;
  return NULL;
}

const char *sl__mending_options(const char *settings, char *buffer, size_t n) {
  size_t used = 0;
  buffer[0] = 0;
  while (*settings) {
    const size_t length = strcspn(settings, ", ");
    const char *option = option_of(settings, length);
    const size_t needed = option ? strlen(option) + 3 : 0; /* "; ", and the parenthesis at the end */
    if (option && used + needed < n) used += (size_t)snprintf(buffer + used, n - used, used ? ", %s" : " (%s", option);
    settings += length, settings += strspn(settings, ", ");
  }
  if (used) memcpy(buffer + used, ")", 2);
  return buffer;
}
