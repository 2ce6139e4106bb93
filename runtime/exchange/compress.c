/* Compressed messages: bf16 and top-k, with error feedback. */
#include "runtime/exchange/compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define USUAL 0.01
#define MOST 0.25 /* largest fraction of top-k: above it bf16 sends little more */

sl_status sl_compression_parse(const char *text, sl_compression *c) {
  *c = (sl_compression){SL_COMPRESSION_NONE, 0, 0};
  if (strcmp(text, "none") == 0) return SL_OK;
  c->kind = strcmp(text, "bf16") == 0 ? SL_COMPRESSION_BF16 : SL_COMPRESSION_TOPK;
  if (c->kind == SL_COMPRESSION_BF16) return SL_OK;
  char *end = "";
  c->fraction = strncmp(text, "topk=", 5) == 0 ? strtod(text + 5, &end) : USUAL;
  if ((strcmp(text, "topk") == 0 || (strncmp(text, "topk=", 5) == 0 && end > text + 5)) && *end == 0 &&
      c->fraction > 0 && c->fraction <= MOST)
    return SL_OK;
  *c = (sl_compression){SL_COMPRESSION_NONE, 0, 0};
  return sl_blame(
      sl_fail(SL_EINVAL, "unknown compression '%s': choose none, bf16, topk or topk=FRACTION, 0 < FRACTION <= 0.25",
              text),
      "compress");
}

sl_compression sl_compression_at(const sl_compression *c, uint64_t round, int sums) {
  sl_compression now = *c;
  int halvings = 0; /* halving is exact, so every machine gets the same fraction */
  now.warmup = 0;
  if (c->kind != SL_COMPRESSION_TOPK) return now;
  while (ldexp(MOST, -halvings) > c->fraction) halvings++;
  if (c->warmup > 0 && round < (uint64_t)c->warmup)
    now.fraction = fmax(c->fraction, ldexp(MOST, -(int)(round * (uint64_t)halvings / (uint64_t)c->warmup)));
  if (sums) now.fraction *= 2;
  return now;
}

static int64_t kept(const sl_compression *c, int64_t n) {
  const int64_t k = (int64_t)ceil(c->fraction * (double)n);
  return k < n ? k : n;
}

/* Bits of k ascending indices below n, each with `low` low bits. */
static int64_t index_bits(int64_t k, int64_t n, int low) { return k * (low + 1) + (n >> low) + 1; }
static int low_bits(int64_t k, int64_t n) {
  int low = 0;
  while (low < 31 && index_bits(k, n, low + 1) < index_bits(k, n, low)) low++;
  return low;
}

