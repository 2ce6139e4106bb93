/* Fuzz target: the readers of metrics.jsonl: a resumed run, which drops later lines, and a report, which draws them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/files/rundir.h"
#include "tools/report/parts.h"

static int draw(void) {
  static sl_timeline *empty;
  sl__report_run report;
  if (!empty && sl_timeline_create(0, 0, 0, &empty) != SL_OK) abort();
  if (!empty->model) empty->model = sl_timeline_text(empty, "mlp"), empty->sched = sl_timeline_text(empty, "lws");
  json_t *data = NULL;
  char path[FUZZ_PATH];
  const sl_status status =
      sl__report_of(fuzz_folder(), &empty, 1, &report) == SL_OK ? sl__report_data(&report, NULL, &data) : SL_ENOMEM;
  if (status == SL_OK && sl__report_svg(&report, data, fuzz_path("svg", path), 1) != SL_OK) abort();
  if (status != SL_OK && (data || !strstr(sl_error(), "metrics.jsonl"))) abort();
  json_decref(data);
  sl__report_free(&report);
  return status == SL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static sl__rundir *run;
  char path[FUZZ_PATH];
  if (!run && sl__rundir_open(fuzz_folder(), "fuzz", SL__RUNDIR_FORCE, &run) != SL_OK) abort();
  fuzz_write(fuzz_path("metrics.jsonl", path), data, n);
  const int drawn = draw();
  if (sl__rundir_rewind_metrics(run, 2) != SL_OK) {
    if (!strstr(sl_error(), path)) abort();
    return -1;
  }
  if (!draw()) abort(); /* what a resumed run keeps, a report reads */
  return drawn ? 0 : -1;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "{\"step\":1,\"epoch\":0.1,\"time_s\":0.5,\"split\":\"train\",\"loss\":2.5,\"samples_per_s\":70.5,\"gflops\":0.9,"
      "\"peak_memory_bytes\":976035,\"memory_bytes\":97603}\n"
      "{\"step\":2,\"time_s\":1.5,\"split\":\"validation\",\"loss\":2.25,\"accuracy\":0.12}\n"
      "{\"step\":3,\"time_s\":2.5,\"split\":\"train\",\"loss\":1e300,\"tokens_per_s\":7e4}\n",
      "{\"step\":1,\"time_s\":-1,\"split\":\"train\",\"loss\":0}\n{\"step\":9,\"time_s\":0,\"split\":\"train\","
      "\"loss\":0}"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
