/* Spreading: rewrites the logical graph of the whole batch into the step graph of tasks, as the plan says.
 *
 * A value of SAMPLE scope becomes a piece per shard, one of LEAF scope a piece per leaf. A node is repeated for each
 * piece of its finest argument. An output that is coarser than its node is a sum: the shards of a leaf add to it in
 * order (the first overwrites), and the leaves' sums are added by one binary tree over leaf numbers, split at the
 * largest power of two below their number. Large weights become row blocks, each with its own chain of additions.
 *
 * Where a node gathers (operation.h), the bytes of its inputs, twice, are less than those of its sum, and nothing adds
 * to that later, there is no sum per leaf: the node's tasks add to the whole sum, shard by shard over the whole batch.
 *
 * On several ranks each computes some of the leaves: its step graph has only their pieces, adds up the subtrees that
 * lie within them, and exchange nodes sum those over the ranks. Sums that become ready one after another share a node
 * (a bucket), until one is read or the bucket is full. Buckets are the same on all ranks, in the order of nodes. Of a
 * node that gathers, its inputs are copied to all ranks, and the sum is formed on each that wants it.
 *
 * With owners (owners.h) a gradient's sum goes to its owner, other ranks have neither the nodes nor the state of its
 * update, and further exchange nodes copy what owners alone have to all: the norms that clipping reads, and at the end
 * the parameters. So that ranks of a node can have those in common memory, no owner updates a parameter before all
 * ranks have read it for the last time: the exchanges of the backward pass see to that. */
#ifndef SL_SPREAD_H
#define SL_SPREAD_H

#include "runtime/exchange/leaves.h"
#include "tasks/graph/graph.h"
#include "tasks/graph/plan.h"
#include "tasks/spread/owners.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rank r of `ranks` computes leaves [first[r], first[r + 1]) of the plan's; this is `rank`. */
typedef struct sl_division {
  int rank, ranks;
  const int *first; /* [ranks + 1] */
} sl_division;

/* logical: a complete graph with graph->batch == plan->batch. division: NULL: all leaves are computed here. owners: of
 * this graph; NULL: every rank updates all. *step is the caller's to destroy. */
sl_status sl_spread(const sl_graph *logical, const sl_plan *plan, const sl_division *division, const sl_owners *owners,
                    sl_graph **step);
/* The piece (row block 0) of the step graph that holds a logical value of WHOLE scope; SL_NONE when there is none. */
sl_value sl_spread_whole(const sl_graph *step, sl_value logical);
/* Into how many row blocks a value is cut: 1, or plan->row_blocks. blocks has room for logical->n_values. */
sl_status sl_row_blocks(const sl_graph *logical, const sl_plan *plan, int *blocks);

#ifdef __cplusplus
}
#endif
#endif
