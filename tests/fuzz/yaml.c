/* Fuzz target: the reader of config.yaml. What it accepts is written, and reads back the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/settings/options.h"

static sl_status parse(const char *path, sl__options *o) {
  static const sl__command train = {.name = "train", .bit = SL__TRAIN, .most = 1};
  const char *words[] = {"train", "--config", path};
  return sl__options_parse(&train, 3, words, o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH], *text, *twice;
  sl__options o, again;
  fuzz_write(fuzz_path("a.yaml", path), data, n);
  const sl_status status = parse(path, &o);
  if (status != SL_OK && !*sl_error()) abort();
  if (status != SL_OK || !o.model) { /* the command asks for a model before it goes on */
    sl__options_free(&o);
    return -1;
  }
  if (sl__options_to_yaml(&o, &text) != SL_OK) abort();
  fuzz_write(fuzz_path("b.yaml", path), text, strlen(text));
  if (parse(path, &again) != SL_OK || sl__options_to_yaml(&again, &twice) != SL_OK || strcmp(text, twice) != 0) abort();
  free(text), free(twice);
  sl__options_free(&o), sl__options_free(&again);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "model: mlp\nbatch: 32\nlearning_rate: 0.25\nseed: 3\nuntil: accuracy=0.9\ncalibrate: yes\n# a comment\n",
      "model: resnet18\nsize: {blocks: [3, 4, 6, 3], channels: 64}\nsched: lws\n'data': \"a: \\\"folder\\\" "
      "#1\\u00e4\"\n",
      "{model: mlp, batch: &n 8, leaves: *n, clip: 1e-4, recompute: block}\n"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
