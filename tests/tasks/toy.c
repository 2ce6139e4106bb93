/* The toy operations. */
#include "tests/tasks/toy.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tasks/graph/folds.h"

#define ALL(f) \
  { f, f, f }

/* ---- on a GPU: the CPU's function, on copies of the arrays --------------------------------------------------------
 */

#ifdef SL_HAVE_CUDA
#include <cuda_runtime_api.h>

#include "runtime/processors/cuda_context.h"

typedef sl_status (*kernel)(const sl_call *call);
enum { MOST = 64 };

/* A call's arrays, or their parts, on the host. */
typedef struct copies {
  void *host[MOST], *device[MOST];
  size_t bytes[MOST];
  int n;
} copies;

static sl_status to_host(copies *all, sl_cuda *cuda, sl_array *a, sl_array *part) {
  if (a->parts > 1) {
    memcpy(part, a->part, (size_t)a->parts * sizeof *part);
    a->part = part;
  }
  for (int p = 0; p < (a->parts > 1 ? a->parts : 1); p++) {
    sl_array *one = a->parts > 1 ? &part[p] : a;
    int i = 0;
    while (i < all->n && all->device[i] != one->data) i++;
    if (i == MOST) return sl_fail(SL_EINVAL, "more than %d arrays", (int)MOST);
    if (i == all->n) {
      all->device[i] = one->data;
      all->bytes[i] = (size_t)sl_shape_count(&one->shape) * sl_dtype_bytes(one->dtype);
      if (!(all->host[i] = malloc(all->bytes[i] + 1))) return sl_no_memory("for a copy");
      all->n++;
      SL_TRY(sl_cuda_read(cuda, all->host[i], one->data, all->bytes[i]));
    }
    one->data = all->host[i];
  }
  if (a->parts == 1) a->part = a;
  return SL_OK;
}

static sl_status on_gpu(const sl_call *call, sl_cuda *cuda, kernel function) {
  enum { PARTS = 32 };
  sl_call c = *call;
  sl_array in[MOST], out[MOST];
  sl_array(*part)[PARTS] = calloc(2 * MOST, sizeof *part);
  copies all = {.n = 0};
  sl_status status = part ? SL_OK : sl_no_memory("for arrays");
  SL_TRY_OUT(status);
  memcpy(in, c.in, (size_t)c.n_in * sizeof *in);
  memcpy(out, c.out, (size_t)c.n_out * sizeof *out);
  c.in = in, c.out = out;
  for (int k = 0; k < c.n_in; k++) SL_TRY_OUT(to_host(&all, cuda, &in[k], part[k]));
  for (int k = 0; k < c.n_out; k++) SL_TRY_OUT(to_host(&all, cuda, &out[k], part[MOST + k]));
  SL_TRY_OUT(function(&c));
  for (int i = 0; i < all.n; i++)
    if (cudaMemcpy(all.device[i], all.host[i], all.bytes[i], cudaMemcpyHostToDevice) != cudaSuccess)
      SL_TRY_OUT(sl_fail(SL_ETASK, "a copy to the GPU failed"));
out:
  for (int i = 0; i < all.n; i++) free(all.host[i]);
  free(part);
  return status;
}

#define ON_GPU(f) \
  static sl_status f##_on_gpu(const sl_call *c, sl_cuda *cuda) { return on_gpu(c, cuda, f); }
#define GPU(f) f##_on_gpu
#else
#define ON_GPU(f)
#define GPU(f) NULL
#endif

double toy_element(int64_t row, int64_t k) { return (double)((row * 31 + k * 7) % 97) / 64 - 0.75; }

static sl_status like_first(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].dtype = in[0]->dtype;
  return SL_OK;
}

static sl_status run_copy(const sl_call *c) {
  int64_t n = sl_shape_count(&c->out[0].shape);
  int add = c->accumulate & 1;
  for (int64_t i = 0; i < n; i++)
    if (c->out[0].dtype == SL_F64) {
      double *to = c->out[0].data;
      to[i] = ((const double *)c->in[0].data)[i] + (add ? to[i] : 0);
    } else {
      float *to = c->out[0].data;
      to[i] = ((const float *)c->in[0].data)[i] + (add ? to[i] : 0);
    }
  return SL_OK;
}
ON_GPU(run_copy)
const sl_operation toy_copy = {.name = "toy_copy", .shape = like_first, .cpu = ALL(run_copy), .cuda = GPU(run_copy)};

