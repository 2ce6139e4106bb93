/* Cases of input: the step's array 0 holds the case's own input, which is not an input of the operation. */
#include "tests/codelets/cases.h"

static const sl_input_attr floats = {0, SL_F32, {3, {7, 5, 3}}}, bytes = {0, SL_U8, {2, {9, 131}}},
                           images = {0, SL_U8, {4, {256, 28, 28, 1}}};

static void input(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i];
}

static void build(sl_graph *graph, const test_case *c, const sl_value *in, sl_value *out) {
  (void)in;
  const sl_input_attr *attr = c->attr;
  sl_shape sample = {attr->shape.ndim - 1, {0}};
  memcpy(sample.dim, attr->shape.dim + 1, (size_t)sample.ndim * sizeof *sample.dim);
  out[0] = sl_input(graph, "input", attr->slot, attr->dtype, sample);
}

const test_case cases_input[] = {
    {"input", "F32 [7, 5, 3]", 1, 1, {SAMPLES(7, 5, 3)}, .attr = &floats, .build = build, .reference = input},
    {"input",
     "U8 [9, 131]",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 9, 131)},
     .attr = &bytes,
     .build = build,
     .reference = input},
    {"input",
     "U8 [256, 28, 28, 1]",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 256, 28, 28, 1)},
     .attr = &images,
     .build = build,
     .reference = input,
     .bench = 1},
    {0},
};
