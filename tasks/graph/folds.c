/* The folding pass: finds stretches of nodes between two products and writes each stretch once for every fold. */
#include "tasks/graph/folds.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numbers/hash.h"

enum {
  NONE = -1,
  LONGEST = 8,
  MOST_INPUTS = 8,
  MOST_ATTR = 64
}; /* nodes of a stretch; inputs and bytes of attributes of each */

/* The nodes from one product to the next one. */
typedef struct stretch {
  int node[LONGEST], n;
  int64_t outer, units; /* the first product's features: [outer][units][rest]; the last one's inputs: [units][rest] */
} stretch;

typedef struct pass {
  const sl_graph *from;
  sl_graph *to;
  sl_value *now;    /* [values] the value in `to`; SL_NONE */
  int *readers;     /* [values] how often nodes read it, plus how often the caller's list names it */
  int *reader;      /* [values] the last node that reads it */
  char *inside;     /* [nodes] 1: in a stretch, and not its last node */
  int by_sequence;  /* 1: divides nodes between stretches along the sequence */
  sl_value **parts; /* [values] its parts along the sequence in `to`, [folds]; NULL: none */
  int head;         /* the node whose outputs are divided by classes; NONE */
  sl_value *logits; /* [folds] its outputs in `to` */
} pass;

static int64_t features(const sl_value_info *v) { return v->shape.dim[v->shape.ndim - 1]; }

static int can_fold(const sl_node *node) {
  return node->op->folding && node->n_in <= MOST_INPUTS && node->op->attr_bytes <= MOST_ATTR;
}

static int is_product(const sl_node *node) { return can_fold(node) && node->op->folding->columns; }

/* Finds the stretch that begins at a node; 0: none does. */
static int find_stretch(const pass *p, int first, stretch *s) {
  const sl_graph *g = p->from;
  *s = (stretch){.node = {first}, .n = 1, .outer = 1};
  if (!is_product(g->node[first])) return 0;
  for (sl_value v = g->node[first]->out[0]; s->n < LONGEST; v = g->node[s->node[s->n - 1]]->out[0]) {
    if (p->readers[v] != 1) return 0;
    const int next = p->reader[v];
    const sl_node *node = g->node[next];
    if (!can_fold(node) || node->in[0] != v) return 0;
    s->node[s->n++] = next;
    if (is_product(node)) {
      if (!s->units) s->units = features(g->value[v]);
      return 1;
    }
    if (!node->op->folding->follows) return 0;
    for (int j = 1; j < node->n_out; j++)
      if (p->readers[node->out[j]]) return 0;
    if (node->op->folding->units && s->units) return 0;
    if (node->op->folding->units) node->op->folding->units(node->attr, &s->outer, &s->units);
  }
  return 0;
}

/* ---- along the sequence ----------------------------------------------------------------------------------------- */

/* The next nodes of `to` compute these folds, and belong to the segments of `node`. */
static void begin(pass *p, const sl_node *node, sl_run fold) {
  p->to->fold = fold;
  memcpy(p->to->segment, node->segment, sizeof node->segment);
}

static void begin_whole(pass *p) {
  p->to->fold = (sl_run){0, p->to->folds};
  memset(p->to->segment, 0, sizeof p->to->segment);
}

/* Joins the parts of v to a whole value. */
static sl_value joined(pass *p, sl_value v) {
  const sl_node *maker = p->from->node[p->from->value[v]->producer];
  const sl_run fold = p->to->fold;
  int segment[SL_RECOMPUTE_COUNT];
  memcpy(segment, p->to->segment, sizeof segment);
  begin(p, maker, (sl_run){0, p->to->folds});
  p->now[v] = sl_graph_add1(p->to, p->to->join, maker->name, NULL, p->parts[v], p->to->folds);
  p->to->fold = fold;
  memcpy(p->to->segment, segment, sizeof segment);
  return p->now[v];
}

static sl_value whole_value(pass *p, sl_value v) {
  if (p->now[v] != SL_NONE) return p->now[v];
  if (p->parts[v]) return joined(p, v);
  sl_value_info info = *p->from->value[v];
  info.logical = p->to->n_values;
  info.producer = p->to->n_nodes;
  if (info.role != SL_ROLE_TEMPORARY) info.producer = -1;
  return p->now[v] = sl_graph_push_value(p->to, &info);
}

