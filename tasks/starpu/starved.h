/* The time that this process's threads wait for a processor. */
#ifndef SL_TASKS_STARVED_H
#define SL_TASKS_STARVED_H

#ifdef __cplusplus
extern "C" {
#endif

enum { SL__STARVED_THREADS = 512 };

/* What the last call saw. Zero before the first. */
typedef struct sl__starved {
  double when;
  int n;
  struct {
    long thread;
    unsigned long long ran, waited; /* ns, so far */
  } last[SL__STARVED_THREADS];
} sl__starved;

/* Seconds since the last call with `s` that threads were ready to run and waited for a processor, together; of at most
 * SL__STARVED_THREADS threads. 0 at the first call, and where the kernel does not tell. */
double sl__seconds_starved(sl__starved *s);

#ifdef __cplusplus
}
#endif
#endif
