/* The graph says as plain data what one training step computes. Values are arrays; nodes apply an operation to them.
 *
 * A model builds a graph over the whole batch (the logical graph). Passes add nodes to it (gradient.h, the
 * optimizers' update nodes) and finally rewrite it into the step graph (spread.h), whose values are pieces that
 * belong to a leaf, a shard or a row block, and whose nodes are tasks. Both have this type; only the step graph uses
 * the fields under "placement". The order of nodes is a valid order of execution.
 *
 * The first error while building sticks: later additions return SL_NONE, and sl_graph_status returns that error,
 * which names the layer. So models need no check after each line. */
#ifndef SL_GRAPH_H
#define SL_GRAPH_H

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "tasks/graph/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The role of a value. Parameters and state outlive a step: they are bound by name to tensors of a store. */
typedef enum sl_role { SL_ROLE_TEMPORARY, SL_ROLE_PARAMETER, SL_ROLE_STATE } sl_role;

/* How many pieces a value has: one per shard (dimension 0 is the batch), one per leaf, or one. A node works at the
 * finest scope of its inputs; an output that is coarser is a sum over the shards (in order, within a leaf) and over
 * the leaves (by the tree of spread.h). */
typedef enum sl_scope { SL_SCOPE_SAMPLE, SL_SCOPE_LEAF, SL_SCOPE_WHOLE } sl_scope;

typedef enum sl_phase { SL_PHASE_FORWARD, SL_PHASE_BACKWARD, SL_PHASE_UPDATE, SL_PHASE_COUNT } sl_phase;

/* Stretches of a model that the backward pass can compute again instead of keeping their values (recompute.h): none;
 * attention with the layers in front of it; whole blocks. To add a kind of stretch, add a row here and call
 * sl_graph_segment around the stretch in a model. */
#define SL_RECOMPUTE_LIST(X)             \
  X(SL_RECOMPUTE_NONE, "none")           \
  X(SL_RECOMPUTE_ATTENTION, "attention") \
  X(SL_RECOMPUTE_BLOCK, "block")
typedef enum sl_recompute {
#define SL_RECOMPUTE_ENUM(kind, name) kind,
  SL_RECOMPUTE_LIST(SL_RECOMPUTE_ENUM)
#undef SL_RECOMPUTE_ENUM
      SL_RECOMPUTE_COUNT
} sl_recompute;

/* Initial contents of a parameter or state. Random numbers come from Philox, keyed by the seed and the value's name. */
typedef enum sl_init_kind { SL_INIT_CONSTANT, SL_INIT_UNIFORM, SL_INIT_NORMAL } sl_init_kind;
typedef struct sl_init {
  sl_init_kind kind;
  double a; /* the constant; half the width of a uniform distribution around 0; a normal's standard deviation */
} sl_init;

/* Consecutive folds: from ... to - 1 (folds.h). */
typedef struct sl_run {
  int from, to;
} sl_run;

struct sl_value_info {
  char *name; /* unique among parameters and state; owned by the graph */
  sl_dtype dtype;
  sl_shape shape; /* SAMPLE scope: dimension 0 is the number of samples */
  sl_scope scope;
  sl_role role;
  sl_init init;
  sl_part part; /* parameters: their part of a whole tensor (folds.h); size 0: none */
  int decay;    /* parameters: whether weight decay applies (matrices and filters, not biases nor norms) */
  int blocks;   /* logical graph: number of row blocks that the plan cuts it into */
  int producer; /* node that writes it first; -1 for parameters and state */
  /* placement */
  int logical;            /* the logical value that this one is a piece of */
  int leaf, shard, block; /* -1: not divided so */
  int64_t row0;           /* index of its first row (dimension 0) in the logical value */
};

typedef enum sl_message { SL_MESSAGE_NONE, SL_MESSAGE_SENT, SL_MESSAGE_RECEIVED } sl_message;

struct sl_node {
  const sl_operation *op;
  char *name; /* layer, owned by the graph */
  void *attr; /* op->attr_bytes, owned by the graph */
  int n_in, n_out;
  sl_value *in, *out;
  sl_phase phase;
  uint32_t key;        /* key of this node's random stream: the same in training and in every shard */
  uint32_t accumulate; /* bit i: output i is added to, not overwritten */
  sl_value
      after; /* a value that must be written before the node starts, though the node does not read it; SL_NONE: none */
  int segment[SL_RECOMPUTE_COUNT]; /* segment of each kind that the node belongs to, from 1; 0: none */
  sl_run fold;                     /* the folds that it computes; all of them if it is not divided */
  /* placement */
  int logical, leaf, shard, block;
  int bucket;         /* an exchange (exchange.h): its number, from 1; 0: an operation's task */
  sl_message message; /* an exchange between two stages of a pipeline */
  int micro_batch;    /* micro-batch that the task runs in, from 0 */
  int turn;           /* turn that the task runs in, 0 ... turns - 1 */
  int64_t row0, rows; /* samples [row0, row0 + rows) of the global batch; rows = 0 at WHOLE scope */
  int64_t leaf_rows, batch_rows;
  int *in_part; /* n_arg + 1 offsets: argument a is in[in_part[a]] ... in[in_part[a + 1] - 1]; NULL: one value per
                   argument */
  int n_arg;
};

