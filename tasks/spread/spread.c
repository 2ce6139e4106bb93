/* Spreading the logical graph over leaves, shards and row blocks. */
#include "tasks/spread/spread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/exchange_node.h"
#include "tasks/spread/masks.h"

/* Sums that one exchange will complete: items[k][i] is subtree k of the i-th, and items[0] gets the sums. */
typedef struct bucket {
  int owner;      /* who gets the sums; -1: all */
  int lossy;      /* they are gradients, which only the update reads */
  sl_value *item; /* [n][subtrees], most * subtrees of them */
  int n, most;
  size_t bytes;
  const char *name; /* of the layer that the first of them comes from */
  sl_phase phase;
} bucket;

typedef struct spread {
  const sl_graph *from;
  sl_graph *to;
  const sl_plan *plan;
  const sl_owners *owners; /* NULL: every rank updates all */
  const sl_division *division;
  sl_leaves mine;
  int per_leaf;     /* shards */
  int *blocks;      /* of each logical value */
  sl_value **piece; /* of each logical value: [my shards], [my leaves], or [my leaves or 1][blocks] */
  sl_value **copy;  /* of what is gathered: [all shards], on several ranks; else NULL */
  char *gathers;    /* logical nodes that add to a whole sum */
  int *last;        /* of each logical value: the last node that adds to it, but for one that gathers */
  char *partial;    /* logical values of WHOLE scope that leaves sum into: they have a piece per leaf */
  sl_leaves subtree[SL_MAX_SUBTREES]; /* of my leaves */
  int subtrees;
  bucket bucket;  /* the one that is being filled */
  char *waiting;  /* logical values in it */
  int buckets;    /* so far */
  int done;       /* logical nodes that are spread */
  int updating;   /* the update phase has begun */
  int *last_read; /* of each logical value: the last node before the update phase that reads it; -1 */
  char *released; /* of each logical value: an exchange sees to it that all ranks have read a parameter, or have a
                   * copy of what was computed by one of them */
} spread;

/* The piece of a value that a shard of the batch has. */
static sl_value_info shard_of(const spread *s, sl_value v, int shard) {
  sl_value_info piece = *s->from->value[v];
  piece.logical = v;
  piece.producer = piece.block = -1;
  piece.blocks = 1;
  piece.shard = shard;
  piece.leaf = shard / s->per_leaf;
  sl_plan_shard(s->plan, shard, &piece.row0, &piece.shape.dim[0]);
  return piece;
}

/* Adds the pieces of one logical value to the step graph. */
static sl_status make_pieces(spread *s, sl_value v) {
  const sl_value_info *info = s->from->value[v];
  int copies = info->scope == SL_SCOPE_SAMPLE                  ? s->mine.n * s->per_leaf
               : info->scope == SL_SCOPE_LEAF || s->partial[v] ? s->mine.n
                                                               : 1;
  int blocks = s->blocks[v];
  s->piece[v] = malloc((size_t)copies * (size_t)blocks * sizeof(sl_value));
  if (!s->piece[v]) return sl_fail(SL_ENOMEM, "no memory for the pieces of '%s'", info->name);
  for (int c = 0; c < copies; c++)
    for (int b = 0; b < blocks; b++) {
      sl_value_info mine = *info;
      mine.logical = v;
      mine.producer = -1;
      mine.blocks = blocks;
      mine.leaf = mine.shard = mine.block = -1;
      if (info->scope == SL_SCOPE_SAMPLE) {
        mine = shard_of(s, v, s->mine.first * s->per_leaf + c);
      } else if (info->scope == SL_SCOPE_LEAF || c > 0) {
        mine.leaf = s->mine.first + c; /* the first partial sum becomes the whole: it has leaf -1 */
      }
      if (blocks > 1) {
        mine.block = b;
        mine.row0 = info->shape.dim[0] * b / blocks;
        mine.shape.dim[0] = info->shape.dim[0] * (b + 1) / blocks - mine.row0;
      }
      s->piece[v][c * blocks + b] = sl_graph_push_value(s->to, &mine);
    }
  return sl_graph_status(s->to);
}

