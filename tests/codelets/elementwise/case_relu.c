/* Cases of relu. */
#include "tests/codelets/cases.h"

static void relu(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i] > 0 ? r->in[0][i] : 0;
}

static void relu_grad(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[1][i] > 0 ? r->in[0][i] : 0;
}

const test_case cases_relu[] = {
    {"relu", "[7, 13]", 1, 1, {SAMPLES(7, 13)}, .reference = relu, .differentiable = 1, .exact = 1},
    {"relu", "[3, 5, 3, 33]", 1, 1, {SAMPLES(3, 5, 3, 33)}, .reference = relu, .differentiable = 1, .exact = 1},
    {"relu_grad", "[7, 13]", 2, 1, {SAMPLES(7, 13), SAMPLES(7, 13)}, .reference = relu_grad, .exact = 1},
    {"relu", "[256, 1024]", 1, 1, {SAMPLES(256, 1024)}, .reference = relu, .bench = 1},
    {"relu_grad", "[256, 1024]", 2, 1, {SAMPLES(256, 1024), SAMPLES(256, 1024)}, .reference = relu_grad, .bench = 1},
    {0},
};
