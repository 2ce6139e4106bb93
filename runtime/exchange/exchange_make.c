/* Making an exchange engine: which ranks share memory, which of the tree's additions are made where, the memory. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exchange/exchange_parts.h"

enum { PAGE = 4096 };
#define SEGMENT_SHARED ((size_t)256 << 10) /* stays in the caches between a rank's write and another's read */
#define SEGMENT_MESSAGES ((size_t)1 << 20) /* long enough to hide a message's latency, short enough to overlap */

/* The additions that make the subtree over [first, first + n) of the items, which are ascending and whole subtrees. */
static int sum(sl__additions *p, const sl_leaves *items, int count, int first, int n) {
  for (int i = 0; i < count; i++)
    if (items[i].first == first && items[i].n == n) return i;
  const int half = sl_left_branch(n), to = sum(p, items, count, first, half),
            from = sum(p, items, count, first + half, n - half);
  p->step[p->n++] = (sl__addition){to, from};
  return to;
}

/* The same verdict on all ranks. */
static sl_status agree(const sl_exchange *e, sl_status status) {
  int mine = status, worst = SL_OK;
  SL_TRY(sl_comm_status(MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, e->comm), "MPI_Allreduce"));
  if (worst != SL_OK && status == SL_OK)
    return sl_fail((sl_status)worst, "another rank could not prepare its exchange: %s",
                   sl_status_text((sl_status)worst));
  return status;
}