/* Row blocks that a node is repeated for: those of its mapped arguments. */
static int node_blocks(const spread *s, const sl_node *node) {
  int blocks = 1;
  for (int i = 0; i < node->n_in; i++)
    if (sl__mask_has(node->op->map_in, i) && s->blocks[node->in[i]] > blocks) blocks = s->blocks[node->in[i]];
  for (int i = 0; i < node->n_out; i++)
    if (sl__mask_has(node->op->map_out, i) && s->blocks[node->out[i]] > blocks) blocks = s->blocks[node->out[i]];
  return blocks;
}

/* Adds one task of a node: for a shard, a leaf (-1: whole), and a row block (-1: not mapped). One that gathers has a
 * shard and no leaf. */
static sl_status add_task(spread *s, int index, sl_scope scope, int shard, int leaf, int block) {
  const sl_node *node = s->from->node[index];
  sl_node mine = *node;
  const int my_leaf = leaf - s->mine.first, my_shard = shard - s->mine.first * s->per_leaf;
  int most = 0;
  for (int i = 0; i < node->n_in; i++) most += s->blocks[node->in[i]];
  sl_value *in = malloc((size_t)(most + 1) * sizeof *in), out[SL_MAX_OUT];
  int *part = malloc((size_t)(node->n_in + 1) * sizeof *part);
  if (!in || !part) {
    free(in), free(part);
    return sl_fail(SL_ENOMEM, "no memory for a task of %s", node->name);
  }
  int n = 0, split = 0;
  for (int i = 0; i < node->n_in; i++) {
    sl_value v = node->in[i];
    const sl_value *piece = s->piece[v];
    part[i] = n;
    switch (s->from->value[v]->scope) {
      case SL_SCOPE_SAMPLE:
        in[n++] = leaf < 0 && s->copy[v] ? s->copy[v][shard] : piece[my_shard];
        break;
      case SL_SCOPE_LEAF:
        in[n++] = piece[my_leaf];
        break;
      case SL_SCOPE_WHOLE:
        if (s->blocks[v] == 1)
          in[n++] = piece[0];
        else if (sl__mask_has(node->op->map_in, i))
          in[n++] = piece[block];
        else
          for (int b = 0; b < s->blocks[v]; b++) in[n++] = piece[b];
    }
    split |= n - part[i] > 1;
  }
  part[node->n_in] = n;
  for (int j = 0; j < node->n_out; j++) {
    sl_value v = node->out[j];
    sl_scope of = s->from->value[v]->scope;
    if (of == SL_SCOPE_SAMPLE) {
      out[j] = s->piece[v][my_shard];
    } else if (of == SL_SCOPE_LEAF) {
      out[j] = s->piece[v][my_leaf];
    } else {
      int copy = s->partial[v] && leaf >= 0 ? my_leaf : 0, b = s->blocks[v] > 1 ? block : 0;
      out[j] = s->piece[v][copy * s->blocks[v] + b];
    }
    const int first = leaf < 0 ? shard == 0 && !s->partial[v] : shard % s->per_leaf == 0;
    if (of > scope && shard >= 0 && !first) mine.accumulate |= 1u << j;
  }
  mine.in = in;
  mine.out = out;
  mine.n_in = n;
  mine.n_arg = node->n_in;
  mine.in_part = split ? part : NULL;
  mine.logical = index;
  mine.after = SL_NONE;
  if (node->after != SL_NONE) {
    const sl_scope of = s->from->value[node->after]->scope;
    const int piece = of == SL_SCOPE_SAMPLE ? my_shard : of == SL_SCOPE_LEAF ? my_leaf : 0;
    if (of == SL_SCOPE_WHOLE || leaf >= 0) mine.after = s->piece[node->after][piece];
  }
  mine.shard = shard;
  mine.leaf = leaf;
  mine.block = block;
  mine.batch_rows = s->plan->batch;
  mine.row0 = mine.rows = 0;
  mine.leaf_rows = s->plan->batch;
  int64_t first;
  if (leaf >= 0) sl_plan_leaf(s->plan, leaf, &first, &mine.leaf_rows);
  if (shard >= 0) sl_plan_shard(s->plan, shard, &mine.row0, &mine.rows);
  sl_graph_push_node(s->to, &mine);
  for (int j = 0; j < node->n_out; j++)
    if (s->to->status == SL_OK && s->to->value[out[j]]->producer < 0 && s->to->value[out[j]]->role == SL_ROLE_TEMPORARY)
      s->to->value[out[j]]->producer = s->to->n_nodes - 1;
  free(in), free(part);
  return sl_graph_status(s->to);
}

