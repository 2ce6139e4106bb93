/* Energy: counters of a simulated powercap folder and of a simulated NVML inside this program. */
#include "runtime/machine/energy.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/scratch.h"

/* ---- NVML: two cards, the second without a counter -------------------------------------------------------------- */

static unsigned long long millijoules;
static int starts = 1;
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy);
const char *nvmlErrorString(int code);

int nvmlInit_v2(void) { return starts ? 0 : 9; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) {
  static int cards[2];
  if (strncmp(address, "0000:17:00.", 11) != 0) return 6;
  *device = &cards[address[11] == '1'];
  cards[1] = 1;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
  *energy = millijoules;
  return *(int *)device ? 3 : 0;
}
const char *nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 6 ? "Not Found" : "Not Supported";
}

/* ---- powercap --------------------------------------------------------------------------------------------------- */

static void put(const char *folder, const char *domain, const char *file, const char *text) {
  char path[512];
  mkdir(scratch_path(folder, domain), 0777);
  snprintf(path, sizeof path, "%s/%s", domain, file);
  scratch_write(scratch_path(folder, path), text, strlen(text));
}

static void put_domain(const char *folder, const char *domain, const char *name, const char *energy) {
  put(folder, domain, "name", name);
  put(folder, domain, "energy_uj", energy);
  put(folder, domain, "max_energy_range_uj", "1000000000\n");
}

static void packages(void **state) {
  const char *folder = *state, *reason;
  sl_energy *e;
  mkdir(scratch_path(folder, "intel-rapl"), 0777);
  put_domain(folder, "intel-rapl:0", "package-0\n", "5000000\n");
  put_domain(folder, "intel-rapl:1", "package-1\n", "999000000\n");
  put_domain(folder, "intel-rapl:2", "psys\n", "0\n");
  put_domain(folder, "intel-rapl:0:0", "dram\n", "0\n");
  assert_ok(sl_energy_open(&(sl_energy_options){.powercap = folder}, &e));
  sl_energy_start(e);
  put(folder, "intel-rapl:0", "energy_uj", "7500000\n"); /* 2.5 J */
  put(folder, "intel-rapl:1", "energy_uj", "2000000\n"); /* 1 J to the end of the range, and 2 J */
  put(folder, "intel-rapl:2", "energy_uj", "900000000\n");
  put(folder, "intel-rapl:0:0", "energy_uj", "900000000\n");
  sl_energy_watch(e); /* too early to read */
  sl_energy_stop(e);
  assert_near(sl_energy_joules(e, SL_ENERGY_PACKAGES, &reason), 5.5, 1e-9);
  assert_null(reason);
  assert_near(sl_energy_joules(e, SL_ENERGY_GPUS, &reason), 0, 0);
  assert_null(reason);
  sl_energy_start(e);
  sl_energy_stop(e);
  assert_near(sl_energy_joules(e, SL_ENERGY_PACKAGES, &reason), 0, 0);
  sl_energy_close(e);
}

static void back(void **state) {
  const char *folder = *state, *reason;
  sl_energy *e;
  put_domain(folder, "intel-rapl:0", "package-0\n", "5000000\n");
  remove(scratch_path(folder, "intel-rapl:0/max_energy_range_uj"));
  assert_ok(sl_energy_open(&(sl_energy_options){.powercap = folder}, &e));
  sl_energy_start(e);
  put(folder, "intel-rapl:0", "energy_uj", "4000000\n");
  sl_energy_stop(e);
  assert_true(isnan(sl_energy_joules(e, SL_ENERGY_PACKAGES, &reason)));
  assert_non_null(strstr(reason, "fell without wrapping"));
  sl_energy_close(e);
}

static void assert_unknown(const char *folder, const char *words) {
  sl_energy *e;
  const char *reason;
  assert_ok(sl_energy_open(&(sl_energy_options){.powercap = folder}, &e));
  sl_energy_start(e);
  sl_energy_stop(e);
  assert_true(isnan(sl_energy_joules(e, SL_ENERGY_PACKAGES, &reason)));
  assert_non_null(reason);
  if (!strstr(reason, words)) fail_msg("\"%s\" does not say \"%s\"", reason, words);
  sl_energy_close(e);
}

static void unknown(void **state) {
  const char *folder = *state;
  assert_unknown(scratch_path(folder, "none"), "no RAPL: ");
  assert_unknown(folder, "is empty");
  put_domain(folder, "intel-rapl:0", "psys\n", "0\n");
  assert_unknown(folder, "has no package");
  put_domain(folder, "intel-rapl:0", "package-0\n", "many\n");
  assert_unknown(folder, "RAPL is not readable: ");
  put_domain(folder, "intel-rapl:0", "package-0\n", "12\n");
  chmod(scratch_path(folder, "intel-rapl:0/energy_uj"), 0);
  if (access(scratch_path(folder, "intel-rapl:0/energy_uj"), R_OK) != 0) assert_unknown(folder, "chmod a+r");
}

static void gpus(void **state) {
  const char *reason;
  sl_energy *e;
  const char *card[] = {"0000:17:00.0", "0000:17:00.1", "0000:99:00.0"};
  sl_energy_options options = {.powercap = *state, .nvml = "", .gpus = card, .n_gpus = 1};
  millijoules = 1000;
  assert_ok(sl_energy_open(&options, &e));
  sl_energy_start(e);
  millijoules = 3500;
  sl_energy_stop(e);
  assert_near(sl_energy_joules(e, SL_ENERGY_GPUS, &reason), 2.5, 1e-9);
  sl_energy_close(e);

  options.n_gpus = 2;
  assert_ok(sl_energy_open(&options, &e));
  sl_energy_start(e);
  sl_energy_stop(e);
  assert_true(isnan(sl_energy_joules(e, SL_ENERGY_GPUS, &reason)));
  assert_string_equal(reason, "NVML reports no energy of GPU 1: Not Supported");
  sl_energy_close(e);

  options.gpus = card + 2, options.n_gpus = 1;
  assert_ok(sl_energy_open(&options, &e));
  assert_true(isnan(sl_energy_joules(e, SL_ENERGY_GPUS, &reason)));
  assert_string_equal(reason, "NVML does not know GPU 0000:99:00.0: Not Found");
  sl_energy_close(e);

  starts = 0;
  assert_ok(sl_energy_open(&options, &e));
  assert_true(isnan(sl_energy_joules(e, SL_ENERGY_GPUS, &reason)));
  assert_string_equal(reason, "no NVML: it does not start: Driver Not Loaded");
  sl_energy_close(e);

  options.nvml = "libstarling-has-no-such.so.1";
  assert_ok(sl_energy_open(&options, &e));
  assert_true(isnan(sl_energy_joules(e, SL_ENERGY_GPUS, &reason)));
  assert_non_null(strstr(reason, "no NVML: libstarling-has-no-such.so.1"));
  sl_energy_close(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(packages, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(back, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(unknown, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(gpus, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
