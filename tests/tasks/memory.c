/* tasks/memory.c and schedule.c: every order that the dependencies allow gives the bits of the order of nodes, with
 * memory shared; sharing saves; and graphs whose schedule is known. */
#include "tasks/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/spread.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

static void any_order_gives_the_same_bits(void **state) {
  (void)state;
  for (int workers = 1; workers <= 4; workers++)
    for (int leaves = 1; leaves <= 3; leaves++)
      for (int blocks = 1; blocks <= 2; blocks++) {
        sl_plan plan = {.batch = 24, .leaves = leaves, .shards = 4 * leaves, .row_blocks = blocks, .seed = 1};
        assert_ok(sl_plan_complete(&plan));
        sl_value loss;
        sl_graph *g = toy_training(24, &loss), *step;
        assert_ok(sl_spread(g, &plan, &step));
        sl_machine machine = {.workers = workers, .flops = 1e8, .bytes = 1e9, .overhead = 1e-6};
        sl_schedule *schedule;
        sl_memory *memory;
        char *keep = calloc((size_t)step->n_values, 1);
        keep[sl_spread_whole(step, loss)] = 1;
        assert_ok(sl_schedule_create(step, keep, &plan.tiles, &machine, &schedule));
        assert_ok(sl_memory_plan(step, schedule, keep, 0.0, &memory));
        assert_true(memory->temporaries < memory->unshared);
        execution *plain = execution_create(step, NULL), *shared = execution_create(step, memory);
        execution_run(plain, NULL, 0);
        for (unsigned seed = 1; seed <= 10; seed++) {
          execution *again = execution_create(step, memory);
          execution_run(again, schedule, seed);
          for (sl_value v = 0; v < step->n_values; v++)
            if (step->value[v]->role == SL_ROLE_PARAMETER || keep[v])
              if (memcmp(plain->data[v], again->data[v], sl_value_bytes(step->value[v])) != 0)
                fail_msg("%d workers, %d leaves, seed %u: '%s' differs", workers, leaves, seed, step->value[v]->name);
          execution_destroy(again);
        }
        execution_destroy(plain), execution_destroy(shared);
        free(keep);
        sl_memory_destroy(memory), sl_schedule_destroy(schedule);
        sl_graph_destroy(step), sl_graph_destroy(g);
      }
}

/* One chain of in-place operations needs one buffer. */
static void chains_run_in_place(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 8);
  for (int i = 0; i < 5; i++) x = sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
  sl_plan plan = {.batch = 16, .shards = 1};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, &step));
  sl_machine machine = sl_machine_default(1, 1);
  sl_schedule *schedule;
  sl_memory *memory;
  assert_ok(sl_schedule_create(step, NULL, &plan.tiles, &machine, &schedule));
  assert_ok(sl_memory_plan(step, schedule, NULL, 0.0, &memory));
  assert_int_equal(memory->n_slots, 1);
  assert_int_equal(memory->temporaries, 16 * 8 * 4);
  assert_int_equal(memory->added, 0);
  sl_memory_destroy(memory), sl_schedule_destroy(schedule);
  sl_graph_destroy(step), sl_graph_destroy(g);
}

/* An input that others read before is computed onto too, after them; one that is read later is not. */
static void waits_for_earlier_readers(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 64);
  toy_loss(g, x); /* reads x first */
  sl_value y = sl_graph_add1(g, &toy_square, "onto x", NULL, &x, 1);
  sl_value z = sl_graph_add1(g, &toy_square, "not onto y", NULL, &y, 1);
  toy_loss(g, y);
  sl_plan plan = {.batch = 16, .shards = 1};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, &step));
  sl_machine machine = sl_machine_default(2, 1);
  sl_schedule *s;
  assert_ok(sl_schedule_create(step, NULL, &plan.tiles, &machine, &s));
  sl_value on[3] = {x, y, z};
  for (int i = 0; i < 3; i++)
    for (sl_value v = 0; v < step->n_values; v++)
      if (step->value[v]->logical == on[i]) {
        on[i] = v;
        break;
      }
  assert_int_equal(s->onto[on[1]], on[0]);
  assert_int_equal(s->onto[on[2]], -1);
  int waits = 0; /* node 2 (square) for node 1 (loss) */
  for (int k = s->from[2]; k < s->from[3]; k++) waits |= s->before[k] == 1;
  assert_true(waits);
  sl_schedule_destroy(s);
  char *keep = calloc((size_t)step->n_values, 1);
  keep[on[0]] = 1;
  assert_ok(sl_schedule_create(step, keep, &plan.tiles, &machine, &s));
  assert_int_equal(s->onto[on[1]], -1);
  sl_schedule_destroy(s);
  free(keep);
  sl_graph_destroy(step), sl_graph_destroy(g);
}

/* Four independent chains of two tasks: predicted makespan and critical path by hand. */
static void predicts_known_schedules(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 64);
  sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
  sl_plan plan = {.batch = 16, .shards = 4};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, &step));
  for (int workers = 1; workers <= 4; workers *= 2) {
    sl_machine machine = {.workers = workers, .flops = 1e9, .bytes = 1e30, .overhead = 1};
    sl_schedule *s;
    assert_ok(sl_schedule_create(step, NULL, &plan.tiles, &machine, &s));
    assert_int_equal(s->n, 8);
    assert_true(fabs(s->critical_path - 2) < 1e-6);
    assert_true(fabs(s->makespan - 8.0 / workers) < 1e-6);
    for (int i = 0; i < s->n; i++)
      for (int k = s->from[i]; k < s->from[i + 1]; k++)
        assert_true(s->start[s->before[k]] + s->seconds[s->before[k]] <= s->start[i] + 1e-9);
    sl_schedule_destroy(s);
  }
  sl_graph_destroy(step), sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_order_gives_the_same_bits),
      cmocka_unit_test(chains_run_in_place),
      cmocka_unit_test(waits_for_earlier_readers),
      cmocka_unit_test(predicts_known_schedules),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
