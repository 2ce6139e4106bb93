/* Spreading: rewrites the logical graph of the whole batch into the step graph, whose nodes are tasks.
 *
 * A value of SAMPLE scope becomes a piece for each shard, a value of LEAF scope a piece for each leaf. A node
 * becomes a task for each piece of the argument that has the most pieces. An output that is coarser than its node is a
 * sum: the shards of a leaf add to it in order (the first overwrites), and the leaves' sums are added by one binary
 * tree over leaf numbers, split at the largest power of two below their number. Large weights become row blocks, each
 * with its own chain of additions.
 *
 * A node gathers (operation.h) if its inputs have less than half the bytes of its sum and no later node adds to that
 * sum. It then has no sum per leaf: its tasks add to the whole sum, shard by shard over the whole batch.
 *
 * On several ranks each rank computes some of the leaves: its step graph has only their pieces and adds up the subtrees
 * that lie within them. The placements (placement.h) list the transfers between ranks; each becomes part of an
 * exchange node (exchange_node.h). Ranks that divide the samples have the same exchange nodes, in the same order; ranks
 * that share samples have those that they take part in, and both ends of a message declare it in the same order. */
#ifndef SL_SPREAD_H
#define SL_SPREAD_H

#include "runtime/exchange/leaves.h"
#include "runtime/exchange/move.h"
#include "tasks/graph/graph.h"
#include "tasks/graph/plan.h"
#include "tasks/spread/placement.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rank r of `ranks` computes leaves [first[r], first[r + 1]) of the plan; `rank` is this process. With several model
 * ranks (placement.h), process r * model_ranks + m has leaves of rank r and is model rank m. */
typedef struct sl_division {
  int rank, ranks;
  const int *first;            /* [ranks + 1] */
  int model_rank, model_ranks; /* model_ranks 0 or 1: one */
  int tensor;                  /* ranks of a stage, which divide the folds of a layer; 0 or 1: one */
  sl_pipeline pipe;            /* as in the placements */
} sl_division;

/* logical: a complete graph with graph->batch == plan->batch. division NULL: this process computes all leaves.
 * placements: of this graph on the same number of ranks; NULL: every rank updates all parameters. The caller destroys
 * *step. */
sl_status sl_spread(const sl_graph *logical, const sl_plan *plan, const sl_division *division,
                    const sl_placements *placements, sl_graph **step);
/* The piece (row block 0) of the step graph that holds a logical value of WHOLE scope; SL_NONE when there is none. */
sl_value sl_spread_whole(const sl_graph *step, sl_value logical);
/* An exchange node of a step graph. */
typedef struct sl_step_exchange {
  int node; /* its index in the graph */
  sl_exchange_move move;
  double bytes;    /* of the node's inputs that move */
  int slot, place; /* as in sl__exchange_attr (exchange_node.h) */
} sl_step_exchange;
/* Lists the exchange nodes of a step graph in the order in which this rank declares them to the exchange; list has room
 * for step->n_nodes. Returns their number. division: as given to sl_spread. */
int sl_spread_exchanges(const sl_graph *step, const sl_division *division, sl_step_exchange *list);
/* The number of row blocks that each value is cut into: 1, or plan->row_blocks. blocks has room for logical->n_values.
 */
sl_status sl_row_blocks(const sl_graph *logical, const sl_plan *plan, int *blocks);

#ifdef __cplusplus
}
#endif
#endif
