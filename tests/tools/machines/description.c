/* tools/machines: every key goes into its field in its unit; shipped machines are read, written and read again; each
 * kind of wrong entry fails with file, line, key and remedy. */
#include "tools/machines/description.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

/* All keys, with a value of its own each. */
static const char whole[] =
    "name: big\n"
    "source: a test\n"
    "cpu:\n"
    "  cores: 12\n"
    "  numa_domains: 3\n"
    "  gflops: {fp32: 50, bf16: 125}\n"
    "  efficiency: 0.5\n"
    "  memory_gigabytes: 64\n"
    "  gigabytes_per_s: 40\n"
    "  overhead_us: 3\n"
    "  process_megabytes: 45.5\n"
    "  watts: 400\n"
    "  idle_watts: 100\n"
    "gpu:\n"
    "  count: 4\n"
    "  gflops: {fp32: 8000, tf32: 16000, bf16: 32000}\n"
    "  efficiency: 0.25\n"
    "  memory_gigabytes: 16\n"
    "  gigabytes_per_s: 800\n"
    "  overhead_us: 9\n"
    "  link: {gigabytes_per_s: 20, latency_us: 11}\n"
    "  peers: {gigabytes_per_s: 100, latency_us: 7}\n"
    "  watts: 300\n"
    "  idle_watts: 30\n"
    "network:\n"
    "  latency_us: 2\n"
    "  gigabytes_per_s_per_rank: 6\n"
    "  gigabytes_per_s_per_node: 24\n"
    "  shared_memory: {gigabytes_per_s: 8, latency_us: 1}\n"
    "  topology: dragonfly\n"
    "  groups: 5\n"
    "  routers_per_group: 6\n"
    "  nodes_per_router: 7\n"
    "price: {node_hour: 2.5, currency: EUR}\n";

static sl_status parse(const char *text, sl__machine_description *m) {
  return sl__machine_parse("m.yaml", text, strlen(text), m);
}

/* The text with the first occurrence of `old` replaced; in a buffer that the next call uses again. */
static const char *with(const char *text, const char *old, const char *new) {
  static char changed[4096];
  const char *at = strstr(text, old);
  assert_non_null(at);
  snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
  return changed;
}

static void keys_and_units(void **state) {
  (void)state;
  sl__machine_description m;
  assert_ok(parse(whole, &m));
  assert_string_equal(m.name, "big");
  assert_string_equal(m.source, "a test");
  assert_int_equal(m.cpu.cores, 12);
  assert_int_equal(m.cpu.numa_domains, 3);
  assert_near(m.cpu.peak.fp32, 5e10, 1);
  assert_near(m.cpu.peak.bf16, 1.25e11, 1);
  assert_near(m.cpu.peak.tf32, 0, 0);
  assert_near(m.cpu.efficiency, 0.5, 0);
  assert_near(m.cpu.memory, 6.4e10, 1);
  assert_near(m.cpu.bandwidth, 4e10, 1);
  assert_near(m.cpu.overhead, 3e-6, 1e-18);
  assert_near(m.cpu.process, 4.55e7, 1);
  assert_near(m.cpu.watts, 400, 0);
  assert_near(m.cpu.idle, 100, 0);
  assert_int_equal(m.gpu.count, 4);
  assert_near(m.gpu.peak.fp32, 8e12, 1);
  assert_near(m.gpu.peak.tf32, 1.6e13, 1);
  assert_near(m.gpu.peak.bf16, 3.2e13, 1);
  assert_near(m.gpu.efficiency, 0.25, 0);
  assert_near(m.gpu.memory, 1.6e10, 1);
  assert_near(m.gpu.bandwidth, 8e11, 1);
  assert_near(m.gpu.overhead, 9e-6, 1e-18);
  assert_near(m.gpu.link, 2e10, 1);
  assert_near(m.gpu.link_latency, 1.1e-5, 1e-17);
  assert_near(m.gpu.peer_link, 1e11, 1);
  assert_near(m.gpu.peer_latency, 7e-6, 1e-18);
  assert_near(m.gpu.watts, 300, 0);
  assert_near(m.gpu.idle, 30, 0);
  assert_near(m.network.latency, 2e-6, 1e-18);
  assert_near(m.network.per_rank, 6e9, 1);
  assert_near(m.network.per_node, 2.4e10, 1);
  assert_near(m.network.shared, 8e9, 1);
  assert_near(m.network.shared_latency, 1e-6, 1e-18);
  assert_int_equal(m.network.topology, SL__DRAGONFLY);
  assert_near(m.network.shape[0], 5, 0);
  assert_near(m.network.shape[1], 6, 0);
  assert_near(m.network.shape[2], 7, 0);
  assert_near(m.price, 2.5, 0);
  assert_string_equal(m.currency, "EUR");
}

