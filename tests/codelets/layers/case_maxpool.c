/* Cases of maxpool. */
#include "tests/codelets/kernels/pool.h"

static void largest(void *arg, int64_t out, int64_t in, int place) {
  const case_run *r = arg;
  if (in >= 0 && r->in[0][in] > r->out[0][out]) {
    r->out[0][out] = r->in[0][in];
    r->out[1][out] = place;
  }
}

static void maxpool(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = -INFINITY;
  pool_windows(r->c->attr, r->shape_in[0], r->shape_out[0], largest, (void *)r);
}

static void back(void *arg, int64_t out, int64_t in, int place) {
  const case_run *r = arg;
  if (in >= 0 && r->in[1][out] == place) {
    r->out[0][in] += r->in[0][out];
    r->scale[0][in] += fabs(r->in[0][out]);
  }
}

static void maxpool_grad(const case_run *r) {
  pool_windows(r->c->attr, r->shape_out[0], r->shape_in[0], back, (void *)r);
}

#define PLACES(last, ...) INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, last, __VA_ARGS__)

const test_case cases_maxpool[] = {
    {"maxpool",
     "2x2 [5, 7, 10, 37]",
     1,
     2,
     {SAMPLES(5, 7, 10, 37)},
     .attr = &pool_2x2,
     .reference = maxpool,
     .differentiable = 1,
     .exact = 1},
    {"maxpool",
     "2x2 [5, 7, 10, 1]",
     1,
     2,
     {SAMPLES(5, 7, 10, 1)},
     .attr = &pool_2x2,
     .reference = maxpool,
     .differentiable = 1,
     .exact = 1},
    {"maxpool",
     "3x3, stride 2, pad 1 [3, 7, 9, 21]",
     1,
     2,
     {SAMPLES(3, 7, 9, 21)},
     .attr = &pool_3x3,
     .reference = maxpool,
     .differentiable = 1,
     .exact = 1},
    {"maxpool",
     "3x3, stride 1, pad 1 [3, 5, 6, 16]",
     1,
     2,
     {SAMPLES(3, 5, 6, 16)},
     .attr = &pool_overlap,
     .reference = maxpool,
     .differentiable = 1,
     .exact = 1},
    {"maxpool",
     "2x2, stride 3 [3, 7, 9, 8]",
     1,
     2,
     {SAMPLES(3, 7, 9, 8)},
     .attr = &pool_gaps,
     .reference = maxpool,
     .differentiable = 1,
     .exact = 1},
    {"maxpool",
     "of equals [3, 5, 6, 16]",
     1,
     2,
     {INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 2, 3, 5, 6, 16)},
     .attr = &pool_overlap,
     .reference = maxpool,
     .exact = 1},
    {"maxpool_grad",
     "2x2 [5, 7, 10, 37]",
     2,
     1,
     {SAMPLES(5, 3, 5, 37), PLACES(3, 5, 3, 5, 37)},
     .attr = &pool_2x2,
     .reference = maxpool_grad,
     .exact = 1},
    {"maxpool_grad",
     "3x3, stride 1, pad 1 [3, 5, 6, 16]",
     2,
     1,
     {SAMPLES(3, 5, 6, 16), PLACES(8, 3, 5, 6, 16)},
     .attr = &pool_overlap,
     .reference = maxpool_grad,
     .tolerance = {9 * EPS},
     .exact = 1},
    {"maxpool",
     "2x2 [64, 24, 24, 32]",
     1,
     2,
     {SAMPLES(64, 24, 24, 32)},
     .attr = &pool_lenet,
     .reference = maxpool,
     .bench = 1},
    {"maxpool",
     "3x3, stride 2, pad 1 [8, 112, 112, 64]",
     1,
     2,
     {SAMPLES(8, 112, 112, 64)},
     .attr = &pool_resnet,
     .reference = maxpool,
     .bench = 1},
    {"maxpool_grad",
     "2x2 [64, 24, 24, 32]",
     2,
     1,
     {SAMPLES(64, 12, 12, 32), PLACES(3, 64, 12, 12, 32)},
     .attr = &pool_lenet,
     .reference = maxpool_grad,
     .bench = 1},
    {"maxpool_grad",
     "3x3, stride 2, pad 1 [8, 112, 112, 64]",
     2,
     1,
     {SAMPLES(8, 56, 56, 64), PLACES(8, 8, 56, 56, 64)},
     .attr = &pool_resnet,
     .reference = maxpool_grad,
     .bench = 1},
    {0},
};
