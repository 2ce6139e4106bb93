/* Messages of floats in part. */
#include "runtime/compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_compression_parse(const char *text, sl_compression *c) {
  *c = (sl_compression){SL_COMPRESSION_NONE, 0};
  if (strcmp(text, "none") == 0) return SL_OK;
  c->kind = strcmp(text, "bf16") == 0 ? SL_COMPRESSION_BF16 : SL_COMPRESSION_TOPK;
  if (c->kind == SL_COMPRESSION_BF16) return SL_OK;
  char *end = "";
  c->fraction = strncmp(text, "topk=", 5) == 0 ? strtod(text + 5, &end) : 0.01;
  if ((strcmp(text, "topk") == 0 || (strncmp(text, "topk=", 5) == 0 && end > text + 5)) && *end == 0 &&
      c->fraction > 0 && c->fraction <= 0.25)
    return SL_OK;
  *c = (sl_compression){SL_COMPRESSION_NONE, 0};
  return sl_fail(SL_EINVAL, "compression '%s' is none of: none, bf16, topk, topk=FRACTION with 0 < FRACTION <= 0.25",
                 text);
}

static int64_t kept(const sl_compression *c, int64_t n) {
  const int64_t k = (int64_t)ceil(c->fraction * (double)n);
  return k < n ? k : n;
}

size_t sl_compressed_bytes(const sl_compression *c, int64_t n) {
  switch (c->kind) {
    case SL_COMPRESSION_BF16:
      return (size_t)n * sizeof(uint16_t);
    case SL_COMPRESSION_TOPK:
      return (size_t)kept(c, n) * (sizeof(uint32_t) + sizeof(float));
    default:
      return (size_t)n * sizeof(float);
  }
}

static uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
enum { INFINITE = 0x7f800000 };
static int finite_bits(uint32_t u) { return (u & INFINITE) != INFINITE; }

/* A NaN stays one. */
static uint16_t rounded(uint32_t u) {
  if (finite_bits(u)) return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
  return (uint16_t)(u >> 16 | ((u & 0xffff) != 0) << 6);
}

static void round_all(const float *x, float *residual, int64_t n, uint16_t *message) {
  for (int64_t i = 0; i < n; i++) {
    const float sum = x[i] + residual[i];
    message[i] = rounded(bits_of(sum));
    const float lacks = sum - float_of((uint32_t)message[i] << 16);
    residual[i] = finite_bits(bits_of(lacks)) ? lacks : 0;
  }
}

/* Magnitudes are ordered as their bits are: those not finite come first. */
enum { BINS = 1 << 15 };
static uint32_t bin_of(float x) { return bits_of(x) >> 16 & (BINS - 1); }

static void choose(const float *x, float *residual, int64_t n, int64_t k, uint32_t *index, float *value) {
  uint32_t count[BINS] = {0}, bin = BINS - 1;
  for (int64_t i = 0; i < n; i++) {
    residual[i] += x[i];
    count[bin_of(residual[i])]++;
  }
  int64_t above = 0; /* in bins that are taken whole */
  for (; bin > 0 && above + count[bin] <= k; bin--) above += count[bin];
  int64_t some = k - above; /* of `bin` */
  for (int64_t i = 0; i < n; i++) {
    const uint32_t mine = bin_of(residual[i]);
    if (mine < bin || (mine == bin && some-- <= 0)) {
      if (!finite_bits(bits_of(residual[i]))) residual[i] = 0;
      continue;
    }
    *index++ = (uint32_t)i;
    *value++ = residual[i];
    residual[i] = 0;
  }
}

void sl_compress(const sl_compression *c, const float *x, float *residual, int64_t n, void *message) {
  const int64_t k = kept(c, n);
  switch (c->kind) {
    case SL_COMPRESSION_BF16:
      round_all(x, residual, n, message);
      break;
    case SL_COMPRESSION_TOPK:
      choose(x, residual, n, k, message, (float *)message + k);
      break;
    default:
      memcpy(message, x, (size_t)n * sizeof *x);
  }
}

void sl_decompress(const sl_compression *c, const void *message, int64_t n, float *x) {
  const int64_t k = kept(c, n);
  const uint16_t *upper = message;
  const uint32_t *index = message;
  switch (c->kind) {
    case SL_COMPRESSION_BF16:
      for (int64_t i = 0; i < n; i++) x[i] = float_of((uint32_t)upper[i] << 16);
      break;
    case SL_COMPRESSION_TOPK:
      memset(x, 0, (size_t)n * sizeof *x);
      for (int64_t i = 0; i < k; i++)
        if (index[i] < (uint64_t)n) x[index[i]] = ((const float *)message)[k + i];
      break;
    default:
      memcpy(x, message, (size_t)n * sizeof *x);
  }
}
