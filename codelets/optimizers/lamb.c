/* lamb (You et al. 2020, algorithm 2, with phi the identity): Adam's direction with the weight decay in it,
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay p
 *   p = p - lr |p| / |u| u,   the ratio 1 where one of the norms is 0,
 * as two operations. lamb_moments updates m and v, and gives the sums of squares of p and u for each row. lamb adds
 * these sums by the tree of clip.c, however the plan cuts the rows into blocks, and updates p. u is never stored: lamb
 * recomputes u, which costs no more memory traffic than writing and reading u would. */
#include "codelets/kernels/math.h"
#include "codelets/kernels/tree.h"
#include "codelets/optimizers/formulas.h"
#include "codelets/optimizers/optimizer.h"

SL_KERNEL_DECLARE(lamb_moments);
SL_KERNEL_DECLARE(lamb);

static int64_t row_elements(const sl_call *c) { return sl_shape_row(&c->in[0].shape); }

/* --- moments ------------------------------------------------------------------------------------------------------ */

static __attribute__((noinline)) void moments(const float *gradient, const float *p, float *m, float *v, float *u,
                                              const sl_lamb_factors *factor) {
  const sl_lamb_factors f = *factor;
  SL_IVDEP
  for (int i = 0; i < SL_CHUNK; i++) u[i] = sl_lamb_moments_element(gradient[i], p[i], &m[i], &v[i], &f);
}

/* Takes the first n elements of a chunk; the other elements of u become 0. */
static void some_moments(int64_t n, const float *g, const float *p, float *m, float *v, float *u,
                         const sl_lamb_factors *f) {
  if (n == SL_CHUNK) {
    moments(g, p, m, v, u, f);
    return;
  }
  float end[4][SL_CHUNK] = {{0}};
  const size_t bytes = (size_t)n * sizeof(float);
  memcpy(end[0], g, bytes);
  memcpy(end[1], p, bytes);
  memcpy(end[2], m, bytes);
  memcpy(end[3], v, bytes);
  moments(end[0], end[1], end[2], end[3], u, f);
  memcpy(m, end[2], bytes);
  memcpy(v, end[3], bytes);
  memset(u + n, 0, (SL_CHUNK - (size_t)n) * sizeof *u);
}

/* sum += x^2, lane by lane. */
static inline void add_squares(const float *x, sl_sum_d sum[2]) {
  for (int i = 0; i < SL_CHUNK; i += 2 * SL_SUM_LANES_D)
    for (int j = 0; j < 2; j++) sl_sum_squares_d(&sum[j], x + i + j * SL_SUM_LANES_D);
}

/* A tile is a run of rows. */
static void moments_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t rows = c->in[0].shape.dim[0], n = row_elements(c);
  const float *p = c->in[0].data, *g = c->in[1].data;
  float *m = c->out[0].data, *v = c->out[1].data, u[SL_CHUNK];
  double *norm = c->out[2].data;
  sl_lamb_factors f = sl_lamb_factors_of(c);
  sl_optimizer_may(c, 2, &f.clip);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, n), rows);
  if (n == 1) { /* a vector: each element is a row */
    for (int64_t i = r.from; i < r.to; i += SL_CHUNK) {
      const int64_t count = sl_min64(SL_CHUNK, r.to - i);
      some_moments(count, g + i, p + i, m + i, v + i, u, &f);
      for (int64_t k = 0; k < count; k++) {
        norm[2 * (i + k)] = (double)p[i + k] * (double)p[i + k];
        norm[2 * (i + k) + 1] = (double)u[k] * (double)u[k];
      }
    }
    return;
  }
  for (int64_t i = r.from; i < r.to; i++) {
    sl_sum_d of_p[2] = {{{{0}}}}, of_u[2] = {{{{0}}}};
    for (int64_t k = 0; k < n; k += SL_CHUNK) {
      const int64_t count = sl_min64(SL_CHUNK, n - k), at = i * n + k;
      some_moments(count, g + at, p + at, m + at, v + at, u, &f);
      add_squares(u, of_u);
      if (count == SL_CHUNK) {
        add_squares(p + at, of_p);
      } else {
        float end[SL_CHUNK] = {0};
        memcpy(end, p + at, (size_t)count * sizeof *end);
        add_squares(end, of_p);
      }
    }
    norm[2 * i] = sl_sum_lanes_d(sl_sum_add_d(of_p[0], of_p[1]));
    norm[2 * i + 1] = sl_sum_lanes_d(sl_sum_add_d(of_u[0], of_u[1]));
  }
}

/* p, g, m, v, guard, maybe clip -> m, v in place; F64 [rows, 2]: the squared norms of the rows of p and u. */
sl_status SL_KERNEL(lamb_moments)(const sl_call *c) {
  const int64_t rows = c->in[0].shape.dim[0];
  float clip;
  if (sl_optimizer_may(c, 2, &clip))
    sl_team_for(c->team, sl_tiles_of(rows, sl_tile_rows(c, row_elements(c))), moments_body, (void *)c);
  else
    memset(c->out[2].data, 0, (size_t)(2 * rows) * sizeof(double));
  return SL_OK;
}

/* --- update ------------------------------------------------------------------------------------------------------- */

typedef struct job {
  const sl_call *c;
  sl_lamb_factors f;
  float rate; /* learning rate times the trust ratio */
} job;

