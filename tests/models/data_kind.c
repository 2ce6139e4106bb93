/* models/data_kind.c and models/data: the descriptor of each kind is whole, also of one that is new; descriptions of
 * data survive model files; noise has the sizes that were asked for, and is the same every time. What is read from
 * files is in tests/runtime/data, tests/train.sh and tests/tokens.sh. */
#include "models/data_kind.h"

#include <stdlib.h>

#include "models/models.h"
#include "tests/support/scratch.h"

static void each_family_has_a_kind_of_the_list(void **state) {
  (void)state;
  for (int f = 0; sl_families[f]; f++) {
    int k = 0;
    while (sl_data_kinds[k] && sl_data_kinds[k] != sl_families[f]->data) k++;
    assert_non_null(sl_data_kinds[k]);
  }
}

static void each_kind_is_whole(void **state) {
  (void)state;
  assert_non_null(sl_data_kinds[0]->files);
  for (int i = 0; sl_data_kinds[i]; i++) {
    const sl_data_kind *k = sl_data_kinds[i];
    assert_true(k->name && k->samples && k->counted && k->classes && k->rate);
    assert_true(k->open && k->close && k->source && k->compare && k->make_up);
    assert_true(k->usual && k->size && k->units && k->shards && k->shape && k->prepare && k->to_json && k->from_json);
    assert_true(!k->published == !k->from_processor && !k->published == !k->to_processor);
  }
}

static sl_model_data usual(const sl_model *model) {
  sl_model_data d;
  model->family->data->usual(model, &(sl_model_data){0}, &d);
  return d;
}

/* JSON gives back what it was made of, and refuses it with any member gone or not a size. */
static void descriptions_survive_json(void **state) {
  (void)state;
  for (int i = 0; sl_model_at(i); i++) {
    const sl_data_kind *k = sl_model_at(i)->family->data;
    const sl_model_data d = usual(sl_model_at(i));
    sl_model_data again;
    json_t *json = k->to_json(&d), *value;
    const char *name;
    assert_ok(k->from_json(json, &again));
    assert_true(sl_data_equal(k, &d, &again));
    again.classes++;
    assert_false(sl_data_equal(k, &d, &again));
    json_object_foreach(json, name, value) {
      json_t *without = json_copy(json), *wrong = json_copy(json);
      json_object_del(without, name);
      assert_int_equal(k->from_json(without, &again), SL_EFORMAT);
      json_object_set_new(wrong, name, json_integer(-1));
      assert_int_equal(k->from_json(wrong, &again), strcmp(name, "mean") == 0 ? SL_OK : SL_EFORMAT);
      if (json_is_integer(value)) assert_non_null(strstr(sl_error(), "out of range"));
      json_decref(without), json_decref(wrong);
    }
    json_decref(json);
  }
}

