/* The exchange by MPI's collectives. A thread begins those of the buckets in their order, which MPI wants to be the
 * same on all ranks, and tests those under way until they end, since MPI moves little otherwise. */
#include "runtime/exchange/exchange_mpi.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/time.h"
#include "runtime/machine/comm.h"

typedef struct stretch {
  int64_t count;
  void **item; /* [items]; of what is copied [1] */
} stretch;

typedef struct bucket {
  sl_exchange_move move;
  sl_dtype dtype;
  stretch *stretch;
  int n;
  int64_t count;
  void
      *whole; /* what MPI reduces or copies: the only stretch, or memory of the bucket's own that gathers all of them */
  MPI_Request request;
  int posted, open; /* as in exchange.c; guarded by lock */
  void (*done)(void *arg);
  void *arg;
} bucket;

struct sl_exchange_mpi {
  MPI_Comm comm;
  int rank, ranks, items;
  void *arena;
  bucket *bucket;
  int n;
  int next, oldest, flying; /* to be begun, the first that has not ended, how many of those have begun; the thread's */
  pthread_t thread;
  int started;
  pthread_mutex_t lock; /* guards all below, and posted and open */
  pthread_cond_t work, idle;
  int stopping, pending;
  sl_status status;
  char error[512];
  double moved;
};

static void add(void *to, const void *from, int64_t n, sl_dtype dtype) {
  if (dtype == SL_F32)
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)from)[i];
  else
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] += ((const double *)from)[i];
}

static int own_memory(const bucket *b) { return b->n > 1; }

/* Adds up this rank's items, in order, and begins to add up the ranks'; or to copy. */
static int begin(sl_exchange_mpi *e, bucket *b) {
  const MPI_Datatype type = b->dtype == SL_F32 ? MPI_FLOAT : MPI_DOUBLE;
  const int root = b->move.rank, n = (int)b->count, here = root == e->rank;
  char *at = b->whole;
  if (n == 0) return MPI_Ibarrier(e->comm, &b->request);
  for (int s = 0; s < b->n; s++) {
    const stretch *t = &b->stretch[s];
    for (int i = 1; i < e->items && b->move.kind == SL_EXCHANGE_SUM; i++)
      add(t->item[0], t->item[i], t->count, b->dtype);
    if (!own_memory(b)) break;
    memcpy(at, t->item[0], (size_t)t->count * sl_dtype_bytes(b->dtype));
    at += (size_t)t->count * sl_dtype_bytes(b->dtype);
  }
  if (b->move.kind == SL_EXCHANGE_COPY) return MPI_Ibcast(b->whole, n, type, root, e->comm, &b->request);
  if (root < 0) return MPI_Iallreduce(MPI_IN_PLACE, b->whole, n, type, MPI_SUM, e->comm, &b->request);
  return MPI_Ireduce(here ? MPI_IN_PLACE : b->whole, here ? b->whole : NULL, n, type, MPI_SUM, root, e->comm,
                     &b->request);
}

static void put_back(const bucket *b) {
  const char *at = b->whole;
  for (int s = 0; s < b->n && own_memory(b); s++) {
    const size_t bytes = (size_t)b->stretch[s].count * sl_dtype_bytes(b->dtype);
    memcpy(b->stretch[s].item[0], at, bytes);
    at += bytes;
  }
}

static void end(sl_exchange_mpi *e, bucket *b) {
  pthread_mutex_lock(&e->lock);
  b->open = 0;
  e->moved = sl_seconds();
  pthread_mutex_unlock(&e->lock);
  if (b->done) b->done(b->arg);
  pthread_mutex_lock(&e->lock);
  if (--e->pending == 0) pthread_cond_broadcast(&e->idle);
  pthread_mutex_unlock(&e->lock);
}

/* Nothing is exchanged any more; what was posted ends. */
static void fail(sl_exchange_mpi *e, int code, const char *what) {
  const sl_status status = sl_comm_status(code, what);
  pthread_mutex_lock(&e->lock);
  if (e->status == SL_OK) snprintf(e->error, sizeof e->error, "%s", sl_error());
  if (e->status == SL_OK) e->status = status;
  pthread_mutex_unlock(&e->lock);
}

