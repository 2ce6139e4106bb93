/* A program: a graph lowered to StarPU tasks, ready to be run step after step.
 *
 * Handles, tasks and the dependencies between them are made once; each step resubmits the same tasks, with sequential
 * consistency off. Nothing is allocated, registered or touched for the first time inside a step, except
 * handles of batches that are announced for the first time (sl_program_ahead). */
#ifndef SL_PROGRAM_H
#define SL_PROGRAM_H

#include "runtime/exchange/compress.h"
#include "runtime/machine/runtime.h"
#include "runtime/machine/store.h"
#include "runtime/trace/dependencies.h"
#include "runtime/trace/recorder.h"
#include "runtime/trace/timeline.h"
#include "tasks/graph/graph.h"
#include "tasks/graph/plan.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/residence.h"
#include "tasks/schedule/schedule.h"
#include "tasks/spread/placement.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_program sl_program;

typedef struct sl_program_options {
  sl_recorder *recorder; /* receives a record per task; NULL: none */
  const sl_value *keep;  /* logical values that sl_program_read may read */
  int n_keep;
  double slack;      /* of memory planning, see memory.h; 0: the default */
  int no_priorities; /* leave all priorities at 0 */
  /* [ranks + 1] the runtime's rank r computes leaves [first_leaf[r], first_leaf[r + 1]); making the program and
   * running its steps are then collective. NULL: this process computes all leaves. */
  const int *first_leaf;
  const struct sl_exchange_type *exchange; /* how values move between ranks (exchange.h); NULL: the default */
  /* Compression of gradients between nodes, if the exchange compresses. Each rank keeps the residuals of the error
   * feedback, which start at zero, so the bits depend on the number of ranks. */
  sl_compression compression;
  const sl_machine *machine; /* for the predicted schedule; NULL: an ordinary one */
  const sl_machine *runs_on; /* in a simulation, the machine whose times the tasks take; NULL: `machine` */
  int planned; /* 1: with GPUs, each task runs in the memory where the predicted schedule puts it; 0: where
                  the policy puts it */
  int lru;     /* 1: StarPU chooses evictions from a full GPU (LRU); 0: the plan does */
  /* Stage of ZeRO (placement.h). 1, 2: each rank updates a share of the parameters and holds the optimizer state of
   * this share only. 3: each rank also holds only this share of the parameters. Exception: in ZeRO stages 1 to 3 the
   * ranks share one copy of the parameters if they are all on one node, `model_ranks` (below) is 0 or 1, and enough
   * shared memory is free. */
  int zero;
  /* The model ranks (placement.h): stages of a pipeline times `tensor`, the ranks of a stage that divide the folds of a
   * layer. Rank r is model rank r % model_ranks and computes leaves [first_leaf[r / model_ranks],
   * first_leaf[r / model_ranks + 1]). 0 or 1: one. */
  int model_ranks, tensor;
  sl_pipeline pipe;
} sl_program_options;

/* Lowers a complete logical graph by the plan. Adds parameters and state that the store lacks, initialised from
 * plan->seed; tensors that the store has must agree in type and shape. The store must outlive the program. With zero,
 * the store must have none of these tensors yet, and no other program may change them. If it fails on one of several
 * ranks, the others may wait for that rank for ever: the job must end. */
sl_status sl_program_create(sl_runtime *runtime, sl_store *store, const sl_graph *logical, const sl_plan *plan,
                            const sl_program_options *options, sl_program **program);
/* Waits for a step in flight. NULL is allowed. */
void sl_program_destroy(sl_program *program);

/* Submits one step and returns; *step is copied, its input arrays must stay until the wait. SL_EINVAL: a step is in
 * flight. SL_ESTARPU: no worker can run a task; names its layer. */
