/* Cases of loss_scale and loss_scale_update; tests/codelets/failures.c has what an overflow does. */
#include "tests/codelets/cases.h"

static void loss_scale(const case_run *r) { r->out[0][0] = ldexp(1, (int)r->in[0][0] + 5); }

static void update(const case_run *r) {
  r->out[0][0] = r->in[0][0];
  r->out[0][1] = r->in[0][1] + 1;
}

static const sl_loss_scale_attr five = {5};
#define STATE INPUT(SL_F32, SL_SCOPE_WHOLE, FILL_INTEGERS, 3, 3, 2)
#define ONE INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, 0.5, 1, 1)

const test_case cases_loss_scale[] = {
    {"loss_scale", "2^(5 + 3)", 1, 1, {STATE}, .attr = &five, .reference = loss_scale, .exact = 1},
    {"loss_scale_update",
     "a step without an overflow",
     3,
     1,
     {STATE, ONE, ONE},
     .attr = &five,
     .reference = update,
     .exact = 1},
    {0},
};
