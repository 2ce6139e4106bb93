/* Measures for how long this process's threads wait for a processor. */
#ifndef SL_STARVED_H
#define SL_STARVED_H

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_STARVED_THREADS = 512 };

/* Readings of the last call. Zero it before the first. */
typedef struct sl_starved {
  double when;
  int n;
  struct {
    long thread;
    unsigned long long ran, waited; /* ns, so far */
  } last[SL_STARVED_THREADS];
} sl_starved;

/* Seconds, summed over at most SL_STARVED_THREADS threads, that threads were ready to run but waited for a processor
 * since the last call with `s`. 0 at the first call, and if the kernel does not report it. */
double sl_seconds_starved(sl_starved *s);

#ifdef __cplusplus
}
#endif
#endif