static sl_value piece_of(const spread *s, sl_value v, int leaf, int block) {
  return s->piece[v][(leaf - s->mine.first) * s->blocks[v] + block];
}

/* Adds up a subtree of a value into the piece of its first leaf. */
static void add_tree(spread *s, int index, sl_value v, sl_leaves tree) {
  if (tree.n == 1) return;
  const int half = sl_left_branch(tree.n), blocks = s->blocks[v];
  add_tree(s, index, v, (sl_leaves){tree.first, half});
  add_tree(s, index, v, (sl_leaves){tree.first + half, tree.n - half});
  const sl_node *node = s->from->node[index];
  for (int b = 0; b < blocks; b++) {
    sl_value from = piece_of(s, v, tree.first + half, b), to = piece_of(s, v, tree.first, b);
    sl_graph_push_node(s->to, &(sl_node){.op = s->from->copy,
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
                                         .logical = index,
                                         .leaf = tree.first + tree.n - 1, /* whose turn it is in */
                                         .shard = -1,
                                         .block = blocks > 1 ? b : -1,
                                         .leaf_rows = s->plan->batch,
                                         .batch_rows = s->plan->batch});
  }
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

/* Adds an exchange node: in[n_in] and the first `values` of out[n_out] are what it moves. */
static sl_status add_exchange(spread *s, const char *name, sl_phase phase, sl_exchange_move move, const sl_value *in,
                              int n_in, const sl_value *out, int n_out, int values) {
  sl_graph_push_node(s->to, &(sl_node){.op = &sl__exchange_operation,
                                       .attr = &(sl__exchange_attr){move, values},
                                       .name = (char *)name,
                                       .n_in = n_in,
                                       .n_out = n_out,
                                       .n_arg = n_in,
                                       .in = (sl_value *)in,
                                       .out = (sl_value *)out,
                                       .phase = phase,
                                       .after = SL_NONE,
                                       .logical = -1,
                                       .bucket = ++s->buckets,
                                       .leaf = -1,
                                       .shard = -1,
                                       .block = -1,
                                       .leaf_rows = s->plan->batch,
                                       .batch_rows = s->plan->batch});
  return sl_graph_status(s->to);
}

/* The pieces of parameters that no node will read any more before the update phase, into out; how many. Each once. */
static int release_parameters(spread *s, sl_value *out) {
  int n = 0;
  for (int i = 0; s->owners && i < s->owners->n; i++) {
    const sl_value v = s->owners->parameter[i];
    if (s->released[v] || s->last_read[v] >= s->done) continue;
    s->released[v] = 1;
    for (int b = 0; b < s->blocks[v]; b++) out[n++] = s->piece[v][b];
  }
  return n;
}

/* All pieces of the parameters that have an owner. */
static int owned_pieces(const spread *s) {
  int n = 0;
  for (int i = 0; s->owners && i < s->owners->n; i++) n += s->blocks[s->owners->parameter[i]];
  return n;
}

/* Adds the node that exchanges the bucket; a new one begins. */
static sl_status close_bucket(spread *s) {
  bucket *b = &s->bucket;
  if (b->n == 0) return sl_graph_status(s->to);
  const int n_in = b->n * s->subtrees;
  sl_value *in = malloc((size_t)n_in * sizeof *in), *out = malloc((size_t)(b->n + owned_pieces(s)) * sizeof *out);
  sl_status status = in && out ? SL_OK : sl_fail(SL_ENOMEM, "no memory for an exchange of %d sums", b->n);
  if (status == SL_OK) {
    for (int i = 0; i < b->n; i++)
      for (int k = 0; k < s->subtrees; k++) in[k * b->n + i] = b->item[i * s->subtrees + k];
    memcpy(out, in, (size_t)b->n * sizeof *out);
    const int n_out = b->n + (b->phase == SL_PHASE_BACKWARD ? release_parameters(s, out + b->n) : 0);
    status = add_exchange(s, b->name, b->phase, (sl_exchange_move){SL_EXCHANGE_SUM, b->owner, b->lossy}, in, n_in, out,
                          n_out, b->n);
  }
  free(in), free(out);
  b->n = 0;
  b->bytes = 0;
  memset(s->waiting, 0, (size_t)s->from->n_values);
  return status;
}

/* All gradients are there: the last are exchanged, and with them goes the last use of the parameters. */
static sl_status begin_updates(spread *s) {
  s->updating = 1;
  SL_TRY(close_bucket(s));
  sl_value *out = malloc((size_t)(owned_pieces(s) + 1) * sizeof *out);
  if (!out) return sl_fail(SL_ENOMEM, "no memory to exchange parameters");
  const int n = release_parameters(s, out);
  sl_status status = SL_OK;
  if (n > 0)
    status =
        add_exchange(s, "update", SL_PHASE_BACKWARD, (sl_exchange_move){SL_EXCHANGE_COPY, 0, 0}, NULL, 0, out, n, 0);
  free(out);
  return status;
}

/* Adds the node that copies pieces from one rank to all. */
static sl_status add_copy(spread *s, const char *name, sl_phase phase, int owner, const sl_value *pieces, int n) {
  if (n == 0) return SL_OK;
  SL_TRY(add_exchange(s, name, phase, (sl_exchange_move){SL_EXCHANGE_COPY, owner, 0}, pieces, n, pieces, n, n));
  for (int i = 0; i < n; i++) {
    sl_value_info *info = s->to->value[pieces[i]];
    if (info->role == SL_ROLE_TEMPORARY && info->producer < 0) info->producer = s->to->n_nodes - 1;
  }
  return SL_OK;
}

/* What a node of all ranks reads that owners alone have: an exchange for each owner. */
static sl_status fetch_inputs(spread *s, const sl_node *node) {
  int n = 0;
  for (int k = 0; k < node->n_in; k++) n += s->blocks[node->in[k]];
  sl_value *pieces = malloc((size_t)(n + 1) * sizeof *pieces);
  sl_status status = pieces ? SL_OK : sl_fail(SL_ENOMEM, "no memory for an exchange of %d values", n);
  for (int owner = 0; owner < s->owners->ranks && status == SL_OK; owner++) {
    n = 0;
    for (int k = 0; k < node->n_in && status == SL_OK; k++) {
      const sl_value v = node->in[k];
      if (s->from->value[v]->role != SL_ROLE_TEMPORARY || s->owners->value[v] != owner || s->released[v]) continue;
      s->released[v] = 1;
      if (!s->piece[v]) status = make_pieces(s, v);
      for (int b = 0; b < s->blocks[v] && status == SL_OK; b++) pieces[n++] = s->piece[v][b];
    }
    if (status == SL_OK) status = add_copy(s, node->name, SL_PHASE_UPDATE, owner, pieces, n);
  }
  free(pieces);
  return status;
}

/* The updated parameters, from their owners to all. */
static sl_status share_parameters(spread *s) {
  const sl_owners *o = s->owners;
  sl_value *pieces = malloc((size_t)(owned_pieces(s) + 1) * sizeof *pieces);
  if (!pieces) return sl_fail(SL_ENOMEM, "no memory to exchange parameters");
  size_t bytes = 0;
  int n = 0;
  sl_status status = SL_OK;
  for (int i = 0; i < o->n && status == SL_OK; i++) {
    const sl_value v = o->parameter[i];
    for (int b = 0; b < s->blocks[v]; b++) pieces[n++] = s->piece[v][b];
    bytes += sl_value_bytes(s->from->value[v]);
    if (i + 1 < o->n && bytes < SL__BUCKET_BYTES && o->value[o->parameter[i + 1]] == o->value[v]) continue;
    status = add_copy(s, s->from->value[v]->name, SL_PHASE_UPDATE, o->value[v], pieces, n);
    n = 0;
    bytes = 0;
  }
  free(pieces);
  return status;
}

/* Puts the sums of a value into the bucket. Those of the forward pass go alone: something waits for them at once. */
static sl_status enter_bucket(spread *s, int index, sl_value v) {
  bucket *b = &s->bucket;
  const sl_value_info *info = s->from->value[v];
  const sl_phase phase = s->from->node[index]->phase;
  const int owner = s->owners ? s->owners->value[v] : -1;
  const int lossy = phase == SL_PHASE_BACKWARD && s->last_read[v] < 0;
  if (b->n > 0 &&
      (b->phase != phase || b->owner != owner || b->lossy != lossy || s->to->value[b->item[0]]->dtype != info->dtype))
    SL_TRY(close_bucket(s));
  if (b->n == 0) b->name = s->from->node[index]->name;
  b->owner = owner;
  b->lossy = lossy;
  b->phase = phase;
  for (int block = 0; block < s->blocks[v]; block++) {
    if (b->n == b->most) {
      const int wanted = b->most ? 2 * b->most : 16;
      sl_value *more = realloc(b->item, (size_t)(wanted * s->subtrees) * sizeof *more);
      if (!more) return sl_fail(SL_ENOMEM, "no memory for an exchange of %d sums", wanted);
      b->item = more;
      b->most = wanted;
    }
    for (int k = 0; k < s->subtrees; k++) b->item[b->n * s->subtrees + k] = piece_of(s, v, s->subtree[k].first, block);
    b->bytes += sl_value_bytes(s->to->value[b->item[b->n * s->subtrees]]);
    b->n++;
  }
  s->waiting[v] = 1;
  return b->bytes >= SL__BUCKET_BYTES || phase == SL_PHASE_FORWARD ? close_bucket(s) : SL_OK;
}

/* All partial sums of a value are there. */
static sl_status complete_sum(spread *s, int index, sl_value v) {
  for (int k = 0; k < s->subtrees; k++) add_tree(s, index, v, s->subtree[k]);
  SL_TRY(sl_graph_status(s->to));
  return s->mine.n < s->plan->leaves ? enter_bucket(s, index, v) : SL_OK;
}

/* --- sums of what is gathered ------------------------------------------------------------------------------------ */

static int gathers(const sl_graph *g, const sl_node *node) {
  size_t bytes = 0;
  if (!node->op->gathers || node->n_out != 1 || g->value[node->out[0]]->scope != SL_SCOPE_WHOLE) return 0;
  for (int k = 0; k < node->n_in; k++) {
    const sl_value_info *info = g->value[node->in[k]];
    if (info->scope != SL_SCOPE_SAMPLE || sl_dtype_bytes(info->dtype) != sizeof(float)) return 0;
    bytes += sl_value_bytes(info);
  }
  return 2 * bytes < sl_value_bytes(g->value[node->out[0]]);
}

/* Brings the inputs of a node to all ranks: one exchange for each rank that has some. */
static sl_status gather(spread *s, const sl_node *node) {
  const int shards = s->plan->shards, first = s->mine.first * s->per_leaf, end = first + s->mine.n * s->per_leaf;
  for (int k = 0; k < node->n_in; k++) {
    const sl_value v = node->in[k];
    if (s->copy[v]) continue;
    s->copy[v] = malloc((size_t)shards * sizeof(sl_value));
    if (!s->copy[v]) return sl_fail(SL_ENOMEM, "no memory for the pieces of '%s'", s->from->value[v]->name);
    for (int shard = 0; shard < shards; shard++) {
      const sl_value_info piece = shard_of(s, v, shard);
      s->copy[v][shard] =
          shard >= first && shard < end ? s->piece[v][shard - first] : sl_graph_push_value(s->to, &piece);
    }
  }
  sl_value *pieces = malloc((size_t)(node->n_in * shards + 1) * sizeof *pieces);
  sl_status status = pieces ? sl_graph_status(s->to) : sl_fail(SL_ENOMEM, "no memory to gather %d shards", shards);
  for (int r = 0; r < s->division->ranks && status == SL_OK; r++) {
    int n = 0;
    for (int k = 0; k < node->n_in; k++)
      for (int leaf = s->division->first[r]; leaf < s->division->first[r + 1]; leaf++)
        for (int i = 0; i < s->per_leaf; i++) pieces[n++] = s->copy[node->in[k]][leaf * s->per_leaf + i];
    status = add_copy(s, node->name, SL_PHASE_BACKWARD, r, pieces, n);
  }
  free(pieces);
  return status;
}

/* Adds all shards of the batch to the whole sum, which is there but for them. */
static sl_status add_gathered(spread *s, int index) {
  const sl_node *node = s->from->node[index];
  const int blocks = node_blocks(s, node), owner = s->owners ? s->owners->value[node->out[0]] : -1;
  if (s->waiting[node->out[0]]) SL_TRY(close_bucket(s));
  if (s->division) SL_TRY(gather(s, node));
  if (owner >= 0 && owner != s->owners->rank) return SL_OK;
  for (int shard = 0; shard < s->plan->shards; shard++)
    for (int b = 0; b < blocks; b++) SL_TRY(add_task(s, index, SL_SCOPE_SAMPLE, shard, -1, blocks > 1 ? b : -1));
  return SL_OK;
}

static sl_status spread_node(spread *s, int index) {
  const sl_node *node = s->from->node[index];
  sl_scope scope = sl_node_scope(s->from, node);
  const int blocks = node_blocks(s, node), each = s->per_leaf;
  for (int i = 0; i < node->n_in; i++)
    if (s->waiting[node->in[i]]) SL_TRY(close_bucket(s));
  if (s->owners && !s->updating && node->phase == SL_PHASE_UPDATE) SL_TRY(begin_updates(s));
  if (sl_node_elsewhere(s->owners, index)) return SL_OK;
  if (s->updating && s->owners->node[index] < 0) SL_TRY(fetch_inputs(s, node));
  for (int j = 0; j < node->n_out; j++)
    if (!s->piece[node->out[j]]) {
      s->partial[node->out[j]] =
          s->from->value[node->out[j]]->scope == SL_SCOPE_WHOLE && scope != SL_SCOPE_WHOLE && !s->gathers[index];
      SL_TRY(make_pieces(s, node->out[j]));
    }
  if (s->gathers[index]) {
    s->done = index + 1;
    return add_gathered(s, index);
  }
  if (scope == SL_SCOPE_WHOLE)
    for (int b = 0; b < blocks; b++) SL_TRY(add_task(s, index, scope, -1, -1, blocks > 1 ? b : -1));
  for (int leaf = s->mine.first; leaf < s->mine.first + s->mine.n && scope != SL_SCOPE_WHOLE; leaf++)
    for (int shard = leaf * each; shard < (scope == SL_SCOPE_SAMPLE ? (leaf + 1) * each : leaf * each + 1); shard++)
      for (int b = 0; b < blocks; b++)
        SL_TRY(add_task(s, index, scope, scope == SL_SCOPE_SAMPLE ? shard : -1, leaf, blocks > 1 ? b : -1));
  s->done = index + 1;
  for (int j = 0; j < node->n_out; j++)
    if (s->partial[node->out[j]] && !node->op->update[j] && s->last[node->out[j]] == index)
      SL_TRY(complete_sum(s, index, node->out[j]));
  return sl_graph_status(s->to);
}

static void lower_to(int *bound, int turn) {
  if (turn < *bound) *bound = turn;
}

/* Gives each task its micro-batch, that of its leaf among mine (the last, for what all leaves add up to) or an earlier
 * one where a task of that waits for it, and sorts the tasks by it. An order of execution stays one: no task waits for
 * one of a later micro-batch. */
static sl_status take_turns(sl_graph *g, const sl_plan *plan, sl_leaves mine) {
  const int turns = g->micro_batches = plan->micro_batches;
  if (turns == 1) return SL_OK;
  int *read = malloc(((size_t)g->n_values + 1) * sizeof *read),
      *written = malloc(((size_t)g->n_values + 1) * sizeof *written);
  sl_node **order = malloc(((size_t)g->n_nodes + 1) * sizeof *order);
  if (!read || !written || !order) {
    free(read), free(written), free(order);
    return sl_fail(SL_ENOMEM, "no memory for %d micro-batches", turns);
  }
  for (sl_value v = 0; v < g->n_values; v++) read[v] = written[v] = turns; /* by later nodes, at the earliest */
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    sl_node *node = g->node[i];
    int *turn = &node->micro_batch;
    *turn = node->leaf < 0 ? turns - 1 : (int)((int64_t)(node->leaf - mine.first) * turns / mine.n);
    for (int k = 0; k < node->n_in; k++) lower_to(turn, written[node->in[k]]);
    for (int k = 0; k < node->n_out; k++) {
      lower_to(turn, read[node->out[k]]);
      lower_to(turn, written[node->out[k]]);
    }
    for (int k = 0; k < node->n_in; k++) lower_to(&read[node->in[k]], *turn);
    for (int k = 0; k < node->n_out; k++) lower_to(&written[node->out[k]], *turn);
    if (node->after != SL_NONE) lower_to(&read[node->after], *turn);
  }
  int n = 0;
  for (int turn = 0; turn < turns; turn++)
    for (int i = 0; i < g->n_nodes; i++)
      if (g->node[i]->micro_batch == turn) order[n++] = g->node[i];
  memcpy(g->node, order, (size_t)n * sizeof *order);
  for (int i = 0, bucket = 0; i < n; i++)
    if (g->node[i]->bucket) g->node[i]->bucket = ++bucket;
  for (sl_value v = 0; v < g->n_values; v++) g->value[v]->producer = -1;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < g->node[i]->n_out; k++) {
      sl_value_info *info = g->value[g->node[i]->out[k]];
      if (info->producer < 0 && info->role == SL_ROLE_TEMPORARY) info->producer = i;
    }
  free(read), free(written), free(order);
  return SL_OK;
}

