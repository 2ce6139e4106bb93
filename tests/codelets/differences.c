/* Gradients against finite differences. An input's elements are dealt at random into groups, and each group gets a
 * direction: +1 or -1 for its elements, 0 for all others. Along each direction the computed gradient's slope must equal
 * the reference's. So every element counts, in every channel, row, head and part of a packed tensor, for two runs of
 * the reference per group. Groups and signs come from a printed seed, so that a failure can be repeated.
 *
 * The bound comes from the reference alone: a share of its largest slope over all directions plus the error of the
 * finite difference itself, which must be the smaller of the two. Rectifiers and maxima have kinks; where a step
 * crosses one, the reference bends, and the step is made smaller. */
#include "tests/codelets/differences.h"

#include <errno.h>
#include <stdio.h>

#include "tasks/graph/gradient.h"

enum { GROUPS = 96, SHRINKS = 4 };
static const double shrink = 0x1p-3;

/* Streams of the seed: each input's groups and signs, and the weights of the loss. */
enum { STREAM_WEIGHTS = 50, STREAM_GROUPS = 100, STREAM_SIGNS = 200 };

uint64_t differences_seed(void) {
  const char *text = getenv("TEST_SEED");
  if (!text || !*text) return 1;
  char *end;
  errno = 0;
  uint64_t seed = strtoull(text, &end, 10);
  if (errno || *end || *text == '-') {
    fprintf(stderr, "TEST_SEED is '%s': a whole number is needed\n", text);
    exit(99);
  }
  return seed;
}

/* ---- the loss --------------------------------------------------------------------------------------------------- */

/* The loss sum(w y): its gradient, dy = w, is the first input of the case's gradient rule. The loss itself is never
 * computed. */
static sl_status probe_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)in, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}
static void probe_gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  (void)graph, (void)dout, (void)need;
  din[0] = node->in[1];
}
static const sl_operation probe = {.name = "probe", .shape = probe_shape, .gradient = probe_gradient};

/* ---- slopes of the reference ------------------------------------------------------------------------------------ */

typedef struct check {
  setting s;
  uint64_t seed;
  int input;                       /* whose gradient it is */
  double *weight;                  /* of output 0; NULL: ones */
  double *middle, *up, *down;      /* output 0: unchanged, and after a step to both sides */
  double *noise;                   /* rounding of an element of output 0 in double */
  double step;                     /* the first that is tried */
  int *group;                      /* [elements of the input] */
  const void *gradient;            /* computed */
  const sl_value_info *info;       /* of the gradient */
  int64_t count, outputs, columns; /* elements of the input and of output 0; the input's last dimension */
  int parts;                       /* side by side in the last dimension */
} check;

/* A slope of the reference and its error: from rounding alone, and from kinks and curvature too. */
typedef struct slope {
  double value, noise, error;
} slope;

static double sign_of(const check *k, int64_t i) {
  return sl_random_u32(k->seed, 1, STREAM_SIGNS + (uint32_t)k->input, (uint64_t)i) & 1 ? 1 : -1;
}

/* Computes output 0 of the reference from the present inputs. */
static void refer(check *k, double *to) {
  case_run *e = &k->s.expect;
  for (int j = 0; j < k->s.c->n_out; j++) {
    const size_t bytes = (size_t)case_count(e->shape_out[j]) * sizeof(double);
    memset(e->out[j], 0, bytes);
    memset(e->scale[j], 0, bytes);
  }
  k->s.c->reference(e);
  memcpy(to, e->out[0], (size_t)k->outputs * sizeof *to);
}

/* Moves the input's group (or its one element) by h in its direction. */
static void move(check *k, int group, int64_t element, const double *from, double h) {
  double *x = k->s.expect.in[k->input];
  for (int64_t i = 0; i < k->count; i++)
    x[i] = from[i] + (element >= 0 ? (i == element ? h : 0) : k->group[i] == group ? h * sign_of(k, i) : 0);
}

/* The reference's slope along a group's direction, or by one element (>= 0). Differences are taken output by output, so
 * that outputs which do not move add no rounding. */
