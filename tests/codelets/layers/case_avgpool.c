/* Cases of avgpool. */
#include "tests/codelets/kernels/pool.h"

static double weight(const case_run *r) {
  const sl_pool_attr *a = r->c->attr;
  return 1.0 / (a->kernel * a->kernel);
}

static void mean(void *arg, int64_t out, int64_t in, int place) {
  (void)place;
  const case_run *r = arg;
  if (in < 0) return;
  r->out[0][out] += r->in[0][in] * weight(r);
  r->scale[0][out] += fabs(r->in[0][in]) * weight(r);
}

static void avgpool(const case_run *r) { pool_windows(r->c->attr, r->shape_in[0], r->shape_out[0], mean, (void *)r); }

static void back(void *arg, int64_t out, int64_t in, int place) {
  (void)place;
  const case_run *r = arg;
  if (in < 0) return;
  r->out[0][in] += r->in[0][out] * weight(r);
  r->scale[0][in] += fabs(r->in[0][out]) * weight(r);
}

static void avgpool_grad(const case_run *r) {
  pool_windows(r->c->attr, r->shape_out[0], r->shape_in[0], back, (void *)r);
}

const test_case cases_avgpool[] = {
    {"avgpool",
     "2x2 [5, 7, 10, 37]",
     1,
     1,
     {SAMPLES(5, 7, 10, 37)},
     .attr = &pool_2x2,
     .reference = avgpool,
     .tolerance = {6 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"avgpool",
     "3x3, stride 2, pad 1 [3, 7, 9, 21]",
     1,
     1,
     {SAMPLES(3, 7, 9, 21)},
     .attr = &pool_3x3,
     .reference = avgpool,
     .tolerance = {10 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"avgpool",
     "of all [3, 5, 5, 33]",
     1,
     1,
     {SAMPLES(3, 5, 5, 33)},
     .attr = &pool_whole,
     .reference = avgpool,
     .tolerance = {26 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"avgpool_grad",
     "2x2 [5, 7, 10, 37]",
     1,
     1,
     {SAMPLES(5, 3, 5, 37)},
     .attr = &pool_2x2,
     .reference = avgpool_grad,
     .tolerance = {2 * EPS},
     .exact = 1},
    {"avgpool_grad",
     "3x3, stride 2, pad 1 [3, 7, 9, 21]",
     1,
     1,
     {SAMPLES(3, 4, 5, 21)},
     .attr = &pool_3x3,
     .reference = avgpool_grad,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"avgpool",
     "2x2 [64, 24, 24, 32]",
     1,
     1,
     {SAMPLES(64, 24, 24, 32)},
     .attr = &pool_lenet,
     .reference = avgpool,
     .bench = 1},
    {"avgpool_grad",
     "2x2 [64, 24, 24, 32]",
     1,
     1,
     {SAMPLES(64, 12, 12, 32)},
     .attr = &pool_lenet,
     .reference = avgpool_grad,
     .bench = 1},
    {0},
};
