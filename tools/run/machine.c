/* Reads and writes the peaks of this machine in a small JSON file. */
#include "tools/run/machine.h"

#include <ctype.h>
#include <hwloc.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/log.h"

static const char FORMAT[] = "starling-machine-1";

static void path_of(const sl_runtime *rt, char *path, size_t n) {
  snprintf(path, n, "%s/%s-%dx%d.json", sl_runtime_sampling(rt), sl_runtime_model_host(rt),
           sl_runtime_cpu_workers(rt) * sl_runtime_local_ranks(rt), sl_runtime_share(rt)->threads_per_worker);
}

/* Whether the CPUs' or the GPUs' speeds are known. */
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
  const int fine = json_unpack(all, "{s:s, s:F, s:F, s?F, s?F, s?F}", "format", &format, "sgemm_gflops", &m->gflops,
                               "triad_gigabytes_per_s", &m->gigabytes, "gpu_gflops", &m->gpu_gflops,
                               "gpu_gigabytes_per_s", &m->gpu_gigabytes, "bf16_gflops", &m->bf16) == 0 &&
                   strcmp(format, FORMAT) == 0 && known(m) && m->bf16 >= 0;
  json_decref(all);
  if (fine) return SL_OK;
  *m = (sl__machine){0};
  return sl_fail(SL_EFORMAT, "%s does not contain them; 'starling bench' measures them again", path);
}

double sl__machine_peak(const sl__machine *m, sl_precision precision, const char *kernels) {
  return precision == SL_PRECISION_BF16 && strcmp(kernels, "avx512") == 0 ? fmax(m->gflops, m->bf16) : m->gflops;
}

sl__machine sl__machine_read(const sl_runtime *rt) {
  char path[PATH_MAX];
  sl__machine m = {0};
  path_of(rt, path, sizeof path);
  if (access(path, F_OK) == 0 && sl__machine_of_file(path, &m) != SL_OK)
    sl_log(SL_LOG_WARNING, "the machine's peak speeds are unknown: %s", sl_error());
  return m;
}

void sl__machine_keep(const sl_runtime *rt, sl__machine *m) {
  char path[PATH_MAX];
  const sl__machine before = sl__machine_read(rt);
  if (!known(m)) return;
  m->gflops = fmax(m->gflops, before.gflops), m->gigabytes = fmax(m->gigabytes, before.gigabytes);
  m->bf16 = fmax(m->bf16, before.bf16);
  m->gpu_gflops = fmax(m->gpu_gflops, before.gpu_gflops);
  m->gpu_gigabytes = fmax(m->gpu_gigabytes, before.gpu_gigabytes);
  if (sl_runtime_local_rank(rt) != 0) return;
  path_of(rt, path, sizeof path);
  json_t *all =
      json_pack("{s:s, s:f, s:f}", "format", FORMAT, "sgemm_gflops", m->gflops, "triad_gigabytes_per_s", m->gigabytes);
  if (all && m->bf16 > 0) json_object_set_new(all, "bf16_gflops", json_real(m->bf16));
  if (all && m->gpu_gflops > 0)
    json_object_update_new(
        all, json_pack("{s:f, s:f}", "gpu_gflops", m->gpu_gflops, "gpu_gigabytes_per_s", m->gpu_gigabytes));
  if (sl_json_write(path, all) != SL_OK)
    sl_log(SL_LOG_WARNING, "cannot save the machine's peak speeds: %s", sl_error());
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
  machine->peer = gpu.peer, machine->peer_latency = machine->latency;
  return 1;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static const char NETWORK_FORMAT[] = "starling-network-1";

void sl__network_path(const sl_runtime *rt, char *path, size_t n) {
  const char *given = getenv("STARPU_HOSTNAME");
  const hwloc_obj_t package = hwloc_get_obj_by_type(sl_runtime_topology(rt), HWLOC_OBJ_PACKAGE, 0);
  const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  char name[128];
  /* The runtime sets the variable to the name that it makes itself, which differs with the workers. */
  if (given && strncmp(given, "starling-", 9) == 0) given = NULL;
  snprintf(name, sizeof name, "%s", given ? given : model ? model : "unknown");
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr(".-_", *c)) *c = '_';
  snprintf(path, n, "%s/%s-network.json", sl_runtime_sampling(rt), name);
}

sl__network_description sl__network_read(const char *path) {
  const char *format;
  sl__network_description n = {0};
  json_t *all;
  if (access(path, F_OK) != 0) return n;
  if (sl_json_read(path, &all) != SL_OK) {
    sl_log(SL_LOG_WARNING, "the network's speeds are not known: %s", sl_error());
    return n;
  }
  if (json_unpack(all, "{s:s, s:F, s:F, s:F, s:F, s:F, s?F, s?F}", "format", &format, "latency_s", &n.latency,
                  "rank_bytes_per_s", &n.per_rank, "node_bytes_per_s", &n.per_node, "shared_bytes_per_s", &n.shared,
                  "shared_latency_s", &n.shared_latency, "cpu_bytes_per_s", &n.cpu, "shared_cpu_bytes_per_s",
                  &n.shared_cpu) != 0 ||
      strcmp(format, NETWORK_FORMAT) != 0 || (n.latency > 0) != (n.per_rank > 0) ||
      (n.latency > 0) != (n.per_node > 0) || (n.shared > 0) != (n.shared_latency > 0) || n.cpu < 0 ||
      n.shared_cpu < 0) {
    sl_log(SL_LOG_WARNING,
           "the network's speeds are not known: %s does not hold them; 'starling calibrate --network' writes it anew",
           path);
    n = (sl__network_description){0};
  }
  json_decref(all);
  return n;
}

void sl__network_keep(const char *path, sl__network_description *n) {
  const sl__network_description before = sl__network_read(path);
  if (!(n->latency > 0))
    n->latency = before.latency, n->per_rank = before.per_rank, n->per_node = before.per_node, n->cpu = before.cpu;
  if (!(n->shared > 0))
    n->shared = before.shared, n->shared_latency = before.shared_latency, n->shared_cpu = before.shared_cpu;
  json_t *all = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "format", NETWORK_FORMAT, "latency_s", n->latency,
                          "rank_bytes_per_s", n->per_rank, "node_bytes_per_s", n->per_node, "shared_bytes_per_s",
                          n->shared, "shared_latency_s", n->shared_latency, "cpu_bytes_per_s", n->cpu,
                          "shared_cpu_bytes_per_s", n->shared_cpu);
  if (sl_json_write(path, all) != SL_OK) sl_log(SL_LOG_WARNING, "the network's speeds are not kept: %s", sl_error());
  json_decref(all);
}
