/* Fuzz target: the reader of timelines, and everything that computes with what it accepts: bounds, causes of idle time,
 * exporters, reports. */
#include "runtime/trace/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/trace/trace.h"
#include "tests/fuzz/fuzz.h"
#include "tools/report/parts.h"

/* Processes a timeline like `starling report` and `starling trace`. */
static void use(sl_timeline **all, int n, uint8_t format) {
  sl__report_run report;
  json_t *data = NULL, *answer;
  char path[FUZZ_PATH];
  if (sl_trace_write(fuzz_path("trace", path), (sl_trace_format)(format % SL_TRACE_FORMATS), all, n) != SL_OK) abort();
  if (sl__report_of(fuzz_folder(), all, n, &report) != SL_OK || sl__report_data(&report, NULL, &data) != SL_OK) abort();
  if (!(answer = sl__report_answer(&report))) abort();
  json_decref(answer), json_decref(data);
  sl__report_free(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  sl_timeline **all;
  int count;
  char path[FUZZ_PATH], name[SL_TIMELINE_NAME];
  fuzz_write(fuzz_path(sl_timeline_name(0, name), path), data, n);
  if (sl_timeline_read_all(fuzz_folder(), &all, &count) != SL_OK) {
    if (all || count || !strstr(sl_error(), path)) abort();
    return -1;
  }
  if (count != 1) abort();
  use(all, count, n ? data[n - 1] : 0);
  sl_timeline_destroy(all[0]);
  free(all);
  return 0;
}

/* Two workers, an exchange and a loader's thread; seed 1 has no buffers and one clock, seed 2 nothing at all. */
static sl_timeline *example(int number) {
  const int nodes = number == 2 ? 0 : 3, buffers = number == 0 ? 2 : 0;
  sl_timeline *t;
  if (sl_timeline_create(nodes ? 2 : 0, nodes, nodes ? 2 : 0, &t) != SL_OK) abort();
  t->model = sl_timeline_text(t, "mlp"), t->sched = sl_timeline_text(t, "lws");
  if (nodes == 0) return t;
  t->n_kinds = 3;
  t->peak_gflops = 30, t->peak_gigabytes = 10;
  for (int i = 0; i < nodes; i++) {
    const char *const layers[] = {"a", "<b>", "\"c,\xC3\xA4"}, *const operations[] = {"linear", "gelu", "exchange"};
    t->node[i] = (sl_timeline_node){.layer = sl_timeline_text(t, layers[i]),
                                    .operation = sl_timeline_text(t, operations[i]),
                                    .phase = sl_timeline_text(t, i ? "backward" : "forward"),
                                    .shapes = sl_timeline_text(t, "[2] -> [3]"),
                                    .kind = i,
                                    .flops = 1e3 * i,
                                    .bytes = 5};
  }
  t->from[2] = 1, t->from[3] = 2, t->before[0] = 0, t->before[1] = 1;
  t->worker[0] = (sl_timeline_worker){sl_timeline_text(t, "CPU 0"), 0, 2, 700};
  t->worker[1] = (sl_timeline_worker){sl_timeline_text(t, "GPU 0"), number, 1, 300};
  if (sl_timeline_reserve_buffers(t, buffers, buffers) != SL_OK) abort();
  for (int i = 0; i < buffers; i++) {
    t->buffer[i] = (sl_timeline_buffer){100, i};
    t->use[i] = (sl_timeline_use){i, i};
  }
  t->n_clocks = 2 - number;
  t->clock[0] = (sl_clock){0, 10, 3}, t->clock[1] = (sl_clock){1000, 11, 4};
  t->record = calloc(8, sizeof *t->record);
  if (!t->record) abort();
  t->n_records = 8;
  for (int i = 0; i < 8; i++) /* two steps of three nodes, and the reading of a batch each */
    t->record[i] = (sl_record){.step = 1 + i / 4,
                               .submit = 100 * i,
                               .ready = 100 * i + 10,
                               .taken = 100 * i + 20,
                               .start = 100 * i + 30,
                               .end = 100 * i + 90,
                               .node = i % 4,
                               .worker = (int16_t)(i % 4 == 1),
                               .kind = (int16_t)(i % 4 == 2   ? SL_RECORD_EXCHANGE
                                                 : i % 4 == 3 ? SL_RECORD_INPUT
                                                              : SL_RECORD_TASK)};
  return t;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  if (number > 2) return 0;
  char path[] = "/tmp/starling-fuzz-XXXXXX";
  const int file = mkstemp(path);
  sl_timeline *t = example(number);
  if (file < 0 || sl_timeline_write(path, t) != SL_OK) abort();
  close(file);
  sl_timeline_destroy(t);
  FILE *f = fopen(path, "rb");
  const size_t n = f ? fread(data, 1, room, f) : 0;
  if (!f || n == room) abort(); /* it must fit whole */
  fclose(f);
  unlink(path);
  return n;
}
