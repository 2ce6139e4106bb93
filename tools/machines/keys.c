/* The table of keys: where each value goes, its unit and its range, and the words of messages about it. */
#include "tools/machines/keys.h"

#include <stddef.h>

const char *const sl__topology_names[] = {"star", "fat-tree", "dragonfly", "torus", NULL};

#define FIELD(field) \
  .offset = offsetof(sl__machine_description, field), .size = sizeof((sl__machine_description *)0)->field
/* Ranges keep out slips of units (bytes for gigabytes), not machines that may be built. */
#define GFLOPS .kind = SL__KEY_REAL, .unit = 1e9, .least = 1e-3, .most = 1e9
#define GIGABYTES .kind = SL__KEY_REAL, .unit = 1e9, .least = 1e-3, .most = 1e6
#define MEGABYTES .kind = SL__KEY_REAL, .unit = 1e6, .least = 1e-1, .most = 1e6
#define RATE .kind = SL__KEY_REAL, .unit = 1e9, .least = 1e-6, .most = 1e6
#define MICROSECONDS .kind = SL__KEY_REAL, .unit = 1e-6, .least = 1e-3, .most = 1e7
#define SHARE .kind = SL__KEY_REAL, .unit = 1, .least = 0.001, .most = 1
#define WATTS .kind = SL__KEY_REAL, .unit = 1, .least = 0.1, .most = 1e6
#define COUNT .kind = SL__KEY_COUNT, .unit = 1, .least = 1
#define WHOLE .kind = SL__KEY_WHOLE, .unit = 1, .least = 1, .most = 65536
#define KEY(path_, section_, set_, example_, meaning_) \
  .path = path_, .section = section_, .set = SL__SET_##set_, .example = example_, .meaning = meaning_