size_t sl_compressed_bytes(const sl_compression *c, int64_t n) {
  const int64_t k = kept(c, n);
  switch (c->kind) {
    case SL_COMPRESSION_BF16:
      return (size_t)n * sizeof(uint16_t);
    case SL_COMPRESSION_TOPK:
      return (size_t)k * sizeof(uint16_t) + (size_t)(index_bits(k, n, low_bits(k, n)) + 7) / 8;
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

/* To bf16, nearest, ties to even. A NaN stays a NaN. */
static uint16_t rounded(uint32_t u) {
  if (finite_bits(u)) return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
  return (uint16_t)(u >> 16 | ((u & 0xffff) != 0) << 6);
}

/* Rounds a sum. The residual becomes the rounding error, or 0 where that is not finite. */
static uint16_t take(float sum, float *residual) {
  const uint16_t upper = rounded(bits_of(sum));
  const float lacks = sum - float_of((uint32_t)upper << 16);
  *residual = finite_bits(bits_of(lacks)) ? lacks : 0;
  return upper;
}

static void round_all(const float *x, float *residual, int64_t n, uint16_t *message) {
  for (int64_t i = 0; i < n; i++) message[i] = take(x[i] + residual[i], &residual[i]);
}

/* The ascending indices that follow a message's k values, in Elias-Fano code: first the low bits of all indices, then
 * their high parts in unary: a 0 raises the high part by one, a 1 ends an index. */
typedef struct indices {
  int low;
  int64_t at, high; /* bit positions of the next low part and the next high part */
  uint64_t above;   /* the current high part: number of 0s so far */
} indices;

static indices indices_of(int64_t k, int64_t n) {
  const int low = low_bits(k, n);
  return (indices){.low = low, .high = k * low};
}

static void put_index(indices *x, unsigned char *bits, uint64_t index) {
  for (int b = 0; b < x->low; b++, x->at++) bits[x->at / 8] |= (unsigned char)((index >> b & 1) << x->at % 8);
  x->high += (int64_t)((index >> x->low) - x->above);
  x->above = index >> x->low;
  bits[x->high / 8] |= (unsigned char)(1 << x->high % 8);
  x->high++;
}

/* end: number of bits. Returns UINT64_MAX after the last index. */
static uint64_t get_index(indices *x, const unsigned char *bits, int64_t end) {
  uint64_t index = 0;
  for (int b = 0; b < x->low; b++, x->at++) index |= (uint64_t)(bits[x->at / 8] >> x->at % 8 & 1) << b;
  while (x->high < end && !(bits[x->high / 8] >> x->high % 8 & 1)) x->high++, x->above++;
  if (x->high++ >= end) return UINT64_MAX;
  return index | x->above << x->low;
}

/* A bin is the upper 15 bits of a magnitude. Bits order magnitudes; values that are not finite are the largest. */
enum { BINS = 1 << 15 };
static uint32_t bin_of(float x) { return bits_of(x) >> 16 & (BINS - 1); }

static void choose(const float *x, float *residual, int64_t n, int64_t k, uint16_t *value) {
  uint32_t count[BINS] = {0}, bin = BINS - 1;
  for (int64_t i = 0; i < n; i++) {
    residual[i] += x[i];
    count[bin_of(residual[i])]++;
  }
  int64_t above = 0; /* floats in bins that are sent whole */
  for (; bin > 0 && above + count[bin] <= k; bin--) above += count[bin];
  int64_t some = k - above; /* floats to send from `bin` */
  unsigned char *bits = (unsigned char *)(value + k);
  indices index = indices_of(k, n);
  memset(bits, 0, (size_t)(index_bits(k, n, index.low) + 7) / 8);
  for (int64_t i = 0; i < n; i++) {
    const uint32_t mine = bin_of(residual[i]);
    if (mine < bin || (mine == bin && some-- <= 0)) {
      if (!finite_bits(bits_of(residual[i]))) residual[i] = 0;
      continue;
    }
    put_index(&index, bits, (uint64_t)i);
    *value++ = take(residual[i], &residual[i]);
  }
}

void sl_compress(const sl_compression *c, const float *x, float *residual, int64_t n, void *message) {
  const int64_t k = kept(c, n);
  switch (c->kind) {
    case SL_COMPRESSION_BF16:
      round_all(x, residual, n, message);
      break;
    case SL_COMPRESSION_TOPK:
      choose(x, residual, n, k, message);
      break;
    default:
      memcpy(message, x, (size_t)n * sizeof *x);
  }
}

void sl_decompress(const sl_compression *c, const void *message, int64_t n, float *x) {
  const int64_t k = kept(c, n);
  const uint16_t *upper = message;
  indices index;
  switch (c->kind) {
    case SL_COMPRESSION_BF16:
      for (int64_t i = 0; i < n; i++) x[i] = float_of((uint32_t)upper[i] << 16);
      break;
    case SL_COMPRESSION_TOPK:
      memset(x, 0, (size_t)n * sizeof *x);
      index = indices_of(k, n);
      for (int64_t i = 0; i < k; i++) {
        const uint64_t at = get_index(&index, (const unsigned char *)(upper + k), index_bits(k, n, index.low));
        if (at < (uint64_t)n) x[at] = float_of((uint32_t)upper[i] << 16);
      }
      break;
    default:
      memcpy(x, message, (size_t)n * sizeof *x);
  }
}