static sl_status run_add(const sl_call *c) {
  int64_t n = sl_shape_count(&c->out[0].shape);
  for (int64_t i = 0; i < n; i++)
    if (c->out[0].dtype == SL_F64)
      ((double *)c->out[0].data)[i] = ((const double *)c->in[0].data)[i] + ((const double *)c->in[1].data)[i];
    else
      ((float *)c->out[0].data)[i] = ((const float *)c->in[0].data)[i] + ((const float *)c->in[1].data)[i];
  return SL_OK;
}
static void add_gradient(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  (void)g, (void)node;
  for (int k = 0; k < 2; k++)
    if (need[k]) din[k] = dout[0];
}
ON_GPU(run_add)
const sl_operation toy_add = {
    .name = "toy_add", .shape = like_first, .gradient = add_gradient, .cpu = ALL(run_add), .cuda = GPU(run_add)};

typedef struct rows_attr {
  int64_t batch, k;
} rows_attr;

static sl_status rows_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)in, (void)n_in, (void)n_out;
  const rows_attr *a = attr;
  out[0].scope = SL_SCOPE_SAMPLE;
  out[0].shape = SL_SHAPE(a->batch, a->k);
  return SL_OK;
}

static sl_status run_rows(const sl_call *c) {
  float *y = c->out[0].data;
  for (int64_t i = 0; i < c->out[0].shape.dim[0]; i++)
    for (int64_t k = 0; k < c->out[0].shape.dim[1]; k++)
      y[i * c->out[0].shape.dim[1] + k] = (float)toy_element(c->row0 + i, k);
  return SL_OK;
}
ON_GPU(run_rows)
const sl_operation toy_rows = {.name = "toy_rows",
                               .attr_bytes = sizeof(rows_attr),
                               .shape = rows_shape,
                               .cpu = ALL(run_rows),
                               .cuda = GPU(run_rows)};

static sl_status matmul_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (in[0]->shape.dim[1] != in[1]->shape.dim[1])
    return sl_fail(SL_ESHAPE, "x has %lld columns, W %lld", (long long)in[0]->shape.dim[1],
                   (long long)in[1]->shape.dim[1]);
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], in[1]->shape.dim[0]);
  return SL_OK;
}

static sl_status run_matmul(const sl_call *c) {
  const float *x = c->in[0].data;
  int64_t b = c->in[0].shape.dim[0], k = c->in[0].shape.dim[1], n = c->in[1].shape.dim[0];
  float *y = c->out[0].data;
  if (c->in[1].parts > 1 && c->in[1].data) return sl_fail(SL_EINVAL, "row blocks in one array");
  for (int p = 0; p < c->in[1].parts; p++) {
    const sl_array *w = &c->in[1].part[p];
    for (int64_t i = 0; i < b; i++)
      for (int64_t j = 0; j < w->shape.dim[0]; j++) {
        float sum = 0;
        for (int64_t q = 0; q < k; q++) sum += x[i * k + q] * ((const float *)w->data)[j * k + q];
        y[i * n + w->row0 + j] = sum;
      }
  }
  return SL_OK;
}

static void matmul_gradient(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  sl_value x = node->in[0], w = node->in[1];
  if (need[0]) din[0] = sl_graph_add1(g, &toy_dx, node->name, NULL, (sl_value[]){dout[0], w}, 2);
  if (need[1]) din[1] = sl_graph_add1(g, &toy_dw, node->name, NULL, (sl_value[]){dout[0], x}, 2);
}

static void matmul_cost(const sl_call *c, sl_cost *cost) {
  cost->flops = 2.0 * (double)c->in[0].shape.dim[0] * (double)c->in[0].shape.dim[1] * (double)c->in[1].shape.dim[0];
}
ON_GPU(run_matmul)
const sl_operation toy_matmul = {.name = "toy_matmul",
                                 .shape = matmul_shape,
                                 .gradient = matmul_gradient,
                                 .cost = matmul_cost,
                                 .cpu = ALL(run_matmul),
                                 .cuda = GPU(run_matmul),
                                 .all_in = 2};

static sl_status dx_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], in[1]->shape.dim[1]);
  return SL_OK;
}

static sl_status run_dx(const sl_call *c) {
  const float *dy = c->in[0].data;
  int64_t b = c->in[0].shape.dim[0], n = c->in[0].shape.dim[1], k = c->out[0].shape.dim[1];
  float *dx = c->out[0].data;
  for (int64_t i = 0; i < b * k; i++) dx[i] = 0;
  for (int p = 0; p < c->in[1].parts; p++) {
    const sl_array *w = &c->in[1].part[p];
    for (int64_t i = 0; i < b; i++)
      for (int64_t j = 0; j < w->shape.dim[0]; j++)
        for (int64_t q = 0; q < k; q++) dx[i * k + q] += dy[i * n + w->row0 + j] * ((const float *)w->data)[j * k + q];
  }
  return SL_OK;
}
ON_GPU(run_dx)
const sl_operation toy_dx = {.name = "toy_dx", .shape = dx_shape, .cpu = ALL(run_dx), .cuda = GPU(run_dx), .all_in = 2};

