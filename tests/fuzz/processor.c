/* Fuzz target: what preprocessor_config.json says of images. The first byte: whether their size is known already. What
 * is accepted is written, and reads back the same. */
#include <stdlib.h>
#include <string.h>

#include "models/data_kind.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH];
  json_t *json, *written;
  if (n == 0) return -1;
  fuzz_write(fuzz_path("preprocessor_config.json", path), data + 1, n - 1);
  if (sl_json_read(path, &json) != SL_OK) return -1;
  sl_model_data facts = {.height = 32, .width = 48, .channels = 3, .classes = 2}, again = facts;
  sl_data_images.published(0, &facts), sl_data_images.published(0, &again);
  const sl_status status = sl_data_images.from_processor(json, data[0] & 1, &facts);
  json_decref(json);
  if (status != SL_OK) {
    if (!strstr(sl_error(), "image_")) abort();
    return -1;
  }
  if (facts.height < 1 || facts.width < 1 || (data[0] & 1 && (facts.height != 32 || facts.width != 48))) abort();
  if (!(written = sl_data_images.to_processor(&facts))) abort();
  if (sl_data_images.from_processor(written, 0, &again) != SL_OK) abort();
  json_decref(written);
  if (again.height != facts.height || again.width != facts.width) abort();
  for (int c = 0; c < 3; c++)
    if (again.mean[c] != facts.mean[c] || again.deviation[c] != facts.deviation[c] || !(facts.deviation[c] > 0))
      abort();
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "0{\"size\": {\"height\": 224, \"width\": 200}, \"image_mean\": [0.5, 0.4, 0.25], \"image_std\": [0.5, 1, 2e-3]}",
      "1{\"size\": {\"height\": 224, \"width\": 224}}",
      "0{\"size\": 224, \"image_mean\": [0, 0, 0], \"image_std\": [1, 1, 1]}"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
