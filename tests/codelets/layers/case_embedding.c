/* Cases of embedding: tokens of one and two dimensions, features that fill no vector, tokens that come often. */
#include "tests/codelets/cases.h"

static const sl_embedding_attr *attr_of(const case_run *r) { return r->c->attr; }

static void embedding(const case_run *r) {
  const int64_t C = r->shape_in[1]->dim[1];
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    const int64_t row = (int64_t)r->in[0][i / C] - attr_of(r)->from;
    if (row >= 0 && row < attr_of(r)->rows) r->out[0][i] = r->in[1][row * C + i % C];
  }
}

static void embedding_grad(const case_run *r) {
  const int64_t C = r->shape_out[0]->dim[1];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    const int64_t row = (int64_t)r->in[1][i / C] - attr_of(r)->from, at = row * C + i % C;
    if (row < 0 || row >= attr_of(r)->rows) continue;
    r->out[0][at] += r->in[0][i];
    r->scale[0][at] += fabs(r->in[0][i]);
  }
}

static const sl_embedding_attr of_7 = {7, 0, 7}, of_300 = {300, 0, 300}, of_50257 = {50257, 0, 50257},
                               first_of_300 = {100, 0, 300}, middle_of_300 = {120, 100, 300};

#define TOKENS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, last, __VA_ARGS__)

const test_case cases_embedding[] = {
    {"embedding",
     "[3, 5] of 7, 1 feature",
     2,
     1,
     {TOKENS(6, 3, 5), WHOLE(7, 1)},
     .attr = &of_7,
     .reference = embedding,
     .differentiable = 2,
     .exact = 1},
    {"embedding",
     "[9] of 300, 67 features",
     2,
     1,
     {TOKENS(299, 9), WHOLE(300, 67)},
     .attr = &of_300,
     .reference = embedding,
     .differentiable = 2,
     .exact = 1},
    {"embedding",
     "[2, 130] of 7, 130 features",
     2,
     1,
     {TOKENS(6, 2, 130), WHOLE(7, 130)},
     .attr = &of_7,
     .reference = embedding,
     .differentiable = 2,
     .exact = 1},
    {"embedding_grad",
     "[2, 130] of 7, 130 features",
     2,
     1,
     {SAMPLES(2, 130, 130), TOKENS(6, 2, 130)},
     .attr = &of_7,
     .reference = embedding_grad,
     .tolerance = {40 * EPS},
     .exact = 1},
    {"embedding_grad",
     "[9] of 300, 33 features",
     2,
     1,
     {SAMPLES(9, 33), TOKENS(299, 9)},
     .attr = &of_300,
     .reference = embedding_grad,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"embedding_grad",
     "[3, 300] of 300, 3 features",
     2,
     1,
     {SAMPLES(3, 300, 3), TOKENS(299, 3, 300)},
     .attr = &of_300,
     .reference = embedding_grad,
     .tolerance = {16 * EPS},
     .exact = 1},
    {"embedding",
     "[2, 60], first 100 of 300, 67 features",
     2,
     1,
     {TOKENS(299, 2, 60), WHOLE(100, 67)},
     .attr = &first_of_300,
     .reference = embedding,
     .differentiable = 2,
     .exact = 1},
    {"embedding",
     "[130], 120 in the middle of 300, 16 features",
     2,
     1,
     {TOKENS(299, 130), WHOLE(120, 16)},
     .attr = &middle_of_300,
     .reference = embedding,
     .differentiable = 2,
     .exact = 1},
    {"embedding_grad",
     "[3, 100], 120 in the middle of 300, 65 features",
     2,
     1,
     {SAMPLES(3, 100, 65), TOKENS(299, 3, 100)},
     .attr = &middle_of_300,
     .reference = embedding_grad,
     .tolerance = {16 * EPS},
     .exact = 1},
    {"embedding",
     "[4, 64] of 50257, 768 features",
     2,
     1,
     {TOKENS(50256, 4, 64), WHOLE(50257, 768)},
     .attr = &of_50257,
     .reference = embedding,
     .bench = 1},
    {"embedding_grad",
     "[4, 64] of 50257, 768 features",
     2,
     1,
     {SAMPLES(4, 64, 768), TOKENS(50256, 4, 64)},
     .attr = &of_50257,
     .reference = embedding_grad,
     .bench = 1},
    {"embedding_grad",
     "[8, 256] of 300, 384 features",
     2,
     1,
     {SAMPLES(8, 256, 384), TOKENS(299, 8, 256)},
     .attr = &of_300,
     .reference = embedding_grad,
     .bench = 1},
    {0},
};