static sl_status dw_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].scope = SL_SCOPE_WHOLE;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[1], in[1]->shape.dim[1]);
  return SL_OK;
}

static sl_status run_dw(const sl_call *c) {
  const float *dy = c->in[0].data, *x = c->in[1].data;
  float *dw = c->out[0].data;
  int64_t b = c->in[0].shape.dim[0], n = c->in[0].shape.dim[1], k = c->in[1].shape.dim[1];
  for (int64_t j = 0; j < c->out[0].shape.dim[0]; j++)
    for (int64_t q = 0; q < k; q++) {
      float sum = 0;
      for (int64_t i = 0; i < b; i++) sum += dy[i * n + c->out[0].row0 + j] * x[i * k + q];
      dw[j * k + q] = sum + (c->accumulate & 1 ? dw[j * k + q] : 0);
    }
  return SL_OK;
}
ON_GPU(run_dw)
const sl_operation toy_dw = {
    .name = "toy_dw", .shape = dw_shape, .cpu = ALL(run_dw), .cuda = GPU(run_dw), .map_out = 1};

static sl_status total_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)in, (void)n_in, (void)n_out;
  out[0].scope = SL_SCOPE_WHOLE;
  out[0].dtype = SL_F64;
  out[0].shape = SL_SHAPE(1);
  return SL_OK;
}

static sl_status run_total(const sl_call *c) {
  const float *y = c->in[0].data;
  double sum = 0, *to = c->out[0].data;
  for (int64_t i = 0; i < sl_shape_count(&c->in[0].shape); i++) sum += 0.5 * (double)y[i] * (double)y[i];
  *to = sum + (c->accumulate & 1 ? *to : 0);
  return SL_OK;
}

static void total_gradient(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  (void)dout;
  if (need[0]) din[0] = sl_graph_add1(g, &toy_copy, node->name, NULL, node->in, 1);
}
ON_GPU(run_total)
const sl_operation toy_total = {.name = "toy_total",
                                .shape = total_shape,
                                .gradient = total_gradient,
                                .cpu = ALL(run_total),
                                .cuda = GPU(run_total)};

static sl_status run_step(const sl_call *c) {
  float *w = c->out[0].data;
  const float *g = c->in[1].data;
  for (int64_t i = 0; i < sl_shape_count(&c->out[0].shape); i++) w[i] -= (float)c->step->learning_rate * g[i];
  return SL_OK;
}
ON_GPU(run_step)
const sl_operation toy_step = {.name = "toy_step",
                               .shape = like_first,
                               .cpu = ALL(run_step),
                               .cuda = GPU(run_step),
                               .update = {1},
                               .map_in = 3,
                               .map_out = 1};

static sl_status leafsum_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                               int n_out) {
  SL_TRY(total_shape(attr, in, n_in, out, n_out));
  out[0].scope = SL_SCOPE_LEAF;
  return SL_OK;
}
const sl_operation toy_leafsum = {
    .name = "toy_leafsum", .shape = leafsum_shape, .cpu = ALL(run_total), .cuda = GPU(run_total)};

static sl_status run_leafscale(const sl_call *c) {
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  for (int64_t i = 0; i < sl_shape_count(&c->out[0].shape); i++) y[i] = x[i] * (float)*(const double *)c->in[1].data;
  return SL_OK;
}
ON_GPU(run_leafscale)
const sl_operation toy_leafscale = {.name = "toy_leafscale",
                                    .shape = like_first,
                                    .cpu = ALL(run_leafscale),
                                    .cuda = GPU(run_leafscale),
                                    .inplace = {1}};

static sl_status run_square(const sl_call *c) {
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  for (int64_t i = 0; i < sl_shape_count(&c->out[0].shape); i++) y[i] = x[i] * x[i];
  return SL_OK;
}
static void square_gradient(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0]) din[0] = sl_graph_add1(g, &toy_dsquare, node->name, NULL, (sl_value[]){dout[0], node->in[0]}, 2);
}
ON_GPU(run_square)
const sl_operation toy_square = {.name = "toy_square",
                                 .shape = like_first,
                                 .gradient = square_gradient,
                                 .cpu = ALL(run_square),
                                 .cuda = GPU(run_square),
                                 .inplace = {1}};

