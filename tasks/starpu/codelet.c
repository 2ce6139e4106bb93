/* StarPU codelets: one per operation, all with the same two entry functions. */
#include "tasks/starpu/codelet.h"

#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"

#if defined SL_HAVE_CUDA && defined STARPU_USE_CUDA
#define WITH_CUDA 1
#include "runtime/machine/cuda_context.h"
#else
#define WITH_CUDA 0
#endif

/* --- running a task -------------------------------------------------------------------------------------------------
 */

/* Fills the addresses of this execution into the call. */
static void bind(sl__task *t, void *buffers[]) {
  sl_array *a = t->arrays;
  for (int k = 0; k < t->n_parts; k++) a[k].data = (void *)STARPU_VECTOR_GET_PTR(buffers[t->buffer_of[k]]);
  if (t->split)
    for (int k = 0; k < t->call.n_in; k++)
      a[t->n_parts + k].data = a[t->n_parts + k].parts > 1 ? NULL : a[t->n_parts + k].part->data;
  for (int k = 0; k < t->call.n_out; k++)
    a[t->first_out + k].data = (void *)STARPU_VECTOR_GET_PTR(buffers[t->buffer_of[t->n_parts + k]]);
}

static void fail(sl__task *t, sl_status status) {
  if (atomic_exchange(&t->run->claimed, 1) != 0) return;
  snprintf(t->run->text, sizeof t->run->text, "layer '%s' (%s): %s", t->name, t->op->name, sl_error());
  atomic_store(&t->run->status, (int)status);
}

static int is_finite_bits(uint32_t word) { return (word & 0x7f800000u) != 0x7f800000u; }

int sl__all_finite(const void *data, sl_dtype dtype, int64_t n) {
  int fine = 1;
  if (dtype == SL_F32)
    for (int64_t i = 0; i < n; i++) {
      uint32_t word;
      memcpy(&word, (const char *)data + 4 * i, 4);
      fine &= is_finite_bits(word);
    }
  else if (dtype == SL_F64)
    for (int64_t i = 0; i < n; i++) fine &= __builtin_isfinite(((const double *)data)[i]);
  return fine;
}

static void look_for_nonfinite(sl__task *t) {
  for (int k = 0; k < t->call.n_out; k++)
    if (!sl__all_finite(t->call.out[k].data, t->call.out[k].dtype, sl_shape_count(&t->call.out[k].shape))) {
      int seen = atomic_load(&t->run->first_bad);
      while (t->index < seen && !atomic_compare_exchange_weak(&t->run->first_bad, &seen, t->index)) {
      }
      return;
    }
}

int64_t sl__task_ready(const sl__task *t) {
  int64_t ready = t->submit;
  for (int k = 0; k < t->n_before; k++)
    if (t->tasks[t->before[k]].end > ready) ready = t->tasks[t->before[k]].end;
  return ready;
}

static void told(void *arg) { sl__run_end(arg); }

void sl__task_tell(sl__task *t) {
  t->told = 1;
  t->task->callback_func = told;
  t->task->callback_arg = t;
}

static void taken(void *arg) { ((sl__task *)arg)->taken = sl_now(); }

void sl__task_watch(sl__task *t) {
  t->task->prologue_callback_pop_func = taken;
  t->task->prologue_callback_pop_arg = t;
}