typedef struct sl_graph {
  sl_value_info **value;
  int n_values;
  sl_node **node;
  int n_nodes;
  int64_t batch;                               /* samples of the global batch */
  sl_phase phase;                              /* phase of nodes added from now on */
  int folds;                                   /* number of them (folds.h); 1: nothing is divided */
  sl_run fold;                                 /* of nodes added from now on */
  int segment[SL_RECOMPUTE_COUNT], n_segments; /* segments of nodes added from now on; sl_graph_segment sets them */
  /* Step graph: number of turns. Turns follow one another, and nodes are sorted by turn. A turn is a micro-batch or, in
   * a stage of a pipeline, the forward or the backward pass of a micro-batch. */
  int turns;
  /* The passes add these: out = in; out = a + b; out = in in the type of the attribute, an sl_dtype. */
  const sl_operation *copy, *add, *convert;
  /* The folding pass and its gradients add these (folds.h): a part of the positions of each sample, by the attribute
   * int[2] {part, number of parts}; all parts joined. NULL: no samples are divided along their sequence. */
  const sl_operation *part, *join;
  sl_status status;
  char error[1024];
  int capacity_values, capacity_nodes;
  struct sl__named *named; /* [n_named] the values that have names; sl_graph_find searches them */
  int n_named, capacity_named;
} sl_graph;

/* Makes an empty graph over `batch` samples; NULL when out of memory. codelets.h has the call that fills in the
 * operations. */
sl_graph *sl_graph_create(int64_t batch, const sl_operation *copy, const sl_operation *add,
                          const sl_operation *convert);
void sl_graph_destroy(sl_graph *graph);
/* SL_OK, or the first failure with its text in sl_error(). */
sl_status sl_graph_status(const sl_graph *graph);

/* Adds a node. op->shape gives the outputs' shapes; out[n_out] receives the outputs (SL_NONE after a failure). attr
 * is copied. name is the layer's; error texts name it. */
void sl_graph_add(sl_graph *graph, const sl_operation *op, const char *name, const void *attr, const sl_value *in,
                  int n_in, sl_value *out, int n_out);
/* The same for an operation with one output. */
sl_value sl_graph_add1(sl_graph *graph, const sl_operation *op, const char *name, const void *attr, const sl_value *in,
                       int n_in);
/* Adds a parameter or state named "layer.what", or returns the one that has this name already if shape and type
 * agree (tied weights). */
sl_value sl_graph_tensor(sl_graph *graph, sl_role role, const char *layer, const char *what, sl_dtype dtype,
                         sl_shape shape, sl_init init);
sl_value sl_graph_find(const sl_graph *graph, const char *name); /* SL_NONE when there is none */
const sl_value_info *sl_graph_value(const sl_graph *graph, sl_value value);
/* begin = 1: nodes added from now on belong to a new segment of this kind, which the backward pass may compute
 * again; begin = 0: they belong to none. Segments of different kinds may overlap. */
void sl_graph_segment(sl_graph *graph, sl_recompute kind, int begin);
void sl_graph_rename(sl_graph *graph, sl_value value, const char *name);
/* Marks the graph failed (unless it already is), with the text of sl_fail. */
void sl_graph_fail(sl_graph *graph, sl_status status, const char *layer);
/* Bytes of a value. */
size_t sl_value_bytes(const sl_value_info *value);
/* Whether the node also reads its output i, because it accumulates or updates in place. */
int sl_node_reads_output(const sl_node *node, int i);
/* The finest scope among the node's inputs and outputs. */
sl_scope sl_node_scope(const sl_graph *graph, const sl_node *node);
/* Describes a node as its kernel will see it, without data, for cost and scratch rules. arrays has room for
 * sl_call_arrays(node). */
int sl_call_arrays(const sl_node *node);
void sl_call_describe(const sl_graph *graph, const sl_node *node, sl_array *arrays, sl_call *call);
/* Cost of a node: FLOPs and bytes moved. */
sl_cost sl_node_cost(const sl_graph *graph, const sl_node *node, const sl_tiles *tiles);
/* Hash of everything that changes a task's time, for performance models: shapes, types, access modes, attributes. */
uint32_t sl_node_footprint(const sl_graph *graph, const sl_node *node);
/* For passes that move nodes: sets each node's index and each value's first writer anew. */
void sl_graph_renumber(sl_graph *graph);
/* For passes that build another graph: adds a value or node as given (strings and arrays are copied). */
sl_value sl_graph_push_value(sl_graph *graph, const sl_value_info *info);
sl_node *sl_graph_push_node(sl_graph *graph, const sl_node *node);

#ifdef __cplusplus
}
#endif
#endif
