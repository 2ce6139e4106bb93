/* Functions common to tasks on CPU and GPU workers, and the function that runs a task on a CPU worker. */
#include "tasks/starpu/codelet.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/time.h"
#include "tasks/graph/storage.h"

void sl__task_bind(sl__task *t, void *buffers[]) {
  sl_array *a = t->arrays;
  for (int k = 0; k < t->n_parts; k++) a[k].data = (void *)STARPU_VECTOR_GET_PTR(buffers[t->buffer_of[k]]);
  if (t->split)
    for (int k = 0; k < t->call.n_in; k++)
      a[t->n_parts + k].data = a[t->n_parts + k].parts > 1 ? NULL : a[t->n_parts + k].part->data;
  for (int k = 0; k < t->call.n_out; k++)
    a[t->first_out + k].data = (void *)STARPU_VECTOR_GET_PTR(buffers[t->buffer_of[t->n_parts + k]]);
  t->call.batch = t->ahead < 0 ? NULL : (const void *)STARPU_VECTOR_GET_PTR(buffers[t->ahead]);
  atomic_store_explicit(&t->worker, starpu_worker_get_id(), memory_order_relaxed);
}

void sl__task_fail(sl__task *t, sl_status status) {
  if (atomic_exchange(&t->run->claimed, 1) != 0) return;
  snprintf(t->run->text, sizeof t->run->text, "layer '%s' (%s): %s", t->name, t->op->name, sl_error());
  atomic_store(&t->run->status, (int)status);
}

static int is_finite_bits(uint32_t word) { return (word & 0x7f800000u) != 0x7f800000u; }
static int is_finite_upper(uint16_t half) { return (half & 0x7f80u) != 0x7f80u; }

int sl__all_finite(const void *data, sl_dtype dtype, int64_t n) {
  int fine = 1;
  if (dtype == SL_F32)
    for (int64_t i = 0; i < n; i++) {
      uint32_t word;
      memcpy(&word, (const char *)data + 4 * i, 4);
      fine &= is_finite_bits(word);
    }
  else if (dtype == SL_F16)
    for (int64_t i = 0; i < n; i++) fine &= (((const uint16_t *)data)[i] & 0x7c00u) != 0x7c00u;
  else if (dtype == SL_BF16)
    for (int64_t i = 0; i < n; i++) fine &= is_finite_upper(((const uint16_t *)data)[i]);
  else if (dtype == SL_F64)
    for (int64_t i = 0; i < n; i++) fine &= __builtin_isfinite(((const double *)data)[i]);
  return fine;
}

void sl__task_nonfinite(sl__task *t) {
  int seen = atomic_load(&t->run->first_bad);
  while (t->index < seen && !atomic_compare_exchange_weak(&t->run->first_bad, &seen, t->index)) {
  }
}

static void look_for_nonfinite(sl__task *t) {
  for (int k = 0; k < t->call.n_out; k++)
    if (!sl__all_finite(t->call.out[k].data, t->call.out[k].dtype, sl_shape_count(&t->call.out[k].shape))) {
      sl__task_nonfinite(t);
      return;
    }
}

int64_t sl__task_ready(const sl__task *t) {
  int64_t ready = t->submit;
  for (int k = 0; k < t->n_before; k++)
    if (t->tasks[t->before[k]].end > ready) ready = t->tasks[t->before[k]].end;
  return ready;
}

static void taken(void *arg) { ((sl__task *)arg)->taken = sl_now(); }

void sl__task_watch(sl__task *t) {
  t->task->prologue_callback_pop_func = taken;
  t->task->prologue_callback_pop_arg = t;
}

void sl__task_record(sl__task *t, int worker, int64_t start, int64_t end) {
  t->end = end;
  const int64_t ready = sl__task_ready(t);
  t->counters[worker].tasks++;
  t->counters[worker].busy += end - start;
  /* A worker may take a task before it is ready, to prefetch the inputs that are finished. */
  sl_recorder_add(t->recorder, &(sl_record){.step = t->program_step->number,
                                            .submit = t->submit,
                                            .ready = ready,
                                            .taken = t->taken > ready ? t->taken : ready,
                                            .start = start,
                                            .end = end,
                                            .node = t->index,
                                            .worker = (int16_t)worker,
                                            .kind = SL_RECORD_TASK});
}

void sl__task_allow(sl__task *t, unsigned kinds) {
  if (t->fast) return;
  t->task->where = (kinds & 1u << SL_WORKER_CPU ? STARPU_CPU : 0) | (kinds & 1u << SL_WORKER_CUDA ? STARPU_CUDA : 0);
}

void sl__run_on_cpu(void *buffers[], void *arg) {
  sl__task *t = arg;
  int64_t start = t->recorder ? sl_now() : 0;
  atomic_store_explicit(&t->state, SL__BEGUN, memory_order_relaxed);
  if (atomic_load_explicit(&t->run->status, memory_order_relaxed) == SL_OK) {
    sl__task_bind(t, buffers);
    t->call.team = sl_team_current();
    sl_status status = sl_operation_run(t->op, t->convert, sl_isa_current(), &t->call);
    if (status != SL_OK)
      sl__task_fail(t, status);
    else if (t->program_step->check)
      look_for_nonfinite(t);
  }
  atomic_store_explicit(&t->run->last, t->index, memory_order_relaxed);
  if (!t->told) sl__run_end(t);
  if (t->recorder) sl__task_record(t, starpu_worker_get_id(), start, sl_now());
}