static sl_status copy_node(pass *p, const sl_node *node) {
  sl_node mine = *node;
  sl_value *args = malloc((size_t)(node->n_in + node->n_out + 1) * sizeof *args);
  if (!args) return sl_no_memory("to fold layer '%s'", node->name);
  mine.in = args;
  mine.out = args + node->n_in;
  mine.fold = p->to->fold;
  mine.logical = p->to->n_nodes;
  for (int k = 0; k < node->n_in; k++) mine.in[k] = whole_value(p, node->in[k]);
  for (int j = 0; j < node->n_out; j++) mine.out[j] = whole_value(p, node->out[j]);
  sl_graph_push_node(p->to, &mine);
  free(args);
  return sl_graph_status(p->to);
}

static int has_positions(const pass *p, sl_value v) {
  const sl_value_info *info = p->from->value[v];
  return info->scope == SL_SCOPE_SAMPLE && info->shape.ndim > 2 && info->shape.dim[1] >= p->to->folds;
}

/* Whether each fold computes the node for its part of the positions: an input must be divided in this way. */
static int is_along(const pass *p, const sl_node *node) {
  int divided = 0;
  if (!p->by_sequence || !node->op->along || node->n_in > MOST_INPUTS || node->op->attr_bytes > MOST_ATTR) return 0;
  for (int k = 0; k < node->n_in; k++)
    if (node->op->along >> k & 1) {
      if (!has_positions(p, node->in[k])) return 0;
      divided |= p->parts[node->in[k]] != NULL;
    }
  return divided;
}

static sl_value *new_parts(pass *p, sl_value v) {
  p->parts[v] = malloc((size_t)p->to->folds * sizeof **p->parts);
  if (!p->parts[v]) sl_no_memory("for %d parts", p->to->folds), sl_graph_fail(p->to, SL_ENOMEM, NULL);
  return p->parts[v];
}

/* Cuts a whole value into parts along the sequence. */
static void divide(pass *p, const sl_node *reader, sl_value v) {
  if (p->parts[v] || !new_parts(p, v)) return;
  for (int f = 0; f < p->to->folds; f++) {
    begin(p, reader, (sl_run){f, f + 1});
    p->parts[v][f] = sl_sequence_part(p->to, reader->name, p->now[v], f);
  }
}

static sl_status write_along(pass *p, const sl_node *node) {
  for (int k = 0; k < node->n_in; k++) {
    if (!(node->op->along >> k & 1)) {
      whole_value(p, node->in[k]);
      continue;
    }
    if (!p->parts[node->in[k]]) whole_value(p, node->in[k]);
    divide(p, node, node->in[k]);
  }
  for (int j = 0; j < node->n_out; j++) new_parts(p, node->out[j]);
  for (int f = 0; f < p->to->folds && sl_graph_status(p->to) == SL_OK; f++) {
    sl_value in[MOST_INPUTS], out[SL_MAX_OUT];
    _Alignas(max_align_t) char attr[MOST_ATTR] = {0};
    for (int k = 0; k < node->n_in; k++)
      in[k] = node->op->along >> k & 1 ? p->parts[node->in[k]][f] : p->now[node->in[k]];
    if (node->attr) memcpy(attr, node->attr, node->op->attr_bytes);
    if (node->op->stream) node->op->stream(attr, sl_hash32_number(node->key, (uint64_t)f));
    begin(p, node, (sl_run){f, f + 1});
    sl_graph_add(p->to, node->op, node->name, node->attr ? attr : NULL, in, node->n_in, out, node->n_out);
    for (int j = 0; j < node->n_out; j++) p->parts[node->out[j]][f] = out[j];
  }
  begin_whole(p);
  return sl_graph_status(p->to);
}

/* ---- stretches --------------------------------------------------------------------------------------------------- */

/* The first unit of a fold. */
static int64_t unit_of(const pass *p, int64_t units, int fold) { return units * fold / p->to->folds; }

/* The part of a parameter that a fold has: rows, or columns, that belong to its units. */
static sl_value part_of(pass *p, sl_value v, int by_rows, const stretch *s, int fold) {
  const sl_value_info *whole = p->from->value[v];
  char name[SL_PART_NAME];
  snprintf(name, sizeof name, "%s@%d/%d", whole->name, fold, p->to->folds);
  const sl_value old = sl_graph_find(p->to, name);
  if (old != SL_NONE) return old;
  sl_value_info info = *whole;
  const int64_t rows = whole->shape.dim[0], row = sl_shape_row(&whole->shape);
  const int64_t outer = by_rows ? s->outer : rows, of = by_rows ? rows : row, inner = by_rows ? row : 1;
  sl_part *part = &info.part;
  *part = (sl_part){.whole = whole->shape,
                    .outer = outer,
                    .size = s->units,
                    .inner = of / (by_rows ? s->outer * s->units : s->units) * inner,
                    .from = unit_of(p, s->units, fold),
                    .to = unit_of(p, s->units, fold + 1)};
  info.name = name;
  info.logical = p->to->n_values;
  info.shape.dim[by_rows ? 0 : whole->shape.ndim - 1] = of / s->units * (part->to - part->from);
  return sl_graph_push_value(p->to, &info);
}

