/* tasks/graph/plan.c: defaults, checks, JSON round trips, differences, and the division of samples. */
#include "tasks/graph/plan.h"

#include <string.h>

#include "tests/support/scratch.h"

static void completes(void **state) {
  (void)state;
  sl_plan p = {.batch = 256};
  assert_ok(sl_plan_complete(&p));
  assert_int_equal(p.leaves, 1);
  assert_int_equal(p.row_blocks, 1);
  assert_in_range(p.shards, 1, 8);
  assert_true(p.kernels[0]);
  p = (sl_plan){.batch = 10};
  assert_ok(sl_plan_complete(&p));
  assert_int_equal(p.shards, 1);
}

static void refuses(void **state) {
  (void)state;
  const struct {
    sl_plan plan;
    const char *words;
  } cases[] = {
      {{.batch = 0}, "batch 0"},
      {{.batch = INT64_C(1) << 31}, "batch 2147483648: from 1 to 2147483647 samples"},
      {{.batch = 8, .leaves = 9}, "leaves 9"},
      {{.batch = 8, .leaves = 2, .shards = 3}, "shards 3"},
      {{.batch = 8, .shards = 9}, "shards 9"},
      {{.batch = 8, .shards = -1}, "shards -1"},
      {{.batch = 8, .row_blocks = -2}, "row blocks -2"},
      {{.batch = 8, .row_blocks = 1025}, "row blocks 1025"},
      {{.batch = 8, .leaves = 4, .micro_batches = 3}, "micro-batches 3"},
      {{.batch = 8, .leaves = 4, .micro_batches = -2}, "micro-batches -2"},
      {{.batch = 8, .tiles = {15, 1000}}, "tiles of 15 columns"},
      {{.batch = 8, .tiles = {16, 255}}, "tiles of 16 columns and 255 elements"},
      {{.batch = 8, .tiles = {INT64_MAX, 1000}}, "tiles of 9223372036854775807 columns"},
      {{.batch = 8, .tiles = {16, ((int64_t)1 << 30) + 1}}, "256, at most 1073741824"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sl_plan p = cases[i].plan;
    assert_fails(SL_EINVAL, cases[i].words, sl_plan_complete(&p));
  }
}

static void survives_json(void **state) {
  (void)state;
  sl_plan p = {.batch = 100, .leaves = 3, .shards = 6, .seed = UINT64_C(0xfedcba9876543210)}, q;
  assert_ok(sl_plan_complete(&p));
  json_t *json = sl_plan_to_json(&p);
  assert_ok(sl_plan_from_json(json, &q));
  assert_ok(sl_plan_compare(&p, &q, "the file"));
  q.shards = 3;
  assert_fails(SL_EPLAN, "shards is 6 here and 3 in the file", sl_plan_compare(&p, &q, "the file"));
  q = p;
  q.seed = 5;
  assert_fails(SL_EPLAN, "seed is ", sl_plan_compare(&p, &q, "rank 1"));
  q = p;
  strcpy(q.kernels, "z80");
  assert_fails(SL_EPLAN, "'z80' in rank 1", sl_plan_compare(&p, &q, "rank 1"));
  q = p;
  strcpy(p.kernels, "avx512"), strcpy(q.kernels, "neon"); /* the same bits */
  assert_ok(sl_plan_compare(&p, &q, "rank 1"));
  strcpy(q.kernels, "base");
  assert_fails(SL_EPLAN, "kernels is 'avx512' here and 'base' in rank 1", sl_plan_compare(&p, &q, "rank 1"));
  q = p;
  q.tiles.blocks = 1;
  assert_fails(SL_EPLAN, "bf16_sums is 'pairs' here and 'blocks' in rank 1", sl_plan_compare(&p, &q, "rank 1"));
  json_t *blocks = sl_plan_to_json(&q);
  assert_string_equal(json_string_value(json_object_get(blocks, "bf16_sums")), "blocks");
  assert_ok(sl_plan_from_json(blocks, &q));
  assert_int_equal(q.tiles.blocks, 1);
  json_object_set_new(blocks, "bf16_sums", json_string("lines"));
  assert_fails(SL_EFORMAT, "'bf16_sums' is 'lines', not pairs or blocks", sl_plan_from_json(blocks, &q));
  json_object_set_new(blocks, "bf16_sums", json_integer(1));
  assert_fails(SL_EFORMAT, "'bf16_sums' is of the wrong type", sl_plan_from_json(blocks, &q));
  json_object_del(blocks, "bf16_sums"); /* as in plans before there were blocks */
  assert_ok(sl_plan_from_json(blocks, &q));
  assert_int_equal(q.tiles.blocks, 0);
  json_decref(blocks);
  assert_string_equal(p.products, "own");
  q = p;
  strcpy(q.products, "openblas 0.3.21 Zen");
  assert_ok(sl_plan_complete(&q));
  assert_int_equal(q.tiles.blas, 1);
  assert_fails(SL_EPLAN, "products is 'own' here and 'openblas 0.3.21 Zen' in rank 1",
               sl_plan_compare(&p, &q, "rank 1"));
  json_t *products = sl_plan_to_json(&q);
  memset(&q, 0, sizeof q);
  assert_ok(sl_plan_from_json(products, &q));
  assert_string_equal(q.products, "openblas 0.3.21 Zen");
  assert_int_equal(q.tiles.blas, 1);
  json_object_set_new(products, "products", json_string("mkl"));
  assert_fails(SL_EINVAL, "products 'mkl': own, or openblas", sl_plan_from_json(products, &q));
  json_object_set_new(products, "products", json_integer(1));
  assert_fails(SL_EFORMAT, "'products' is of the wrong type", sl_plan_from_json(products, &q));
  json_object_del(products, "products"); /* as in plans before there was a choice */
  assert_ok(sl_plan_from_json(products, &q));
  assert_string_equal(q.products, "own");
  assert_int_equal(q.tiles.blas, 0);
  json_decref(products);
  json_object_del(json, "leaves");
  assert_fails(SL_EFORMAT, "'leaves' is missing", sl_plan_from_json(json, &q));
  json_object_set_new(json, "leaves", json_string("three"));
  assert_fails(SL_EFORMAT, "'leaves' is of the wrong type", sl_plan_from_json(json, &q));
  json_object_set_new(json, "leaves", json_integer(INT64_C(1) << 32 | 3));
  assert_fails(SL_EFORMAT, "'leaves' is out of range", sl_plan_from_json(json, &q));
  json_decref(json);
}

static void divides_all_samples(void **state) {
  (void)state;
  for (int batch = 1; batch < 40; batch++)
    for (int leaves = 1; leaves <= batch && leaves <= 5; leaves++)
      for (int each = 1; each <= batch / leaves && each < 4; each++) {
        sl_plan p = {.batch = batch, .leaves = leaves, .shards = leaves * each};
        assert_ok(sl_plan_complete(&p));
        int64_t next = 0, first, rows;
        for (int s = 0; s < p.shards; s++) {
          sl_plan_shard(&p, s, &first, &rows);
          assert_int_equal(first, next);
          assert_true(rows >= 1);
          next += rows;
        }
        assert_int_equal(next, batch);
        for (int l = 0; l < leaves; l++) {
          int64_t shard_first;
          sl_plan_leaf(&p, l, &first, &rows);
          sl_plan_shard(&p, l * each, &shard_first, &rows);
          assert_int_equal(first, shard_first);
        }
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(completes),
      cmocka_unit_test(refuses),
      cmocka_unit_test(survives_json),
      cmocka_unit_test(divides_all_samples),
  };
  return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
