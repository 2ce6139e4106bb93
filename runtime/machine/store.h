/* The store: named tensors that outlive steps and programs (parameters, optimizer state, running statistics), each one
 * stretch of host memory with the StarPU handles that tasks use. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include <starpu.h>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/machine/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_tensor {
  char *name;
  sl_dtype dtype;
  sl_shape shape;
  int parameter; /* 1: part of the model; 0: state of its training (or running statistics) */
  void *data;    /* host memory, 64-byte aligned; valid for the host between sl_store_acquire and sl_store_release */
  int owner;     /* the only rank that has it: on others data is NULL, and no task uses it; -1: all have it */
  int common;    /* 1: the ranks of the node have it in one place */
  int blocks;    /* row blocks it is registered in with StarPU; 0: not yet */
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
/* Memory for the tensors that sl_store_add_common will add, in common with the other ranks of the runtime's node, which
 * must see to it that none writes while another reads. Collective, and so is destroying the store then. Once.
 * SL_ENOMEM, on all of them, where there is too little. */
sl_status sl_store_reserve_common(sl_store *store, const sl_runtime *runtime, size_t bytes);
size_t sl_store_common_bytes(sl_dtype dtype, const sl_shape *shape); /* what a tensor takes of it */
/* The same tensors in the same order on all those ranks; each begins with zeros. SL_ENOMEM: more than was reserved. */
sl_status sl_store_add_common(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                              sl_tensor **tensor);
int sl_store_has_common(const sl_store *store); /* whether it has such tensors */
/* A tensor that rank `owner` alone has; data is NULL on the others. */
sl_status sl_store_add_owned(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int owner,
                             int rank, sl_tensor **tensor);
/* Registers the tensor with StarPU in `blocks` blocks of rows [rows b / blocks, rows (b + 1) / blocks); one that is
 * registered already must be so in as many (SL_EINVAL). */
sl_status sl_store_register(sl_tensor *tensor, int blocks);
/* Brings all tensors to host memory for reading (write = 0) or changing; waits for tasks. Before anything is registered
 * it does nothing. Must be released before the next step. */
sl_status sl_store_acquire(sl_store *store, int write);
void sl_store_release(sl_store *store);

#ifdef __cplusplus
}
#endif
#endif
