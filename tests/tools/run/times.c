/* tools/run/times.c: times are kept with those of other kinds of tasks, and a damaged file is named. */
#include "tools/run/times.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"

static const sl__times_of usual = {.threads = 1, .kernels = SL_GPU_EXACT};

static sl_time time_of(const char *operation, uint32_t footprint, double cpu, double gpu) {
  sl_time t = {.footprint = footprint, .seconds = {[SL_KIND_CPU] = cpu, [SL_KIND_GPU] = gpu}};
  snprintf(t.operation, sizeof t.operation, "%s", operation);
  return t;
}

static void keep(const char *path, const sl_time *time) {
  sl_times *times;
  assert_ok(sl_times_create(&times));
  assert_ok(sl_times_put(times, time));
  assert_ok(sl__times_keep(path, &usual, times));
  sl_times_destroy(times);
}

static void kept(void **state) {
  const char *path = scratch_path(*state, "times.json");
  sl_times *times;
  sl_time a = time_of("linear", 4294967295u, 1.25e-6, 0), b = time_of("conv2d", 0, 0, 3.5e-7),
          c = time_of("linear", 4294967295u, 2e-6, 0);
  b.deviation[SL_KIND_GPU] = 0.125, c.deviation[SL_KIND_CPU] = 0.25;
  keep(path, &a), keep(path, &b), keep(path, &c);
  assert_ok(sl_times_create(&times));
  sl_times_set_overhead(times, SL_KIND_CPU, 3e-6);
  assert_ok(sl__times_keep(path, &usual, times));
  sl_times_destroy(times);
  keep(path, &c);
  assert_ok(sl_times_create(&times));
  assert_ok(sl__times_read(path, &usual, times));
  assert_int_equal(sl_times_count(times), 2);
  assert_true(sl_times_overhead(times, SL_KIND_CPU) == 3e-6 && sl_times_overhead(times, SL_KIND_GPU) == 0);
  assert_true(sl_times_find(times, "linear", 4294967295u, SL_KIND_CPU) == 2e-6);
  assert_true(sl_times_find(times, "conv2d", 0, SL_KIND_GPU) == 3.5e-7);
  assert_true(sl_times_deviation(times, "linear", 4294967295u, SL_KIND_CPU) == 0.25);
  assert_true(sl_times_deviation(times, "conv2d", 0, SL_KIND_GPU) == 0.125);
  sl_times_destroy(times);
}

/* Each policy has its own overhead; the last one measured stands for those that were not. */
static void of_policies(void **state) {
  const char *path = scratch_path(*state, "times.json");
  static const char damaged[] =
      "{\"format\": \"starling-times-1\", \"overhead\": {\"policies\": \"none\"}, \"times\": []}";
  static const struct {
    const char *policy;
    double seconds;
  } put[] = {{"dmda", 2e-5}, {NULL, 9e-6}, {"eager", 7e-6}, {"dmda", 1.75e-5}},
    want[] = {{"dmda", 1.75e-5}, {"lws", 9e-6}, {NULL, 9e-6}, {"eager", 7e-6}, {"prio", 1.75e-5}};
  sl_times *times;
  scratch_write(path, damaged, strlen(damaged));
  for (size_t i = 0; i < sizeof put / sizeof *put; i++) {
    const sl__times_of of = {.threads = 1, .policy = put[i].policy};
    assert_ok(sl_times_create(&times));
    sl_times_set_overhead(times, SL_KIND_CPU, put[i].seconds);
    assert_ok(sl__times_keep(path, &of, times));
    sl_times_destroy(times);
  }
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const sl__times_of of = {.threads = 1, .policy = want[i].policy};
    assert_ok(sl_times_create(&times));
    assert_ok(sl__times_read(path, &of, times));
    assert_true(sl_times_overhead(times, SL_KIND_CPU) == want[i].seconds);
    sl_times_destroy(times);
  }
}

static void expect(const char *path, const sl__times_of *of, double cpu, double gpu) {
  sl_times *times;
  assert_ok(sl_times_create(&times));
  assert_ok(sl__times_read(path, of, times));
  assert_true(sl_times_find(times, "linear", 1, SL_KIND_CPU) == cpu);
  assert_true(sl_times_find(times, "linear", 1, SL_KIND_GPU) == gpu);
  sl_times_destroy(times);
}

/* Times of other teams or GPU kernels are no times of these workers. A file that does not say holds for all. */
static void of_other_workers(void **state) {
  const char *path = scratch_path(*state, "times.json");
  static const char earlier[] =
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": \"linear\", \"footprint\": 1, \"cpu_s\": 2e-6}]}";
  const sl_time a = time_of("linear", 1, 2e-6, 1e-7);
  const sl__times_of team = {.threads = 8}, fast = {.threads = 1, .kernels = SL_GPU_FAST};
  keep(path, &a);
  expect(path, &usual, 2e-6, 1e-7);
  expect(path, &team, 0, 1e-7);
  expect(path, &fast, 2e-6, 0);
  scratch_write(path, earlier, strlen(earlier));
  expect(path, &team, 2e-6, 0);
}

static void damaged(void **state) {
  static const char *const texts[] = {
      "{\"format\": \"starling-times-2\", \"times\": []}",
      "{\"format\": \"starling-times-1\"}",
      "{\"format\": \"starling-times-1\", \"overhead\": {\"policies\": {\"lws\": -1}}, \"times\": []}",
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": \"linear\"}]}",
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": \"linear\", \"footprint\": -1}]}",
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": \"linear\", \"footprint\": 4294967296}]}",
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": \"linear\", \"footprint\": 1, \"cpu_s\": -1}]}",
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": \"linear\", \"footprint\": 1, "
      "\"cpu_deviation\": -1}]}",
      "{\"format\": \"starling-times-1\", \"times\": [{\"operation\": "
      "\"a name that is longer than any operation has\", \"footprint\": 1}]}",
      "[1"};
  const char *path = scratch_path(*state, "damaged.json");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    sl_times *times;
    scratch_write(path, texts[i], strlen(texts[i]));
    assert_ok(sl_times_create(&times));
    assert_fails(SL_EFORMAT, "damaged.json", sl__times_read(path, &usual, times));
    sl_times_destroy(times);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(kept, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(of_policies, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(of_other_workers, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(damaged, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests_name("times", tests, NULL, NULL);
}
