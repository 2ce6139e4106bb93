/* runtime/leaves.c: whole subtrees within a run of leaves, and the division of leaves among ranks. */
#include "runtime/leaves.h"

#include "tests/scratch.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(branches),
      cmocka_unit_test(subtrees),
      cmocka_unit_test(division),
  };
  return cmocka_run_group_tests_name("runtime/leaves", tests, NULL, NULL);
}
