/* Fuzz target: the reader of IDX files, plain and gzip. */
#include "runtime/data/idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  sl_idx idx;
  if (sl_idx_read_bytes("fuzz", data, n, &idx) != SL_OK) {
    if (idx.data || !sl_error()[0]) abort();
    return -1;
  }
  const size_t bytes = (size_t)sl_shape_count(&idx.shape) * sl_dtype_bytes(idx.dtype);
  volatile uint8_t sum = 0;
  for (size_t i = 0; i < bytes; i++) sum = (uint8_t)(sum + ((const uint8_t *)idx.data)[i]); /* every byte can be read */
  if (idx.shape.ndim < 1 || idx.shape.ndim > SL_IDX_MAX_DIMS) abort();
  if (n >= 2 && data[0] == 0 && bytes < n - 4 - 4 * (size_t)idx.shape.ndim)
    abort(); /* plain: no byte may be left over */
  sl_idx_clear(&idx);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const uint8_t plain[][32] = {{0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3},
                                      {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6},
                                      {0, 0, 0xb, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0, 2, 0, 3, 0, 4},
                                      {0, 0, 0xe, 1, 0, 0, 0, 1, 0x3f, 0xf0}};
  static const size_t lengths[] = {11, 22, 20, 16};
  if (number < 4) {
    memcpy(data, plain[number], lengths[number]);
    return lengths[number];
  }
  if (number > 5) return 0;
  char path[] = "/tmp/starling-fuzz-XXXXXX.gz";
  const int fd = mkstemps(path, 3);
  uint8_t pixels[1000];
  for (int i = 0; i < 1000; i++) pixels[i] = (uint8_t)(number == 4 ? i * i >> 3 : 0);
  const sl_shape shape = SL_SHAPE(10, 10, 10);
  if (fd < 0 || sl_idx_write(path, SL_U8, &shape, pixels) != SL_OK) abort();
  close(fd);
  FILE *file = fopen(path, "rb");
  const size_t n = file ? fread(data, 1, room, file) : 0;
  if (file) fclose(file);
  unlink(path);
  return n;
}
