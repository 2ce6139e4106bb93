/* Reads and writes the peaks of this machine in a small JSON file. */
#include "tools/run/machine.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/log.h"

static const char FORMAT[] = "starling-machine-1";

static void path_of(const sl_runtime *rt, char *path, size_t n) {
  snprintf(path, n, "%s/%s-%dx%d.json", sl_runtime_sampling(rt), sl_runtime_model_host(rt),
           sl_runtime_cpu_workers(rt) * sl_runtime_local_ranks(rt), sl_runtime_share(rt)->threads_per_worker);
}

sl__machine sl__machine_read(const sl_runtime *rt) {
  char path[PATH_MAX];
  const char *format;
  sl__machine m = {0};
  json_t *all;
  path_of(rt, path, sizeof path);
  if (access(path, F_OK) != 0) return m;
  if (sl_json_read(path, &all) != SL_OK) {
    sl_log(SL_LOG_WARNING, "the machine's peaks are not known: %s", sl_error());
    return m;
  }
  if (json_unpack(all, "{s:s, s:F, s:F}", "format", &format, "sgemm_gflops", &m.gflops, "triad_gigabytes_per_s",
                  &m.gigabytes) != 0 ||
      strcmp(format, FORMAT) != 0 || !(m.gflops > 0) || !(m.gigabytes > 0)) {
    sl_log(SL_LOG_WARNING, "the machine's peaks are not known: %s does not hold them; 'starling bench' writes it anew",
           path);
    m = (sl__machine){0};
  }
  json_decref(all);
  return m;
}

void sl__machine_keep(const sl_runtime *rt, sl__machine *m) {
  char path[PATH_MAX];
  const sl__machine before = sl__machine_read(rt);
  if (!(m->gflops > 0) || !(m->gigabytes > 0)) return;
  m->gflops = fmax(m->gflops, before.gflops), m->gigabytes = fmax(m->gigabytes, before.gigabytes);
  if (sl_runtime_local_rank(rt) != 0) return;
  path_of(rt, path, sizeof path);
  json_t *all =
      json_pack("{s:s, s:f, s:f}", "format", FORMAT, "sgemm_gflops", m->gflops, "triad_gigabytes_per_s", m->gigabytes);
  if (sl_json_write(path, all) != SL_OK) sl_log(SL_LOG_WARNING, "the machine's peaks are not kept: %s", sl_error());
  json_decref(all);
}