/* Writes the nodes of a stretch for one fold. Returns the fold's addend of the last node's output or, for a stretch of
 * a single node, the fold's output. */
static sl_value write_fold(pass *p, const stretch *s, int fold) {
  sl_value in[MOST_INPUTS], out[SL_MAX_OUT], v = whole_value(p, p->from->node[s->node[0]]->in[0]);
  for (int i = 0; i < s->n; i++) {
    const sl_node *node = p->from->node[s->node[i]];
    const sl_folding *f = node->op->folding;
    _Alignas(max_align_t) char attr[MOST_ATTR] = {0};
    const int is_end = i == s->n - 1;
    int n = 0;
    in[n++] = v;
    for (int k = 1; k < node->n_in; k++) {
      const int rows = i == 0 && (f->rows >> k & 1 || f->table == k), columns = i > 0 && is_end && f->columns >> k & 1;
      if (i > 0 && is_end && f->once >> k & 1 && fold > 0) continue;
      in[n++] = rows || columns ? part_of(p, node->in[k], rows, s, fold) : whole_value(p, node->in[k]);
    }
    if (node->attr) memcpy(attr, node->attr, node->op->attr_bytes);
    if (f->cut) f->cut(attr, unit_of(p, s->units, fold), unit_of(p, s->units, fold + 1), s->units);
    if (i > 0 && is_end && f->after) f->after(attr);
    begin(p, node, (sl_run){fold, fold + 1});
    sl_graph_add(p->to, node->op, node->name, node->attr ? attr : NULL, in, n, out, node->n_out);
    v = out[0];
  }
  return v;
}

/* Adds up values [from, to) by a tree. here: all its nodes belong to the graph's current fold; else each belongs to the
 * folds that it adds. */
static sl_value tree_of(sl_graph *g, const sl_operation *op, const char *name, const sl_value *value, int from, int to,
                        int here) {
  const int n = to - from;
  int half = 1;
  if (n == 1) return value[from];
  while (2 * half < n) half *= 2;
  const sl_value both[] = {tree_of(g, op, name, value, from, from + half, here),
                           tree_of(g, op, name, value, from + half, to, here)};
  const sl_run before = g->fold;
  if (!here) g->fold = (sl_run){from, to};
  const sl_value sum = sl_graph_add1(g, op, name, NULL, both, 2);
  g->fold = before;
  return sum;
}

sl_value sl_fold_tree(sl_graph *g, const sl_operation *op, const char *name, const sl_value *value, int from, int to) {
  return tree_of(g, op, name, value, from, to, 0);
}

sl_value sl_fold_sum(sl_graph *g, const char *name, const sl_value *value, int from, int to) {
  return sl_fold_tree(g, g->add, name, value, from, to);
}

sl_value sl_sequence_part(sl_graph *g, const char *name, sl_value v, int part) {
  const int attr[] = {part, g->folds};
  return sl_graph_add1(g, g->part, name, attr, &v, 1);
}

void sl_fold_scatter(sl_graph *g, const char *name, const sl_value *value, sl_value *part) {
  const sl_run before = g->fold;
  sl_value *all = malloc((size_t)(g->folds * g->folds) * sizeof *all); /* [parts][folds] */
  if (!all) {
    sl_no_memory("for %d parts", g->folds);
    sl_graph_fail(g, SL_ENOMEM, name);
    return;
  }
  for (int f = 0; f < g->folds; f++)
    for (int k = 0; k < g->folds; k++) {
      g->fold = (sl_run){f, f + 1};
      all[k * g->folds + f] = sl_sequence_part(g, name, value[f], k);
    }
  for (int k = 0; k < g->folds; k++) {
    g->fold = (sl_run){k, k + 1};
    part[k] = tree_of(g, g->add, name, all + k * g->folds, 0, g->folds, 1);
  }
  free(all);
  g->fold = before;
}

static sl_status check(const pass *p, const stretch *s) {
  if (s->units >= p->to->folds) return SL_OK;
  const sl_node *node = p->from->node[s->node[s->n > 2 ? 1 : 0]];
  return sl_blame(
      sl_fail(SL_EINVAL, "%d folds divide layer '%s' (%s), which has only %lld %s: use at most as many folds",
              p->to->folds, node->name, node->op->name, (long long)s->units,
              node->op->folding->units ? "heads" : "features"),
      "folds");
}

