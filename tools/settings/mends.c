/* Maps the library's fields to the command's options. */
#include "tools/settings/mends.h"

#include <stdio.h>
#include <string.h>

#include "tools/settings/table.h"

static const struct {
  const char *setting, *option;
} table[] = {
    {"batch", "--batch"},
    {"bf16_sums", "--bf16-sums"},
    {"calibrate", "--calibrate"},
    {"compress", "--compress"},
    {"data", "--data"},
    {"directory", "--data"},
    {"folds", "--folds, --mesh tensor=N"},
    {"gpus", "--gpus"},
    {"gpu_kernels", "--gpu-kernels exact"},
    {"library", "--to"},
    {"mesh", "--mesh"},
    {"path", "--out"},
    {"pipe_chunks", "--pipe-chunks"},
    {"precision", "--precision fp32"},
    {"products", "--products own"},
    {"row_blocks", "--row-blocks"},
    {"sched_lib", "--sched-lib"},
    {"shards", "--shards"},
    {"stages", "--stages"},
    {"threads_per_worker", "--threads-per-worker"},
    {"validation_fraction", "--val-fraction"},
    {"window", "--length"},
    {"workers", "--workers"},
};

static unsigned bits = SL__ALL; /* of the command */

void sl__mends_for(const sl__command *command) { bits = sl__bits(command); }

/* Whether the command has the first option of a text such as "--precision fp32". */
static int has(const char *text) {
  const char *option = text + strlen("--");
  const size_t n = strcspn(option, " ,");
  for (const sl__setting *s = sl__settings; s < sl__settings + sl__settings_count; s++)
    if ((s->commands & bits) && strlen(s->s.option) == n && memcmp(s->s.option, option, n) == 0) return 1;
  return 0;
}

static const char *option_of(const char *setting, size_t n) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strlen(table[i].setting) == n && memcmp(table[i].setting, setting, n) == 0)
      return has(table[i].option) ? table[i].option : NULL;
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
