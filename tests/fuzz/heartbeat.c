/* Fuzz target: what a launcher reads of a run: heartbeat.json, and the parts of a stall's file. The first byte selects
 * the file: h or p. */
#include "tools/watch/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"
#include "tools/watch/stall.h"

enum { MOST = 4 };

static int read_heartbeat(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH];
  sl__heartbeat h;
  long pid[MOST];
  fuzz_write(fuzz_path("heartbeat.json", path), data, n);
  const sl_status status = sl__heartbeat_read(fuzz_folder(), &h);
  if (status == SL_OK && !memchr(h.launch, 0, sizeof h.launch)) abort();
  if (status != SL_OK && !*sl_error()) abort();
  const int processes = sl__heartbeat_processes(fuzz_folder(), "node1", pid, MOST);
  if (processes < 0 || processes > MOST) abort();
  for (int i = 0; i < processes; i++) sl__heartbeat_rank(fuzz_folder(), "node1", pid[i]);
  sl__heartbeat_rank(fuzz_folder(), NULL, 17);
  return status == SL_OK ? 0 : -1;
}

/* A part that is there, whatever is in it, does not keep the whole from being written. */
static int read_part(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH], whole[FUZZ_PATH * 2];
  json_t *json;
  const sl__stall_rank all[] = {{.host = "", .place = "step 3", .heard = 1},
                                {.rank = 1, .host = "node1", .pid = 17, .state = 'T', .place = "", .late = 1}};
  fuzz_write(fuzz_path(".stall-1.part", path), data, n);
  if (!sl__stall_has_part(fuzz_folder(), 1, 1e9)) abort();
  if (sl__stall_write(fuzz_folder(), "no progress", 2.5, all, 2, 0, whole, sizeof whole) != SL_OK) abort();
  if (sl_json_read(whole, &json) != SL_OK) abort();
  json_decref(json);
  unlink(whole);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n == 0) return -1;
  return data[0] == 'p' ? read_part(data + 1, n - 1) : read_heartbeat(data + 1, n - 1);
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "h{\"state\": \"training\", \"exit_code\": null, \"step\": 12, \"steps\": 40, \"from_step\": 8, \"loss\": 1.5, "
      "\"time\": \"2026-01-02T03:04:05.678Z\", \"host\": \"node1\", \"pid\": 17, \"ranks\": 2, \"launch\": \"a-1\", "
      "\"processes\": [{\"rank\": 0, \"host\": \"node1\", \"pid\": 17}, {\"rank\": 1, \"host\": \"node1\", \"pid\": "
      "18}]}",
      "h{\"exit_code\": 75}",
      "p{\"rank\": 1, \"host\": \"node1\", \"pid\": 17, \"in\": \"step 3\", \"waits\": true, \"still_s\": 2.5, "
      "\"waits_for\": [0], \"threads\": [{\"name\": \"starling\", \"stack\": [\"main\"]}]}",
      "p[]"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
