/* Named tensors and their StarPU handles. */
#include "runtime/machine/store.h"

#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/machine/comm.h"
#include "runtime/machine/runtime.h"
#include "runtime/machine/vectors.h"

struct sl_store {
  sl_tensor **tensor;
  int n, capacity;
  MPI_Win window; /* memory that the node's ranks share; MPI_WIN_NULL: none */
  sl_block block; /* in its place in a simulation */
  char *common;
  size_t common_bytes, used;
  int pinned; /* common is page-locked for GPUs */
};

/* PINNED: blocks of so many bytes or more are pinned. */
enum { CACHE_LINE = 64, PAGE = 4096, HUGE_PAGE = 2 << 20, PINNED = 1 << 16 };

/* ---- blocks ---- */

static char *offload_folder;

sl_status sl_block_offload(const char *folder) {
  char *copy = NULL;
  if (folder) {
    if (access(folder, W_OK | X_OK) != 0)
      return sl_fail(SL_EIO, "cannot write to %s, the folder for data on disk: %s", folder, strerror(errno));
    if (!(copy = strdup(folder))) return sl_no_memory("for the name of a folder");
  }
  free(offload_folder);
  offload_folder = copy;
  return SL_OK;
}

static int open_file(void) {
  char name[4096];
#ifdef O_TMPFILE
  const int fd = open(offload_folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
#endif
  snprintf(name, sizeof name, "%s/starling-offload.XXXXXX", offload_folder);
  const int named = mkostemp(name, O_CLOEXEC);
  if (named >= 0) unlink(name);
  return named;
}

static sl_status map_file(const char *what, sl_block *block) {
  const int fd = open_file();
  int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)block->room);
  void *data = MAP_FAILED;
  if (error == 0) {
    data = mmap(NULL, block->room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) error = errno;
  }
  if (fd >= 0) close(fd);
  if (error)
    return sl_fail(SL_EIO, "cannot reserve %zu bytes in %s for %s: %s", block->room, offload_folder, what,
                   strerror(error));
  block->data = data;
  block->mapped = 1;
  return SL_OK;
}

sl_status sl_block_create(size_t bytes, const char *what, sl_block *block) {
  /* Uses huge pages, except at the end, where one would be half empty. */
  const int large = bytes >= 2 * (size_t)HUGE_PAGE || (bytes > 0 && bytes % HUGE_PAGE == 0);
  const int file = offload_folder && bytes >= PAGE;
  const size_t align = large ? HUGE_PAGE : CACHE_LINE, unit = large || file ? PAGE : CACHE_LINE;
  const size_t room = (bytes + unit - 1) / unit * unit, whole = bytes / HUGE_PAGE * HUGE_PAGE;
  *block = (sl_block){.room = room ? room : align};
  if (SL_SIMULATED) {
    void *addresses = mmap(NULL, block->room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) return sl_no_memory("for the addresses of %s of %zu bytes", what, bytes);
    block->data = addresses;
    block->mapped = 1;
    return SL_OK;
  }
  if (file) return map_file(what, block);
  if (posix_memalign(&block->data, align, block->room) != 0) {
    block->data = NULL;
    return sl_no_memory("for %s of %zu bytes", what, bytes);
  }
  if (large) {
    madvise(block->data, whole, MADV_HUGEPAGE);
    if (room > whole) madvise((char *)block->data + whole, room - whole, MADV_NOHUGEPAGE);
  }
  memset(block->data, 0, bytes); /* page faults happen here, not in a step */
  if (bytes >= PINNED) block->pinned = sl_block_pin(block->data, block->room);
  return SL_OK;
}

void sl_block_destroy(sl_block *block) {
  if (block->pinned) sl_block_unpin(block->data, block->room);
  if (block->mapped)
    munmap(block->data, block->room);
  else
    free(block->data);
  *block = (sl_block){0};
}

static int gpus(void) { return starpu_is_initialized() && starpu_cuda_worker_get_count() > 0; }

int sl_block_pin(void *memory, size_t bytes) { return gpus() && starpu_memory_pin(memory, bytes) == 0; }

void sl_block_unpin(void *memory, size_t bytes) {
  if (gpus()) (void)starpu_memory_unpin(memory, bytes);
}

/* ---- tensors ---- */

