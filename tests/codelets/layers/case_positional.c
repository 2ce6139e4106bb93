/* Cases of positional: as many positions as the sequences have, and more. */
#include "tests/codelets/cases.h"

static void positional(const case_run *r) {
  const int64_t row = r->shape_in[0]->dim[1] * r->shape_in[0]->dim[2];
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i] + r->in[1][i % row];
}

static void positional_grad(const case_run *r) {
  const int64_t row = r->shape_in[0]->dim[1] * r->shape_in[0]->dim[2];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    r->out[0][i % row] += r->in[0][i];
    r->scale[0][i % row] += fabs(r->in[0][i]);
  }
}

static const sl_positional_attr of_5 = {5}, of_9 = {9}, of_1024 = {1024};

const test_case cases_positional[] = {
    {"positional",
     "[3, 5, 7] of 5",
     2,
     1,
     {SAMPLES(3, 5, 7), WHOLE(5, 7)},
     .reference = positional,
     .tolerance = {EPS},
     .differentiable = 3,
     .exact = 1},
    {"positional",
     "[2, 7, 130] of 9",
     2,
     1,
     {SAMPLES(2, 7, 130), WHOLE(9, 130)},
     .reference = positional,
     .tolerance = {EPS},
     .differentiable = 3,
     .exact = 1},
    {"positional_grad",
     "[11, 5, 7] of 5",
     1,
     1,
     {SAMPLES(11, 5, 7)},
     .attr = &of_5,
     .reference = positional_grad,
     .tolerance = {12 * EPS},
     .exact = 1},
    {"positional_grad",
     "[3, 5, 130] of 9",
     1,
     1,
     {SAMPLES(3, 5, 130)},
     .attr = &of_9,
     .reference = positional_grad,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"positional", "[4, 64, 768]", 2, 1, {SAMPLES(4, 64, 768), WHOLE(1024, 768)}, .reference = positional, .bench = 1},
    {"positional_grad",
     "[4, 64, 768]",
     1,
     1,
     {SAMPLES(4, 64, 768)},
     .attr = &of_1024,
     .reference = positional_grad,
     .bench = 1},
    {0},
};
