/* Lesson 15: everything that is asked, drawn from one seed: networks with their data for training runs on 1, 2 and 4
 * ranks, and larger ones of which only numbers are asked. */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include <stdint.h>

#include "ways.h"

enum { NETWORKS = 2, MOST_RANKS = 4, COUNTED = 12, PIPELINES = 4, CHOICES = 64 };

/* A network with its data on one rank. */
typedef struct whole {
  job job; /* rank 0 of 1 */
  double *x, *t, *w1, *v1, *w2, *v2, *dx;
} whole;

/* Questions whose answers are numbers. */
typedef struct numeric {
  job counted[COUNTED];                      /* how many bytes does this rank send in a step? */
  int stages[PIPELINES], batches[PIPELINES]; /* for what share of a step does a stage wait? */
  job choice[CHOICES];                       /* which way is the fastest */
  machine machine[CHOICES];                  /* on these ranks? */
} numeric;
enum { NUMERIC_ANSWERS = COUNTED * WAYS + PIPELINES + CHOICES };

typedef struct questions {
  whole network[NETWORKS];
  numeric numeric;
} questions;

/* What a rank says that it has. */
typedef struct shares {
  share rows, units, weights;
  int stage;
} shares;

void draw(uint64_t seed, questions *q);
void questions_free(questions *q);

/* Whether a way can have that many ranks. */
int is_possible(int way, int ranks);
extern const char *const way_names[WAYS];

/* The arrays of a part in this order; a rank gets those before DX, and gives back those from W1 on. */
enum { X, T, W1, V1, W2, V2, W, V, DX, ARRAYS };
double **array_of(part *p, int array);
/* The length of each array; 0: this way gives the rank no such array. */
void sizes_of(const job *j, int way, const shares *s, size_t n[ARRAYS]);
/* The part of a network that a rank has with these shares; they must lie within it. dx is a copy, too. */
void cut(const whole *n, const job *j, int way, const shares *s, part *p);
/* Whether the shares lie within the network. */
int are_within(const job *j, const shares *s);
void part_allocate(const job *j, int way, const shares *s, part *p);
void part_free(part *p);

/* Trains the network on one rank for job.steps steps; every division must reach the same bytes. */
void train_alone(whole *n);

#endif
