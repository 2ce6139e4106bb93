/* Fuzz target: the reader of safetensors files. */
#include "runtime/files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static int fd = -1;
  char path[64];
  sl_safetensors *st;
  if (fd < 0) fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (sl_safetensors_open(path, &st) != SL_OK) {
    if (st || !strstr(sl_error(), path)) abort();
    return -1;
  }
  size_t total = 0;
  for (int i = 0; i < sl_safetensors_count(st); i++) {
    const sl_named_array *array = sl_safetensors_get(st, i);
    const size_t bytes = (size_t)sl_shape_count(&array->shape) * sl_dtype_bytes(array->dtype);
    if (bytes > n || sl_safetensors_find(st, array->name) != i) abort();
    uint8_t *elements = malloc(bytes ? bytes : 1);
    if (!elements || sl_safetensors_read(st, i, elements) != SL_OK) abort();
    free(elements);
    total += bytes;
  }
  size_t header = 0;
  for (int b = 0; b < 8; b++) header |= (size_t)data[b] << 8 * b;
  if (8 + header + total != n) abort(); /* header and tensors are all of the file */
  sl_safetensors_metadata(st, "format");
  sl_safetensors_close(st);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const struct {
    const char *header;
    size_t bytes;
  } seeds[] = {
      {"{}", 0},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}} ", 24},
      {"{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]},\"a\":{"
       "\"dtype\":\"I64\",\"shape\":[],"
       "\"data_offsets\":[9,17]}}",
       17},
      {"{\"e\":{\"dtype\":\"BF16\",\"shape\":[0,4],\"data_offsets\":[0,0]},\"f\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,"
       "1,4],\"data_offsets\":[0,8]}}",
       8},
  };
  if ((size_t)number >= sizeof seeds / sizeof *seeds) return 0;
  const size_t n = strlen(seeds[number].header);
  if (8 + n + seeds[number].bytes > room) abort();
  memset(data, 0, 8);
  data[0] = (uint8_t)n, data[1] = (uint8_t)(n >> 8);
  memcpy(data + 8, seeds[number].header, n);
  memset(data + 8 + n, 42, seeds[number].bytes);
  return 8 + n + seeds[number].bytes;
}
