/* Fuzz target: the reader of JPEG files, EXIF block included. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/pictures.h"
#include "tools/images/decode.h"
#include "tools/images/format.h"

extern const sl__format sl__format_jpeg;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  sl__picture p;
  const sl__format *f = &sl__format_jpeg;
  if (n < f->mark_bytes || memcmp(data, f->mark, f->mark_bytes) != 0) return -1;
  if (sl__decode("fuzz", data, n, 3, &p) != SL_OK) {
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
    int channels, progressive, orientation;
  } kinds[] = {{1, 0, 0}, {3, 0, 6}, {3, 1, 3}, {4, 0, 1}};
  uint8_t samples[9 * 7 * 4];
  size_t n;
  if (number >= 4) return 0;
  for (size_t i = 0; i < sizeof samples; i++) samples[i] = (uint8_t)(i * i >> 3);
  uint8_t *bytes =
      picture_jpeg(samples, 9, 7, kinds[number].channels, kinds[number].progressive, kinds[number].orientation, &n);
  if (n > room) abort();
  memcpy(data, bytes, n);
  free(bytes);
  return n;
}
