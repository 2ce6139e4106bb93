/* Tasks on GPUs. A kernel is queued on its worker's stream between two events; StarPU reports the task's end, and then
 * the events tell when the device ran it. */
#include "tasks/starpu/device.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#if SL_SIMULATED

sl_status sl__devices_open(sl_runtime *runtime, const sl__task *asks, int copies, int bf16, sl__devices **devices) {
  (void)runtime, (void)asks, (void)copies, (void)bf16;
  *devices = NULL;
  return SL_OK;
}
size_t sl__devices_bytes(const sl__devices *devices) { return (void)devices, 0; }
void sl__devices_close(sl_runtime *runtime, sl__devices *devices) { (void)runtime, (void)devices; }
void sl__gpu_task(sl__task *t) { (void)t; }

#elif defined SL__GPU_WORKERS
#include "runtime/processors/cuda_context.h"
#include "tasks/graph/storage.h"
#include "tasks/starpu/residence.h"

struct sl__devices {
  sl_cuda *context[STARPU_NMAXWORKERS];
  sl_array *copies[STARPU_NMAXWORKERS]; /* [n_copies] of the task that the worker queues */
  size_t scratch;
  int fast, bf16, n_copies;
  sl_failure failure[STARPU_NMAXWORKERS]; /* texts belong to threads, so each worker keeps its own */
};

/* The last task given to each GPU, for the message when StarPU ends the process after a device failure. */
static _Atomic(const sl__task *) given[STARPU_NMAXWORKERS];
static int number[STARPU_NMAXWORKERS]; /* of the worker's GPU */

static void say(const char *text) {
  size_t n = 0;
  while (text[n]) n++;
  if (write(STDERR_FILENO, text, n) < 0) return;
}

/* Signal handler; calls only async-signal-safe functions. It runs once: the next time the default action ends the
 * process. */
static void aborted(int signal) {
  for (int w = 0; w < STARPU_NMAXWORKERS; w++) {
    const sl__task *t = atomic_load_explicit(&given[w], memory_order_relaxed);
    if (!t) continue;
    const char digits[] = {(char)('0' + number[w] / 10 % 10), (char)('0' + number[w] % 10), 0};
    say("starling: GPU "), say(digits + (number[w] < 10)), say(" was given layer '"), say(t->name), say("' ("),
        say(t->op->name),
        say(") last; StarPU ends the process (its message is above). A run goes on from its last checkpoint\n");
  }
  (void)signal;
}

static sl_cuda *context_of(const sl__task *t) { return t->devices->context[starpu_worker_get_id()]; }

/* Looks at the outputs of a task in a checking step, which may be slow. */
static sl_status look_for_nonfinite(sl__task *t, sl_cuda *cuda) {
  for (int k = 0; k < t->call.n_out; k++) {
    const sl_array *out = &t->call.out[k];
    const int64_t n = sl_shape_count(&out->shape);
    const size_t bytes = (size_t)n * sl_dtype_bytes(out->dtype);
    void *copy = malloc(bytes + 1);
    sl_status status =
        copy ? sl_cuda_read(cuda, copy, out->data, bytes) : sl_no_memory("for a copy of %zu bytes", bytes);
    const int fine = status != SL_OK || sl__all_finite(copy, out->dtype, n);
    free(copy);
    SL_TRY(status);
    if (fine) continue;
    sl__task_nonfinite(t);
    break;
  }
  return SL_OK;
}

void sl__run_on_gpu(void *buffers[], void *arg) {
  sl__task *t = arg;
  atomic_store_explicit(&t->state, SL__BEGUN, memory_order_relaxed);
  sl_cuda *cuda = context_of(t);
  sl_cuda_forget_error();
  atomic_store_explicit(&given[starpu_worker_get_id()], t, memory_order_relaxed);
  t->mark = t->recorder ? sl_cuda_mark_begin(cuda) : -1;
  if (atomic_load_explicit(&t->run->status, memory_order_relaxed) == SL_OK) {
    sl__task_bind(t, buffers);
    sl_call call = t->call;
    call.team = NULL;
    call.scratch_bytes = t->scratch_cuda;
    sl_status status = sl_operation_run_cuda(t->op, t->convert, t->fast, &call, cuda, sl_cuda_scratch_memory(cuda),
                                             t->devices->copies[starpu_worker_get_id()]);
    if (status == SL_OK && t->program_step->check) status = look_for_nonfinite(t, cuda);
    if (status != SL_OK) sl__task_fail(t, status);
  }
  if (t->mark >= 0) sl_cuda_mark_end(cuda, t->mark);
}

