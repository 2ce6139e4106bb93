/* The step time of a job, predicted before its first step by the joint schedule of its ranks (tools/mesh/predict.h).
 * Tasks take the times that `calibrate` has measured on this machine, other tasks the workers' measured speeds;
 * messages and sums take the speeds of `calibrate --network`, or ordinary ones. */
#ifndef SL_TOOLS_PREDICTION_H
#define SL_TOOLS_PREDICTION_H

#include <jansson.h>

#include "tools/run/job.h"
#include "tools/run/machine.h"

typedef struct sl__prediction {
  double seconds;         /* of a step; 0: not predicted */
  double measured;        /* part of the tasks' time that is of measured tasks, 0 to 1 */
  double kernels;         /* part of the step that rank 0's workers spend in kernels, 0 to 1 */
  int sharing;            /* ranks that share samples */
  double bubble, exposed; /* parts of the step, 0 to 1 (tasks/schedule/mesh.h) */
} sl__prediction;

/* Predicts the step of a job that sl__job_build has built. All ranks are taken to have this rank's workers and speeds.
 * Not predicted: tasks that were not measured on a machine whose speeds are unknown; jobs with --sync, --compress,
 * --offload or a --balance that is not even, because the schedule knows nothing of these. machine: speeds of a CPU
 * worker, 0 if unknown. */
sl_status sl__predict_step(const sl__job *job, const sl__machine *machine, sl__prediction *prediction);
enum { SL__PREDICTION_TEXT = 160 };
/* The same for a run that goes on without a prediction: a failure is only told. */
sl__prediction sl__predict_or_warn(const sl__job *job, const sl__machine *machine);
/* "97.8 % in kernels; 100 % of their time as calibrated"; with ranks that share samples also bubble and exposed
 * exchange. */
const char *sl__prediction_text(const sl__prediction *prediction, char *text, size_t n);
/* Adds predicted_step_s and the other figures (docs/reference/formats.md) to an object; nothing if there are none. */
void sl__prediction_add(const sl__prediction *prediction, json_t *object);

#endif
