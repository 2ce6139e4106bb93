/* The part of an exchange that does not depend on the implementation: groups, buckets and their legs, posting, and the
 * thread. */
#include "runtime/exchange/exchange.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/exchange/engine.h"

/* ---- the thread ------------------------------------------------------------------------------------------------- */

void sl__exchange_ring(sl__bell *b) {
  atomic_fetch_add(&b->event, 1);
  if (atomic_load(&b->asleep)) syscall(SYS_futex, &b->event, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Sleeps until an event after `seen`. The system runs a woken thread at once, before computing workers; a thread that
 * polls and yields would wait for the workers' time slices. */
static void sleep_after(sl__bell *b, unsigned seen) {
  const struct timespec most = {.tv_nsec = 100000000};
  atomic_store(&b->asleep, 1);
  syscall(SYS_futex, &b->event, FUTEX_WAIT, seen, &most, NULL, 0);
  atomic_store(&b->asleep, 0);
}

static void bind_thread(const sl_exchange *e) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < e->ncpus; i++)
    if (e->cpus[i] >= 0 && e->cpus[i] < CPU_SETSIZE) CPU_SET(e->cpus[i], &set);
  if (e->ncpus > 0) pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void sl__exchange_fail(sl_exchange *e, int code, const char *call) {
  if (e->status != SL_OK) return;
  const sl_status status = sl_comm_status(code, call);
  pthread_mutex_lock(&e->lock);
  snprintf(e->error, sizeof e->error, "%s", sl_error());
  e->status = status;
  pthread_mutex_unlock(&e->lock);
}

int sl__exchange_is_posted(sl_exchange *e, const sl__bucket *b) {
  pthread_mutex_lock(&e->lock);
  const int posted = b->posted && e->status == SL_OK;
  pthread_mutex_unlock(&e->lock);
  return posted;
}

void sl__exchange_begun(sl_exchange *e, sl__bucket *b) {
  pthread_mutex_lock(&e->lock);
  b->posted = 0;
  pthread_mutex_unlock(&e->lock);
}

int sl__exchange_order(sl_exchange *e) {
  int n = 0;
  pthread_mutex_lock(&e->lock);
  for (int k = 1; k <= e->n_groups; k++) {
    const int i = (e->moved_last + k) % e->n_groups;
    if (e->group[i]->pending == 0) continue;
    int at = n++;
    for (; at > 0 && e->group[e->order[at - 1]]->urgency < e->group[i]->urgency; at--) e->order[at] = e->order[at - 1];
    e->order[at] = i;
  }
  pthread_mutex_unlock(&e->lock);
  return n;
}

void sl__exchange_end(sl_exchange *e, sl__bucket *b) {
  sl__group *g = e->group[b->group];
  pthread_mutex_lock(&e->lock);
  b->open = 0;
  g->urgency = 0;
  for (int i = 0; i < g->n; i++)
    if (g->row[i]->open && g->urgency < g->row[i]->urgency) g->urgency = g->row[i]->urgency;
  pthread_mutex_unlock(&e->lock);
  if (b->done) b->done(b->arg);
  pthread_mutex_lock(&e->lock);
  g->pending--;
  if (--e->pending == 0) pthread_cond_broadcast(&e->idle);
  pthread_mutex_unlock(&e->lock);
}

/* Ends every posted bucket after a failure, without moving data. */
static void end_all(sl_exchange *e) {
  for (int b = 0; b < e->n_buckets; b++) {
    pthread_mutex_lock(&e->lock);
    const int open = e->bucket[b]->open;
    pthread_mutex_unlock(&e->lock);
    if (open) sl__exchange_end(e, e->bucket[b]);
  }
}

/* The exchange's thread. While messages are under way it yields but does not sleep, because MPI makes progress only
 * when called. */
static void *run(void *arg) {
  sl_exchange *e = arg;
  bind_thread(e);
  for (;;) {
    const unsigned seen = atomic_load(&e->bell->event);
    pthread_mutex_lock(&e->lock);
    const int stopping = e->stopping, pending = e->pending, failed = e->status != SL_OK;
    pthread_mutex_unlock(&e->lock);
    if (stopping) return NULL;
    if (failed) end_all(e);
    sl__found found = SL__IDLE;
    if (pending && !failed) {
      sl_comm_enter();
      found = e->type->functions->advance(e);
      sl_comm_leave();
    }
    switch (found) {
      case SL__MOVED:
        e->moved = sl_seconds();
        break;
      case SL__POLL:
        sched_yield();
        break;
      case SL__IDLE:
        sleep_after(e->bell, seen);
        break;
    }
  }
}

void sl_exchange_post(sl_exchange *e, int number, void (*done)(void *arg), void *arg) {
  sl__bucket *b = e->bucket[number];
  pthread_mutex_lock(&e->lock);
  b->posted = b->open = 1;
  b->done = done, b->arg = arg;
  sl__group *g = e->group[b->group];
  g->pending++;
  if (g->urgency < b->urgency) g->urgency = b->urgency;
  if (e->pending++ == 0) e->moved = sl_seconds();
  pthread_mutex_unlock(&e->lock);
  sl__exchange_ring(e->bell);
}

sl_status sl_exchange_wait(sl_exchange *e) {
  pthread_mutex_lock(&e->lock);
  while (e->pending > 0) pthread_cond_wait(&e->idle, &e->lock);
  const sl_status status = e->status;
  pthread_mutex_unlock(&e->lock);
  return status == SL_OK ? SL_OK : sl_fail(status, "%s", e->error);
}

double sl_exchange_stalled(sl_exchange *e) {
  pthread_mutex_lock(&e->lock);
  const double seconds = e->pending > 0 ? sl_seconds() - e->moved : 0;
  pthread_mutex_unlock(&e->lock);
  return seconds;
}

/* Asks every group with a pending bucket, and prefers groups that wait for other ranks: if a group waits for this rank,
 * the cause may be that this rank waits in another group. */
int sl_exchange_waits_for(sl_exchange *e, int *number, char *late) {
  int n = 0;
  *number = -1;
  memset(late, 0, (size_t)e->ranks);
  for (int i = 0; i < e->n_groups; i++) {
    const sl__bucket *b = NULL;
    pthread_mutex_lock(&e->lock);
    const int pending = e->group[i]->pending;
    pthread_mutex_unlock(&e->lock);
    if (pending == 0) continue;
    memset(late, 0, (size_t)e->ranks);
    n = e->type->functions->waits_for(e, e->group[i], &b, late);
    if (b) *number = b->number;
    if (b && !late[e->rank]) return n;
  }
  return n;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static void release_group(sl_exchange *e, sl__group *g) {
  if (!g) return;
  e->type->functions->close_group(e, g);
  if (g->comm != MPI_COMM_NULL) MPI_Comm_free(&g->comm);
  free(g->member), free(g->first), free(g->row), free(g);
}

/* Makes a group, but not its communicator. *group is NULL after an error. */
static sl_status make_group(sl_exchange *e, const int *member, int n, int leaves, const int *first, sl__group **group) {
  sl_leaves subtree[SL_MAX_SUBTREES];
  sl__group *g = calloc(1, sizeof *g), **more = realloc(e->group, (size_t)(e->n_groups + 1) * sizeof *more);
  int *order = realloc(e->order, (size_t)(e->n_groups + 1) * sizeof *order);
  *group = NULL;
  if (more) e->group = more;
  if (order) e->order = order;
  if (g) g->comm = MPI_COMM_NULL, g->parent = -1;
  if (g) g->member = malloc((size_t)(n + 1) * sizeof *g->member), g->first = malloc((size_t)(n + 1) * sizeof *g->first);
  sl_status status = SL_OK;
  if (!more || !order || !g || !g->member || !g->first) SL_TRY_OUT(sl_no_memory("for a group of %d ranks", n));
  g->ranks = n;
  g->rank = -1;
  g->leaves = first ? leaves : n;
  g->first[0] = 0;
  for (int r = 0; r < n; r++) {
    g->member[r] = member[r];
    g->first[r + 1] = first ? first[r + 1] : r + 1;
    if (member[r] < 0 || member[r] >= e->ranks || (r > 0 && member[r] <= member[r - 1]))
      SL_TRY_OUT(sl_fail(SL_EINVAL, "a group's ranks must be ascending and below %d", e->ranks));
    if (member[r] == e->rank) g->rank = r;
    if (g->first[r + 1] <= g->first[r])
      SL_TRY_OUT(sl_fail(SL_EINVAL, "rank %d of %d has none of the %d leaves: use more leaves or fewer ranks", r, n,
                         g->leaves));
  }
  if (n > 0 && g->rank < 0)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "rank %d is not a member of the group that it declares", e->rank));
  if (n > 0 && (g->first[n] != g->leaves || (first && first[0] != 0)))
    SL_TRY_OUT(sl_fail(SL_EINVAL, "the ranks of a group do not own all of its %d leaves", g->leaves));
  if (n > 0)
    g->items =
        sl_subtrees(g->leaves, (sl_leaves){g->first[g->rank], g->first[g->rank + 1] - g->first[g->rank]}, subtree);
  *group = g;
  return SL_OK;
out:
  if (g) free(g->member), free(g->first), free(g);
  return status;
}