static slope slope_of(check *k, int group, int64_t element, const double *from, double h) {
  slope s = {0};
  double noise = 0, bends = 0;
  move(k, group, element, from, h);
  refer(k, k->up);
  move(k, group, element, from, -h);
  refer(k, k->down);
  for (int64_t i = 0; i < k->outputs; i++) {
    const double w = k->weight ? k->weight[i] : 1, difference = k->up[i] - k->down[i];
    const double bend = fabs((k->up[i] - k->middle[i]) - (k->middle[i] - k->down[i]));
    if (difference == 0 && bend == 0) continue;
    s.value += w * difference / (2 * h);
    noise += w * w * k->noise[i] * k->noise[i];
    if (!(bend <= 4 * k->noise[i])) bends += fabs(w) * bend;
  }
  s.noise = 4 * sqrt(noise) / (2 * h);
  s.error = s.noise + bends / (2 * h);
  memcpy(k->s.expect.in[k->input], from, (size_t)k->count * sizeof *from);
  return s;
}

/* ---- the gradient of one input ---------------------------------------------------------------------------------- */

/* Divides the elements of each part into groups of its own; returns the number of groups of a part. */
static int deal(check *k) {
  const int64_t each = k->count / k->parts;
  const int groups = each < GROUPS ? (int)each : GROUPS;
  int64_t seen[3] = {0};
  assert_in_range(k->parts, 1, 3);
  assert_int_equal(k->columns % k->parts, 0);
  for (int64_t i = 0; i < k->count; i++) {
    const int part = (int)(i % k->columns / (k->columns / k->parts));
    const int64_t nth = seen[part]++;
    const uint32_t word = sl_random_u32(k->seed, 1, STREAM_GROUPS + (uint32_t)k->input, (uint64_t)i);
    k->group[i] = part * groups + (each <= GROUPS ? (int)nth : (int)(word % (uint32_t)groups));
  }
  return groups;
}

static double computed(const check *k, int group) {
  double sum = 0;
  for (int64_t i = 0; i < k->count; i++)
    if (k->group[i] == group) sum += sign_of(k, i) * setting_get(k->gradient, k->info->dtype, i);
  return sum;
}

/* The group's element with the largest error, for the message. */
static int64_t worst_element(check *k, int group, const double *from, slope *wanted) {
  int64_t worst = -1;
  double most = -1;
  for (int64_t i = 0; i < k->count; i++) {
    if (k->group[i] != group) continue;
    const slope s = slope_of(k, -1, i, from, k->step);
    const double off = fabs(setting_get(k->gradient, k->info->dtype, i) - s.value);
    if (off <= most) continue;
    worst = i, most = off, *wanted = s;
    if (isnan(off)) break;
  }
  return worst;
}

static void check_part(check *k, int part, int groups, const double *from) {
  const double share = k->s.c->gradient_tolerance > 0 ? k->s.c->gradient_tolerance : 2e-5;
  slope slopes[GROUPS];
  double largest = 0, noise = 0;
  for (int g = 0; g < groups; g++) {
    slopes[g] = slope_of(k, part * groups + g, -1, from, k->step);
    if (!isfinite(slopes[g].value) || !isfinite(slopes[g].error))
      fail_msg("seed %llu: the reference of input %d's gradient is not finite", (unsigned long long)k->seed, k->input);
    if (fabs(slopes[g].value) > largest) largest = fabs(slopes[g].value);
    if (slopes[g].noise > noise) noise = slopes[g].noise;
  }
  const int zero = largest <= noise; /* no slope exceeds the rounding */
  for (int g = 0; g < groups; g++) {
    const int group = part * groups + g;
    double h = k->step;
    for (int n = 0; n < SHRINKS && slopes[g].error > share * largest && !zero; n++) {
      const slope finer = slope_of(k, group, -1, from, h *= shrink);
      if (finer.error < slopes[g].error) slopes[g] = finer;
    }
    if (slopes[g].error > share * largest && !zero)
      fail_msg("seed %llu: input %d, group %d: finite differences are off by %.2g where %.2g are to be seen",
               (unsigned long long)k->seed, k->input, g, slopes[g].error, share * largest);
    const double got = computed(k, group), bound = share * largest + (zero ? slopes[g].noise : slopes[g].error);
    if (fabs(got - slopes[g].value) <= bound) continue;
    slope wanted = {0};
    const int64_t i = worst_element(k, group, from, &wanted);
    fail_msg(
        "gradient of input %d, group %d of seed %llu: slope %.9g where finite differences give %.9g; off by %.2g, %.2g "
        "is allowed. Element %lld (column %lld of %lld) is %.9g where %.9g was expected",
        k->input, g, (unsigned long long)k->seed, got, slopes[g].value, fabs(got - slopes[g].value), bound,
        (long long)i, (long long)(i % k->columns), (long long)k->columns, setting_get(k->gradient, k->info->dtype, i),
        wanted.value);
  }
}

