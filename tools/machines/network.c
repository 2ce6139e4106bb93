/* Measures latency and bandwidth between ranks, all pairs at once, by the exchange that training uses: two ranks of a
 * node form sums, and so do the first ranks of two nodes. The rate of all ranks of a node together is that of plain
 * messages. The pairs also sum while they compute, as in training, which shows how much processor time exchanges take
 * from tasks. Figures are those of the slowest pair. */
#include "tools/machines/network.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/time.h"
#include "runtime/exchange/exchange.h"
#include "runtime/machine/comm.h"
#include "runtime/numbers/statistics.h"

#define MPI_TRY(call) SL_TRY(sl_comm_status((call), #call))
#define MPI_TRY_OUT(call) SL_TRY_OUT(sl_comm_status((call), #call))

enum {
  ROUNDS = 9,         /* of which the fastest counts */
  SHORT = 50,         /* short exchanges or messages a round */
  LONG_MB = 128,      /* of a long exchange; a quarter of it where many ranks share the memory */
  SUMS = 5,           /* beside a computation, of which the median counts */
  ARRAY = 1 << 18,    /* numbers of the array that such a computation works on: 1 MB */
  MESSAGE_MB = 4,     /* of a long message */
  MOST_MESSAGES = 256 /* long messages a round */
};

typedef struct place {
  MPI_Comm comm;
  int rank, ranks, local, locals;
  int cpu;         /* of this rank's first worker, by the system's number; -1: it has none of its own */
  int node, nodes; /* number of this node, from 0 in the order of first ranks */
  int partner;     /* rank of the same place on the neighbouring node; -1: there is none */
  int pairs;       /* ranks of this node that have a partner */
} place;

/* The fastest round counts: other work on the machines only makes them slower. */
static double fastest(const double *round) {
  double least = round[0];
  for (int r = 1; r < ROUNDS; r++) least = fmin(least, round[r]);
  return least;
}

/* The largest value of all ranks, on all ranks. */
static sl_status largest(const place *p, double *value) {
  MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_MAX, p->comm));
  return SL_OK;
}

static sl_status find_place(MPI_Comm comm, MPI_Comm node, int cpu, place *p) {
  *p = (place){.comm = comm, .partner = -1, .cpu = cpu};
  MPI_TRY(MPI_Comm_rank(comm, &p->rank));
  MPI_TRY(MPI_Comm_size(comm, &p->ranks));
  MPI_TRY(MPI_Comm_rank(node, &p->local));
  MPI_TRY(MPI_Comm_size(node, &p->locals));
  int first = p->rank; /* the lowest rank of a node tells it from others */
  MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, node));
  int *of = malloc(2 * (size_t)p->ranks * sizeof *of);
  if (!of) return sl_no_memory("for the places of %d ranks", p->ranks);
  sl_status status =
      sl_comm_status(MPI_Allgather((int[]){first, p->local}, 2, MPI_INT, of, 2, MPI_INT, comm), "MPI_Allgather");
  for (int r = 0; r < p->ranks && status == SL_OK; r++)
    if (of[2 * r] == r) {
      if (r < first) p->node++;
      p->nodes++;
    }
  /* The neighbour of an even node is the next one. */
  int number = -1, neighbour = -1;
  for (int r = 0; r < p->ranks && status == SL_OK; r++)
    if (of[2 * r] == r && ++number == (p->node ^ 1)) neighbour = r;
  for (int r = 0; r < p->ranks && neighbour >= 0 && status == SL_OK; r++) {
    if (of[2 * r] != neighbour) continue;
    p->pairs += of[2 * r + 1] < p->locals;
    if (of[2 * r + 1] == p->local) p->partner = r;
  }
  free(of);
  return status;
}

/* ---- beside a computation ---------------------------------------------------------------------------------------- */

/* Some 30 us of computation on an array that a core's second-level cache holds, as kernels do; the exchange evicts it.
 */
