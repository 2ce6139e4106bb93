/* A folder for fuzz targets whose reader wants files with certain names: in memory if such a file system exists. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at) {
  (void)info, (void)type, (void)at;
  return remove(path);
}

static void clear(void) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

const char *fuzz_folder(void) {
  if (*folder) return folder;
  snprintf(folder, sizeof folder, "%s/starling-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!mkdtemp(folder)) abort();
  atexit(clear);
  return folder;
}

const char *fuzz_path(const char *name, char path[FUZZ_PATH]) {
  snprintf(path, FUZZ_PATH, "%s/%s", fuzz_folder(), name);
  return path;
}

void fuzz_write(const char *path, const void *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) abort();
}

size_t fuzz_text(const char *const *texts, int n, int number, uint8_t *data, size_t room) {
  if (number >= n) return 0;
  const size_t length = strlen(texts[number]);
  if (length > room) abort();
  memcpy(data, texts[number], length);
  return length;
}
