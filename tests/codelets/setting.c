#include "tests/codelets/setting.h"

#include <stdio.h>

#include "codelets/kernels/kernel.h"
#include "runtime/numbers/half.h"

#define POINTER(name) cases_##name,
const test_case *const case_files[] = {CASE_FILES(POINTER) NULL};

static double number(double x, const void *array, sl_dtype dtype, int64_t i, int write) {
  switch (dtype) {
    case SL_F32:
      return write ? ((float *)array)[i] = (float)x : ((const float *)array)[i];
    case SL_BF16:
      if (write) sl_put((sl_bf16 *)array + i, (float)x);
      return sl_get((const sl_bf16 *)array + i);
    case SL_F16:
      if (write) ((uint16_t *)array)[i] = sl_half_of((float)x);
      return sl_half_wide(((const uint16_t *)array)[i]);
    case SL_F64:
      return write ? ((double *)array)[i] = x : ((const double *)array)[i];
    case SL_I32:
      return write ? ((int32_t *)array)[i] = (int32_t)x : ((const int32_t *)array)[i];
    case SL_U8:
      return write ? ((uint8_t *)array)[i] = (uint8_t)x : ((const uint8_t *)array)[i];
    default:
      fail_msg("no cases with %s yet", sl_dtype_name(dtype));
      return 0;
  }
}
double setting_get(const void *array, sl_dtype dtype, int64_t i) { return number(0, array, dtype, i, 0); }

static double drawn(const case_input *in, uint32_t stream, int64_t i) {
  switch (in->fill) {
    case FILL_NORMAL:
      return in->a + in->b * sl_random_normal(7, 1, stream, (uint64_t)i);
    case FILL_UNIFORM:
      return in->a + (in->b - in->a) * (double)sl_random_uniform(sl_random_u32(7, 1, stream, (uint64_t)i));
    case FILL_INTEGERS:
      return in->a + (double)(sl_random_u32(7, 1, stream, (uint64_t)i) % (uint32_t)(in->b - in->a + 1));
  }
  return 0;
}

void setting_fill(void *array, const case_input *in, uint32_t stream) {
  for (int64_t i = 0; i < case_count(&in->shape); i++) number(drawn(in, stream, i), array, in->dtype, i, 1);
}

double *setting_doubles(const void *array, const sl_value_info *info) {
  int64_t n = case_count(&info->shape);
  double *copy = calloc((size_t)n + 1, sizeof *copy);
  assert_non_null(copy);
  for (int64_t i = 0; array && i < n; i++) copy[i] = setting_get(array, info->dtype, i);
  return copy;
}

const sl_value_info *setting_info(const setting *s, sl_value value) { return sl_graph_value(s->graph, value); }

/* The type in which the precision pass has an argument of the case's operation. */
static sl_dtype stored(sl_dtype narrow, const sl_operation *op, const sl_value_info *v, int i, int output) {
  const int wide = (output ? op->wide_out : op->wide_in) >> i & 1, copy = !output && (op->copies >> i & 1);
  return v->dtype == SL_F32 && ((v->scope == SL_SCOPE_SAMPLE && !wide) || copy) ? narrow : v->dtype;
}

void setting_build_in(setting *s, const test_case *c, sl_dtype narrow) {
  setting_build(s, c);
  const sl_operation *op = s->graph->node[0]->op;
  for (int i = 0; i < c->n_in; i++)
    s->graph->value[s->in[i]]->dtype = stored(narrow, op, s->graph->value[s->in[i]], i, 0);
  for (int j = 0; j < c->n_out; j++)
    if (!op->update[j]) s->graph->value[s->out[j]]->dtype = stored(narrow, op, s->graph->value[s->out[j]], j, 1);
}

void setting_build(setting *s, const test_case *c) {
  *s = (setting){.c = c};
  int64_t batch = c->batch;
  for (int i = 0; i < c->n_in && !batch; i++)
    if (c->in[i].scope == SL_SCOPE_SAMPLE) batch = c->in[i].shape.dim[0];
  s->graph = sl_graph_new(batch ? batch : 1);
  assert_non_null(s->graph);
  for (int i = 0; i < c->n_in; i++) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    s->in[i] = sl_graph_push_value(s->graph, &(sl_value_info){.name = name,
                                                              .dtype = c->in[i].dtype,
                                                              .shape = c->in[i].shape,
                                                              .scope = c->in[i].scope,
                                                              .role = SL_ROLE_PARAMETER,
                                                              .blocks = 1,
                                                              .producer = -1,
                                                              .logical = i,
                                                              .leaf = -1,
                                                              .shard = -1,
                                                              .block = -1});
  }
  if (c->build)
    c->build(s->graph, c, s->in, s->out);
  else
    sl_graph_add(s->graph, sl_operation_find(c->op), "case", c->attr, s->in, c->n_in, s->out, c->n_out);
  assert_ok(sl_graph_status(s->graph));
  s->nodes = s->graph->n_nodes;
}

