/* --workers auto: in the first steps of a run the GPUs, the CPUs and both compute in turn; the fastest choice computes
 * all later steps. A choice that is far slower than one before it has fewer steps. The results do not depend on it. */
#ifndef SL_RUN_CHOICE_H
#define SL_RUN_CHOICE_H

#include "tasks/starpu/program.h"
#include "tools/ranks/ranks.h"

/* The first step of a choice warms up: it counts only for a choice with fewer steps. */
enum { SL__CHOICES = 3, SL__CHOICE_STEPS = 4 };

typedef struct sl__choice {
  int measuring;          /* 1: the next step belongs to the measurement */
  int choice;             /* the choice that the next step measures */
  int steps[SL__CHOICES]; /* measured so far */
  double seconds[SL__CHOICES][SL__CHOICE_STEPS];
  unsigned kinds; /* in use, as in sl_program_allow; 0: no choice was made */
  char said[160];
  int told; /* 1: the caller has printed the result */
} sl__choice;

/* Starts measuring if a rank has both kinds of workers. Collective. */
void sl__choice_open(sl__choice *choice, const sl_runtime *runtime, const sl__ranks *ranks);
/* Sets which workers compute the next step; call before each step. */
void sl__choice_place(const sl__choice *choice, const sl_runtime *runtime, sl_program *program);
/* Records this rank's step time; call after each step. Collective while measuring. */
sl_status sl__choice_step(sl__choice *choice, const sl__ranks *ranks, double seconds);
/* Records the time of the step just measured, the longest over the ranks; sl__choice_step calls it. */
void sl__choice_record(sl__choice *choice, double seconds);
/* One line: the measured times and the chosen workers; "" if nothing was measured. */
const char *sl__choice_text(const sl__choice *choice);

#endif