static int test_all(sl_exchange_mpi *e) {
  int ended = 0;
  for (int k = 0, i = e->oldest, all = e->flying; k < all; k++, i = (i + 1) % e->n) {
    bucket *b = &e->bucket[i];
    int done = 0;
    if (b->request == MPI_REQUEST_NULL) continue;
    const int code = MPI_Test(&b->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) fail(e, code, "an exchange by MPI");
    if (code != MPI_SUCCESS || !done) continue;
    put_back(b);
    end(e, b);
    ended = 1;
  }
  pthread_mutex_lock(&e->lock);
  while (e->flying > 0 && e->bucket[e->oldest].request == MPI_REQUEST_NULL)
    e->oldest = (e->oldest + 1) % e->n, e->flying--;
  pthread_mutex_unlock(&e->lock);
  return ended;
}

static void *run(void *arg) {
  sl_exchange_mpi *e = arg;
  for (;;) {
    pthread_mutex_lock(&e->lock);
    int begins;
    for (;;) {
      begins = e->status == SL_OK && e->n > 0 && e->flying < e->n && e->bucket[e->next].posted;
      if (e->stopping || begins || e->flying > 0 || (e->status != SL_OK && e->pending > 0)) break;
      pthread_cond_wait(&e->work, &e->lock);
    }
    const int stopping = e->stopping, failed = e->status != SL_OK;
    if (begins) e->bucket[e->next].posted = 0;
    pthread_mutex_unlock(&e->lock);
    if (stopping) return NULL;
    for (int i = 0; failed && i < e->n; i++) {
      pthread_mutex_lock(&e->lock);
      const int open = e->bucket[i].open;
      pthread_mutex_unlock(&e->lock);
      if (open) end(e, &e->bucket[i]);
    }
    if (failed) e->flying = 0;
    if (begins) {
      const int code = begin(e, &e->bucket[e->next]);
      if (code != MPI_SUCCESS) fail(e, code, "an exchange by MPI");
      pthread_mutex_lock(&e->lock);
      e->next = (e->next + 1) % e->n;
      e->flying++;
      e->moved = sl_seconds();
      pthread_mutex_unlock(&e->lock);
    }
    if (!failed && !test_all(e) && !begins) sched_yield();
  }
}

