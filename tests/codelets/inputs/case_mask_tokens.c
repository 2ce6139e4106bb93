/* Cases of mask_tokens: drawn token by token here. */
#include "tests/codelets/cases.h"

static void mask_tokens(const case_run *r) {
  const sl_masking *m = r->c->attr;
  const int64_t n = case_count(r->shape_out[0]), T = r->shape_out[0]->dim[1];
  for (int64_t i = 0; i < n; i++) {
    uint32_t word[4];
    sl_random_u32x4(r->step->seed, (uint64_t)r->step->number, r->key, (uint64_t)i, word);
    const double id = r->in[0][i], choice = word[0] / 4294967296.0, change = word[1] / 4294967296.0;
    const int chosen = id >= m->from && id < m->to && id != m->mask && choice < 0.15;
    r->out[0][i] = id;
    if (chosen && change < 0.8) r->out[0][i] = m->mask;
    if (chosen && change >= 0.8 && change < 0.9)
      r->out[0][i] = m->from + floor(word[2] / 4294967296.0 * (m->to - m->from));
    r->out[1][i] = chosen && r->in[1][i / T] >= 0 ? id : -1;
  }
}

static const sl_masking bytes = {.mask = 256, .from = 0, .to = 256}, words = {.mask = 3, .from = 20, .to = 90},
                        within = {.mask = 30, .from = 20, .to = 50};

#define WINDOWS(...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 99, __VA_ARGS__)
#define LABELS(n) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -2, 2, n)
#define CASE(what, masking, B, T) \
  { "mask_tokens", what, 2, 2, {WINDOWS(B, T), LABELS(B)}, .attr = &masking, .reference = mask_tokens, .exact = 1 }

const test_case cases_mask_tokens[] = {
    CASE("[7, 253] of bytes", bytes, 7, 253),
    CASE("[12, 128], some not ordinary", words, 12, 128),
    CASE("[12, 61], the mask among the ordinary", within, 12, 61),
    CASE("[5, 1]", words, 5, 1),
    {0},
};