static void spoil(setting *s) {
  const test_case *c = s->c;
  const int32_t *length = s->run.data[c->lengths];
  const int64_t T = c->in[c->n_in > 2 ? 1 : 0].shape.dim[1];
  for (int i = 0; i < c->lengths; i++) {
    const sl_shape *x = &c->in[i].shape;
    if (x->ndim != 3 || x->dim[1] != T) continue;
    for (int64_t e = 0; e < case_count(x); e++)
      if (e / x->dim[2] % T >= length[e / x->dim[2] / T]) number(NAN, s->run.data[i], s->graph->value[i]->dtype, e, 1);
  }
}

void setting_begin(setting *s, sl_isa isa, sl_team *team, sl_tiles tiles) {
  interpret_destroy(&s->run);
  assert_ok(interpret_create(s->graph, isa, team, &s->run));
  s->run.tiles = tiles;
  for (int v = 0; v < s->graph->n_values; v++) {
    const sl_value_info *info = s->graph->value[v];
    if (v < s->c->n_in) {
      case_input in = s->c->in[v];
      in.dtype = info->dtype;
      setting_fill(s->run.data[v], &in, (uint32_t)v + 1);
    } else if (info->producer < 0)
      setting_fill(s->run.data[v], &(case_input){info->dtype, info->shape, info->scope, FILL_UNIFORM, 0.5, 1.5},
                   (uint32_t)v + 1);
  }
  if (s->c->lengths) spoil(s);
  /* The input operation reads the step's arrays: they are input 0 of its case. */
  if (s->c->n_in) s->run.step.input[0] = s->run.data[0];
}

void setting_refer(setting *s) {
  const test_case *c = s->c;
  case_run *e = &s->expect;
  *e = (case_run){.c = c, .graph = s->graph, .step = &s->run.step, .key = s->graph->node[0]->key};
  for (int i = 0; i < c->n_in; i++) {
    e->shape_in[i] = &setting_info(s, s->in[i])->shape;
    e->in[i] = setting_doubles(s->run.data[s->in[i]], setting_info(s, s->in[i]));
  }
  for (int j = 0; j < c->n_out; j++) {
    e->shape_out[j] = &setting_info(s, s->out[j])->shape;
    e->out[j] = setting_doubles(NULL, setting_info(s, s->out[j]));
    e->scale[j] = setting_doubles(NULL, setting_info(s, s->out[j]));
  }
  c->reference(e);
}

void setting_finish(setting *s) {
  for (int i = 0; i < CASE_INPUTS; i++) free(s->expect.in[i]);
  for (int j = 0; j < SL_MAX_OUT; j++) {
    free(s->expect.out[j]);
    free(s->expect.scale[j]);
  }
  interpret_destroy(&s->run);
  sl_graph_destroy(s->graph);
}

double setting_size(const setting *s, int j, int64_t i) {
  const double scale = s->expect.scale[j][i], size = fabs(s->expect.out[j][i]);
  if (!isfinite(scale) || !isfinite(size))
    fail_msg("the reference's output %d has element %lld = %g with scale %g: no bound can be made of that", j,
             (long long)i, s->expect.out[j][i], scale);
  return scale > size ? scale : size;
}

void setting_compare(const setting *s, int j, const void *array, const double *before, const char *how) {
  const sl_value_info *info = setting_info(s, s->out[j]);
  const double unit = info->dtype == SL_F64 ? EPS64 : EPS;
  for (int64_t i = 0; i < case_count(&info->shape); i++) {
    const double part = info->dtype == SL_BF16  ? EPS_BF16
                        : info->dtype == SL_F16 ? EPS_FP16
                                                : 0,
                 rounded = part * fabs(s->expect.out[j][i]) + (info->dtype == SL_F16 ? 0x1p-25 : 0);
    const double factors = info->dtype == SL_BF16 && j == 0 ? s->c->rounds * setting_size(s, j, i) : 0;
    const double y = setting_get(array, info->dtype, i), want = s->expect.out[j][i] + (before ? before[i] : 0);
    double size = setting_size(s, j, i), bound = s->c->tolerance[j] * size + rounded + factors;
    if (before) bound += s->c->tolerance[j] * fabs(before[i]) + 2 * unit * (size + fabs(before[i]));
    if (!(fabs(y - want) <= bound))
      fail_msg("%s, output %d, element %lld: %.9g where %.9g was expected; off by %.2g, %.2g is allowed", how, j,
               (long long)i, y, want, fabs(y - want), bound);
  }
}
