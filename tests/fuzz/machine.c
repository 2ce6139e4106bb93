/* Fuzz target: the reader of machines. What it accepts is written, and reads back the same; what it rejects is named
 * with its line. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/machines/description.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  sl__machine_description m, again;
  char *text, *twice;
  if (sl__machine_parse("a.yaml", (const char *)data, n, &m) != SL_OK) {
    if (!strstr(sl_error(), "a.yaml, line ")) abort();
    return -1;
  }
  if (sl__machine_to_yaml(&m, &text) != SL_OK) abort();
  if (sl__machine_parse("b.yaml", text, strlen(text), &again) != SL_OK) abort();
  if (sl__machine_to_yaml(&again, &twice) != SL_OK || strcmp(text, twice) != 0) abort();
  free(text), free(twice);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "name: a\nsource: b\ncpu: {cores: 4, numa_domains: 1, gflops: {fp32: 50, bf16: 100}, efficiency: 0.8, "
      "memory_gigabytes: 8, gigabytes_per_s: 20, overhead_us: 3, watts: 90, idle_watts: 9}\n"
      "gpu:\n  count: 2\n  gflops: {fp32: 9e3, tf32: 2e4, bf16: 4e4}\n  efficiency: 0.7\n  memory_gigabytes: 8\n"
      "  gigabytes_per_s: 500\n  overhead_us: 8\n  link: &l {gigabytes_per_s: 12, latency_us: 9}\n  peers: *l\n"
      "network: {latency_us: 2, gigabytes_per_s_per_rank: 3, gigabytes_per_s_per_node: 6, shared_memory: "
      "{gigabytes_per_s: 5, latency_us: 1}, topology: torus, extents: [4, 4, 2]}\n"
      "price: {node_hour: 1.5, currency: EUR}\n",
      "name: c\nsource: 'd: \"e\" # f'\ncpu: {cores: 4, numa_domains: 2, gflops: {fp32: 1e2}, efficiency: 1, "
      "memory_gigabytes: 8, gigabytes_per_s: 20, overhead_us: 0.333333333333}\nnetwork: {latency_us: 2, "
      "gigabytes_per_s_per_rank: 3, gigabytes_per_s_per_node: 3, topology: dragonfly, groups: 3, routers_per_group: 4, "
      "nodes_per_router: 5, shared_memory: {gigabytes_per_s: 5, latency_us: 1}}\n",
      "name: g\nsource: |\n  two\n  lines\ncpu: {cores: 1, numa_domains: 1, gflops: {fp32: 5}, efficiency: 0.5, "
      "memory_gigabytes: 1, gigabytes_per_s: 2, overhead_us: 1}\nnetwork: {latency_us: 2, gigabytes_per_s_per_rank: 3, "
      "gigabytes_per_s_per_node: 3, topology: fat-tree, nodes_per_leaf: 8, oversubscription: 1.5, shared_memory: "
      "{gigabytes_per_s: 5, latency_us: 1}}\n"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
