/* The reduction tree over leaves. */
#include "runtime/leaves.h"

#include <stdint.h>

int sl_left_branch(int n) {
  int half = 1;
  while (half <= (n - 1) / 2) half *= 2;
  return half;
}

static int collect(sl_leaves tree, sl_leaves within, sl_leaves *subtree, int count) {
  const int end = within.first + within.n;
  if (tree.first >= end || tree.first + tree.n <= within.first) return count;
  if (tree.first >= within.first && tree.first + tree.n <= end) {
    subtree[count] = tree;
    return count + 1;
  }
  const int left = sl_left_branch(tree.n);
  count = collect((sl_leaves){tree.first, left}, within, subtree, count);
  return collect((sl_leaves){tree.first + left, tree.n - left}, within, subtree, count);
}

int sl_subtrees(int leaves, sl_leaves within, sl_leaves *subtree) {
  return collect((sl_leaves){0, leaves}, within, subtree, 0);
}

sl_leaves sl_leaves_of_rank(int leaves, int rank, int ranks) {
  const int first = (int)((int64_t)leaves * rank / ranks);
  return (sl_leaves){first, (int)((int64_t)leaves * (rank + 1) / ranks) - first};
}
