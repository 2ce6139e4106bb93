/* StarPU codelets: one for each operation, and further ones for its fast kernels and for OpenBLAS's products, because
 * these take other times. All have the same two functions. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/processors/cuda_context.h"
#include "tasks/starpu/codelet.h"
#include "tasks/starpu/device.h"
#include "tasks/starpu/simulated.h"

static uint32_t footprint(struct starpu_task *task) { return ((const sl__task *)task->cl_arg)->hash; }

typedef struct entry {
  struct starpu_codelet codelet;
  struct starpu_perfmodel model;
  const sl_operation *op;
  int fast, blas;
  char symbol[64];
  struct entry *next;
} entry;

struct starpu_codelet *sl__codelet_of(const sl_operation *op, int fast, int blas) {
  static entry *list; /* needs no lock: one thread at a time makes programs */
  for (entry *e = list; e; e = e->next)
    if (e->op == op && e->fast == fast && e->blas == blas) return &e->codelet;
  entry *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->op = op;
  e->fast = fast;
  e->blas = blas;
  e->next = list;
  list = e;
  static const char *const kernels[] = {[SL_GPU_EXACT] = "", [SL_GPU_FAST] = "_fast", [SL_GPU_TF32] = "_tf32"};
  snprintf(e->symbol, sizeof e->symbol, "starling_%s%s%s", op->name, kernels[fast], blas ? "_openblas" : "");
  e->model.type = STARPU_HISTORY_BASED;
  e->model.symbol = e->symbol;
  e->model.footprint = footprint;
#if SL_SIMULATED
  e->model.type = STARPU_PER_ARCH;
  e->model.arch_cost_function = sl__simulated_time;
#endif
  starpu_codelet_init(&e->codelet);
  if (!fast) {
    e->codelet.where = STARPU_CPU;
    e->codelet.cpu_funcs[0] = sl__run_on_cpu;
  }
#if SL_SIMULATED /* every operation has a CUDA kernel; none is called */
  e->codelet.where |= STARPU_CUDA;
  e->codelet.cuda_funcs[0] = sl__run_on_cpu;
  e->codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
#elif defined SL__GPU_WORKERS
  if (fast ? op->cuda_fast : op->cuda) {
    e->codelet.where |= STARPU_CUDA;
    e->codelet.cuda_funcs[0] = sl__run_on_gpu;
    e->codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
  }
#endif
  e->codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
  e->codelet.model = &e->model;
  e->codelet.name = op->name;
  return &e->codelet;
}
