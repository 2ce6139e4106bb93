/* A training run: its state, and the parts that the files of this folder implement for `starling train`. */
#ifndef SL_TOOLS_TRAINER_H
#define SL_TOOLS_TRAINER_H

#include <jansson.h>

#include "models/rate.h"
#include "tools/files/rundir.h"
#include "tools/run/job.h"
#include "tools/run/meter.h"
#include "tools/run/timeline.h"
#include "tools/settings/phrases.h"
#include "tools/train/checkpoints.h"
#include "tools/train/resume.h"
#include "tools/train/spikes.h"

/* What has been added up since some step. */
typedef struct sl__interval {
  int64_t from; /* ns */
  int64_t steps;
  int64_t before; /* steps of an earlier process, or of another division of the leaves: counted in the sums, not in the
                     times */
  double loss, correct, count;
  double input;   /* loader's seconds of waiting at its start */
  double stood;   /* seconds that checkpoints took, at its start */
  double seconds; /* that its steps took, known at its end */
} sl__interval;

/* What could not be written, on rank 0. */
typedef struct sl__unwritten {
  char *model; /* the file's bytes, of `step`; NULL: none waits */
  size_t bytes;
  int64_t step;
  int metrics; /* 1: lines of metrics wait */
} sl__unwritten;

typedef struct sl__trainer {
  sl__job job;
  sl__options *o;       /* job.o; default values are filled in as they become known */
  json_t *environment;  /* as it was before the runtime changed it */
  sl_rundir *dir;       /* of rank 0; NULL on others */
  char *folder;         /* its path, on all ranks */
  char *configuration;  /* as config.yaml has it */
  sl__model_file *init; /* --init's, until the weights are taken */
  int init_goes_on;     /* the file is the checkpoint to resume: only its normalisation is used */
  sl__checkpoints *checkpoints;
  sl_rate rate;
  sl__until until;
  int64_t first, total; /* steps done before this start; to do in all */
  int64_t eval_every, log_every;
  int64_t began;          /* ns */
  sl__interval now, line; /* sums since the last line of metrics; sums since the last printed line */
  sl__score validation;   /* of this step, if validated */
  sl__score best;
  int64_t best_step;                /* 0: none yet */
  int64_t model_step;               /* rank 0: of the model in model.safetensors; 0: none that a checkpoint may name */
  int64_t named_best;               /* rank 0: the best step of the newest checkpoint on disk; 0: none */
  int64_t naming_best, naming_step; /* of the checkpoint that is being written, and its step */
  int reached;                      /* --until's bound */
  const json_t *summary;            /* while it is written */
  int model_missing;                /* nothing is left to train, and the model is not there */
  sl__unwritten unwritten;
  sl__losses losses; /* of the last steps, where --on-spike looks at them */
  int n_skipped;
  int64_t skipped[SL__SKIPPED]; /* steps that are left out */
  int64_t back_to;              /* the checkpoint that the run went back to last; 0: none */
  int times_back;               /* and how often one behind the other */
  sl__meter meter;
  double stepping; /* seconds that steps took, without validation */
  sl__clocks clocks;
} sl__trainer;

static inline int sl__trainer_validates(const sl__trainer *r) { return r->job.data.n[SL_SPLIT_VALIDATION] > 0; }
static inline double sl__trainer_epochs_done(const sl__trainer *r) {
  return (double)(r->job.step * r->job.facts.plan.batch) / (double)r->job.data.n[SL_SPLIT_TRAIN];
}
/* Whether a step is left out. */
static inline int sl__trainer_skips(const sl__trainer *r, int64_t step) {
  for (int i = 0; i < r->n_skipped; i++)
    if (r->skipped[i] == step) return 1;
  return 0;
}
/* Samples, or tokens, of so many steps. */
static inline double sl__trainer_units(const sl__trainer *r, double steps) {
  return steps * (double)(r->job.facts.plan.batch * r->job.data.kind->units(&r->job.facts.data));
}

/* length.c. How long, and how often to look, once the data are known. */
sl_status sl__trainer_set_length(sl__trainer *run);
/* Fills in options that had no value and are known now. */
sl_status sl__trainer_complete_options(sl__trainer *run);

/* weights.c. Opens --init and uses its normalisation of images, for which its weights were trained. A resumed run has
 * both in its checkpoints. */
sl_status sl__trainer_open_init(sl__trainer *run);
/* Fills the store from it. */
/* Normalises images as in the training of the weights of --init. */
void sl__trainer_take_normalisation(sl__trainer *trainer);
sl_status sl__trainer_take_init(sl__trainer *run);
void sl__trainer_print_init(const sl__trainer *run);

