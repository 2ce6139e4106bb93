/* The questions of judge.c and the answers of own-operation.c: two structures, written byte by byte as they lie in
 * memory. The questions are random numbers without results, so the program that contains softsign cannot know the right
 * answers. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <stdint.h>

enum { B = 256, P = 20, H = 97, K = 3 };  /* samples, numbers of each, units of the hidden layer, classes */
enum { TILE = 2048 };                     /* elements of a tile: B * H are twelve tiles and a part of one */
enum { STEPS = 100 };                     /* of training */
enum { ONE, FOUR, TEAM, CONFIGURATIONS }; /* one shard; four; one, computed by a team of two threads */
#define RATE 0.5                          /* learning rate */

/* The network: z = softsign(data w1^T + b1) w2^T + b2. Data, w1 and b1 are multiples of small binary fractions, so the
 * first layer's sums are exact in F32 in any order. */
typedef struct questions {
  uint64_t nonce;
  float data[B * P], w1[H * P], b1[H], w2[K * H], b2[K];
  int32_t labels[B];
} questions;

typedef struct answers {
  uint64_t nonce;                              /* that of the questions */
  int32_t has_gradient, has[CONFIGURATIONS];   /* 1: the results below were computed */
  double flops;                                /* FLOPs of an element, by the cost rule */
  double first, last;                          /* loss at the beginning, and after STEPS steps */
  float y[CONFIGURATIONS][B * H];              /* softsign's output */
  float dx[CONFIGURATIONS][B * H], dw1[H * P]; /* gradients of the loss with respect to softsign's input, and to w1 */
  /* Results of the kernels called directly, tile by tile, in place if the operation allows that; the backward kernel
   * has dy = x. */
  float y_alone[B * H], dx_alone[B * H];
} answers;

#endif
