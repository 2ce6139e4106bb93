/* tools/machines/change.c: a key by its name or without its unit, values and factors, and each kind of wrong change. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tools/machines/description.h"
#include "tools/machines/keys.h"

static sl__machine_description shipped(const char *name) {
  sl__machine_description m;
  assert_int_equal(sl__machine_describe(name, &m), SL_OK);
  return m;
}

static void factors(void **state) {
  (void)state;
  const sl__machine_description was = shipped("dgx-a100");
  sl__machine_description m = was;
  assert_int_equal(sl__machine_change(&m, "network.gigabytes_per_s_per_rank=0.5x,gpu.memory_gigabytes=2x"), SL_OK);
  assert_near(m.network.per_rank, was.network.per_rank / 2, 1e-12 * was.network.per_rank);
  assert_near(m.gpu.memory, 2 * was.gpu.memory, 1);
  assert_near(m.network.per_node, was.network.per_node, 0);
}

/* 1x leaves every byte of the description. */
static void nothing_changed(void **state) {
  (void)state;
  const sl__machine_description was = shipped("dgx-a100");
  for (int k = 0; k < sl__machine_keys_count; k++) {
    const sl__machine_key *key = &sl__machine_keys[k];
    const void *field = (const char *)&was + key->offset;
    char text[128];
    if (key->kind != SL__KEY_REAL || !(*(const double *)field > 0)) continue;
    sl__machine_description m = was;
    snprintf(text, sizeof text, "%s=1x", key->path);
    assert_int_equal(sl__machine_change(&m, text), SL_OK);
    assert_memory_equal(&m, &was, sizeof m);
  }
}

static void values_in_the_keys_unit(void **state) {
  (void)state;
  sl__machine_description m = shipped("dgx-a100");
  assert_int_equal(sl__machine_change(&m, "network.latency_us=5,gpu.count=4"), SL_OK);
  assert_near(m.network.latency, 5e-6, 1e-18);
  assert_int_equal(m.gpu.count, 4);
}

/* Without the unit in its name, a key counts in bytes, bytes/s or seconds. */
static void values_without_unit(void **state) {
  (void)state;
  sl__machine_description m = shipped("dgx-a100");
  assert_int_equal(sl__machine_change(&m, "gpu.memory=80e9,network.latency=1e-6,gpu.link.bandwidth=3e10"), SL_OK);
  assert_near(m.gpu.memory, 80e9, 1);
  assert_near(m.network.latency, 1e-6, 1e-18);
  assert_near(m.gpu.link, 3e10, 1);
}

/* A rank is never faster than its node, so the network's bandwidth is that of both. */
static void bandwidth_of_the_network(void **state) {
  (void)state;
  const sl__machine_description was = shipped("dgx-a100");
  sl__machine_description m = was;
  assert_int_equal(sl__machine_change(&m, "network.bandwidth=2x"), SL_OK);
  assert_near(m.network.per_rank, 2 * was.network.per_rank, 1);
  assert_near(m.network.per_node, 2 * was.network.per_node, 1);
  assert_near(m.network.shared, was.network.shared, 0);
}

static void wrong(const char *machine, const char *changes, const char *says) {
  sl__machine_description m = shipped(machine);
  assert_int_equal(sl__machine_change(&m, changes), SL_EINVAL);
  if (!strstr(sl_error(), says)) fail_msg("'%s' does not say '%s'", sl_error(), says);
}

static void wrong_changes(void **state) {
  (void)state;
  wrong("dgx-a100", "network.latnecy_us=2", "network.latnecy_us");
  wrong("dgx-a100", "network.latnecy_us=2", "cpu.cores"); /* the keys that there are */
  wrong("dgx-a100", "name=other", "no number of a machine is called 'name'");
  wrong("dgx-a100", "network.topology=star", "no number of a machine is called 'network.topology'");
  wrong("dgx-a100", "gpu.count", "KEY=VALUE");
  wrong("dgx-a100", "gpu.count=", "must be a number");
  wrong("dgx-a100", "gpu.count=2y", "must be a number");
  wrong("dgx-a100", "gpu.count=-2x", "must be a number");
  wrong("dgx-a100", "gpu.count=0", "from 1 to 1024");
  wrong("dgx-a100", "gpu.count=0.3x", "whole number");
  wrong("dgx-a100", "cpu.efficiency=2x", "from 0.001 to 1");
  wrong("vm-2", "gpu.memory_gigabytes=2x", "has no gpu.memory_gigabytes to multiply");
  wrong("vm-2", "gpu.memory_gigabytes=80", "is missing"); /* the rest of a GPU */
  wrong("dgx-a100", "network.gigabytes_per_s_per_rank=1e5", "more than gigabytes_per_s_per_node");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(factors),
      cmocka_unit_test(nothing_changed),
      cmocka_unit_test(values_in_the_keys_unit),
      cmocka_unit_test(values_without_unit),
      cmocka_unit_test(bandwidth_of_the_network),
      cmocka_unit_test(wrong_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
