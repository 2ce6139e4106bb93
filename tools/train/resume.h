/* The progress of a run, which its checkpoints record beside the tensors, and resuming from it. */
#ifndef SL_TOOLS_RESUME_H
#define SL_TOOLS_RESUME_H

#include "models/rate.h"
#include "tools/files/model_file.h"
#include "tools/ranks/ranks.h"
#include "tools/run/evaluate.h"
#include "tools/train/spikes.h"

/* Sums over some steps, for the lines of metrics. */
typedef struct sl__sums {
  int64_t steps, overflows;
  double loss, correct, count;
} sl__sums;

enum { SL__SKIPPED = 64 };

typedef struct sl__progress {
  int64_t step, best_step; /* best_step 0: no model kept yet */
  sl__score best;          /* of that model: accuracy, loss and samples */
  sl__score validation;    /* the last one, likewise; samples 0: none yet */
  uint64_t data;           /* digest of the tokens; 0 for images, whose mean and deviation reveal other data */
  char fast[256];          /* name of rank 0's GPU if fast kernels computed; "": exact kernels */
  sl__sums metrics, shown; /* since the last line of metrics; from the last printed line to that line */
  int spikes;              /* 1: the fields below are used (--on-spike) */
  sl__losses losses;
  int n_skipped;
  int64_t skipped[SL__SKIPPED]; /* steps that were left out */
} sl__progress;

/* Makes a checkpoint's header: facts (with the plan), schedule, progress, and the text of config.yaml. NULL: out of
 * memory. */
json_t *sl__checkpoint_header(const sl__model_facts *facts, const sl_rate *rate, const sl__progress *progress,
                              const char *configuration);

typedef struct sl__resume_options {
  const char *run; /* the run directory. Only rank 0 need see it; if all do, each rank reads what it alone holds */
  const sl__ranks *ranks;
  const sl__model_facts *facts; /* of the training to resume */
  const sl_rate *rate;
  uint64_t data; /* as in sl__progress */
  sl_store *store;
  int64_t most; /* newest step to accept; 0: any */
} sl__resume_options;

/* Collective; the same status on all ranks. Reads the newest whole checkpoint of this training: its tensors into the
 * store, and *progress (zeros: there is none). Warnings name the checkpoints that it skips. If none of several can be
 * used, SL_EPLAN names the option that differs, SL_EFORMAT the file. */
sl_status sl__resume(const sl__resume_options *options, sl__progress *progress);
/* Collective: after rank 0 has read the file into its tensors of the store, gives the other ranks theirs. graph: only
 * the tensors of this graph; NULL: all. file: NULL on other ranks. */
sl_status sl__share_out(const sl__ranks *ranks, sl_store *store, const sl__model_file *file, const sl_graph *graph);
/* The step of the newest checkpoint in a run directory, whole or not; 0: there is none. */
sl_status sl__newest_step(const char *run, int64_t *step);
/* Opens the newest checkpoint of a run, for its lists alone: no part is verified. *file NULL: there is none. */
sl_status sl__open_newest(const char *run, sl__model_file **file);

#endif
