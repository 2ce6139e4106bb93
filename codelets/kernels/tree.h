/* Sums over the rows of values, by one fixed binary tree. The plan may cut these values into row blocks anywhere;
 * thanks to the tree, the bits do not depend on the cuts. */
#ifndef SL_TREE_H
#define SL_TREE_H

#include <stdint.h>

/* Sums numbers that arrive one by one. The tree splits n numbers at the largest power of two below n. The sums of
 * complete subtrees wait on a stack, one for each bit of the count so far. */
typedef struct tree_sum {
  uint64_t count;
  int depth;
  double waiting[64];
} tree_sum;
static inline void tree_add(tree_sum *t, double x) {
  for (uint64_t n = t->count++; n & 1; n >>= 1) x = t->waiting[--t->depth] + x;
  t->waiting[t->depth++] = x;
}
static inline double tree_total(const tree_sum *t) {
  if (t->depth == 0) return 0;
  double sum = t->waiting[t->depth - 1];
  for (int i = t->depth - 2; i >= 0; i--) sum = t->waiting[i] + sum;
  return sum;
}

#endif