sl_status sl_store_create(sl_store **store) {
  *store = calloc(1, sizeof **store);
  if (!*store) return sl_no_memory("for a store");
  (*store)->window = MPI_WIN_NULL;
  return SL_OK;
}

static void unregister(sl_tensor *tensor) {
  for (int b = 0; b < tensor->blocks; b++) starpu_data_unregister(tensor->handle[b]);
  free(tensor->handle);
  tensor->handle = NULL;
  tensor->blocks = 0;
}

void sl_store_destroy(sl_store *store) {
  if (!store || sl_runtime_abandoned()) return;
  for (int i = 0; i < store->n; i++) {
    unregister(store->tensor[i]);
    sl_block_destroy(&store->tensor[i]->block);
    free(store->tensor[i]->name);
    free(store->tensor[i]);
  }
  if (store->pinned) sl_block_unpin(store->common, store->common_bytes);
  if (store->window != MPI_WIN_NULL) MPI_Win_free(&store->window);
  if (store->block.data) sl_block_destroy(&store->block);
  free(store->tensor);
  free(store);
}

int sl_store_count(const sl_store *store) { return store->n; }
sl_tensor *sl_store_at(const sl_store *store, int i) { return store->tensor[i]; }

sl_tensor *sl_store_find(const sl_store *store, const char *name) {
  for (int i = 0; i < store->n; i++)
    if (strcmp(store->tensor[i]->name, name) == 0) return store->tensor[i];
  return NULL;
}

/* Adds an entry without memory. */
static sl_status enter(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                       sl_tensor **tensor) {
  *tensor = NULL;
  if (sl_store_find(store, name)) return sl_fail(SL_EEXIST, "the store already has a tensor '%s'", name);
  if (store->n == store->capacity) {
    int wanted = store->capacity ? 2 * store->capacity : 64;
    sl_tensor **more = realloc(store->tensor, (size_t)wanted * sizeof *more);
    if (!more) return sl_no_memory("for tensor '%s'", name);
    store->tensor = more;
    store->capacity = wanted;
  }
  sl_tensor *mine = calloc(1, sizeof *mine);
  char *copy = strdup(name);
  if (!mine || !copy) {
    free(mine), free(copy);
    return sl_no_memory("for tensor '%s'", name);
  }
  *mine = (sl_tensor){.name = copy, .dtype = dtype, .shape = *shape, .parameter = parameter, .owner = -1};
  store->tensor[store->n++] = *tensor = mine;
  return SL_OK;
}

static size_t bytes_of(sl_dtype dtype, const sl_shape *shape) {
  return (size_t)sl_shape_count(shape) * sl_dtype_bytes(dtype);
}

sl_status sl_store_add(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                       sl_tensor **tensor) {
  char what[256];
  sl_block block;
  *tensor = NULL;
  snprintf(what, sizeof what, "tensor '%s'", name);
  SL_TRY(sl_block_create(bytes_of(dtype, shape), what, &block));
  const sl_status status = enter(store, name, dtype, shape, parameter, tensor);
  if (status != SL_OK) {
    sl_block_destroy(&block);
    return status;
  }
  (*tensor)->block = block;
  (*tensor)->data = block.data;
  return SL_OK;
}

/* A simulation has one process, and its data have addresses only. */
static sl_status reserve_addresses(sl_store *store, size_t bytes) {
  SL_TRY(sl_block_create(bytes, "tensors that ranks share", &store->block));
  store->common = store->block.data;
  store->common_bytes = bytes;
  return SL_OK;
}

