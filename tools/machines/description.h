/* The description of a machine, read from a file (docs/reference/machines.md), for simulations and predictions. All
 * nodes of a machine are alike. */
#ifndef SL_TOOLS_MACHINES_DESCRIPTION_H
#define SL_TOOLS_MACHINES_DESCRIPTION_H

#include <stddef.h>

#include "runtime/base/status.h"
#include "tasks/schedule/machine.h"

/* Peaks in FLOP/s of one core or one GPU; 0: the processor does not have this precision. */
typedef struct sl__peaks {
  double fp32, tf32, bf16;
} sl__peaks;

typedef struct sl__cpu_description {
  int cores, numa_domains; /* of a node */
  sl__peaks peak;          /* of one core, while all compute */
  double efficiency;       /* share of the peak that large products reach, 0 to 1 */
  double memory;           /* bytes of a node */
  double bandwidth;        /* bytes/s of a NUMA domain's memory */
  double overhead;         /* seconds that a task costs besides its kernel */
  double process;          /* bytes of a rank's process before it has a program; 0: unknown */
  double watts, idle;      /* of a node without its GPUs: all cores busy, none busy; 0: unknown */
} sl__cpu_description;

typedef struct sl__gpu_description {
  int count; /* of a node; 0: none, and the rest is 0 */
  sl__peaks peak;
  double efficiency;
  double memory, bandwidth;       /* of one GPU: bytes, bytes/s */
  double overhead;                /* seconds a task */
  double link, link_latency;      /* to the host, each way: bytes/s, seconds */
  double peer_link, peer_latency; /* between two GPUs of a node; 0: they copy over the host */
  double watts, idle;             /* of one GPU; 0: unknown */
} sl__gpu_description;

typedef enum sl__topology { SL__STAR, SL__FAT_TREE, SL__DRAGONFLY, SL__TORUS } sl__topology;

typedef struct sl__network_description {
  double latency;  /* seconds of a short message between two nodes */
  double per_rank; /* bytes/s that one rank can send, and receive */
  double per_node; /* bytes/s of a node's adapters together, each way */
  double shared;   /* bytes/s at which two ranks of a node exchange through its memory; 0: unknown */
  double shared_latency;
  /* Bytes for each second of a core that exchanges take from tasks; 0: unknown. */
  double cpu;        /* that a node sends to others */
  double shared_cpu; /* that two ranks of a node sum */
  sl__topology topology;
  /* Fat tree: nodes a leaf switch, oversubscription of its uplinks (1: none). Torus: extents. Dragonfly: groups,
   * routers a group, nodes a router. Unused ones are 0. */
  double shape[3];
} sl__network_description;

typedef struct sl__machine_description {
  char name[64];
  char source[1024]; /* where the figures come from */
  char times[1024];  /* file with measured times of tasks; "": none */
  sl__cpu_description cpu;
  sl__gpu_description gpu;
  sl__network_description network; /* latency 0: the machine is a single node */
  double price;                    /* of a node and hour; 0: unknown */
  char currency[8];
} sl__machine_description;

/* Reads the machine of this name that comes with Starling or, if there is none, the file of this name. SL_EINVAL names
 * line, key and remedy. */
sl_status sl__machine_describe(const char *name, sl__machine_description *machine);
/* The same from the n bytes of a file; `name` begins the messages. */
sl_status sl__machine_parse(const char *name, const char *text, size_t n, sl__machine_description *machine);
/* Changes keys: "KEY=VALUE,KEY=FACTORx". A value counts in the key's unit (network.latency_us=2); a key without its
 * unit takes bytes, bytes/s or seconds (gpu.memory=80e9), and network.bandwidth sets the bandwidth of a rank and that
 * of a node. SL_EINVAL: no such key (the message lists them), a value out of the key's range, keys that no longer fit
 * together. */
sl_status sl__machine_change(sl__machine_description *machine, const char *changes);
/* Writes a description as YAML, which sl__machine_parse reads: nine digits of each number. The caller must free(*text).
 */
sl_status sl__machine_to_yaml(const sl__machine_description *machine, char **text);
/* The network alone, as its section of such a file. */
sl_status sl__network_to_yaml(const sl__network_description *network, char **text);

/* Number of machines that come with Starling, and the name of the i-th. */
int sl__machines(void);
const char *sl__machine_name(int i);
/* The file of the i-th, of *n bytes. */
const char *sl__machine_text(int i, size_t *n);

/* The machine of predicted schedules: one node with this many of its cores as workers and of its GPUs. */
sl_machine sl__machine_of(const sl__machine_description *machine, int workers, int gpus);

#endif
