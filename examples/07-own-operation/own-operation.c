/* Lesson 7: a copy of lesson 3, but with an operation that the library does not have. operation.c defines everything
 * that the engine needs: kernels, shape, cost and gradient. This program runs it in a network with one shard, with
 * four, and with a team of two threads. It reads judge.c's questions from standard input and writes its answers to
 * descriptor 3, where judge.c judges them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answers.h"
#include "codelets/codelets.h"
#include "operation.h"
#include "runtime/machine/runtime.h"
#include "tasks/graph/gradient.h"
#include "tasks/starpu/program.h"

enum { PARAMETERS = 4 };
enum { DATA, LABELS }; /* slots of a step's input */
static const char *const names[PARAMETERS] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

typedef struct network {
  sl_graph *graph;
  sl_store *store;
  sl_program *program;
  sl_value x, y, loss, gradient[PARAMETERS + 1]; /* x and y: softsign's input and output, [B, H] */
} network;

static questions q;
static answers a;

static sl_status build(sl_runtime *runtime, int shards, int with_gradient, network *n) {
  sl_value wanted[PARAMETERS + 1];
  sl_plan plan = {.batch = B, .leaves = 1, .shards = shards, .seed = 1, .tiles = {.elements = TILE}};
  SL_TRY(sl_plan_complete(&plan));
  SL_TRY(sl_store_create(&n->store));
  sl_graph *g = n->graph = sl_graph_new(B);
  sl_value labels = sl_input(g, "labels", LABELS, SL_I32, sl_shape_make(NULL, 0));
  n->x = sl_linear(g, "fc1", sl_input(g, "data", DATA, SL_F32, SL_SHAPE(P)), H, SL_ACTIVATION_NONE);
  n->y = softsign(g, "softsign1", n->x);
  sl_value z = sl_linear(g, "fc2", n->y, K, SL_ACTIVATION_NONE);
  n->loss = sl_cross_entropy(g, "loss", z, labels, sl_count_targets(g, "count", labels));
  SL_TRY(sl_graph_status(g));
  a.flops = sl_node_cost(g, g->node[sl_graph_value(g, n->y)->producer], &plan.tiles).flops / (B * H);
  for (int i = 0; i < PARAMETERS; i++) wanted[i] = sl_graph_find(g, names[i]);
  wanted[PARAMETERS] = n->x;
  if (with_gradient) {
    SL_TRY(sl_gradient(g, n->loss, wanted, PARAMETERS + 1, n->gradient));
    g->phase = SL_PHASE_UPDATE;
    sl_sgd(g, &(sl_sgd_options){.momentum = 0}, wanted, n->gradient, PARAMETERS, n->loss, SL_NONE);
    SL_TRY(sl_graph_status(g));
  }
  const sl_value keep[] = {n->y, n->loss, n->gradient[0], n->gradient[PARAMETERS]};
  const sl_program_options options = {.keep = keep, .n_keep = with_gradient ? 4 : 2};
  SL_TRY(sl_program_create(runtime, n->store, g, &plan, &options, &n->program));
  const float *const begin[PARAMETERS] = {q.w1, q.b1, q.w2, q.b2};
  const size_t bytes[PARAMETERS] = {sizeof q.w1, sizeof q.b1, sizeof q.w2, sizeof q.b2};
  SL_TRY(sl_store_acquire(n->store, 1));
  for (int i = 0; i < PARAMETERS; i++) memcpy(sl_store_find(n->store, names[i])->data, begin[i], bytes[i]);
  sl_store_release(n->store);
  return SL_OK;
}

static void destroy(network *n) {
  sl_program_destroy(n->program);
  sl_graph_destroy(n->graph);
  sl_store_destroy(n->store);
}

/* With a rate of 0 a step only computes the loss. */
static sl_status step(network *n, double rate, double *loss) {
  SL_TRY(sl_program_run(n->program, &(sl_step){.number = 1, .learning_rate = rate, .input = {q.data, q.labels}}));
  return sl_program_read(n->program, n->loss, loss);
}

/* Calls the kernel of the node that makes `value`, on arrays that stand for the node's inputs: first, and second if it
 * has two. */
