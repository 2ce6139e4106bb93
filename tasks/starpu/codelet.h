/* Between the step graph and StarPU: a codelet per operation, and the functions that StarPU calls to run a task.
 * Private to tasks/. */
#ifndef SL_STARPU_CODELET_H
#define SL_STARPU_CODELET_H

#include <starpu.h>
#include <stdatomic.h>

#include "runtime/machine/runtime.h"
#include "runtime/trace/recorder.h"
#include "tasks/graph/graph.h"
#include "tasks/starpu/run.h"

struct sl_program;
typedef struct sl__devices sl__devices; /* what CUDA workers need; NULL without any */

/* What a worker has done; written by its thread alone. */
typedef struct sl__counter {
  _Alignas(64) int64_t tasks;
  int64_t busy; /* ns in kernels */
} sl__counter;

/* A task's argument. */
typedef struct sl__task {
  sl_call call;
  sl_array *arrays;   /* as sl_call_describe lays them out */
  int16_t *buffer_of; /* [n_parts + outputs] place among the task's StarPU buffers */
  int n_parts, first_out, split;
  int index;     /* node of the step graph */
  uint32_t hash; /* of all that changes its time, for performance models */
  const sl_step *program_step;
  sl__run *run;
  sl_recorder *recorder;
  sl__devices *devices;
  size_t scratch_cuda;
  const sl_operation *op;
  const char *name; /* layer */
  struct starpu_task *task;
  const struct sl__task *tasks; /* of the program, by node */
  const int *before;            /* nodes it waits for */
  int n_before;
  int64_t submit, taken, end; /* of this step, ns; recorded ones only */
  atomic_char state;          /* SL__WAITING ... */
  char exchange;              /* no kernel, no worker */
  char told;                  /* that it has ended StarPU tells, not its kernel: a device is done later */
  sl__counter *counters;      /* by worker */
} sl__task;

/* When the last of the tasks that it waits for ended, or it was submitted, if later. */
int64_t sl__task_ready(const sl__task *task);
/* StarPU's task of a node; NULL: it is an exchange. */
struct starpu_task *sl__program_task(const struct sl_program *program, int node);
/* For a recorded task: has StarPU tell when a worker takes it. */
void sl__task_watch(sl__task *task);
/* Has StarPU tell when the task has ended. */
void sl__task_tell(sl__task *task);

/* The codelet of an operation; made at its first use, kept for the life of the process since StarPU keeps its
 * performance model. NULL when out of memory. */
struct starpu_codelet *sl__codelet_of(const sl_operation *op);
int sl__all_finite(const void *data, sl_dtype dtype, int64_t n);

sl_status sl__devices_open(sl_runtime *runtime, size_t scratch, sl__devices **devices);
void sl__devices_close(sl_runtime *runtime, sl__devices *devices);

#endif
