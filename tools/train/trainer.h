/* A training run: its state, and the parts that the files of this folder implement for `starling train`. */
#ifndef SL_TOOLS_TRAINER_H
#define SL_TOOLS_TRAINER_H

#include <jansson.h>

#include "models/rate.h"
#include "tools/files/rundir.h"
#include "tools/run/job.h"
#include "tools/run/meter.h"
#include "tools/run/prediction.h"
#include "tools/run/timeline.h"
#include "tools/settings/phrases.h"
#include "tools/train/checkpoints.h"
#include "tools/train/resume.h"
#include "tools/train/spikes.h"

/* Sums over the steps since some step. */
typedef struct sl__interval {
  int64_t from; /* ns */
  int64_t steps;
  int64_t before; /* steps before a resume or rebalance: they count for sums, not for speed */
  double loss, correct, count;
  double scale;      /* loss scale of its last step; 0: none */
  int64_t overflows; /* steps in which gradients overflowed in fp16 */
  double input;      /* seconds that the loader had waited when the interval began */
  double stood;      /* seconds that training had waited for checkpoints by then */
  double seconds;    /* time of its steps; known at its end */
} sl__interval;

/* Data queued on rank 0 after a write error. */
typedef struct sl__unwritten {
  char *model; /* bytes of the model file of `step`; NULL: none queued */
  size_t bytes;
  int64_t step;
  int metrics; /* 1: lines of metrics are queued */
} sl__unwritten;

