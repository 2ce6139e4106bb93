/* The questions of judge.c and the answers of own-policy.c: two structures, written byte by byte as they lie in memory.
 * The questions are graphs of tasks and a seed, without the right answers. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <stdint.h>

enum { GAMES = 3, TASKS = 60, BEFORE = 3, WORKERS = 2 };

typedef struct task {
  int32_t length;         /* in ticks of a simulated clock */
  int32_t priority;       /* length of the longest path from the task's start to the end of the graph */
  int32_t before[BEFORE]; /* earlier tasks that must have ended; -1: none */
} task;

typedef struct questions {
  uint64_t nonce;
  task game[GAMES][TASKS];
  uint32_t seed; /* of the images that the network `uneven` is trained on */
} questions;

typedef struct start {
  int32_t task, worker;
  int32_t tick;
} start;

typedef struct answers {
  uint64_t nonce;
  int32_t workers, started[GAMES]; /* number of workers, and of entries in start[] */
  start start[GAMES][TASKS];       /* by time; in any order within a tick */
  uint64_t parameters;             /* a fingerprint, after training steps of `uneven`; 0: they did not end */
  double ms;                       /* median of a step */
  char policy[64];
} answers;

#endif
