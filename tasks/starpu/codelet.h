/* The interface to StarPU: one codelet per operation, and the functions that StarPU calls to run a task. Private to
 * tasks/. */
#ifndef SL_STARPU_CODELET_H
#define SL_STARPU_CODELET_H

#include <starpu.h>
#include <stdatomic.h>

#include "runtime/machine/runtime.h"
#include "runtime/trace/recorder.h"
#include "tasks/graph/graph.h"
#include "tasks/schedule/machine.h"
#include "tasks/starpu/run.h"

struct sl_program;
typedef struct sl__move sl__move;
typedef struct sl__devices sl__devices; /* contexts of the CUDA workers; NULL without any */

/* Work done by one worker; only its thread writes here. */
typedef struct sl__counter {
  _Alignas(64) int64_t tasks;
  int64_t busy; /* ns spent in kernels */
} sl__counter;

/* A task's argument. */
typedef struct sl__task {
  sl_call call;
  sl_array *arrays; /* laid out by sl_call_describe */
  int *buffer_of;   /* [n_parts + outputs] index among the task's StarPU buffers */
  /* n_parts: number of input values; each row block is one. first_out: index of the first output in `arrays`. split: 1:
   * an argument consists of several row blocks. */
  int n_parts, first_out, split;
  int index;     /* index in the step graph */
  uint32_t hash; /* hash of everything that affects its time; identifies its performance model */
  const sl_step *program_step;
  sl__run *run;
  sl_recorder *recorder;
  sl__devices *devices;
  size_t scratch_cuda;
  char fast;                        /* sl_gpu_kernels; FAST, TF32: only op->cuda_fast runs */
  const sl_operation *op, *convert; /* convert: as in storage.h */
  const char *name;                 /* layer */
  struct starpu_task *task;
  const struct sl__task *tasks; /* the program's tasks, by node */
  const int *before;            /* nodes it waits for */
  int n_before;
  int64_t submit, taken, end; /* times of this step, ns; set when recording */
  atomic_char state;          /* SL__WAITING or a later state of run.h */
  char exchange;              /* an exchange: no kernel and no worker */
  atomic_int *lacking; /* of an exchange: the number of its values that are not yet in host memory; NULL: unknown */
  char told;           /* 1: StarPU reports the task's end (device.h) */
  sl__move *moves;     /* [n_moves] moves to make when it has ended (residence.h) */
  int n_moves, bound;  /* bound: StarPU worker chosen by the plan; -1: any */
  int on_host;         /* 1: the plan leaves the task to CPU workers */
  atomic_int worker;   /* worker that ran it last; -1: none yet */
  int ahead;           /* index of the StarPU buffer with its rows, copied a step ahead (inputs.h); -1: none */
  int mark;            /* on a GPU, while recorded: number of the pair of CUDA events that time the kernel; else -1 */
  /* In a simulation: */
  double simulated[SL_KINDS]; /* mean seconds on each kind of worker */
  double deviation[SL_KINDS]; /* of these seconds (times.h) */
  double drawn;               /* seconds that the running task takes; 0: it does not run */
  int64_t executed;           /* how many times it has run */
  sl__counter *counters;      /* by worker */
} sl__task;

/* The time at which the task became ready: the end of its last predecessor, or its submission if later. */
int64_t sl__task_ready(const sl__task *task);
/* The StarPU task of a node; NULL for an exchange. */
struct starpu_task *sl__program_task(const struct sl_program *program, int node);
/* Drops the plans of GPU memory, for a caller that chooses the workers of single tasks. */
void sl__program_unbind(struct sl_program *program);
/* Makes StarPU report when a worker takes the task; for recorded tasks. */
void sl__task_watch(sl__task *task);
/* Lets the task run on these kinds of workers: a sum of 1 << sl_worker_kind. Fast kernels stay on GPUs. */
void sl__task_allow(sl__task *task, unsigned kinds);
/* Writes the addresses of this execution into the task's call. */
void sl__task_bind(sl__task *task, void *buffers[]);
/* Keeps a failed kernel's error text if it is the step's first failure. */
void sl__task_fail(sl__task *task, sl_status status);
/* Notes, in a checking step, that an output of the task is not finite. */
void sl__task_nonfinite(sl__task *task);
/* Counts and records the task's run on this worker, from start to end in ns. Does nothing without a recorder. */
void sl__task_record(sl__task *task, int worker, int64_t start, int64_t end);

/* StarPU's CPU function of every codelet. */
void sl__run_on_cpu(void *buffers[], void *task);

/* The codelet of an operation, or of its fast GPU kernel, made at its first use and kept until the process ends,
 * because StarPU keeps its performance model. blas: with OpenBLAS's products. NULL when out of memory. */
struct starpu_codelet *sl__codelet_of(const sl_operation *op, int fast, int blas);
int sl__all_finite(const void *data, sl_dtype dtype, int64_t n);

#endif
