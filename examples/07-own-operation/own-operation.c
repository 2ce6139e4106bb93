/* Lesson 7: a copy of lesson 3, but with an operation that the library does not have. It stands in operation.c:
 * kernels, shape, cost and gradient, all that the engine asks for. This program puts it into a network and does not
 * trust it: values are held against the definition, gradients against differences of the loss, one shard against four.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/codelets.h"
#include "operation.h"
#include "runtime/machine/runtime.h"
#include "tasks/graph/gradient.h"
#include "tasks/starpu/program.h"

enum { B = 64, P = 20, H = 32, K = 3, STEPS = 200, PARAMETERS = 4 };
enum { DATA, LABELS }; /* slots of a step's input */
static const char *const names[PARAMETERS] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

typedef struct network {
  sl_graph *graph;
  sl_store *store;
  sl_program *program;
  sl_value x, y, loss, gradient[PARAMETERS]; /* x and y: what softsign read and wrote, [B, H] */
  double flops;                              /* of softsign, by its cost rule, an element */
} network;

/* Made-up samples: 20 numbers, and the class that says which of the first three is the largest. */
static void samples(float *data, int32_t *labels) {
  uint32_t word = 1;
  for (int i = 0; i < B * P; i++) {
    word = word * 1664525 + 1013904223;
    data[i] = (float)(word >> 8) * 0x1p-22f - 2;
  }
  for (int r = 0; r < B; r++, data += P)
    labels[r] = data[0] > data[1] ? (data[0] > data[2] ? 0 : 2) : (data[1] > data[2] ? 1 : 2);
}

/* A verdict, and where it is bad a line that says of what. */
static void judge(int fine, const char *what, int *ok) {
  if (!fine) printf("wrong: %s\n", what), *ok = 0;
}

static sl_status build(sl_runtime *runtime, int shards, network *n) {
  sl_value parameter[PARAMETERS];
  sl_plan plan = {.batch = B, .leaves = 1, .shards = shards, .seed = 1};
  SL_TRY(sl_plan_complete(&plan));
  SL_TRY(sl_store_create(&n->store));
  sl_graph *g = n->graph = sl_graph_new(B);
  sl_value labels = sl_input(g, "labels", LABELS, SL_I32, sl_shape_make(NULL, 0));
  n->x = sl_linear(g, "fc1", sl_input(g, "data", DATA, SL_F32, SL_SHAPE(P)), H, SL_ACTIVATION_NONE);
  n->y = softsign(g, "softsign1", n->x);
  sl_value z = sl_linear(g, "fc2", n->y, K, SL_ACTIVATION_NONE);
  n->loss = sl_cross_entropy(g, "loss", z, labels, sl_count_targets(g, "count", labels));
  for (int i = 0; i < PARAMETERS; i++) parameter[i] = sl_graph_find(g, names[i]);
  SL_TRY(sl_gradient(g, n->loss, parameter, PARAMETERS, n->gradient));
  g->phase = SL_PHASE_UPDATE;
  sl_sgd(g, &(sl_sgd_options){.momentum = 0}, parameter, n->gradient, PARAMETERS, n->loss, SL_NONE);
  SL_TRY(sl_graph_status(g));
  n->flops = sl_node_cost(g, g->node[sl_graph_value(g, n->y)->producer], &plan.tiles).flops / (B * H);
  const sl_value keep[] = {n->x, n->y, n->loss, n->gradient[0]};
  return sl_program_create(runtime, n->store, g, &plan, &(sl_program_options){.keep = keep, .n_keep = 4}, &n->program);
}

static void destroy(network *n) {
  sl_program_destroy(n->program);
  sl_graph_destroy(n->graph);
  sl_store_destroy(n->store);
}

/* One step; with a rate of 0 it changes nothing, and only tells the loss. */
static sl_status step(network *n, double rate, const float *data, const int32_t *labels, double *loss) {
  SL_TRY(sl_program_run(n->program, &(sl_step){.number = 1, .learning_rate = rate, .input = {data, labels}}));
  return sl_program_read(n->program, n->loss, loss);
}

