/* The formulas by which the optimizers update one element, and the factors in these formulas, written once for the CPU
 * and CUDA. Factors that depend on the step alone are computed in double. Included after math.h or cuda.h. */
#ifndef SL_FORMULAS_H
#define SL_FORMULAS_H

#include <math.h>

#include "codelets/attributes.h"

/* Whether a step may update: loss and clip factor (NULL: none) are finite, and no gradient overflowed. */
static SL_FUNCTION int sl_may_update(double guard, const double *clip) {
  return isfinite(guard) && (!clip || (isfinite(*clip) && *clip != 0));
}

/* The loss scale's state after a step (loss_scale.c). A loss that is not finite ends the run, so it leaves the state
 * unchanged. */
static SL_FUNCTION void sl_loss_scale_step(float state[2], float first, double guard, double clip) {
  if (!isfinite(guard)) return;
  state[1] += 1;
  if (clip == 0)
    state[0] -= state[0] > SL_LOSS_SCALE_LEAST - first ? 1 : 0, state[1] = 0;
  else if (state[1] >= SL_LOSS_SCALE_GROWS)
    state[0] += state[0] < SL_LOSS_SCALE_MOST - first ? 1 : 0, state[1] = 0;
}

typedef struct sl_sgd_factors {
  float rate, momentum, decay, clip;
} sl_sgd_factors;

static inline sl_sgd_factors sl_sgd_factors_of(const sl_call *c) {
  const sl_sgd_options *o = (const sl_sgd_options *)c->attr;
  const sl_sgd_factors f = {(float)c->step->learning_rate, (float)o->momentum, (float)o->decay, 1};
  return f;
}

static SL_FUNCTION void sl_sgd_element(float *p, float gradient, float *v, const sl_sgd_factors *f) {
  const float force = sl_fmaf(gradient, f->clip, *p * f->decay);
  *v = sl_fmaf(*v, f->momentum, force);
  *p = sl_fmaf(-*v, f->rate, *p);
}

typedef struct sl_adamw_factors {
  float keep, l2, beta1, rest1, beta2, rest2, rate, root, eps, clip;
} sl_adamw_factors;

static inline sl_adamw_factors sl_adamw_factors_of(const sl_call *c) {
  const sl_adamw_attr *attr = (const sl_adamw_attr *)c->attr;
  const sl_adamw_options *o = &attr->options;
  const double t = (double)c->step->number, rate = c->step->learning_rate;
  const sl_adamw_factors f = {attr->l2 ? 1 : (float)(1 - rate * o->decay),
                              attr->l2 ? (float)o->decay : 0,
                              (float)o->beta1,
                              (float)(1 - o->beta1),
                              (float)o->beta2,
                              (float)(1 - o->beta2),
                              (float)(rate / (1 - pow(o->beta1, t))),
                              (float)(1 / sqrt(1 - pow(o->beta2, t))),
                              (float)o->eps,
                              1};
  return f;
}

static SL_FUNCTION void sl_adamw_element(float *p, float gradient, float *m, float *v, const sl_adamw_factors *f) {
  const float g = sl_fmaf(gradient, f->clip, *p * f->l2);
  *m = sl_fmaf(*m, f->beta1, g * f->rest1);
  *v = sl_fmaf(*v, f->beta2, g * g * f->rest2);
  *p = sl_fmaf(*p, f->keep, -(*m * f->rate / sl_fmaf(sqrtf(*v), f->root, f->eps)));
}

typedef struct sl_lamb_factors {
  float decay, beta1, rest1, beta2, rest2, scale, root, eps, clip;
} sl_lamb_factors;

static inline sl_lamb_factors sl_lamb_factors_of(const sl_call *c) {
  const sl_lamb_options *o = (const sl_lamb_options *)c->attr;
  const double t = (double)c->step->number;
  const sl_lamb_factors f = {(float)o->decay,
                             (float)o->beta1,
                             (float)(1 - o->beta1),
                             (float)o->beta2,
                             (float)(1 - o->beta2),
                             (float)(1 / (1 - pow(o->beta1, t))),
                             (float)(1 / sqrt(1 - pow(o->beta2, t))),
                             (float)o->eps,
                             1};
  return f;
}

static SL_FUNCTION float sl_lamb_direction(float m, float v, float p, const sl_lamb_factors *f) {
  return sl_fmaf(p, f->decay, m * f->scale / sl_fmaf(sqrtf(v), f->root, f->eps));
}
/* Returns the direction. */
static SL_FUNCTION float sl_lamb_moments_element(float gradient, float p, float *m, float *v,
                                                 const sl_lamb_factors *f) {
  const float g = gradient * f->clip;
  *m = sl_fmaf(*m, f->beta1, g * f->rest1);
  *v = sl_fmaf(*v, f->beta2, g * g * f->rest2);
  return sl_lamb_direction(*m, *v, p, f);
}
static SL_FUNCTION float sl_lamb_element(float p, float m, float v, float rate, const sl_lamb_factors *f) {
  return sl_fmaf(-rate, sl_lamb_direction(m, v, p, f), p);
}

#endif
