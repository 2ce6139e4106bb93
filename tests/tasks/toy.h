/* Toy operations for testing the engine alone. The engine knows operations only by their descriptors, so a few naive
 * ones are enough. Data are exact in a double, so sums can be checked bit for bit. */
#ifndef SL_TESTS_TOY_H
#define SL_TESTS_TOY_H

#include "tasks/graph/gradient.h"
#include "tasks/graph/graph.h"
#include "tests/support/scratch.h"

extern const sl_operation toy_copy, toy_add, toy_rows, toy_matmul, toy_dx, toy_dw, toy_total, toy_step, toy_leafsum,
    toy_leafscale, toy_folded_matmul, toy_folded_square, toy_folded_total,
    toy_square, toy_dsquare, toy_faulty, toy_spray, toy_gather;
enum { TOY_TABLE = 400 };

/* Element (row, k) of toy_rows's output. */
double toy_element(int64_t row, int64_t k);

typedef struct toy_width {
  int64_t k;
} toy_width;

sl_graph *toy_graph(int64_t batch);
sl_value toy_input(sl_graph *graph, int64_t k);                                /* F32 [B, k] */
sl_value toy_layer(sl_graph *graph, const char *layer, sl_value x, int64_t n); /* x W^T, W "layer.weight" [n, k] */
sl_value toy_sum(sl_graph *graph, sl_value a, sl_value b);                     /* a + b */
sl_value toy_loss(sl_graph *graph, sl_value y);                                /* F64 [1]: sum of squares / 2 */

/* Adds a two-layer network with its gradients and updates; returns the loss. */
sl_graph *toy_training(int64_t batch, sl_value *loss);
/* The same with four layers, of 4, width, 2 and width columns. */
sl_graph *toy_deep_training(int64_t batch, int64_t width, sl_value *loss);

/* Steps for plans worked out by hand; no kernel runs. A value of n F32 elements: temporary ones at SAMPLE scope, others
 * at WHOLE scope. A task of so many FLOPs; out SL_NONE: it writes nothing. */
sl_value toy_value(sl_graph *graph, sl_role role, int64_t n);
void toy_task(sl_graph *graph, double flops, const sl_value *in, int n_in, sl_value out);

/* Controls the operation `faulty`, which fails on purpose. */
typedef struct toy_fault {
  int64_t row;  /* in the shard that holds this sample; -1: never */
  int nan;      /* 1: writes a NaN instead of failing */
  int64_t also; /* the shard of this sample, too, fails: both begin before one fails, and this one fails half a second
                 * after the other; 0: none. Once a process. */
} toy_fault;

#endif
