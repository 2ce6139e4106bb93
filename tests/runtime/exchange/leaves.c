/* runtime/exchange/leaves.c: whole subtrees within a run of leaves, and the division of leaves among ranks. */
#include "runtime/exchange/leaves.h"

#include <math.h>

#include "tests/support/scratch.h"

static void branches(void **state) {
  (void)state;
  const int left[] = {[2] = 1, 2, 2, 4, 4, 4, 4, 8};
  for (int n = 2; n < 10; n++) assert_int_equal(sl_left_branch(n), left[n]);
  assert_int_equal(sl_left_branch(INT32_MAX), 1 << 30);
}

static int count(int leaves, int first, int n, sl_leaves *tree) {
  return sl_subtrees(leaves, (sl_leaves){first, n}, tree);
}

static void subtrees(void **state) {
  (void)state;
  sl_leaves tree[SL_MAX_SUBTREES];
  assert_int_equal(count(12, 0, 4, tree), 1);
  assert_int_equal(count(12, 4, 4, tree), 1);
  assert_int_equal(count(12, 8, 4, tree), 1);
  assert_int_equal(count(12, 0, 12, tree), 1);
  assert_int_equal(count(12, 0, 6, tree), 2);
  assert_int_equal(tree[0].n, 4);
  assert_int_equal(tree[1].first, 4);
  assert_int_equal(tree[1].n, 2);
  assert_int_equal(count(13, 1, 12, tree), 4); /* 1, 2 to 3, 4 to 7, 8 to 12 */
  for (int leaves = 1; leaves < 40; leaves++)
    for (int first = 0; first < leaves; first++)
      for (int n = 1; first + n <= leaves; n++) {
        int at = first;
        const int found = count(leaves, first, n, tree);
        for (int i = 0; i < found; i++) {
          assert_int_equal(tree[i].first, at);
          at += tree[i].n;
        }
        assert_int_equal(at, first + n);
      }
}

static void division(void **state) {
  (void)state;
  for (int ranks = 1; ranks < 9; ranks++)
    for (int leaves = ranks; leaves < 30; leaves++) {
      int next = 0;
      for (int r = 0; r < ranks; r++) {
        const sl_leaves mine = sl_leaves_of_rank(leaves, r, ranks);
        assert_int_equal(mine.first, next);
        assert_in_range(mine.n, leaves / ranks, leaves / ranks + 1);
        next += mine.n;
      }
      assert_int_equal(next, leaves);
    }
}

static double slowest(int ranks, const double *base, const double *each, const int *count) {
  double most = 0;
  for (int r = 0; r < ranks; r++) most = fmax(most, base[r] + count[r] * each[r]);
  return most;
}

/* The least time of the slowest rank over all divisions of leaves among ranks r and later. */
static double best_of_all(int leaves, int ranks, int least, const double *base, const double *each, int *count, int r) {
  if (r == ranks - 1) {
    count[r] = leaves;
    return slowest(ranks, base, each, count);
  }
  double best = INFINITY;
  for (count[r] = least; count[r] <= leaves - least * (ranks - 1 - r); count[r]++) {
    const int mine = count[r];
    best = fmin(best, best_of_all(leaves - mine, ranks, least, base, each, count, r + 1));
    count[r] = mine;
  }
  return best;
}

static void proportion(void **state) {
  (void)state;
  const double none[4] = {0}, even[4] = {1, 1, 1, 1}, half[4] = {1, 2, 1, 1}, crawling[4] = {1, 1000, 1, 1};
  int count[4], tried[4];
  assert_near(sl_leaves_divide(12, 2, 1, none, half, count), 8, 0);
  assert_int_equal(count[0], 8);
  assert_int_equal(count[1], 4);
  assert_near(sl_leaves_divide(12, 2, 1, (double[]){0, 6}, even, count), 9, 0); /* its other work counts too */
  assert_int_equal(count[0], 9);
  sl_leaves_divide(12, 3, 1, none, even, count);
  for (int r = 0; r < 3; r++) assert_int_equal(count[r], 4);
  sl_leaves_divide(11, 4, 1, none, even, count); /* among equals the lower ranks get more */
  for (int r = 0; r < 4; r++) assert_int_equal(count[r], r < 3 ? 3 : 2);
  sl_leaves_divide(9, 4, 1, none, crawling, count); /* each rank gets a leaf */
  assert_int_equal(count[1], 1);
  sl_leaves_divide(9, 4, 2, none, crawling, count);
  assert_int_equal(count[1], 2);
  uint32_t x = 1;
  for (int round = 0; round < 200; round++) {
    double base[4], each[4];
    for (int r = 0; r < 4; r++) {
      x = x * 1664525u + 1013904223u, base[r] = (x >> 24) / 64.0;
      x = x * 1664525u + 1013904223u, each[r] = 1 + (x >> 28);
    }
    const int ranks = 2 + round % 3, least = 1 + round % 2, leaves = ranks * least + round % 7;
    const double got = sl_leaves_divide(leaves, ranks, least, base, each, count);
    int sum = 0;
    for (int r = 0; r < ranks; r++) {
      assert_true(count[r] >= least);
      sum += count[r];
    }
    assert_int_equal(sum, leaves);
    assert_near(got, slowest(ranks, base, each, count), 0);
    assert_near(got, best_of_all(leaves, ranks, least, base, each, tried, 0), 1e-12);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(branches),
      cmocka_unit_test(subtrees),
      cmocka_unit_test(division),
      cmocka_unit_test(proportion),
  };
  return cmocka_run_group_tests_name("runtime/leaves", tests, NULL, NULL);
}
