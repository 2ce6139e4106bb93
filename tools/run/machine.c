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

/* The CPUs' speeds, the GPUs', or both. */
static int known(const sl__machine *m) {
  const int cpus = m->gflops > 0 && m->gigabytes > 0, gpus = m->gpu_gflops > 0 && m->gpu_gigabytes > 0;
  return (cpus || gpus) && (cpus || (m->gflops == 0 && m->gigabytes == 0)) &&
         (gpus || (m->gpu_gflops == 0 && m->gpu_gigabytes == 0));
}

sl_status sl__machine_of_file(const char *path, sl__machine *m) {
  const char *format;
  json_t *all;
  *m = (sl__machine){0};
  SL_TRY(sl_json_read(path, &all));
  const int fine = json_unpack(all, "{s:s, s:F, s:F, s?F, s?F}", "format", &format, "sgemm_gflops", &m->gflops,
                               "triad_gigabytes_per_s", &m->gigabytes, "gpu_gflops", &m->gpu_gflops,
                               "gpu_gigabytes_per_s", &m->gpu_gigabytes) == 0 &&
                   strcmp(format, FORMAT) == 0 && known(m);
  json_decref(all);
  if (fine) return SL_OK;
  *m = (sl__machine){0};
  return sl_fail(SL_EFORMAT, "%s does not hold them; 'starling bench' writes it anew", path);
}

sl__machine sl__machine_read(const sl_runtime *rt) {
  char path[PATH_MAX];
  sl__machine m = {0};
  path_of(rt, path, sizeof path);
  if (access(path, F_OK) == 0 && sl__machine_of_file(path, &m) != SL_OK)
    sl_log(SL_LOG_WARNING, "the machine's peaks are not known: %s", sl_error());
  return m;
}

void sl__machine_keep(const sl_runtime *rt, sl__machine *m) {
  char path[PATH_MAX];
  const sl__machine before = sl__machine_read(rt);
  if (!known(m)) return;
  m->gflops = fmax(m->gflops, before.gflops), m->gigabytes = fmax(m->gigabytes, before.gigabytes);
  m->gpu_gflops = fmax(m->gpu_gflops, before.gpu_gflops);
  m->gpu_gigabytes = fmax(m->gpu_gigabytes, before.gpu_gigabytes);
  if (sl_runtime_local_rank(rt) != 0) return;
  path_of(rt, path, sizeof path);
  json_t *all =
      json_pack("{s:s, s:f, s:f}", "format", FORMAT, "sgemm_gflops", m->gflops, "triad_gigabytes_per_s", m->gigabytes);
  if (all && m->gpu_gflops > 0)
    json_object_update_new(
        all, json_pack("{s:f, s:f}", "gpu_gflops", m->gpu_gflops, "gpu_gigabytes_per_s", m->gpu_gigabytes));
  if (sl_json_write(path, all) != SL_OK) sl_log(SL_LOG_WARNING, "the machine's peaks are not kept: %s", sl_error());
  json_decref(all);
}

int sl__machine_predicts(const sl_runtime *rt, sl_machine *machine) {
  sl_gpu gpu;
  const int cpus = sl_runtime_cpu_workers(rt), gpus = sl_runtime_gpus(rt);
  if (gpus == 0) return 0;
  const sl__machine m = sl__machine_read(rt);
  sl_runtime_gpu(rt, 0, &gpu);
  if (!(m.gpu_gflops > 0) || (cpus > 0 && !(m.gflops > 0)) || !(gpu.to_gpu > 0)) return 0;
  *machine = sl_machine_default(cpus, sl_runtime_share(rt)->threads_per_worker, gpus);
  if (cpus > 0) machine->kind[SL_KIND_CPU].flops = 1e9 * m.gflops, machine->kind[SL_KIND_CPU].bytes = 1e9 * m.gigabytes;
  machine->kind[SL_KIND_GPU].flops = 1e9 * m.gpu_gflops, machine->kind[SL_KIND_GPU].bytes = 1e9 * m.gpu_gigabytes;
  machine->link = gpu.to_gpu < gpu.from_gpu ? gpu.to_gpu : gpu.from_gpu;
  return 1;
}