/* Checks that the communicator's ranks are the group's members: they differ if members declare different groups. */
static sl_status check_members(const sl_exchange *e, const sl__group *g) {
  int size = 0, same = 1;
  MPI_Group all, mine;
  int *number = malloc(2 * (size_t)(g->ranks + 1) * sizeof *number);
  if (!number) return sl_no_memory("for a group of %d ranks", g->ranks);
  MPI_Comm_group(e->comm, &all), MPI_Comm_group(g->comm, &mine);
  MPI_Group_size(mine, &size);
  if (size == g->ranks) {
    for (int r = 0; r < size; r++) number[r] = r;
    MPI_Group_translate_ranks(mine, size, number, all, number + size);
    same = memcmp(number + size, g->member, (size_t)size * sizeof *number) == 0;
  }
  MPI_Group_free(&all), MPI_Group_free(&mine);
  free(number);
  return same && size == g->ranks ? SL_OK : sl_fail(SL_EINVAL, "the ranks of a group declare different members");
}

/* Declares a group. Every rank makes the same collective calls, even after a failure; the ranks agree on a status
 * before the next call. */
static sl_status declare(sl_exchange *e, const int *member, int n, int leaves, const int *first, int *number) {
  sl__group *g;
  MPI_Comm comm = MPI_COMM_NULL;
  *number = -1;
  sl_status status = make_group(e, member, n, leaves, first, &g);
  const int code = MPI_Comm_split(e->comm, n ? member[0] : MPI_UNDEFINED, e->rank, &comm);
  if (status == SL_OK) status = sl_comm_status(code, "MPI_Comm_split");
  if (comm != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (g)
    g->comm = comm;
  else if (comm != MPI_COMM_NULL)
    MPI_Comm_free(&comm);
  if (status == SL_OK && n) status = check_members(e, g);
  SL_TRY_OUT(sl_comm_agree(e->comm, status));
  if (n) status = e->type->functions->open_group(e, g);
  SL_TRY_OUT(n == e->ranks ? status : sl_comm_agree(e->comm, status));
  const int nodes = MPI_Allreduce(MPI_IN_PLACE, &e->nodes, 1, MPI_INT, MPI_MAX, e->comm);
  SL_TRY_OUT(sl_comm_agree(e->comm, sl_comm_status(nodes, "MPI_Allreduce")));
  *number = e->n_groups;
  e->group[e->n_groups++] = g;
  return SL_OK;
out:
  release_group(e, g);
  return status;
}

sl_status sl_exchange_group(sl_exchange *e, const int *rank, int n, int leaves, const int *first, int *group) {
  return declare(e, rank, n, leaves, first, group);
}

/* Gives both ranks of a pair the same status. */
static sl_status agree_with(const sl__group *g, int peer, sl_status status) {
  enum { TAG = 1 };
  int mine = status, theirs = SL_OK;
  SL_TRY(sl_comm_status(
      MPI_Sendrecv(&mine, 1, MPI_INT, peer, TAG, &theirs, 1, MPI_INT, peer, TAG, g->comm, MPI_STATUS_IGNORE),
      "MPI_Sendrecv"));
  if (status != SL_OK || theirs == SL_OK) return status;
  return sl_fail((sl_status)theirs, "rank %d: %s", g->member[peer], sl_status_text((sl_status)theirs));
}

/* Finds, or makes, the group of two for messages in one direction between this rank and rank `peer` of the parent
 * group. Collective over the two. Each direction has an order of its own, so a late message delays none in the other
 * direction. */
static sl_status find_pair(sl_exchange *e, int parent, int peer, int sends, int *number) {
  const sl__group *g = e->group[parent];
  const int from = sends ? e->rank : g->member[peer];
  const int low = g->rank < peer ? g->rank : peer, high = g->rank < peer ? peer : g->rank;
  const int both[2] = {low, high}, member[2] = {g->member[low], g->member[high]};
  sl__group *pair;
  for (*number = 0; *number < e->n_groups; ++*number)
    if (e->group[*number]->parent == parent && e->group[*number]->member[0] == member[0] &&
        e->group[*number]->member[1] == member[1] && e->group[*number]->from == from)
      return SL_OK;
  MPI_Group all = MPI_GROUP_NULL, two = MPI_GROUP_NULL;
  sl_status status = agree_with(g, peer, make_group(e, member, 2, 2, NULL, &pair));
  SL_TRY_OUT(status);
  MPI_Comm_group(g->comm, &all);
  MPI_Group_incl(all, 2, both, &two);
  SL_TRY_OUT(agree_with(g, peer,
                        sl_comm_status(MPI_Comm_create_group(g->comm, two, 0, &pair->comm), "MPI_Comm_create_group")));
  MPI_Comm_set_errhandler(pair->comm, MPI_ERRORS_RETURN);
  SL_TRY_OUT(e->type->functions->open_group(e, pair));
  pair->parent = parent, pair->from = from;
  e->group[e->n_groups++] = pair;
  pair = NULL;
out:
  if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
  if (two != MPI_GROUP_NULL) MPI_Group_free(&two);
  release_group(e, pair);
  return status;
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static void release_bucket(sl_exchange *e, sl__bucket *b) {
  if (!b) return;
  e->type->functions->remove(e, b);
  for (int s = 0; b->stretch && s < b->n; s++) free(b->stretch[s].mine);
  free(b->stretch), free(b->leg), free(b);
}

/* The leg of one stretch: its origin and destination. rank: this rank in the group. */
static sl__leg leg_of(sl_exchange_move move, int rank, const sl_stretch *s) {
  switch (move.kind) {
    case SL_EXCHANGE_SUM:
      return (sl__leg){.from = SL_EXCHANGE_ALL, .to = move.rank == SL_EXCHANGE_PARTS ? s->rank : move.rank};
    case SL_EXCHANGE_GATHER:
      return (sl__leg){.from = s->rank, .to = move.rank};
    case SL_EXCHANGE_SCATTER:
      return (sl__leg){.from = move.rank, .to = s->rank};
    case SL_EXCHANGE_SEND:
      return (sl__leg){.from = rank, .to = !rank};
    case SL_EXCHANGE_RECEIVE:
      return (sl__leg){.from = !rank, .to = rank};
    default:
      return (sl__leg){.from = move.rank, .to = SL_EXCHANGE_ALL};
  }
}

static int is_pair(sl_exchange_move move) { return move.kind == SL_EXCHANGE_SEND || move.kind == SL_EXCHANGE_RECEIVE; }

/* Checks the arguments that are the same on every rank of the group: all but the addresses. */
static sl_status check(const sl__group *g, sl_exchange_move move, sl_dtype dtype, const sl_stretch *stretch, int n) {
  const int sum = move.kind == SL_EXCHANGE_SUM, least = sum                               ? SL_EXCHANGE_PARTS
                                                        : move.kind == SL_EXCHANGE_GATHER ? SL_EXCHANGE_ALL
                                                                                          : 0;
  const int parts =
      move.kind == SL_EXCHANGE_GATHER || move.kind == SL_EXCHANGE_SCATTER || (sum && move.rank == SL_EXCHANGE_PARTS);
  int64_t count = 0;
  if (move.kind < 0 || move.kind >= SL_EXCHANGE_KINDS)
    return sl_fail(SL_EINVAL, "unknown kind of move %d", (int)move.kind);
  if (sum && dtype != SL_F32 && dtype != SL_F64)
    return sl_fail(SL_EINVAL, "cannot sum values of type %s: sums are of F32 or F64", sl_dtype_name(dtype));
  if (!is_pair(move) && (move.rank < least || move.rank >= g->ranks))
    return sl_fail(SL_EINVAL, "a move names rank %d in a group of %d", move.rank, g->ranks);
  for (int i = 0; i < n; count += stretch[i++].count)
    if (stretch[i].count < 0 || (parts && (stretch[i].rank < 0 || stretch[i].rank >= g->ranks)))
      return sl_fail(SL_EINVAL, "a part of %lld elements for rank %d in a group of %d", (long long)stretch[i].count,
                     stretch[i].rank, g->ranks);
  return sum && count == 0 ? sl_fail(SL_EINVAL, "a sum without elements") : SL_OK;
}

/* Makes a bucket of the stretches that have elements. *bucket is NULL after an error. */
static sl_status make_bucket(sl_exchange *e, int group, sl_exchange_move move, sl_dtype dtype, const sl_stretch *from,
                             int n, sl__bucket **bucket) {
  sl__group *g = e->group[group];
  const int sum = move.kind == SL_EXCHANGE_SUM, items = sum ? g->items : 1;
  *bucket = NULL;
  SL_TRY(check(g, move, dtype, from, n));
  sl__bucket *b = calloc(1, sizeof *b), **more = realloc(e->bucket, (size_t)(e->n_buckets + 1) * sizeof *more),
             **row = realloc(g->row, (size_t)(g->n + 1) * sizeof *row);
  if (more) e->bucket = more;
  if (row) g->row = row;
  sl_status status = sl_no_memory("for a bucket of %d arrays", n);
  if (!b || !more || !row) goto out;
  *b = (sl__bucket){.number = e->n_buckets,
                    .group = group,
                    .sum = sum,
                    .lossy = sum && move.lossy,
                    .urgency = move.urgency,
                    .dtype = dtype,
                    .width = sl_dtype_bytes(dtype),
                    .stretch = calloc((size_t)n + 1, sizeof *b->stretch),
                    .leg = calloc((size_t)n + 1, sizeof *b->leg)};
  if (!b->stretch || !b->leg) goto out;
  for (int i = 0; i < n; i++) {
    if (from[i].count == 0) continue;
    sl__stretch *s = &b->stretch[b->n];
    *s = (sl__stretch){.begin = b->count, .count = from[i].count, .mine = malloc((size_t)items * sizeof *s->mine)};
    if (!s->mine) goto out;
    memcpy(s->mine, from[i].data, (size_t)items * sizeof *s->mine);
    sl__leg r = leg_of(move, g->rank, &from[i]), *last = b->n_legs ? &b->leg[b->n_legs - 1] : NULL;
    if (!s->mine[0] && (sum || r.from == g->rank || r.to == g->rank || r.to == SL_EXCHANGE_ALL)) {
      status = sl_fail(SL_EINVAL, "array %d of a bucket has no memory on rank %d", i, e->rank);
      b->n++;
      goto out;
    }
    if (last && last->from == r.from && last->to == r.to) {
      last->count += s->count;
      last->n++;
    } else {
      r.begin = b->count, r.count = s->count, r.stretch = b->n, r.n = 1;
      b->leg[b->n_legs++] = r;
    }
    b->count += s->count;
    b->n++;
  }
  *bucket = b;
  return SL_OK;
out:
  release_bucket(e, b);
  return status;
}

sl_status sl_exchange_add(sl_exchange *e, sl_exchange_move move, sl_dtype dtype, const sl_stretch *stretch, int n,
                          int *number) {
  int group = move.group;
  if (group < 0 || group >= e->n_groups || e->group[group]->ranks == 0)
    return sl_fail(SL_EINVAL, "rank %d is in no group %d", e->rank, group);
  if (is_pair(move)) {
    const sl__group *g = e->group[group];
    if (move.rank < 0 || move.rank >= g->ranks || move.rank == g->rank)
      return sl_fail(SL_EINVAL, "rank %d of %d cannot exchange with rank %d", g->rank, g->ranks, move.rank);
    SL_TRY(find_pair(e, move.group, move.rank, move.kind == SL_EXCHANGE_SEND, &group));
  }
  sl__bucket *b;
  sl__group *g = e->group[group];
  sl_status status = make_bucket(e, group, move, dtype, stretch, n, &b);
  if (status == SL_OK) status = e->type->functions->add(e, g, b);
  SL_TRY_OUT(sl_comm_agree(g->comm, status));
  const int code = MPI_Allreduce(MPI_IN_PLACE, &b->urgency, 1, MPI_DOUBLE, MPI_MAX, g->comm);
  SL_TRY_OUT(sl_comm_agree(g->comm, sl_comm_status(code, "MPI_Allreduce")));
  if (e->type->functions->share) SL_TRY_OUT(e->type->functions->share(e, g, b));
  *number = e->n_buckets;
  e->bucket[e->n_buckets++] = b;
  g->row[g->n++] = b;
  return SL_OK;
out:
  release_bucket(e, b);
  return status;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

sl_status sl_exchange_create(const sl_exchange_options *o, sl_exchange **exchange) {
  const sl_exchange_type *type = o->type;
  int *all = NULL, ranks, group;
  *exchange = NULL;
  MPI_Comm_size(o->comm, &ranks);
  sl_exchange *e = calloc(1, type->functions->bytes);
  if (e) {
    e->type = type;
    e->comm = MPI_COMM_NULL;
    e->bell = &e->own_bell;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->idle, NULL);
    all = malloc((size_t)ranks * sizeof *all);
    e->cpus = malloc((size_t)(o->ncpus + 1) * sizeof *e->cpus);
  }
  sl_status status =
      sl_comm_agree(o->comm, all && e->cpus ? SL_OK : sl_no_memory("for an exchange of %d ranks", ranks));
  SL_TRY_OUT(status);
  for (int i = 0; i < o->ncpus; i++) e->cpus[e->ncpus++] = o->cpus[i];
  for (int r = 0; r < ranks; r++) all[r] = r;
  SL_TRY_OUT(sl_comm_agree(o->comm, sl_comm_status(MPI_Comm_dup(o->comm, &e->comm), "MPI_Comm_dup")));
  MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(e->comm, &e->rank);
  e->ranks = e->nodes = ranks;
  e->prepared = 1;
  SL_TRY_OUT(type->functions->start(e, o));
  SL_TRY_OUT(declare(e, all, ranks, o->leaves, o->first, &group));
  e->started = pthread_create(&e->thread, NULL, run, e) == 0;
  if (e->started) pthread_setname_np(e->thread, "sl-exchange");
  SL_TRY_OUT(sl_comm_agree(e->comm, e->started ? SL_OK : sl_fail(SL_EIO, "cannot start a thread for the exchange")));
  *exchange = e;
  e = NULL;
out:
  sl_exchange_destroy(e);
  free(all);
  return status;
}

void sl_exchange_destroy(sl_exchange *e) {
  if (!e) return;
  if (e->started) {
    sl_exchange_wait(e);
    pthread_mutex_lock(&e->lock);
    e->stopping = 1;
    pthread_mutex_unlock(&e->lock);
    sl__exchange_ring(e->bell);
    pthread_join(e->thread, NULL);
  }
  for (int i = 0; i < e->n_buckets; i++) release_bucket(e, e->bucket[i]);
  for (int i = 0; i < e->n_groups; i++) release_group(e, e->group[i]);
  if (e->prepared) e->type->functions->stop(e);
  if (e->comm != MPI_COMM_NULL) MPI_Comm_free(&e->comm);
  pthread_cond_destroy(&e->idle), pthread_mutex_destroy(&e->lock);
  free(e->bucket), free(e->group), free(e->order), free(e->cpus), free(e);
}

sl_status sl_exchange_allocate(sl_exchange *e, size_t bytes, void **memory) {
  return e->type->functions->allocate(e, bytes, memory);
}

const sl_exchange_type *sl_exchange_type_of(const sl_exchange *e) { return e->type; }
int sl_exchange_items(const sl_exchange *e, int group) { return e->group[group]->items; }
int sl_exchange_nodes(const sl_exchange *e) { return e->nodes; }
uint64_t sl_exchange_sent(const sl_exchange *e) { return e->type->functions->sent(e); }
size_t sl_exchange_memory(const sl_exchange *e) { return e->type->functions->memory(e); }