sl_status sl_program_submit(sl_program *program, const sl_step *step);
/* Waits for the step. If a kernel failed, returns the first failure and names its layer and operation; later tasks were
 * skipped, and their outputs are undefined. SL_EPOLICY, SL_ESTARPU: the step stands still (run.h); then StarPU is
 * abandoned (sl_runtime_abandon), and the process should end. */
sl_status sl_program_wait(sl_program *program);
sl_status sl_program_run(sl_program *program, const sl_step *step); /* submit and wait */
/* Announces the arrays of the next step while this one runs, so that they can be copied to GPUs early. They must be
 * filled and must not change until that step's wait. A hint; without GPUs it does nothing. */
void sl_program_ahead(sl_program *program, const sl_step *next);
/* Waits until no GPU copies from announced arrays; call it between steps before freeing them. NULL is allowed. */
void sl_program_forget_ahead(sl_program *program);
/* Copies a kept logical value, all its pieces in order, to host memory of its whole size. Call after the wait. */
sl_status sl_program_read(sl_program *program, sl_value logical, void *to);
/* Runs the step again and checks every output of every operation. SL_ENONFINITE names the first operation, in the order
 * of the graph, with an output that is not finite, or a parameter that was not finite before. SL_OK: all are finite.
 * Collective if the program is. */
sl_status sl_program_find_nonfinite(sl_program *program, const sl_step *step);

/* Restricts the following steps to these kinds of workers: a sum of 1 << sl_worker_kind. The results do not depend on
 * it. Call between steps. */
void sl_program_allow(sl_program *program, unsigned kinds);

int sl_program_running(const sl_program *program); /* a step is in flight */
/* The progress of a step in words, for a thread that watches it: "step 12, after layer 'fc1' (linear)". */
char *sl_program_position(const sl_program *program, char *text, size_t n);
long long sl_program_step_number(const sl_program *program); /* of the step submitted last; 0: none yet */
/* Bytes that this rank has sent to other nodes in all steps; 0 if the exchange does not count them. Call between steps.
 */
uint64_t sl_program_sent(const sl_program *program);
/* Seconds since any exchange made progress; 0 if none is under way. what: "the sum of layer 'fc1' over the ranks
 * (exchange 3 of 9)"; in a mesh the text also names the stages or parts between which a message goes, or the stage and
 * part of the ranks that a sum goes over. late[ranks]: 1 for the ranks that it waits for; all 0 if the exchange cannot
 * tell. */
double sl_program_stalled(const sl_program *program, char *what, size_t n, char *late);

const sl_graph *sl_program_graph(const sl_program *program); /* the step graph */
const sl_schedule *sl_program_schedule(const sl_program *program);
const sl_memory *sl_program_memory(const sl_program *program);
/* The memory plan of this rank's GPU i; NULL: none. */
const sl_residence *sl_program_residence(const sl_program *program, int gpu);
/* Predicted most bytes that a run takes in the memory of this rank's GPU number i: data, batches copied ahead, and the
 * kernels' contexts. *beside: the bytes of these contexts, for scratch memory and cuBLAS. 0: not known. */
size_t sl_program_gpu_bytes(const sl_program *program, int gpu, size_t *beside);
/* Bytes of this process's memory that the program takes, including its tensors and its threads' scratch memory; shared
 * = 1: without these two, for a second program over the same store. */
size_t sl_program_bytes(const sl_program *program, int shared);
double sl_program_flops(const sl_program *program);                 /* of one step, by the operations' cost rules */
sl_dependencies sl_program_dependencies(const sl_program *program); /* of the step graph; borrowed */
/* Makes a timeline of the records so far, with step graph, workers and counters; the caller adds the clocks. Call
 * between steps. */
sl_status sl_program_timeline(const sl_program *program, const char *model, sl_timeline **timeline);
/* Seconds that StarPU's performance model predicts for a node's task on that worker; NaN: not calibrated. */
double sl_program_expected(const sl_program *program, int node, int worker);

#ifdef __cplusplus
}
#endif
#endif
