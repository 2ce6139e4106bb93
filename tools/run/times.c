/* Reads and writes measured times of tasks as JSON. */
#include "tools/run/times.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/processors/cuda_context.h"

static const char FORMAT[] = "starling-times-1";

char *sl__times_path(const sl_runtime *rt, int blas, char *path, size_t n) {
  static const char *const kernels[] = {[SL_GPU_EXACT] = "", [SL_GPU_FAST] = "fast-", [SL_GPU_TF32] = "tf32-"};
  const int fast = sl_runtime_gpus(rt) > 0 ? sl_runtime_fast(rt) : SL_GPU_EXACT;
  snprintf(path, n, "%s/%s-%dx%d-%s%stimes.json", sl_runtime_sampling(rt), sl_runtime_model_host(rt),
           sl_runtime_cpu_workers(rt) * sl_runtime_local_ranks(rt), sl_runtime_share(rt)->threads_per_worker,
           blas ? "openblas-" : "", kernels[fast]);
  return path;
}

static int fits(double seconds) { return isfinite(seconds) && seconds >= 0; }

sl_status sl__times_read(const char *path, sl_times *times) {
  json_t *all, *one;
  size_t i;
  const char *format = "";
  SL_TRY(sl_json_read(path, &all));
  const json_t *list = json_object_get(all, "times");
  sl_status status = SL_OK;
  double overhead[SL_KINDS] = {0};
  if (json_unpack(all, "{s:s, s?{s?F, s?F}}", "format", &format, "overhead", "cpu_s", &overhead[SL_KIND_CPU], "gpu_s",
                  &overhead[SL_KIND_GPU]) != 0 ||
      !fits(overhead[SL_KIND_CPU]) || !fits(overhead[SL_KIND_GPU]) || strcmp(format, FORMAT) != 0 ||
      !json_is_array(list))
    status = sl_fail(SL_EFORMAT, "%s: not a file of measured times (%s)", path, FORMAT);
  for (int k = 0; k < SL_KINDS; k++)
    if (overhead[k] > 0) sl_times_set_overhead(times, k, overhead[k]);
  for (i = 0; status == SL_OK && i < json_array_size(list); i++) {
    const char *operation;
    json_int_t footprint;
    sl_time t = {.footprint = 0};
    one = json_array_get(list, i);
    if (json_unpack(one, "{s:s, s:I, s?F, s?F}", "operation", &operation, "footprint", &footprint, "cpu_s",
                    &t.seconds[SL_KIND_CPU], "gpu_s", &t.seconds[SL_KIND_GPU]) != 0 ||
        footprint < 0 || footprint > UINT32_MAX || !fits(t.seconds[SL_KIND_CPU]) || !fits(t.seconds[SL_KIND_GPU]) ||
        snprintf(t.operation, sizeof t.operation, "%s", operation) >= (int)sizeof t.operation)
      status = sl_fail(SL_EFORMAT, "%s: time number %zu is damaged; 'starling calibrate' measures anew", path, i);
    t.footprint = (uint32_t)footprint;
    if (status == SL_OK) status = sl_times_put(times, &t);
  }
  json_decref(all);
  return status;
}

sl_status sl__times_keep(const char *path, const sl_times *times) {
  sl_times *all;
  sl_status status = sl_times_create(&all);
  if (status != SL_OK) return status;
  json_t *list = json_array(), *json = json_pack("{s:s, s:o}", "format", FORMAT, "times", list);
  if (access(path, F_OK) == 0) {
    status = sl__times_read(path, all);
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
  json_object_set_new(json, "overhead", overhead);
  for (int i = 0; i < sl_times_count(times); i++) SL_TRY_OUT(sl_times_put(all, sl_times_at(times, i)));
  for (int i = 0; i < sl_times_count(all); i++) {
    const sl_time *t = sl_times_at(all, i);
    json_t *one = json_pack("{s:s, s:I}", "operation", t->operation, "footprint", (json_int_t)t->footprint);
    if (t->seconds[SL_KIND_CPU] > 0) json_object_set_new(one, "cpu_s", json_real(t->seconds[SL_KIND_CPU]));
    if (t->seconds[SL_KIND_GPU] > 0) json_object_set_new(one, "gpu_s", json_real(t->seconds[SL_KIND_GPU]));
    if (!one || json_array_append_new(list, one) != 0) SL_TRY_OUT(sl_no_memory("for measured times as JSON"));
  }
  status = json ? sl_json_write(path, json) : sl_no_memory("for measured times as JSON");
out:
  json_decref(json);
  sl_times_destroy(all);
  return status;
}
