/* Lesson 3: the network of lessons 1 and 2 as a graph, without loops, handles or waits.
 *
 * The program states only the layers and the loss; the gradient pass adds the backward nodes. Lowering cuts the batch
 * into shards, makes StarPU tasks and derives their dependencies. */
#include <math.h>
#include <stdio.h>

#include "codelets/codelets.h"
#include "runtime/data/dataset.h"
#include "runtime/machine/runtime.h"
#include "tasks/graph/gradient.h"
#include "tasks/starpu/program.h"

enum { B = 64, P = 784, H = 64, K = 10, STEPS = 500, PARAMETERS = 4 };
enum { IMAGES, LABELS }; /* slots of a step's input */
static const char *const names[PARAMETERS] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
/* Losses that lesson 1 prints. Sums in another order differ in their last bits. Once a hidden unit is above 0 in one
 * program and below 0 in the other, the difference grows. */
static const int shown[] = {1, 10, 100, STEPS};
static const double lesson1[] = {2.298073, 1.973729, 0.754628, 0.322980};
static int agrees(int i, double loss) { return fabs(loss - lesson1[i]) < (shown[i] <= 10 ? 1e-4 : 0.02); }

/* Number i of a fixed pseudorandom sequence in [-1, 1), the same on every machine. */
static float noise(uint32_t i) {
  i = (i ^ i >> 16) * 0x7feb352d, i = (i ^ i >> 15) * 0x846ca68b;
  return (float)((i ^ i >> 16) >> 8) * 0x1p-23f - 1;
}

/* Copies the initial weights of lesson 1 into the library's tensors, in place of Starling's own initial weights. */
static sl_status begin(sl_store *store) {
  SL_TRY(sl_store_acquire(store, 1)); /* as in lesson 2: registered data belong to StarPU until they are acquired */
  float *const w1 = sl_store_find(store, names[0])->data, *const b1 = sl_store_find(store, names[1])->data;
  float *const w2 = sl_store_find(store, names[2])->data, *const b2 = sl_store_find(store, names[3])->data;
  for (int i = 0; i < H * P; i++) w1[i] = noise(i) / sqrtf(P);
  for (int i = 0; i < K * H; i++) w2[i] = noise(H * P + i) / sqrtf(H);
  for (int i = 0; i < H; i++) b1[i] = 0;
  for (int i = 0; i < K; i++) b2[i] = 0;
  sl_store_release(store);
  return SL_OK;
}

/* The whole step: forward, loss, gradients, update. The graph keeps the first failure, so one check at the end is
 * enough. */
static sl_status describe(sl_graph *g, sl_value *loss) {
  sl_value parameter[PARAMETERS], gradient[PARAMETERS];
  sl_value labels = sl_input(g, "labels", LABELS, SL_I32, sl_shape_make(NULL, 0));
  sl_value x = sl_input(g, "images", IMAGES, SL_U8, SL_SHAPE(28, 28, 1));
  x = sl_normalize(g, "normalize", x, 1, (double[]){0}, (double[]){1}); /* x / 255 */
  x = sl_flatten(g, "flatten", x);
  x = sl_linear(g, "fc1", x, H, SL_ACTIVATION_RELU);
  x = sl_linear(g, "fc2", x, K, SL_ACTIVATION_NONE);
  *loss = sl_cross_entropy(g, "loss", x, labels, sl_count_targets(g, "count", labels));
  for (int i = 0; i < PARAMETERS; i++) parameter[i] = sl_graph_find(g, names[i]);
  const int forward = g->n_nodes;
  SL_TRY(sl_gradient(g, *loss, parameter, PARAMETERS, gradient));
  printf("the graph: %d nodes were written, the gradient pass added %d", forward, g->n_nodes - forward);
  g->phase = SL_PHASE_UPDATE;
  sl_sgd(g, &(sl_sgd_options){.momentum = 0}, parameter, gradient, PARAMETERS, *loss, SL_NONE);
  printf(", and sgd makes it %d\n", g->n_nodes);
  return sl_graph_status(g);
}

static sl_status train(sl_program *program, const sl_dataset *data, sl_value loss_value, int *ok) {
  for (int s = 0, next = 0; s < STEPS; s++) {
    double loss;
    const sl_step step = {.number = s + 1,
                          .learning_rate = 0.1,
                          .input = {[IMAGES] = data->train.pixels + s * B * P, [LABELS] = data->train.labels + s * B}};
    SL_TRY(sl_program_run(program, &step)); /* submits all tasks, and waits for the last */
    if (s + 1 != shown[next]) continue;
    SL_TRY(sl_program_read(program, loss_value, &loss));
    printf("step %3d  loss %.6f\n", s + 1, loss);
    *ok &= agrees(next++, loss);
  }
  return SL_OK;
}

static sl_status lesson(const char *folder, int *ok) {
  sl_status status = SL_OK;
  sl_runtime *runtime = NULL;
  sl_dataset *data = NULL;
  sl_store *store = NULL; /* keeps parameters by name, longer than any graph */
  sl_graph *graph = NULL;
  sl_program *program = NULL;
  sl_value loss;
  /* A batch of 64 samples in 4 shards. Each shard is a chain of tasks; the shards' gradients are added in order. */
  sl_plan plan = {.batch = B, .leaves = 1, .shards = 4};
  const sl_runtime_options alone = {.mpi = 0};
  SL_TRY_OUT(sl_dataset_open(&(sl_dataset_options){.directory = folder}, &data));
  SL_TRY_OUT(sl_runtime_start(&alone, &runtime));
  SL_TRY_OUT(sl_plan_complete(&plan));
  SL_TRY_OUT(sl_store_create(&store));
  graph = sl_graph_new(B);
  SL_TRY_OUT(describe(graph, &loss));
  SL_TRY_OUT(
      sl_program_create(runtime, store, graph, &plan, &(sl_program_options){.keep = &loss, .n_keep = 1}, &program));
  const sl_schedule *schedule = sl_program_schedule(program);
  printf("the program: %d tasks and %d dependencies a step\n", schedule->n, schedule->from[schedule->n]);
  printf("predicted: %.0f us on %d workers; critical path %.0f us\n", 1e6 * schedule->makespan,
         sl_runtime_workers(runtime), 1e6 * schedule->critical_path);
  SL_TRY_OUT(begin(store));
  SL_TRY_OUT(train(program, data, loss, ok));
out:
  sl_program_destroy(program);
  sl_graph_destroy(graph);
  sl_store_destroy(store);
  sl_runtime_stop(runtime);
  sl_dataset_close(data);
  return status;
}

int main(int argc, char **argv) {
  int ok = 1;
  if (lesson(argc > 1 ? argv[1] : NULL, &ok) != SL_OK) return fprintf(stderr, "%s\n", sl_error()), 2;
  puts(ok ? "ok" : "not ok");
  return !ok;
}
