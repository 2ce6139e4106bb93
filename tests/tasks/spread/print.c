/* tasks/spread/print.c: table and JSON show every transfer, in order, with both placements. */
#include "tasks/spread/print.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tasks/toy.h"

static void check_stage(int stage) {
  sl_value loss;
  int fetches = 0;
  sl_graph *g = toy_training(24, &loss);
  sl_placements *p;
  char *text = NULL;
  size_t n;
  json_t *json;
  assert_ok(sl_placements_create(g, &(sl_placing){.ranks = 2, .zero = stage}, &p));
  FILE *file = open_memstream(&text, &n);
  assert_ok(sl_print_transfers(g, p, file));
  fclose(file);
  assert_ok(sl_transfers_to_json(g, p, &json));
  assert_true(p->n_transfers > (stage == 1 ? 6 : 4));
  assert_int_equal(json_array_size(json), p->n_transfers);
  const char *line = strstr(text, "in front of, for\n");
  assert_non_null(strstr(text, "between the ranks: "));
  assert_non_null(line);
  for (int i = 0; i < p->n_transfers; i++) {
    const sl_transfer *t = &p->transfer[i];
    const json_t *row = json_array_get(json, (size_t)i);
    const char *name = g->value[t->value]->name;
    char have[SL_PLACEMENT_TEXT], need[SL_PLACEMENT_TEXT];
    const char *const words[] = {name, sl_placement_text(t->have, have), sl_placement_text(t->need, need),
                                 t->fetched ? "fetch" : sl_transfer_name(t->kind)};
    line = strchr(line, '\n') + 1;
    assert_int_equal(strncmp(line, name, strlen(name)), 0);
    for (const char *at = line, **word = (const char **)words; word < (const char **)words + 4; word++) {
      assert_non_null(at = strstr(at, *word));
      assert_true(at < strchr(line, '\n'));
    }
    assert_string_equal(json_string_value(json_object_get(row, "value")), name);
    assert_string_equal(json_string_value(json_object_get(row, "lies")), have);
    assert_string_equal(json_string_value(json_object_get(row, "needed")), need);
    assert_string_equal(json_string_value(json_object_get(row, "transfer")), words[3]);
    fetches += t->fetched;
    if (t->fetched) assert_string_equal(json_string_value(json_object_get(row, "reader")), g->node[t->since]->name);
    assert_int_equal(json_integer_value(json_object_get(row, "bytes")),
                     t->kind == SL_TRANSFER_WAIT ? 0 : sl_value_bytes(g->value[t->value]));
  }
  assert_string_equal(strchr(line, '\n'), "\n");
  assert_int_equal(fetches, stage == 3 ? 2 : 0);
  assert_int_equal(strstr(text, "the step's end") != NULL, stage == 1);
  json_decref(json);
  free(text);
  sl_placements_destroy(p);
  sl_graph_destroy(g);
}

static void every_transfer_is_shown(void **state) {
  (void)state;
  check_stage(1);
  check_stage(3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_transfer_is_shown)};
  return cmocka_run_group_tests_name("tasks/spread/print", tests, NULL, NULL);
}
