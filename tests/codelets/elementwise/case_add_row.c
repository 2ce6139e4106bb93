/* Cases of add_row. */
#include "tests/codelets/cases.h"

static void add_row(const case_run *r) {
  const sl_add_row_attr *a = r->c->attr;
  const int64_t C = r->shape_in[1]->dim[1];
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i] + r->in[1][a->row * C + i % C];
}

static void add_row_grad(const case_run *r) {
  const sl_add_row_attr *a = r->c->attr;
  const int64_t C = r->shape_out[0]->dim[1];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    r->out[0][a->row * C + i % C] += r->in[0][i];
    r->scale[0][a->row * C + i % C] += fabs(r->in[0][i]);
  }
}

static const sl_add_row_attr first = {2, 0}, second = {2, 1}, third = {5, 2};

#define FORWARD(what, attributes, rows, C, ...)                                                                        \
  {                                                                                                                    \
    "add_row", what, 2, 1, {SAMPLES(__VA_ARGS__), WHOLE(rows, C)}, .attr = &attributes, .reference = add_row,          \
                                                                   .tolerance = {EPS}, .differentiable = 3, .exact = 1 \
  }
#define GRADIENT(what, attributes, bound, ...)                                                                         \
  {                                                                                                                    \
    "add_row_grad", what, 1, 1, {SAMPLES(__VA_ARGS__)}, .attr = &attributes, .reference = add_row_grad, .tolerance = { \
      bound * EPS                                                                                                      \
    }                                                                                                                  \
  }

const test_case cases_add_row[] = {
    FORWARD("[3, 5, 7], row 0 of 2", first, 2, 7, 3, 5, 7),
    FORWARD("[2, 130], row 1 of 2", second, 2, 130, 2, 130),
    FORWARD("[2, 3, 2, 65], row 2 of 5", third, 5, 65, 2, 3, 2, 65),
    GRADIENT("[3, 5, 7], row 0 of 2", first, 8, 3, 5, 7),
    GRADIENT("[11, 130], row 1 of 2", second, 13, 11, 130),
    GRADIENT("[4, 3, 2, 65], row 2 of 5", third, 8, 4, 3, 2, 65),
    GRADIENT("[31, 11, 35], row 1 of 2", second, 32, 31, 11, 35),
    {0},
};
