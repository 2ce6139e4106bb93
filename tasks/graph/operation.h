/* The operation descriptor holds everything that the engine knows about an operation. An operation is one constant
 * of this type, in one C file under codelets/, named in codelets/codelets.h. Passes and lowering call its shape,
 * gradient and cost rules, so no file outside codelets/ names an operation. */
#ifndef SL_OPERATION_H
#define SL_OPERATION_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/processors/isa.h"
#include "runtime/processors/team.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int sl_value; /* index of a value in its graph */
enum { SL_NONE = -1 };
typedef struct sl_graph sl_graph;
typedef struct sl_value_info sl_value_info;
typedef struct sl_node sl_node;
typedef struct sl_operation sl_operation;

/* Division of work inside a kernel; part of the plan, because it decides bits. A kernel cuts its work into tiles of
 * these sizes, whatever the number of threads of its team, and adds partial results in the order of tiles. */
typedef struct sl_tiles {
  int64_t columns;  /* columns of a matrix product that are computed at once */
  int64_t elements; /* elements per tile of elementwise work and reductions */
  int blocks;       /* products of bf16 add up by blocks, not by pairs (product.h under codelets/kernels) */
  int blas;         /* linear layers and convolutions in fp32 use OpenBLAS (blas.h under codelets/products) */
} sl_tiles;
#define SL_TILES_DEFAULT ((sl_tiles){.columns = 256, .elements = 16384})

/* Values that change from step to step; kernels read them through their call. */
enum { SL_MAX_INPUTS = 8 };
typedef struct sl_step {
  int64_t number; /* counts from 1 */
  uint64_t seed;
  double learning_rate;
  /* Host arrays, indexed by the input operation's slot, with samples of the global batch from input_row0 on. */
  const void *input[SL_MAX_INPUTS];
  int64_t input_row0;
  int check; /* 1: also find the first operation with an output that is not finite */
} sl_step;

/* An argument of a kernel. If the plan cut the value into row blocks and the operation takes it whole (all_in),
 * parts > 1, data is NULL and part[] holds the blocks; otherwise parts is 1 and part points to the argument itself. */
typedef struct sl_array {
  void *data;
  sl_shape shape;
  sl_dtype dtype;
  int64_t row0; /* index of its first row in the whole value */
  int parts;
  const struct sl_array *part;
} sl_array;

/* The call of a kernel. */
typedef struct sl_call {
  const void *attr;
  int n_in, n_out;
  const sl_array *in, *out;
  uint32_t accumulate; /* bit i: add to output i instead of overwriting it */
  uint32_t key;        /* key of the node's random stream */
  int64_t row0, rows;  /* samples [row0, row0 + rows) of the global batch; rows = 0 for work that has no samples */
  int64_t leaf_rows, batch_rows; /* samples of the leaf, and of the global batch */
  const sl_step *step;
  const void *batch; /* rows of the array in slot op->batch_slot, from row0 on, in the worker's memory; NULL: read the
                      * step's array */
  sl_tiles tiles;
  sl_team *team;        /* CPU: the threads to use and their scratch memory */
  size_t scratch_bytes; /* bytes that op->scratch asked for: per thread on a CPU, in total on a GPU */
} sl_call;

typedef sl_status (*sl_kernel)(const sl_call *call);
typedef struct sl_cuda sl_cuda; /* stream, scratch: runtime/processors/cuda_context.h */
typedef sl_status (*sl_kernel_cuda)(const sl_call *call, sl_cuda *cuda);

typedef struct sl_cost {
  double flops; /* multiplications and additions; a fused multiply-add is two */
  double bytes; /* bytes moved to and from memory without caches: each input read once, each output written once */
} sl_cost;

/* How a node is divided into folds, by features: the last dimension of its samples (folds.h). */
typedef struct sl_folding {
  /* Of a product: masks of inputs (bit k: input k). Where each fold makes some of the output's features, it gets its
   * rows of the inputs in `rows`. Where each fold has some of input 0's features, it gets its columns of the inputs in
   * `columns`; the inputs in `once`, such as biases, go to the first fold alone, so that they are added once. */
  uint32_t rows, columns, once;
  /* Of a product that applies a function to its sums, such as an activation: takes it out of the attribute of the folds
   * and returns its operation, which follows the sum of the folds; NULL: there is none in this attribute. */
  const struct sl_operation *(*after)(void *attr);
  /* A lookup in a table: the input that is cut by rows; each fold's outputs are addends. 0: none. */
  int table;
  int follows; /* 1: outputs are divided as input 0 is */
  /* A reduction over the features of input 0, such as a loss over classes. Adds the nodes that compute the outputs from
   * the folds of input 0, fold[0 ... graph->folds - 1], and from the other inputs, in[1] and on. NULL: no reduction. */
  void (*reduce)(sl_graph *graph, const sl_node *node, const sl_value *fold, const sl_value *in, sl_value *out);
  /* The features of input 0 are [outer][units][rest], and a fold gets whole units; NULL: any number of features. */
  void (*units)(const void *attr, int64_t *outer, int64_t *units);
  /* Changes the attribute for the fold that has units [from, to) of `all`; NULL: nothing changes. */
  void (*cut)(void *attr, int64_t from, int64_t to, int64_t all);
} sl_folding;

