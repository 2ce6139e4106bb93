/* Fuzz target: the reader of labels.txt, beside a data set of one image. The names that it accepts are the file's
 * lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char images[] = "\0\0\x08\x03\0\0\0\1\0\0\0\1\0\0\0\1\x7f", labels[] = "\0\0\x08\x01\0\0\0\1\0";
  static int there;
  char path[FUZZ_PATH];
  sl_dataset *set;
  if (!there++) {
    fuzz_write(fuzz_path("train-images-idx3-ubyte", path), images, sizeof images - 1);
    fuzz_write(fuzz_path("train-labels-idx1-ubyte", path), labels, sizeof labels - 1);
  }
  fuzz_write(fuzz_path("labels.txt", path), data, n);
  if (sl_dataset_open(&(sl_dataset_options){.directory = fuzz_folder()}, &set) != SL_OK) {
    if (set || !strstr(sl_error(), fuzz_folder())) abort();
    return -1;
  }
  const char *at = (const char *)data, *end = at + n;
  if (n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
  for (int32_t i = 0; i < set->classes; i++) {
    const char *next = memchr(at, '\n', (size_t)(end - at)), *last = next ? next : end;
    const size_t length = (size_t)(last - at) - (last > at && last[-1] == '\r');
    if (strlen(set->class_names[i]) != length || memcmp(set->class_names[i], at, length) != 0) abort();
    at = next ? next + 1 : end;
  }
  if (at != end) abort();
  sl_dataset_close(set);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {"cat\ndog\n",
                                      "\xef\xbb\xbf"
                                      "caf\xc3\xa9\r\n\r\nT-shirt/top",
                                      "one"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
