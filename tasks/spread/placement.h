/* Placements: which ranks hold which part of a value when several ranks compute a step; and the transfers between them.
 *
 * Every value of a logical graph has a placement, and so has every node: the ranks that compute it. One rule table
 * gives the placements that a node needs for its inputs and makes for its outputs (place.c). sl_placements_create walks
 * the graph, compares the placement of each input with the one that its reader needs, and records a transfer where they
 * differ. One transition table (placement.c) says how each transfer is made. sl_spread turns transfers into exchange
 * nodes.
 *
 * So plain data parallelism, ZeRO stages 1 to 3, gathered sums and copies of norms are rows of two tables.
 *
 * The ranks of a job are data x stages x tensor. Ranks that share the same samples divide the model; each of them is a
 * model rank, and tensor rank t of pipeline stage s has number s * tensor + t. The nodes themselves are divided among
 * the model ranks: a stage computes a run of layers, and each of its tensor ranks computes some folds (stages.h,
 * folds.h). A value is on the model ranks that have computed or received it; before a node of another model rank reads
 * the value, it is sent there. A placement describes the ranks with the same model rank, which divide the samples.
 *
 * The sum over folds is no special exchange: each tensor rank receives the partial sums that it lacks and adds them up.
 * For 2^k tensor ranks the tree needs only k exchanges of one value (recursive doubling). */
#ifndef SL_PLACEMENT_H
#define SL_PLACEMENT_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of model ranks: bit m is model rank m. */
__extension__ typedef unsigned __int128 sl_rank_set;
enum { SL_MAX_MODEL_RANKS = 128 };
/* Model ranks 0 to n - 1. */
static inline sl_rank_set sl_rank_set_of(int n) {
  return n < SL_MAX_MODEL_RANKS ? ((sl_rank_set)1 << n) - 1 : ~(sl_rank_set)0;
}
static inline int sl_rank_set_has(sl_rank_set set, int model_rank) { return (int)(set >> model_rank & 1); }

typedef enum sl_place_kind {
  SL_PLACE_BY_SAMPLE,  /* each rank holds the samples or leaves that it computes */
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
  SL_TRANSFER_WAIT,   /* no data moves: the owner waits until all ranks have read the value */
  SL_TRANSFER_SEND    /* one model rank sends the value to another one */
} sl_transfer_kind;

/* A reader's access to a value: a mask. */
enum { SL_PLACE_READS = 1, SL_PLACE_OVERWRITES = 2 };

/* A row of the transition table: the transfer that changes a value's placement to the one that a reader needs. */
typedef struct sl_transition {
  sl_place_kind have, need;
  unsigned access; /* the row applies to readers with one of these bits */
  sl_transfer_kind kind;
  sl_place_kind after; /* placement afterwards; OWNED: by the rank that needs it */
} sl_transition;

/* One value that changes its placement. */
typedef struct sl_transfer {
  sl_transfer_kind kind;
  sl_value value; /* of the logical graph */
  sl_placement have, need;
  int before; /* due in front of this logical node; n_nodes: at the end of the step */
  /* WAIT: the node after the value's last reader; any exchange from there on can serve as the wait. A fetched COPY: the
   * node that reads it. Others: `before`. */
  int since;
  int fetched; /* COPY: into buffers that last until the node's use ends (ZeRO 3); 0: it stays until the step's end */
  int lossy;   /* SUM: a gradient that only the update phase reads, so it may be compressed */
  sl_rank_set members;  /* the model ranks that take part; SEND: not used */
  int sender, receiver; /* SEND: model ranks */
  sl_phase phase;       /* SEND: of the node that has made it */
  int run;              /* SEND: the run of layers (stages.h) of the node that has made it; -1: none */
  int early;            /* SEND: 1: depends on no pass (inputs, parameters, lookups); sent before the first pass */
} sl_transfer;

typedef struct sl_placements {
  int ranks;
  sl_placement *made;  /* [logical values] placement right after its last writer; without one, the same as `value` */
  sl_placement *value; /* [logical values] the placement when complete; of parameters and state: between two steps */
  sl_placement *node;  /* [logical nodes] the ranks that compute it */
  char *gathers;       /* [logical nodes] 1: adds the samples of all ranks to one whole sum (spread.h) */
  sl_value *owned; /* [n_owned] parameters that one rank updates, in the order in which their gradients are complete */
  int n_owned;
  sl_transfer *transfer; /* [n_transfers] by `before` */
  int n_transfers;
  int tensor; /* ranks of a stage, which divide the folds of a layer; 1: one */
  /* All four are NULL if there is one model rank. */
  sl_rank_set *computes; /* [logical nodes] the model ranks that compute it */
  sl_rank_set *keeps;    /* [logical values] parameters and state: the model ranks that have it between two steps */
  int *run;              /* [logical nodes] the run of layers in whose passes it is computed (stages.h); -1: none */
  char *deferrable;      /* [logical nodes] 1: a backward node on which no other pass depends, so it can run later */
} sl_placements;

