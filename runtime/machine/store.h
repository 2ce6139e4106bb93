/* The store: named tensors that outlive steps and programs (parameters, optimizer state, running statistics). Each has
 * one block of host memory and the StarPU handles that tasks use. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include <starpu.h>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/machine/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks of host memory ----
 * If GPUs take part, blocks are pinned, so that copies overlap with kernels. With offloading, blocks are memory-mapped
 * files in a folder: the operating system keeps the pages in use in memory and the others on disk. In simulations,
 * blocks are addresses without memory, which nothing may read or write. */

typedef struct sl_block {
  void *data; /* 64-byte aligned; on a huge-page boundary from 4 MB on; NULL: no block */
  size_t room;
  int mapped, pinned;
} sl_block;

/* From now on makes blocks of a page or more as memory-mapped files in this folder; NULL: in ordinary memory. The files
 * have no names; their disk space is reserved when they are made. SL_EIO: the folder cannot be written. One thread at a
 * time. */
sl_status sl_block_offload(const char *folder);

/* Makes a block of zeros. what: its name in errors, "tensor 'fc1.weight'". SL_ENOMEM; SL_EIO: the disk is full. */
sl_status sl_block_create(size_t bytes, const char *what, sl_block *block);
void sl_block_destroy(sl_block *block); /* an empty one is allowed */

/* Pins other memory (whole pages) for copies to GPUs. Returns 0 if StarPU drives no GPU or pinning fails. */
int sl_block_pin(void *memory, size_t bytes);
void sl_block_unpin(void *memory, size_t bytes);

/* ---- tensors ---- */

typedef struct sl_tensor {
  char *name;
  sl_dtype dtype;
  sl_shape shape;
  int parameter;  /* 1: part of the model; 0: state of its training (or running statistics) */
  void *data;     /* host memory, 64-byte aligned; valid for the host between sl_store_acquire and sl_store_release */
  int owner;      /* first rank that holds it; -1: all ranks hold it. On the others data is NULL, and no task uses it */
  int stride;     /* > 0: rank r holds it if r % stride is one of owner ... owner + width - 1; 0: not used */
  int width;      /* ranks owner ... owner + width - 1 hold it */
  sl_part part;   /* of a whole tensor (tasks/graph/folds.h); size 0: none */
  sl_block block; /* the tensor's memory; empty if ranks share it */
  int common;     /* 1: the node's ranks share one copy */
  int blocks;     /* number of row blocks registered with StarPU; 0: not registered yet */
  starpu_data_handle_t *handle; /* [blocks] */
} sl_tensor;

typedef struct sl_store sl_store;

sl_status sl_store_create(sl_store **store);
/* Unregisters all handles: StarPU must still run, and no task may use them. NULL is allowed. */
void sl_store_destroy(sl_store *store);
int sl_store_count(const sl_store *store);
sl_tensor *sl_store_at(const sl_store *store, int i);              /* in the order of adding */
sl_tensor *sl_store_find(const sl_store *store, const char *name); /* NULL when there is none */
/* A new tensor of zeros. SL_EEXIST, SL_ENOMEM. */
sl_status sl_store_add(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                       sl_tensor **tensor);
/* Reserves memory that the ranks of the node share, for the tensors that sl_store_add_common adds. The callers ensure
 * that no rank writes while another reads. Collective, at most once; then destroying the store is collective, too.
 * SL_ENOMEM on all ranks if one has too little memory. */
sl_status sl_store_reserve_common(sl_store *store, const sl_runtime *runtime, size_t bytes);
size_t sl_store_common_bytes(sl_dtype dtype, const sl_shape *shape); /* shared memory that a tensor takes */
/* A new tensor of zeros in shared memory. The node's ranks add the same tensors in the same order. SL_ENOMEM: more than
 * was reserved. */
sl_status sl_store_add_common(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                              sl_tensor **tensor);
int sl_store_has_common(const sl_store *store); /* whether it has shared tensors */
/* A new tensor of zeros on the ranks that owner, width and stride name (sl_tensor); data is NULL on the others. rank:
 * this rank. SL_EEXIST, SL_ENOMEM. */
sl_status sl_store_add_owned(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                             int owner, int width, int stride, int rank, sl_tensor **tensor);
int sl_tensor_is_on(const sl_tensor *tensor, int rank); /* whether this rank holds it */
/* Registers the tensor with StarPU in `blocks` blocks of rows [rows b / blocks, rows (b + 1) / blocks). SL_EINVAL:
 * already registered in another number of blocks. */
sl_status sl_store_register(sl_tensor *tensor, int blocks);
/* Brings all tensors to host memory for reading (write = 0) or changing; waits for tasks. Does nothing if no tensor is
 * registered. Release them before the next step. SL_ESTARPU: a tensor cannot be brought there; none stays acquired. */
sl_status sl_store_acquire(sl_store *store, int write);
void sl_store_release(sl_store *store);

#ifdef __cplusplus
}
#endif
#endif
