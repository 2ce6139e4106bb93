/* Sums over the leaves of this rank: tasks add up the largest subtrees of the plan's tree within its leaves (leaves.h).
 * Each sum replaces the piece of its subtree's first leaf. */
#include "tasks/spread/parts.h"

static void add_tree(sl__spread *s, int index, sl_value v, sl_leaves tree) {
  if (tree.n == 1) return;
  const int half = sl_left_branch(tree.n), blocks = s->blocks[v];
  add_tree(s, index, v, (sl_leaves){tree.first, half});
  add_tree(s, index, v, (sl_leaves){tree.first + half, tree.n - half});
  const sl_node *node = s->from->node[index];
  for (int b = 0; b < blocks; b++) {
    sl_value from = sl__piece_of_leaf(s, v, tree.first + half, b), to = sl__piece_of_leaf(s, v, tree.first, b);
    sl_graph_push_node(s->to,
                       &(sl_node){.op = s->from->copy,
                                  .name = node->name,
                                  .n_in = 1,
                                  .n_out = 1,
                                  .n_arg = 1,
                                  .in = &from,
                                  .out = &to,
                                  .phase = node->phase,
                                  .key = node->key,
                                  .after = SL_NONE,
                                  .accumulate = 1,
                                  .fold = node->fold,
                                  .logical = index,
                                  .leaf = tree.first + tree.n - 1, /* last leaf of the sum: it determines the turn */
                                  .shard = -1,
                                  .block = blocks > 1 ? b : -1,
                                  .leaf_rows = s->plan->batch,
                                  .batch_rows = s->plan->batch});
  }
}

sl_status sl__add_tree_sums(sl__spread *s, int index, sl_value v) {
  for (int k = 0; k < s->subtrees; k++) add_tree(s, index, v, s->subtree[k]);
  return sl_graph_status(s->to);
}
