/* The reduction tree: sums over the leaves of a batch are formed by one binary tree over leaf numbers, split at the
 * largest power of two below their number. So they have the same bits, whichever rank computes a leaf. */
#ifndef SL_LEAVES_H
#define SL_LEAVES_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_leaves { /* leaves [first, first + n) */
  int first, n;
} sl_leaves;

enum { SL_MAX_SUBTREES = 64 };

/* Number of leaves in the left branch of a tree over n leaves; n >= 2. */
int sl_left_branch(int n);
/* Finds the largest whole subtrees of the tree over `leaves` that lie in `within`, ascending. subtree has room for
 * SL_MAX_SUBTREES. Returns their number. */
int sl_subtrees(int leaves, sl_leaves within, sl_leaves *subtree);
/* The leaves that a rank owns in an even division. */
sl_leaves sl_leaves_of_rank(int leaves, int rank, int ranks);
/* Divides leaves so that the slowest rank ends soonest: rank r takes base[r] + n each[r] seconds for n leaves, and gets
 * count[r] >= least leaves (ranks * least <= leaves). Of equal ranks the lower one gets more. Returns the slowest
 * rank's seconds. The result depends on the arguments alone, so it is the same on all ranks. */
double sl_leaves_divide(int leaves, int ranks, int least, const double *base, const double *each, int *count);

#ifdef __cplusplus
}
#endif
#endif
