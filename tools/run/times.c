/* Reads and writes measured times of tasks as JSON. */
#include "tools/run/times.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/machine/policies.h"
#include "runtime/processors/cuda_context.h"

static const char FORMAT[] = "starling-times-1";

char *sl__times_path(const sl_runtime *rt, int blas, char *path, size_t n) {
  static const char *const kernels[] = {[SL_GPU_EXACT] = "", [SL_GPU_FAST] = "fast-", [SL_GPU_TF32] = "tf32-"};
  const sl__times_of of = sl__times_of_run(rt);
  snprintf(path, n, "%s/%s-%dx%d-%s%stimes.json", sl_runtime_sampling(rt), sl_runtime_model_host(rt),
           sl_runtime_cpu_workers(rt) * sl_runtime_local_ranks(rt), of.threads, blas ? "openblas-" : "",
           kernels[of.kernels]);
  return path;
}

sl__times_of sl__times_of_run(const sl_runtime *rt) {
  return (sl__times_of){.threads = sl_runtime_share(rt)->threads_per_worker,
                        .kernels = sl_runtime_gpus(rt) > 0 ? (sl_gpu_kernels)sl_runtime_fast(rt) : SL_GPU_EXACT,
                        .policy = sl_runtime_sched(rt)};
}

static const char *const seconds_keys[SL_KINDS] = {[SL_KIND_CPU] = "cpu_s", [SL_KIND_GPU] = "gpu_s"};
static const char *const deviation_keys[SL_KINDS] = {[SL_KIND_CPU] = "cpu_deviation", [SL_KIND_GPU] = "gpu_deviation"};

static int fits(double seconds) { return isfinite(seconds) && seconds >= 0; }

static const char *policy_of(const sl__times_of *of) { return of->policy ? of->policy : SL_POLICY_STANDARD; }

static const char *const kernels_names[] = {[SL_GPU_EXACT] = "exact", [SL_GPU_FAST] = "fast", [SL_GPU_TF32] = "tf32"};

/* Which kinds of workers may use the times of a file that are of `threads` threads and these kernels; files of earlier
 * versions say neither. */
static void may_use(const char *path, const sl__times_of *of, int threads, const char *kernels, int *use) {
  use[SL_KIND_CPU] = threads == 0 || threads == of->threads;
  use[SL_KIND_GPU] = !kernels || strcmp(kernels, kernels_names[of->kernels]) == 0;
  if (!use[SL_KIND_CPU])
    sl_log(
        SL_LOG_WARNING,
        "%s: its times are those of CPU workers with %d thread(s), and here workers have %d: computed times stand in",
        path, threads, of->threads);
  if (!use[SL_KIND_GPU])
    sl_log(SL_LOG_WARNING, "%s: its times are those of %s GPU kernels, and here they are %s: computed times stand in",
           path, kernels, kernels_names[of->kernels]);
}

sl_status sl__times_read(const char *path, const sl__times_of *of, sl_times *times) {
  json_t *all, *one;
  size_t i;
  int threads = 0, use[SL_KINDS] = {0};
  const char *format = "", *kernels = NULL;
  SL_TRY(sl_json_read(path, &all));
  const json_t *list = json_object_get(all, "times");
  sl_status status = SL_OK;
  double overhead[SL_KINDS] = {0};
  if (json_unpack(all, "{s:s, s?i, s?s, s?{s?F, s?F, s?{s?F}}}", "format", &format, "threads_per_worker", &threads,
                  "gpu_kernels", &kernels, "overhead", "cpu_s", &overhead[SL_KIND_CPU], "gpu_s", &overhead[SL_KIND_GPU],
                  "policies", policy_of(of), &overhead[SL_KIND_CPU]) != 0 ||
      !fits(overhead[SL_KIND_CPU]) || !fits(overhead[SL_KIND_GPU]) || strcmp(format, FORMAT) != 0 ||
      !json_is_array(list))
    status = sl_fail(SL_EFORMAT, "%s: not a file of measured times (%s)", path, FORMAT);
  else
    may_use(path, of, threads, kernels, use);
  for (int k = 0; k < SL_KINDS; k++)
    if (overhead[k] > 0) sl_times_set_overhead(times, k, overhead[k]);
  for (i = 0; status == SL_OK && i < json_array_size(list); i++) {
    const char *operation;
    json_int_t footprint;
    sl_time t = {.footprint = 0};
    one = json_array_get(list, i);
    if (json_unpack(one, "{s:s, s:I, s?F, s?F, s?F, s?F}", "operation", &operation, "footprint", &footprint, "cpu_s",
                    &t.seconds[SL_KIND_CPU], "gpu_s", &t.seconds[SL_KIND_GPU], "cpu_deviation",
                    &t.deviation[SL_KIND_CPU], "gpu_deviation", &t.deviation[SL_KIND_GPU]) != 0 ||
        footprint < 0 || footprint > UINT32_MAX || !fits(t.seconds[SL_KIND_CPU]) || !fits(t.seconds[SL_KIND_GPU]) ||
        !fits(t.deviation[SL_KIND_CPU]) || !fits(t.deviation[SL_KIND_GPU]) ||
        snprintf(t.operation, sizeof t.operation, "%s", operation) >= (int)sizeof t.operation)
      status = sl_fail(SL_EFORMAT, "%s: time number %zu is damaged; 'starling calibrate' measures anew", path, i);
    t.footprint = (uint32_t)footprint;
    for (int k = 0; k < SL_KINDS; k++) t.seconds[k] *= use[k];
    if (status == SL_OK) status = sl_times_put(times, &t);
  }
  json_decref(all);
  return status;
}

