/* Logical values become pieces: one per shard or leaf of this rank, or a single one, each cut into row blocks if the
 * plan says so. */
#include <stdlib.h>

#include "tasks/spread/parts.h"

static sl_value_info whole_piece(const sl__spread *s, sl_value v) {
  sl_value_info piece = *s->from->value[v];
  piece.logical = v;
  piece.blocks = s->blocks[v];
  piece.producer = piece.leaf = piece.shard = piece.block = -1;
  /* If another rank or stage keeps the value, this rank has it only for a while. */
  if (sl_placement_elsewhere(s->placements->value[v], s->rank) ||
      (piece.role != SL_ROLE_TEMPORARY && !sl_placement_on(s->placements->keeps, v, s->model_rank)))
    piece.role = SL_ROLE_TEMPORARY;
  return piece;
}

sl_value_info sl__shard_piece(const sl__spread *s, sl_value v, int shard) {
  sl_value_info piece = whole_piece(s, v);
  piece.blocks = 1;
  piece.shard = shard;
  piece.leaf = shard / s->per_leaf;
  sl_plan_shard(s->plan, shard, &piece.row0, &piece.shape.dim[0]);
  return piece;
}

/* Cuts block b out of a piece. */
static void cut(sl_value_info *piece, int64_t rows, int b) {
  piece->block = b;
  piece->row0 = rows * b / piece->blocks;
  piece->shape.dim[0] = rows * (b + 1) / piece->blocks - piece->row0;
}

sl_status sl__make_pieces(sl__spread *s, sl_value v) {
  const sl_value_info *info = s->from->value[v];
  const int by_sample = info->scope == SL_SCOPE_SAMPLE, by_leaf = info->scope == SL_SCOPE_LEAF || s->partial[v];
  const int copies = by_sample ? s->mine.n * s->per_leaf : by_leaf ? s->mine.n : 1, blocks = s->blocks[v];
  s->piece[v] = malloc((size_t)copies * (size_t)blocks * sizeof(sl_value));
  if (!s->piece[v]) return sl_no_memory("for the pieces of '%s'", info->name);
  for (int c = 0; c < copies; c++)
    for (int b = 0; b < blocks; b++) {
      sl_value_info mine = by_sample ? sl__shard_piece(s, v, s->mine.first * s->per_leaf + c) : whole_piece(s, v);
      if (info->scope == SL_SCOPE_LEAF || (by_leaf && c > 0)) mine.leaf = s->mine.first + c;
      /* The sum over the first leaf becomes the whole sum: its piece has leaf -1. */
      if (blocks > 1) cut(&mine, info->shape.dim[0], b);
      s->piece[v][c * blocks + b] = sl_graph_push_value(s->to, &mine);
    }
  return sl_graph_status(s->to);
}

sl_value sl__piece_of_leaf(const sl__spread *s, sl_value v, int leaf, int block) {
  return s->piece[v][(leaf - s->mine.first) * s->blocks[v] + block];
}
