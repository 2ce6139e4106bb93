/* The tree: makes an exchange and its lanes. Finds the ranks that share memory, divides the tree's additions among
 * them, allocates memory, and cuts buckets into segments.
 *
 * The ranks agree on a status before each collective call, so that none waits for a rank that has given up. A shared
 * window that only some ranks got is never freed, since freeing is collective; its ranks use messages instead. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exchange/tree.h"

/* WINDOW: when one page of a window is first read, Linux maps all its pages (fault_around_bytes). */
enum { PAGE = 4096, WINDOW = 65536 };
#define SEGMENT_SHARED ((size_t)256 << 10) /* stays in the caches between a rank's write and another's read */
#define SEGMENT_MESSAGES ((size_t)1 << 20) /* long enough to hide a message's latency, short enough to overlap */

/* ---- memory that the ranks of a node share ---------------------------------------------------------------------- */

/* Allocates memory that the ranks of comm share. Collective over `all`, which contains comm. If one rank of `all` gets
 * no window, *window is MPI_WIN_NULL on all of them. A rank alone on its node needs none. */
static sl_status allocate_windows(MPI_Comm comm, MPI_Comm all, int alone, size_t bytes, MPI_Win *window, int *fits) {
  void *base;
  int got = alone || MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm, &base, window) == MPI_SUCCESS;
  SL_TRY(sl_comm_status(MPI_Allreduce(&got, fits, 1, MPI_INT, MPI_MIN, all), "MPI_Allreduce"));
  if (!*fits) *window = MPI_WIN_NULL;
  return SL_OK;
}

/* Finds the address, in this process, of a rank's part of a window, rounded up to a cache line. Raises *most (unless
 * most is NULL) to the part's size in bytes. */
static sl_status find_window(MPI_Win window, int rank, void *memory, size_t *most) {
  MPI_Aint size;
  int unit;
  void *base;
  SL_TRY(sl_comm_status(MPI_Win_shared_query(window, rank, &size, &unit, &base), "MPI_Win_shared_query"));
  if (most && (size_t)size > *most) *most = (size_t)size;
  *(char **)memory = (char *)sl__round_up((uintptr_t)base, SL__LINE);
  return SL_OK;
}

