/* Fewer bytes for what crosses between nodes: messages that carry floats in part, and error feedback, which keeps what
 * a message lacks and adds it to the next one, so that nothing is lost for good (Seide et al. 2014, 1-bit SGD;
 * Karimireddy et al. 2019, Error Feedback Fixes SignSGD).
 *
 * bf16: each float rounded to its upper 16 bits (to nearest, ties to even), half the bytes. top-k (Aji and Heafield
 * 2017): the k = ceil(fraction n) floats of the largest magnitude, rounded in the same way, behind them their indices
 * as Elias (1974) and Fano (1971) code them: min over l of k (l + 1) + n / 2^l bits, so that at a hundredth each
 * takes 3.1 bytes in all. Of those whose upper 16 bits are the same the first ones are taken, so that a message depends
 * on nothing but its floats. In the first rounds a larger part is sent, since what is left out then costs most (Lin et
 * al. 2018, Deep Gradient Compression, warm-up training): it falls from a quarter by halves. Of sums twice
 * the part is sent, since they hold what all other nodes chose and all that the leader has itself (docs/performance.md
 * has what that brings). */
#ifndef SL_COMPRESS_H
#define SL_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_compression_kind { SL_COMPRESSION_NONE, SL_COMPRESSION_BF16, SL_COMPRESSION_TOPK } sl_compression_kind;
typedef struct sl_compression {
  sl_compression_kind kind;
  double fraction; /* of the floats, TOPK */
  int64_t warmup;  /* rounds in which the fraction falls from a quarter to that, TOPK */
} sl_compression;

/* "none", "bf16", "topk" (a hundredth) or "topk=FRACTION", more than 0 and at most 0.25. SL_EINVAL. */
sl_status sl_compression_parse(const char *text, sl_compression *compression);
/* What it is in a round, counted from 0, of what nodes have or of their sums: with the fraction that is sent. */
sl_compression sl_compression_at(const sl_compression *compression, uint64_t round, int sums);
/* Of the message of n floats; grows with n. */
size_t sl_compressed_bytes(const sl_compression *compression, int64_t n);
/* The message of x[n] + residual[n]. residual becomes what it lacks; 0 where that is not finite. x and message do not
 * overlap, residual is no other's. */
void sl_compress(const sl_compression *compression, const float *x, float *residual, int64_t n, void *message);
/* What the message says of n floats, those that it lacks being 0. */
void sl_decompress(const sl_compression *compression, const void *message, int64_t n, float *x);

#ifdef __cplusplus
}
#endif
#endif
