/* Cases of meanpool: images and sequences, sizes that no vector divides. */
#include "tests/codelets/cases.h"

static void meanpool(const case_run *r) {
  const sl_shape *y = r->shape_out[0];
  const int64_t C = y->dim[1], P = case_count(r->shape_in[0]) / case_count(y);
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    const int64_t to = i / (P * C) * C + i % C;
    r->out[0][to] += r->in[0][i] / (double)P;
    r->scale[0][to] += fabs(r->in[0][i]) / (double)P;
  }
}

static void meanpool_grad(const case_run *r) {
  const int64_t C = r->shape_in[0]->dim[1], P = case_count(r->shape_out[0]) / case_count(r->shape_in[0]);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++)
    r->out[0][i] = r->in[0][i / (P * C) * C + i % C] / (double)P;
}

static const sl_meanpool_attr image = {CASE_SHAPE(5, 3, 4, 9)}, sequence = {CASE_SHAPE(3, 7, 33)},
                              last = {CASE_SHAPE(16, 7, 7, 2048)};

const test_case cases_meanpool[] = {
    {"meanpool",
     "[5, 3, 4, 9]",
     1,
     1,
     {SAMPLES(5, 3, 4, 9)},
     .reference = meanpool,
     .tolerance = {14 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"meanpool",
     "[3, 7, 33]",
     1,
     1,
     {SAMPLES(3, 7, 33)},
     .reference = meanpool,
     .tolerance = {9 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"meanpool_grad",
     "[5, 3, 4, 9]",
     1,
     1,
     {SAMPLES(5, 9)},
     .attr = &image,
     .reference = meanpool_grad,
     .tolerance = {3 * EPS},
     .exact = 1},
    {"meanpool_grad",
     "[3, 7, 33]",
     1,
     1,
     {SAMPLES(3, 33)},
     .attr = &sequence,
     .reference = meanpool_grad,
     .tolerance = {3 * EPS},
     .exact = 1},
    {"meanpool", "[16, 7, 7, 2048]", 1, 1, {SAMPLES(16, 7, 7, 2048)}, .reference = meanpool, .bench = 1},
    {"meanpool_grad",
     "[16, 7, 7, 2048]",
     1,
     1,
     {SAMPLES(16, 2048)},
     .attr = &last,
     .reference = meanpool_grad,
     .bench = 1},
    {0},
};