static void compute(float *array) {
  enum { STEP = 16384 };
  static int at;
  static volatile float kept; /* so that no compiler leaves the loop out */
  for (int i = at; i < at + STEP; i++) array[i] = array[i] * 0.999F + 1e-3F;
  kept = array[at];
  (void)kept;
  at = (at + STEP) % ARRAY;
}

/* Seconds of compute() in the fastest of some rounds. */
static double seconds_of_computing(float *array) {
  enum { TIMES = 500 };
  double round[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    const int64_t begin = sl_now();
    for (int i = 0; i < TIMES; i++) compute(array);
    round[r] = 1e-9 * (double)(sl_now() - begin) / TIMES;
  }
  return fastest(round);
}

static void over(void *arg) { atomic_store((atomic_int *)arg, 1); }

/* The seconds that a sum of `count` elements by the two ranks of pair takes from a computation on the same core: of
 * each sum's time, what the computation cannot use. node: the ranks of pair that share memory. cpu < 0: 0. */
static sl_status time_taken(MPI_Comm pair, MPI_Comm node, int cpu, int64_t count, double *seconds) {
  static const int first[] = {0, 1, 2};
  sl_exchange *e = NULL;
  float *array = calloc(ARRAY, sizeof *array);
  void *memory = NULL;
  int bucket, moved = 0;
  double taken[SUMS + 1];
  cpu_set_t before, mine;
  const sl_exchange_options options = {.type = sl_exchange_types[0],
                                       .comm = pair,
                                       .node = node,
                                       .leaves = 2,
                                       .first = first,
                                       .cpus = &cpu,
                                       .ncpus = cpu >= 0};
  const sl_exchange_move sum = {.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_ALL};
  sl_status status = sl_comm_agree(pair, array ? SL_OK : sl_no_memory("for an array of %d numbers", ARRAY));
  SL_TRY_OUT(status);
  status = sl_exchange_create(&options, &e);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl_exchange_allocate(e, (size_t)count * sizeof(float), &memory));
  for (int64_t i = 0; i < count; i++) ((float *)memory)[i] = 0;
  SL_TRY_OUT(sl_exchange_add(e, sum, SL_F32, &(sl_stretch){.data = &memory, .count = count}, 1, &bucket));
  if (cpu >= 0 && cpu < CPU_SETSIZE && pthread_getaffinity_np(pthread_self(), sizeof before, &before) == 0) {
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    moved = pthread_setaffinity_np(pthread_self(), sizeof mine, &mine) == 0;
  }
  const double unit = seconds_of_computing(array);
  for (int r = 0; r <= SUMS; r++) { /* the first one warms up */
    atomic_int ended = 0;
    int64_t done = 0;
    MPI_TRY_OUT(MPI_Barrier(pair));
    const int64_t begin = sl_now();
    sl_exchange_post(e, bucket, over, &ended);
    for (; !atomic_load(&ended); done++) compute(array);
    taken[r] = 1e-9 * (double)(sl_now() - begin) - unit * (double)done;
    SL_TRY_OUT(sl_exchange_wait(e));
  }
  *seconds = cpu >= 0 ? fmax(0, sl_median(taken + 1, SUMS)) : 0;
out:
  free(array);
  if (moved) pthread_setaffinity_np(pthread_self(), sizeof before, &before);
  sl_exchange_destroy(e);
  return status;
}

/* ---- inside a node ----------------------------------------------------------------------------------------------- */

static void ended(void *arg) { *(int64_t *)arg = sl_now(); }

/* Seconds of one sum of `count` elements by the two ranks of pair. node: those that share memory. A round makes `times`
 * sums one after another; the fastest round counts. */
