/* The reduction tree over leaves. */
#include "runtime/exchange/leaves.h"

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

/* Gives each leaf in turn to the rank that would finish it first. A rank's time only grows with its leaves, so no other
 * division ends earlier. */
double sl_leaves_divide(int leaves, int ranks, int least, const double *base, const double *each, int *count) {
  double slowest = 0;
  for (int r = 0; r < ranks; r++) count[r] = least;
  for (int left = leaves - ranks * least; left > 0; left--) {
    int best = 0;
    for (int r = 1; r < ranks; r++)
      if (base[r] + (count[r] + 1) * each[r] < base[best] + (count[best] + 1) * each[best]) best = r;
    count[best]++;
  }
  for (int r = 0; r < ranks; r++)
    if (base[r] + count[r] * each[r] > slowest) slowest = base[r] + count[r] * each[r];
  return slowest;
}
