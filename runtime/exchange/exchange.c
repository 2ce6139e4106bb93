/* The exchange engine: the stages inside a node, and the thread.
 *
 * The buckets of a round are one endless row of segments. A segment passes four stages, each on all ranks: filled
 * (every rank has put its items into shared memory), reduced (every rank has added up its part of the segment, into the
 * place of the node's items), ready (the leader has summed the node's items with those of the other nodes) and taken
 * (every rank has copied the sums back). Several segments are under way at once, so that the stages overlap; the
 * counters of how far each rank is lie in the shared memory too. Without shared memory every rank is a node of its own.
 *
 * Sums for one rank are taken by that rank only, and cross to its node whole instead of in parts. What is copied is
 * filled in by one rank, crosses from its node, and is taken by the others. */
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/exchange/exchange_parts.h"

/* The stretch that an element of the bucket lies in. */
static const sl__stretch *stretch_at(const sl__bucket *b, int64_t element) {
  int low = 0, high = b->n - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (b->stretch[middle].begin <= element)
      low = middle;
    else
      high = middle - 1;
  }
  return &b->stretch[low];
}

/* Copies the segment's elements of one item between the bucket's stretches and memory. */
static void copy(const sl_exchange *e, const sl__cursor *c, int item, char *memory, int out) {
  const sl__bucket *b = &e->bucket[c->bucket];
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int64_t end = c->at + sl__segment_count(e, c);
  const sl__stretch *s = stretch_at(b, c->at);
  for (int64_t at = c->at; at < end; s++) {
    const int64_t to = s->begin + s->count < end ? s->begin + s->count : end;
    const size_t n = (size_t)(to - at) * bytes;
    char *data = (char *)s->mine[item] + (size_t)(at - s->begin) * bytes;
    memcpy(out ? data : memory, out ? memory : data, n);
    memory += n, at = to;
  }
}