/* The operation that follows the sum of a stretch's folds; NULL: none. */
static const sl_operation *after_sum(const sl_node *last) {
  _Alignas(max_align_t) char attr[MOST_ATTR] = {0};
  if (!last->op->folding->after) return NULL;
  memcpy(attr, last->attr, last->op->attr_bytes);
  return last->op->folding->after(attr);
}

static sl_status write_stretch(pass *p, const stretch *s) {
  sl_value addend[SL_MAX_FOLDS];
  const sl_node *last = p->from->node[s->node[s->n - 1]];
  const sl_operation *after = after_sum(last);
  SL_TRY(check(p, s));
  for (int f = 0; f < p->to->folds; f++) addend[f] = write_fold(p, s, f);
  begin(p, last, (sl_run){0, p->to->folds});
  if (!p->by_sequence || !has_positions(p, last->out[0])) {
    sl_value sum = sl_fold_sum(p->to, last->name, addend, 0, p->to->folds);
    p->now[last->out[0]] = after ? sl_graph_add1(p->to, after, last->name, NULL, &sum, 1) : sum;
  } else if (new_parts(p, last->out[0])) {
    sl_value *part = p->parts[last->out[0]];
    sl_fold_scatter(p->to, last->name, addend, part);
    for (int k = 0; k < p->to->folds && after; k++) {
      begin(p, last, (sl_run){k, k + 1});
      part[k] = sl_graph_add1(p->to, after, last->name, NULL, &part[k], 1);
    }
  }
  begin_whole(p);
  return sl_graph_status(p->to);
}

/* Finds the node that makes the logits if their classes can be divided. It must be a product outside of all stretches,
 * with enough classes, and only reductions may read the logits. `named`: how often the caller's values name the logits.
 */
static int find_head(const pass *p, const stretch *ends, sl_value logits, int named) {
  const sl_graph *g = p->from;
  const int head = logits == SL_NONE ? NONE : g->value[logits]->producer;
  int reducers = 0;
  if (head == NONE || p->inside[head] || ends[head].n || !can_fold(g->node[head]) ||
      !g->node[head]->op->folding->rows || features(g->value[logits]) < (int64_t)SL_FOLD_CLASSES * p->to->folds)
    return NONE;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (node->n_in == 0 || node->in[0] != logits || !can_fold(node) || !node->op->folding->reduce) continue;
    reducers++;
    for (int j = 1; j < node->n_out; j++)
      if (p->readers[node->out[j]]) return NONE;
  }
  return reducers > 0 && reducers + named == p->readers[logits] ? head : NONE;
}

static int is_table(const pass *p, const sl_node *node) {
  if (p->head == NONE || !can_fold(node) || !node->op->folding->table) return 0;
  const sl_value table = node->in[node->op->folding->table];
  return p->from->value[table]->shape.dim[0] == features(p->from->value[p->from->node[p->head]->out[0]]);
}

/* A node that is divided by classes: the head, a lookup in a table of classes, or a reduction over the logits. */
static sl_status write_classes(pass *p, int i) {
  const sl_graph *g = p->from;
  const sl_node *node = g->node[i];
  sl_value *const out = p->now, logits = g->node[p->head]->out[0];
  const stretch alone = {.node = {i}, .n = 1, .outer = 1, .units = features(g->value[logits])};
  begin(p, node, (sl_run){0, p->to->folds});
  if (i == p->head || is_table(p, node)) {
    sl_value addend[SL_MAX_FOLDS];
    sl_value *each = i == p->head ? p->logits : addend;
    for (int f = 0; f < p->to->folds; f++) each[f] = write_fold(p, &alone, f);
    begin(p, node, (sl_run){0, p->to->folds});
    if (i != p->head) out[node->out[0]] = sl_fold_sum(p->to, node->name, addend, 0, p->to->folds);
  } else {
    sl_value in[MOST_INPUTS], made[SL_MAX_OUT];
    for (int k = 1; k < node->n_in; k++) in[k] = whole_value(p, node->in[k]);
    node->op->folding->reduce(p->to, node, p->logits, in, made);
    out[node->out[0]] = made[0];
  }
  begin_whole(p);
  return sl_graph_status(p->to);
}

static int is_of_classes(const pass *p, int i) {
  const sl_node *node = p->from->node[i];
  if (p->head == NONE) return 0;
  return i == p->head || is_table(p, node) || (node->n_in > 0 && node->in[0] == p->from->node[p->head]->out[0]);
}