typedef struct sl__trainer {
  sl__job job;
  sl__options *o;       /* job.o; defaults are filled in as they become known */
  json_t *environment;  /* recorded before the runtime changed it */
  sl__rundir *dir;      /* of rank 0; NULL on others */
  char *folder;         /* its path, on all ranks */
  char *configuration;  /* text of config.yaml */
  sl__model_file *init; /* of --init, until the weights are read */
  int init_goes_on;     /* the file is the checkpoint to resume: only its normalisation is used */
  sl__checkpoints *checkpoints;
  sl_rate rate;
  sl__until until;
  int64_t newest;       /* rank 0: with --resume, the newest checkpoint's step before one was read */
  int64_t first, total; /* steps before this start; steps in all */
  int stepped;          /* this start has ended a step; stays 1 when the run goes back to a checkpoint */
  int64_t eval_every, log_every;
  int64_t began;          /* ns */
  sl__interval now, line; /* sums since the last line of metrics; sums since the last printed line */
  sl__score validation;   /* the last one; samples 0: none yet */
  sl__score best;
  int64_t best_step;                /* 0: none yet */
  int64_t model_step;               /* rank 0: of the model in model.safetensors; 0: none that a checkpoint may name */
  int64_t named_best;               /* rank 0: the best step of the newest checkpoint on disk; 0: none */
  int64_t naming_best, naming_step; /* best step and own step of the checkpoint being written */
  int reached;                      /* 1: the bound of --until is reached */
  const json_t *summary;            /* while it is written */
  int model_missing;                /* 1: there is no best model; a run without further steps needs one */
  int model_lost;                   /* 1: it is missing, and it has the parameters of the present step */
  sl__unwritten unwritten;
  sl__losses losses; /* of the last steps, with --on-spike */
  int n_skipped;
  int64_t skipped[SL__SKIPPED]; /* steps that are left out */
  int64_t back_to;              /* checkpoint that the run last went back to; 0: none */
  int times_back;               /* how often in succession */
  int64_t verified;             /* step at which the ranks were last compared */
  sl__meter meter;
  double stepping;           /* seconds that steps took, without validation */
  sl__prediction prediction; /* of rank 0, as the run started */
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
/* Samples or tokens in a number of steps. */
static inline double sl__trainer_units(const sl__trainer *r, double steps) {
  return steps * (double)(r->job.facts.plan.batch * r->job.data.kind->units(&r->job.facts.data));
}

/* length.c. Sets the run's steps and intervals once the data are known. */
sl_status sl__trainer_set_length(sl__trainer *run);
/* unused.c. Warns, on rank 0, of options that change nothing in this run. Call it before the options are filled in. */
void sl__trainer_warn_unused(const sl__trainer *run);
/* Fills in options that had no value and are known now. */
sl_status sl__trainer_complete_options(sl__trainer *run);

/* weights.c. Opens the file of --init and uses its normalisation of images, because the weights were trained with that.
 * A resumed run has weights and normalisation in its checkpoints. */
sl_status sl__trainer_open_init(sl__trainer *run);
/* Normalises images as in the training of the weights of --init. */
void sl__trainer_take_normalisation(sl__trainer *trainer);
/* Fills the store from the file of --init. */
sl_status sl__trainer_take_init(sl__trainer *run);
void sl__trainer_print_init(const sl__trainer *run);

/* directory.c. Opens the run directory; called last, so that earlier failures leave no directory. */
sl_status sl__trainer_open_directory(sl__trainer *run);
/* Collective. Tells the ranks where to write their timelines; ranks that cannot see the folder write none. */
sl_status sl__trainer_share_folder(sl__trainer *run);
/* Writes the timeline at the end or after a failure; keeps the failure's status and text. */
sl_status sl__trainer_keep_timeline(sl__trainer *run, sl_status status);

/* unwritten.c. The next three functions succeed on a write error and queue the data for a retry. Appends a line of
 * metrics. */
sl_status sl__trainer_append(sl__trainer *run, const json_t *line);
/* Writes the parameters of this step to model.safetensors, on rank 0; collective. */
sl_status sl__trainer_save_model(sl__trainer *run);
/* Both collective. Tries to write the queued data. */
sl_status sl__trainer_write_waiting(sl__trainer *run);
sl_status sl__trainer_write_now(sl__trainer *run); /* the same, but fails if it cannot be written */
int sl__trainer_of_disk(sl_status status);         /* whether a failure is of the disk, and not of the program */
void sl__trainer_pause(double seconds);            /* before another try */
/* Calls write(arg), and repeats it a few times if the disk makes it fail. */
sl_status sl__trainer_try(sl_status (*write)(void *arg), void *arg);
/* Drops a queued model of a step that will be repeated; call after going back. */
void sl__trainer_forget_unwritten(sl__trainer *run);
void sl__trainer_free_unwritten(sl__trainer *run);

/* saving.c. Reads the newest checkpoint before the directory is opened, so that a wrong plan changes nothing. */
sl_status sl__trainer_resume(sl__trainer *run);
/* Collective, once the directory is locked: reads again if the run that held the lock has written a newer checkpoint
 * since. */
sl_status sl__trainer_catch_up(sl__trainer *run);
/* Collective. The same for a checkpoint of step `most` or before (0: any) of the run in this folder; sets job.step to 0
 * if there is none. */
sl_status sl__trainer_read(sl__trainer *run, const char *folder, int64_t most);
/* Allocates the memory for a copy of this rank's share. */
sl_status sl__trainer_open_checkpoints(sl__trainer *run);
/* Bytes of this rank that are needed to save: buffers of checkpoints, and parameters collected for a model file. */
int64_t sl__trainer_saving_bytes(const sl__trainer *run);
sl_status sl__trainer_save(sl__trainer *run);

/* last.c. Tries for some seconds to write the last checkpoint and the queued data; collective, at the end. SL_EWRITE:
 * something is still missing on disk. */
sl_status sl__trainer_write_all(sl__trainer *run);
/* Adds to a failure how to continue after the disk is repaired. */
sl_status sl__trainer_unwritten(const sl__trainer *run, sl_status status);

/* verify.c. Compares the ranks' bits; collective, between two steps. SL_EMEMORY names the tensor and the rank that
 * differ. */
sl_status sl__trainer_verify(sl__trainer *run);
/* Warns if --verify-every has no parameters to compare. */
void sl__trainer_warn_unverified(const sl__trainer *run);

/* back.c. Collective. Both functions go back to a checkpoint; sl_error() must describe the cause. from_fault: call it
 * after sl__trainer_verify found a difference. from_leap: call it after the loss of `step` leapt; from then on the run
 * skips `step` and the step before it. Both fail with the cause's status if there is no such checkpoint, or if the
 * cause recurs. */
sl_status sl__trainer_back_from_fault(sl__trainer *run);
sl_status sl__trainer_back_from_leap(sl__trainer *run, int64_t step);

/* loop.c. *exit_code: SL__EXIT_CHECKPOINTED where a signal stopped it. */
sl_status sl__trainer_steps(sl__trainer *run, int *exit_code);

/* metrics.c. Makes the line of metrics for the interval that ends now; docs/reference/formats.md lists its fields. */
sl_status sl__trainer_metrics(sl__trainer *run, json_t **line);
void sl__trainer_begin_interval(sl__trainer *run);
void sl__trainer_begin_times(sl__trainer *run); /* the sums stay as they are */

/* validate.c. Validates, keeps the model if it is the best, and writes a line of metrics. */
sl_status sl__trainer_validate(sl__trainer *run);
/* Scores the best model on the test samples. */
sl_status sl__trainer_test(sl__trainer *run, sl__score *score);
/* Makes this step's model the best if no steps are left and the best model is missing. */
sl_status sl__trainer_replace_lost(sl__trainer *run);
/* Whether a score meets --until. */
int sl__trainer_reaches(const sl__trainer *run, const sl__score *score);

/* best.c. Keeps the model of model_step, if a checkpoint names it, before another replaces it. */
sl_status sl__trainer_keep_best(sl__trainer *run);
/* Notes that a checkpoint that names best_step is being written and the one before it is on disk. */
sl_status sl__trainer_names_best(sl__trainer *run);
/* Makes model.safetensors the model that the checkpoint names; if that is missing, sets best_step to 0. Collective,
 * after a resume. */
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
