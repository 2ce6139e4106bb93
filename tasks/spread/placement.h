/* Where values lie when several ranks compute a step, and what must move between the ranks.
 *
 * Every value of a logical graph has a placement, and so has every node: the ranks that compute it. One rule table says
 * which placements a node needs its inputs to have and gives its outputs (place.c). sl_placements_create walks the
 * graph, compares the placement of each input with the one that its reader needs, and records a transfer where they
 * differ. One transition table (placement.c) says how each transfer is made. sl_spread turns transfers into exchange
 * nodes.
 *
 * So plain data parallelism, ZeRO stage 1, sums that are gathered and copies of norms are rows of two tables. */
#ifndef SL_PLACEMENT_H
#define SL_PLACEMENT_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_place_kind {
  SL_PLACE_BY_SAMPLE,  /* each rank has the samples, or the leaves, that it computes */
  SL_PLACE_BY_ROWS,    /* each rank has a run of rows (dimension 0); no operation has a rule for it yet */
  SL_PLACE_BY_COLUMNS, /* each rank has a run of columns (the last dimension); no operation has a rule for it yet */
  SL_PLACE_REPLICATED, /* every rank has all of it, with the same bits */
  SL_PLACE_OWNED,      /* one rank has it */
  SL_PLACE_PARTIAL,    /* each rank has the sum over its own leaves; the value is the sum over the ranks */
  SL_PLACE_KINDS
} sl_place_kind;

typedef struct sl_placement {
  sl_place_kind kind;
  int rank; /* OWNED: the rank that has it; else -1 */
} sl_placement;

typedef enum sl_transfer_kind {
  SL_TRANSFER_NONE,   /* nothing moves */
  SL_TRANSFER_SUM,    /* the ranks' partial sums are added, for all ranks or for one */
  SL_TRANSFER_COPY,   /* the owner's value is copied to all ranks */
  SL_TRANSFER_GATHER, /* each rank's samples are copied to all ranks */
  SL_TRANSFER_WAIT    /* no data moves: the owner waits until all ranks have read the value */
} sl_transfer_kind;

/* What the reader does with a value: a mask. */
enum { SL_PLACE_READS = 1, SL_PLACE_OVERWRITES = 2 };

/* A row of the transition table: how a value that lies in one way is brought to a reader that needs it in another. */
typedef struct sl_transition {
  sl_place_kind have, need;
  unsigned access; /* the row is for readers with one of these bits */
  sl_transfer_kind kind;
  sl_place_kind after; /* how the value lies then; OWNED: by the rank that needs it, or that had it */
} sl_transition;

/* One value that changes its placement. */
typedef struct sl_transfer {
  sl_transfer_kind kind;
  sl_value value; /* of the logical graph */
  sl_placement have, need;
  int before; /* the logical node in front of which it is due; n_nodes: at the end of the step */
  int since;  /* WAIT: it may be made in front of this node already, since no later one reads the value before `before`
               */
  int lossy;  /* SUM: a gradient that only the update phase reads, so it may be compressed */
} sl_transfer;

typedef struct sl_placements {
  int ranks;
  sl_placement *made;  /* [logical values] as the node that writes it last leaves it; as `value` where none does */
  sl_placement *value; /* [logical values] once it is complete; parameters and state: between two steps */
  sl_placement *node;  /* [logical nodes] the ranks that compute it */
  char *gathers;       /* [logical nodes] 1: adds the samples of all ranks to one whole sum (spread.h) */
  sl_value *owned; /* [n_owned] parameters that one rank updates, in the order in which their gradients are complete */
  int n_owned;
  sl_transfer *transfer; /* [n_transfers] by `before` */
  int n_transfers;
} sl_placements;

/* The placements of a complete logical graph on `ranks` ranks; the same on every rank. zero: 0: every rank updates all
 * parameters; 1: each parameter and its optimizer state are updated by one rank (ZeRO stage 1, owners.h). SL_EINVAL: a
 * node needs a placement that no row of the transition table leads to; the text names layer, value and both placements.
 * SL_ENOMEM. */
sl_status sl_placements_create(const sl_graph *logical, int ranks, int zero, sl_placements **placements);
void sl_placements_destroy(sl_placements *placements); /* NULL is allowed */

/* The row that leads from `have` to `need`; for equal placements one that moves nothing; NULL: there is none. */
const sl_transition *sl_transition_find(sl_placement have, sl_placement need, unsigned access);
int sl_placement_equal(sl_placement a, sl_placement b);
int sl_placement_elsewhere(sl_placement placement, int rank); /* whether another rank owns it */
/* "by sample", "replicated", "owned by rank 2"; returns text. */
enum { SL_PLACEMENT_TEXT = 32 };
const char *sl_placement_text(sl_placement placement, char *text);
const char *sl_transfer_name(sl_transfer_kind kind); /* "sum" */

#ifdef __cplusplus
}
#endif
#endif
