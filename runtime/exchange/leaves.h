/* The reduction tree: sums over the leaves of a batch are formed by one binary tree over leaf numbers, split at the
 * largest power of two below their number. So they have the same bits whoever computes which leaves. */
#ifndef SL_LEAVES_H
#define SL_LEAVES_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_leaves { /* leaves [first, first + n) */
  int first, n;
} sl_leaves;

enum { SL_MAX_SUBTREES = 64 };

/* Of n leaves the first so many are the left branch; n >= 2. */
int sl_left_branch(int n);
/* The largest whole subtrees, of the tree over `leaves`, that lie within some of them, ascending. subtree has room for
 * SL_MAX_SUBTREES. Returns how many there are. */
int sl_subtrees(int leaves, sl_leaves within, sl_leaves *subtree);
/* The leaves that a rank owns where all have as many as whole leaves allow. */
sl_leaves sl_leaves_of_rank(int leaves, int rank, int ranks);
/* How many leaves each rank gets, at least `least` (ranks * least <= leaves), so that the slowest is done soonest: rank
 * r takes base[r] + n each[r] seconds for n leaves. Where ranks are equal the lower one gets more. Returns the slowest
 * rank's seconds. The same on all ranks that call it with the same numbers. */
double sl_leaves_divide(int leaves, int ranks, int least, const double *base, const double *each, int *count);

#ifdef __cplusplus
}
#endif
#endif
