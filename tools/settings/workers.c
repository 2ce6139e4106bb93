/* Reads --workers and --gpus. */
#include "tools/settings/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

sl_status sl__workers_of(const sl__options *o, sl__workers *w) {
  enum { MOST = 4096 };
  const char *text = o->workers ? o->workers : "";
  *w = (sl__workers){.gpus = o->gpus >= 0 ? (int)o->gpus : -1};
  if (!*text || strcmp(text, "both") == 0) return SL_OK;
  if (strcmp(text, "cpu") == 0) {
    if (o->gpus > 0) return sl_fail(SL_EINVAL, "--workers cpu uses no GPU, but --gpus asks for %d", (int)o->gpus);
    w->gpus = 0;
  } else if (strcmp(text, "gpu") == 0) {
    if (o->gpus == 0) return sl_fail(SL_EINVAL, "--workers gpu needs a GPU, but --gpus 0 allows none");
    w->cpus = -1;
  } else if (strcmp(text, "auto") == 0) {
    w->choose = 1;
  } else {
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > MOST)
      return sl_fail(SL_EINVAL, "--workers %.40s: give cpu, gpu, both, auto or a number of CPU workers, 1 to %d", text,
                     MOST);
    w->cpus = (int)n;
  }
  return SL_OK;
}
