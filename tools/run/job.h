/* A job: machine, ranks, model, data and programs, for all commands that compute. A command calls the functions that it
 * needs in the order of this header, and ends with sl__job_close, also after a failure. */
#ifndef SL_TOOLS_JOB_H
#define SL_TOOLS_JOB_H

#include "runtime/data/loader.h"
#include "runtime/processors/cuda_context.h"
#include "tasks/starpu/program.h"
#include "tools/files/model_file.h"
#include "tools/ranks/balance.h"
#include "tools/ranks/ranks.h"
#include "tools/ranks/sync.h"
#include "tools/run/choice.h"
#include "tools/run/evaluate.h"
#include "tools/run/machine.h"
#include "tools/settings/options.h"

typedef struct sl__job {
  const sl__options *o; /* must outlive the job */
  int trains;           /* 1: steps are scored and must be finite, and there is an evaluator; 0: steps are only timed */
  int records;          /* 1: tasks are recorded */
  sl__model_file *file; /* file of the model; NULL: the model was named */
  sl__model_facts facts;    /* facts.sized belongs to the job if the model was named, else to the file */
  char name[SL_SIZES_TEXT]; /* the model's, with its sizes */
  sl_runtime *runtime;
  sl__ranks ranks;
  sl__balance balance;
  sl__choice choice; /* of workers */
  sl__sync sync;
  sl_pipeline pipe; /* of training steps */
  sl_plan own;      /* with --sync: the plan of the steps that this rank runs alone (sl__sync_plan) */
  sl_data data;
  sl_store *store;
  sl_recorder *recorder; /* NULL: nothing is recorded */
  sl_network network;    /* of a training step */
  sl_program *program;   /* likewise */
  sl__evaluator evaluator;
  sl_loader *loader;
  void *pinned; /* the loader's slots, pinned for copies to GPUs; NULL: they are not */
  size_t pinned_bytes;
  sl_machine machine; /* of the predicted schedule, if known */
  int machine_known;
  int64_t step;      /* last step run; 0: none */
  double flops;      /* of a step, over all ranks */
  int64_t predicted; /* peak memory of this rank, bytes */
  uint64_t sent;     /* bytes that closed programs sent to other nodes */
} sl__job;

/* Sets the model that o->model names, and its training options. */
sl_status sl__job_name(sl__job *job, const sl__options *o);
/* Replaces the named model by this one; the job takes ownership. */
void sl__job_take_model(sl__job *job, sl_model *model);
/* Opens the model in the file or run o->model. */
sl_status sl__job_file(sl__job *job, const sl__options *o);
/* If a launcher started several ranks, starts the runtime now, before anything that can fail on one rank only: the
 * others would wait for it in MPI_Init. On one rank the runtime starts later, so that a wrong command line fails
 * sooner. */
sl_status sl__job_meet(sl__job *job, const sl__options *o, const char *command);
/* Starts runtime and ranks unless they run already. command: its name. Refuses several ranks unless `ranks` is set. */
sl_status sl__job_start(sl__job *job, const char *command, int ranks);
/* Makes the plan from the options (without --batch: from the file), and this rank's leaves. */
sl_status sl__job_plan(sl__job *job);
/* Opens the data of --data, or else the default image set; with `made_up`, generates noise instead. For a named model
 * this sets image size and classes, or length and vocabulary. */
sl_status sl__job_data(sl__job *job, int made_up);
/* Compares program, options, plan and data of all ranks: ranks that differ would wait for one another, or compute
 * different things. Collective. SL_EPLAN names what differs. */
sl_status sl__job_compare(const sl__job *job);
/* Makes store, network and programs of training steps for this rank's current leaves. */
sl_status sl__job_build(sl__job *job);
/* Undoes sl__job_build, sl__job_load and all steps. */
void sl__job_unbuild(sl__job *job);
/* Sets the precision, and the order of sums that goes with it. Call it before sl__job_build. */
void sl__job_set_precision(sl__job *job, sl_precision precision);
/* Makes only store and evaluator, and fills them from the file. */
sl_status sl__job_build_evaluator(sl__job *job);
/* The logical values that can be read after a training step; returns their number. */
enum { SL__JOB_KEEPS = 5 };
static inline int sl__job_keeps(const sl__job *job, sl_value keep[SL__JOB_KEEPS]) {
  const sl_network *n = &job->network;
  keep[0] = n->loss, keep[1] = n->correct, keep[2] = n->count, keep[3] = n->clip, keep[4] = n->scale;
  return !job->trains ? 1 : n->clip == SL_NONE ? 3 : n->scale == SL_NONE ? 4 : SL__JOB_KEEPS;
}
/* Starts reading the batches after job->step. */
sl_status sl__job_load(sl__job *job);
/* Makes programs and loader again over the same store, after the leaves have changed. */
sl_status sl__job_rebuild(sl__job *job);

/* Scores of a step over the global batch; only the loss if the job does not train. */
typedef struct sl__job_scores {
  double loss;           /* mean, nats */
  double correct, count; /* correct predictions; targets that count */
  double scale;          /* loss scale; 0: none */
  int overflow;          /* 1: gradients overflowed in fp16, so the step halved the scale and changed nothing else */
} sl__job_scores;

/* One training step: takes the next batch, runs the tasks, reads the scores (NULL: none), and counts job->step. If the
 * job trains, a loss or clip factor that is not finite gives SL_ENONFINITE with the operation's name; then nothing was
 * updated. */
sl_status sl__job_step(sl__job *job, double learning_rate, sl__job_scores *scores);

/* With --sync: makes the model the same on all ranks by averaging (sl__sync_meet), unless this was done after the last
 * step. Collective. Call it before reading the model. */
sl_status sl__job_sync(sl__job *job);

/* Skips a step: reads its batch, computes nothing, and counts it. */
sl_status sl__job_skip(sl__job *job);

/* The name of this rank's first GPU if fast kernels compute; else "". */
void sl__job_fast_gpu(const sl__job *j, char *name, size_t n);
/* Whether products of bf16 add up by blocks on this machine if no option says how: it has AMX, and no GPU takes part.
 */
int sl__job_prefers_blocks(const sl__options *options, sl_precision precision, int gpus);
/* Prints which operations of the graph have a fast kernel, if kernels is not SL_GPU_EXACT: these run on GPUs only. */
void sl__job_print_fast(const sl_graph *graph, sl_gpu_kernels kernels, sl_precision precision);
/* Prints a line if products of bf16 add up by blocks; with --pipe-order auto, a line with the order of passes; with
 * --gpu-kernels fast, a line with the operations that have a fast kernel. */
void sl__job_print_choices(const sl__job *job);
uint64_t sl__job_sent(const sl__job *job); /* bytes that this rank sent to other nodes so far */
void sl__job_close(sl__job *job);          /* a zeroed one is allowed */

#endif
