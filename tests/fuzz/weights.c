/* Fuzz target: the reader of an index of several safetensors files. The index and the one file that a seed names are
 * memory files, which lie beside each other in /proc/self/fd. */
#include "runtime/files/weights.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { TENSORS = 100, INDEX };

static void put(int at, const void *bytes, size_t n) {
  if (fcntl(at, F_GETFD) < 0) {
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || dup2(fd, at) < 0) abort();
    close(fd);
  }
  if (ftruncate(at, 0) != 0 || pwrite(at, bytes, n, 0) != (ssize_t)n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char tensors[] =
      "\x6b\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}12345678";
  char path[64];
  sl_weights *w;
  float room[2];
  put(TENSORS, tensors, sizeof tensors - 1);
  put(INDEX, data, n);
  snprintf(path, sizeof path, "/proc/self/fd/%d", INDEX);
  if (sl_weights_open_index(path, &w) != SL_OK) {
    if (w || !strstr(sl_error(), path)) abort();
    return -1;
  }
  if (sl_weights_count(w) != 2) abort();
  for (int i = 0; i < 2; i++)
    if (sl_weights_find(w, sl_weights_get(w, i)->name) != i || sl_weights_read(w, i, room) != SL_OK) abort();
  sl_weights_close(w);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "{\"metadata\": {\"total_size\": 8}, \"weight_map\": {\"a\": \"100\", \"b\": \"100\"}}",
      "{\"weight_map\":{\"b\":\"100\",\"a\":\"100\"}}"};
  if ((size_t)number >= sizeof seeds / sizeof *seeds) return 0;
  const size_t n = strlen(seeds[number]);
  if (n > room) abort();
  memcpy(data, seeds[number], n);
  return n;
}