void sl__times_apply(const sl_times *times, sl_machine *m) {
  m->times = times;
  for (int k = 0; k < SL_KINDS; k++)
    if (sl_times_overhead(times, k) > 0) m->kind[k].overhead = sl_times_overhead(times, k);
}

/* The overheads of the file's policies, with this one's if it was measured. */
static json_t *overheads_of_policies(const char *path, const sl__times_of *of, const sl_times *times) {
  json_t *all = NULL, *policies = NULL;
  if (access(path, F_OK) == 0 && sl_json_read(path, &all) == SL_OK)
    policies = json_incref(json_object_get(json_object_get(all, "overhead"), "policies"));
  json_decref(all);
  if (!json_is_object(policies)) json_decref(policies), policies = json_object();
  if (sl_times_overhead(times, SL_KIND_CPU) > 0)
    json_object_set_new(policies, policy_of(of), json_real(sl_times_overhead(times, SL_KIND_CPU)));
  return policies;
}

sl_status sl__times_keep(const char *path, const sl__times_of *of, const sl_times *times) {
  sl_times *all;
  sl_status status = sl_times_create(&all);
  if (status != SL_OK) return status;
  json_t *list = json_array(), *json = json_pack("{s:s, s:i, s:s, s:o}", "format", FORMAT, "threads_per_worker",
                                                 of->threads, "gpu_kernels", kernels_names[of->kernels], "times", list);
  if (access(path, F_OK) == 0) {
    status = sl__times_read(path, of, all);
    if (status == SL_EFORMAT) { /* what cannot be read is measured anew */
      sl_log(SL_LOG_WARNING, "%s; it is written anew", sl_error());
      sl_times_destroy(all);
      all = NULL;
      status = sl_times_create(&all);
    }
    SL_TRY_OUT(status);
  }
  for (int k = 0; k < SL_KINDS; k++)
    if (sl_times_overhead(times, k) > 0) sl_times_set_overhead(all, k, sl_times_overhead(times, k));
  json_t *overhead = json_object();
  if (sl_times_overhead(all, SL_KIND_CPU) > 0)
    json_object_set_new(overhead, "cpu_s", json_real(sl_times_overhead(all, SL_KIND_CPU)));
  if (sl_times_overhead(all, SL_KIND_GPU) > 0)
    json_object_set_new(overhead, "gpu_s", json_real(sl_times_overhead(all, SL_KIND_GPU)));
  json_object_set_new(overhead, "policies", overheads_of_policies(path, of, times));
  json_object_set_new(json, "overhead", overhead);
  for (int i = 0; i < sl_times_count(times); i++) SL_TRY_OUT(sl_times_put(all, sl_times_at(times, i)));
  for (int i = 0; i < sl_times_count(all); i++) {
    const sl_time *t = sl_times_at(all, i);
    json_t *one = json_pack("{s:s, s:I}", "operation", t->operation, "footprint", (json_int_t)t->footprint);
    for (int k = 0; k < SL_KINDS; k++) {
      if (t->seconds[k] > 0) json_object_set_new(one, seconds_keys[k], json_real(t->seconds[k]));
      if (t->deviation[k] > 0) json_object_set_new(one, deviation_keys[k], json_real(t->deviation[k]));
    }
    if (!one || json_array_append_new(list, one) != 0) SL_TRY_OUT(sl_no_memory("for measured times as JSON"));
  }
  status = json ? sl_json_write(path, json) : sl_no_memory("for measured times as JSON");
out:
  json_decref(json);
  sl_times_destroy(all);
  return status;
}
