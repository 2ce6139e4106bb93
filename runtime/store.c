/* Named tensors and their StarPU handles. */
#include "runtime/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct sl_store {
  sl_tensor **tensor;
  int n, capacity;
};

sl_status sl_store_create(sl_store **store) {
  *store = calloc(1, sizeof **store);
  return *store ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a store");
}

static void unregister(sl_tensor *tensor) {
  for (int b = 0; b < tensor->blocks; b++) starpu_data_unregister(tensor->handle[b]);
  free(tensor->handle);
  tensor->handle = NULL;
  tensor->blocks = 0;
}

void sl_store_destroy(sl_store *store) {
  if (!store) return;
  for (int i = 0; i < store->n; i++) {
    unregister(store->tensor[i]);
    free(store->tensor[i]->data);
    free(store->tensor[i]->name);
    free(store->tensor[i]);
  }
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

sl_status sl_store_add(sl_store *store, const char *name, sl_dtype dtype, const sl_shape *shape, int parameter,
                       sl_tensor **tensor) {
  *tensor = NULL;
  if (sl_store_find(store, name)) return sl_fail(SL_EEXIST, "the store has a tensor '%s' already", name);
  size_t bytes = (size_t)sl_shape_count(shape) * sl_dtype_bytes(dtype);
  enum { CACHE_LINE = 64, PAGE = 4096, HUGE_PAGE = 2 << 20 };
  const int large = bytes >= 2 * (size_t)HUGE_PAGE; /* huge pages, but for the end, which would waste half of one */
  const size_t align = large ? HUGE_PAGE : CACHE_LINE, unit = large ? PAGE : CACHE_LINE;
  if (store->n == store->capacity) {
    int wanted = store->capacity ? 2 * store->capacity : 64;
    sl_tensor **more = realloc(store->tensor, (size_t)wanted * sizeof *more);
    if (!more) return sl_fail(SL_ENOMEM, "no memory for tensor '%s'", name);
    store->tensor = more;
    store->capacity = wanted;
  }
  sl_tensor *mine = calloc(1, sizeof *mine);
  char *copy = strdup(name);
  const size_t room = (bytes + unit - 1) / unit * unit, whole = bytes / HUGE_PAGE * HUGE_PAGE;
  void *data = NULL;
  if (posix_memalign(&data, align, room ? room : align) != 0) data = NULL;
  if (!mine || !copy || !data) {
    free(mine), free(copy), free(data);
    return sl_fail(SL_ENOMEM, "no memory for tensor '%s' of %zu bytes", name, bytes);
  }
  if (large) {
    madvise(data, whole, MADV_HUGEPAGE);
    if (room > whole) madvise((char *)data + whole, room - whole, MADV_NOHUGEPAGE);
  }
  memset(data, 0, bytes);
  *mine = (sl_tensor){.name = copy, .dtype = dtype, .shape = *shape, .parameter = parameter, .data = data};
  store->tensor[store->n++] = *tensor = mine;
  return SL_OK;
}

sl_status sl_store_register(sl_tensor *t, int blocks) {
  if (t->blocks == blocks) return SL_OK;
  if (t->blocks)
    return sl_fail(SL_EINVAL, "tensor '%s' is in use in %d row blocks and wanted in %d", t->name, t->blocks, blocks);
  t->handle = calloc((size_t)blocks, sizeof *t->handle);
  if (!t->handle) return sl_fail(SL_ENOMEM, "no memory to register tensor '%s'", t->name);
  int64_t rows = t->shape.ndim ? t->shape.dim[0] : 1;
  size_t row = (size_t)sl_shape_row(&t->shape) * sl_dtype_bytes(t->dtype);
  for (int b = 0; b < blocks; b++) {
    int64_t first = rows * b / blocks, last = rows * (b + 1) / blocks;
    starpu_vector_data_register(&t->handle[b], STARPU_MAIN_RAM, (uintptr_t)t->data + (size_t)first * row,
                                (uint32_t)((size_t)(last - first) * row / sl_dtype_bytes(t->dtype)),
                                sl_dtype_bytes(t->dtype));
    starpu_data_set_sequential_consistency_flag(t->handle[b], 0);
  }
  t->blocks = blocks;
  return SL_OK;
}

sl_status sl_store_acquire(sl_store *store, int write) {
  for (int i = 0; i < store->n; i++)
    for (int b = 0; b < store->tensor[i]->blocks; b++)
      if (starpu_data_acquire(store->tensor[i]->handle[b], write ? STARPU_RW : STARPU_R) != 0)
        return sl_fail(SL_ESTARPU, "tensor '%s' cannot be brought to host memory", store->tensor[i]->name);
  return SL_OK;
}

void sl_store_release(sl_store *store) {
  for (int i = 0; i < store->n; i++)
    for (int b = 0; b < store->tensor[i]->blocks; b++) starpu_data_release(store->tensor[i]->handle[b]);
}
