/* --workers auto: the first steps of a run are computed by the GPUs, by the CPUs and by both in turn, and the kinds of
 * workers that took the least time compute the others. The results are the same whoever computes them. */
#ifndef SL_RUN_CHOICE_H
#define SL_RUN_CHOICE_H

#include "tasks/starpu/program.h"
#include "tools/run/ranks.h"

enum { SL__CHOICES = 3, SL__CHOICE_STEPS = 4 }; /* the first step of each choice is not counted */

typedef struct sl__choice {
  int measuring; /* 1: the next step belongs to the measurement */
  int next;      /* step of the measurement */
  double seconds[SL__CHOICES * SL__CHOICE_STEPS];
  unsigned kinds; /* in use, as in sl_program_allow; 0: no choice was made */
  char said[160];
  int told; /* 1: the caller has printed it */
} sl__choice;

/* Begins to measure if this job has both kinds of workers on some rank. Collective. */
void sl__choice_open(sl__choice *choice, const sl_runtime *runtime, const sl__ranks *ranks);
/* Before each step of the program. */
void sl__choice_place(const sl__choice *choice, const sl_runtime *runtime, sl_program *program);
/* After each step, which took so long on this rank. Collective while it measures. */
sl_status sl__choice_step(sl__choice *choice, const sl__ranks *ranks, double seconds);
/* One line: what was measured, and which workers compute; "" if nothing was measured. */
const char *sl__choice_text(const sl__choice *choice);

#endif
