/* tasks/schedule/print.c: groups contain each task once and add up to the whole; table, JSON and drawing show the same
 * graph. */
#include "tasks/schedule/print.h"

#include <stdlib.h>

#include "tasks/spread/spread.h"
#include "tests/tasks/toy.h"

typedef struct subject {
  sl_graph *logical;
  sl_picture picture;
  sl_graph *step;
  sl_schedule *schedule;
  sl_memory *memory;
} subject;

static void make(subject *s) {
  sl_value loss;
  sl_plan plan = {.batch = 24, .leaves = 3, .shards = 6, .row_blocks = 2, .seed = 1};
  const sl_machine machine = sl_machine_default(2, 1, 0);
  assert_ok(sl_plan_complete(&plan));
  s->logical = toy_training(24, &loss);
  assert_ok(sl_spread(s->logical, &plan, NULL, NULL, &s->step));
  assert_ok(sl_schedule_create(s->step, NULL, &plan.tiles, &machine, &s->schedule));
  assert_ok(sl_memory_plan(s->step, s->schedule, NULL, 0.02, &s->memory));
  s->picture = (sl_picture){.title = "a \"toy\"",
                            .logical = s->logical,
                            .step = s->step,
                            .schedule = s->schedule,
                            .memory = s->memory,
                            .tiles = plan.tiles,
                            .workers = 2,
                            .threads = 1,
                            .inputs = 1000};
}

static void end(subject *s) {
  sl_memory_destroy(s->memory), sl_schedule_destroy(s->schedule);
  sl_graph_destroy(s->step), sl_graph_destroy(s->logical);
}

static char *printed(sl_status (*print)(const sl_picture *, FILE *), const sl_picture *picture) {
  char *text = NULL;
  size_t n;
  FILE *file = open_memstream(&text, &n);
  assert_ok(print(picture, file));
  fclose(file);
  return text;
}

static int occurrences(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text += strlen(word)) n++;
  return n;
}

static void groups_add_up(void **state) {
  (void)state;
  subject s;
  sl_groups *groups;
  make(&s);
  assert_ok(sl_groups_create(s.logical, s.step, s.schedule, &groups));
  int tasks = 0;
  double flops = 0, wanted = 0;
  for (int i = 0; i < groups->n; i++) tasks += groups->group[i].tasks, flops += groups->group[i].cost.flops;
  for (int i = 0; i < s.step->n_nodes; i++) {
    wanted += s.schedule->cost[i].flops;
    assert_in_range(groups->of[i], 0, groups->n - 1);
    assert_ptr_equal(groups->group[groups->of[i]].op, s.step->node[i]->op);
  }
  assert_int_equal(tasks, s.step->n_nodes);
  assert_near(flops, wanted, 1e-6);
  assert_true(groups->n < s.step->n_nodes);
  assert_true(groups->n > s.logical->n_nodes); /* the additions over leaves are groups of their own */
  sl_groups_destroy(groups);
  end(&s);
}

static void json_tells_all(void **state) {
  (void)state;
  subject s;
  json_t *json;
  make(&s);
  s.picture.tasks = 1;
  assert_ok(sl_picture_to_json(&s.picture, &json));
  assert_int_equal(json_integer_value(json_object_get(json, "tasks")), s.step->n_nodes);
  const json_t *list = json_object_get(json, "task_list");
  assert_int_equal(json_array_size(list), s.step->n_nodes);
  for (int i = 0; i < s.step->n_nodes; i++)
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, (size_t)i), "after")),
                     s.schedule->from[i + 1] - s.schedule->from[i]);
  const json_t *memory = json_object_get(json, "memory");
  assert_int_equal(json_integer_value(json_object_get(memory, "temporary_bytes")), s.memory->temporaries);
  assert_int_equal(json_integer_value(json_object_get(memory, "peak_bytes")),
                   sl_memory_of_program(s.step, s.memory) + 1000 + s.picture.process +
                       2 * sl_graph_scratch(s.step, &s.picture.tiles));
  json_decref(json);
  end(&s);
}

static void table_and_drawing(void **state) {
  (void)state;
  subject s;
  sl_groups *groups;
  make(&s);
  assert_ok(sl_groups_create(s.logical, s.step, s.schedule, &groups));
  char *table = printed(sl_print_table, &s.picture), *dot = printed(sl_print_dot, &s.picture);
  assert_int_equal(occurrences(table, "\n"), groups->n + 7);
  assert_int_equal(occurrences(table, "] F32 "),
                   groups->n - occurrences(table, "] I32 ") - occurrences(table, "] F64 "));
  assert_true(occurrences(table, "] F32 ") > 3 && occurrences(dot, "] F32, ") > 3);
  assert_int_equal(occurrences(dot, "label=") - 1, groups->n);
  assert_non_null(strstr(dot, "label=\"a \\\"toy\\\"\"")); /* quotes are escaped */
  s.picture.tasks = 1;
  char *all = printed(sl_print_dot, &s.picture);
  assert_int_equal(occurrences(all, "label=") - 1, s.step->n_nodes);
  assert_int_equal(occurrences(all, " -> "), s.schedule->from[s.step->n_nodes]);
  free(table), free(dot), free(all);
  sl_groups_destroy(groups);
  end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_add_up),
      cmocka_unit_test(json_tells_all),
      cmocka_unit_test(table_and_drawing),
  };
  return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
