/* Calibration of StarPU's performance models, by which dm* and heft policies place tasks: from recorded times of a
 * program's tasks, without those that something disturbed.
 *
 * StarPU's history models keep a mean for each operation and footprint, and trust it from ten samples on. Left to
 * itself StarPU averages whatever it measures but the very first call, so that on a machine that others share a few bad
 * samples mislead a policy for good. Here samples are collected first, and given to the model when there are enough.
 * Not accepted are
 * - the first call of a kind of task on each worker, which pays for page faults and cold caches;
 * - outliers by the modified z-score of Iglewicz and Hoaglin ("How to Detect and Handle Outliers", ASQC 1993): those
 *   with 0.6745 |x - median| / MAD > 3.5, MAD being the median of |x - median|, here at least 1% of the median. At
 *   least half of all samples are accepted, so that collecting ends however noisy the machine is. */
#ifndef SL_CALIBRATION_H
#define SL_CALIBRATION_H

#include "runtime/trace/recorder.h"
#include "tasks/starpu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_calibration sl_calibration;

/* A kind of task (operation and footprint), on CPU workers. */
typedef struct sl_calibration_kind {
  int node;  /* of the step graph: the first of this kind */
  int tasks; /* in a step */
  int samples, rejected;
  double median, spread; /* s, and 1.4826 MAD over the median: a robust standard deviation; of those accepted */
} sl_calibration_kind;

/* Samples of a kind that StarPU wants: 10, or $STARPU_CALIBRATE_MINIMUM. */
int sl_calibration_minimum(void);

/* Of a program that outlives it. SL_EUNSUPPORTED: with GPUs, whose tasks' times the recorder does not have. */
sl_status sl_calibration_create(sl_runtime *runtime, const sl_program *program, sl_calibration **calibration);
void sl_calibration_destroy(sl_calibration *calibration); /* NULL is allowed */
/* Takes the tasks among these records; each is to be given once, in the order of time. */
sl_status sl_calibration_add(sl_calibration *calibration, const sl_record *records, size_t n);
/* Of all that was added; as many as kinds of tasks in the step graph, borrowed until the next call. */
sl_status sl_calibration_kinds(sl_calibration *calibration, const sl_calibration_kind **kinds, int *n);
/* Gives StarPU's models the samples of kinds that have `least` or more, in place of what they held of those kinds.
 * Between steps; StarPU writes its models to disk when the runtime stops. */
sl_status sl_calibration_store(sl_calibration *calibration, int least);

/* How many samples StarPU's model has of a node's kind, for CPU workers. After a step of the program. */
int sl_calibration_stored(const sl_program *program, int node);
/* Of how many kinds of the program's tasks the models have enough. After a step. */
sl_status sl_calibration_covered(const sl_program *program, int *covered, int *kinds);
/* The file in which the models of a node's operation are, on this machine. There may be none yet; StarPU 1.4 then gives
 * "". */
char *sl_calibration_file(const sl_program *program, int node, char *path, size_t n);

/* Which of n samples are no outliers, by the rule above: accepted[n] gets 1 or 0. Returns how many are. Of those
 * accepted, the median and the spread. SL_ENOMEM leaves *count 0. */
sl_status sl_calibration_accept(const double *x, int n, unsigned char *accepted, int *count, double *median,
                                double *spread);

#ifdef __cplusplus
}
#endif
#endif
