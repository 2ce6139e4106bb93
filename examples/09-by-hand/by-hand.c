/* Lesson 9: the network of lesson 1, scheduled by hand: MPI between processes, OpenMP inside, and no tasks.
 *
 * This program itself decides who computes what, the order of sums, and when processes wait for one another. The graph
 * of lesson 3, which runs afterwards, derives all of this. Both must reach the same losses.
 *
 * Usage: [mpiexec -n 1|2|4] by-hand [DATA] */
#include <math.h>
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "codelets/codelets.h"
#include "runtime/data/dataset.h"
#include "tasks/graph/gradient.h"
#include "tasks/starpu/program.h"

enum { B = 64, P = 784, H = 64, K = 10, STEPS = 500, SHOWN = 4, PARAMETERS = 4 };
enum { LEAVES = 4, ROWS = B / LEAVES }; /* a leaf is a fixed part of the batch, whichever rank computes it */
enum { IMAGES, LABELS };
#define RATE 0.1f
static const int shown[SHOWN] = {1, 10, 100, STEPS};

/* Weights are [outputs][inputs]; loss: that of the leaf, or sum of leaves, whose gradients these are. */
typedef struct network {
  float w1[H * P], b1[H], w2[K * H], b2[K], loss;
} network;
enum { FLOATS = sizeof(network) / sizeof(float) };
static int rank, ranks;

static float noise(uint32_t i) {
  i = (i ^ i >> 16) * 0x7feb352d, i = (i ^ i >> 15) * 0x846ca68b;
  return (float)((i ^ i >> 16) >> 8) * 0x1p-23f - 1;
}

static void begin(float *w1, float *b1, float *w2, float *b2) {
  for (int i = 0; i < H * P; i++) w1[i] = noise(i) / sqrtf(P);
  for (int i = 0; i < K * H; i++) w2[i] = noise(H * P + i) / sqrtf(H);
  for (int i = 0; i < H; i++) b1[i] = 0;
  for (int i = 0; i < K; i++) b2[i] = 0;
}

/* Adds one sample's gradients to g, forward and backward: the three products of each layer, as in lesson 1. */
static void sample(const network *net, const uint8_t *image, int label, network *g) {
  float x[P], h[H], z[K], dh[H] = {0}, sum = 0, most = -INFINITY;
  for (int i = 0; i < P; i++) x[i] = image[i] / 255.0f;
  for (int j = 0; j < H; j++) {
    h[j] = net->b1[j];
    for (int i = 0; i < P; i++) h[j] += x[i] * net->w1[j * P + i];
    h[j] = h[j] > 0 ? h[j] : 0;
  }
  for (int k = 0; k < K; k++) {
    z[k] = net->b2[k];
    for (int j = 0; j < H; j++) z[k] += h[j] * net->w2[k * H + j];
    most = fmaxf(most, z[k]);
  }
  for (int k = 0; k < K; k++) sum += expf(z[k] - most);
  g->loss += (logf(sum) + most - z[label]) / B;
  for (int k = 0; k < K; k++) {
    const float dz = (expf(z[k] - most) / sum - (k == label)) / B;
    g->b2[k] += dz;
    for (int j = 0; j < H; j++) g->w2[k * H + j] += dz * h[j], dh[j] += dz * net->w2[k * H + j];
  }
  for (int j = 0; j < H; j++) {
    if (h[j] <= 0) continue;
    g->b1[j] += dh[j];
    for (int i = 0; i < P; i++) g->w1[j * P + i] += dh[j] * x[i];
  }
}

static void add(network *to, const network *from) {
  for (int i = 0; i < FLOATS; i++) ((float *)to)[i] += ((const float *)from)[i];
}

/* A step. Rank r has leaves [r LEAVES / ranks, (r + 1) LEAVES / ranks). The sums form the tree (0 + 1) + (2 + 3), the
 * lower levels in memory, the upper ones by messages; a + b = b + a, so partners get the same bits. */
