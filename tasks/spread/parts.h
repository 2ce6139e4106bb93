/* What the files of the spreading share: its state while the logical graph is walked, and what each file does. Private
 * to tasks/spread. */
#ifndef SL_SPREAD_PARTS_H
#define SL_SPREAD_PARTS_H

#include "tasks/spread/exchange_node.h"
#include "tasks/spread/spread.h"

/* Sums that one exchange node will complete. item[i * subtrees + k] holds value i, summed over subtree k of my leaves;
 * the whole sum replaces item[i * subtrees]. */
typedef struct sl__sum_bucket {
  sl_placement to; /* REPLICATED: all ranks get the sums; OWNED: one does */
  int lossy;       /* the messages may be compressed */
  sl_value *item;
  int n, most; /* values; room */
  size_t bytes;
  const char *name; /* of the layer that the first value comes from */
  sl_phase phase;
} sl__sum_bucket;

typedef struct sl__spread {
  const sl_graph *from; /* the logical graph */
  sl_graph *to;         /* the step graph */
  const sl_plan *plan;
  const sl_placements *placements;
  const sl_division *division; /* NULL: one rank */
  int rank;
  sl_leaves mine;   /* leaves of this rank */
  int per_leaf;     /* shards */
  int *blocks;      /* [logical values] row blocks */
  sl_value **piece; /* [logical values] its pieces: [my shards], [my leaves], or [my leaves or 1][blocks] */
  sl_value **copy;  /* [logical values] a gathered value: [all shards]; NULL: not gathered */
  char *partial;    /* [logical values] a sum over leaves: it has a piece for each */
  sl_leaves subtree[SL_MAX_SUBTREES]; /* the largest subtrees that my leaves contain */
  int subtrees;
  int at;                /* the logical node that is spread now; n_nodes: the end of the step */
  int due;               /* the first transfer that is due there or later */
  sl__sum_bucket bucket; /* the one that is being filled */
  char *waiting;         /* [logical values] in it */
  int exchanges;         /* nodes so far */
  char *released;        /* [transfers] a WAIT that an exchange node already makes */
} sl__spread;

/* The next transfer of that kind in front of node s->at, from *next on; NULL: there is no more. *next starts at s->due.
 */
static inline const sl_transfer *sl__next_due(const sl__spread *s, sl_transfer_kind kind, int *next) {
  const sl_placements *p = s->placements;
  for (; *next < p->n_transfers && p->transfer[*next].before == s->at; (*next)++)
    if (p->transfer[*next].kind == kind) return &p->transfer[(*next)++];
  return NULL;
}

/* pieces.c: logical values become pieces. */
sl_value_info sl__shard_piece(const sl__spread *s, sl_value v, int shard); /* described, not added */
sl_status sl__make_pieces(sl__spread *s, sl_value v);
sl_value sl__piece_of_leaf(const sl__spread *s, sl_value v, int leaf, int block); /* of a sum */

/* node_tasks.c: logical nodes become tasks. */
sl_status sl__add_tasks(sl__spread *s, int index);           /* all tasks of a node that does not gather */
sl_status sl__add_gathering_tasks(sl__spread *s, int index); /* a task for each shard of the batch */

/* tree_sums.c: sums over the leaves of this rank. */
sl_status sl__add_tree_sums(sl__spread *s, int index, sl_value v);

/* buckets.c: sums over the ranks. */
sl_status sl__complete_sums(sl__spread *s); /* the sums that are due */
sl_status sl__close_bucket(sl__spread *s);

/* gathered.c: samples of all ranks for a node that gathers. */
sl_status sl__gather_inputs(sl__spread *s);

/* copies.c: values that one rank has. */
sl_status sl__copy_inputs(sl__spread *s);     /* for the node under way */
sl_status sl__copy_parameters(sl__spread *s); /* at the end of the step */
sl_status sl__add_copy(sl__spread *s, const char *name, sl_phase phase, int rank, const sl_value *pieces, int n);

/* waits.c: no owner overwrites a parameter before all ranks have read it. */
int sl__waits_room(const sl__spread *s);             /* pieces that sl__take_waits may give */
int sl__take_waits(sl__spread *s, sl_value *pieces); /* those that an exchange node added now makes; how many */
sl_status sl__add_wait_node(sl__spread *s);          /* an exchange node for those that are left, if any */

/* turns.c: micro-batches. */
sl_status sl__take_turns(sl_graph *step, const sl_plan *plan, sl_leaves mine);

#endif
