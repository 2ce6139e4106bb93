/* Processor time that the exchange's thread takes from tasks. The thread is bound to the cores of its rank's CPU
 * workers (tasks/starpu/exchange.c). While a worker is idle, the thread uses its core and delays no task. While all are
 * busy, it delays their tasks: the delay grows evenly while an exchange moves, and the next task to end ends that much
 * later (it pays the debt). Used by the joint predicted schedule (mesh.c) and by simulations. */
#ifndef SL_CONTENTION_H
#define SL_CONTENTION_H

typedef struct sl_contention {
  double rate; /* processor seconds a second, of all exchanges under way */
  double debt; /* seconds */
  double at;   /* time up to which the debt is known */
  int moving;  /* exchanges under way */
} sl_contention;

/* Brings the debt up to `now`. all_busy: whether all CPU workers were busy since the last call. */
static inline void sl_contention_update(sl_contention *c, double now, int all_busy) {
  if (all_busy) c->debt += c->rate * (now - c->at);
  c->at = now;
}

/* Call after an update. An exchange that begins or ends: work: its processor seconds; seconds: its duration. */
static inline void sl_contention_begin(sl_contention *c, double work, double seconds) {
  c->moving++;
  if (seconds > 0) c->rate += work / seconds;
}
static inline void sl_contention_end(sl_contention *c, double work, double seconds) {
  if (--c->moving == 0)
    c->rate = 0; /* exactly */
  else if (seconds > 0)
    c->rate -= work / seconds;
}

/* The seconds by which a task ends later. Call after an update. */
static inline double sl_contention_pay(sl_contention *c) {
  const double debt = c->debt;
  c->debt = 0;
  return debt;
}

#endif
