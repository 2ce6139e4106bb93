/* Logical nodes become tasks: one for each piece of a node's finest argument, and for each row block of the arguments
 * that its operation takes block by block. */
#include <stdlib.h>

#include "tasks/graph/masks.h"
#include "tasks/spread/parts.h"

/* The shard, leaf and row block of a task; -1: not divided so. A gathering task has a shard and no leaf. */
typedef struct part {
  int shard, leaf, block;
} part;

static int most(int a, int b) { return a > b ? a : b; }

/* Number of row blocks that a node is repeated for: the blocks of its mapped arguments. */
static int node_blocks(const sl__spread *s, const sl_node *node) {
  int blocks = 1;
  for (int i = 0; i < node->n_in; i++)
    if (sl__mask_has(node->op->map_in, i)) blocks = most(blocks, s->blocks[node->in[i]]);
  for (int i = 0; i < node->n_out; i++)
    if (sl__mask_has(node->op->map_out, i)) blocks = most(blocks, s->blocks[node->out[i]]);
  return blocks;
}

/* Index of a part's piece among the pieces of a value, its row blocks aside. */
static int piece_number(const sl__spread *s, sl_value v, const part *p) {
  const sl_scope scope = s->from->value[v]->scope;
  if (scope == SL_SCOPE_SAMPLE) return p->shard - s->mine.first * s->per_leaf;
  return scope == SL_SCOPE_LEAF || (s->partial[v] && p->leaf >= 0) ? p->leaf - s->mine.first : 0;
}

/* Writes the pieces of input i into `in` and returns their number: several if the operation takes all row blocks. */
static int input_pieces(const sl__spread *s, const sl_node *node, int i, const part *p, sl_value *in) {
  const sl_value v = node->in[i];
  const int blocks = s->blocks[v];
  if (s->from->value[v]->scope == SL_SCOPE_SAMPLE && p->leaf < 0 && s->copy[v]) {
    in[0] = s->copy[v][p->shard];
  } else if (s->from->value[v]->scope != SL_SCOPE_WHOLE) {
    in[0] = s->piece[v][piece_number(s, v, p)];
  } else if (blocks == 1 || sl__mask_has(node->op->map_in, i)) {
    in[0] = s->piece[v][blocks == 1 ? 0 : p->block];
  } else {
    for (int b = 0; b < blocks; b++) in[b] = s->piece[v][b];
    return blocks;
  }
  return 1;
}

static sl_value output_piece(const sl__spread *s, sl_value v, const part *p) {
  const int blocks = s->from->value[v]->scope == SL_SCOPE_WHOLE ? s->blocks[v] : 1;
  return s->piece[v][piece_number(s, v, p) * blocks + (blocks > 1 ? p->block : 0)];
}

/* Whether a task adds to the sum v. The first shard of a leaf overwrites it, the others add; gathering tasks do the
 * same over the shards of the batch. A node that adds to another use's sum sets `accumulate` itself. */
static int adds(const sl__spread *s, sl_value v, const part *p) {
  if (p->shard < 0 || s->from->value[v]->scope == SL_SCOPE_SAMPLE) return 0;
  return p->leaf < 0 ? p->shard > 0 : p->shard % s->per_leaf > 0;
}

/* The piece of node->after that a task waits for. */
static sl_value after_piece(const sl__spread *s, sl_value v, const part *p) {
  if (v == SL_NONE) return SL_NONE;
  const sl_scope scope = s->from->value[v]->scope;
  if (scope == SL_SCOPE_WHOLE) return s->piece[v][0];
  return p->leaf < 0 ? SL_NONE : s->piece[v][piece_number(s, v, p)];
}

static sl_status add_task(sl__spread *s, int index, const part *p) {
  const sl_node *node = s->from->node[index];
  sl_node mine = *node;
  int room = 1, n = 0, split = 0;
  for (int i = 0; i < node->n_in; i++) room += s->blocks[node->in[i]];
  sl_value *in = malloc((size_t)room * sizeof *in), out[SL_MAX_OUT];
  int *first = malloc((size_t)(node->n_in + 1) * sizeof *first);
  if (!in || !first) {
    free(in), free(first);
    return sl_no_memory("for a task of %s", node->name);
  }
  for (int i = 0; i < node->n_in; i++) {
    first[i] = n;
    n += input_pieces(s, node, i, p, in + n);
    split |= n - first[i] > 1;
  }
  first[node->n_in] = n;
  for (int j = 0; j < node->n_out; j++) {
    out[j] = output_piece(s, node->out[j], p);
    if (adds(s, node->out[j], p)) mine.accumulate |= 1u << j;
  }
  mine.in = in;
  mine.out = out;
  mine.n_in = n;
  mine.n_arg = node->n_in;
  mine.in_part = split ? first : NULL;
  mine.logical = index;
  mine.after = after_piece(s, node->after, p);
  mine.shard = p->shard;
  mine.leaf = p->leaf;
  mine.block = p->block;
  mine.row0 = mine.rows = 0;
  mine.leaf_rows = mine.batch_rows = s->plan->batch;
  int64_t row;
  if (p->leaf >= 0) sl_plan_leaf(s->plan, p->leaf, &row, &mine.leaf_rows);
  if (p->shard >= 0) sl_plan_shard(s->plan, p->shard, &mine.row0, &mine.rows);
  sl_graph_push_node(s->to, &mine);
  for (int j = 0; j < node->n_out && s->to->status == SL_OK; j++) {
    sl_value_info *info = s->to->value[out[j]];
    if (info->producer < 0 && info->role == SL_ROLE_TEMPORARY) info->producer = s->to->n_nodes - 1;
  }
  free(in), free(first);
  return sl_graph_status(s->to);
}

/* Adds the tasks of one shard, of one leaf, or of the whole batch. */
static sl_status add_blocks(sl__spread *s, int index, int shard, int leaf) {
  const int blocks = node_blocks(s, s->from->node[index]);
  for (int b = 0; b < blocks; b++) SL_TRY(add_task(s, index, &(part){shard, leaf, blocks > 1 ? b : -1}));
  return SL_OK;
}

sl_status sl__add_tasks(sl__spread *s, int index) {
  const sl_scope scope = sl_node_scope(s->from, s->from->node[index]);
  if (scope == SL_SCOPE_WHOLE) return add_blocks(s, index, -1, -1);
  for (int leaf = s->mine.first; leaf < s->mine.first + s->mine.n; leaf++) {
    if (scope == SL_SCOPE_LEAF) SL_TRY(add_blocks(s, index, -1, leaf));
    for (int k = 0; k < s->per_leaf && scope == SL_SCOPE_SAMPLE; k++)
      SL_TRY(add_blocks(s, index, leaf * s->per_leaf + k, leaf));
  }
  return SL_OK;
}

sl_status sl__add_gathering_tasks(sl__spread *s, int index) {
  for (int shard = 0; shard < s->plan->shards; shard++) SL_TRY(add_blocks(s, index, shard, -1));
  return SL_OK;
}
