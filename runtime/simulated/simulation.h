/* A simulated job: StarPU runs its schedulers on machines that SimGrid simulates. The process stands for rank 0 of a
 * job whose ranks are all alike; no kernel runs, and data have addresses but no memory. */
#ifndef SL_SIMULATION_H
#define SL_SIMULATION_H

#include "runtime/exchange/move.h"
#include "runtime/machine/runtime.h"

/* Ranks and what joins them. */
typedef struct sl_interconnect {
  int ranks, nodes;        /* the ranks are spread evenly over the nodes */
  double shared;           /* bytes/s at which two ranks of a node add up through its memory */
  double shared_latency;   /* seconds */
  double latency, network; /* between nodes: seconds; bytes/s of a node, each way */
  double congestion;       /* factor of the time that bytes take when all nodes send to all others; 1: none */
  double adapters; /* bytes/s of all adapters of a node together, each way: a node's exchanges at the same time share
                      them, and each exchange gets at most `network`. 0: as network */
  /* Processor seconds that exchanges take from a rank's tasks (tasks/schedule/contention.h); 0: none, or unknown. */
  double work;         /* inside a node, for each byte that two ranks sum */
  double network_work; /* between nodes, for each byte that a node sends */
} sl_interconnect;

typedef struct sl_simulation {
  const char *machine;    /* name */
  int cpus, threads;      /* CPU workers of a rank, cores of each */
  int gpus;               /* of a rank */
  double gpu_memory;      /* bytes of each */
  double link;            /* bytes/s between the host's memory and a GPU's */
  sl_interconnect joined; /* ranks 1: one rank */
} sl_simulation;

/* Names the simulation that the next sl_runtime_start starts; it is copied. */
void sl_simulation_set(const sl_simulation *simulation);
const sl_simulation *sl_simulation_current(void);

/* Predicted seconds of the exchange of a bucket that has `bytes` bytes on each rank. */
double sl_interconnect_seconds(const sl_interconnect *joined, const sl_exchange_move *move, double bytes);
/* Processor seconds of that exchange on each rank, if all ranks of a node have equal parts of its messages. */
double sl_interconnect_work(const sl_interconnect *joined, const sl_exchange_move *move, double bytes);

#endif