/* The leaves of this rank. */
static sl_status find_leaves(const sl_plan *plan, const sl_division *d, sl_leaves *mine) {
  *mine = (sl_leaves){0, plan->leaves};
  if (!d) return SL_OK;
  for (int r = 0; r < d->ranks; r++)
    if (d->first[r + 1] <= d->first[r])
      return sl_fail(SL_EINVAL, "rank %d of %d has none of the plan's %d leaves", r, d->ranks, plan->leaves);
  if (d->first[0] != 0 || d->first[d->ranks] != plan->leaves)
    return sl_fail(SL_EINVAL, "the ranks have leaves %d to %d of the plan's %d", d->first[0], d->first[d->ranks] - 1,
                   plan->leaves);
  *mine = (sl_leaves){d->first[d->rank], d->first[d->rank + 1] - d->first[d->rank]};
  return SL_OK;
}

/* Which nodes gather, and the last of the others that add to a sum: there the leaves' sums are complete. */
static void find_last(spread *s) {
  const sl_graph *g = s->from;
  for (sl_value v = 0; v < g->n_values; v++) s->last[v] = s->last_read[v] = -1;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int j = 0; j < node->n_out; j++) s->last[node->out[j]] = i;
    for (int k = 0; k < node->n_in && node->phase != SL_PHASE_UPDATE; k++) s->last_read[node->in[k]] = i;
  }
  for (int i = 0; i < g->n_nodes; i++) s->gathers[i] = gathers(g, g->node[i]) && s->last[g->node[i]->out[0]] == i;
  for (sl_value v = 0; v < g->n_values; v++) s->last[v] = -1;
  for (int i = 0; i < g->n_nodes; i++)
    for (int j = 0; j < g->node[i]->n_out && !s->gathers[i]; j++) s->last[g->node[i]->out[j]] = i;
}

