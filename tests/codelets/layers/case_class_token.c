/* Cases of class_token and first_token: short and single-token sequences, features that no vector divides. */
#include "tests/codelets/cases.h"

static void class_token(const case_run *r) {
  const int64_t T = r->shape_out[0]->dim[1], C = r->shape_out[0]->dim[2];
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    const int64_t b = i / (T * C), at = i % (T * C);
    r->out[0][i] = at < C ? r->in[1][at] : r->in[0][b * (T - 1) * C + at - C];
  }
}

static void class_token_grad(const case_run *r) {
  const int64_t T = r->shape_in[0]->dim[1], C = r->shape_in[0]->dim[2];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    const int64_t b = i / (T * C), at = i % (T * C);
    if (at < C) {
      r->out[1][at] += r->in[0][i];
      r->scale[1][at] += fabs(r->in[0][i]);
    } else {
      r->out[0][b * (T - 1) * C + at - C] = r->in[0][i];
    }
  }
}

static void first_token(const case_run *r) {
  const int64_t T = r->shape_in[0]->dim[1], C = r->shape_in[0]->dim[2];
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i / C * T * C + i % C];
}

static void first_token_grad(const case_run *r) {
  const int64_t T = r->shape_out[0]->dim[1], C = r->shape_out[0]->dim[2];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) r->out[0][i / C * T * C + i % C] = r->in[0][i];
}

static const sl_first_token_attr of_5 = {5}, of_1 = {1};

const test_case cases_class_token[] = {
    {"class_token",
     "[5, 3, 7]",
     2,
     1,
     {SAMPLES(5, 3, 7), WHOLE(7)},
     .reference = class_token,
     .differentiable = 3,
     .exact = 1},
    {"class_token",
     "[3, 1, 130]",
     2,
     1,
     {SAMPLES(3, 1, 130), WHOLE(130)},
     .reference = class_token,
     .differentiable = 3,
     .exact = 1},
    {"class_token_grad",
     "[11, 4, 33]",
     1,
     2,
     {SAMPLES(11, 4, 33)},
     .reference = class_token_grad,
     .tolerance = {0, 12 * EPS},
     .exact = 1},
    {"first_token", "[5, 3, 7]", 1, 1, {SAMPLES(5, 3, 7)}, .reference = first_token, .differentiable = 1, .exact = 1},
    {"first_token",
     "[3, 1, 130]",
     1,
     1,
     {SAMPLES(3, 1, 130)},
     .reference = first_token,
     .differentiable = 1,
     .exact = 1},
    {"first_token_grad",
     "[7, 33] of 5",
     1,
     1,
     {SAMPLES(7, 33)},
     .attr = &of_5,
     .reference = first_token_grad,
     .exact = 1},
    {"first_token_grad",
     "[2, 8] of 1",
     1,
     1,
     {SAMPLES(2, 8)},
     .attr = &of_1,
     .reference = first_token_grad,
     .exact = 1},
    {0},
};
