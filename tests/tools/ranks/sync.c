/* tools/ranks/sync.c on one rank: what --sync can be, a rank's own plan, and the outer optimizer's arithmetic.
 * tests/ranks/sync.sh has several ranks. */
#include "tools/ranks/sync.h"

#include <string.h>

#include "tests/support/scratch.h"

static sl_status parse(const char *text, sl__sync *sync) {
  const sl__options o = {.sync = (char *)text};
  const sl__ranks ranks = {.n = 1, .mesh = {1, 1, 1}};
  return sl__sync_parse(&o, &ranks, SL_PRECISION_FP32, sync);
}

static void reads_the_option(void **state) {
  (void)state;
  sl__sync s;
  assert_ok(parse(NULL, &s));
  assert_int_equal(s.every, 0);
  assert_ok(parse("step", &s));
  assert_int_equal(s.every, 0);
  assert_ok(parse("local:1", &s));
  assert_int_equal(s.every, 1);
  assert_int_equal(s.outer, 0);
  assert_ok(parse("diloco:500", &s));
  assert_int_equal(s.every, 500);
  assert_int_equal(s.outer, 1);
  const char *const wrong[] = {"",         "local",    "local:",     "local:0", "local:-3",
                               "local:2x", "diloco:0", "diloco:1,2", "steps"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_fails(SL_EINVAL, "is none of step, local:H and diloco:H", parse(wrong[i], &s));
}

static void refuses_combinations(void **state) {
  (void)state;
  sl__sync s;
  const sl__ranks ranks = {.n = 1, .mesh = {1, 1, 1}}, staged = {.n = 2, .mesh = {1, 2, 1}};
  assert_fails(SL_EINVAL, "--mesh", sl__sync_parse(&(sl__options){.sync = "local:2"}, &staged, SL_PRECISION_FP32, &s));
  assert_fails(SL_EINVAL, "leave --zero out",
               sl__sync_parse(&(sl__options){.sync = "local:2", .zero = 1}, &ranks, SL_PRECISION_BF16, &s));
  assert_fails(SL_EINVAL, "loss scale of its own",
               sl__sync_parse(&(sl__options){.sync = "local:2"}, &ranks, SL_PRECISION_FP16, &s));
  assert_fails(SL_EINVAL, "leave --compress out",
               sl__sync_parse(&(sl__options){.sync = "local:2", .compress = "bf16"}, &ranks, SL_PRECISION_FP32, &s));
  assert_fails(SL_EINVAL, "leave --balance auto out",
               sl__sync_parse(&(sl__options){.sync = "local:2", .balance = "auto"}, &ranks, SL_PRECISION_FP32, &s));
}

static void gives_each_rank_its_plan(void **state) {
  (void)state;
  int first[] = {0, 2, 5};
  const sl_plan plan = {.batch = 20, .leaves = 5, .shards = 10, .seed = 3, .row_blocks = 2};
  const sl__ranks ranks = {.n = 2, .rank = 1, .training_rows = 12, .training_leaf = first};
  sl_plan own;
  assert_ok(sl__sync_plan(&plan, &ranks, &own));
  assert_int_equal(own.batch, 12);
  assert_int_equal(own.leaves, 3);
  assert_int_equal(own.shards, 6);
  assert_int_equal(own.row_blocks, 2);
  assert_int_equal(own.seed, 3);
}

static const sl_shape one = {1, {1}}, two = {1, {2}};

static float *data(sl_store *store, const char *name) {
  sl_tensor *t = sl_store_find(store, name);
  assert_non_null(t);
  return t->data;
}

/* Two meetings, computed by hand: way = start - x; velocity = 0.9 velocity + way; x = start - 0.7 (way + 0.9 velocity).
 */
static void the_outer_step(void **state) {
  (void)state;
  const sl__ranks ranks = {.n = 1, .mesh = {1, 1, 1}, .training_rows = 4};
  const sl_plan plan = {.batch = 4, .leaves = 1, .shards = 1};
  sl__sync s;
  sl_store *store;
  sl_tensor *t;
  assert_ok(parse("diloco:2", &s));
  assert_ok(sl_store_create(&store));
  assert_ok(sl_store_add(store, "w", SL_F32, &two, 1, &t));
  assert_ok(sl_store_add(store, "w.m", SL_F32, &two, 0, &t));
  assert_ok(sl__sync_open(&s, &plan, &ranks, store));
  assert_non_null(sl_store_find(store, "w.outer"));
  assert_null(sl_store_find(store, "w.m.outer"));
  assert_true(sl__sync_bytes(&s, store) >= 2 * 2 * sizeof(float));
  data(store, "w")[0] = 1, data(store, "w")[1] = -2;
  assert_ok(sl__sync_begin(&s, store));
  data(store, "w")[0] = 0.5f, data(store, "w")[1] = -2;
  data(store, "w.m")[0] = 7;
  assert_ok(sl__sync_begin(&s, store)); /* begun before: changes nothing */
  assert_ok(sl__sync_meet(&s, &ranks, store, 2));
  /* way 0.5, velocity 0.5: 1 - 0.7 (0.5 + 0.45) */
  assert_near((double)data(store, "w")[0], 0.335, 1e-6);
  assert_near((double)data(store, "w")[1], -2, 0);
  assert_near((double)data(store, "w.outer")[0], 0.5, 1e-6);
  assert_near((double)data(store, "w.m")[0], 7, 0);
  assert_ok(sl__sync_meet(&s, &ranks, store, 2)); /* the same step: no second time */
  assert_near((double)data(store, "w")[0], 0.335, 1e-6);
  assert_ok(sl__sync_begin(&s, store));
  data(store, "w")[0] = 0.235f;
  assert_ok(sl__sync_meet(&s, &ranks, store, 4));
  /* way 0.1, velocity 0.45 + 0.1: 0.335 - 0.7 (0.1 + 0.495) */
  assert_near((double)data(store, "w")[0], -0.0815, 1e-6);
  /* Back to a checkpoint of step 3: the next meeting moves on from there. */
  data(store, "w")[0] = 2, data(store, "w.outer")[0] = 0;
  sl__sync_restart(&s, 3);
  assert_ok(sl__sync_meet(&s, &ranks, store, 3)); /* its parameters are those of a meeting */
  assert_near((double)data(store, "w")[0], 2, 0);
  assert_ok(sl__sync_begin(&s, store));
  data(store, "w")[0] = 1.5f;
  assert_ok(sl__sync_meet(&s, &ranks, store, 4));
  assert_near((double)data(store, "w")[0], 2 - 0.7 * (0.5 + 0.45), 1e-6);
  /* Back again, and the steps after the checkpoint are skipped: nobody has moved. */
  data(store, "w")[0] = 3, data(store, "w.outer")[0] = 1;
  sl__sync_restart(&s, 3);
  assert_ok(sl__sync_meet(&s, &ranks, store, 5));
  assert_near((double)data(store, "w")[0], 3, 0);
  assert_near((double)data(store, "w.outer")[0], 1, 0);
  assert_true(sl__sync_alike(&s, 5));
  sl__sync_close(&s);
  sl_store_destroy(store);
}

static void refuses_state_without_a_mean(void **state) {
  (void)state;
  const sl__ranks ranks = {.n = 1, .mesh = {1, 1, 1}, .training_rows = 4};
  const sl_plan plan = {.batch = 4, .leaves = 1, .shards = 1};
  sl__sync s;
  sl_store *store;
  sl_tensor *t;
  assert_ok(parse("local:2", &s));
  assert_ok(sl_store_create(&store));
  assert_ok(sl_store_add(store, "counter", SL_I32, &one, 0, &t));
  assert_fails(SL_EINVAL, "has no mean", sl__sync_open(&s, &plan, &ranks, store));
  sl_store_destroy(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_the_option), cmocka_unit_test(refuses_combinations),
                                     cmocka_unit_test(gives_each_rank_its_plan), cmocka_unit_test(the_outer_step),
                                     cmocka_unit_test(refuses_state_without_a_mean)};
  return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
