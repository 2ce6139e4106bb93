/* Figure: the cost of recording a task, without the noise of whole steps: five readings of the clock, the latest end of
 * its predecessors, and the record, on THREADS threads at once. Prints nanoseconds, the median of rounds. (StarPU's
 * call when a worker takes a task is not included: recorder.sh compares whole steps.) Then prints the nanoseconds of
 * the record alone, on one thread.
 *
 * Usage: recorder_cost THREADS */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/time.h"
#include "runtime/numbers/statistics.h"
#include "runtime/trace/recorder.h"

enum { TASKS = 200000, PREDECESSORS = 4, ROUNDS = 15 };

int main(int argc, char **argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  double ns[ROUNDS];
  sl_recorder *recorder;
  if (threads < 1 || sl_recorder_create(0, &recorder) != SL_OK) return 1;
  int64_t *end = calloc(TASKS, sizeof *end);
  if (!end) return 1;
  for (int r = 0; r < ROUNDS; r++) {
    const int64_t from = sl_now();
#pragma omp parallel num_threads(threads)
    for (int i = omp_get_thread_num(); i < TASKS; i += threads) {
      const int64_t submit = sl_now(), taken = sl_now(), start = sl_now();
      int64_t ready = submit;
      for (int k = 1; k <= PREDECESSORS; k++)
        if (i >= k * threads && end[i - k * threads] > ready) ready = end[i - k * threads];
      end[i] = sl_now();
      sl_recorder_add(recorder, &(sl_record){.step = r,
                                             .submit = submit,
                                             .ready = ready,
                                             .taken = taken > ready ? taken : ready,
                                             .start = start,
                                             .end = sl_now(),
                                             .node = i,
                                             .kind = SL_RECORD_TASK});
    }
    ns[r] = (double)(sl_now() - from) * threads / TASKS;
  }
  printf("%.1f", sl_median(ns, ROUNDS));
  for (int r = 0; r < ROUNDS; r++) {
    const int64_t from = sl_now();
    for (int i = 0; i < TASKS; i++) sl_recorder_add(recorder, &(sl_record){.step = r, .node = i});
    ns[r] = (double)(sl_now() - from) / TASKS;
  }
  printf(" %.1f\n", sl_median(ns, ROUNDS));
  sl_recorder_destroy(recorder);
  free(end);
  return 0;
}