#define DRAGONFLY "dragonfly\n  groups: 5\n  routers_per_group: 6\n  nodes_per_router: 7"

static void topologies(void **state) {
  (void)state;
  sl__machine_description m;
  assert_ok(parse(with(whole, DRAGONFLY, "star"), &m));
  assert_int_equal(m.network.topology, SL__STAR);
  assert_near(m.network.shape[0], 0, 0);
  assert_ok(parse(with(whole, DRAGONFLY, "fat-tree\n  nodes_per_leaf: 20\n  oversubscription: 1.5"), &m));
  assert_int_equal(m.network.topology, SL__FAT_TREE);
  assert_near(m.network.shape[0], 20, 0);
  assert_near(m.network.shape[1], 1.5, 0);
  assert_ok(parse(with(whole, DRAGONFLY, "torus\n  extents: [4, 8]"), &m));
  assert_int_equal(m.network.topology, SL__TORUS);
  assert_near(m.network.shape[0], 4, 0);
  assert_near(m.network.shape[1], 8, 0);
  assert_near(m.network.shape[2], 0, 0);
  assert_ok(parse(with(whole, DRAGONFLY, "torus\n  extents: 16"), &m));
  assert_near(m.network.shape[0], 16, 0);
}

/* Which sections may be left out, and what the fields then are. */
static void parts_left_out(void **state) {
  (void)state;
  sl__machine_description m;
  char text[4096];
  snprintf(text, sizeof text, "%.*s", (int)(strstr(whole, "gpu:") - whole), whole);
  assert_ok(parse(text, &m));
  assert_int_equal(m.gpu.count, 0);
  assert_near(m.gpu.link, 0, 0);
  assert_near(m.network.latency, 0, 0);
  assert_near(m.network.shared, 0, 0);
  assert_near(m.price, 0, 0);
  strcat(text, "network: {shared_memory: {gigabytes_per_s: 8, latency_us: 1}}\n");
  assert_ok(parse(text, &m));
  assert_near(m.network.latency, 0, 0);
  assert_near(m.network.shared, 8e9, 1);
  assert_ok(parse(with(whole, "  shared_memory: {gigabytes_per_s: 8, latency_us: 1}\n", ""), &m));
  assert_near(m.network.latency, 2e-6, 1e-18);
  assert_near(m.network.shared, 0, 0);
}