sl_status sl_store_reserve_common(sl_store *store, const sl_runtime *runtime, size_t bytes) {
  const MPI_Comm node = sl_runtime_node_comm(runtime);
  int rank, unit, fits, all;
  void *base;
  if (store->common) return sl_fail(SL_EEXIST, "the store has already reserved its shared memory");
  if (SL_SIMULATED) return reserve_addresses(store, bytes);
  MPI_Comm_rank(node, &rank);
  fits = MPI_Win_allocate_shared(rank == 0 ? (MPI_Aint)(bytes + CACHE_LINE) : 0, 1, MPI_INFO_NULL, node, &base,
                                 &store->window) == MPI_SUCCESS;
  if (!fits) store->window = MPI_WIN_NULL;
  SL_TRY(sl_comm_status(MPI_Allreduce(&fits, &all, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce"));
  if (!all) {
    store->window = MPI_WIN_NULL; /* freeing it is collective, and some ranks have none */
    return sl_fail(SL_ENOMEM, "no shared memory for %zu bytes of tensors", bytes);
  }
  MPI_Aint size;
  SL_TRY(sl_comm_status(MPI_Win_shared_query(store->window, 0, &size, &unit, &base), "MPI_Win_shared_query"));
  store->common = (char *)(((uintptr_t)base + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  store->common_bytes = bytes;
  if (rank == 0) memset(store->common, 0, bytes);
  store->pinned = bytes >= PINNED && sl_block_pin(store->common, bytes);
  return sl_comm_status(MPI_Barrier(node), "MPI_Barrier");
}

size_t sl_store_common_bytes(sl_dtype dtype, const sl_shape *shape) {
  return (bytes_of(dtype, shape) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

sl_status sl_store_add_common(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                              sl_tensor **tensor) {
  const size_t bytes = sl_store_common_bytes(dtype, shape);
  *tensor = NULL;
  if (bytes > store->common_bytes - store->used)
    return sl_fail(SL_ENOMEM, "tensor '%s' does not fit into the shared memory that the store has reserved", name);
  SL_TRY(enter(store, name, dtype, shape, parameter, tensor));
  (*tensor)->common = 1;
  (*tensor)->data = store->common + store->used;
  store->used += bytes;
  return SL_OK;
}

int sl_store_has_common(const sl_store *store) { return store->used > 0; }

sl_status sl_store_add_owned(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                             int owner, int width, int stride, int rank, sl_tensor **tensor) {
  const int mine = sl_tensor_is_on(&(sl_tensor){.owner = owner, .width = width, .stride = stride}, rank);
  SL_TRY(mine ? sl_store_add(store, name, dtype, shape, parameter, tensor)
              : enter(store, name, dtype, shape, parameter, tensor));
  (*tensor)->owner = owner;
  (*tensor)->width = width;
  (*tensor)->stride = stride;
  return SL_OK;
}

int sl_tensor_is_on(const sl_tensor *t, int rank) {
  const int place = t->stride ? rank % t->stride : rank;
  return t->owner < 0 || (place >= t->owner && place < t->owner + t->width);
}

sl_status sl_store_register(sl_tensor *t, int blocks) {
  if (t->blocks == blocks) return SL_OK;
  if (t->blocks)
    return sl_fail(SL_EINVAL, "tensor '%s' is registered in %d row blocks and cannot be registered in %d", t->name,
                   t->blocks, blocks);
  t->handle = calloc((size_t)blocks, sizeof *t->handle);
  if (!t->handle) return sl_no_memory("to register tensor '%s'", t->name);
  int64_t rows = t->shape.ndim ? t->shape.dim[0] : 1;
  size_t row = (size_t)sl_shape_row(&t->shape) * sl_dtype_bytes(t->dtype);
  for (int b = 0; b < blocks; b++) {
    int64_t first = rows * b / blocks, last = rows * (b + 1) / blocks;
    sl_vector_register(&t->handle[b], (char *)t->data + (size_t)first * row,
                       (size_t)(last - first) * row / sl_dtype_bytes(t->dtype), sl_dtype_bytes(t->dtype));
  }
  t->blocks = blocks;
  return SL_OK;
}

/* Releases all blocks before this one. */
static void release_until(sl_store *store, int tensor, int block) {
  for (int i = 0; i < store->n && i <= tensor; i++)
    for (int b = 0; b < store->tensor[i]->blocks && (i < tensor || b < block); b++)
      starpu_data_release(store->tensor[i]->handle[b]);
}

sl_status sl_store_acquire(sl_store *store, int write) {
  for (int i = 0; i < store->n; i++)
    for (int b = 0; b < store->tensor[i]->blocks; b++)
      if (starpu_data_acquire(store->tensor[i]->handle[b], write ? STARPU_RW : STARPU_R) != 0) {
        release_until(store, i, b);
        return sl_fail(SL_ESTARPU, "tensor '%s' cannot be brought to host memory", store->tensor[i]->name);
      }
  return SL_OK;
}

void sl_store_release(sl_store *store) { release_until(store, store->n, 0); }