sl_status sl_exchange_mpi_create(const sl_exchange_options *o, sl_exchange_mpi **exchange) {
  sl_leaves subtree[SL_MAX_SUBTREES];
  *exchange = NULL;
  sl_exchange_mpi *e = calloc(1, sizeof *e);
  sl_status status = sl_comm_agree(o->comm, e ? SL_OK : sl_fail(SL_ENOMEM, "no memory for an exchange"));
  if (status != SL_OK) {
    free(e);
    return status;
  }
  e->comm = MPI_COMM_NULL;
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->work, NULL), pthread_cond_init(&e->idle, NULL);
  SL_TRY_OUT(sl_comm_status(MPI_Comm_dup(o->comm, &e->comm), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(e->comm, &e->rank);
  MPI_Comm_size(e->comm, &e->ranks);
  e->items = sl_subtrees(o->leaves, (sl_leaves){o->first[e->rank], o->first[e->rank + 1] - o->first[e->rank]}, subtree);
  cpu_set_t set;
  pthread_attr_t attributes;
  CPU_ZERO(&set);
  for (int i = 0; i < o->ncpus; i++)
    if (o->cpus[i] >= 0 && o->cpus[i] < CPU_SETSIZE) CPU_SET(o->cpus[i], &set);
  pthread_attr_init(&attributes);
  if (o->ncpus > 0) pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
  e->started = pthread_create(&e->thread, &attributes, run, e) == 0;
  pthread_attr_destroy(&attributes);
  if (e->started) pthread_setname_np(e->thread, "sl-exchange");
  SL_TRY_OUT(sl_comm_agree(e->comm, e->started ? SL_OK : sl_fail(SL_EIO, "no thread for the exchange")));
  *exchange = e;
  e = NULL;
out:
  sl_exchange_mpi_destroy(e);
  return status;
}

static void release_bucket(bucket *b) {
  if (own_memory(b)) free(b->whole);
  for (int s = 0; s < b->n; s++) free(b->stretch[s].item);
  free(b->stretch);
}

void sl_exchange_mpi_destroy(sl_exchange_mpi *e) {
  if (!e) return;
  if (e->started) {
    sl_exchange_mpi_wait(e);
    pthread_mutex_lock(&e->lock);
    e->stopping = 1;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
  }
  if (e->comm != MPI_COMM_NULL) MPI_Comm_free(&e->comm);
  for (int i = 0; i < e->n; i++) release_bucket(&e->bucket[i]);
  pthread_cond_destroy(&e->work), pthread_cond_destroy(&e->idle), pthread_mutex_destroy(&e->lock);
  free(e->bucket), free(e->arena), free(e);
}

sl_status sl_exchange_mpi_allocate(sl_exchange_mpi *e, size_t bytes, void **memory) {
  enum { PAGE = 4096 };
  *memory = NULL;
  if (e->arena) return sl_fail(SL_EEXIST, "the exchange has allocated its memory already");
  e->arena = aligned_alloc(PAGE, (bytes / PAGE + 1) * PAGE);
  SL_TRY(sl_comm_agree(e->comm, e->arena ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %zu bytes to exchange", bytes)));
  *memory = e->arena;
  return SL_OK;
}

sl_status sl_exchange_mpi_add(sl_exchange_mpi *e, sl_exchange_move move, sl_dtype dtype, const sl_stretch *from, int n,
                              int *number) {
  const size_t items = move.kind == SL_EXCHANGE_SUM ? (size_t)e->items : 1;
  sl_status status = SL_OK;
  bucket b = {
      .move = move, .dtype = dtype, .request = MPI_REQUEST_NULL, .stretch = calloc((size_t)n + 1, sizeof *b.stretch)};
  pthread_mutex_lock(&e->lock);
  bucket *more = realloc(e->bucket, (size_t)(e->n + 1) * sizeof *more);
  if (more) e->bucket = more;
  pthread_mutex_unlock(&e->lock);
  int fine = more && b.stretch;
  for (int i = 0; i < n && fine; i++) {
    if (from[i].count == 0) continue;
    stretch *s = &b.stretch[b.n++];
    *s = (stretch){from[i].count, malloc(items * sizeof *s->item)};
    fine = s->item != NULL;
    if (fine) memcpy(s->item, from[i].data, items * sizeof *s->item);
    b.count += from[i].count;
  }
  if (fine && b.n == 1) b.whole = b.stretch[0].item[0];
  if (fine && b.n > 1) fine = (b.whole = malloc((size_t)b.count * sl_dtype_bytes(dtype))) != NULL;
  if (!fine)
    status = sl_fail(SL_ENOMEM, "no memory for a bucket of %d arrays", n);
  else if (dtype != SL_F32 && dtype != SL_F64)
    status = sl_fail(SL_EINVAL, "an exchange of %s", sl_dtype_name(dtype));
  else if (move.rank >= e->ranks || move.rank < (move.kind == SL_EXCHANGE_SUM ? -1 : 0))
    status = sl_fail(SL_EINVAL, "an exchange with rank %d of %d", move.rank, e->ranks);
  else if ((b.count == 0 && move.kind == SL_EXCHANGE_SUM) || b.count > INT_MAX)
    status = sl_fail(SL_EINVAL, "an exchange by MPI of %lld elements", (long long)b.count);
  SL_TRY_OUT(sl_comm_agree(e->comm, status));
  pthread_mutex_lock(&e->lock);
  *number = e->n;
  e->bucket[e->n++] = b;
  pthread_mutex_unlock(&e->lock);
  return SL_OK;
out:
  release_bucket(&b);
  return status;
}

void sl_exchange_mpi_post(sl_exchange_mpi *e, int number, void (*done)(void *arg), void *arg) {
  bucket *b = &e->bucket[number];
  pthread_mutex_lock(&e->lock);
  b->posted = b->open = 1;
  b->done = done, b->arg = arg;
  if (e->pending++ == 0) e->moved = sl_seconds();
  pthread_cond_signal(&e->work);
  pthread_mutex_unlock(&e->lock);
}

sl_status sl_exchange_mpi_wait(sl_exchange_mpi *e) {
  pthread_mutex_lock(&e->lock);
  while (e->pending > 0) pthread_cond_wait(&e->idle, &e->lock);
  const sl_status status = e->status;
  pthread_mutex_unlock(&e->lock);
  return status == SL_OK ? SL_OK : sl_fail(status, "%s", e->error);
}

double sl_exchange_mpi_stalled(sl_exchange_mpi *e) {
  pthread_mutex_lock(&e->lock);
  const double seconds = e->pending > 0 ? sl_seconds() - e->moved : 0;
  pthread_mutex_unlock(&e->lock);
  return seconds;
}

int sl_exchange_mpi_waits_for(sl_exchange_mpi *e, int *self) {
  pthread_mutex_lock(&e->lock);
  const int number = e->pending == 0 ? -1 : e->oldest;
  *self = number >= 0 && e->flying == 0 && !e->bucket[number].posted;
  pthread_mutex_unlock(&e->lock);
  return number;
}