static void record(sl__task *t, int64_t start) {
  atomic_store_explicit(&t->run->last, t->index, memory_order_relaxed);
  if (!t->told) sl__run_end(t);
  if (!t->recorder) return;
  const int64_t end = t->end = sl_now(), ready = sl__task_ready(t);
  const int worker = starpu_worker_get_id();
  t->counters[worker].tasks++;
  t->counters[worker].busy += end - start;
  /* A worker may take a task before it is ready, to prefetch its finished inputs. */
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

static void run_on_cpu(void *buffers[], void *arg) {
  sl__task *t = arg;
  int64_t start = t->recorder ? sl_now() : 0;
  atomic_store_explicit(&t->state, SL__BEGUN, memory_order_relaxed);
  if (atomic_load_explicit(&t->run->status, memory_order_relaxed) == SL_OK) {
    bind(t, buffers);
    t->call.team = sl_team_current();
    sl_status status = t->op->cpu[sl_isa_current()](&t->call);
    if (status != SL_OK)
      fail(t, status);
    else if (t->program_step->check)
      look_for_nonfinite(t);
  }
  record(t, start);
}

#if WITH_CUDA
struct sl__devices {
  sl_cuda *context[STARPU_NMAXWORKERS];
  size_t scratch;
  atomic_int status;
};

static void run_on_cuda(void *buffers[], void *arg) {
  sl__task *t = arg;
  int64_t start = t->recorder ? sl_now() : 0;
  atomic_store_explicit(&t->state, SL__BEGUN, memory_order_relaxed);
  if (atomic_load_explicit(&t->run->status, memory_order_relaxed) == SL_OK) {
    bind(t, buffers);
    sl_call call = t->call;
    call.team = NULL;
    call.scratch_bytes = t->scratch_cuda;
    sl_status status = t->op->cuda(&call, t->devices->context[starpu_worker_get_id()]);
    if (status != SL_OK) fail(t, status);
  }
  record(t, start); /* the end is the time of queueing: the device runs the work later */
}

static void open_device(void *arg) {
  sl__devices *d = arg;
  sl_status status = SL_OK;
  d->context[starpu_worker_get_id()] = sl_cuda_create(starpu_cuda_get_local_stream(), d->scratch, &status);
  if (status != SL_OK) atomic_store(&d->status, (int)status);
}

static void close_device(void *arg) {
  sl__devices *d = arg;
  sl_cuda_destroy(d->context[starpu_worker_get_id()]);
}
#endif

sl_status sl__devices_open(sl_runtime *runtime, size_t scratch, sl__devices **devices) {
  *devices = NULL;
  if (sl_runtime_gpus(runtime) == 0) return SL_OK;
#if WITH_CUDA
  sl__devices *d = calloc(1, sizeof *d);
  if (!d) return sl_no_memory("for the contexts of GPU workers");
  d->scratch = scratch;
  *devices = d;
  starpu_execute_on_each_worker(open_device, d, STARPU_CUDA);
  sl_status status = (sl_status)atomic_load(&d->status);
  return status == SL_OK ? SL_OK : sl_fail(status, "a GPU cannot be prepared: less than %zu bytes free", scratch);
#else
  (void)scratch;
  return sl_blame(sl_fail(SL_EUNSUPPORTED, "this build has no CUDA kernels: configure --with-cuda, or use no GPUs"),
                  "gpus");
#endif
}

void sl__devices_close(sl_runtime *runtime, sl__devices *devices) {
  (void)runtime;
  if (!devices) return;
#if WITH_CUDA
  starpu_execute_on_each_worker(close_device, devices, STARPU_CUDA);
  free(devices);
#endif
}

/* --- codelets -------------------------------------------------------------------------------------------------------
 */

static uint32_t footprint(struct starpu_task *task) { return ((const sl__task *)task->cl_arg)->hash; }

typedef struct entry {
  struct starpu_codelet codelet;
  struct starpu_perfmodel model;
  const sl_operation *op;
  char symbol[64];
  struct entry *next;
} entry;

struct starpu_codelet *sl__codelet_of(const sl_operation *op) {
  static entry *list; /* only one thread at a time makes programs */
  for (entry *e = list; e; e = e->next)
    if (e->op == op) return &e->codelet;
  entry *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->op = op;
  e->next = list;
  list = e;
  snprintf(e->symbol, sizeof e->symbol, "starling_%s", op->name);
  e->model.type = STARPU_HISTORY_BASED;
  e->model.symbol = e->symbol;
  e->model.footprint = footprint;
  starpu_codelet_init(&e->codelet);
  e->codelet.where = STARPU_CPU;
  e->codelet.cpu_funcs[0] = run_on_cpu;
#if WITH_CUDA
  if (op->cuda) {
    e->codelet.where |= STARPU_CUDA;
    e->codelet.cuda_funcs[0] = run_on_cuda;
    e->codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
  }
#endif
  e->codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
  e->codelet.model = &e->model;
  e->codelet.name = op->name;
  return &e->codelet;
}