static sl_status time_sums(MPI_Comm pair, MPI_Comm node, int64_t count, int times, double *seconds) {
  static const int first[] = {0, 1, 2};
  sl_exchange *e = NULL;
  void *memory = NULL;
  int bucket;
  double round[ROUNDS + 1];
  int64_t end = 0;
  const sl_exchange_options options = {
      .type = sl_exchange_types[0], .comm = pair, .node = node, .leaves = 2, .first = first};
  const sl_exchange_move sum = {.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_ALL};
  sl_status status = sl_exchange_create(&options, &e);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl_exchange_allocate(e, (size_t)count * sizeof(float), &memory));
  for (int64_t i = 0; i < count; i++) ((float *)memory)[i] = 0;
  SL_TRY_OUT(sl_exchange_add(e, sum, SL_F32, &(sl_stretch){.data = &memory, .count = count}, 1, &bucket));
  for (int r = 0; r <= ROUNDS; r++) { /* the first one warms up */
    MPI_TRY_OUT(MPI_Barrier(pair));
    const int64_t begin = sl_now();
    for (int i = 0; i < times; i++) {
      sl_exchange_post(e, bucket, ended, &end);
      SL_TRY_OUT(sl_exchange_wait(e));
    }
    round[r] = 1e-9 * (double)(end - begin) / times;
  }
  *seconds = fastest(round + 1);
out:
  sl_exchange_destroy(e);
  return status;
}

static sl_status measure_inside(const place *p, MPI_Comm node, sl__network_description *n) {
  const int64_t bytes = (LONG_MB << 20) / (p->locals > 8 ? 4 : 1);
  MPI_Comm pair;
  double brief = 0, lasting = 0, taken = 0;
  int size;
  MPI_TRY(MPI_Comm_split(node, p->local / 2, p->local, &pair));
  sl_status status = sl_comm_status(MPI_Comm_size(pair, &size), "MPI_Comm_size");
  if (status == SL_OK && size == 2) status = time_sums(pair, pair, 1, SHORT, &brief);
  if (status == SL_OK && size == 2) status = time_sums(pair, pair, bytes / (int64_t)sizeof(float), 1, &lasting);
  if (status == SL_OK && size == 2) status = time_taken(pair, pair, p->cpu, bytes / (int64_t)sizeof(float), &taken);
  MPI_Comm_free(&pair);
  SL_TRY(sl_comm_agree(p->comm, status));
  SL_TRY(largest(p, &brief));
  SL_TRY(largest(p, &lasting));
  SL_TRY(largest(p, &taken));
  n->shared_latency = brief;
  if (taken > 0) n->shared_cpu = (double)bytes / taken;
  if (lasting > 0) n->shared = (double)bytes / (lasting > 2 * brief ? lasting - brief : lasting);
  return SL_OK;
}

/* ---- between nodes ----------------------------------------------------------------------------------------------- */