const sl__machine_key sl__machine_keys[] = {
    {KEY("name", "", SECTION, "my-cluster", "the machine's name: letters, digits and . - _ +"), FIELD(name),
     .kind = SL__KEY_NAME},
    {KEY("source", "", SECTION, "the vendor's data sheet", "where the figures come from"), FIELD(source),
     .kind = SL__KEY_TEXT},

    {KEY("times", "", NONE, "node7-times.json",
         "file with measured times of tasks, as calibrate keeps them; a relative path begins at the description"),
     FIELD(times), .kind = SL__KEY_TEXT},

    {KEY("cpu.cores", "", SECTION, "64", "cores of a node"), FIELD(cpu.cores), COUNT, .most = 65536},
    {KEY("cpu.numa_domains", "", SECTION, "2", "NUMA domains of a node"), FIELD(cpu.numa_domains), COUNT, .most = 1024},
    {KEY("cpu.gflops.fp32", "", SECTION, "80", "peak of one core in fp32, in GFLOP/s"), FIELD(cpu.peak.fp32), GFLOPS},
    {KEY("cpu.gflops.bf16", "", NONE, "160", "peak of one core in bf16, in GFLOP/s"), FIELD(cpu.peak.bf16), GFLOPS},
    {KEY("cpu.efficiency", "", SECTION, "0.85", "share of the peak that large products reach"), FIELD(cpu.efficiency),
     SHARE},
    {KEY("cpu.memory_gigabytes", "", SECTION, "256", "memory of a node"), FIELD(cpu.memory), GIGABYTES},
    {KEY("cpu.gigabytes_per_s", "", SECTION, "150", "bandwidth of one NUMA domain's memory"), FIELD(cpu.bandwidth),
     RATE},
    {KEY("cpu.overhead_us", "", SECTION, "3", "time that a task costs beside its kernel"), FIELD(cpu.overhead),
     MICROSECONDS},
    {KEY("cpu.process_megabytes", "", NONE, "45",
         "memory of a rank's process before it has a program: code, libraries, MPI, StarPU"),
     FIELD(cpu.process), MEGABYTES},
    {KEY("cpu.watts", "", NONE, "600", "power of a node without its GPUs, all cores busy"), FIELD(cpu.watts), WATTS},
    {KEY("cpu.idle_watts", "", NONE, "200", "power of a node without its GPUs, no core busy"), FIELD(cpu.idle), WATTS},

    {KEY("gpu.count", "gpu", SECTION, "8", "GPUs of a node"), FIELD(gpu.count), COUNT, .most = 1024},
    {KEY("gpu.gflops.fp32", "gpu", SECTION, "19500", "peak of one GPU in fp32, in GFLOP/s"), FIELD(gpu.peak.fp32),
     GFLOPS},
    {KEY("gpu.gflops.tf32", "gpu", NONE, "156000", "peak of one GPU in tf32, in GFLOP/s"), FIELD(gpu.peak.tf32),
     GFLOPS},
    {KEY("gpu.gflops.bf16", "gpu", NONE, "312000", "peak of one GPU in bf16, in GFLOP/s"), FIELD(gpu.peak.bf16),
     GFLOPS},
    {KEY("gpu.efficiency", "gpu", SECTION, "0.7", "share of the peak that large products reach"), FIELD(gpu.efficiency),
     SHARE},
    {KEY("gpu.memory_gigabytes", "gpu", SECTION, "80", "memory of one GPU"), FIELD(gpu.memory), GIGABYTES},
    {KEY("gpu.gigabytes_per_s", "gpu", SECTION, "2000", "bandwidth of one GPU's memory"), FIELD(gpu.bandwidth), RATE},
    {KEY("gpu.overhead_us", "gpu", SECTION, "8", "time that a task costs beside its kernel"), FIELD(gpu.overhead),
     MICROSECONDS},
    {KEY("gpu.link.gigabytes_per_s", "gpu", SECTION, "25", "bandwidth between the host and one GPU, each way"),
     FIELD(gpu.link), RATE},
    {KEY("gpu.link.latency_us", "gpu", SECTION, "10", "time that a transfer to or from a GPU takes beside its bytes"),
     FIELD(gpu.link_latency), MICROSECONDS},
    {KEY("gpu.peers.gigabytes_per_s", "gpu.peers", SECTION, "250", "bandwidth between two GPUs of a node, each way"),
     FIELD(gpu.peer_link), RATE},
    {KEY("gpu.peers.latency_us", "gpu.peers", SECTION, "10",
         "time that a transfer between two GPUs takes beside its "
         "bytes"),
     FIELD(gpu.peer_latency), MICROSECONDS},
    {KEY("gpu.watts", "gpu", NONE, "400", "power of one GPU, busy"), FIELD(gpu.watts), WATTS},
    {KEY("gpu.idle_watts", "gpu", NONE, "60", "power of one GPU, idle"), FIELD(gpu.idle), WATTS},

    {KEY("network.latency_us", "network", BETWEEN, "1.5", "time of a short message between two nodes"),
     FIELD(network.latency), MICROSECONDS},
    {KEY("network.gigabytes_per_s_per_rank", "network", BETWEEN, "12", "bandwidth of one rank, each way"),
     FIELD(network.per_rank), RATE},
    {KEY("network.gigabytes_per_s_per_node", "network", BETWEEN, "25", "bandwidth of a node's adapters, each way"),
     FIELD(network.per_node), RATE},
    {KEY("network.cpu_gigabytes_per_s", "network", NONE, "1",
         "bytes that a node sends, for each second of a core that this takes from tasks"),
     FIELD(network.cpu), RATE},
    {KEY("network.shared_memory.gigabytes_per_s", "network.shared_memory", SECTION, "8",
         "rate at which two ranks of a node exchange through its memory"),
     FIELD(network.shared), RATE},
    {KEY("network.shared_memory.latency_us", "network.shared_memory", SECTION, "1",
         "time of a short exchange inside a node"),
     FIELD(network.shared_latency), MICROSECONDS},
    {KEY("network.shared_memory.cpu_gigabytes_per_s", "network.shared_memory", NONE, "10",
         "bytes that two ranks of a node sum, for each second of a core that this takes from tasks"),
     FIELD(network.shared_cpu), RATE},
    {KEY("network.topology", "network", BETWEEN, "fat-tree", "star, fat-tree, dragonfly or torus"),
     FIELD(network.topology), .kind = SL__KEY_TOPOLOGY},
    {KEY("network.nodes_per_leaf", "network", FAT_TREE, "16", "nodes at one leaf switch"), FIELD(network.shape[0]),
     WHOLE},
    {KEY("network.oversubscription", "network", FAT_TREE, "1",
         "bandwidth of a leaf switch's nodes over that of its uplinks; 1: none is lost"),
     FIELD(network.shape[1]), .kind = SL__KEY_REAL, .unit = 1, .least = 1, .most = 1000},
    {KEY("network.groups", "network", DRAGONFLY, "32", "groups of routers"), FIELD(network.shape[0]), WHOLE},
    {KEY("network.routers_per_group", "network", DRAGONFLY, "16", "routers of a group"), FIELD(network.shape[1]),
     WHOLE},
    {KEY("network.nodes_per_router", "network", DRAGONFLY, "8", "nodes at one router"), FIELD(network.shape[2]), WHOLE},
    {KEY("network.extents", "network", TORUS, "[8, 8, 8]", "nodes along each of one to three dimensions"),
     FIELD(network.shape), .kind = SL__KEY_EXTENTS, .unit = 1, .least = 1, .most = 65536},

    {KEY("price.node_hour", "price", SECTION, "4.5", "price of one node per hour"), FIELD(price), .kind = SL__KEY_REAL,
     .unit = 1, .least = 1e-6, .most = 1e6},
    {KEY("price.currency", "price", SECTION, "USD", "currency of the price, at most 7 letters"), FIELD(currency),
     .kind = SL__KEY_NAME},
};
enum { KEYS = sizeof sl__machine_keys / sizeof *sl__machine_keys };
const int sl__machine_keys_count = KEYS;
_Static_assert((int)KEYS <= (int)SL__MACHINE_KEYS_MOST, "more keys than there is room for");