static sl_status call_alone(const network *n, sl_value value, float *first, float *second, float *out) {
  const sl_node *node = n->graph->node[sl_graph_value(n->graph, value)->producer];
  const sl_shape shape = sl_graph_value(n->graph, value)->shape;
  sl_array in[2] = {{.data = first, .shape = shape, .dtype = SL_F32, .parts = 1},
                    {.data = second, .shape = shape, .dtype = SL_F32, .parts = 1}};
  if (node->op->inplace[0] != 1) memset(out, 0, sizeof a.y_alone);
  if (node->op->inplace[0] == 1) memcpy(out, first, sizeof a.y_alone), in[0].data = out;
  const sl_array to = {.data = out, .shape = shape, .dtype = SL_F32, .parts = 1};
  const sl_call call = {.attr = node->attr,
                        .n_in = node->n_in,
                        .n_out = 1,
                        .in = in,
                        .out = &to,
                        .rows = B,
                        .leaf_rows = B,
                        .batch_rows = B,
                        .tiles = {.elements = TILE},
                        .team = sl_team_current()};
  if (node->n_in > 2) return sl_fail(SL_EUNSUPPORTED, "the operation %s has more than two inputs", node->op->name);
  return node->op->cpu[SL_ISA_BASELINE](&call);
}

static sl_status answer_alone(const network *n, int with_gradient) {
  static float x[B * H];
  for (int i = 0; i < B * H; i++) {
    x[i] = q.b1[i % H];
    for (int p = 0; p < P; p++) x[i] += q.w1[i % H * P + p] * q.data[i / H * P + p];
  }
  SL_TRY(call_alone(n, n->y, x, NULL, a.y_alone));
  if (!with_gradient) return SL_OK;
  const sl_value dx = n->gradient[PARAMETERS];
  const sl_node *node = n->graph->node[sl_graph_value(n->graph, dx)->producer];
  return call_alone(n, dx, x, node->n_in > 1 && node->in[1] == n->x ? x : a.y[ONE], a.dx_alone);
}

static sl_status answer(sl_runtime *runtime, int shards, int with_gradient, int configuration) {
  network n = {0};
  double loss;
  sl_status status = SL_OK;
  SL_TRY_OUT(build(runtime, shards, with_gradient, &n));
  SL_TRY_OUT(step(&n, 0, &loss));
  SL_TRY_OUT(sl_program_read(n.program, n.y, a.y[configuration]));
  if (with_gradient) {
    SL_TRY_OUT(sl_program_read(n.program, n.gradient[PARAMETERS], a.dx[configuration]));
    if (configuration == ONE) SL_TRY_OUT(sl_program_read(n.program, n.gradient[0], a.dw1));
    a.has_gradient = 1;
  }
  a.has[configuration] = 1;
  if (configuration == ONE) SL_TRY_OUT(answer_alone(&n, with_gradient));
  if (configuration != FOUR || !with_gradient) goto out;
  a.first = loss;
  for (int s = 0; s < STEPS; s++) SL_TRY_OUT(step(&n, RATE, &loss));
  SL_TRY_OUT(step(&n, 0, &a.last));
out:
  destroy(&n);
  return status;
}

/* An operation without a gradient rule still has values. */
static sl_status try(sl_runtime *runtime, int shards, int configuration) {
  if (answer(runtime, shards, 1, configuration) == SL_OK) return SL_OK;
  printf("%s\n", sl_error());
  return answer(runtime, shards, 0, configuration);
}

int main(void) {
  sl_status status = SL_OK;
  sl_runtime *runtime = NULL;
  if (fread(&q, sizeof q, 1, stdin) != 1) return puts("no questions on standard input: use make run"), 2;
  a.nonce = q.nonce;
  for (int threads = 1; threads <= 2 && status == SL_OK; threads++) {
    const sl_runtime_options alone = {.workers = threads == 2, .threads_per_worker = threads};
    status = sl_runtime_start(&alone, &runtime);
    if (status != SL_OK && threads == 2) { /* the machine has one core */
      status = SL_OK;
      break;
    }
    if (status == SL_OK) status = try(runtime, 1, threads == 2 ? TEAM : ONE);
    if (status == SL_OK && threads == 1) status = try(runtime, 4, FOUR);
    sl_runtime_stop(runtime);
  }
  if (status != SL_OK) printf("%s\n", sl_error());
  FILE *channel = fdopen(3, "wb");
  if (!channel || fwrite(&a, sizeof a, 1, channel) != 1 || fclose(channel) != 0)
    return puts("descriptor 3 is not open for the answers: use make run"), 2;
  return status == SL_OK ? 0 : 2;
}