/* Sleeps while it waits: ranks that take no part leave their cores to those that do. */
static sl_status wait_asleep(MPI_Request *request) {
  const struct timespec nap = {.tv_nsec = 200000};
  for (int done = 0; !done;) {
    MPI_TRY(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (!done) nanosleep(&nap, NULL);
  }
  return SL_OK;
}

/* Seconds of `times` exchanges of n bytes each way with the partner, of the slowest rank. */
static sl_status swap(const place *p, int takes_part, char *out, char *in, int n, int times, double *seconds) {
  enum { TAG = 2 };
  MPI_Request all;
  int64_t begin = 0;
  *seconds = 0;
  MPI_TRY(MPI_Ibarrier(p->comm, &all));
  SL_TRY(wait_asleep(&all));
  for (int i = -1; i < times && takes_part; i++) { /* the first one, short, awakes both */
    const int bytes = i < 0 ? 1 : n;
    MPI_TRY(MPI_Sendrecv(out, bytes, MPI_CHAR, p->partner, TAG, in, bytes, MPI_CHAR, p->partner, TAG, p->comm,
                         MPI_STATUS_IGNORE));
    if (i < 0) begin = sl_now();
  }
  if (takes_part) *seconds = 1e-9 * (double)(sl_now() - begin);
  double mine = *seconds;
  MPI_TRY(MPI_Iallreduce(&mine, seconds, 1, MPI_DOUBLE, MPI_MAX, p->comm, &all));
  return wait_asleep(&all);
}

/* Seconds per message in the fastest round; a round takes as long as that of its slowest rank. times: messages in a
 * round; 0: as many as take 0.1 s. */
static sl_status time_messages(const place *p, int takes_part, char *out, char *in, int n, int times, double *seconds) {
  double round[ROUNDS], warm;
  SL_TRY(swap(p, takes_part, out, in, n, 2, &warm));
  if (times == 0) times = (int)fmax(1, fmin(MOST_MESSAGES, 0.1 / (warm / 2)));
  for (int r = 0; r < ROUNDS; r++) SL_TRY(swap(p, takes_part, out, in, n, times, &round[r]));
  *seconds = fastest(round) / times;
  return SL_OK;
}

/* Sums between the first ranks of two neighbouring nodes: a reduce-scatter and an allgather, in which a node sends as
 * many bytes as the sum has, half of them in each phase. rate: bytes/s of plain messages. */
static sl_status measure_sums(const place *p, double rate, sl__network_description *n) {
  const int leads = p->partner >= 0 && p->local == 0;
  const int64_t bytes = (int64_t)fmin(LONG_MB << 20, fmax(4 << 20, 0.1 * rate)), count = bytes / (int64_t)sizeof(float);
  const int64_t many = (int64_t)fmin(LONG_MB << 20, fmax(4 << 20, 0.4 * rate)); /* more than caches hold */
  const int low = p->rank < p->partner ? p->rank : p->partner;
  MPI_Comm pair;
  double brief = 0, lasting = 0, taken = 0;
  MPI_TRY(MPI_Comm_split(p->comm, leads ? low : MPI_UNDEFINED, p->rank, &pair));
  sl_status status = leads ? time_sums(pair, MPI_COMM_SELF, 1, SHORT, &brief) : SL_OK;
  if (status == SL_OK && leads) status = time_sums(pair, MPI_COMM_SELF, count, 1, &lasting);
  if (status == SL_OK && leads) status = time_taken(pair, MPI_COMM_SELF, p->cpu, many / (int64_t)sizeof(float), &taken);
  if (leads) MPI_Comm_free(&pair);
  SL_TRY(sl_comm_agree(p->comm, status));
  SL_TRY(largest(p, &brief));
  SL_TRY(largest(p, &lasting));
  SL_TRY(largest(p, &taken));
  n->latency = brief / 2;
  n->per_rank = (double)bytes / (lasting > 2 * brief ? lasting - brief : lasting);
  if (taken > 0) n->cpu = (double)many / taken;
  return SL_OK;
}

static sl_status measure_between(const place *p, sl__network_description *n) {
  const int bytes = MESSAGE_MB << 20;
  char *out = calloc(2, (size_t)bytes), *in = out ? out + bytes : NULL;
  double seconds, fewest = -p->pairs;
  sl_status status = sl_comm_agree(p->comm, out ? SL_OK : sl_no_memory("for messages of %d bytes", bytes));
  SL_TRY_OUT(status);
  SL_TRY_OUT(time_messages(p, p->partner >= 0 && p->local == 0, out, in, bytes, 0, &seconds));
  SL_TRY_OUT(measure_sums(p, bytes / seconds, n));
  if (p->pairs == 0) fewest = -INFINITY; /* the last of an odd number of nodes */
  SL_TRY_OUT(largest(p, &fewest));
  SL_TRY_OUT(time_messages(p, p->partner >= 0, out, in, bytes, 0, &seconds));
  n->per_node = fmax(n->per_rank, -fewest * bytes / seconds);
out:
  free(out);
  return status;
}

sl_status sl__network_measure(MPI_Comm comm, MPI_Comm node, int cpu, sl__network_description *network) {
  place p;
  *network = (sl__network_description){.topology = SL__STAR};
  SL_TRY(sl_comm_agree(comm, find_place(comm, node, cpu, &p)));
  double most = p.locals;
  SL_TRY(largest(&p, &most));
  if (most > 1) SL_TRY(measure_inside(&p, node, network));
  return p.nodes > 1 ? measure_between(&p, network) : SL_OK;
}
