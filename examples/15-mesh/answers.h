/* Lesson 15: the messages between mesh.c and its ranks, and from mesh.c to the judge. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <stdint.h>

#include "questions.h"

/* A frame between a rank and mesh.c, followed by its numbers. START, with a task, and PART go to a rank; it answers
 * with SHARES, then sends and receives, and at last gives its RESULT: its formula, and the arrays from W1 on. */
enum { START, SHARES, PART, SEND, RECEIVE, MESSAGE, RESULT };
typedef struct frame {
  int32_t kind, peer; /* peer: the other rank of a message */
  uint64_t n;         /* numbers, or bytes of a structure */
} frame;

typedef struct task {
  int way; /* WAYS: the numbers of the second kind of questions, which follow as a `numeric` */
  job job;
} task;

/* To the judge: the seed; then for each network, way and number of ranks an outcome, followed by a rank_outcome and its
 * results for each rank; then an outcome and NUMERIC_ANSWERS numbers. */
typedef struct outcome {
  char fault[160]; /* why the run failed; "": all ranks ended */
} outcome;
typedef struct rank_outcome {
  shares shares;
  double sent,
      formula; /* bytes in all steps, as mesh.c counted them; bytes of a step, as the rank's formula has them */
  uint64_t n;  /* numbers of results */
} rank_outcome;

#endif
