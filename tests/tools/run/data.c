/* tools/run/data.c: every task has a kind of data, whose descriptor is whole; noise of each kind has the sizes that
 * were asked for, and is the same every time. What is read from files is in tests/runtime/data and tests/tokens.sh. */
#include "tools/run/data.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

static void each_task_has_a_whole_kind(void **state) {
  (void)state;
  for (int i = 0; sl_model_at(i); i++) {
    const sl__data_kind *k = sl__data_kind_of(sl_model_at(i));
    assert_non_null(k);
    assert_true(k->samples && k->counted && k->classes && k->rate);
    assert_true(k->open && k->source && k->text && k->units && k->sample_bytes && k->make_up && k->compare);
    assert_ptr_equal(k, sl_model_at(i)->length > 0 ? &sl__data_tokens : &sl__data_images);
  }
}

static void made_up(const char *name, const sl_model_data *sizes, size_t bytes, int64_t units, const char *words) {
  const sl_model *model;
  sl__data data, again;
  char text[96];
  assert_ok(sl_model_find(name, &model));
  assert_ok(sl__data_make_up(model, sizes, &data));
  assert_ok(sl__data_make_up(model, sizes, &again));
  const sl_sample_source source = sl__data_source(&data, SL_SPLIT_TRAIN),
                         other = sl__data_source(&again, SL_SPLIT_TRAIN);
  assert_int_equal(source.sample_bytes, bytes);
  assert_int_equal(data.kind->units(sizes), units);
  assert_string_equal(sl__data_text(data.kind, sizes, text, sizeof text), words);
  assert_true(source.n == data.n[SL_SPLIT_TRAIN] && source.n > 0);
  char *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
  int32_t label, second;
  assert_ok(source.read(source.arg, 7, a, &label));
  assert_ok(other.read(other.arg, 7, b, &second));
  assert_ok(source.read(source.arg, 8, c, &second));
  assert_memory_equal(a, b, bytes);
  assert_memory_not_equal(a, c, bytes);
  assert_in_range(label, 0, sizes->classes - 1);
  if (sizes->length > 0)
    for (size_t i = 0; i < bytes / 4; i++) assert_in_range(((int32_t *)(void *)a)[i], 0, sizes->classes - 1);
  free(a), free(b), free(c);
  sl__data_close(&data), sl__data_close(&again);
}

static void noise(void **state) {
  (void)state;
  const sl_model_data images = {.height = 5, .width = 4, .channels = 3, .classes = 7};
  const sl_model_data tokens = {.length = 9, .classes = 50};
  made_up("mlp", &images, 60, 1, "images of 5x4x3");
  made_up("gpt2-nano", &tokens, 40, 9, "windows of 9 tokens"); /* one token more, to be predicted */
  made_up("bert-nano", &tokens, 36, 9, "windows of 9 tokens");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_task_has_a_whole_kind), cmocka_unit_test(noise)};
  return cmocka_run_group_tests_name("data", tests, NULL, NULL);
}
