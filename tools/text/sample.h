/* Choosing the next token from a model's logits: temperature, top-k, top-p. */
#ifndef SL_TOOLS_SAMPLE_H
#define SL_TOOLS_SAMPLE_H

#include <stdint.h>

#include "runtime/base/status.h"

typedef struct sl__sampling {
  double temperature; /* divisor of the logits; 0: takes the largest logit, the first one among equals */
  int64_t top_k;      /* draws from the k largest logits only; 0: from all */
  double top_p;       /* draws from the fewest of these whose probabilities add up to p or more; 1: from all */
  uint64_t seed;
} sl__sampling;

typedef struct sl__candidate {
  double weight; /* logit, then probability up to a common factor */
  int32_t token;
} sl__candidate;

/* Draws a token by logits [n]. `draw` numbers the draws of one seed: the same seed, number and logits give the same
 * token. room holds n candidates. SL_ENONFINITE if a logit is NaN or +infinity, or all are -infinity. */
sl_status sl__sample(const sl__sampling *sampling, const float *logits, int64_t n, uint64_t draw, sl__candidate *room,
                     int32_t *token);

#endif