/* A number of pixels or tokens fits an int32_t. */
static void sizes_of_descriptions_are_bounded(void **state) {
  static const struct {
    const char *model, *sizes;
    int fine;
  } cases[] = {
      {"mlp", "{\"height\": 1, \"width\": 2147483647, \"channels\": 1, \"classes\": 1}", 1},
      {"mlp", "{\"height\": 2, \"width\": 1073741824, \"channels\": 1, \"classes\": 1}", 0},
      {"mlp", "{\"height\": 4294967296, \"width\": 4294967296, \"channels\": 1, \"classes\": 1}", 0},
      {"mlp", "{\"height\": 0, \"width\": 8, \"channels\": 1, \"classes\": 1}", 0},
      {"mlp", "{\"height\": 8, \"width\": 0, \"channels\": 1, \"classes\": 1}", 0},
      {"mlp", "{\"height\": 8, \"width\": 8, \"channels\": 0, \"classes\": 1}", 0},
      {"mlp", "{\"height\": 8, \"width\": 8, \"channels\": 2147483648, \"classes\": 1}", 0},
      {"mlp", "{\"height\": 8, \"width\": 8, \"channels\": 1, \"classes\": 0}", 0},
      {"mlp", "{\"height\": 8, \"width\": 8, \"channels\": 1, \"classes\": 2147483648}", 0},
      {"gpt2-nano", "{\"length\": 2147483647, \"vocabulary\": 2147483647}", 1},
      {"gpt2-nano", "{\"length\": 0, \"vocabulary\": 256}", 0},
      {"gpt2-nano", "{\"length\": 2147483648, \"vocabulary\": 256}", 0},
      {"bert-nano", "{\"length\": 16, \"vocabulary\": 0}", 0},
      {"bert-nano", "{\"length\": 16, \"vocabulary\": 2147483648}", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const sl_model *model;
    sl_model_data d;
    json_t *json = json_loads(cases[i].sizes, 0, NULL), *one = json_pack("{s:f, s:f}", "mean", 0.5, "deviation", 0.5);
    assert_ok(sl_model_find(cases[i].model, &model));
    json_object_update(json, one);
    const sl_status status = model->family->data->from_json(json, &d);
    if (cases[i].fine)
      assert_ok(status);
    else
      assert_fails(SL_EFORMAT, "out of range", status);
    json_decref(json), json_decref(one);
  }
}

/* Wanted sizes come first. */
static void usual_sizes(void **state) {
  const sl_model *model;
  sl_model_data d;
  (void)state;
  assert_ok(sl_model_find("vit-b16", &model));
  d = usual(model);
  assert_true(d.height == 224 && d.width == 224 && d.channels == 3 && d.classes == 1000);
  assert_int_equal(model->family->data->shards(model, &d, 8), 8);
  sl_data_images.usual(model, &(sl_model_data){.width = 9, .classes = 4}, &d);
  assert_true(d.height == 224 && d.width == 9 && d.channels == 3 && d.classes == 4);
  assert_ok(sl_model_find("mlp", &model));
  d = usual(model);
  assert_true(d.height == 28 && d.width == 28 && d.channels == 1 && d.classes == 10);
  assert_int_equal(model->family->data->shards(model, &d, 8), -1);
  assert_ok(sl_model_find("gpt2", &model));
  d = usual(model);
  assert_true(d.length == 64 && d.classes == 50257 && d.height == 0);
  assert_int_equal(model->family->data->shards(model, &d, 8), 4);
  sl_data_tokens.usual(model, &(sl_model_data){.length = 9}, &d);
  assert_true(d.length == 9 && d.classes == 50257);
}

static void made_up(const char *name, const sl_model_data *sizes, size_t bytes, int64_t units, const char *words) {
  const sl_model *model;
  sl_data data, again;
  char text[96];
  assert_ok(sl_model_find(name, &model));
  assert_ok(sl_data_make_up(model, sizes, &data));
  assert_ok(sl_data_make_up(model, sizes, &again));
  const sl_sample_source source = sl_data_source(&data, SL_SPLIT_TRAIN), other = sl_data_source(&again, SL_SPLIT_TRAIN);
  assert_int_equal(source.sample_bytes, bytes);
  assert_int_equal(data.kind->units(sizes), units);
  assert_string_equal(sl_data_text(data.kind, sizes, text, sizeof text), words);
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
  sl_data_close(&data), sl_data_close(&again);
}

static void noise(void **state) {
  (void)state;
  const sl_model_data images = {.height = 5, .width = 4, .channels = 3, .classes = 7};
  const sl_model_data tokens = {.length = 9, .classes = 50};
  made_up("mlp", &images, 60, 1, "images of 5x4x3");
  made_up("gpt2-nano", &tokens, 40, 9, "windows of 9 tokens"); /* one token more, to be predicted */
  made_up("bert-nano", &tokens, 36, 9, "windows of 9 tokens");
}

/* A family of somebody's own that forgets its kind. */
static void no_kind(void **state) {
  (void)state;
  const sl_family family = {.name = "mine"};
  const sl_model model = {.name = "mine", .family = &family};
  sl_network network;
  assert_int_equal(sl_network_training(&model, &(sl_model_data){0}, &model.training, 4, &network), SL_EINVAL);
  assert_non_null(strstr(sl_error(), "family mine names no kind of data"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_family_has_a_kind_of_the_list),
      cmocka_unit_test(each_kind_is_whole),
      cmocka_unit_test(descriptions_survive_json),
      cmocka_unit_test(sizes_of_descriptions_are_bounded),
      cmocka_unit_test(usual_sizes),
      cmocka_unit_test(noise),
      cmocka_unit_test(no_kind),
  };
  return cmocka_run_group_tests_name("data_kind", tests, NULL, NULL);
}
