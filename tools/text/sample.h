/* Choosing the next token from a model's logits: temperature, top-k, top-p. */
#ifndef SL_TOOLS_SAMPLE_H
#define SL_TOOLS_SAMPLE_H

#include <stdint.h>

#include "runtime/base/status.h"

typedef struct sl__sampling {
  double temperature; /* what logits are divided by; 0: the largest logit is taken, of equals the first */
  int64_t top_k;      /* only the k largest logits are drawn from; 0: all */
  double top_p;       /* of those the fewest whose probability is p or more; 1: all */
  uint64_t seed;
} sl__sampling;

typedef struct sl__candidate {
  double weight; /* logit, then probability but for a factor */
  int32_t token;
} sl__candidate;

/* Draws a token by logits [n]. `draw` numbers the draws of one seed: the same seed, number and logits give the same
 * token. room is for n candidates. SL_ENONFINITE where a logit is NaN or +infinity, or all are -infinity. */
sl_status sl__sample(const sl__sampling *sampling, const float *logits, int64_t n, uint64_t draw, sl__candidate *room,
                     int32_t *token);

#endif
