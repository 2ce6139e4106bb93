/* Lesson 15: a two-layer perceptron, y = relu(x W1') W2' with the squared error as its loss, which ranks divide in four
 * ways. ways.c has the functions of the first part, kernels.c those of the second. All numbers are doubles. */
#ifndef WAYS_H
#define WAYS_H

#include <stddef.h>

enum { SAMPLES, TENSOR, LAYERS, OWNER, WAYS };

/* One rank's view of a training run. Numbers of ranks, leaves and folds are powers of 2; there are at least as many
 * leaves and as many folds as ranks. */
typedef struct job {
  int rank, ranks;                      /* the number of this rank, from 0, and how many there are */
  int samples, inputs, hidden, outputs; /* B, P, H, K of the whole network */
  int leaves, folds;                    /* equal parts of the samples, and of the hidden units */
  int steps;
  double rate; /* learning rate */
} job;

/* n things, from number `first` on. */
typedef struct share {
  int first, n;
} share;

/* What a rank has. Where a way gives a rank no such array, it is NULL. */
typedef struct part {
  int rows, units; /* how many samples and hidden units its arrays have */
  double *x;       /* [rows][P] */
  double *t;       /* [rows][K], targets */
  double *w1, *v1; /* [units][P], weights of the first layer and their momentum */
  double *w2, *v2; /* [K][units], likewise of the second */
  double *w, *v;   /* by owner, of all weights in a row, w1 and then w2: the rank's own ones, and their momentum */
  double *dx;      /* [rows][P], to be filled: gradient of the loss with respect to x in the last step */
} part;

/* ---- ways.c: to be completed ----------------------------------------------------------------------------------------
 *
 * A function by_... makes j->steps training steps and leaves the rank's weights, momentum and dx in *p. A function
 * sent_by_... returns the bytes that this rank sends in a step. */

/* By samples: the rank has all weights, and the rows of its samples. */
share rows_of(const job *j);
void by_samples(const job *j, part *p);
double sent_by_samples(const job *j);

/* By tensor: it has all samples, and of the weights the rows of W1 and the columns of W2 of its hidden units. */
share units_of(const job *j);
void by_tensor(const job *j, part *p);
double sent_by_tensor(const job *j);

/* By layers, on two ranks or more: each pair of consecutive ranks is a pipeline and has a part of the samples. Stage 0
 * has x, w1, v1 and dx, stage 1 has t, w2 and v2. A micro-batch is a leaf. */
int stage_of(const job *j);
share rows_of_pipeline(const job *j);
void by_layers(const job *j, part *p);
double sent_by_layers(const job *j);
/* The share of a step in which a stage waits: all stages and micro-batches take the same time. */
double idle_share(int stages, int micro_batches);

/* By owner: as by samples, but between two passes (forward or backward) a rank has only the weights that it owns. */
share weights_of(const job *j);
void by_owner(const job *j, part *p);
double sent_by_owner(const job *j);

/* The way that takes the least time for a step, among those whose weights and momentum fit into a rank's memory. The
 * rank that computes or sends most sets the time; it computes and sends one after the other. */
typedef struct machine {
  double flops_per_s, bytes_per_s, memory; /* of each rank; bytes */
} machine;
int fastest_way(const job *j, const machine *m);

/* ---- messages between ranks -----------------------------------------------------------------------------------------
 *
 * send_to copies the numbers and does not wait; receive_from waits. Messages between two ranks arrive in order, and a
 * message is received whole. */
void send_to(int rank, const double *numbers, size_t n);
void receive_from(int rank, double *numbers, size_t n);

/* ---- kernels.c: the products of the two layers ----------------------------------------------------------------------
 *
 * `rows` is a whole number of leaves, `units` a whole number of folds. Sums over samples add up each leaf in order and
 * then the leaves by a tree; sums over hidden units add up each fold in order and then the folds by a tree. */

/* n zeros, the caller's to free(). */
double *numbers(size_t n);
/* h = relu(x w1'): x [rows][P], w1 [units][P], h [rows][units]. */
void hidden(const job *j, int rows, int units, const double *x, const double *w1, double *h);
/* y = h w2': h [rows][units], w2 [K][units], y [rows][K]; a sum over units. */
void output(const job *j, int rows, int units, const double *h, const double *w2, double *y);
/* dy = y - t, each [rows][K]. */
void output_gradient(const job *j, int rows, const double *y, const double *t, double *dy);
/* dh = dy w2 where h > 0, else 0: dh [rows][units]. */
void hidden_gradient(const job *j, int rows, int units, const double *dy, const double *w2, const double *h,
                     double *dh);
/* dx = dh w1: dx [rows][P]; a sum over units. */
void input_gradient(const job *j, int rows, int units, const double *dh, const double *w1, double *dx);
/* g1 = dh' x: g1 [units][P]; a sum over rows. */
void first_gradient(const job *j, int rows, int units, const double *dh, const double *x, double *g1);
/* g2 = dy' h: g2 [K][units]; a sum over rows. */
void last_gradient(const job *j, int rows, int units, const double *dy, const double *h, double *g2);
/* Adds up `parts` arrays of n numbers each, which follow one another in a, by a tree: (0 + 1) + (2 + 3). The sum
 * replaces the first array. */
void add_tree(double *a, int parts, size_t n);
/* v = v / 2 + g, w = w - rate v: n weights with their gradients and momentum. */
void update(const job *j, size_t n, const double *g, double *v, double *w);

#endif
