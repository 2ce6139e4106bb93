/* Fuzz target: the reader of token files. */
#include "runtime/data/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { VOCABULARY = 1000, WINDOW = 3, HEADER = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static int fd = -1;
  char path[64];
  sl_tokens *t;
  if (fd < 0) fd = memfd_create("fuzz.bin", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const sl_tokens_options options = {.paths = path, .vocabulary = VOCABULARY, .window = WINDOW, .stride = 2};
  if (sl_tokens_open(&options, &t) != SL_OK) {
    if (t || !sl_error()[0]) abort();
    return -1;
  }
  const sl_sample_source source = sl_tokens_source(t, SL_SPLIT_TRAIN);
  if (source.sample_bytes != WINDOW * sizeof(int32_t) || source.n < 1 || t->tokens[SL_SPLIT_TRAIN] > (int64_t)n)
    abort();
  for (int64_t i = 0; i < source.n; i++) { /* every window can be read and is within the vocabulary */
    int32_t sample[WINDOW], label;
    if (source.read(source.arg, i, sample, &label) != SL_OK) abort();
    for (int k = 0; k < WINDOW; k++)
      if (sample[k] < 0 || sample[k] >= VOCABULARY) abort();
  }
  sl_tokens_close(t);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const struct {
    uint32_t magic, version, width, count;
  } seeds[] = {{20240520, 1, 2, 40}, {20240801, 7, 4, 30}, {20240520, 1, 2, 3}};
  if ((size_t)number >= sizeof seeds / sizeof *seeds) return 0;
  const size_t n = HEADER + seeds[number].width * seeds[number].count;
  if (n > room) abort();
  memset(data, 0, n);
  for (int b = 0; b < 4; b++) {
    data[b] = (uint8_t)(seeds[number].magic >> 8 * b);
    data[4 + b] = (uint8_t)(seeds[number].version >> 8 * b);
    data[8 + b] = (uint8_t)(seeds[number].count >> 8 * b);
  }
  for (uint32_t i = 0; i < seeds[number].count; i++) data[HEADER + seeds[number].width * i] = (uint8_t)(i * 37);
  return n;
}
