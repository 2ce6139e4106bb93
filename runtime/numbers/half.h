/* Numbers of 16 bits to and from floats, as bits: to nearest, ties to even, denormals kept; a NaN stays a NaN, made
 * quiet. half: IEEE 754's binary16, the same as x86's F16C instructions give; bf16: the upper half of a float. The
 * functions serve C and CUDA alike. */
#ifndef SL_HALF_H
#define SL_HALF_H

#include <stdint.h>
#include <string.h>

#include "runtime/numbers/philox.h" /* SL_HOST_DEVICE */

SL_HOST_DEVICE uint32_t sl_half_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

SL_HOST_DEVICE uint16_t sl_half_of(float x) {
  const uint32_t u = sl_half_bits(x), sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
  if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more: infinity */
  if (size >= 0x38800000) return (uint16_t)(sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13));
  float value; /* below 2^-14: adding 1/2 rounds to a multiple of 2^-24, which is then in the low bits */
  memcpy(&value, &size, sizeof value);
  return (uint16_t)(sign | (sl_half_bits(value + 0.5f) - 0x3f000000));
}

SL_HOST_DEVICE uint16_t sl_bf16_of(float x) {
  const uint32_t u = sl_half_bits(x);
  return (uint16_t)((x != x ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1)) >> 16);
}

SL_HOST_DEVICE float sl_half_wide(uint16_t half) {
  const uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31, fraction = half & 1023;
  uint32_t u;
  if (exponent == 31)
    u = 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0);
  else if (exponent)
    u = (exponent + 112) << 23 | fraction << 13;
  else
    u = sl_half_bits((float)fraction * 0x1p-24f); /* exact: ten bits */
  u |= sign;
  float value;
  memcpy(&value, &u, sizeof value);
  return value;
}

#endif