/* y against the definition, in double precision: the largest error in units of the last place of a float. */
static sl_status check_values(network *n, int *ok) {
  static float x[B * H], y[B * H];
  double most = 0;
  SL_TRY(sl_program_read(n->program, n->x, x));
  SL_TRY(sl_program_read(n->program, n->y, y));
  for (int i = 0; i < B * H; i++) {
    const double exact = x[i] / (1 + fabs((double)x[i]));
    most = fmax(most, fabs(y[i] - exact) / fmax(fabs(exact), 1e-30) / 0x1p-23);
  }
  printf("values: largest error %.2f units in the last place\n", most);
  judge(most < 4, "the values are not softsign's", ok);
  return SL_OK;
}

/* (L(w + e d) - L(w - e d)) / 2 e is the slope along d, and so is the product of gradient and d. Here d is the gradient
 * of fc1.weight, scaled to length 1, since along it the slope is large beside the loss's rounding. */
static sl_status check_gradient(network *n, const float *data, const int32_t *labels, int *ok) {
  static float w[H * P], g[H * P];
  double squares = 0, loss, side[2], e = 0.05;
  SL_TRY(step(n, 0, data, labels, &loss));
  SL_TRY(sl_program_read(n->program, n->gradient[0], g));
  for (int i = 0; i < H * P; i++) squares += (double)g[i] * g[i];
  float *weight = sl_store_find(n->store, names[0])->data;
  SL_TRY(sl_store_acquire(n->store, 1));
  memcpy(w, weight, sizeof w);
  sl_store_release(n->store);
  for (int s = 0; s < 3; s++) { /* up, down, and back */
    SL_TRY(sl_store_acquire(n->store, 1));
    for (int i = 0; i < H * P; i++) weight[i] = s == 2 ? w[i] : (float)(w[i] + (s ? -e : e) * g[i] / sqrt(squares));
    sl_store_release(n->store);
    if (s < 2) SL_TRY(step(n, 0, data, labels, &side[s]));
  }
  const double slope = (side[0] - side[1]) / (2 * e);
  printf("gradient: slope %.6f by differences, %.6f by the gradient rule\n", slope, sqrt(squares));
  judge(fabs(slope - sqrt(squares)) < 0.01 * sqrt(squares), "the gradient is not the slope of the loss", ok);
  return SL_OK;
}

static sl_status lesson(network one, network four, sl_runtime *runtime, int *ok) {
  static float data[B * P], a[B * H], b[B * H];
  static int32_t labels[B];
  sl_status status = SL_OK;
  double first, last = 0;
  samples(data, labels);
  SL_TRY_OUT(build(runtime, 1, &one));
  SL_TRY_OUT(build(runtime, 4, &four));
  printf("cost: %.1f FLOPs an element\n", one.flops);
  judge(one.flops >= 1 && one.flops <= 20, "the cost is not that of a few operations an element", ok);
  SL_TRY_OUT(step(&one, 0, data, labels, &first));
  SL_TRY_OUT(check_values(&one, ok));
  SL_TRY_OUT(check_gradient(&one, data, labels, ok));
  SL_TRY_OUT(step(&four, 0, data, labels, &first));
  SL_TRY_OUT(step(&one, 0, data, labels, &first));
  SL_TRY_OUT(sl_program_read(one.program, one.y, a));
  SL_TRY_OUT(sl_program_read(four.program, four.y, b));
  printf("one shard and four: %s\n", memcmp(a, b, sizeof a) ? "other bytes" : "the same bytes");
  judge(memcmp(a, b, sizeof a) == 0, "the result depends on how the batch is cut", ok);
  for (int s = 0; s < STEPS; s++) SL_TRY_OUT(step(&four, 0.5, data, labels, &last));
  printf("training: loss %.4f before, %.4f after %d steps\n", first, last, STEPS);
  judge(last < 0.2 * first, "the network does not learn", ok);
out:
  destroy(&one);
  destroy(&four);
  return status;
}

int main(void) {
  int ok = 1;
  sl_runtime *runtime = NULL;
  const sl_runtime_options alone = {.mpi = 0};
  sl_status status = sl_runtime_start(&alone, &runtime);
  if (status == SL_OK) status = lesson((network){0}, (network){0}, runtime, &ok);
  if (status != SL_OK) fprintf(stderr, "%s\n", sl_error());
  sl_runtime_stop(runtime);
  puts(status == SL_OK && ok ? "ok" : "not ok");
  return status != SL_OK ? 2 : !ok;
}
