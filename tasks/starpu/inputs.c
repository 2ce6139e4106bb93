/* Copies batches to GPUs a step ahead. A loader refills the same few arrays, so each array's handles are kept. */
#include "tasks/starpu/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/machine/vectors.h"

enum { LOADED = 3, KEPT = 4 }; /* arrays per task: a loader's three, and one more */

typedef struct array {
  const void *rows; /* of this task; NULL: not used yet */
  starpu_data_handle_t handle;
  int64_t used; /* the last announcement that used it */
} array;

typedef struct input {
  sl__task *task;
  int slot;
  size_t row, bytes; /* of one row, of all rows */
  array array[KEPT];
  int next; /* index of the announced array; -1: none */
} input;

struct sl__inputs {
  int n;
  input *input;
  int64_t announced; /* number of the announced step; -1: none */
  int64_t count;     /* of announcements */
};

sl_status sl__inputs_create(const sl_graph *g, sl__task *task, size_t room, sl__inputs **inputs) {
  int n = 0;
  *inputs = NULL;
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->op->batch_slot && !g->node[i]->bucket;
  if (n == 0) return SL_OK;
  sl__inputs *all = calloc(1, sizeof *all);
  if (!all || !(all->input = calloc((size_t)n, sizeof *all->input))) {
    free(all);
    return sl_no_memory("for %d inputs", n);
  }
  all->announced = -1;
  size_t bytes = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (!node->op->batch_slot || node->bucket) continue;
    const sl_array *out = &task[i].call.out[0];
    const size_t row = (size_t)sl_shape_row(&out->shape) * sl_dtype_bytes(out->dtype);
    all->input[all->n++] = (input){.task = &task[i],
                                   .slot = node->op->batch_slot(node->attr),
                                   .row = row,
                                   .bytes = row * (size_t)out->shape.dim[0],
                                   .next = -1};
    bytes += all->input[all->n - 1].bytes;
  }
  if (LOADED * bytes > room)
    sl__inputs_destroy(all);
  else
    *inputs = all;
  return SL_OK;
}

void sl__inputs_forget(sl__inputs *all) {
  if (!all) return;
  for (int i = 0; i < all->n; i++) {
    input *in = &all->input[i];
    for (int k = 0; k < KEPT; k++)
      if (in->array[k].rows) starpu_data_unregister_no_coherency(in->array[k].handle); /* waits for its copies */
    memset(in->array, 0, sizeof in->array);
    in->next = -1;
  }
  all->announced = -1;
}

void sl__inputs_destroy(sl__inputs *all) {
  if (!all) return;
  sl__inputs_forget(all);
  free(all->input);
  free(all);
}

static const void *rows_of(const input *in, const sl_step *step) {
  const char *array = step->input[in->slot];
  return array ? array + (size_t)(in->task->call.row0 - step->input_row0) * in->row : NULL;
}

/* The array's place or, if it is new, the least recently used place. The step in flight uses the array of the previous
 * announcement, so that one stays. */
static int place_of(const input *in, const void *rows) {
  int oldest = 0;
  for (int k = 0; k < KEPT; k++) {
    if (in->array[k].rows == rows) return k;
    if (in->array[k].used < in->array[oldest].used) oldest = k;
  }
  return oldest;
}

void sl__inputs_announce(sl__inputs *all, const sl_step *next) {
  if (!all) return;
  all->announced = next->number;
  all->count++;
  for (int i = 0; i < all->n; i++) {
    input *in = &all->input[i];
    sl__task *t = in->task;
    const void *rows = rows_of(in, next);
    const int worker = t->bound >= 0 ? t->bound : atomic_load_explicit(&t->worker, memory_order_relaxed);
    in->next = -1;
    if (!rows || worker < 0 || starpu_worker_get_type(worker) != STARPU_CUDA_WORKER) continue;
    const int k = place_of(in, rows);
    array *a = &in->array[k];
    if (a->rows != rows) {
      if (a->rows) starpu_data_unregister_no_coherency(a->handle);
      a->rows = rows;
      sl_vector_register(&a->handle, (void *)rows, in->bytes, 1);
    } else {
      /* The array was refilled, so copies of it on GPUs are out of date. */
      starpu_data_acquire_on_node(a->handle, STARPU_MAIN_RAM, STARPU_W);
      starpu_data_release_on_node(a->handle, STARPU_MAIN_RAM);
    }
    a->used = all->count;
    in->next = k;
    starpu_data_prefetch_on_node(a->handle, starpu_worker_get_memory_node((unsigned)worker), 1);
  }
}

void sl__inputs_bind(sl__inputs *all, const sl_step *step) {
  if (!all) return;
  for (int i = 0; i < all->n; i++) {
    input *in = &all->input[i];
    sl__task *t = in->task;
    const int fits = all->announced == step->number && in->next >= 0 && in->array[in->next].rows == rows_of(in, step);
    t->ahead = fits ? 1 : -1; /* buffer 0 is its output */
    t->task->nbuffers = fits ? 2 : 1;
    if (fits) {
      STARPU_TASK_SET_HANDLE(t->task, in->array[in->next].handle, 1);
      STARPU_TASK_SET_MODE(t->task, STARPU_R, 1);
    }
    in->next = -1;
  }
  all->announced = -1;
}

size_t sl__inputs_bytes(const sl__inputs *all, const sl_schedule *schedule, int worker) {
  size_t bytes = 0;
  for (int i = 0; all && i < all->n; i++)
    if (schedule->worker[all->input[i].task->index] == worker) bytes += LOADED * all->input[i].bytes;
  return bytes;
}

size_t sl__inputs_reads(const sl__inputs *all, sl__read *read) {
  size_t n = 0;
  for (int i = 0; all && i < all->n; i++)
    for (int k = 0; k < KEPT; k++) {
      const array *a = &all->input[i].array[k];
      if (!a->rows) continue;
      if (read) read[n] = (sl__read){.data = a->handle, .node = all->input[i].task->index, .ahead = 1};
      n++;
    }
  return n;
}