static void wrong_entries(void **state) {
  (void)state;
  /* What to replace by what, and what the message says. */
  static const struct {
    const char *old, *new, *says;
  } cases[] = {
      {"cores: 12", "cores: -12", "m.yaml, line 4: cpu.cores: cores of a node: '-12' must be a whole number from 1"},
      {"cores: 12", "cores: 0", "line 4: cpu.cores: cores of a node: '0' must be a whole number"},
      {"cores: 12", "cores: 12.5", "'12.5' must be a whole number"},
      {"cores: 12", "cores: many", "'many' must be a whole number from 1 to 65536, such as 64"},
      {"cores: 12", "cores: ''", "'' must be a whole number"},
      {"cores: 12", "cores: 12 GB", "'12 GB' must be a whole number"},
      {"cores: 12", "cores: [12]", "line 4: cpu.cores needs one plain value, such as 64"},
      {"cores: 12", "cores: 1e30", "'1e30' must be a whole number"},
      {"cores: 12", "core: 12", "line 4: unknown key 'cpu.core'; did you mean 'cores'?"},
      {"cores: 12", "cores.x: 12", "unknown key 'cpu.cores.x'"},
      {"  cores: 12\n", "", "line 3: cpu.cores is missing: add 'cores: 64' (cores of a node)"},
      {"cores: 12", "cores: 12\n  cores: 12", "line 5: key 'cpu.cores' occurs twice"},
      {"numa_domains: 3", "numa_domains: 13", "line 5: cpu.numa_domains: 13 domains of 12 cores"},
      {"fp32: 50", "fp32: nan",
       "line 6: cpu.gflops.fp32: peak of one core in fp32, in GFLOP/s: 'nan' must be a number"},
      {"fp32: 50", "fp32: inf", "'inf' must be a number"},
      {"fp32: 50", "fp32: -inf", "'-inf' must be a number"},
      {"fp32: 50, ", "", "line 6: cpu.gflops.fp32 is missing"},
      {"fp32: 50", "tf32: 50", "line 6: unknown key 'cpu.gflops.tf32'; did you mean 'fp32'?"},
      {"efficiency: 0.5", "efficiency: 1.01", "line 7: cpu.efficiency: share of the peak that large products reach"},
      {"efficiency: 0.5", "efficiency: 85%", "'85%' must be a number from 0.001 to 1, such as 0.85"},
      {"memory_gigabytes: 64", "memory_gigabytes: 68719476736", "line 8: cpu.memory_gigabytes: memory of a node"},
      {"idle_watts: 100", "idle_watts: 401", "line 13: cpu.idle_watts: more than cpu.watts"},
      {"  watts: 400\n", "", "line 12: cpu.watts is missing: add 'watts: 600'"},
      {"  count: 4\n", "", "line 14: gpu.count is missing: add 'count: 8' (GPUs of a node)"},
      {"count: 4", "count: 1", "line 22: gpu.peers: a node with one GPU has no links between GPUs: remove gpu.peers"},
      {"count: 4", "count: 0", "gpu.count: GPUs of a node: '0' must be a whole number"},
      {"  link: {gigabytes_per_s: 20, latency_us: 11}\n", "", "gpu.link.gigabytes_per_s is missing"},
      {"link: {gigabytes_per_s: 20, latency_us: 11}", "link: 20", "line 21: gpu.link must be a section of keys"},
      {"peers: {gigabytes_per_s: 100, latency_us: 7}", "peers: {latency_us: 7}",
       "line 22: gpu.peers.gigabytes_per_s is missing"},
      {"idle_watts: 30\n", "idle_watts: 301\n", "line 24: gpu.idle_watts: more than gpu.watts"},
      {"  latency_us: 2\n", "", "line 26: network.latency_us is missing beside the other keys"},
      {"per_rank: 6", "per_rank: 25", "line 27: network.gigabytes_per_s_per_rank: more than gigabytes_per_s_per_node"},
      {"shared_memory: {gigabytes_per_s: 8, latency_us: 1}", "shared_memory: {latency_us: 1}",
       "network.shared_memory.gigabytes_per_s is missing"},
      {DRAGONFLY, "torus",
       "line 30: network.extents is missing, which the topology torus needs: add 'extents: [8, 8, 8]'"},
      {DRAGONFLY, "torus\n  extents: []", "network.extents: nodes along each of one to three dimensions"},
      {DRAGONFLY, "torus\n  extents: [2, 2, 2, 2]", "must be a list of one to three numbers"},
      {DRAGONFLY, "torus\n  extents: [2, [2]]", "must be a list of one to three numbers"},
      {DRAGONFLY, "torus\n  extents: {x: 2}", "must be a list of one to three numbers"},
      {DRAGONFLY, "torus\n  extents: [2, 0]", "'0' must be a whole number"},
      {DRAGONFLY, "fat-tree\n  oversubscription: 1",
       "network.nodes_per_leaf is missing, which the topology fat-tree needs"},
      {DRAGONFLY, "fat-tree\n  nodes_per_leaf: 8\n  oversubscription: 0.5", "'0.5' must be a number from 1 to 1000"},
      {"dragonfly", "star", "line 31: network.groups belongs to the topology dragonfly, but network.topology is star"},
      {"dragonfly", "dragonfl",
       "line 30: network.topology: unknown topology 'dragonfl'; choose star, fat-tree, dragonfly "
       "or torus; did you mean 'dragonfly'?"},
      {"  topology: dragonfly\n", "", "network.topology is missing"},
      {", currency: EUR", "", "line 34: price.currency is missing"},
      {"EUR", "EURO-EURO", "'EURO-EURO' must be a text of 1 to 7 letters"},
      {"name: big", "name: a/b", "line 1: name: the machine's name"},
      {"name: big", "name: ''", "'' must be a text of 1 to 63 letters"},
      {"source: a test\n", "", "line 1: source is missing"},
      {"source: a test", "source: \"\\0\"", "line 2: source"},
      {"gpu:\n", "gpus:\n", "line 14: unknown key 'gpus'; did you mean 'gpu'?"},
      {"gpu:\n", "gpu: 4\nx:\n", "line 14: gpu must be a section of keys"},
      {"price: ", "network: {}\nprice: ", "line 34: key 'network' occurs twice"},
      {"price: ", "[price]: ", "line 34: a list or section cannot be a key"},
      {"price: ", "---\nprice: ", "line 34: a second document begins"},
      {"name: big", "name: 'big", "not YAML"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sl__machine_description m;
    assert_fails(SL_EINVAL, cases[i].says, parse(with(whole, cases[i].old, cases[i].new), &m));
    if (!strstr(sl_error(), "m.yaml, line ")) fail_msg("\"%s\" names no line", sl_error());
  }
  sl__machine_description m;
  assert_fails(SL_EINVAL, "a machine is a section of keys", parse("", &m));
  assert_fails(SL_EINVAL, "a machine is a section of keys", parse("- name\n", &m));
  char text[4096];
  snprintf(text, sizeof text, "%.*snetwork: {}\n", (int)(strstr(whole, "gpu:") - whole), whole);
  assert_fails(SL_EINVAL, "line 14: network.latency_us is missing", parse(text, &m));
}

/* What is written is read, and written again the same. */
static void assert_round_trip(const sl__machine_description *m) {
  char *text, *twice;
  sl__machine_description again;
  assert_ok(sl__machine_to_yaml(m, &text));
  assert_ok(sl__machine_parse("written", text, strlen(text), &again));
  assert_ok(sl__machine_to_yaml(&again, &twice));
  assert_string_equal(text, twice);
  assert_string_equal(again.name, m->name);
  assert_string_equal(again.source, m->source);
  assert_int_equal(again.cpu.cores, m->cpu.cores);
  assert_near(again.cpu.process, m->cpu.process, 1e-8 * m->cpu.process);
  assert_near(again.cpu.peak.fp32 / m->cpu.peak.fp32, 1, 1e-8);
  assert_near(again.network.shape[2], m->network.shape[2], 0);
  assert_int_equal(again.network.topology, m->network.topology);
  free(text), free(twice);
}

static void written_and_read_again(void **state) {
  (void)state;
  sl__machine_description m;
  char *text;
  assert_ok(parse(whole, &m));
  assert_round_trip(&m);
  assert_ok(sl__machine_to_yaml(&m, &text));
  assert_non_null(strstr(text, "\n  peers:\n    gigabytes_per_s: 100\n    latency_us: 7\n  watts: 300\n"));
  assert_non_null(strstr(text, "\n  routers_per_group: 6\n  nodes_per_router: 7\nprice:\n  node_hour: 2.5\n"));
  free(text);
  assert_ok(sl__network_to_yaml(&m.network, &text));
  assert_ptr_equal(strstr(text, "network:\n  latency_us: 2\n"), text);
  free(text);
  assert_ok(parse(with(whole, DRAGONFLY, "torus\n  extents: [4, 8]"), &m));
  assert_round_trip(&m);
  assert_ok(parse(with(whole, "fp32: 50", "fp32: 33.333333333333"), &m));
  assert_round_trip(&m);
  assert_ok(parse(with(whole, "a test", "\"two\\nlines: # \\u00e4\""), &m));
  assert_round_trip(&m);
}

static void shipped(void **state) {
  sl__machine_description m;
  assert_true(sl__machines() >= 8);
  for (int i = 0; i < sl__machines(); i++) {
    size_t n;
    assert_ok(sl__machine_describe(sl__machine_name(i), &m));
    assert_string_equal(m.name, sl__machine_name(i)); /* the name in the file is the file's */
    assert_true(strlen(m.source) > 40);
    assert_round_trip(&m);
    const char *text = sl__machine_text(i, &n), *path = scratch_path(*state, "copy.yaml");
    scratch_write(path, text, n);
    sl__machine_description copy;
    assert_ok(sl__machine_describe(path, &copy));
    assert_memory_equal(&copy, &m, sizeof m);
  }
  assert_fails(SL_EINVAL, "did you mean 'dgx-a100'?", sl__machine_describe("dgx-a10", &m));
  assert_fails(SL_EINVAL, "'starling info --machines' lists them", sl__machine_describe("/nonexistent/x", &m));
  assert_ok(sl__machine_describe("dgx-a100", &m));
  assert_int_equal(m.gpu.count, 8);
}

static void predictions(void **state) {
  (void)state;
  sl__machine_description m;
  assert_ok(parse(whole, &m));
  const sl_machine p = sl__machine_of(&m, 6, 2);
  assert_int_equal(p.kind[SL_KIND_CPU].workers, 6);
  assert_int_equal(p.kind[SL_KIND_GPU].workers, 2);
  assert_near(p.kind[SL_KIND_CPU].flops, 2.5e10, 1);
  assert_near(p.kind[SL_KIND_CPU].bytes, 2e10, 1); /* three domains of 40 GB/s for six workers */
  assert_near(p.kind[SL_KIND_CPU].overhead, 3e-6, 1e-18);
  assert_near(p.kind[SL_KIND_GPU].flops, 2e12, 1);
  assert_near(p.kind[SL_KIND_GPU].bytes, 8e11, 1);
  assert_near(p.kind[SL_KIND_GPU].overhead, 9e-6, 1e-18);
  assert_near(p.link, 2e10, 1);
  assert_near(p.latency, 1.1e-5, 1e-17);
  assert_near(p.peer, 1e11, 1);
  assert_near(p.peer_latency, 7e-6, 1e-18);
  assert_near(p.exchange, 6e9, 1);
  m.network.per_rank = 0;
  assert_near(sl__machine_of(&m, 6, 2).exchange, 8e9, 1); /* inside a node */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_and_units),
      cmocka_unit_test(topologies),
      cmocka_unit_test(parts_left_out),
      cmocka_unit_test(wrong_entries),
      cmocka_unit_test(written_and_read_again),
      cmocka_unit_test_setup_teardown(shipped, scratch_setup, scratch_teardown),
      cmocka_unit_test(predictions),
  };
  return cmocka_run_group_tests_name("tools/machines/description", tests, NULL, NULL);
}