/* How the optimizer's state, gradients and parameters are divided among the ranks that divide the samples (ZeRO,
 * Rajbhandari et al. 2020). ZeRO stages 1 and 2 are the same here: in both, a gradient leaves its buffer as soon as it
 * has been sent to the rank that updates the parameter. */
enum {
  SL_ZERO_NONE = 0,      /* every rank updates all parameters */
  SL_ZERO_STATE = 1,     /* or 2: one rank updates each parameter and has its optimizer state (owners.h) */
  SL_ZERO_PARAMETERS = 3 /* that rank alone has the parameter; the others fetch it when they use it */
};
/* The order of a pipeline's passes (timetable.h). */
typedef enum sl_pipe_order {
  SL_PIPE_1F1B,
  SL_PIPE_GPIPE,
  SL_PIPE_ZERO_BUBBLE,
  SL_PIPE_EAGER_1F1B,
  SL_PIPE_ORDERS
} sl_pipe_order;
/* How a pipeline's layers are cut into runs, and the order of its passes. All zero: 1F1B, a run on each stage, cuts by
 * predicted time. */
typedef struct sl_pipeline {
  sl_pipe_order order;
  int chunks;       /* runs of layers that a stage has; 0 or 1: one */
  const char *cuts; /* the cuts by hand (stages.h); NULL: by predicted time */
} sl_pipeline;
/* Passes of a micro-batch through a run of layers: forward, backward and, by SL_PIPE_ZERO_BUBBLE, the gradients of
 * weights. */
static inline int sl_pipe_pass_kinds(sl_pipe_order order) { return order == SL_PIPE_ZERO_BUBBLE ? 3 : 2; }

typedef struct sl_placing {
  int ranks;            /* that divide the samples */
  int model_ranks;      /* that divide the model: stages of a pipeline times `tensor`; 0 or 1: one */
  int tensor;           /* ranks of a stage, which divide the folds of a layer; 0 or 1: one */
  sl_pipeline pipe;     /* its order is not used */
  const sl_value *keep; /* [n_keep] values that every model rank has at the end */
  int n_keep;
  int zero; /* ZeRO stage */
  /* If more than this many bytes are fetched between two uses of a fetched parameter, it is dropped after the first use
   * and fetched again for the second. 0: it stays until the end of the step. With several micro-batches it is 0,
   * because each micro-batch uses every parameter. */
  size_t window;
  const int *holder; /* [logical values] rank that has a parameter; -1: all. NULL: owners follow from `zero` alone */
} sl_placing;

enum { SL_FETCH_WINDOW = 8 << 20 };
/* The window of a plan. */
static inline size_t sl_fetch_window(int micro_batches) { return micro_batches == 1 ? SL_FETCH_WINDOW : 0; }

/* Finds the placements of a complete logical graph; the same on every rank. SL_EINVAL: no row of the transition table
 * leads to a placement that a node needs; the text names layer, value and both placements. SL_ENOMEM. */
sl_status sl_placements_create(const sl_graph *logical, const sl_placing *placing, sl_placements **placements);
void sl_placements_destroy(sl_placements *placements); /* NULL is allowed */

/* The row that leads from `have` to `need`; equal placements give a row that moves nothing. NULL: no such row. */
const sl_transition *sl_transition_find(sl_placement have, sl_placement need, unsigned access);
int sl_placement_equal(sl_placement a, sl_placement b);
int sl_placement_elsewhere(sl_placement placement, int rank); /* whether another rank owns it */
/* Whether a model rank is in the set of a node or a value. sets NULL: there is one model rank. */
int sl_placement_on(const sl_rank_set *sets, int index, int model_rank);
/* "by sample", "replicated", "owned by rank 2"; returns text. */
enum { SL_PLACEMENT_TEXT = 48 };
const char *sl_placement_text(sl_placement placement, char *text);
const char *sl_transfer_name(sl_transfer_kind kind); /* "sum" */
/* "stage 2"; with tensor > 1 "stage 1, part 0": tensor rank 0 of stage 1. */
const char *sl_model_rank_text(int model_rank, int tensor, char *text);

#ifdef __cplusplus
}
#endif
#endif
