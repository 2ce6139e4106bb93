/* Fuzz target: the file with this machine's speeds. What is accepted is all or nothing for each kind of worker, and
 * above 0. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/run/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH];
  fuzz_write(fuzz_path("machine.json", path), data, n);
  sl__machine m = {.gflops = 7};
  if (sl__machine_of_file(path, &m) != SL_OK) {
    if (m.gflops != 0 || m.gigabytes != 0 || m.gpu_gflops != 0 || m.gpu_gigabytes != 0) abort();
    if (!strstr(sl_error(), path)) abort();
    return -1;
  }
  const int cpus = m.gflops > 0, gpus = m.gpu_gflops > 0;
  if (!cpus && !gpus) abort();
  if ((m.gigabytes > 0) != cpus || (m.gpu_gigabytes > 0) != gpus) abort();
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "{\"format\": \"starling-machine-1\", \"sgemm_gflops\": 103.5, \"triad_gigabytes_per_s\": 8.25, \"bf16_gflops\": "
      "201}",
      "{\"format\": \"starling-machine-1\", \"sgemm_gflops\": 0.0, \"triad_gigabytes_per_s\": 0.0, \"gpu_gflops\": "
      "9e3, \"gpu_gigabytes_per_s\": 800.5}"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