void sl__exchange_wake(sl__board *b) {
  atomic_fetch_add(&b->event, 1);
  if (atomic_load(&b->asleep)) syscall(SYS_futex, &b->event, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Until an event after `seen`. A thread that slept runs at once when it is woken, ahead of workers that compute; one
 * that polls and yields would wait for their slices of time. */
static void sleep_after(sl__board *b, unsigned seen) {
  const struct timespec most = {.tv_nsec = 100000000};
  atomic_store(&b->asleep, 1);
  syscall(SYS_futex, &b->event, FUTEX_WAIT, seen, &most, NULL, 0);
  atomic_store(&b->asleep, 0);
}

static int try_fill(sl_exchange *e) {
  pthread_mutex_lock(&e->lock);
  const int posted = e->n_buckets > 0 && e->bucket[e->fill.bucket].posted && e->status == SL_OK;
  pthread_mutex_unlock(&e->lock);
  if (!posted) return 0;
  const int b = e->fill.bucket, direct = e->bucket[b].direct, sums = e->bucket[b].move.kind == SL_EXCHANGE_SUM;
  if (!direct && e->fill.number >= SL__LEAST(e, taken) + SL__DEPTH) return 0;
  for (int i = 0; i < e->items && !direct && sums; i++)
    copy(e, &e->fill, i, sl__item_memory(e, e->fill.number, e->local_items[e->local] + i), 0);
  if (!direct && !sums && e->bucket[b].owner == e->local)
    copy(e, &e->fill, 0, sl__item_memory(e, e->fill.number, 0), 0);
  if (sl__advance(e, &e->fill)) {
    pthread_mutex_lock(&e->lock);
    e->bucket[b].posted = 0; /* it may be posted for the next round once its sums are there */
    pthread_mutex_unlock(&e->lock);
  }
  sl__set(&e->boards[e->local].filled, e->fill.number);
  return 1;
}

enum { BLOCK = 16384 }; /* bytes that are added up at once, out of the innermost caches */

/* This rank's part of a segment, in the slabs. */
static void reduce_slabs(sl_exchange *e, int64_t from, int64_t to, sl_dtype dtype) {
  const size_t bytes = sl_dtype_bytes(dtype);
  const int64_t block = BLOCK / (int64_t)bytes;
  for (int64_t at = from; at < to; at += block) {
    const int64_t n = to - at < block ? to - at : block;
    for (int i = 0; i < e->inside.n; i++)
      sl__add(sl__item_memory(e, e->reduce.number, e->inside.step[i].to) + (size_t)at * bytes,
              sl__item_memory(e, e->reduce.number, e->inside.step[i].from) + (size_t)at * bytes, n, dtype);
  }
}

/* The same where the ranks have their items, whose first ones get the sums: no copy, and every byte comes from memory
 * once and goes there once. */
static void reduce_direct(sl_exchange *e, int64_t from, int64_t to, const sl__bucket *b) {
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int64_t block = BLOCK / (int64_t)bytes;
  const sl__stretch *s = stretch_at(b, from);
  for (int64_t at = from; at < to;) {
    if (at == s->begin + s->count) s++;
    int64_t n = to - at < block ? to - at : block;
    if (n > s->begin + s->count - at) n = s->begin + s->count - at;
    const size_t offset = (size_t)(at - s->begin) * bytes;
    for (int i = 0; i < e->inside.n; i++)
      sl__add((char *)s->node[e->inside.step[i].to] + offset, (char *)s->node[e->inside.step[i].from] + offset, n,
              b->dtype);
    for (int r = 1; r < e->locals; r++)
      if (b->owner < 0 || b->owner == r)
        memcpy((char *)s->node[e->local_items[r]] + offset, (char *)s->node[0] + offset, (size_t)n * bytes);
    at += n;
  }
}

/* Copies elements from where the owner has them. */
static void copy_direct(const sl_exchange *e, int64_t from, int64_t to, const sl__bucket *b) {
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int owners = e->local_items[b->owner], mine = e->local_items[e->local];
  if (b->owner == e->local) return;
  for (const sl__stretch *s = stretch_at(b, from); from < to; s++) {
    const int64_t end = s->begin + s->count < to ? s->begin + s->count : to;
    const size_t offset = (size_t)(from - s->begin) * bytes;
    memcpy((char *)s->node[mine] + offset, (const char *)s->node[owners] + offset, (size_t)(end - from) * bytes);
    from = end;
  }
}

static int try_reduce(sl_exchange *e) {
  if (e->reduce.number >= e->fill.number || SL__LEAST(e, filled) <= e->reduce.number) return 0;
  const sl__bucket *b = &e->bucket[e->reduce.bucket];
  const int64_t count = sl__segment_count(e, &e->reduce);
  int64_t from, to;
  sl__part_of(count, sl_dtype_bytes(b->dtype), e->local, e->locals, &from, &to);
  if (b->move.kind == SL_EXCHANGE_COPY) {
    if (b->direct) copy_direct(e, e->reduce.at, e->reduce.at + count, b);
  } else if (!b->direct)
    reduce_slabs(e, from, to, b->dtype);
  else if (from < to)
    reduce_direct(e, e->reduce.at + from, e->reduce.at + to, b);
  sl__advance(e, &e->reduce);
  sl__set(&e->boards[e->local].reduced, e->reduce.number);
  return 1;
}

static void end(sl_exchange *e, sl__bucket *b) {
  pthread_mutex_lock(&e->lock);
  b->open = 0;
  pthread_mutex_unlock(&e->lock);
  if (b->done) b->done(b->arg);
  pthread_mutex_lock(&e->lock);
  if (--e->pending == 0) pthread_cond_broadcast(&e->idle);
  pthread_mutex_unlock(&e->lock);
}

static int try_take(sl_exchange *e) {
  if (e->take.number >= e->fill.number) return 0;
  const uint64_t ready =
      e->nodes == 1 ? SL__LEAST(e, reduced) : atomic_load_explicit(&e->boards[0].ready.value, memory_order_acquire);
  if (ready <= e->take.number) return 0;
  sl__bucket *b = &e->bucket[e->take.bucket];
  const int takes = b->move.kind == SL_EXCHANGE_COPY ? b->owner != e->local : b->move.rank < 0 || b->owner == e->local;
  if (!b->direct && takes) copy(e, &e->take, 0, sl__item_memory(e, e->take.number, 0), 1);
  const int last = sl__advance(e, &e->take);
  sl__set(&e->boards[e->local].taken, e->take.number);
  if (last) end(e, b);
  return 1;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static void bind_thread(const sl_exchange *e) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < e->ncpus; i++)
    if (e->cpus[i] >= 0 && e->cpus[i] < CPU_SETSIZE) CPU_SET(e->cpus[i], &set);
  if (e->ncpus > 0) pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* After a failure nothing is exchanged any more, and everything that was posted ends. */
static void end_all(sl_exchange *e) {
  for (int b = 0; b < e->n_buckets; b++) {
    pthread_mutex_lock(&e->lock);
    const int open = e->bucket[b].open;
    pthread_mutex_unlock(&e->lock);
    if (open) end(e, &e->bucket[b]);
  }
}

/* While messages are under way it must not sleep, since MPI moves nothing meanwhile; it yields. */
void *sl__exchange_run(void *arg) {
  sl_exchange *e = arg;
  sl__board *mine = &e->boards[e->local];
  bind_thread(e);
  for (;;) {
    const unsigned seen = atomic_load(&mine->event);
    pthread_mutex_lock(&e->lock);
    const int stopping = e->stopping, pending = e->pending, failed = e->status != SL_OK;
    pthread_mutex_unlock(&e->lock);
    if (stopping) return NULL;
    if (failed) end_all(e);
    const int moved = pending && !failed && (try_fill(e) | try_reduce(e) | sl__exchange_cross(e) | try_take(e));
    if (moved) {
      e->moved = sl_seconds();
      for (int i = 0; i < e->locals; i++)
        if (i != e->local) sl__exchange_wake(&e->boards[i]);
    } else if (e->ready.number < e->cross.number && !failed) {
      sched_yield();
    } else {
      sleep_after(mine, seen);
    }
  }
}

void sl_exchange_post(sl_exchange *e, int number, void (*done)(void *arg), void *arg) {
  sl__bucket *b = &e->bucket[number];
  pthread_mutex_lock(&e->lock);
  b->posted = b->open = 1;
  b->done = done, b->arg = arg;
  if (e->pending++ == 0) e->moved = sl_seconds();
  pthread_mutex_unlock(&e->lock);
  sl__exchange_wake(&e->boards[e->local]);
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

/* Reads what the thread writes; called when nothing moves. */
int sl_exchange_waits_for(sl_exchange *e, int *number, char *late) {
  memset(late, 0, (size_t)e->ranks);
  pthread_mutex_lock(&e->lock);
  const int pending = e->pending;
  pthread_mutex_unlock(&e->lock);
  if (pending == 0) return 0;
  *number = e->take.bucket;
  if (e->fill.number == e->take.number) { /* nothing of it has been posted here */
    late[e->rank] = 1;
    return 1;
  }
  /* the earliest stage that is not passed, and who has not */
  int n = 0;
  for (int stage = 0; stage < 2 && n == 0; stage++)
    for (int i = 0; i < e->locals; i++) {
      const sl__reached *c = stage == 0 ? &e->boards[i].filled : &e->boards[i].reduced;
      if (atomic_load(&c->value) > e->take.number) continue;
      late[e->node_rank[e->my_node] + i] = 1;
      n++;
    }
  if (n > 0) return n;
  if (e->local != 0 && e->nodes > 1) { /* the leader knows more */
    late[e->node_rank[e->my_node]] = 1;
    return 1;
  }
  const sl__crossing *x = &e->crossing[e->ready.number % SL__DEPTH];
  for (int i = 0; i < x->n && e->ready.number < e->cross.number; i++)
    for (int r = e->node_rank[x->peer[i]]; r < e->node_rank[x->peer[i] + 1] && x->request[i] != MPI_REQUEST_NULL; r++)
      if (!late[r]) late[r] = 1, n++;
  return n;
}