static void step(network *net, const uint8_t *images, const int32_t *labels) {
  static network g[LEAVES], other;
  const int own = LEAVES / ranks, first = rank * own;
#pragma omp parallel for schedule(static)
  for (int leaf = first; leaf < first + own; leaf++) {
    memset(&g[leaf], 0, sizeof *g);
    for (int r = leaf * ROWS; r < (leaf + 1) * ROWS; r++) sample(net, images + r * P, labels[r], &g[leaf]);
  }
  for (int d = 1; d < own; d *= 2)
    for (int leaf = first; leaf < first + own; leaf += 2 * d) add(&g[leaf], &g[leaf + d]);
  for (int d = 1; d < ranks; d *= 2) {
    MPI_Sendrecv(&g[first], FLOATS, MPI_FLOAT, rank ^ d, 0, &other, FLOATS, MPI_FLOAT, rank ^ d, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    add(&g[first], &other);
  }
  float *p = (float *)net, *dp = (float *)&g[first];
  for (int i = 0; i < FLOATS; i++) p[i] -= RATE * dp[i];
  net->loss = dp[FLOATS - 1];
}

static void by_hand(const sl_dataset *data, double *loss, double *seconds) {
  static network net;
  begin(net.w1, net.b1, net.w2, net.b2);
  const double from = MPI_Wtime();
  for (int s = 0, next = 0; s < STEPS; s++) {
    step(&net, data->train.pixels + s * B * P, data->train.labels + s * B);
    if (s + 1 == shown[next]) loss[next++] = net.loss;
  }
  *seconds = MPI_Wtime() - from;
}

/* The same with tasks, as in lessons 3 and 6. */
static sl_status by_graph(const sl_dataset *data, double *loss, double *seconds) {
  static const char *const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
  sl_status status = SL_OK;
  sl_runtime *runtime = NULL;
  sl_store *store = NULL;
  sl_graph *g = NULL;
  sl_program *program = NULL;
  sl_value parameter[PARAMETERS], gradient[PARAMETERS];
  float *tensor[PARAMETERS];
  sl_plan plan = {.batch = B, .leaves = LEAVES};
  const sl_runtime_options options = {.mpi = 1};
  SL_TRY_OUT(sl_runtime_start(&options, &runtime));
  SL_TRY_OUT(sl_plan_complete(&plan));
  SL_TRY_OUT(sl_store_create(&store));
  g = sl_graph_new(B);
  sl_value labels = sl_input(g, "labels", LABELS, SL_I32, sl_shape_make(NULL, 0));
  sl_value x = sl_input(g, "images", IMAGES, SL_U8, SL_SHAPE(28, 28, 1));
  x = sl_flatten(g, "flatten", sl_normalize(g, "normalize", x, 1, (double[]){0}, (double[]){1}));
  x = sl_linear(g, "fc2", sl_linear(g, "fc1", x, H, SL_ACTIVATION_RELU), K, SL_ACTIVATION_NONE);
  const sl_value mean = sl_cross_entropy(g, "loss", x, labels, sl_count_targets(g, "count", labels));
  for (int i = 0; i < PARAMETERS; i++) parameter[i] = sl_graph_find(g, names[i]);
  SL_TRY_OUT(sl_gradient(g, mean, parameter, PARAMETERS, gradient));
  g->phase = SL_PHASE_UPDATE;
  sl_sgd(g, &(sl_sgd_options){.momentum = 0}, parameter, gradient, PARAMETERS, mean, SL_NONE);
  SL_TRY_OUT(sl_graph_status(g));
  int first_leaf[LEAVES + 1];
  for (int r = 0; r <= ranks; r++) first_leaf[r] = r * LEAVES / ranks;
  const sl_program_options how = {.keep = &mean, .n_keep = 1, .first_leaf = first_leaf};
  SL_TRY_OUT(sl_program_create(runtime, store, g, &plan, &how, &program));
  SL_TRY_OUT(sl_store_acquire(store, 1));
  for (int i = 0; i < PARAMETERS; i++) tensor[i] = sl_store_find(store, names[i])->data;
  begin(tensor[0], tensor[1], tensor[2], tensor[3]);
  sl_store_release(store);
  const double from = MPI_Wtime();
  for (int s = 0, next = 0; s < STEPS; s++) {
    const sl_step step = {.number = s + 1,
                          .learning_rate = RATE,
                          .input = {[IMAGES] = data->train.pixels + s * B * P, [LABELS] = data->train.labels + s * B}};
    SL_TRY_OUT(sl_program_run(program, &step));
    if (s + 1 == shown[next]) SL_TRY_OUT(sl_program_read(program, mean, &loss[next++]));
  }
  *seconds = MPI_Wtime() - from;
out:
  sl_program_destroy(program);
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(runtime);
  return status;
}

int main(int argc, char **argv) {
  double hand[SHOWN], graph[SHOWN], seconds[2] = {0};
  int given, local, ok = 1;
  sl_dataset *data = NULL;
  MPI_Comm node;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 1 && ranks != 2 && ranks != LEAVES)
    return fprintf(stderr, "run it on 1, 2 or 4 ranks\n"), MPI_Finalize(), 2;
  /* This too must be done by hand: the ranks of one machine divide its cores, so that their threads do not compete. */
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &local);
  omp_set_num_threads((omp_get_num_procs() + local - 1) / local);
  sl_status status = sl_dataset_open(&(sl_dataset_options){.directory = argc > 1 ? argv[1] : NULL}, &data);
  if (status == SL_OK) by_hand(data, hand, &seconds[0]);
  if (status == SL_OK) status = by_graph(data, graph, &seconds[1]);
  if (status != SL_OK) fprintf(stderr, "rank %d: %s\n", rank, sl_error());
  for (int i = 0; status == SL_OK && i < SHOWN; i++) {
    if (rank == 0) printf("step %3d  loss %.9f by hand  %.9f by tasks\n", shown[i], hand[i], graph[i]);
    ok &= fabs(hand[i] - graph[i]) < (shown[i] <= 10 ? 1e-4 : 0.02); /* as in lesson 3 */
  }
  if (status == SL_OK && rank == 0)
    printf("%d ranks: %.2f s by hand, %.2f s by tasks\n%s\n", ranks, seconds[0], seconds[1], ok ? "ok" : "not ok");
  sl_dataset_close(data);
  MPI_Comm_free(&node);
  MPI_Finalize();
  return status != SL_OK ? 2 : !ok;
}
