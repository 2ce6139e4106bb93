/* The operation descriptor: all that the engine knows of an operation. One operation is one constant of this type, in
 * one C file under codelets/, named in codelets/list.h; passes and lowering reach shape, gradient and cost rules
 * through it, so that no file outside codelets/ names an operation. */
#ifndef SL_OPERATION_H
#define SL_OPERATION_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/machine/isa.h"
#include "runtime/machine/team.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int sl_value; /* index of a value in its graph */
enum { SL_NONE = -1 };
typedef struct sl_graph sl_graph;
typedef struct sl_value_info sl_value_info;
typedef struct sl_node sl_node;
typedef struct sl_operation sl_operation;

/* Work divisions inside a kernel that decide bits; part of the plan. A kernel cuts its work into tiles of these sizes,
 * whatever the number of threads of its team, and adds partial results in the order of tiles. */
typedef struct sl_tiles {
  int64_t columns;  /* columns of a matrix product that are computed at once (sgemm calls are split there) */
  int64_t elements; /* elements of elementwise work and reductions */
} sl_tiles;
#define SL_TILES_DEFAULT ((sl_tiles){.columns = 256, .elements = 16384})

/* What changes from step to step; read by kernels through their call. */
enum { SL_MAX_INPUTS = 8 };
typedef struct sl_step {
  int64_t number; /* counts from 1 */
  uint64_t seed;
  double learning_rate;
  /* Host arrays, by the slot of the input operation: samples of the global batch from input_row0 on. */
  const void *input[SL_MAX_INPUTS];
  int64_t input_row0;
  int check; /* also look for the first operation with an output that is not finite */
} sl_step;

/* An argument. A value that the plan cut into row blocks and that the operation takes whole (all_in) has parts > 1,
 * data NULL, and its blocks in part[]; every other has parts 1 and part pointing to itself. */
typedef struct sl_array {
  void *data;
  sl_shape shape;
  sl_dtype dtype;
  int64_t row0; /* index of its first row in the whole value */
  int parts;
  const struct sl_array *part;
} sl_array;

/* What a kernel is given. */
typedef struct sl_call {
  const void *attr;
  int n_in, n_out;
  const sl_array *in, *out;
  uint32_t accumulate; /* bit i: add to output i instead of overwriting it */
  uint32_t key;        /* the node's random stream */
  int64_t row0, rows;  /* samples [row0, row0 + rows) of the global batch; rows = 0 for work that has no samples */
  int64_t leaf_rows, batch_rows; /* samples in the leaf, in the global batch */
  const sl_step *step;
  sl_tiles tiles;
  sl_team *team;        /* CPU: the threads to use, and their scratch memory */
  size_t scratch_bytes; /* what op->scratch asked for: per thread on a CPU, in all on a GPU */
} sl_call;

typedef sl_status (*sl_kernel)(const sl_call *call);
typedef struct sl_cuda sl_cuda; /* stream, cuBLAS, scratch: runtime/machine/cuda_context.h */
typedef sl_status (*sl_kernel_cuda)(const sl_call *call, sl_cuda *cuda);

typedef struct sl_cost {
  double flops; /* multiplications and additions; a fused multiply-add is two */
  double bytes; /* moved to and from memory when nothing is cached: each input read once, each output written once */
} sl_cost;

enum { SL_MAX_OUT = 4 };

struct sl_operation {
  const char *name;
  size_t attr_bytes;

  /* Checks inputs and sets dtype, shape and scope of the outputs. They come in as F32, TEMPORARY, at the finest scope
   * of the inputs, without shape. SL_ESHAPE with a text that says what does not fit; the caller adds the layer's name.
   */
  sl_status (*shape)(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out);

  /* Adds the nodes that compute the gradient: dout[i] is that of output i (SL_NONE: not used), need[i] says whether
   * input i's is wanted; sets din[i]. NULL: not differentiable (inputs get none). */
  void (*gradient)(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din);

  /* FLOPs and bytes from shapes alone (data pointers are NULL). NULL: no FLOPs, each argument moved once. */
  void (*cost)(const sl_call *call, sl_cost *cost);

  /* Bytes of scratch memory: per thread of the team (CPU); 64-byte aligned. NULL: none. */
  size_t (*scratch)(const sl_call *call);
  size_t (*scratch_cuda)(const sl_call *call);

  sl_kernel cpu[SL_ISA_COUNT]; /* by instruction set; NULL where this build has none */
  sl_kernel_cuda cuda;         /* NULL in a build without CUDA */

  /* Which arguments may be cut into row blocks: map: one task a block, which gets that block; all: every task gets all
   * blocks. Bit i is argument i; the last bit stands for all further ones. */
  uint32_t map_in, map_out, all_in;

  /* 1: a sum over samples that costs no more than reading its inputs (rows added up by index). Where those are small
   * beside output 0, all samples' are added to the whole sum in their order, on every rank (spread.h). */
  int gathers;

  int8_t update[SL_MAX_OUT];  /* update[j] = k + 1: output j is input k itself, updated in place */
  int8_t inplace[SL_MAX_OUT]; /* inplace[j] = k + 1: output j may overwrite input k's buffer if nobody else needs it */
};

#ifdef __cplusplus
}
#endif
#endif
