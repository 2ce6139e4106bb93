/* Cases of dropout: the mask is drawn element by element here. */
#include "tests/codelets/cases.h"

static const sl_dropout_attr tenth = {.p = 0.1f}, half = {.p = 0.5f}, none = {.p = 0};
static const sl_dropout_attr other = {.p = 0.5f, .fixed = 1, .key = 77};

static void dropout(const case_run *r) {
  const sl_dropout_attr *a = r->c->attr;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    uint32_t word = sl_random_u32(r->step->seed, (uint64_t)r->step->number, a->fixed ? a->key : r->key, (uint64_t)i);
    r->out[0][i] = (double)word < (double)a->p * 4294967296.0 ? 0 : r->in[0][i] / (1 - (double)a->p);
  }
}

const test_case cases_dropout[] = {
    {"dropout",
     "p = 0.1 [9, 261]",
     1,
     1,
     {SAMPLES(9, 261)},
     .attr = &tenth,
     .reference = dropout,
     .tolerance = {3 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"dropout",
     "p = 0.5 [6, 3, 5, 3]",
     1,
     1,
     {SAMPLES(6, 3, 5, 3)},
     .attr = &half,
     .reference = dropout,
     .tolerance = {3 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"dropout",
     "another node's stream",
     1,
     1,
     {SAMPLES(6, 3)},
     .attr = &other,
     .reference = dropout,
     .tolerance = {3 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"dropout", "p = 0", 1, 1, {SAMPLES(6, 3)}, .attr = &none, .reference = dropout, .exact = 1},
    {"dropout", "[256, 1024]", 1, 1, {SAMPLES(256, 1024)}, .attr = &tenth, .reference = dropout, .bench = 1},
    {0},
};