sl_status sl_spread(const sl_graph *logical, const sl_plan *plan, const sl_division *division, const sl_owners *owners,
                    sl_graph **step) {
  sl_leaves mine;
  *step = NULL;
  SL_TRY(sl_graph_status(logical));
  if (logical->batch != plan->batch)
    return sl_fail(SL_EINVAL, "the graph has a batch of %lld, the plan %lld", (long long)logical->batch,
                   (long long)plan->batch);
  SL_TRY(find_leaves(plan, division, &mine));
  if (plan->micro_batches > mine.n)
    return sl_fail(SL_EINVAL, "%d micro-batches of a rank with %d of the %d leaves: use more leaves",
                   plan->micro_batches, mine.n, plan->leaves);
  size_t n = (size_t)logical->n_values + 1;
  spread s = {.from = logical,
              .plan = plan,
              .owners = owners,
              .division = division && division->ranks > 1 ? division : NULL,
              .mine = mine,
              .per_leaf = plan->shards / plan->leaves,
              .waiting = calloc(n, 1),
              .to = sl_graph_create(plan->batch, logical->copy, logical->add),
              .blocks = malloc(n * sizeof(int)),
              .piece = calloc(n, sizeof(sl_value *)),
              .last = malloc(n * sizeof(int)),
              .last_read = malloc(n * sizeof(int)),
              .released = calloc(n, 1),
              .copy = calloc(n, sizeof(sl_value *)),
              .gathers = calloc((size_t)logical->n_nodes + 1, 1),
              .partial = calloc(n, 1)};
  sl_status status = SL_OK;
  if (!s.to || !s.blocks || !s.piece || !s.last || !s.partial || !s.waiting || !s.last_read || !s.released || !s.copy ||
      !s.gathers) {
    status = sl_fail(SL_ENOMEM, "no memory to spread a graph of %d nodes", logical->n_nodes);
    goto out;
  }
  s.subtrees = sl_subtrees(plan->leaves, mine, s.subtree);
  SL_TRY_OUT(sl_row_blocks(logical, plan, s.blocks));
  for (sl_value v = 0; v < logical->n_values; v++)
    if (logical->value[v]->role != SL_ROLE_TEMPORARY && !sl_value_elsewhere(owners, logical, v))
      SL_TRY_OUT(make_pieces(&s, v));
  find_last(&s);
  for (int i = 0; i < logical->n_nodes; i++) SL_TRY_OUT(spread_node(&s, i));
  SL_TRY_OUT(close_bucket(&s));
  if (owners) SL_TRY_OUT(share_parameters(&s));
  SL_TRY_OUT(take_turns(s.to, plan, mine));
  *step = s.to;
  s.to = NULL;
out:
  for (sl_value v = 0; s.piece && v < logical->n_values; v++) free(s.piece[v]);
  for (sl_value v = 0; s.copy && v < logical->n_values; v++) free(s.copy[v]);
  free(s.piece), free(s.copy), free(s.gathers);
  free(s.waiting);
  free(s.bucket.item);
  free(s.blocks);
  free(s.last);
  free(s.last_read), free(s.released);
  free(s.partial);
  sl_graph_destroy(s.to);
  return status;
}

sl_value sl_spread_whole(const sl_graph *step, sl_value logical) {
  for (sl_value v = 0; v < step->n_values; v++)
    if (step->value[v]->logical == logical && step->value[v]->leaf < 0 && step->value[v]->block <= 0) return v;
  return SL_NONE;
}
