/* The exchange by MPI: sums by MPI_Iallreduce or MPI_Ireduce, other moves by MPI_Ibcast, MPI_Isend and MPI_Irecv.
 *
 * A rank adds up its own items in the order of leaves, but MPI chooses the order over ranks: a sum's bits depend on
 * that order and on the number of ranks. This implementation serves for comparison with the fixed tree (tree.c). The
 * thread begins the buckets of a group in their order, since MPI requires the same order on all ranks, and then tests
 * them until they end, since MPI makes little progress otherwise. */
#include "runtime/exchange/mpi.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One MPI operation on a leg of a bucket. */
typedef struct operation {
  const sl__leg *leg;
  void *memory; /* the leg's elements; NULL: this rank takes no part */
  int gathers;  /* memory is a copy of several stretches */
} operation;

typedef struct cargo {
  sl__bucket *b;
  operation *operation; /* [b->n_legs] */
  MPI_Request *request; /* [b->n_legs], at least 1 */
  MPI_Status *status;   /* [b->n_legs], at least 1 */
  atomic_int n;         /* number of requests; 0: not under way. Another thread reads it in waits_for */
} cargo;

/* A group's buckets: [oldest, next) modulo n are under way. Another thread reads oldest and flying in waits_for. */
typedef struct lane {
  int next;
  atomic_int oldest, flying;
} lane;

typedef struct by_mpi {
  sl_exchange base;
  void *arena;
} by_mpi;

