/* The time of a job's step, predicted from its plan by the joint schedule of its ranks (tools/mesh/predict.h). Tasks
 * take the times that `calibrate` has measured on this machine, other tasks the workers' measured speeds; messages and
 * sums take the speeds of `calibrate --network`, or ordinary ones. */
#ifndef SL_TOOLS_PREDICTION_H
#define SL_TOOLS_PREDICTION_H

#include <jansson.h>

#include "tools/run/job.h"
#include "tools/run/machine.h"

typedef struct sl__prediction {
  double seconds;         /* of a step; 0: not predicted */
  double measured;        /* time of the tasks with a measured time over the time of all tasks, 0 to 1 */
  double kernels;         /* part of the step that rank 0's workers spend in kernels, 0 to 1 */
  int model_ranks;        /* placement.h */
  double bubble, exposed; /* parts of the step, 0 to 1 (tasks/schedule/mesh.h) */
} sl__prediction;

enum { SL__PREDICTION_TEXT = 160 };

/* Predicts the step of a job that sl__job_build has built. All ranks are taken to have this rank's workers and speeds.
 * speeds: of a CPU worker, 0 if unknown. There is no prediction if a speed is unknown and a task was not measured, nor
 * with --sync, --compress, --offload or a --balance that is not even: the schedule knows nothing of these. */
sl_status sl__predict_step(const sl__job *job, const sl__machine *speeds, sl__prediction *prediction);
/* Finds how the job's pipeline works, for its program. With --pipe-order auto rank 0 chooses the order by its
 * prediction, also with --sync and the other options above; ordinary speeds stand for unknown ones. Collective. */
sl_status sl__choose_pipeline(const sl__job *job, sl_pipeline *pipe);
/* As sl__predict_step, but a failure becomes a warning and gives no prediction. */
sl__prediction sl__predict_or_warn(const sl__job *job, const sl__machine *speeds);
/* "97.8 % in kernels; 100 % of their time as calibrated"; with several model ranks also bubble and exposed
 * exchange. */
const char *sl__prediction_text(const sl__prediction *prediction, char *text, size_t n);
/* Adds predicted_step_s and the other figures (docs/reference/formats.md) to an object; nothing if there are none. */
void sl__prediction_add(const sl__prediction *prediction, json_t *object);

#endif