sl_status sl_exchange_allocate(sl_exchange *e, size_t bytes, void **memory) {
  *memory = NULL;
  if (e->arena) return sl_fail(SL_EEXIST, "the exchange has allocated its memory already");
  int shares = e->nodes == 1 && e->locals > 1;
  if (shares) {
    void *base;
    shares = MPI_Win_allocate_shared((MPI_Aint)sl__round_up(bytes + PAGE, PAGE), 1, MPI_INFO_NULL, e->node, &base,
                                     &e->arena_window) == MPI_SUCCESS;
    if (!shares) e->arena_window = MPI_WIN_NULL;
  }
  int all = 0;
  SL_TRY(sl_comm_status(MPI_Allreduce(&shares, &all, 1, MPI_INT, MPI_MIN, e->comm), "MPI_Allreduce"));
  if (shares && !all) MPI_Win_free(&e->arena_window);
  e->base = calloc((size_t)e->locals, sizeof *e->base);
  if (!all) e->arena = aligned_alloc(PAGE, sl__round_up(bytes + 1, PAGE));
  SL_TRY(agree(
      e, e->base && (all || e->arena) ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %zu bytes to exchange", bytes)));
  for (int r = 0; r < e->locals && all; r++) {
    MPI_Aint size;
    int unit;
    void *base;
    SL_TRY(sl_comm_status(MPI_Win_shared_query(e->arena_window, r, &size, &unit, &base), "MPI_Win_shared_query"));
    e->base[r] = (char *)sl__round_up((uintptr_t)base, SL__LINE);
  }
  if (all) e->arena = e->base[e->local];
  e->arena_bytes = bytes;
  *memory = e->arena;
  return SL_OK;
}

/* Where the items of the node's ranks are here, if all of them lie in the memory that the ranks share. */
static sl_status find_shared(sl_exchange *e, sl__bucket *b) {
  const int all = e->local_items[e->locals];
  const size_t bytes = sl_dtype_bytes(b->dtype);
  int64_t *mine = malloc((size_t)e->items * sizeof *mine), *offset = malloc((size_t)all * sizeof *offset);
  int *count = malloc((size_t)e->locals * sizeof *count), inside = e->arena_window != MPI_WIN_NULL;
  sl_status status = SL_OK;
  SL_TRY_OUT(agree(e, mine && offset && count ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a bucket")));
  for (int r = 0; r < e->locals; r++) count[r] = e->local_items[r + 1] - e->local_items[r];
  for (int s = 0; s < b->n; s++)
    for (int i = 0; i < e->items && inside; i++) {
      const int64_t at = (char *)b->stretch[s].mine[i] - (char *)e->arena;
      inside = at >= 0 && (size_t)at + (size_t)b->stretch[s].count * bytes <= e->arena_bytes;
    }
  SL_TRY_OUT(sl_comm_status(MPI_Allreduce(&inside, &b->direct, 1, MPI_INT, MPI_MIN, e->comm), "MPI_Allreduce"));
  for (int s = 0; s < b->n && b->direct; s++) {
    for (int i = 0; i < e->items; i++) mine[i] = (char *)b->stretch[s].mine[i] - (char *)e->arena;
    SL_TRY_OUT(
        sl_comm_status(MPI_Allgatherv(mine, e->items, MPI_INT64_T, offset, count, e->local_items, MPI_INT64_T, e->node),
                       "MPI_Allgatherv"));
    for (int r = 0; r < e->locals; r++)
      for (int i = e->local_items[r]; i < e->local_items[r + 1]; i++) b->stretch[s].node[i] = e->base[r] + offset[i];
  }
out:
  free(mine), free(offset), free(count);
  return status;
}

static void release_bucket(sl__bucket *b) {
  for (int s = 0; s < b->n; s++) free(b->stretch[s].mine), free(b->stretch[s].node);
  free(b->stretch), free(b->lacks);
}

/* Which node the bucket's rank is of, and which of its ranks. */
static void find_owner(const sl_exchange *e, sl__bucket *b) {
  const int rank = b->move.rank;
  b->owner = b->home = -1;
  if (rank < 0) return;
  while (e->node_rank[b->home + 1] <= rank) b->home++;
  if (b->home == e->my_node) b->owner = rank - e->node_rank[e->my_node];
}

/* Whether this rank compresses what it sends of the bucket. */
static int compresses(const sl_exchange *e, const sl__bucket *b) {
  return e->compression.kind != SL_COMPRESSION_NONE && e->nodes > 1 && e->local == 0 && b->dtype == SL_F32 &&
         b->move.lossy && b->move.kind == SL_EXCHANGE_SUM;
}

sl_status sl_exchange_add(sl_exchange *e, sl_exchange_move move, sl_dtype dtype, const sl_stretch *from, int n,
                          int *number) {
  if (dtype != SL_F32 && dtype != SL_F64) return sl_fail(SL_EINVAL, "an exchange of %s", sl_dtype_name(dtype));
  if (move.rank < (move.kind == SL_EXCHANGE_COPY ? 0 : -1) || move.rank >= e->ranks)
    return sl_fail(SL_EINVAL, "an exchange with rank %d of %d", move.rank, e->ranks);
  sl_status status = SL_OK;
  sl__bucket b = {.move = move, .dtype = dtype, .stretch = calloc((size_t)n + 1, sizeof *b.stretch)};
  find_owner(e, &b);
  sl__bucket *more = realloc(e->bucket, (size_t)(e->n_buckets + 1) * sizeof *more);
  if (more) e->bucket = more;
  int fine = more && b.stretch;
  for (int i = 0; i < n && fine; i++) {
    if (from[i].count == 0) continue;
    sl__stretch *s = &b.stretch[b.n++];
    *s = (sl__stretch){.begin = b.count,
                       .count = from[i].count,
                       .mine = malloc((size_t)e->items * sizeof *s->mine),
                       .node = malloc((size_t)e->local_items[e->locals] * sizeof *s->node)};
    fine = s->mine && s->node;
    for (int k = 0; k < e->items && fine; k++) s->mine[k] = from[i].data[move.kind == SL_EXCHANGE_COPY ? 0 : k];
    b.count += from[i].count;
  }
  const size_t lacks = compresses(e, &b) ? (size_t)(e->node_items[e->my_node + 1] - e->node_items[e->my_node]) : 0;
  if (fine && lacks) fine = (b.lacks = calloc(lacks * (size_t)b.count + 1, sizeof *b.lacks)) != NULL;
  if (!fine)
    status = sl_fail(SL_ENOMEM, "no memory for a bucket of %d arrays", n);
  else if (b.count == 0 && move.kind == SL_EXCHANGE_SUM)
    status = sl_fail(SL_EINVAL, "a bucket without elements");
  SL_TRY_OUT(agree(e, status));
  SL_TRY_OUT(find_shared(e, &b));
  *number = e->n_buckets;
  e->bucket[e->n_buckets++] = b;
  e->memory += lacks * (size_t)b.count * sizeof *b.lacks;
  return SL_OK;
out:
  release_bucket(&b);
  return status;
}

/* Groups of consecutive ranks that share memory; every rank on its own where they do not. */
static sl_status find_nodes(sl_exchange *e, const sl_exchange_options *o) {
  MPI_Comm node = MPI_COMM_NULL;
  int *leader = malloc((size_t)e->ranks * sizeof *leader), own = e->rank;
  if (!leader) return sl_fail(SL_ENOMEM, "no memory for %d ranks", e->ranks);
  sl_status status = SL_OK;
  if (!o->no_shared) {
    if (o->node != MPI_COMM_NULL)
      SL_TRY_OUT(sl_comm_status(MPI_Comm_dup(o->node, &node), "MPI_Comm_dup"));
    else
      SL_TRY_OUT(sl_comm_status(MPI_Comm_split_type(e->comm, MPI_COMM_TYPE_SHARED, e->rank, MPI_INFO_NULL, &node),
                                "MPI_Comm_split_type"));
    SL_TRY_OUT(sl_comm_status(MPI_Allreduce(&e->rank, &own, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce"));
    if (o->ranks_per_node > 0) own += (e->rank - own) / o->ranks_per_node * o->ranks_per_node;
  }
  SL_TRY_OUT(sl_comm_status(MPI_Allgather(&own, 1, MPI_INT, leader, 1, MPI_INT, e->comm), "MPI_Allgather"));
  int scattered = 0;
  for (int r = 0; r < e->ranks; r++) scattered |= leader[r] != r && (r == 0 || leader[r] != leader[r - 1]);
  for (int r = 0; r < e->ranks; r++) {
    if (scattered) leader[r] = r;
    if (leader[r] == r) e->node_rank[e->nodes++] = r;
    if (r == e->rank) e->my_node = e->nodes - 1;
  }
  e->node_rank[e->nodes] = e->ranks;
  SL_TRY_OUT(sl_comm_status(MPI_Comm_split(e->comm, leader[e->rank], e->rank, &e->node), "MPI_Comm_split"));
  MPI_Comm_rank(e->node, &e->local);
  MPI_Comm_size(e->node, &e->locals);
  SL_TRY_OUT(sl_comm_status(MPI_Comm_split(e->comm, e->local == 0 ? 0 : MPI_UNDEFINED, e->rank, &e->leaders),
                            "MPI_Comm_split"));
out:
  if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
  free(leader);
  return status;
}

/* The tables of items, and the additions inside the node and across nodes. */
static sl_status find_items(sl_exchange *e) {
  sl_leaves mine[SL_MAX_SUBTREES];
  const int begin = e->node_rank[e->my_node], end = e->node_rank[e->my_node + 1];
  sl_leaves *inside = malloc((size_t)e->leaves * sizeof *inside), *across = malloc((size_t)e->leaves * sizeof *across);
  e->local_items = calloc((size_t)e->locals + 1, sizeof *e->local_items);
  e->node_items = calloc((size_t)e->nodes + 1, sizeof *e->node_items);
  e->inside.step = malloc((size_t)e->leaves * sizeof *e->inside.step);
  e->across.step = malloc((size_t)e->leaves * sizeof *e->across.step);
  e->place = malloc((size_t)e->leaves * sizeof *e->place);
  sl_status status = SL_OK;
  if (!inside || !across || !e->local_items || !e->node_items || !e->inside.step || !e->across.step || !e->place) {
    status = sl_fail(SL_ENOMEM, "no memory for a tree of %d leaves", e->leaves);
    goto out;
  }
  for (int r = begin; r < end; r++) {
    const int n = sl_subtrees(e->leaves, (sl_leaves){e->first[r], e->first[r + 1] - e->first[r]}, mine),
              at = e->local_items[r - begin];
    memcpy(inside + at, mine, (size_t)n * sizeof *mine);
    e->local_items[r - begin + 1] = at + n;
    if (r == e->rank) e->items = n;
  }
  for (int k = 0; k < e->nodes; k++) {
    const int from = e->first[e->node_rank[k]], to = e->first[e->node_rank[k + 1]];
    const int n = sl_subtrees(e->leaves, (sl_leaves){from, to - from}, mine), at = e->node_items[k];
    memcpy(across + at, mine, (size_t)n * sizeof *mine);
    e->node_items[k + 1] = at + n;
    for (int i = 0; k == e->my_node && i < n; i++)
      e->place[i] = sum(&e->inside, inside, e->local_items[e->locals], mine[i].first, mine[i].n);
  }
  sum(&e->across, across, e->node_items[e->nodes], 0, e->leaves);
out:
  free(inside), free(across);
  return status;
}

/* The node's slabs, in a window that its ranks share. *fits: 0 when this node's shared memory is too small. */
static sl_status find_memory(sl_exchange *e, int *fits) {
  const size_t boards = sl__round_up((size_t)e->locals * sizeof(sl__board), SL__LINE),
               slabs = SL__DEPTH * (size_t)e->local_items[e->locals] * e->segment;
  *fits = 1;
  if (e->locals == 1) {
    e->private_memory = aligned_alloc(SL__LINE, sl__round_up(boards + slabs, SL__LINE));
    if (!e->private_memory) return sl_fail(SL_ENOMEM, "no memory for exchanging %zu bytes at once", slabs);
    e->boards = e->private_memory;
    e->memory = boards + slabs;
  } else {
    MPI_Aint bytes = e->local == 0 ? (MPI_Aint)(boards + slabs + SL__LINE) : 0;
    int unit;
    void *base;
    MPI_Comm_set_errhandler(e->node, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, e->node, &base, &e->window) != MPI_SUCCESS) {
      e->window = MPI_WIN_NULL;
      *fits = 0;
      return SL_OK;
    }
    SL_TRY(sl_comm_status(MPI_Win_shared_query(e->window, 0, &bytes, &unit, &base), "MPI_Win_shared_query"));
    e->boards = (sl__board *)(((uintptr_t)base + SL__LINE - 1) / SL__LINE * SL__LINE);
    e->memory = boards + SL__DEPTH * (size_t)e->items * e->segment;
  }
  e->slab = (char *)e->boards + boards;
  for (int i = 0; i < e->items; i++) /* touched where they are filled */
    for (int d = 0; d < SL__DEPTH; d++)
      memset(sl__item_memory(e, (uint64_t)d, e->local_items[e->local] + i), 0, e->segment);
  memset(&e->boards[e->local], 0, sizeof(sl__board));
  return e->local == 0 && e->nodes > 1 ? sl__crossings_prepare(e) : SL_OK;
}

static void release_groups(sl_exchange *e) {
  if (e->window != MPI_WIN_NULL) MPI_Win_free(&e->window);
  if (e->leaders != MPI_COMM_NULL) MPI_Comm_free(&e->leaders);
  if (e->node != MPI_COMM_NULL) MPI_Comm_free(&e->node);
  sl__crossings_release(e);
  free(e->private_memory);
  free(e->local_items), free(e->node_items), free(e->place), free(e->inside.step), free(e->across.step);
  e->private_memory = NULL, e->local_items = e->node_items = e->place = NULL;
  e->inside = e->across = (sl__additions){0};
  e->nodes = 0;
}

static sl_status prepare(sl_exchange *e, const sl_exchange_options *o, int *fits) {
  *fits = 1;
  SL_TRY(find_nodes(e, o));
  e->segment = sl__round_up(o->segment ? o->segment : e->nodes > 1 ? SEGMENT_MESSAGES : SEGMENT_SHARED, SL__LINE);
  sl_status status = agree(e, find_items(e));
  if (status == SL_OK) status = agree(e, find_memory(e, fits));
  if (status != SL_OK) return status;
  int mine = *fits;
  return sl_comm_status(MPI_Allreduce(&mine, fits, 1, MPI_INT, MPI_MIN, e->comm), "MPI_Allreduce");
}

sl_status sl_exchange_create(const sl_exchange_options *o, sl_exchange **exchange) {
  int fits;
  *exchange = NULL;
  sl_status status = SL_OK;
  sl_exchange *e = calloc(1, sizeof *e);
  if (!e) return sl_fail(SL_ENOMEM, "no memory for an exchange");
  e->comm = e->node = e->leaders = MPI_COMM_NULL;
  e->window = e->arena_window = MPI_WIN_NULL;
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->idle, NULL);
  SL_TRY_OUT(sl_comm_status(MPI_Comm_dup(o->comm, &e->comm), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(e->comm, &e->rank);
  MPI_Comm_size(e->comm, &e->ranks);
  e->leaves = o->leaves;
  e->compression = o->compression;
  e->first = malloc((size_t)(e->ranks + 1) * sizeof *e->first);
  e->node_rank = malloc((size_t)(e->ranks + 1) * sizeof *e->node_rank);
  if (!e->first || !e->node_rank) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for %d ranks", e->ranks));
  memcpy(e->first, o->first, (size_t)(e->ranks + 1) * sizeof *e->first);
  for (int r = 0; r < e->ranks; r++)
    if (e->first[r + 1] <= e->first[r])
      SL_TRY_OUT(sl_fail(SL_EINVAL, "rank %d of %d has none of the %d leaves: use more leaves or fewer ranks", r,
                         e->ranks, e->leaves));
  if (e->first[0] != 0 || e->first[e->ranks] != e->leaves)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "the ranks' leaves are not all of the %d", e->leaves));
  SL_TRY_OUT(prepare(e, o, &fits));
  if (!fits) { /* shared memory too small somewhere: messages everywhere */
    sl_exchange_options messages = *o;
    messages.no_shared = 1;
    release_groups(e);
    SL_TRY_OUT(prepare(e, &messages, &fits));
  }
  if (o->ncpus > 0) {
    e->cpus = malloc((size_t)o->ncpus * sizeof *e->cpus);
    if (!e->cpus) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for %d CPUs", o->ncpus));
    memcpy(e->cpus, o->cpus, (size_t)o->ncpus * sizeof *e->cpus);
    e->ncpus = o->ncpus;
  }
  if (pthread_create(&e->thread, NULL, sl__exchange_run, e) != 0)
    SL_TRY_OUT(sl_fail(SL_EIO, "no thread for the exchange"));
  e->started = 1;
  pthread_setname_np(e->thread, "sl-exchange");
  SL_TRY_OUT(sl_comm_status(MPI_Barrier(e->comm), "MPI_Barrier"));
  *exchange = e;
  e = NULL;
out:
  sl_exchange_destroy(e);
  return status;
}

void sl_exchange_destroy(sl_exchange *e) {
  if (!e) return;
  if (e->started) {
    sl_exchange_wait(e);
    pthread_mutex_lock(&e->lock);
    e->stopping = 1;
    pthread_mutex_unlock(&e->lock);
    sl__exchange_wake(&e->boards[e->local]);
    pthread_join(e->thread, NULL);
  }
  if (e->arena_window != MPI_WIN_NULL)
    MPI_Win_free(&e->arena_window);
  else
    free(e->arena);
  free(e->base);
  release_groups(e);
  if (e->comm != MPI_COMM_NULL) MPI_Comm_free(&e->comm);
  for (int i = 0; i < e->n_buckets; i++) release_bucket(&e->bucket[i]);
  pthread_cond_destroy(&e->idle), pthread_mutex_destroy(&e->lock);
  free(e->bucket), free(e->first), free(e->node_rank), free(e->cpus), free(e);
}

int sl_exchange_items(const sl_exchange *e) { return e->items; }
int sl_exchange_nodes(const sl_exchange *e) { return e->nodes; }
size_t sl_exchange_memory(const sl_exchange *e) {
  const size_t others = e->arena_window == MPI_WIN_NULL ? 0 : e->arena_bytes * (size_t)(e->locals - 1);
  return e->memory + others / (size_t)e->locals;
}
uint64_t sl_exchange_sent(const sl_exchange *e) { return e->sent; }
