/* The tree: the phases of a segment inside a node, and the ranks that a lane waits for.
 *
 * The buckets of a group are one endless sequence of segments, its lane. A segment passes four phases, each on all
 * ranks of the group:
 *
 *   filled   every rank has put its items into shared memory;
 *   reduced  every rank has added up its part of the segment, into the place of the node's items;
 *   ready    the node's leader has summed the node's items with those of the other nodes (tree_nodes.c);
 *   taken    every rank has copied the results back.
 *
 * Several segments are under way at once, so that the phases overlap. The counters of each rank's progress lie in
 * shared memory too. Without shared memory every rank is a node of its own. If all items of a bucket lie in memory that
 * the group's ranks share, the phase "reduced" works in place, and nothing is filled or taken.
 *
 * Only the destination takes a sum that goes to one rank; the sum crosses to its node whole instead of in parts. A
 * segment that moves without a sum is filled by its origin, crosses from the origin's node, and is taken by its
 * destination. */
#include "runtime/exchange/tree.h"

#include <string.h>

/* The index of the stretch in which an element of the bucket lies. */
static int stretch_at(const sl__bucket *b, int64_t element) {
  int low = 0, high = b->n - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (b->stretch[middle].begin <= element)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Copies the segment's elements of one item between the bucket's stretches and memory. */
static void copy(const sl__bucket *b, const sl__segment *g, int item, char *memory, int out) {
  const int64_t end = g->at + g->count;
  const sl__stretch *s = &b->stretch[stretch_at(b, g->at)];
  for (int64_t at = g->at; at < end; s++) {
    const int64_t to = s->begin + s->count < end ? s->begin + s->count : end;
    const size_t n = (size_t)(to - at) * b->width;
    char *data = (char *)s->mine[item] + (size_t)(at - s->begin) * b->width;
    memcpy(out ? data : memory, out ? memory : data, n);
    memory += n, at = to;
  }
}

/* Whether this rank receives the segment's result: it is a destination and not the origin. */
static int gets(const sl__lane *l, const sl__segment *g) {
  return (g->to < 0 || g->to == l->group->rank) && g->from != l->group->rank;
}

static int try_fill(sl__lane *l) {
  if (l->group->n == 0 || !sl__exchange_is_posted(l->e, l->group->row[l->fill.bucket])) return 0;
  const sl__cargo *c = sl__cargo_at(l, l->fill.bucket);
  const sl__segment *g = sl__segment_at(l, &l->fill);
  if (!c->shared && l->fill.number >= SL__LEAST(l, taken) + SL__DEPTH) return 0;
  for (int i = 0; i < l->group->items && !c->shared && c->b->sum; i++)
    copy(c->b, g, i, sl__item_memory(l, l->fill.number, l->local_items[l->local] + i), 0);
  if (!c->shared && !c->b->sum && g->from == l->group->rank) copy(c->b, g, 0, sl__item_memory(l, l->fill.number, 0), 0);
  if (sl__step_on(l, &l->fill)) sl__exchange_begun(l->e, c->b);
  sl__set(&l->boards[l->local].filled, l->fill.number);
  return 1;
}

enum { BLOCK = 16384 }; /* bytes added up at once; they fit into the first-level cache */

/* Adds up this rank's part of a segment, in the slabs. */
static void reduce_slabs(sl__lane *l, int64_t from, int64_t to, const sl__bucket *b) {
  const int64_t block = BLOCK / (int64_t)b->width;
  for (int64_t at = from; at < to; at += block) {
    const int64_t n = to - at < block ? to - at : block;
    for (int i = 0; i < l->inside.n; i++)
      sl__add(sl__item_memory(l, l->reduce.number, l->inside.step[i].to) + (size_t)at * b->width,
              sl__item_memory(l, l->reduce.number, l->inside.step[i].from) + (size_t)at * b->width, n, b->dtype);
  }
}

/* Adds up this rank's part of a segment in place: the sums go to the first item of each destination. Every byte is read
 * from memory once and written once. */
static void reduce_shared(sl__lane *l, int64_t from, int64_t to, int owner, const sl__cargo *c) {
  const sl__bucket *b = c->b;
  const int64_t block = BLOCK / (int64_t)b->width;
  int s = stretch_at(b, from);
  for (int64_t at = from; at < to;) {
    const sl__stretch *t = &b->stretch[s];
    if (at == t->begin + t->count) t = &b->stretch[++s];
    char **item = (char **)c->shared[s];
    int64_t n = to - at < block ? to - at : block;
    if (n > t->begin + t->count - at) n = t->begin + t->count - at;
    const size_t offset = (size_t)(at - t->begin) * b->width;
    for (int i = 0; i < l->inside.n; i++)
      sl__add(item[l->inside.step[i].to] + offset, item[l->inside.step[i].from] + offset, n, b->dtype);
    for (int r = 1; r < l->locals; r++)
      if (owner < 0 || owner == r) memcpy(item[l->local_items[r]] + offset, item[0] + offset, (size_t)n * b->width);
    at += n;
  }
}

/* Copies a segment from its origin's memory. */
static void copy_shared(const sl__lane *l, const sl__segment *g, const sl__cargo *c) {
  const sl__bucket *b = c->b;
  const int64_t end = g->at + g->count;
  int s = stretch_at(b, g->at);
  for (int64_t at = g->at; at < end; s++) {
    const sl__stretch *t = &b->stretch[s];
    const int64_t to = t->begin + t->count < end ? t->begin + t->count : end;
    const size_t offset = (size_t)(at - t->begin) * b->width;
    memcpy((char *)t->mine[0] + offset, (const char *)c->shared[s][l->local_items[g->from]] + offset,
           (size_t)(to - at) * b->width);
    at = to;
  }
}

static int try_reduce(sl__lane *l) {
  if (l->reduce.number >= l->fill.number || SL__LEAST(l, filled) <= l->reduce.number) return 0;
  const sl__cargo *c = sl__cargo_at(l, l->reduce.bucket);
  const sl__segment *g = sl__segment_at(l, &l->reduce);
  int64_t from, to;
  sl__part_of(g->count, c->b->width, l->local, l->locals, &from, &to);
  if (!c->b->sum) {
    if (c->shared && gets(l, g)) copy_shared(l, g, c);
  } else if (!c->shared) {
    reduce_slabs(l, from, to, c->b);
  } else if (from < to) {
    reduce_shared(l, g->at + from, g->at + to, g->to, c);
  }
  sl__step_on(l, &l->reduce);
  sl__set(&l->boards[l->local].reduced, l->reduce.number);
  return 1;
}

static int try_take(sl__lane *l) {
  if (l->take.number >= l->fill.number) return 0;
  const uint64_t ready =
      l->nodes == 1 ? SL__LEAST(l, reduced) : atomic_load_explicit(&l->boards[0].ready.value, memory_order_acquire);
  if (ready <= l->take.number) return 0;
  const sl__cargo *c = sl__cargo_at(l, l->take.bucket);
  const sl__segment *g = sl__segment_at(l, &l->take);
  if (!c->shared && gets(l, g)) copy(c->b, g, 0, sl__item_memory(l, l->take.number, 0), 1);
  const int last = sl__step_on(l, &l->take);
  sl__set(&l->boards[l->local].taken, l->take.number);
  if (last) sl__exchange_end(l->e, c->b);
  return 1;
}

/* Wakes the other ranks of the lane on this node. */
static void ring_others(const sl__lane *l) {
  const sl__tree *t = (const sl__tree *)l->e;
  const int first = l->node_rank[l->my_node];
  for (int i = 0; i < l->locals; i++)
    if (i != l->local) sl__exchange_ring(&t->bells[l->group->member[first + i] - t->node_of[l->e->rank]]);
}

sl__found sl__tree_advance(sl_exchange *e) {
  sl__found found = SL__IDLE;
  const int n = sl__exchange_order(e);
  for (int k = 0; k < n; k++) {
    sl__lane *l = e->group[e->order[k]]->own;
    if (try_fill(l) | try_reduce(l) | sl__lane_cross(l) | try_take(l)) {
      ring_others(l);
      e->moved_last = e->order[k];
      return SL__MOVED; /* the most urgent group goes on before less urgent ones */
    }
    if (l->ready.number < l->cross.number) found = SL__POLL;
  }
  return found;
}

/* Reads the exchange thread's data without a lock: if something moves meanwhile, the answer may be wrong, but the call
 * returns. */
int sl__tree_waits_for(sl_exchange *e, const sl__group *group, const sl__bucket **bucket, char *late) {
  const sl__lane *l = group->own;
  const int first = l->node_rank[l->my_node];
  int n = 0;
  *bucket = l->group->row[__atomic_load_n(&l->take.bucket, __ATOMIC_RELAXED)];
  const uint64_t taken = sl__number_of(&l->take), ready = sl__number_of(&l->ready);
  if (sl__number_of(&l->fill) == taken) { /* this rank has not posted the bucket */
    late[e->rank] = 1;
    return 1;
  }
  /* the earliest unfinished phase, and the ranks that have not finished it */
  for (int phase = 0; phase < 2 && n == 0; phase++)
    for (int i = 0; i < l->locals; i++) {
      const sl__reached *c = phase == 0 ? &l->boards[i].filled : &l->boards[i].reduced;
      if (atomic_load(&c->value) > taken) continue;
      late[group->member[first + i]] = 1;
      n++;
    }
  if (n > 0) return n;
  if (l->local != 0 && l->nodes > 1) { /* only the leader knows about other nodes */
    late[group->member[first]] = 1;
    return 1;
  }
  const sl__crossing *x = &l->crossing[ready % SL__DEPTH];
  for (int i = 0; i < x->n && ready < sl__number_of(&l->cross); i++)
    for (int r = l->node_rank[x->peer[i]]; r < l->node_rank[x->peer[i] + 1] && x->request[i] != MPI_REQUEST_NULL; r++)
      if (!late[group->member[r]]) late[group->member[r]] = 1, n++;
  return n;
}
