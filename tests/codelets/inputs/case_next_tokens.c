/* Cases of next_tokens. */
#include "tests/codelets/cases.h"

static void next_tokens(const case_run *r) {
  const int64_t B = r->shape_out[0]->dim[0], T = r->shape_out[0]->dim[1];
  for (int64_t b = 0; b < B; b++)
    for (int64_t t = 0; t < T; t++) {
      r->out[0][b * T + t] = r->in[0][b * (T + 1) + t];
      r->out[1][b * T + t] = r->in[1][b] < 0 ? -1 : r->in[0][b * (T + 1) + t + 1];
    }
}

#define WINDOWS(...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 99, __VA_ARGS__)
#define LABELS(n) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -2, 2, n)

const test_case cases_next_tokens[] = {
    {"next_tokens", "[7, 13]", 2, 2, {WINDOWS(7, 13), LABELS(7)}, .reference = next_tokens, .exact = 1},
    {"next_tokens", "[5, 2]", 2, 2, {WINDOWS(5, 2), LABELS(5)}, .reference = next_tokens, .exact = 1},
    {0},
};
