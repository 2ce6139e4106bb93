/* Scratch memory of the fast CUDA kernels of attention: they do some heads at a time, and of long sequences some
 * queries at a time. For attention_cuda.cu and the rules of scratch memory in attention.c. */
#ifndef SL_ATTENTION_SIZES_H
#define SL_ATTENTION_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "codelets/kernels/product_sizes.h"

enum { SL_ATTENTION_STRETCHES = 8, SL_ATTENTION_STRETCH = 128 };

/* heads, queries: how many are computed at once, so that the arrays take about sl__fast_bytes. dp, Tp: row lengths of a
 * head's tokens [T][dp] and scores [queries][Tp]. The other members are offsets of arrays, and all is the total, in
 * bytes. y, dq, dk, dv, s, dscores and D are floats; q, k, v, dout, p and ds have the type of activations. In fp32, p
 * has the memory of s, and ds has the memory of dscores. */
typedef struct sl_attention_scratch {
  int64_t heads, queries, dp, Tp;
  size_t q, k, v, y, s, p;                 /* forward; y: the result */
  size_t dout, dq, dk, dv, D, dscores, ds; /* backward; dscores: derivatives by the probabilities */
  size_t all;
} sl_attention_scratch;

/* heads: of all samples; number: bytes of a number of the activations. With the causal mask, a stretch of queries needs
 * the scores of the keys up to its last query only: n stretches compute (n + 1) / 2n of all scores. */
static inline sl_attention_scratch sl_attention_scratch_of(int backward, int causal, int64_t heads, int64_t T,
                                                           int64_t d, int64_t number) {
  sl_attention_scratch s = {0};
  s.dp = (d + 7) / 8 * 8, s.Tp = (T + 7) / 8 * 8;
  const int64_t tokens = T * s.dp * ((backward ? 4 : 3) * number + (backward ? 3 : 1) * 4) + (backward ? T * 4 : 0);
  const int64_t score = (backward ? 2 : 1) * (number < 4 ? 4 + number : 4) * s.Tp;
  int64_t most = (sl__fast_bytes - tokens) / (score > 0 ? score : 1);
  most = most < 16 ? 16 : most;
  int64_t stretches = (T + most - 1) / most;
  const int64_t masked =
      T / SL_ATTENTION_STRETCH < SL_ATTENTION_STRETCHES ? T / SL_ATTENTION_STRETCH : SL_ATTENTION_STRETCHES;
  if (causal && stretches < masked) stretches = masked;
  /* Stretches of about equal lengths, in eights: cuBLAS is faster on such sizes. */
  s.queries = stretches > 1 ? ((T + stretches - 1) / stretches + 7) / 8 * 8 : T;
  most = sl__fast_bytes / (tokens + s.queries * score > 0 ? tokens + s.queries * score : 1);
  s.heads = most < 1 ? 1 : most < heads ? most : heads;
  const int64_t rows = s.heads * T * s.dp, scores = s.heads * s.queries * s.Tp;
#define SL_TAKE(at, bytes) s.at = s.all, s.all += ((size_t)(bytes) + 255) / 256 * 256
  SL_TAKE(q, rows * number);
  SL_TAKE(k, rows * number);
  SL_TAKE(v, rows * number);
  SL_TAKE(s, scores * 4);
  s.p = s.s;
  if (number < 4) SL_TAKE(p, scores * number);
  if (!backward) {
    SL_TAKE(y, rows * 4);
    return s;
  }
  SL_TAKE(dout, rows * number);
  SL_TAKE(dq, rows * 4);
  SL_TAKE(dk, rows * 4);
  SL_TAKE(dv, rows * 4);
  SL_TAKE(D, s.heads * T * 4);
  SL_TAKE(dscores, scores * 4);
  s.ds = s.dscores;
  if (number < 4) SL_TAKE(ds, scores * number);
#undef SL_TAKE
  return s;
}

#endif
