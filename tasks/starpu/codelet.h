/* The interface to StarPU: one codelet per operation, and the functions that StarPU calls to run a task. Private to
 * tasks/. */
#ifndef SL_STARPU_CODELET_H
#define SL_STARPU_CODELET_H

#include <starpu.h>
#include <stdatomic.h>

#include "runtime/machine/runtime.h"
#include "runtime/trace/recorder.h"
#include "tasks/graph/graph.h"
#include "tasks/starpu/run.h"

struct sl_program;
typedef struct sl__devices sl__devices; /* contexts of the CUDA workers; NULL without any */

/* Work done by one worker; only its thread writes here. */
typedef struct sl__counter {
  _Alignas(64) int64_t tasks;
  int64_t busy; /* ns spent in kernels */
} sl__counter;

/* A task's argument. */
typedef struct sl__task {
  sl_call call;
  sl_array *arrays;   /* laid out by sl_call_describe */
  int16_t *buffer_of; /* [n_parts + outputs] index among the task's StarPU buffers */
  int n_parts, first_out, split;
  int index;     /* index in the step graph */
  uint32_t hash; /* hash of everything that changes its time, for performance models */
  const sl_step *program_step;
  sl__run *run;
  sl_recorder *recorder;
  sl__devices *devices;
  size_t scratch_cuda;
  const sl_operation *op;
  const char *name; /* layer */
  struct starpu_task *task;
  const struct sl__task *tasks; /* the program's tasks, by node */
  const int *before;            /* nodes it waits for */
  int n_before;
  int64_t submit, taken, end; /* times of this step, ns; set when recording */
  atomic_char state;          /* SL__WAITING or a later state of run.h */
  char exchange;              /* an exchange: no kernel and no worker */
  char told;                  /* 1: StarPU reports the task's end, since a device finishes after its kernel returns */
  sl__counter *counters;      /* by worker */
} sl__task;

/* The time at which the task became ready: the end of its last predecessor, or its submission if later. */
int64_t sl__task_ready(const sl__task *task);
/* The StarPU task of a node; NULL for an exchange. */
struct starpu_task *sl__program_task(const struct sl_program *program, int node);
/* Makes StarPU report when a worker takes the task; for recorded tasks. */
void sl__task_watch(sl__task *task);
/* Makes StarPU report when the task has ended. */
void sl__task_tell(sl__task *task);

/* The codelet of an operation, made at its first use and kept until the process ends, because StarPU keeps its
 * performance model. NULL when out of memory. */
struct starpu_codelet *sl__codelet_of(const sl_operation *op);
int sl__all_finite(const void *data, sl_dtype dtype, int64_t n);

sl_status sl__devices_open(sl_runtime *runtime, size_t scratch, sl__devices **devices);
void sl__devices_close(sl_runtime *runtime, sl__devices *devices);

#endif