static MPI_Datatype type_of(const sl__bucket *b) {
  if (b->sum) return b->dtype == SL_F32 ? MPI_FLOAT : MPI_DOUBLE;
  return b->width == 1 ? MPI_UINT8_T : b->width == 2 ? MPI_UINT16_T : b->width == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

/* Copies a leg between its stretches and the memory of its operation. */
static void copy(const sl__bucket *b, const operation *o, int out) {
  char *at = o->memory;
  for (int s = o->leg->stretch; s < o->leg->stretch + o->leg->n; s++) {
    const size_t bytes = (size_t)b->stretch[s].count * b->width;
    if (out)
      memcpy(b->stretch[s].mine[0], at, bytes);
    else
      memcpy(at, b->stretch[s].mine[0], bytes);
    at += bytes;
  }
}

static int gives(const sl__group *g, const sl__leg *r) { return r->from < 0 || r->from == g->rank; }
static int gets(const sl__group *g, const sl__leg *r) { return r->to < 0 || r->to == g->rank; }

/* Begins one operation. A rank that takes no part gets no request. */
static int begin_operation(const sl__group *g, const sl__bucket *b, const operation *o, MPI_Request *request) {
  enum { TAG = 0 };
  const sl__leg *r = o->leg;
  const MPI_Datatype type = type_of(b);
  const int n = (int)r->count, here = r->to == g->rank;
  if (b->sum && r->to < 0) return MPI_Iallreduce(MPI_IN_PLACE, o->memory, n, type, MPI_SUM, g->comm, request);
  if (b->sum)
    return MPI_Ireduce(here ? MPI_IN_PLACE : o->memory, here ? o->memory : NULL, n, type, MPI_SUM, r->to, g->comm,
                       request);
  if (r->to < 0) return MPI_Ibcast(o->memory, n, type, r->from, g->comm, request);
  if (r->from == r->to) return MPI_SUCCESS;
  if (r->from == g->rank) return MPI_Isend(o->memory, n, type, r->to, TAG, g->comm, request);
  return here ? MPI_Irecv(o->memory, n, type, r->from, TAG, g->comm, request) : MPI_SUCCESS;
}

/* Adds up this rank's items, in order, and begins the bucket's operations. */
static int begin(const sl__group *g, cargo *c) {
  const sl__bucket *b = c->b;
  for (int s = 0; s < b->n && b->sum; s++)
    for (int i = 1; i < g->items; i++)
      sl__add(b->stretch[s].mine[0], b->stretch[s].mine[i], b->stretch[s].count, b->dtype);
  c->n = 1;
  c->request[0] = MPI_REQUEST_NULL;
  if (b->n_legs == 0) return MPI_Ibarrier(g->comm, &c->request[0]);
  for (c->n = 0; c->n < b->n_legs; c->n++) {
    const operation *o = &c->operation[c->n];
    c->request[c->n] = MPI_REQUEST_NULL;
    if (o->gathers && gives(g, o->leg)) copy(b, o, 0);
    const int code = begin_operation(g, b, o, &c->request[c->n]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/* Tests the buckets of a group that are under way. Returns 1 if one has ended. */
static int test(sl_exchange *e, const sl__group *g, lane *l) {
  int ended = 0;
  for (int k = 0, i = l->oldest, all = l->flying; k < all; k++, i = (i + 1) % g->n) {
    cargo *c = g->row[i]->own;
    int done = 0;
    if (c->n == 0) continue;
    const int code = MPI_Testall(c->n, c->request, &done, c->status);
    if (code != MPI_SUCCESS) sl__exchange_fail(e, code, "an exchange by MPI");
    if (code != MPI_SUCCESS || !done) continue;
    for (int r = 0; r < c->b->n_legs; r++)
      if (c->operation[r].gathers && gets(g, c->operation[r].leg)) copy(c->b, &c->operation[r], 1);
    c->n = 0;
    sl__exchange_end(e, c->b);
    ended = 1;
  }
  while (l->flying > 0 && ((const cargo *)g->row[l->oldest]->own)->n == 0) {
    l->oldest = (l->oldest + 1) % g->n;
    l->flying--;
  }
  return ended;
}

static sl__found advance(sl_exchange *e) {
  sl__found found = SL__IDLE;
  const int n = sl__exchange_order(e);
  for (int k = 0; k < n; k++) {
    sl__group *g = e->group[e->order[k]];
    lane *l = g->own;
    if (l->flying < g->n && sl__exchange_is_posted(e, g->row[l->next])) {
      sl__bucket *b = g->row[l->next];
      sl__exchange_begun(e, b);
      const int code = begin(g, b->own);
      if (code != MPI_SUCCESS) sl__exchange_fail(e, code, "an exchange by MPI");
      l->next = (l->next + 1) % g->n;
      l->flying++;
      found = SL__MOVED;
    }
    if (l->flying > 0 && found == SL__IDLE) found = SL__POLL;
    if (test(e, g, l)) found = SL__MOVED;
  }
  return found;
}

/* MPI does not tell which ranks a collective waits for. So this names only the other end of a message, and this rank if
 * it has not posted the bucket. It reads the exchange thread's data, which is safe because nothing moves. */
static int waits_for(sl_exchange *e, const sl__group *g, const sl__bucket **bucket, char *late) {
  const lane *l = g->own;
  const sl__bucket *b = *bucket = g->row[l->oldest];
  const cargo *c = b->own;
  int n = 0;
  if (l->flying == 0) {
    pthread_mutex_lock(&e->lock);
    late[e->rank] = !b->posted;
    pthread_mutex_unlock(&e->lock);
    return late[e->rank];
  }
  for (int r = 0; r < b->n_legs && r < c->n; r++) {
    const sl__leg *leg = &b->leg[r];
    const int peer = leg->from == g->rank ? leg->to : leg->from;
    if (b->sum || leg->to < 0 || c->request[r] == MPI_REQUEST_NULL || late[g->member[peer]]) continue;
    late[g->member[peer]] = 1;
    n++;
  }
  return n;
}

/* ---- making one ------------------------------------------------------------------------------------------------- */

static sl_status add(sl_exchange *e, sl__group *g, sl__bucket *b) {
  (void)e;
  const size_t legs = (size_t)b->n_legs;
  cargo *c = b->own = calloc(1, sizeof *c);
  if (c) {
    c->b = b;
    c->operation = calloc(legs + 1, sizeof *c->operation);
    c->request = malloc((legs + 1) * sizeof *c->request);
    c->status = malloc((legs + 1) * sizeof *c->status);
  }
  sl_status status = SL_OK;
  if (!c || !c->operation || !c->request || !c->status) SL_TRY_OUT(sl_no_memory("for a bucket of %d arrays", b->n));
  for (int r = 0; r < b->n_legs; r++) {
    operation *o = &c->operation[r];
    o->leg = &b->leg[r];
    if (o->leg->count > INT_MAX)
      SL_TRY_OUT(sl_fail(SL_EINVAL, "an exchange by MPI has %lld elements, more than the %d that MPI counts",
                         (long long)o->leg->count, INT_MAX));
    if (!gives(g, o->leg) && !gets(g, o->leg)) continue;
    o->gathers = o->leg->n > 1;
    o->memory = o->gathers ? malloc((size_t)o->leg->count * b->width) : b->stretch[o->leg->stretch].mine[0];
    if (!o->memory) SL_TRY_OUT(sl_no_memory("for a bucket of %d arrays", b->n));
  }
out:
  return status;
}

static void remove_bucket(sl_exchange *e, sl__bucket *b) {
  cargo *c = b->own;
  (void)e;
  if (!c) return;
  for (int r = 0; c->operation && r < b->n_legs; r++)
    if (c->operation[r].gathers) free(c->operation[r].memory);
  free(c->operation), free(c->request), free(c->status), free(c);
}

static sl_status open_group(sl_exchange *e, sl__group *g) {
  (void)e;
  g->own = calloc(1, sizeof(lane));
  return sl_comm_agree(g->comm, g->own ? SL_OK : sl_no_memory("for a group of %d ranks", g->ranks));
}

static void close_group(sl_exchange *e, sl__group *g) {
  (void)e;
  free(g->own);
}

static sl_status allocate(sl_exchange *e, size_t bytes, void **memory) {
  enum { PAGE = 4096 };
  by_mpi *m = (by_mpi *)e;
  *memory = NULL;
  if (m->arena) return sl_fail(SL_EEXIST, "the exchange has allocated its memory already");
  m->arena = aligned_alloc(PAGE, (bytes / PAGE + 1) * PAGE);
  SL_TRY(sl_comm_agree(e->comm, m->arena ? SL_OK : sl_no_memory("for %zu bytes to exchange", bytes)));
  *memory = m->arena;
  return SL_OK;
}

static sl_status start(sl_exchange *e, const sl_exchange_options *o) {
  (void)e, (void)o;
  return SL_OK;
}
static void stop(sl_exchange *e) { free(((by_mpi *)e)->arena); }
static uint64_t sent(const sl_exchange *e) { return (void)e, 0; }
static size_t memory(const sl_exchange *e) { return (void)e, 0; }

static const sl__exchange_functions functions = {.bytes = sizeof(by_mpi),
                                                 .start = start,
                                                 .stop = stop,
                                                 .open_group = open_group,
                                                 .close_group = close_group,
                                                 .allocate = allocate,
                                                 .add = add,
                                                 .remove = remove_bucket,
                                                 .advance = advance,
                                                 .waits_for = waits_for,
                                                 .sent = sent,
                                                 .memory = memory};

const sl_exchange_type sl__exchange_mpi = {
    .name = "mpi", .summary = "MPI_Iallreduce, in an order of its own", .functions = &functions};