static sl_status allocate(sl_exchange *e, size_t bytes, void **memory) {
  sl__tree *t = (sl__tree *)e;
  int fits = 1;
  size_t most = bytes;
  *memory = NULL;
  if (t->arena) return sl_fail(SL_EEXIST, "the exchange has allocated its memory already");
  sl_status status =
      allocate_windows(t->node, e->comm, t->locals == 1, sl__round_up(bytes + PAGE, PAGE), &t->arena_window, &fits);
  t->base_of = calloc((size_t)t->locals, sizeof *t->base_of);
  if (t->arena_window == MPI_WIN_NULL) t->arena = aligned_alloc(PAGE, sl__round_up(bytes + 1, PAGE));
  if (!t->base_of || (t->arena_window == MPI_WIN_NULL && !t->arena))
    status = sl_no_memory("for %zu bytes to exchange", bytes);
  for (int r = 0; r < t->locals && status == SL_OK && t->arena_window != MPI_WIN_NULL; r++)
    status = find_window(t->arena_window, r, &t->base_of[r], &most);
  t->windows = most / WINDOW + 2; /* arenas differ in size */
  t->touched = calloc((size_t)t->locals * t->windows, 1);
  if (status == SL_OK && !t->touched) status = sl_no_memory("for %zu windows of shared memory", t->windows);
  SL_TRY(sl_comm_agree(e->comm, status));
  if (t->arena_window != MPI_WIN_NULL) t->arena = t->base_of[t->local];
  t->arena_bytes = bytes;
  *memory = t->arena;
  return SL_OK;
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

/* Offset of a stretch's item in this rank's arena; -1: this rank has no such item, -2: it lies outside the arena. */
static int64_t offset_of(const sl__tree *t, const sl__stretch *s, int item, size_t width) {
  const char *data = s->mine[item];
  if (!data) return -1;
  const uintptr_t at = (uintptr_t)data - (uintptr_t)t->arena;
  return (uintptr_t)data >= (uintptr_t)t->arena && at + (size_t)s->count * width <= t->arena_bytes ? (int64_t)at : -2;
}

static size_t window_of(const sl__tree *t, int local, const char *address) {
  return (uintptr_t)address / WINDOW - (uintptr_t)t->base_of[local] / WINDOW;
}

/* Marks the windows of other ranks' arenas that hold elements [from, to) of the bucket. only: the rank of the node
 * whose windows are marked; -1: all ranks. */
static void touch(sl__tree *t, const sl__lane *l, const sl__cargo *c, int64_t from, int64_t to, int only) {
  const sl__bucket *b = c->b;
  for (int s = 0; s < b->n; s++) {
    const sl__stretch *x = &b->stretch[s];
    const int64_t begin = from > x->begin ? from : x->begin, end = to < x->begin + x->count ? to : x->begin + x->count;
    for (int r = 0; r < l->locals && begin < end; r++) {
      const int local = l->group->member[l->node_rank[l->my_node] + r] - t->node_of[t->base.rank];
      if (local == t->local || (only >= 0 && only != r)) continue;
      for (int i = l->local_items[r]; i < l->local_items[r + 1]; i++) {
        if (!c->item[s][i]) continue;
        const char *first = (const char *)c->item[s][i] + (size_t)(begin - x->begin) * b->width;
        const size_t window = window_of(t, local, first),
                     last = window_of(t, local, first + (size_t)(end - begin) * b->width - 1);
        memset(t->touched + (size_t)local * t->windows + window, 1, last - window + 1);
      }
    }
  }
}

/* Marks the shared memory that this rank will touch: of a sum, its part of each segment in all ranks' arenas; of other
 * moves, the segments that it copies from their origin. */
static void note_touched(sl__tree *t, const sl__lane *l, const sl__cargo *c) {
  for (int k = 0; k < c->n; k++) {
    const sl__segment *g = &c->segment[k];
    int64_t from, to;
    sl__part_of(g->count, c->b->width, l->local, l->locals, &from, &to);
    if (c->b->sum)
      touch(t, l, c, g->at + from, g->at + to, -1);
    else if (g->from != l->group->rank && (g->to < 0 || g->to == l->group->rank))
      touch(t, l, c, g->at, g->at + g->count, g->from - l->node_rank[l->my_node]);
  }
}

/* Finds the addresses of all ranks' items of the bucket, if the group is on one node and all items lie in its shared
 * memory. */
static sl_status share(sl_exchange *e, sl__group *g, sl__bucket *b) {
  sl__tree *t = (sl__tree *)e;
  const sl__lane *l = g->own;
  sl__cargo *c = b->own;
  const int mine = g->items, first = l->node_rank[l->my_node];
  int inside = t->arena_window != MPI_WIN_NULL && l->nodes == 1 && l->locals > 1, together = 0;
  for (int s = 0; s < b->n; s++)
    for (int i = 0; i < mine; i++) {
      c->own[s * mine + i] = offset_of(t, &b->stretch[s], b->sum ? i : 0, b->width);
      inside &= c->own[s * mine + i] >= -1;
    }
  SL_TRY(sl_comm_status(MPI_Allreduce(&inside, &together, 1, MPI_INT, MPI_MIN, g->comm), "MPI_Allreduce"));
  if (!together) return SL_OK;
  for (int r = 0; r < l->locals; r++) {
    c->part[r] = b->n * (l->local_items[r + 1] - l->local_items[r]);
    c->part[l->locals + r] = b->n * l->local_items[r];
  }
  SL_TRY(sl_comm_agree(g->comm, sl_comm_status(MPI_Allgatherv(c->own, c->part[l->local], MPI_INT64_T, c->offset,
                                                              c->part, c->part + l->locals, MPI_INT64_T, l->node),
                                               "MPI_Allgatherv")));
  for (int r = 0; r < l->locals; r++)
    for (int s = 0; s < b->n; s++)
      for (int i = 0, n = l->local_items[r + 1] - l->local_items[r]; i < n; i++) {
        const int64_t at = c->offset[c->part[l->locals + r] + s * n + i];
        c->item[s][l->local_items[r] + i] = at < 0 ? NULL : t->base_of[g->member[first + r] - t->node_of[e->rank]] + at;
      }
  c->shared = c->item;
  note_touched(t, l, c);
  return SL_OK;
}

/* Elements of a segment of a leg. Sums that cross to one node whole use shorter segments: a leader has room for
 * one node's part of a normal segment. */
static int64_t segment_most(const sl__lane *l, const sl__cargo *c, const sl__leg *r) {
  const int whole = c->b->sum && r->to >= 0 && !c->relayed;
  return (int64_t)((whole ? l->segment / (size_t)l->nodes : l->segment) / c->b->width);
}

/* Cuts the legs into segments. The segments of different legs take turns, so that several nodes send at once. */
static sl_status cut(const sl__lane *l, sl__cargo *c) {
  const sl__bucket *b = c->b;
  int64_t pieces = 1;
  for (int i = 0; i < b->n_legs; i++) pieces += b->leg[i].count / segment_most(l, c, &b->leg[i]) + 1;
  c->segment = calloc((size_t)pieces, sizeof *c->segment);
  if (!c->segment) return sl_no_memory("for a bucket of %lld segments", (long long)pieces);
  for (int64_t turn = 0, left = b->count; left > 0; turn++)
    for (int i = 0; i < b->n_legs; i++) {
      const sl__leg *r = &b->leg[i];
      const int64_t most = segment_most(l, c, r), at = turn * most, n = r->count - at < most ? r->count - at : most;
      if (n <= 0) continue;
      c->segment[c->n++] = (sl__segment){r->begin + at, n, r->from, r->to};
      left -= n;
    }
  if (c->n == 0) c->segment[c->n++] = (sl__segment){0, 0, SL_EXCHANGE_ALL, SL_EXCHANGE_ALL};
  return SL_OK;
}

/* Whether messages of the bucket are compressed. Leaders then need memory for residuals. */
static int is_compressed(const sl__lane *l, const sl__bucket *b) {
  return ((const sl__tree *)l->e)->compression.kind != SL_COMPRESSION_NONE && l->nodes > 1 && b->dtype == SL_F32 &&
         b->lossy;
}

/* Whether all of a bucket goes from one rank to all, or as a sum to one, and is long enough to be relayed
 * (SL_EXCHANGE_RELAYED_BYTES). A compressed sum for one rank goes directly: its messages are short. */
static int is_relayed(const sl__lane *l, const sl__bucket *b) {
  if (l->nodes <= 2 || b->n_legs != 1 || (size_t)b->count * b->width < SL_EXCHANGE_RELAYED_BYTES) return 0;
  return b->sum ? b->leg[0].to >= 0 && !is_compressed(l, b) : b->leg[0].to < 0;
}

/* Allocates the tables of the node's items, by stretch. */
static sl_status make_tables(const sl__lane *l, sl__cargo *c) {
  const size_t rows = (size_t)c->b->n, all = (size_t)l->local_items[l->locals];
  c->own = malloc((rows * (size_t)l->group->items + 1) * sizeof *c->own);
  c->offset = malloc((rows * all + 1) * sizeof *c->offset);
  c->part = malloc(2 * (size_t)l->locals * sizeof *c->part);
  c->item = calloc(rows + 1, sizeof *c->item);
  int fine = c->own && c->offset && c->part && c->item;
  for (size_t s = 0; s < rows && fine; s++) fine = (c->item[s] = malloc(all * sizeof **c->item)) != NULL;
  return fine ? SL_OK : sl_no_memory("for a bucket of %d arrays", c->b->n);
}

static sl_status add(sl_exchange *e, sl__group *g, sl__bucket *b) {
  sl__tree *t = (sl__tree *)e;
  sl__lane *l = g->own;
  sl__cargo *c = b->own = calloc(1, sizeof *c);
  if (!c) return sl_no_memory("for a bucket of %d arrays", b->n);
  c->b = b;
  c->relayed = is_relayed(l, b);
  SL_TRY(cut(l, c));
  SL_TRY(make_tables(l, c));
  if (!is_compressed(l, b) || l->local != 0) return SL_OK;
  const size_t floats = (size_t)(l->node_items[l->my_node + 1] - l->node_items[l->my_node]) * (size_t)b->count;
  c->residual = calloc(floats + 1, sizeof *c->residual);
  if (!c->residual) return sl_no_memory("for the residuals of messages of %zu floats", floats);
  t->memory += floats * sizeof *c->residual;
  return SL_OK;
}

static void remove_bucket(sl_exchange *e, sl__bucket *b) {
  sl__cargo *c = b->own;
  (void)e;
  if (!c) return;
  for (int s = 0; c->item && s < b->n; s++) free(c->item[s]);
  free(c->own), free(c->offset), free(c->part), free(c->item), free(c->segment), free(c->residual), free(c);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

/* Lists the additions that form the subtree over leaves [first, first + n) from the items, which are whole subtrees in
 * ascending order. */
static int sum(sl__additions *p, const sl_leaves *items, int count, int first, int n) {
  for (int i = 0; i < count; i++)
    if (items[i].first == first && items[i].n == n) return i;
  const int half = sl_left_branch(n), to = sum(p, items, count, first, half),
            from = sum(p, items, count, first + half, n - half);
  p->step[p->n++] = (sl__addition){to, from};
  return to;
}

/* Finds the group's nodes: runs of consecutive members that share memory. Without shared memory each member is a node.
 */
static sl_status find_nodes(sl__lane *l, int no_shared) {
  const sl__tree *t = (const sl__tree *)l->e;
  const sl__group *g = l->group;
  l->nodes = 0;
  for (int r = 0; r < g->ranks; r++) {
    if (no_shared || r == 0 || t->node_of[g->member[r]] != t->node_of[g->member[r - 1]]) l->node_rank[l->nodes++] = r;
    if (r == g->rank) l->my_node = l->nodes - 1;
  }
  l->node_rank[l->nodes] = g->ranks;
  l->local = g->rank - l->node_rank[l->my_node];
  l->locals = l->node_rank[l->my_node + 1] - l->node_rank[l->my_node];
  const int node = MPI_Comm_split(g->comm, l->my_node, g->rank, &l->node),
            leaders = MPI_Comm_split(g->comm, l->local == 0 ? 0 : MPI_UNDEFINED, g->rank, &l->leaders);
  return sl_comm_status(node != MPI_SUCCESS ? node : leaders, "MPI_Comm_split");
}

/* Makes the tables of items, and the lists of additions inside the node and across nodes. */
static sl_status find_items(sl__lane *l) {
  const sl__group *g = l->group;
  const size_t leaves = (size_t)g->leaves;
  sl_leaves mine[SL_MAX_SUBTREES];
  const int begin = l->node_rank[l->my_node], end = l->node_rank[l->my_node + 1];
  sl_leaves *inside = malloc(leaves * sizeof *inside), *across = malloc(leaves * sizeof *across);
  l->local_items = calloc((size_t)l->locals + 1, sizeof *l->local_items);
  l->node_items = calloc((size_t)l->nodes + 1, sizeof *l->node_items);
  l->inside.step = malloc(leaves * sizeof *l->inside.step);
  l->across.step = malloc(leaves * sizeof *l->across.step);
  l->place = malloc(leaves * sizeof *l->place);
  sl_status status = SL_OK;
  if (!inside || !across || !l->local_items || !l->node_items || !l->inside.step || !l->across.step || !l->place)
    SL_TRY_OUT(sl_no_memory("for a tree of %d leaves", g->leaves));
  for (int r = begin; r < end; r++) {
    const int n = sl_subtrees(g->leaves, (sl_leaves){g->first[r], g->first[r + 1] - g->first[r]}, mine),
              at = l->local_items[r - begin];
    memcpy(inside + at, mine, (size_t)n * sizeof *mine);
    l->local_items[r - begin + 1] = at + n;
  }
  for (int k = 0; k < l->nodes; k++) {
    const int from = g->first[l->node_rank[k]], to = g->first[l->node_rank[k + 1]];
    const int n = sl_subtrees(g->leaves, (sl_leaves){from, to - from}, mine), at = l->node_items[k];
    memcpy(across + at, mine, (size_t)n * sizeof *mine);
    l->node_items[k + 1] = at + n;
    for (int i = 0; k == l->my_node && i < n; i++)
      l->place[i] = sum(&l->inside, inside, l->local_items[l->locals], mine[i].first, mine[i].n);
  }
  sum(&l->across, across, l->node_items[l->nodes], 0, g->leaves);
out:
  free(inside), free(across);
  return status;
}

/* Allocates the node's boards and slabs in a window that its ranks share. Collective. *fits: 0 if some node has too
 * little shared memory. */
static sl_status find_memory(sl__lane *l, int *fits) {
  const size_t boards = sl__round_up((size_t)l->locals * sizeof(sl__board), SL__LINE),
               slabs = SL__DEPTH * (size_t)l->local_items[l->locals] * l->segment;
  MPI_Comm_set_errhandler(l->node, MPI_ERRORS_RETURN);
  SL_TRY(allocate_windows(l->node, l->group->comm, l->locals == 1, l->local == 0 ? boards + slabs + SL__LINE : 0,
                          &l->window, fits));
  if (!*fits) return SL_OK;
  if (l->locals == 1) {
    l->private_memory = aligned_alloc(SL__LINE, sl__round_up(boards + slabs, SL__LINE));
    if (!l->private_memory) return sl_no_memory("for exchanging %zu bytes at once", slabs);
    l->boards = l->private_memory;
  } else {
    SL_TRY(find_window(l->window, 0, &l->boards, NULL));
  }
  l->memory = boards + SL__DEPTH * (size_t)l->group->items * l->segment;
  l->slab = (char *)l->boards + boards;
  for (int i = 0; i < l->group->items; i++) /* each rank touches the slabs that it fills */
    for (int d = 0; d < SL__DEPTH; d++)
      memset(sl__item_memory(l, (uint64_t)d, l->local_items[l->local] + i), 0, l->segment);
  memset(&l->boards[l->local], 0, sizeof(sl__board));
  return l->local == 0 && l->nodes > 1 ? sl__crossings_prepare(l) : SL_OK;
}

static void release_lane(sl__lane *l) {
  if (l->window != MPI_WIN_NULL) MPI_Win_free(&l->window);
  if (l->leaders != MPI_COMM_NULL) MPI_Comm_free(&l->leaders);
  if (l->node != MPI_COMM_NULL) MPI_Comm_free(&l->node);
  sl__crossings_release(l);
  free(l->private_memory);
  free(l->local_items), free(l->node_items), free(l->place), free(l->inside.step), free(l->across.step);
  l->private_memory = NULL, l->local_items = l->node_items = l->place = NULL;
  l->inside = l->across = (sl__additions){0};
}

static sl_status prepare_lane(sl__lane *l, int no_shared, int *fits) {
  const sl__tree *t = (const sl__tree *)l->e;
  sl_status status = find_nodes(l, no_shared);
  l->segment = sl__round_up(t->segment ? t->segment : l->nodes > 1 ? SEGMENT_MESSAGES : SEGMENT_SHARED, SL__LINE);
  if (status == SL_OK) status = find_items(l);
  SL_TRY(sl_comm_agree(l->group->comm, status));
  return sl_comm_agree(l->group->comm, find_memory(l, fits)); /* also a barrier: no rank reads boards not yet zeroed */
}

/* If some node has too little shared memory, all ranks of the group use messages. */
static sl_status open_group(sl_exchange *e, sl__group *g) {
  int fits = 0;
  sl__lane *l = g->own = calloc(1, sizeof *l);
  if (l) {
    l->e = e, l->group = g;
    l->node = l->leaders = MPI_COMM_NULL;
    l->window = MPI_WIN_NULL;
    l->node_rank = malloc((size_t)(g->ranks + 1) * sizeof *l->node_rank);
  }
  SL_TRY(sl_comm_agree(g->comm, l && l->node_rank ? SL_OK : sl_no_memory("for a group of %d ranks", g->ranks)));
  SL_TRY(prepare_lane(l, 0, &fits));
  if (fits) return SL_OK;
  release_lane(l);
  e->nodes = e->ranks; /* callers must not rely on shared memory either (sl_exchange_nodes) */
  return prepare_lane(l, 1, &fits);
}

static void close_group(sl_exchange *e, sl__group *g) {
  sl__lane *l = g->own;
  (void)e;
  if (!l) return;
  release_lane(l);
  free(l->node_rank), free(l);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

/* Finds each rank's node: the ranks that share memory, if they are consecutive; otherwise every rank is a node. A rank
 * that has failed makes the same collective calls as the others, up to the next agreement. */
static sl_status find_machine(sl__tree *t, const sl_exchange_options *o) {
  sl_exchange *e = &t->base;
  MPI_Comm node = MPI_COMM_NULL;
  int own = e->rank, scattered = 0, code = MPI_SUCCESS;
  sl_status status = t->node_of ? SL_OK : sl_no_memory("for %d ranks", e->ranks);
  if (!o->no_shared) {
    code = o->node != MPI_COMM_NULL ? MPI_Comm_dup(o->node, &node)
                                    : MPI_Comm_split_type(e->comm, MPI_COMM_TYPE_SHARED, e->rank, MPI_INFO_NULL, &node);
    if (status == SL_OK) status = sl_comm_status(code, "MPI_Comm_split_type");
  }
  SL_TRY_OUT(sl_comm_agree(e->comm, status));
  if (!o->no_shared) code = MPI_Allreduce(&e->rank, &own, 1, MPI_INT, MPI_MIN, node);
  status = sl_comm_status(code, "MPI_Allreduce");
  if (o->ranks_per_node > 0) own += (e->rank - own) / o->ranks_per_node * o->ranks_per_node;
  code = MPI_Allgather(&own, 1, MPI_INT, t->node_of, 1, MPI_INT, e->comm);
  if (status == SL_OK) status = sl_comm_status(code, "MPI_Allgather");
  for (int r = 0; r < e->ranks; r++) scattered |= t->node_of[r] != r && (r == 0 || t->node_of[r] != t->node_of[r - 1]);
  for (int r = 0; r < e->ranks && scattered; r++) t->node_of[r] = r;
  code = MPI_Comm_split(e->comm, t->node_of[e->rank], e->rank, &t->node);
  if (status == SL_OK) status = sl_comm_status(code, "MPI_Comm_split");
  SL_TRY_OUT(sl_comm_agree(e->comm, status));
  MPI_Comm_set_errhandler(t->node, MPI_ERRORS_RETURN);
  MPI_Comm_rank(t->node, &t->local);
  MPI_Comm_size(t->node, &t->locals);
out:
  if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
  return status;
}

/* Allocates the bells of the node's ranks in shared memory. Without shared memory every rank is a node. */
static sl_status hang_bells(sl__tree *t) {
  sl_exchange *e = &t->base;
  int fits = 1;
  SL_TRY(allocate_windows(t->node, e->comm, t->locals == 1,
                          t->local == 0 ? (size_t)(t->locals + 1) * sizeof(sl__bell) : 0, &t->bell_window, &fits));
  sl_status status = SL_OK;
  for (int r = 0; r < e->ranks && !fits; r++) t->node_of[r] = r;
  if (!fits) t->local = 0, t->locals = 1;
  if (t->locals > 1) status = find_window(t->bell_window, 0, &t->bells, NULL);
  if (t->bells) e->bell = &t->bells[t->local];
  atomic_store(&e->bell->event, 0), atomic_store(&e->bell->asleep, 0);
  e->nodes = 0;
  for (int r = 0; r < e->ranks; r++) e->nodes += t->node_of[r] == r;
  return sl_comm_agree(e->comm, status);
}

static sl_status start(sl_exchange *e, const sl_exchange_options *o) {
  sl__tree *t = (sl__tree *)e;
  t->node = MPI_COMM_NULL;
  t->bell_window = t->arena_window = MPI_WIN_NULL;
  t->compression = o->compression;
  t->segment = o->segment;
  t->node_of = malloc((size_t)e->ranks * sizeof *t->node_of);
  SL_TRY(find_machine(t, o));
  return hang_bells(t);
}

static void stop(sl_exchange *e) {
  sl__tree *t = (sl__tree *)e;
  if (t->arena_window != MPI_WIN_NULL)
    MPI_Win_free(&t->arena_window);
  else
    free(t->arena);
  if (t->bell_window != MPI_WIN_NULL) MPI_Win_free(&t->bell_window);
  if (t->node != MPI_COMM_NULL) MPI_Comm_free(&t->node);
  free(t->base_of), free(t->touched), free(t->node_of);
}

static uint64_t sent(const sl_exchange *e) { return ((const sl__tree *)e)->sent; }

static size_t memory(const sl_exchange *e) {
  const sl__tree *t = (const sl__tree *)e;
  size_t bytes = t->memory;
  for (int i = 0; i < e->n_groups; i++)
    if (e->group[i]->own) bytes += ((const sl__lane *)e->group[i]->own)->memory;
  for (size_t k = 0; t->touched && k < (size_t)t->locals * t->windows; k++) bytes += t->touched[k] ? WINDOW : 0;
  return bytes;
}

static const sl__exchange_functions functions = {.bytes = sizeof(sl__tree),
                                                 .start = start,
                                                 .stop = stop,
                                                 .open_group = open_group,
                                                 .close_group = close_group,
                                                 .allocate = allocate,
                                                 .add = add,
                                                 .share = share,
                                                 .remove = remove_bucket,
                                                 .advance = sl__tree_advance,
                                                 .waits_for = sl__tree_waits_for,
                                                 .sent = sent,
                                                 .memory = memory};

const sl_exchange_type sl__exchange_tree = {.name = "tree",
                                            .summary = "a fixed tree, with the same bits on any number of ranks",
                                            .same_bits = 1,
                                            .compresses = 1,
                                            .shares_memory = 1,
                                            .tells_whom = 1,
                                            .counts_bytes = 1,
                                            .functions = &functions};