static double *doubles(int64_t n) {
  double *array = malloc((size_t)(n + 1) * sizeof *array);
  assert_non_null(array);
  return array;
}

/* Chooses the step: results and inputs of larger size round more coarsely, so the step grows with them. */
static void choose_step(check *k) {
  const test_case *c = k->s.c;
  const int wide = setting_info(&k->s, k->s.out[0])->dtype == SL_F64;
  const double units = 1 + c->tolerance[0] / (wide ? EPS64 : EPS);
  double largest = 1;
  refer(k, k->middle);
  for (int64_t i = 0; i < k->count; i++)
    if (fabs(k->s.expect.in[k->input][i]) > largest) largest = fabs(k->s.expect.in[k->input][i]);
  for (int64_t i = 0; i < k->outputs; i++) k->noise[i] = units * EPS64 * (setting_size(&k->s, 0, i) + largest);
  k->step = 0x1p-20 * sqrt(largest);
}

static void check_input(check *k, int input, sl_value gradient) {
  const test_case *c = k->s.c;
  k->input = input;
  k->info = setting_info(&k->s, gradient);
  k->gradient = k->s.run.data[gradient];
  assert_true(sl_shape_equal(&k->info->shape, &c->in[input].shape));
  assert_int_equal(k->info->scope, c->in[input].scope);
  const sl_shape *shape = &k->info->shape;
  k->count = case_count(shape);
  k->columns = shape->ndim > 0 ? shape->dim[shape->ndim - 1] : 1;
  k->parts = c->packed && input == 0 ? c->packed : 1;
  k->group = malloc((size_t)(k->count + 1) * sizeof *k->group);
  assert_non_null(k->group);
  double *from = doubles(k->count);
  memcpy(from, k->s.expect.in[input], (size_t)k->count * sizeof *from);
  const int groups = deal(k);
  choose_step(k);
  for (int part = 0; part < k->parts; part++) check_part(k, part, groups, from);
  free(from);
  free(k->group);
}

void differences_check(const test_case *c, sl_isa isa, sl_team *team, sl_tiles tiles, int root) {
  check k = {.seed = differences_seed()};
  setting *s = &k.s;
  setting_build(s, c);
  const sl_value_info *y = setting_info(s, s->out[0]);
  sl_value loss = s->out[0], w = SL_NONE, wanted[CASE_INPUTS], gradient[CASE_INPUTS];
  const case_input w_input = {y->dtype, y->shape, y->scope, FILL_NORMAL, 0, 1};
  if (!root) {
    w = sl_graph_push_value(s->graph, &(sl_value_info){.name = "w",
                                                       .dtype = y->dtype,
                                                       .shape = y->shape,
                                                       .scope = y->scope,
                                                       .role = SL_ROLE_PARAMETER,
                                                       .blocks = 1,
                                                       .producer = -1,
                                                       .leaf = -1,
                                                       .shard = -1,
                                                       .block = -1});
    loss = sl_graph_add1(s->graph, &probe, "probe", NULL, (sl_value[]){s->out[0], w}, 2);
  }
  int n = 0, index[CASE_INPUTS];
  const int forward = s->nodes, after = s->graph->n_nodes;
  for (int i = 0; i < c->n_in; i++)
    if (c->differentiable >> i & 1) {
      index[n] = i;
      wanted[n++] = s->in[i];
    }
  assert_ok(sl_gradient(s->graph, loss, wanted, n, gradient));
  setting_begin(s, isa, team, tiles);
  if (!root) setting_fill(s->run.data[w], &w_input, STREAM_WEIGHTS);
  setting_refer(s);
  k.weight = root ? NULL : setting_doubles(s->run.data[w], setting_info(s, w));
  k.outputs = case_count(s->expect.shape_out[0]);
  k.middle = doubles(k.outputs), k.up = doubles(k.outputs), k.down = doubles(k.outputs), k.noise = doubles(k.outputs);
  assert_ok(interpret_run(&s->run, 0, forward));
  assert_ok(interpret_run(&s->run, after, s->graph->n_nodes));
  for (int p = 0; p < n; p++) check_input(&k, index[p], gradient[p]);
  free(k.weight);
  free(k.middle), free(k.up), free(k.down), free(k.noise);
  setting_finish(s);
}
