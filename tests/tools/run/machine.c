/* Peaks of the machine: one run keeps them, the next one with as many workers knows them, and others do not; a damaged
 * file counts as missing. The network likewise, for any number of workers. */
#include "tools/run/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "tests/support/scratch.h"

static sl_runtime *start(int workers) {
  sl_runtime_options options = sl_runtime_defaults();
  sl_runtime *rt;
  options.mpi = 0, options.gpus = 0, options.workers = workers, options.threads_per_worker = 1;
  assert_ok(sl_runtime_start(&options, &rt));
  return rt;
}

static void kept(void **state) {
  char path[4096];
  setenv("STARPU_HOME", *state, 1);
  sl_runtime *rt = start(1);
  sl__machine m = sl__machine_read(rt);
  assert_true(m.gflops == 0 && m.gigabytes == 0);
  sl__machine_keep(rt, &(sl__machine){.gigabytes = 3});
  m = sl__machine_read(rt);
  assert_true(m.gflops == 0 && m.gigabytes == 0); /* half a file counts as missing */
  sl__machine_keep(rt, &(sl__machine){.gflops = 101.0 / 3, .gigabytes = 12.5});
  snprintf(path, sizeof path, "%s/%s-1x1.json", sl_runtime_sampling(rt), sl_runtime_model_host(rt));
  sl_runtime_stop(rt);

  rt = start(1);
  m = sl__machine_read(rt);
  assert_true(m.gflops == 101.0 / 3 && m.gigabytes == 12.5);
  m = (sl__machine){.gflops = 20, .gigabytes = 13};
  sl__machine_keep(rt, &m);
  assert_true(m.gflops == 101.0 / 3 && m.gigabytes == 13); /* the larger of both */
  m = sl__machine_read(rt);
  assert_true(m.gflops == 101.0 / 3 && m.gigabytes == 13);
  sl__machine_keep(rt, &(sl__machine){.gflops = 20, .gigabytes = 13, .bf16 = 70.5});
  sl__machine_keep(rt, &(sl__machine){.gflops = 20, .gigabytes = 13, .bf16 = 60});
  m = sl__machine_read(rt);
  assert_true(m.bf16 == 70.5 && sl__machine_peak(&m, SL_PRECISION_BF16, "avx512") == 70.5);
  assert_true(sl__machine_peak(&m, SL_PRECISION_BF16, "avx2") == m.gflops);
  assert_true(sl__machine_peak(&m, SL_PRECISION_FP32, "avx512") == m.gflops &&
              sl__machine_peak(&m, SL_PRECISION_FP16, "avx512") == m.gflops);
  m.bf16 = 1; /* slower than fp32's instructions, which then multiply bf16, too */
  assert_true(sl__machine_peak(&m, SL_PRECISION_BF16, "avx512") == m.gflops);
  sl__machine_keep(rt, &(sl__machine){.gpu_gflops = 5000, .gpu_gigabytes = 900}); /* beside those of CPUs */
  m = sl__machine_read(rt);
  assert_true(m.gflops == 101.0 / 3 && m.gigabytes == 13 && m.gpu_gflops == 5000 && m.gpu_gigabytes == 900);
  sl_machine predicted;
  assert_false(sl__machine_predicts(rt, &predicted)); /* there is no GPU */
  assert_ok(sl_file_replace(path, "{\"format\": \"starling-machine-1\"}", 32));
  m = sl__machine_read(rt);
  assert_true(m.gflops == 0 && m.gigabytes == 0);
  sl__machine_keep(rt, &(sl__machine){.gflops = 1, .gigabytes = 2});
  sl_runtime_stop(rt);

  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  rt = start(2);
  m = sl__machine_read(rt);
  assert_true(m.gflops == 0 && m.gigabytes == 0);
  sl_runtime_stop(rt);
}

static void network_kept(void **state) {
  char path[4096], named[4096], again[4096];
  setenv("STARPU_HOME", *state, 1);
  unsetenv("STARPU_HOSTNAME");
  sl_runtime *rt = start(1);
  sl__network_path(rt, path, sizeof path);
  sl_runtime_stop(rt);
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    rt = start(2);
    sl__network_path(rt, again, sizeof again);
    sl_runtime_stop(rt);
    assert_string_equal(again, path);
  }
  setenv("STARPU_HOSTNAME", "lab", 1);
  rt = start(1);
  sl__network_path(rt, named, sizeof named);
  sl_runtime_stop(rt);
  unsetenv("STARPU_HOSTNAME");
  assert_non_null(strstr(named, "/lab-network.json"));

  assert_true(sl__network_read(path).shared == 0);
  sl__network_description n = {.shared = 2.5e9, .shared_latency = 1e-6};
  sl__network_keep(path, &n);
  assert_true(n.latency == 0); /* still unknown */
  n = (sl__network_description){.latency = 2e-6, .per_rank = 1e9, .per_node = 3e9};
  sl__network_keep(path, &n);
  assert_true(n.shared == 2.5e9 && n.shared_latency == 1e-6); /* as it was */
  n = (sl__network_description){.shared = 2e9, .shared_latency = 2e-6};
  sl__network_keep(path, &n);
  n = sl__network_read(path);
  assert_true(n.latency == 2e-6 && n.per_rank == 1e9 && n.per_node == 3e9);
  assert_true(n.shared == 2e9 && n.shared_latency == 2e-6); /* the latest, not the fastest */
  assert_ok(sl_file_replace(path, "{\"format\": \"starling-network-1\"}", 32));
  assert_true(sl__network_read(path).latency == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(kept, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(network_kept, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests_name("tools/machine", tests, NULL, NULL);
}
