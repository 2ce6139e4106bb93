/* codelets/training.c: every setting of training is saved, read back and compared, old files still open, and each
 * optimizer reads what it says. */
#include "codelets/training.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

/* The settings in model files of the first version. */
static const char first[] =
    "{\"optimizer\": \"adamw\", \"learning_rate\": 0.001, \"momentum\": 0.5, \"beta1\": 0.9, \"beta2\": 0.99, "
    "\"eps\": 1e-8, \"decay\": 0.01, \"clip\": 1, \"batchnorm\": \"global\"}";

static void change(const sl_setting *s, sl_training *t) {
  void *field = (char *)t + s->offset;
  if (s->kind == SL_SETTING_REAL)
    *(double *)field = *(double *)field / 2 + 0.125;
  else if (s->kind == SL_SETTING_INTEGER)
    *(int64_t *)field = *(int64_t *)field + 3;
  else
    *(int *)field = s->names[*(int *)field + 1] ? *(int *)field + 1 : 0;
}

static sl_training some(void) {
  sl_training t = {0};
  for (const sl_training_setting *row = sl_training_settings; row->s.field; row++) change(&row->s, &t);
  return t;
}

static void each_is_saved_and_read_back(void **state) {
  (void)state;
  const sl_training t = some();
  sl_training again;
  json_t *json = sl_training_to_json(&t);
  assert_non_null(json);
  assert_ok(sl_training_from_json(json, &again));
  for (const sl_training_setting *row = sl_training_settings; row->s.field; row++) {
    const int saved = !(row->flags & SL_TRAINING_NO_BIT);
    if ((json_object_get(json, row->s.field) != NULL) != saved || sl_setting_equal(&row->s, &t, &again) != saved)
      fail_msg("%s is %ssaved, and should %sbe", row->s.field, saved ? "not " : "", saved ? "" : "not ");
  }
  assert_null(sl_training_differs(&t, &again));
  json_decref(json);
}

static void each_is_compared(void **state) {
  (void)state;
  const sl_training t = some();
  for (const sl_training_setting *row = sl_training_settings; row->s.field; row++) {
    sl_training other = t;
    change(&row->s, &other);
    const sl_setting *found = sl_training_differs(&t, &other);
    if (found != (row->flags & SL_TRAINING_NO_BIT ? NULL : &row->s))
      fail_msg("%s differs, and %s is found", row->s.field, found ? found->field : "nothing");
  }
}

/* The rows cover the struct: each field is in the table. */
static void each_byte_has_a_row(void **state) {
  (void)state;
  size_t bytes = 0;
  for (const sl_training_setting *row = sl_training_settings; row->s.field; row++)
    bytes += row->s.kind == SL_SETTING_REAL      ? sizeof(double)
             : row->s.kind == SL_SETTING_INTEGER ? sizeof(int64_t)
                                                 : sizeof(int);
  assert_in_range(bytes, sizeof(sl_training) - 2 * sizeof(double), sizeof(sl_training));
}

static void the_first_files_open(void **state) {
  (void)state;
  sl_training t;
  json_t *json = json_loads(first, 0, NULL);
  assert_ok(sl_training_from_json(json, &t));
  assert_int_equal(t.optimizer, SL_OPTIMIZER_ADAMW);
  assert_int_equal(t.batchnorm, SL_BATCHNORM_GLOBAL);
  assert_near(t.momentum, 0.5, 0);
  assert_near(t.dropout, 0, 0);
  for (const sl_training_setting *row = sl_training_settings; row->s.field; row++) {
    json_t *value = json_incref(json_object_get(json, row->s.field));
    if (!value) continue;
    json_object_del(json, row->s.field);
    char words[64];
    snprintf(words, sizeof words, "lack '%s'", row->s.field);
    assert_fails(SL_EFORMAT, words, sl_training_from_json(json, &t));
    json_object_set_new(json, row->s.field, value);
  }
  json_object_set_new(json, "optimizer", json_string("magic"));
  assert_fails(SL_EFORMAT, "unknown value 'magic'; choose sgd|", sl_training_from_json(json, &t));
  json_decref(json);
}

static void optimizers_read_what_they_say(void **state) {
  (void)state;
  for (int i = 0; i < SL_OPTIMIZER_COUNT; i++) {
    const sl_optimizer_rule *rule = sl_optimizer_rules[i];
    assert_string_equal(rule->name, sl_optimizer_names[i]);
    for (int k = 0; rule->reads[k]; k++) {
      const sl_training_setting *row = sl_training_settings;
      while (row->s.field && strcmp(row->s.field, rule->reads[k]) != 0) row++;
      if (!row->s.field || !(row->flags & SL_TRAINING_OPTIMIZER))
        fail_msg("%s reads %s, which is not a setting of optimizers", rule->name, rule->reads[k]);
    }
    sl_graph *g = sl_graph_new(4);
    sl_value p = sl_graph_tensor(g, SL_ROLE_PARAMETER, "p", "weight", SL_F32, SL_SHAPE(3, 2), (sl_init){0});
    sl_value d = sl_graph_tensor(g, SL_ROLE_STATE, "p", "gradient", SL_F32, SL_SHAPE(3, 2), (sl_init){0});
    sl_value guard = sl_graph_tensor(g, SL_ROLE_STATE, "p", "loss", SL_F64, SL_SHAPE(1), (sl_init){0});
    const sl_training t = {.optimizer = (sl_optimizer)i, .beta1 = 0.5, .beta2 = 0.5, .eps = 1e-8};
    rule->add(g, &t, &p, &d, 1, guard, SL_NONE);
    assert_ok(sl_graph_status(g));
    assert_true(g->n_nodes > 0);
    for (int k = 0; rule->state[k]; k++) {
      char name[32];
      snprintf(name, sizeof name, "p.weight.%s", rule->state[k]);
      assert_int_not_equal(sl_graph_find(g, name), SL_NONE);
    }
    sl_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_saved_and_read_back), cmocka_unit_test(each_is_compared),
                                     cmocka_unit_test(each_byte_has_a_row), cmocka_unit_test(the_first_files_open),
                                     cmocka_unit_test(optimizers_read_what_they_say)};
  return cmocka_run_group_tests_name("training", tests, NULL, NULL);
}
