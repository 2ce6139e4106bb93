/* Measures for how long this process's threads wait for a processor. */
#ifndef SL_TASKS_STARVED_H
#define SL_TASKS_STARVED_H

#ifdef __cplusplus
extern "C" {
#endif

enum { SL__STARVED_THREADS = 512 };

/* Readings of the last call. Zero it before the first. */
typedef struct sl__starved {
  double when;
  int n;
  struct {
    long thread;
    unsigned long long ran, waited; /* ns, so far */
  } last[SL__STARVED_THREADS];
} sl__starved;

/* Seconds, summed over at most SL__STARVED_THREADS threads, that threads were ready to run but waited for a processor
 * since the last call with `s`. 0 at the first call, and if the kernel does not report it. */
double sl__seconds_starved(sl__starved *s);

#ifdef __cplusplus
}
#endif
#endif
