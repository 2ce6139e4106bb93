/* Lossy compression of messages between nodes, with error feedback: the sender keeps what a message leaves out and adds
 * it to the next one, so nothing is lost for ever (Seide et al. 2014, 1-bit SGD; Karimireddy et al. 2019, Error
 * Feedback Fixes SignSGD).
 *
 * bf16: each float rounded to its upper 16 bits (to nearest, ties to even), half the bytes. top-k (Aji and Heafield
 * 2017): the k = ceil(fraction n) floats of the largest magnitude, rounded in the same way, then their indices in the
 * code of Elias (1974) and Fano (1971): min over l of k (l + 1) + n / 2^l bits. At a fraction of 1% each float that is
 * sent takes 3.1 bytes in all. Of equal magnitudes (upper 16 bits) the first ones are sent, so a message depends only
 * on its floats.
 *
 * During warm-up the fraction is larger, because omissions cost most in the first rounds (Lin et al. 2018, Deep
 * Gradient Compression): it begins at a quarter and is halved in equal intervals until it is `fraction`. Results have
 * twice the fraction of partial sums, because a result holds the floats that every other node chose, and all floats of
 * the node that sends it (docs/performance.md has the figures). */
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
  double fraction; /* TOPK: floats sent over all floats of a message */
  int64_t warmup;  /* TOPK: number of first rounds, in which the fraction falls from a quarter to `fraction` */
} sl_compression;

/* "none", "bf16", "topk" (a hundredth) or "topk=FRACTION", more than 0 and at most 0.25. SL_EINVAL. */
sl_status sl_compression_parse(const char *text, sl_compression *compression);
/* The compression of a round, counted from 0, with that round's fraction. sums: 1: of results, 0: of partial sums. */
sl_compression sl_compression_at(const sl_compression *compression, uint64_t round, int sums);
/* Bytes of the message of n floats; grows with n. */
size_t sl_compressed_bytes(const sl_compression *compression, int64_t n);
/* Writes the message of x[n] + residual[n]. residual then holds what the message left out, or 0 where that is not
 * finite. The three arrays do not overlap. */
void sl_compress(const sl_compression *compression, const float *x, float *residual, int64_t n, void *message);
/* Reads a message of n floats; floats that it leaves out become 0. */
void sl_decompress(const sl_compression *compression, const void *message, int64_t n, float *x);

#ifdef __cplusplus
}
#endif
#endif