/* The same, and folds may divide them. */
static const sl_folding by_features = {.rows = 2, .columns = 2}, follows = {.follows = 1};
const sl_operation toy_folded_matmul = {.name = "toy_folded_matmul",
                                        .shape = matmul_shape,
                                        .gradient = matmul_gradient,
                                        .cost = matmul_cost,
                                        .cpu = ALL(run_matmul),
                                        .cuda = GPU(run_matmul),
                                        .all_in = 2,
                                        .folding = &by_features};
const sl_operation toy_folded_square = {.name = "toy_folded_square",
                                        .shape = like_first,
                                        .gradient = square_gradient,
                                        .cpu = ALL(run_square),
                                        .cuda = GPU(run_square),
                                        .inplace = {1},
                                        .folding = &follows};

/* A reduction over features: the total of each fold, and their sum. */
static void reduce_total(sl_graph *g, const sl_node *node, const sl_value *fold, const sl_value *in, sl_value *out) {
  (void)in;
  sl_value total[SL_MAX_FOLDS];
  const sl_run whole = g->fold;
  for (int f = 0; f < g->folds; f++) {
    g->fold = (sl_run){f, f + 1};
    total[f] = sl_graph_add1(g, &toy_total, node->name, NULL, &fold[f], 1);
  }
  g->fold = whole;
  out[0] = sl_fold_sum(g, node->name, total, 0, g->folds);
}
static const sl_folding reduces = {.reduce = reduce_total};
const sl_operation toy_folded_total = {.name = "toy_folded_total",
                                       .shape = total_shape,
                                       .gradient = total_gradient,
                                       .cpu = ALL(run_total),
                                       .cuda = GPU(run_total),
                                       .folding = &reduces};

static sl_status run_dsquare(const sl_call *c) {
  const float *dy = c->in[0].data, *x = c->in[1].data;
  float *dx = c->out[0].data;
  for (int64_t i = 0; i < sl_shape_count(&c->out[0].shape); i++) dx[i] = 2 * dy[i] * x[i];
  return SL_OK;
}
ON_GPU(run_dsquare)
const sl_operation toy_dsquare = {
    .name = "toy_dsquare", .shape = like_first, .cpu = ALL(run_dsquare), .cuda = GPU(run_dsquare), .inplace = {1}};

static int holds(const sl_call *c, int64_t row) { return row >= c->row0 && row < c->row0 + c->rows; }

static sl_status fail_second(int64_t row, atomic_int *failed) {
  while (!atomic_load(failed)) sched_yield();
  usleep(500000); /* the engine notes the first failure after its kernel has returned */
  return sl_fail(SL_EINVAL, "sample %lld is broken, too", (long long)row);
}

static sl_status run_faulty(const sl_call *c) {
  static atomic_int begun, failed;
  const toy_fault *fault = c->attr;
  SL_TRY(run_copy(c));
  if (fault->also > 0 && holds(c, fault->also)) {
    atomic_store(&begun, 1);
    return fail_second(fault->also, &failed);
  }
  if (!holds(c, fault->row)) return SL_OK;
  while (fault->also > 0 && !atomic_load(&begun)) sched_yield();
  atomic_store(&failed, fault->also > 0);
  if (!fault->nan) return sl_fail(SL_EINVAL, "sample %lld is broken", (long long)fault->row);
  ((float *)c->out[0].data)[0] = NAN;
  return SL_OK;
}
ON_GPU(run_faulty)
const sl_operation toy_faulty = {.name = "toy_faulty",
                                 .attr_bytes = sizeof(toy_fault),
                                 .shape = like_first,
                                 .cpu = ALL(run_faulty),
                                 .cuda = GPU(run_faulty)};

/* x [B, k] -> table [TOY_TABLE]: element (row, j) is added at 7 row + 3 j, modulo 31. */
static sl_status spray_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)in, (void)n_in, (void)n_out;
  out[0].scope = SL_SCOPE_WHOLE;
  out[0].shape = SL_SHAPE(TOY_TABLE);
  return SL_OK;
}
static sl_status run_spray(const sl_call *c) {
  const int64_t k = c->in[0].shape.dim[1];
  float *table = c->out[0].data;
  if (!(c->accumulate & 1)) memset(table, 0, TOY_TABLE * sizeof *table);
  for (int64_t i = 0; i < c->rows; i++)
    for (int64_t j = 0; j < k; j++)
      table[(7 * (c->row0 + i) + 3 * j) % 31] += ((const float *)c->in[0].data)[i * k + j];
  return SL_OK;
}
ON_GPU(run_spray)
const sl_operation toy_spray = {
    .name = "toy_spray", .shape = spray_shape, .cpu = ALL(run_spray), .cuda = GPU(run_spray)};