static double trust_ratio(const sl_array *norms) {
  tree_sum of_p = {0}, of_u = {0};
  for (int part = 0; part < norms->parts; part++) {
    const double *x = norms->part[part].data;
    for (int64_t i = 0; i < norms->part[part].shape.dim[0]; i++) {
      tree_add(&of_p, x[2 * i]);
      tree_add(&of_u, x[2 * i + 1]);
    }
  }
  const double p = sqrt(tree_total(&of_p)), u = sqrt(tree_total(&of_u));
  return p > 0 && u > 0 ? p / u : 1;
}

static __attribute__((noinline)) void update(float *p, const float *m, const float *v, float rate,
                                             const sl_lamb_factors *factor) {
  const sl_lamb_factors f = *factor;
  SL_IVDEP
  for (int i = 0; i < SL_CHUNK; i++) p[i] = sl_lamb_element(p[i], m[i], v[i], rate, &f);
}

static void update_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const job *j = arg;
  const sl_call *c = j->c;
  float *p = c->out[0].data;
  const float *m = c->in[1].data, *v = c->in[2].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  int64_t i = r.from;
  for (; i + SL_CHUNK <= r.to; i += SL_CHUNK) update(p + i, m + i, v + i, j->rate, &j->f);
  if (i < r.to) {
    float end[3][SL_CHUNK] = {{0}};
    const size_t bytes = (size_t)(r.to - i) * sizeof(float);
    memcpy(end[0], p + i, bytes);
    memcpy(end[1], m + i, bytes);
    memcpy(end[2], v + i, bytes);
    update(end[0], end[1], end[2], j->rate, &j->f);
    memcpy(p + i, end[0], bytes);
  }
}

/* p, m, v, norms, guard, maybe clip -> p in place. */
sl_status SL_KERNEL(lamb)(const sl_call *c) {
  float clip;
  if (!sl_optimizer_may(c, 2, &clip)) return SL_OK;
  job j = {.c = c, .f = sl_lamb_factors_of(c), .rate = (float)(c->step->learning_rate * trust_ratio(&c->in[3]))};
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), update_body, &j);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(lamb_moments);
SL_CUDA_DECLARE(lamb);

static sl_status moments_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                               int n_out) {
  if (in[0]->shape.ndim < 1) return sl_fail(SL_ESHAPE, "parameter '%s' has no dimension", in[0]->name);
  SL_TRY(optimizer_shape(attr, in, n_in, out, n_out));
  out[2].shape = SL_SHAPE(in[0]->shape.dim[0], 2);
  out[2].dtype = SL_F64;
  return SL_OK;
}

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void moments_cost(const sl_call *c, sl_cost *cost) {
  cost->flops = 18 * (double)sl_shape_count(&c->in[0].shape);
}
static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 9 * (double)sl_shape_count(&c->out[0].shape); }

/* The norms over all parts, and the rate. */
static size_t scratch_cuda(const sl_call *c) { return (size_t)(2 * c->in[3].shape.dim[0] + 1) * sizeof(double); }

const sl_operation sl_op_lamb_moments = {
    .name = "lamb_moments",
    .attr_bytes = sizeof(sl_lamb_options),
    .shape = moments_shape,
    .cost = moments_cost,
    .cpu = SL_KERNELS(lamb_moments),
    .cuda = SL_CUDA_KERNEL(lamb_moments),
    .map_in = 15,
    .map_out = 7,
    .update = {3, 4},
};
const sl_operation sl_op_lamb = {
    .name = "lamb",
    .attr_bytes = sizeof(sl_lamb_options),
    .shape = shape,
    .cost = cost,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(lamb),
    .cuda = SL_CUDA_KERNEL(lamb),
    .map_in = 7,
    .map_out = 1,
    .all_in = 8,
    .update = {1},
};

void sl_lamb(sl_graph *graph, const sl_lamb_options *options, const sl_value *parameters, const sl_value *gradients,
             int n, sl_value guard, sl_value clip) {
  const sl_phase before = graph->phase;
  graph->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < n; i++) {
    const sl_value_info *info = sl_graph_value(graph, parameters[i]);
    if (!info) break;
    sl_lamb_options attr = *options;
    if (!info->decay) attr.decay = 0;
    const sl_init zero = {SL_INIT_CONSTANT, 0};
    const int n_in = clip == SL_NONE ? 5 : 6;
    sl_value in[6] = {parameters[i], gradients[i], SL_NONE, SL_NONE, guard, clip}, out[3];
    in[2] = sl_graph_tensor(graph, SL_ROLE_STATE, info->name, sl_optimizer_lamb.state[0], SL_F32, info->shape, zero);
    in[3] = sl_graph_tensor(graph, SL_ROLE_STATE, info->name, sl_optimizer_lamb.state[1], SL_F32, info->shape, zero);
    sl_graph_add(graph, &sl_op_lamb_moments, info->name, &attr, in, n_in, out, 3);
    sl_graph_add1(graph, &sl_op_lamb, info->name, &attr,
                  (sl_value[]){parameters[i], out[0], out[1], out[2], guard, clip}, n_in);
  }
  graph->phase = before;
}

static void add(sl_graph *graph, const sl_training *t, const sl_value *parameters, const sl_value *gradients, int n,
                sl_value guard, sl_value clip) {
  sl_lamb(graph, &(sl_lamb_options){t->beta1, t->beta2, t->eps, t->decay}, parameters, gradients, n, guard, clip);
}

const sl_optimizer_rule sl_optimizer_lamb = {
    .name = "lamb", .reads = {"beta1", "beta2", "eps"}, .whole = 1, .state = {"m", "v"}, .add = add};
#endif
