/* Shared by the files of tasks/spread: the state of the pass as it walks the logical graph, and the functions of each
 * file. Private to tasks/spread. */
#ifndef SL_SPREAD_PARTS_H
#define SL_SPREAD_PARTS_H

#include "tasks/spread/exchange_node.h"
#include "tasks/spread/spread.h"
#include "tasks/spread/timetable.h"

/* The sums that the next exchange node completes. item[i * subtrees + k] holds value i, summed over subtree k of my
 * leaves; the whole sum replaces item[i * subtrees]. */
typedef struct sl__sum_bucket {
  sl_placement to; /* REPLICATED: all ranks get the sums; OWNED: one does */
  int lossy;       /* the messages may be compressed */
  sl_value *item;
  int n, most; /* values; room */
  size_t bytes;
  const char *name; /* layer of the first value */
  sl_phase phase;
} sl__sum_bucket;

typedef struct sl__spread {
  const sl_graph *from; /* the logical graph */
  sl_graph *to;         /* the step graph */
  const sl_plan *plan;
  const sl_placements *placements;
  const sl_division *division; /* NULL: one rank divides the leaves */
  sl__timetable *passes;       /* of the pipeline; NULL: one model rank */
  int rank;                    /* among the ranks that divide the leaves */
  int model_rank, model_ranks; /* placement.h; 0 and 1 if there is one */
  int tensor;                  /* ranks of a stage, which divide the folds of a layer; 1: one */
  sl_leaves mine;              /* leaves of this rank */
  int per_leaf;                /* shards */
  int *blocks;                 /* [logical values] row blocks */
  sl_value **piece;            /* [logical values] its pieces: [my shards], [my leaves], or [my leaves or 1][blocks] */
  sl_value **copy;             /* [logical values] a gathered value: [all shards]; NULL: not gathered */
  char *partial;               /* [logical values] 1: a sum over leaves, with a piece for each leaf */
  sl_leaves subtree[SL_MAX_SUBTREES]; /* largest subtrees within my leaves */
  int subtrees;
  int at;                /* the current logical node; n_nodes: the end of the step */
  int due;               /* the first transfer due at that node or later */
  sl__sum_bucket bucket; /* the bucket that is being filled */
  char *waiting;         /* [logical values] 1: in the bucket */
  int exchanges;         /* number of exchange nodes so far */
  char *released;        /* [transfers] 1: an exchange node already carries out this WAIT */
  char *fetches;         /* [logical nodes] 1: some of the node's inputs are fetched (ZeRO 3) */
  sl_value gate;         /* the piece that must be written before the next fetch begins; SL_NONE: no such piece */
} sl__spread;

/* Whether this rank takes part in a transfer. */
static inline int sl__concerns(const sl__spread *s, const sl_transfer *t) {
  if (t->kind != SL_TRANSFER_SEND) return sl_rank_set_has(t->members, s->model_rank);
  return (t->sender == s->model_rank || t->receiver == s->model_rank) && !sl_placement_elsewhere(t->have, s->rank);
}

/* The next transfer of this kind that is due in front of node s->at and concerns this rank; NULL: none is left. *next
 * holds the position in the list and starts at s->due. */
static inline const sl_transfer *sl__next_due(const sl__spread *s, sl_transfer_kind kind, int *next) {
  const sl_placements *p = s->placements;
  for (; *next < p->n_transfers && p->transfer[*next].before == s->at; (*next)++)
    if (p->transfer[*next].kind == kind && sl__concerns(s, &p->transfer[*next])) return &p->transfer[(*next)++];
  return NULL;
}

/* pieces.c: logical values become pieces. */
sl_value_info sl__shard_piece(const sl__spread *s, sl_value v, int shard); /* describes a piece; does not add it */
sl_status sl__make_pieces(sl__spread *s, sl_value v);
sl_value sl__piece_of_leaf(const sl__spread *s, sl_value v, int leaf, int block); /* a piece of a sum */

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

/* copies.c: copies from one rank to all. */
sl_status sl__copy_inputs(sl__spread *s);     /* that are due in front of the current node */
void sl__open_gate(sl__spread *s, int index); /* after a node's tasks: the fetch after the next waits for the first */
sl_status sl__copy_parameters(sl__spread *s); /* at the end of the step */
sl_status sl__add_copy(sl__spread *s, const char *name, sl_phase phase, int rank, const sl_value *pieces, int n);

/* waits.c: no owner overwrites a parameter before all ranks have read it. */
int sl__waits_room(const sl__spread *s);             /* most pieces that sl__take_waits may return */
int sl__take_waits(sl__spread *s, sl_value *pieces); /* waits that the next exchange node makes; returns their number */
sl_status sl__add_wait_node(sl__spread *s);          /* an exchange node for the waits that are left, if any */

/* sends.c: messages between model ranks. A task that cuts or joins a message has this turn until sl__take_turns gives
 * it the turn of its first reader. */
enum { SL__BY_READER = -1 };
sl_status sl__send_values(sl__spread *s); /* that are due in front of the current node */

/* turns.c: micro-batches, and passes of a pipeline. */
sl_status sl__take_turns(sl__spread *s);

#endif
