/* Calibrates StarPU's performance models, which dm* and heft policies need, from recorded task times; outliers are
 * rejected.
 *
 * StarPU's history models keep a mean per operation and footprint and trust it from ten samples on. StarPU averages
 * every time but the very first call, so on a shared machine a few bad samples mislead a policy for good. This
 * calibration first collects samples, and gives them to the model when there are enough. It rejects
 * - the first call of a kind of task on each worker, which pays for page faults and cold caches;
 * - outliers by the modified z-score of Iglewicz and Hoaglin ("How to Detect and Handle Outliers", ASQC 1993):
 *   samples with 0.6745 |x - median| / MAD > 3.5, where MAD is the median of |x - median|, here at least 1% of the
 *   median. At least half of the samples pass, so collecting ends on a noisy machine too. */
#ifndef SL_CALIBRATION_H
#define SL_CALIBRATION_H

#include "runtime/trace/recorder.h"
#include "tasks/starpu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_calibration sl_calibration;

/* A kind of task (operation and footprint), on one kind of worker. */
typedef struct sl_calibration_kind {
  int node; /* first node of this kind in the step graph */
  sl_worker_kind worker;
  int tasks; /* tasks of this kind in a step */
  int samples, rejected;
  /* Of the accepted samples: median in s, and 1.4826 MAD over the median (a robust standard deviation). mean: s, of all
   * samples but first calls, each at most three medians: on average a step takes the sum of its tasks' means, slow
   * tasks included. deviation: their standard deviation over their mean. */
  double median, mean, spread, deviation;
} sl_calibration_kind;

/* Number of samples per kind that StarPU requires: 10, or $STARPU_CALIBRATE_MINIMUM. */
int sl_calibration_minimum(void);

/* Begins a calibration; the program must outlive it. It chooses the kind of worker of each task, so plans of GPU memory
 * no longer apply to the program. */
sl_status sl_calibration_create(sl_runtime *runtime, sl_program *program, sl_calibration **calibration);
void sl_calibration_destroy(sl_calibration *calibration); /* NULL is allowed */
/* With CPU and GPU workers: runs half of each kind's tasks on CPUs and half on GPUs in the next step, and swaps the
 * halves from step to step, so that both get samples. Call before each step. */
void sl_calibration_place(sl_calibration *calibration);
/* Adds the tasks among these records; give each record once, sorted by time. */
sl_status sl_calibration_add(sl_calibration *calibration, const sl_record *records, size_t n);
/* The samples so far: one entry for each kind of task and each existing kind of worker that can run it, CPU before GPU.
 * Valid until the next call. */
sl_status sl_calibration_kinds(sl_calibration *calibration, const sl_calibration_kind **kinds, int *n);
/* Replaces the samples in StarPU's models by this calibration's for kinds that have at least `least`. Call between
 * steps; StarPU writes its models to disk when the runtime stops. */
sl_status sl_calibration_store(sl_calibration *calibration, int least);

/* Number of samples in StarPU's model for a node's kind on that kind of worker. Call after a step of the program. */
int sl_calibration_stored(const sl_program *program, int node, sl_worker_kind worker);
/* Number of kinds (as of sl_calibration_kinds) whose models have enough samples. Call after a step. */
sl_status sl_calibration_covered(const sl_program *program, int *covered, int *kinds);
/* Path of the file with the models of a node's operation on this machine. If the file does not exist yet, StarPU 1.4
 * gives "". */
char *sl_calibration_file(const sl_program *program, int node, char *path, size_t n);

/* Sets accepted[i] to 0 for outliers by the rule above and to 1 for other samples, and computes median and spread of
 * the accepted ones. Returns their number. SL_ENOMEM sets *count to 0. */
sl_status sl_calibration_accept(const double *x, int n, unsigned char *accepted, int *count, double *median,
                                double *spread);

#ifdef __cplusplus
}
#endif
#endif