static sl_status walk(pass *p, sl_value logits, int named) {
  const sl_graph *g = p->from;
  stretch *ends = calloc((size_t)g->n_nodes + 1, sizeof *ends); /* [nodes] the stretch that ends there */
  int n = 0;
  if (!ends) return sl_no_memory("to fold a graph of %d nodes", g->n_nodes);
  for (int i = 0; i < g->n_nodes; i++) {
    stretch s;
    if (ends[i].n || p->inside[i] || !find_stretch(p, i, &s)) continue;
    for (int k = 0; k < s.n - 1; k++) p->inside[s.node[k]] = 1;
    ends[s.node[s.n - 1]] = s;
    n++;
  }
  sl_status status = n ? SL_OK
                       : sl_blame(sl_fail(SL_EINVAL,
                                          "no layer of this model can be divided into folds: that takes two products "
                                          "with only operations on single features between them"),
                                  "folds");
  p->head = find_head(p, ends, logits, named);
  for (int i = 0; i < g->n_nodes && status == SL_OK; i++)
    if (is_of_classes(p, i))
      status = write_classes(p, i);
    else if (ends[i].n)
      status = write_stretch(p, &ends[i]);
    else if (!p->inside[i])
      status = is_along(p, g->node[i]) ? write_along(p, g->node[i]) : copy_node(p, g->node[i]);
  free(ends);
  return status;
}

/* A parameter is a whole tensor or parts of it, not both. */
static sl_status check_parts(const pass *p) {
  for (sl_value v = 0; v < p->from->n_values; v++) {
    const sl_value_info *info = p->from->value[v];
    char part[SL_PART_NAME];
    if (info->role != SL_ROLE_PARAMETER || p->now[v] == SL_NONE) continue;
    snprintf(part, sizeof part, "%s@0/%d", info->name, p->to->folds);
    if (sl_graph_find(p->to, part) != SL_NONE)
      return sl_blame(
          sl_fail(SL_EINVAL, "a layer uses parameter '%s' as a whole, and another one would divide it", info->name),
          "folds");
  }
  return SL_OK;
}

sl_status sl_fold(sl_graph **graph, const sl_fold_options *options, sl_value *values, int n) {
  const int64_t folds = options->folds;
  const sl_value logits = options->logits;
  sl_graph *g = *graph;
  if (folds <= 1) return SL_OK;
  if (folds > SL_MAX_FOLDS) /* as a model file may say */
    return sl_blame(sl_fail(SL_EINVAL, "%lld folds: at most %d", (long long)folds, SL_MAX_FOLDS), "folds");
  SL_TRY(sl_graph_status(g));
  const size_t n_values = (size_t)g->n_values + 1, n_nodes = (size_t)g->n_nodes + 1;
  pass p = {.from = g,
            .to = sl_graph_create(g->batch, g->copy, g->add, g->convert),
            .now = malloc(n_values * sizeof *p.now),
            .readers = calloc(n_values, sizeof *p.readers),
            .reader = calloc(n_values, sizeof *p.reader),
            .inside = calloc(n_nodes, 1),
            .logits = (sl_value[SL_MAX_FOLDS]){0},
            .by_sequence = options->by_sequence && g->part && g->join,
            .parts = calloc(n_values, sizeof *p.parts),
            .head = NONE};
  int named = 0;
  const int g_values = g->n_values;
  sl_status status = SL_OK;
  if (!p.to || !p.now || !p.readers || !p.reader || !p.inside || !p.parts)
    SL_TRY_OUT(sl_no_memory("to fold a graph of %d nodes", g->n_nodes));
  p.to->folds = p.to->fold.to = (int)folds;
  p.to->part = g->part, p.to->join = g->join;
  p.to->n_segments = g->n_segments;
  for (sl_value v = 0; v < g->n_values; v++) p.now[v] = SL_NONE;
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_in; k++) p.readers[g->node[i]->in[k]]++, p.reader[g->node[i]->in[k]] = i;
  for (int i = 0; i < n; i++)
    if (values[i] != SL_NONE) p.readers[values[i]]++, named += values[i] == logits;
  SL_TRY_OUT(walk(&p, logits, named));
  SL_TRY_OUT(check_parts(&p));
  for (int i = 0; i < n; i++)
    if (values[i] != SL_NONE) values[i] = p.parts[values[i]] ? whole_value(&p, values[i]) : p.now[values[i]];
  SL_TRY_OUT(sl_graph_status(p.to));
  *graph = p.to;
  p.to = g;
out:
  sl_graph_destroy(p.to);
  for (sl_value v = 0; p.parts && v < g_values; v++) free(p.parts[v]);
  free(p.now), free(p.readers), free(p.reader), free(p.inside), free(p.parts);
  return status;
}
