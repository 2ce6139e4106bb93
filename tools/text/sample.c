/* Sampling: softmax(logits / temperature), cut to the k likeliest tokens (Fan et al. 2018, section 5.1) and then to the
 * nucleus, the fewest of them whose probability is p or more (Holtzman et al. 2020, section 3.1). */
#include "tools/text/sample.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/numbers/philox.h"

enum { STREAM = 0x73616d70 }; /* stream of random numbers that training does not use */

/* Likeliest first; among equals the smaller token first. */
static int likelier(const void *a, const void *b) {
  const sl__candidate *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
  return x->token < y->token ? -1 : x->token > y->token;
}

/* In [0, 1), 53 bits. */
static double uniform(uint64_t seed, uint64_t draw) {
  uint32_t word[4];
  sl_random_u32x4(seed, draw, STREAM, 0, word);
  return (double)(((uint64_t)word[0] << 32 | word[1]) >> 11) * 0x1p-53;
}

sl_status sl__sample(const sl__sampling *s, const float *logits, int64_t n, uint64_t draw, sl__candidate *room,
                     int32_t *token) {
  int64_t best = 0;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(logits[i]) || logits[i] == INFINITY)
      return sl_fail(SL_ENONFINITE, "the logit of token %lld is %g: the model's parameters are broken", (long long)i,
                     (double)logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  if (n < 1 || logits[best] == -INFINITY) return sl_fail(SL_ENONFINITE, "all tokens have probability 0");
  *token = (int32_t)best;
  if (s->temperature == 0 || s->top_k == 1) return SL_OK;

  for (int64_t i = 0; i < n; i++) room[i] = (sl__candidate){logits[i], (int32_t)i};
  qsort(room, (size_t)n, sizeof *room, likelier);
  if (s->top_k > 0 && s->top_k < n) n = s->top_k;
  double total = 0, kept = 0;
  for (int64_t i = 0; i < n; i++) {
    room[i].weight = exp((room[i].weight - logits[best]) / s->temperature);
    total += room[i].weight;
  }
  int64_t nucleus = 0;
  while (nucleus < n && (nucleus == 0 || s->top_p >= 1 || kept < s->top_p * total)) kept += room[nucleus++].weight;
  const double aim = uniform(s->seed, draw) * kept;
  double sum = 0;
  for (int64_t i = 0; i < nucleus && room[i].weight > 0; i++) {
    *token = room[i].token;
    sum += room[i].weight;
    if (sum > aim) break;
  }
  return SL_OK;
}