enum { SL_MAX_OUT = 4 };

struct sl_operation {
  const char *name;
  size_t attr_bytes;

  /* Checks the inputs and sets dtype, shape and scope of the outputs. Before the call the outputs are F32 and
   * TEMPORARY, at the finest scope of the inputs, and have no shape. SL_ESHAPE: the text says what does not fit; the
   * caller adds the layer's name. */
  sl_status (*shape)(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out);

  /* Adds the nodes that compute the gradient. dout[i]: gradient of output i (SL_NONE: unused); need[i]: whether
   * input i needs a gradient; sets din[i]. NULL: not differentiable, inputs get no gradient. */
  void (*gradient)(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din);

  /* FLOPs and bytes, computed from shapes alone (data pointers are NULL). NULL: no FLOPs, each argument moved once. */
  void (*cost)(const sl_call *call, sl_cost *cost);

  /* Bytes of scratch memory, 64-byte aligned: per thread of the team for CPU kernels, in total for CUDA kernels.
   * scratch_fast is that of cuda_fast; if it is NULL, scratch_cuda counts. scratch or scratch_cuda NULL: none. */
  size_t (*scratch)(const sl_call *call);
  size_t (*scratch_cuda)(const sl_call *call);
  size_t (*scratch_fast)(const sl_call *call);

  sl_kernel cpu[SL_ISA_COUNT]; /* by instruction set; NULL where this build has none */
  /* The same for calls whose arguments are stored in bf16, as chosen by the precision pass (precision.h). NULL: the
   * engine gives the kernel in `cpu` copies in float (storage.h). */
  sl_kernel cpu_bf16[SL_ISA_COUNT];
  sl_kernel_cuda cuda;      /* the CPU kernels' bits; NULL in a build without CUDA */
  sl_kernel_cuda cuda_fast; /* in an order of sums of its own; NULL without CUDA or without `fast` */
  int cuda_bf16;            /* 1: both CUDA kernels take bf16 where cpu_bf16 does; 0: they get copies in float */
  int fast;                 /* 1: has cuda_fast in a build with CUDA */

  /* Arguments that may be cut into row blocks. map: one task per block, which gets that block; all: every task gets
   * all blocks. Bit i is argument i; the last bit stands for all further arguments. */
  uint32_t map_in, map_out, all_in;

  /* Precision (precision.h). wide_in, wide_out: arguments at SAMPLE scope that stay in float (statistics of rows).
   * copies: parameters that the bf16 kernels read as copies in bf16. pairs: the bf16 kernels multiply pairs (product.h
   * under codelets/kernels), so their sums are rounded differently from the float kernel's. any_dtype: the kernels take
   * every type as it is; they only move data. */
  uint32_t wide_in, wide_out, copies;
  int pairs, any_dtype;

  /* 1: a sum over samples that costs no more than reading its inputs (rows added up by index). If the inputs are
   * small compared with output 0, every rank adds all samples to the whole sum in their order (spread.h). */
  int gathers;

  /* Returns the slot of the step's array from which the kernel copies its samples into output 0. NULL: the kernel reads
   * no array of the step. */
  int (*batch_slot)(const void *attr);

  const sl_folding *folding; /* NULL: cannot be divided into folds */

  /* Division along the sequence, dimension 1 of the samples (folds.h). along: inputs that are divided as the outputs
   * are; 0: cannot be divided so. stream: gives the attribute of a part a random stream of its own; NULL: no random
   * numbers. */
  uint32_t along;
  void (*stream)(void *attr, uint32_t key);

  int8_t update[SL_MAX_OUT];  /* update[j] = k + 1: output j is input k itself, updated in place */
  int8_t inplace[SL_MAX_OUT]; /* inplace[j] = k + 1: output j may overwrite input k's buffer if nobody else needs it */
};

#ifdef __cplusplus
}
#endif
#endif