const sl_operation toy_gather = {
    .name = "toy_gather", .shape = spray_shape, .cpu = ALL(run_spray), .cuda = GPU(run_spray), .gathers = 1};

sl_graph *toy_graph(int64_t batch) { return sl_graph_create(batch, &toy_copy, &toy_add, NULL); }

sl_value toy_input(sl_graph *g, int64_t k) {
  return sl_graph_add1(g, &toy_rows, "input", &(rows_attr){.batch = g->batch, .k = k}, NULL, 0);
}

sl_value toy_layer(sl_graph *g, const char *layer, sl_value x, int64_t n) {
  const sl_value_info *info = sl_graph_value(g, x);
  if (!info) return SL_NONE;
  sl_value w = sl_graph_tensor(g, SL_ROLE_PARAMETER, layer, "weight", SL_F32, SL_SHAPE(n, info->shape.dim[1]),
                               (sl_init){.kind = SL_INIT_UNIFORM, .a = 0.5});
  return sl_graph_add1(g, &toy_matmul, layer, NULL, (sl_value[]){x, w}, 2);
}

sl_value toy_sum(sl_graph *g, sl_value a, sl_value b) {
  return sl_graph_add1(g, &toy_add, "sum", NULL, (sl_value[]){a, b}, 2);
}

sl_value toy_loss(sl_graph *g, sl_value y) { return sl_graph_add1(g, &toy_total, "loss", NULL, &y, 1); }

/* Adds gradients and updates of all parameters. */
static void add_updates(sl_graph *g, sl_value loss) {
  enum { MOST = 8 };
  sl_value parameters[MOST] = {0}, gradients[MOST];
  int n = 0;
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role == SL_ROLE_PARAMETER) parameters[n++] = v;
  assert_ok(sl_gradient(g, loss, parameters, n, gradients));
  g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < n; i++) sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){parameters[i], gradients[i]}, 2);
  assert_ok(sl_graph_status(g));
}

sl_graph *toy_training(int64_t batch, sl_value *loss) {
  sl_graph *g = toy_graph(batch);
  sl_value x = toy_layer(g, "fc1", toy_input(g, 5), 64);
  x = sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
  *loss = toy_loss(g, toy_layer(g, "fc2", x, 3));
  add_updates(g, *loss);
  return g;
}

sl_graph *toy_deep_training(int64_t batch, int64_t width, sl_value *loss) {
  sl_graph *g = toy_graph(batch);
  sl_value x = toy_layer(g, "fc0", toy_input(g, 5), 4);
  x = toy_layer(g, "fc1", x, width);
  x = toy_layer(g, "fc2", x, 2);
  *loss = toy_loss(g, toy_layer(g, "fc3", x, width));
  add_updates(g, *loss);
  return g;
}

static void given_cost(const sl_call *c, sl_cost *cost) { cost->flops = *(const double *)c->attr; }
static const sl_operation given = {.name = "one", .attr_bytes = sizeof(double), .cost = given_cost};

sl_value toy_value(sl_graph *g, sl_role role, int64_t n) {
  return sl_graph_push_value(g, &(sl_value_info){.name = "value",
                                                 .dtype = SL_F32,
                                                 .shape = SL_SHAPE(n),
                                                 .role = role,
                                                 .scope = role == SL_ROLE_TEMPORARY ? SL_SCOPE_SAMPLE : SL_SCOPE_WHOLE,
                                                 .blocks = 1,
                                                 .producer = -1,
                                                 .leaf = -1,
                                                 .shard = -1,
                                                 .block = -1});
}

void toy_task(sl_graph *g, double flops, const sl_value *in, int n_in, sl_value out) {
  const sl_node n = {.op = &given,
                     .name = "task",
                     .attr = &flops,
                     .in = (sl_value *)in,
                     .n_in = n_in,
                     .n_arg = n_in,
                     .out = &out,
                     .n_out = out != SL_NONE,
                     .after = SL_NONE,
                     .leaf = -1,
                     .shard = -1,
                     .block = -1};
  if (n.n_out && g->value[out]->producer < 0) g->value[out]->producer = g->n_nodes;
  assert_non_null(sl_graph_push_node(g, &n));
}
