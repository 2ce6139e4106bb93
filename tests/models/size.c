/* models/size.c and models/list.c: sizes from text and JSON and back, for every family; what is wrong names the size.
 */
#include "models/size.h"

#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "tests/support/scratch.h"

static const sl_model *listed(const char *name) {
  const sl_model *model;
  assert_ok(sl_model_find(name, &model));
  return model;
}

/* Sizes given as text, and the differences from the list's model that are shown for them. */
static void told_as_given(void **state) {
  static const struct {
    const char *model, *given, *told;
  } cases[] = {
      {"gpt2", "layers=6,width=72,heads=3,positions=37", "layers=6,width=72,heads=3,positions=37"},
      {"gpt2", "hidden=3072,activation=gelu-tanh,eps=1e-05", ""}, /* as derived */
      {"gpt2", "activation=relu,eps=0.001", "activation=relu,eps=0.001"},
      {"gpt2", "activation=linear,untied=1", "untied=1,activation=linear"},
      {"gpt2", "width=72,hidden=288", "width=72"},
      {"gpt2", "width=72,hidden=289", "width=72,hidden=289"},
      {"bert-base", "vocabulary=101", "vocabulary=101"},
      {"bert-nano", "mask=7,specials=3,types=1", "types=1,mask=7,specials=3"},
      {"vit-b16", "patch=5,width=24,heads=2", "width=24,heads=2,patch=5"},
      {"resnet50", "blocks=1-2,width=24", "width=24,blocks=1-2"},
      {"resnet18", "blocks=1-1,channels=8-10,stem=9", "blocks=1-1,stem=9,channels=8-10"},
      {"resnet50", "inner=1-2-3-4", "inner=1-2-3-4"},
      {"resnet50", "first_stride=2,early_stride=1,activation=gelu", "early_stride=1,first_stride=2,activation=gelu"},
      {"resnet50", "first_stride=1,early_stride=0,activation=relu", ""},
      {"vit-b16", "unbiased=1", "unbiased=1"},
      {"mlp", "layers=0", "layers=0"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sl_model *sized, *again;
    char text[SL_SIZES_TEXT], more[SL_SIZES_TEXT];
    assert_ok(sl_model_sized(listed(cases[i].model), cases[i].given, &sized));
    assert_string_equal(sl_model_sizes_text(sized, text, sizeof text), cases[i].told);
    json_t *json = sl_model_sizes_to_json(sized);
    assert_non_null(json);
    assert_ok(sl_model_from_json(listed(cases[i].model), json, &again));
    assert_string_equal(sl_model_sizes_text(again, more, sizeof more), cases[i].told);
    json_decref(json);
    free(sized), free(again);
  }
}

static void each_model_knows_itself(void **state) {
  const sl_model *m;
  (void)state;
  for (int i = 0; (m = sl_model_at(i)); i++) {
    sl_model *whole, *same;
    char text[SL_SIZES_TEXT];
    assert_ok(sl_model_complete(m, &whole));
    assert_ok(sl_model_of_sizes(m->family, whole->sizes, &same));
    assert_string_equal(same->name, m->name);
    assert_string_equal(sl_model_text(same, text, sizeof text), m->name);
    free(whole), free(same);
  }
}

static void wrong_ones_are_named(void **state) {
  static const struct {
    const char *model, *given;
    sl_status status;
    const char *error;
  } cases[] = {
      {"gpt2", "widht=72", SL_ENOTFOUND, "gpt2 has no size 'widht'; there are layers, width"},
      {"gpt2", "width", SL_EINVAL, "'width' of gpt2 is not KEY=VALUE"},
      {"gpt2", "width=", SL_EINVAL, "'width=' of gpt2 is not KEY=VALUE"},
      {"gpt2", "layers=2,", SL_EINVAL, "end in a comma"},
      {"gpt2", "layers=2,layers=3", SL_EINVAL, "layers of gpt2 is given twice"},
      {"gpt2", "layers=0", SL_EINVAL, "layers of gpt2 is 0; it may be from 1 to 1024"},
      {"gpt2", "layers=2.5", SL_EINVAL, "'2.5', not a number"},
      {"gpt2", "layers=-1", SL_EINVAL, "'-1', not a number"},
      {"gpt2", "layers=99999999999999999999", SL_EINVAL, "it may be from 1 to 1024"},
      {"gpt2", "width=70", SL_EINVAL,
       "width=70 of gpt2 is not a multiple of heads=12; heads=10 and heads=14 divide it"},
      {"gpt2", "activation=silu", SL_EINVAL, "activation of gpt2 is 'silu'; there are relu, gelu, gelu-tanh, linear"},
      {"gpt2", "eps=2", SL_EINVAL, "eps of gpt2 is 2; it may be from 1e-30 to 1"},
      {"bert-nano", "mask=257", SL_EINVAL, "mask=257 of bert is beyond the vocabulary of 257"},
      {"vit-tiny", "patch=7", SL_EINVAL, "patch=7 of vit needs stem=0"},
      {"resnet50", "blocks=1--1", SL_EINVAL, "blocks of resnet is a list of 1 to 8 whole numbers"},
      {"resnet50", "blocks=1-1-1-1-1-1-1-1-1", SL_EINVAL, "a list of 1 to 8"},
      {"resnet50", "first_stride=3", SL_EINVAL, "first_stride of resnet is 3; it may be from 1 to 2"},
      {"resnet50", "blocks=1-0", SL_EINVAL, "blocks of resnet is 0"},
      {"resnet50", "channels=8-16", SL_EINVAL, "channels of resnet has 2 stages, but blocks has 4"},
      {"resnet18", "inner=8-16-32-64", SL_EINVAL, "inner of resnet is for bottleneck=1"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sl_model *sized;
    assert_fails(cases[i].status, cases[i].error, sl_model_sized(listed(cases[i].model), cases[i].given, &sized));
    assert_null(sized);
  }
  static const char *const bad[] = {"{\"layers\": \"2\"}", "{\"layers\": 2.0}", "{\"layer\": 2}",   "{\"eps\": \"x\"}",
                                    "{\"activation\": 2}", "{\"width\": 70}",   "{\"layers\": [2]}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    json_t *json = json_loads(bad[i], 0, NULL);
    sl_model *sized;
    assert_true(sl_model_from_json(listed("gpt2"), json, &sized) != SL_OK);
    assert_null(sized);
    json_decref(json);
  }
}

/* A model with given sizes builds a network of these sizes. */
static void networks_have_the_sizes(void **state) {
  sl_model *sized;
  sl_network network;
  (void)state;
  assert_ok(sl_model_sized(listed("gpt2"), "layers=2,width=12,heads=3,positions=37,vocabulary=101", &sized));
  assert_int_equal(sl_model_length(sized), 37);
  assert_int_equal(sl_model_vocabulary(sized), 101);
  const sl_model_data data = {.length = 37, .classes = 101};
  assert_ok(sl_network_logits(sized, &data, &sized->training, 1, &network));
  const sl_shape wpe = sl_graph_value(network.graph, sl_graph_find(network.graph, "wpe.weight"))->shape;
  assert_true(wpe.dim[0] == 37 && wpe.dim[1] == 12);
  const sl_shape fc = sl_graph_value(network.graph, sl_graph_find(network.graph, "h.1.mlp.fc.weight"))->shape;
  assert_true(fc.dim[0] == 48 && fc.dim[1] == 12);
  assert_int_equal(sl_graph_find(network.graph, "h.2.mlp.fc.weight"), SL_NONE);
  sl_network_destroy(&network);
  free(sized);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(told_as_given),
      cmocka_unit_test(each_model_knows_itself),
      cmocka_unit_test(wrong_ones_are_named),
      cmocka_unit_test(networks_have_the_sizes),
  };
  return cmocka_run_group_tests_name("size", tests, NULL, NULL);
}
