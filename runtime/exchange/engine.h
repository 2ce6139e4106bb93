/* Shared by all implementations of an exchange: groups, buckets, the thread. exchange.c owns them; an implementation
 * moves the bytes, through the functions of its descriptor. Private to runtime/exchange. */
#ifndef SL_EXCHANGE_ENGINE_H
#define SL_EXCHANGE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/exchange/exchange.h"
#include "runtime/machine/comm.h"

/* A rank's thread sleeps until its bell rings. Bells may lie in shared memory, so that other ranks can ring them. */
typedef struct sl__bell {
  atomic_uint event; /* counts up whenever the rank may have something to do */
  atomic_int asleep;
  char rest[56]; /* fills the cache line */
} sl__bell;

typedef struct sl__bucket sl__bucket;

typedef struct sl__group {
  MPI_Comm comm; /* MPI_COMM_NULL: this rank is not a member */
  int rank, ranks;
  int *member;      /* [ranks] ranks of the exchange, ascending */
  int leaves;       /* of the group's tree */
  int *first;       /* [ranks + 1] member r owns leaves [first[r], first[r + 1]) */
  int items;        /* of this rank */
  sl__bucket **row; /* [n] its buckets, in the order of execution */
  int n;
  int pending;    /* posted and not ended; guarded by the exchange's lock */
  double urgency; /* of its most urgent pending bucket; guarded by the exchange's lock */
  void *own;      /* the implementation's */
  int parent;     /* of a pair for messages: number of the declared group that has both ranks; -1: a declared group */
  int from;       /* pair: the rank of the exchange that sends */
} sl__group;

typedef struct sl__stretch {
  int64_t begin, count; /* elements of the bucket */
  void **mine;          /* [items] of a sum; [1] of other moves, mine[0] may be NULL */
} sl__stretch;

/* Consecutive stretches that have the same origin and destination. Ranks are those of the group. */
typedef struct sl__leg {
  int64_t begin, count; /* elements of the bucket */
  int from;             /* SL_EXCHANGE_ALL: the sum over all ranks */
  int to;               /* SL_EXCHANGE_ALL: every rank */
  int stretch, n;       /* stretches [stretch, stretch + n) */
} sl__leg;

struct sl__bucket {
  int number;
  int group;
  int sum; /* 0: bytes move unchanged */
  int lossy;
  sl_dtype dtype;
  size_t width; /* bytes of an element */
  sl__stretch *stretch;
  int n;
  sl__leg *leg; /* in the order of elements */
  int n_legs;
  int64_t count; /* elements */
  double urgency;
  int posted; /* posted and not begun; guarded by the exchange's lock */
  int open;   /* posted and not ended; guarded by the exchange's lock */
  void (*done)(void *arg);
  void *arg;
  void *own; /* the implementation's */
};

/* The result of one look at the buckets: what the thread does next. */
typedef enum sl__found {
  SL__IDLE, /* nothing, until the bell rings */
  SL__POLL, /* nothing yet, but MPI must be polled */
  SL__MOVED
} sl__found;

/* The functions of an implementation. Collective ones return the same status on all their ranks. */
typedef struct sl__exchange_functions {
  size_t bytes;                                                       /* of its struct, which begins with sl_exchange */
  sl_status (*start)(sl_exchange *e, const sl_exchange_options *o);   /* collective; sets bell and nodes */
  void (*stop)(sl_exchange *e);                                       /* after the groups are closed */
  sl_status (*open_group)(sl_exchange *e, sl__group *g);              /* collective over the group */
  void (*close_group)(sl_exchange *e, sl__group *g);                  /* also after open_group has failed */
  sl_status (*allocate)(sl_exchange *e, size_t bytes, void **memory); /* collective */
  sl_status (*add)(sl_exchange *e, sl__group *g, sl__bucket *b);      /* allocates this rank's memory; not collective */
  sl_status (*share)(sl_exchange *e, sl__group *g, sl__bucket *b); /* collective over the group, after add; or NULL */
  void (*remove)(sl_exchange *e, sl__bucket *b);                   /* also after add or share has failed */
  sl__found (*advance)(sl_exchange *e);                            /* called by the thread while a bucket is pending */
  /* For a group with a pending bucket: sets *bucket to its current bucket and late[] for the late ranks of the
   * exchange. Returns their number. */
  int (*waits_for)(sl_exchange *e, const sl__group *g, const sl__bucket **bucket, char *late);
  uint64_t (*sent)(const sl_exchange *e);
  size_t (*memory)(const sl_exchange *e);
} sl__exchange_functions;

struct sl_exchange {
  const sl_exchange_type *type;
  MPI_Comm comm;
  int rank, ranks, nodes;
  sl__group **group; /* [n_groups] the declared ones, and pairs that send and receive */
  int n_groups;
  int *order;          /* [n_groups] of sl__exchange_order */
  int moved_last;      /* number of the group that moved last; used by the thread */
  sl__bucket **bucket; /* [n_buckets] */
  int n_buckets;
  sl__bell *bell, own_bell;
  pthread_t thread;
  int prepared, started, stopping; /* 1: `start` was called, so `stop` must be; the thread runs; it must end */
  pthread_mutex_t lock;            /* guards posted, open, pending, urgency, stopping, status */
  pthread_cond_t idle;
  int pending; /* posted and not ended */
  sl_status status;
  char error[512];
  int *cpus, ncpus;
  _Atomic double moved; /* time of the last progress */
};

void sl__exchange_ring(sl__bell *bell);
/* Sets e->order to the numbers of the groups with pending buckets, the most urgent first; of equally urgent ones, first
 * the one after e->moved_last. Returns how many there are. Called by the thread. */
int sl__exchange_order(sl_exchange *e);
/* Ends a bucket: calls its done(arg). Called by the thread. */
void sl__exchange_end(sl_exchange *e, sl__bucket *b);
/* Keeps the first failure of an MPI call. Afterwards the thread ends all buckets and moves no data. */
void sl__exchange_fail(sl_exchange *e, int code, const char *call);
/* Whether a bucket may be begun: it is posted and nothing has failed. */
int sl__exchange_is_posted(sl_exchange *e, const sl__bucket *b);
void sl__exchange_begun(sl_exchange *e,
                        sl__bucket *b); /* marks it begun, so that it can be posted again after it has ended */

/* to[n] += from[n]. */
static inline void sl__add(void *to, const void *from, int64_t n, sl_dtype dtype) {
  if (dtype == SL_F32) {
    float *restrict a = to;
    const float *restrict b = from;
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
  } else {
    double *restrict a = to;
    const double *restrict b = from;
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
  }
}

#endif
