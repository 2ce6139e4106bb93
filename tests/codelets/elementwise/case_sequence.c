/* Cases of sequence_part and sequence_join: equal and unequal parts, samples of one and of several dimensions. */
#include "tests/codelets/cases.h"

static void part(const case_run *r) {
  const sl_sequence_attr *a = r->c->attr;
  const int64_t T = r->shape_in[0]->dim[1], row = case_count(r->shape_in[0]) / r->shape_in[0]->dim[0] / T;
  const int64_t from = T * a->part / a->parts, n = r->shape_out[0]->dim[1];
  for (int64_t b = 0; b < r->shape_in[0]->dim[0]; b++)
    for (int64_t i = 0; i < n * row; i++) r->out[0][b * n * row + i] = r->in[0][(b * T + from) * row + i];
}

static void join(const case_run *r) {
  const int64_t T = r->shape_out[0]->dim[1], row = case_count(r->shape_out[0]) / r->shape_out[0]->dim[0] / T;
  for (int64_t b = 0; b < r->shape_out[0]->dim[0]; b++)
    for (int64_t t = 0, k = 0, first = 0; t < T; t++) {
      if (t - first == r->shape_in[k]->dim[1]) first = t, k++;
      const int64_t n = r->shape_in[k]->dim[1];
      for (int64_t i = 0; i < row; i++) r->out[0][(b * T + t) * row + i] = r->in[k][(b * n + t - first) * row + i];
    }
}

static const sl_sequence_attr first = {0, 3}, middle = {1, 3}, last = {2, 3}, half = {1, 2};

#define PART(text, which, ...) \
  { "sequence_part", text, 1, 1, {__VA_ARGS__}, .attr = &(which), .reference = part, .exact = 1 }
#define JOIN(text, n, which, ...) \
  { "sequence_join", text, n, 1, {__VA_ARGS__}, .reference = join, .differentiable = which, .exact = 1 }

const test_case cases_sequence[] = {
    PART("the first third of 7", first, SAMPLES(5, 7, 6)),
    PART("the second third of 7", middle, SAMPLES(5, 7, 6)),
    PART("the last third of 7", last, SAMPLES(5, 7, 6)),
    PART("the last third of 3 [7, 3, 5, 2]", last, SAMPLES(7, 3, 5, 2)),
    PART("half of 300", half, SAMPLES(3, 300, 77)),
    PART("F64, half of 9", half, INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 1, 4, 9, 2)),
    JOIN("2, 2 and 3 positions", 3, 7, SAMPLES(5, 2, 6), SAMPLES(5, 2, 6), SAMPLES(5, 3, 6)),
    JOIN("one part", 1, 1, SAMPLES(5, 4, 3)),
    JOIN("[7, 1, 5, 2] and [7, 2, 5, 2]", 2, 3, SAMPLES(7, 1, 5, 2), SAMPLES(7, 2, 5, 2)),
    JOIN("150 and 150 positions", 2, 0, SAMPLES(3, 150, 77), SAMPLES(3, 150, 77)),
    {0},
};
