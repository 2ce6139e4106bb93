/* Fuzz target: the reader of PNG files. Repairs the chunks' checksums first, so that inputs reach the code after the
 * check. */
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/pictures.h"
#include "tools/images/decode.h"
#include "tools/images/format.h"

extern const sl__format sl__format_png;

static void mend(uint8_t *data, size_t n) {
  for (size_t at = 8; at + 12 <= n;) {
    const size_t length =
        (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
    if (length > n - at - 12) return;
    const uLong sum = crc32(0, data + at + 4, (uInt)(length + 4));
    for (int b = 0; b < 4; b++) data[at + 8 + length + (size_t)b] = (uint8_t)(sum >> (24 - 8 * b));
    at += 12 + length;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  sl__picture p;
  const sl__format *f = &sl__format_png;
  if (n < f->mark_bytes || memcmp(data, f->mark, f->mark_bytes) != 0) return -1;
  uint8_t *mended = malloc(n);
  if (!mended) abort();
  memcpy(mended, data, n);
  mend(mended, n);
  const sl_status status = sl__decode("fuzz", mended, n, 3, &p);
  free(mended);
  if (status != SL_OK) {
    if (p.pixels || !sl_error()[0]) abort();
    return -1;
  }
  volatile uint8_t sum = 0;
  for (int64_t i = 0; i < p.height * p.width * 3; i++) sum = (uint8_t)(sum + p.pixels[i]); /* every byte can be read */
  sl__picture_clear(&p);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const struct {
    int type, depth, interlaced, orientation, row_bytes;
  } kinds[] = {{PNG_COLOR_TYPE_GRAY, 8, 0, 0, 7},
               {PNG_COLOR_TYPE_RGB, 16, 1, 6, 42},
               {PNG_COLOR_TYPE_PALETTE, 4, 0, 0, 4},
               {PNG_COLOR_TYPE_GRAY, 1, 1, 0, 1},
               {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0, 8, 28}};
  uint8_t samples[9 * 7 * 8];
  size_t n;
  if (number >= 5) return 0;
  for (size_t i = 0; i < sizeof samples; i++) samples[i] = (uint8_t)(i * i >> 3);
  uint8_t *bytes = picture_png(samples, (size_t)kinds[number].row_bytes, 9, 7, kinds[number].type, kinds[number].depth,
                               kinds[number].interlaced, kinds[number].orientation, &n);
  if (n > room) abort();
  memcpy(data, bytes, n);
  free(bytes);
  return n;
}
