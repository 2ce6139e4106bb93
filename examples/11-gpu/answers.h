/* The questions of judge.c and the answers of gpu.c: two structures, written byte by byte as they lie in memory. The
 * questions are random numbers without results. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <stdint.h>

/* Networks of two layers: rows cut into tiles, a task for each layer of each tile; the last tile may be smaller. */
enum { NETWORKS = 4, MOST_X = 8192, MOST_W = 8192, MOST_Y = 4096 };
typedef struct network {
  int rows, tile, in, hidden, out;
} network;
static const network networks[NETWORKS] = {{64, 32, 96, 40, 16}, /* whole blocks of 256 elements in both layers */
                                           {50, 16, 33, 17, 5},  /* the last tile has two rows */
                                           {1, 1, 7, 300, 3},    /* one row */
                                           {40, 13, 20, 1, 64}}; /* one hidden unit */

enum {
  ON_CPU,
  ON_GPU,
  IN_TURN,
  PLACES
}; /* who runs the tasks: the core; the GPU; both in turn, the two layers of a tile on different ones */

/* Many tasks of two sizes, placed by a policy: `dmda`, with samples of earlier tasks or without, or `eager`. */
enum { FIRST, SAMPLING, CALIBRATED, AGAIN, EAGER, ALONE, RUNS };
enum { LARGE, SMALL, SIZES };
enum { TASKS = 40, P = 784, H = 64 }; /* of each size; pixels, and hidden units: the first layer of lesson 2 */
static const int rows_of[SIZES] = {64, 4};

typedef struct questions {
  uint64_t nonce;
  uint32_t seed; /* of the order in which an emulated GPU runs what may run in any order */
  float x[NETWORKS][MOST_X], w1[NETWORKS][MOST_W], b1[NETWORKS][MOST_W], w2[NETWORKS][MOST_W], b2[NETWORKS][MOST_W];
} questions;

typedef struct answers {
  uint64_t nonce;
  int32_t ended[PLACES][NETWORKS], ran[PLACES][NETWORKS][2]; /* tasks that a core and a GPU ran */
  int32_t kernels;                                           /* launched for them; -1: nobody counted */
  float y[PLACES][NETWORKS][MOST_Y];
  int32_t scheduled[RUNS], placed[RUNS][SIZES][2]; /* 1: this run ended; tasks that a core and a GPU ran */
  double ms[RUNS], to_gpu[RUNS], back[RUNS];       /* of a run; bytes copied to the GPU and back */
  double expected[SIZES][2]; /* microseconds of a task on each kind, as StarPU predicts after the runs; 0: unknown */
} answers;

#endif