static void ended(void *arg) {
  sl__task *t = arg;
  if (t->mark >= 0) {
    int64_t start, end;
    sl_cuda_mark_read(context_of(t), t->mark, &start, &end);
    sl__task_record(t, starpu_worker_get_id(), start, end);
    t->mark = -1;
  }
  atomic_store_explicit(&t->run->last, t->index, memory_order_relaxed);
  if (t->n_moves && starpu_worker_get_id() == t->bound) sl__residences_after(t);
  sl__run_end(t);
}

void sl__gpu_task(sl__task *t) {
  t->told = 1;
  t->mark = -1;
  t->task->epilogue_callback_func = ended;
  t->task->epilogue_callback_arg = t;
}

static void open_device(void *arg) {
  sl__devices *d = arg;
  sl_status status = SL_OK;
  number[starpu_worker_get_id()] = starpu_worker_get_devid(starpu_worker_get_id());
  d->context[starpu_worker_get_id()] = sl_cuda_create(starpu_cuda_get_local_stream(), d->scratch, &status);
  if (status == SL_OK && d->fast) status = sl_cuda_open_blas(d->context[starpu_worker_get_id()], d->fast, d->bf16);
  sl_array *copies = d->copies[starpu_worker_get_id()] = calloc((size_t)d->n_copies + 1, sizeof *copies);
  if (status == SL_OK && !copies) status = sl_no_memory("for the copies of a task");
  d->failure[starpu_worker_get_id()] = sl_failure_keep(status);
}

static void close_device(void *arg) {
  sl__devices *d = arg;
  atomic_store(&given[starpu_worker_get_id()], NULL);
  sl_cuda_destroy(d->context[starpu_worker_get_id()]);
  free(d->copies[starpu_worker_get_id()]);
}

sl_status sl__devices_open(sl_runtime *runtime, const sl__task *asks, int copies, int bf16, sl__devices **devices) {
  *devices = NULL;
  if (sl_runtime_gpus(runtime) == 0) return SL_OK;
  sl__devices *d = calloc(1, sizeof *d);
  if (!d) return sl_no_memory("for the contexts of GPU workers");
  d->scratch = asks ? asks->scratch_cuda : 0;
  d->fast = sl_runtime_fast(runtime);
  d->bf16 = bf16;
  d->n_copies = copies;
  *devices = d;
  sigaction(SIGABRT, &(struct sigaction){.sa_handler = aborted, .sa_flags = (int)SA_RESETHAND}, NULL);
  starpu_execute_on_each_worker(open_device, d, STARPU_CUDA);
  for (int w = 0; w < STARPU_NMAXWORKERS; w++) {
    if (d->failure[w].code == SL_OK) continue;
    const sl_status status = sl_failure_again(&d->failure[w]);
    return asks ? sl_context(status, "preparing GPUs, whose scratch is that of layer '%s' (%s)", asks->name,
                             asks->op->name)
                : status;
  }
  return SL_OK;
}

size_t sl__devices_bytes(const sl__devices *d) {
  size_t bytes = 0;
  for (int w = 0; d && w < STARPU_NMAXWORKERS; w++)
    if (d->context[w] && sl_cuda_bytes(d->context[w]) > bytes) bytes = sl_cuda_bytes(d->context[w]);
  return bytes;
}

void sl__devices_close(sl_runtime *runtime, sl__devices *devices) {
  (void)runtime;
  if (!devices) return;
  starpu_execute_on_each_worker(close_device, devices, STARPU_CUDA);
  free(devices);
}

#else

sl_status sl__devices_open(sl_runtime *runtime, const sl__task *asks, int copies, int bf16, sl__devices **devices) {
  (void)asks, (void)copies, (void)bf16;
  *devices = NULL;
  if (sl_runtime_gpus(runtime) == 0) return SL_OK;
  return sl_blame(sl_fail(SL_EUNSUPPORTED, "this build has no CUDA kernels: configure --with-cuda, or use no GPUs"),
                  "gpus");
}

void sl__devices_close(sl_runtime *runtime, sl__devices *devices) { (void)runtime, (void)devices; }

size_t sl__devices_bytes(const sl__devices *devices) { return (void)devices, 0; }

void sl__gpu_task(sl__task *t) { (void)t; }
#endif
