/* Times and processor times of exchanges, by the algorithm of runtime/exchange/tree.c: the ranks of a node add up
 * through its memory; one rank of each node exchanges with one rank of each other node, by reduce-scatter and
 * allgather, each message directly. A long copy from one rank, or a long sum to one rank, is relayed (move.h). */
#include <math.h>

#include "runtime/simulated/simulation.h"

static const double MESSAGE = 1e-6; /* seconds that each of several messages of a rank takes beside its bytes */

/* Every node sends `bytes` in all, in equal messages to the other nodes. */
static double all_to_all(const sl_interconnect *j, double bytes) {
  return j->latency + (j->nodes - 1) * MESSAGE + bytes * j->congestion / j->network;
}

/* One node sends `bytes` to each of `to` other nodes. */
static double from_one(const sl_interconnect *j, double bytes, int to) {
  return j->latency + to * MESSAGE + to * bytes / j->network;
}

/* One node sends `bytes` to all others, or receives a sum of this size. If the move is relayed, that node sends or
 * receives one part for each node, and all nodes exchange their parts. */
static double one_and_all(const sl_interconnect *j, double bytes) {
  const double others = (double)(j->nodes - 1) / j->nodes;
  if (j->nodes <= 2 || bytes < SL_EXCHANGE_RELAYED_BYTES) return from_one(j, bytes, j->nodes - 1);
  return from_one(j, bytes / j->nodes, j->nodes - 1) + all_to_all(j, bytes * others);
}

double sl_interconnect_seconds(const sl_interconnect *j, const sl_exchange_move *move, double bytes) {
  const int nodes = j->nodes, local = j->ranks / nodes;
  const double others = (double)(nodes - 1) / nodes; /* share of a node's bytes that belong to other nodes */
  double seconds = 0;
  if (move->kind == SL_EXCHANGE_SEND || move->kind == SL_EXCHANGE_RECEIVE)
    return nodes > 1 ? from_one(j, bytes, 1) : j->shared_latency + bytes / j->shared;
  if (local > 1) seconds += j->shared_latency;
  switch (move->kind) {
    case SL_EXCHANGE_SUM:
      /* Each rank reads its part of the other ranks' items and writes its part of the sum into them. */
      if (local > 1) seconds += bytes / j->shared * 2 * (local - 1) / local;
      if (nodes > 1 && move->rank >= 0) seconds += one_and_all(j, bytes);
      if (nodes > 1 && move->rank < 0)
        seconds += all_to_all(j, bytes * others) * (move->rank == SL_EXCHANGE_ALL ? 2 : 1);
      break;
    case SL_EXCHANGE_COPY:
      if (nodes > 1) seconds += one_and_all(j, bytes);
      if (local > 1) seconds += bytes / j->shared;
      break;
    case SL_EXCHANGE_GATHER:
    case SL_EXCHANGE_SCATTER:
      if (nodes > 1)
        seconds +=
            move->rank == SL_EXCHANGE_ALL ? all_to_all(j, bytes * others) : j->latency + bytes * others / j->network;
      if (local > 1) seconds += bytes / j->shared;
      break;
    default:
      break;
  }
  return seconds;
}

double sl_interconnect_work(const sl_interconnect *j, const sl_exchange_move *move, double bytes) {
  const int nodes = j->nodes, local = j->ranks / nodes;
  const double others = (double)(nodes - 1) / nodes;
  const int sums = move->kind == SL_EXCHANGE_SUM;
  if (move->kind == SL_EXCHANGE_SEND || move->kind == SL_EXCHANGE_RECEIVE)
    return bytes * (nodes > 1 ? j->network_work : j->work);
  const double sent = bytes * others * (sums && move->rank == SL_EXCHANGE_ALL ? 2 : 1);
  return (local > 1 ? bytes * j->work * (sums ? 2.0 * (local - 1) / local : 1) : 0) + sent * j->network_work / local;
}