/* directory.c. Opens the run directory; called last, when only the run itself can still fail. */
sl_status sl__trainer_open_directory(sl__trainer *run);
/* Collective. Tells the ranks where to write their timelines; ranks that cannot see the folder write none. */
sl_status sl__trainer_share_folder(sl__trainer *run);
/* Called at the end, and after a failure, whose status and text it keeps. */
sl_status sl__trainer_keep_timeline(sl__trainer *run, sl_status status);

/* unwritten.c. A disk that cannot be written is no failure of these three: what they could not write waits. Appends a
 * line of metrics. */
sl_status sl__trainer_append(sl__trainer *run, const json_t *line);
/* Rank 0 writes the parameters of this step to model.safetensors. */
sl_status sl__trainer_save_model(sl__trainer *run);
/* Tries to write what waits. */
sl_status sl__trainer_write_waiting(sl__trainer *run);
sl_status sl__trainer_write_now(sl__trainer *run); /* the same, and fails where it cannot be written */
int sl__trainer_of_disk(sl_status status);         /* whether a failure is of the disk, and not of the program */
void sl__trainer_pause(double seconds);            /* before another try */
/* Calls write(arg) again, a few times, while the disk makes it fail. */
sl_status sl__trainer_try(sl_status (*write)(void *arg), void *arg);
/* After going back: a model of a step that is to be repeated no longer waits. */
void sl__trainer_forget_unwritten(sl__trainer *run);
void sl__trainer_free_unwritten(sl__trainer *run);

/* saving.c. Reads the newest checkpoint before the directory is opened, so that a wrong plan changes nothing. */
sl_status sl__trainer_resume(sl__trainer *run);
/* Collective. The same for a checkpoint of step `most` or before (0: any) of the run in this folder; job.step is 0
 * where there is none. */
sl_status sl__trainer_read(sl__trainer *run, const char *folder, int64_t most);
/* Allocates the memory for a copy of this rank's share. */
sl_status sl__trainer_open_checkpoints(sl__trainer *run);
sl_status sl__trainer_save(sl__trainer *run);

/* last.c. Collective, at the end: tries for some seconds to write the last checkpoint and what waits. SL_EWRITE: not
 * all of it is on disk. */
sl_status sl__trainer_write_all(sl__trainer *run);
/* The same failure, saying how to go on once it is mended. */
sl_status sl__trainer_unwritten(const sl__trainer *run, sl_status status);

/* verify.c. Collective, between two steps. SL_EMEMORY names the tensor and the rank that differ. */
sl_status sl__trainer_verify(sl__trainer *run);

/* back.c. Collective. Goes back to a checkpoint: after sl__trainer_verify found a difference; after the loss of `step`
 * leapt, which is left out from now on together with the step before. sl_error() is the cause. Fails with its status if
 * there is no checkpoint, or if it happens again. */
sl_status sl__trainer_back_from_fault(sl__trainer *run);
sl_status sl__trainer_back_from_leap(sl__trainer *run, int64_t step);

/* loop.c. *exit_code: SL__EXIT_CHECKPOINTED where a signal stopped it. */
sl_status sl__trainer_steps(sl__trainer *run, int *exit_code);

/* metrics.c. Writes the line of metrics for the interval that ends now; docs/reference/formats.md lists its fields. */
sl_status sl__trainer_metrics(sl__trainer *run, json_t **line);
void sl__trainer_begin_interval(sl__trainer *run);
void sl__trainer_begin_times(sl__trainer *run); /* the sums stay as they are */

/* validate.c. Validates, keeps the model if it is the best, and writes a line of metrics. */
sl_status sl__trainer_validate(sl__trainer *run);
/* Scores the best model on the test samples. */
sl_status sl__trainer_test(sl__trainer *run, sl__score *score);
/* Where nothing is left to train and the best model is gone: this step's becomes it. */
sl_status sl__trainer_replace_lost(sl__trainer *run);
/* Whether a score meets --until. */
int sl__trainer_reaches(const sl__trainer *run, const sl__score *score);

/* best.c. Before another model replaces that of model_step. */
sl_status sl__trainer_keep_best(sl__trainer *run);
/* A checkpoint that names best_step is being written, and the one before it is on disk. */
sl_status sl__trainer_names_best(sl__trainer *run);
/* Collective, after a resume: model.safetensors becomes the model that the checkpoint names; if that is gone, best_step
 * is 0. */
sl_status sl__trainer_recover_best(sl__trainer *run);
sl_status sl__trainer_forget_kept(sl__trainer *run); /* once the last checkpoint is written */

/* screen.c. */
void sl__trainer_print_start(const sl__trainer *run);
void sl__trainer_show_progress(sl__trainer *run);
/* Prints one line for each validation (without validation, for the last step), over the steps since the previous line.
 */
void sl__trainer_print_line(sl__trainer *run, const json_t *metrics);

/* summary.c. Tests, writes summary.json, prints the last line. */
sl_status sl__trainer_finish(sl__trainer *run);

#endif
