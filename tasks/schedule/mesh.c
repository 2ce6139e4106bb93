/* Greedy list scheduling of several ranks by one queue of events. */
#include "tasks/schedule/mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/schedule/contention.h"

enum { NONE = -1 };

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef enum event_kind {
  TASK_ENDS,
  SUM_ENDS,
  MESSAGE_ENDS, /* at: the message */
  INPUT_COMES   /* at: the node that waited for a copy of an input */
} event_kind;

typedef struct event {
  double time;
  long order; /* number in the order of adding, which decides between events at the same time */
  event_kind kind;
  int rank, at;
} event;

typedef struct events {
  event *at;
  int n, room;
  long added;
} events;

static int sooner(const event *a, const event *b) {
  return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static sl_status add_event(events *e, double time, event_kind kind, int rank, int at) {
  if (e->n == e->room) {
    const int room = e->room ? 2 * e->room : 256;
    event *more = realloc(e->at, (size_t)room * sizeof *more);
    if (!more) return sl_no_memory("for %d events of a schedule", room);
    e->at = more, e->room = room;
  }
  const event mine = {.time = time, .order = e->added++, .kind = kind, .rank = rank, .at = at};
  int i = e->n++;
  for (; i > 0 && sooner(&mine, &e->at[(i - 1) / 2]); i = (i - 1) / 2) e->at[i] = e->at[(i - 1) / 2];
  e->at[i] = mine;
  return SL_OK;
}

static event take_event(events *e) {
  const event top = e->at[0], last = e->at[--e->n];
  int i = 0;
  for (int child; (child = 2 * i + 1) < e->n; i = child) {
    if (child + 1 < e->n && sooner(&e->at[child + 1], &e->at[child])) child++;
    if (!sooner(&e->at[child], &last)) break;
    e->at[i] = e->at[child];
  }
  e->at[i] = last;
  return top;
}

/* ---- ranks and lanes --------------------------------------------------------------------------------------------- */

typedef struct message {
  int from, to;    /* ranks */
  int sent, taken; /* nodes of these */
  double seconds, work;
  int waits;   /* how many of its two nodes, `sent` and `taken`, are not ready */
  long waited; /* number in the order in which messages become ready */
} message;

/* Exchanges that run one after another. at: numbers of messages or, in the lane of a rank's sums, indices into the
 * rank's list of exchanges. */
typedef struct lane {
  int *at;
  int n, next; /* the next one to begin or, if busy, to end */
  int busy;
} lane;

/* One direction of the exchange of a rank: one message at a time. */
typedef struct port {
  lane **lane; /* [n] those that have messages */
  int n, busy;
} port;

/* The last copy, to one memory, of outputs of the node that ends now. */
typedef struct arrival {
  double bytes, time;
} arrival;

/* Tasks that may run on any of these workers. */
typedef struct queue {
  sl_heap ready;
  int first, idle; /* the first worker; how many are idle */
} queue;

typedef struct member {
  const sl_mesh_rank *given;
  int *waits;          /* [nodes] tasks and copies that must end before */
  int *first, *after;  /* as sl__successors */
  int *message;        /* [nodes] number of its message; NONE */
  queue *queue;        /* [queues] the CPU workers, then each GPU */
  char *busy;          /* [workers] */
  int queues, changed; /* changed: tasks or workers have become free */
  sl_contention load;
  lane sums;
  port sends, receives;
  double *link;  /* [2 * gpus] when the link from each GPU, and the link to it, are free */
  arrival *came; /* [1 + gpus] for each memory */
} member;

typedef struct joint {
  int n, left, tasks; /* ranks; tasks and exchanges that have not ended, and all of them */
  member *rank;
  message *message;
  int messages;
  lane *lane; /* [n * n] from rank a to rank b: a * n + b */
  events events;
  double now;
  long ready; /* messages that have become ready */
  sl_mesh_schedule *result;
} joint;

static const sl_node *node_of(const joint *j, int rank, int node) { return j->rank[rank].given->step->node[node]; }

/* The memory in which a node works: 0: the host's; i: that of GPU i - 1. */
static int memory_of(const sl_mesh_rank *r, int node) {
  const int worker = r->schedule->worker[node];
  if (r->schedule->gpus == 0 || r->step->node[node]->bucket || worker < r->schedule->cpus) return 0;
  return 1 + worker - r->schedule->cpus;
}

/* A copy over one direction of a GPU's link, behind the copies that are under way there. Returns its end. */
static double moved(member *m, int memory, int to_gpu, double from, double seconds) {
  double *until = &m->link[2 * (memory - 1) + to_gpu];
  return *until = fmax(from, *until) + seconds;
}

/* The time at which the values that node b reads from node a, which ends now, are in b's memory. */
static double arrives(const joint *j, int r, int a, int b) {
  member *m = &j->rank[r];
  const sl_mesh_rank *given = m->given;
  const int from = memory_of(given, a), to = memory_of(given, b);
  if (from == to) return j->now;
  const double bytes = sl__bytes_between(given->step, given->step->node[a], given->step->node[b]);
  const sl_machine *machine = given->machine;
  if (bytes == 0) return j->now;
  if (m->came[to].bytes == bytes) return m->came[to].time; /* the same copy */
  double time = j->now;
  if (from > 0 && to > 0 && machine->peer > 0) {
    const double seconds = machine->peer_latency + bytes / machine->peer;
    time = moved(m, to, 1, fmax(time, m->link[2 * (from - 1)]), seconds);
    m->link[2 * (from - 1)] = time;
  } else {
    const double seconds = machine->latency + bytes / machine->link;
    if (from > 0) time = moved(m, from, 0, time, seconds);
    if (to > 0) time = moved(m, to, 1, time, seconds);
  }
  m->came[to] = (arrival){bytes, time};
  return time;
}

static sl_status open_queues(member *m) {
  const sl_schedule *s = m->given->schedule;
  m->queues = 1 + s->gpus;
  m->queue = calloc((size_t)m->queues, sizeof *m->queue);
  m->busy = calloc((size_t)(s->cpus + s->gpus) + 1, 1);
  m->link = calloc((size_t)(2 * s->gpus) + 1, sizeof *m->link);
  m->came = calloc((size_t)s->gpus + 1, sizeof *m->came);
  if (!m->queue || !m->busy || !m->link || !m->came) return sl_no_memory("for the workers of a rank");
  for (int q = 0; q < m->queues; q++) {
    queue *one = &m->queue[q];
    one->idle = q > 0 ? 1 : s->cpus > 0 ? s->cpus : s->gpus == 0;
    one->first = q > 0 ? s->cpus + q - 1 : 0;
    one->ready = (sl_heap){.at = malloc(((size_t)s->n + 1) * sizeof(int)), .key = s->urgency};
    if (!one->ready.at) return sl_no_memory("to schedule %d tasks", s->n);
  }
  return SL_OK;
}

static sl_status open_member(joint *j, int r) {
  member *m = &j->rank[r];
  const sl_schedule *s = m->given->schedule;
  const size_t n = (size_t)s->n + 1;
  m->waits = malloc(n * sizeof *m->waits);
  m->message = malloc(n * sizeof *m->message);
  m->sums.at = malloc(n * sizeof *m->sums.at);
  j->result->rank[r].start = calloc(n, sizeof *j->result->rank[r].start);
  j->result->rank[r].later = calloc(n, sizeof *j->result->rank[r].later);
  j->result->rank[r].worker = malloc(n * sizeof *j->result->rank[r].worker);
  if (!m->waits || !m->message || !m->sums.at || !j->result->rank[r].start || !j->result->rank[r].later ||
      !j->result->rank[r].worker)
    return sl_no_memory("to schedule %d tasks", s->n);
  for (int i = 0; i < s->n; i++) {
    j->result->rank[r].worker[i] = NONE;
    m->waits[i] = s->from[i + 1] - s->from[i];
    m->message[i] = NONE;
  }
  SL_TRY(sl__successors(s, &m->first, &m->after));
  SL_TRY(open_queues(m));
  j->left += s->n;
  return SL_OK;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Whether both nodes move the same pieces of the same values. */
static int same_values(const sl_graph *a, const sl_node *sent, const sl_graph *b, const sl_node *taken) {
  if (sent->n_in != taken->n_in) return 0;
  for (int k = 0; k < sent->n_in; k++) {
    const sl_value_info *x = a->value[sent->in[k]], *y = b->value[taken->in[k]];
    if (x->logical != y->logical || x->leaf != y->leaf || x->shard != y->shard || x->block != y->block ||
        sl_value_bytes(x) != sl_value_bytes(y))
      return 0;
  }
  return 1;
}

/* The k-th message that rank a sends to rank b meets the k-th one that b receives from a. */
static sl_status pair_up(joint *j, int a, int b) {
  lane *l = &j->lane[a * j->n + b];
  const sl_mesh_rank *from = j->rank[a].given, *to = j->rank[b].given;
  int received = 0, next = 0;
  for (int k = 0; k < to->exchanges; k++)
    received += to->exchange[k].peer == a && to->step->node[to->exchange[k].node]->message == SL_MESSAGE_RECEIVED;
  for (int k = 0; k < from->exchanges; k++)
    l->n += from->exchange[k].peer == b && from->step->node[from->exchange[k].node]->message == SL_MESSAGE_SENT;
  if (l->n != received)
    return sl_fail(SL_EINVAL, "rank %d of the mesh sends %d messages to rank %d, which receives %d", a, l->n, b,
                   received);
  if (l->n == 0) return SL_OK;
  l->at = malloc((size_t)l->n * sizeof *l->at);
  message *more = realloc(j->message, (size_t)(j->messages + l->n) * sizeof *more);
  if (more) j->message = more;
  if (!more || !l->at) return sl_no_memory("for %d messages", j->messages + l->n);
  for (int k = 0, i = 0; k < from->exchanges; k++) {
    const sl_mesh_exchange *x = &from->exchange[k];
    const sl_node *sent = from->step->node[x->node];
    if (x->peer != b || sent->message != SL_MESSAGE_SENT) continue;
    while (to->exchange[next].peer != a || to->step->node[to->exchange[next].node]->message != SL_MESSAGE_RECEIVED)
      next++;
    const int node = to->exchange[next++].node;
    const sl_node *taken = to->step->node[node];
    if (!same_values(from->step, sent, to->step, taken))
      return sl_fail(SL_EINVAL,
                     "message %d from rank %d of the mesh to rank %d: layer '%s' sends another value than layer '%s' "
                     "receives, so their orders differ",
                     i + 1, a, b, sent->name, taken->name);
    l->at[i++] = j->rank[a].message[x->node] = j->rank[b].message[node] = j->messages;
    j->message[j->messages++] = (message){
        .from = a, .to = b, .sent = x->node, .taken = node, .seconds = x->seconds, .work = x->work, .waits = 2};
  }
  return SL_OK;
}

/* Checks that each exchange node of a rank is listed once, and each message with another rank of the mesh. */
static sl_status check_list(const joint *j, int r) {
  const sl_mesh_rank *given = j->rank[r].given;
  const int nodes = given->step->n_nodes;
  char *listed = calloc((size_t)nodes + 1, 1);
  sl_status status = listed ? SL_OK : sl_no_memory("for %d tasks", nodes);
  for (int k = 0; k < given->exchanges && status == SL_OK; k++) {
    const sl_mesh_exchange *x = &given->exchange[k];
    const int there = x->node >= 0 && x->node < nodes && given->step->node[x->node]->bucket && !listed[x->node];
    const int message = there && given->step->node[x->node]->message != SL_MESSAGE_NONE;
    if (!there || (message ? x->peer < 0 || x->peer >= j->n || x->peer == r : x->peer != NONE) || !(x->seconds >= 0) ||
        isinf(x->seconds) || !(x->work >= 0) || isinf(x->work))
      status = sl_fail(SL_EINVAL, "exchange %d of rank %d of the mesh: node %d, rank %d, %g s do not fit its graph", k,
                       r, x->node, x->peer, x->seconds);
    else
      listed[x->node] = 1;
  }
  for (int i = 0; i < nodes && status == SL_OK; i++)
    if (given->step->node[i]->bucket && !listed[i])
      status =
          sl_fail(SL_EINVAL, "rank %d of the mesh lists no exchange for layer '%s'", r, given->step->node[i]->name);
  free(listed);
  return status;
}

/* The lanes that leave a rank and that lead to it. */
static sl_status open_ports(joint *j, int r) {
  member *m = &j->rank[r];
  m->sends.lane = malloc((size_t)j->n * sizeof *m->sends.lane);
  m->receives.lane = malloc((size_t)j->n * sizeof *m->receives.lane);
  if (!m->sends.lane || !m->receives.lane) return sl_no_memory("for the lanes of %d ranks", j->n);
  for (int other = 0; other < j->n; other++) {
    lane *to = &j->lane[r * j->n + other], *from = &j->lane[other * j->n + r];
    if (to->n > 0) m->sends.lane[m->sends.n++] = to;
    if (from->n > 0) m->receives.lane[m->receives.n++] = from;
  }
  return SL_OK;
}

static sl_status open_lanes(joint *j) {
  for (int r = 0; r < j->n; r++) SL_TRY(check_list(j, r));
  for (int a = 0; a < j->n; a++)
    for (int b = 0; b < j->n; b++)
      if (a != b) SL_TRY(pair_up(j, a, b));
  for (int r = 0; r < j->n; r++) SL_TRY(open_ports(j, r));
  for (int r = 0; r < j->n; r++)
    for (int k = 0; k < j->rank[r].given->exchanges; k++)
      if (j->rank[r].given->exchange[k].peer == NONE) j->rank[r].sums.at[j->rank[r].sums.n++] = k;
  return SL_OK;
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static void start(joint *j, int rank, int node) { j->result->rank[rank].start[node] = j->now; }

/* Brings the debt of a rank's tasks up to now. Call before a CPU worker becomes idle or busy. */
static sl_contention *load_of(joint *j, int r) {
  member *m = &j->rank[r];
  const int cpus = m->given->schedule->cpus > 0 || m->given->schedule->gpus == 0;
  sl_contention_update(&m->load, j->now, cpus && m->queue[0].idle == 0);
  return &m->load;
}

/* The next message of a lane, if it can begin; NULL. */
static message *startable(const joint *j, const lane *l) {
  if (l->busy || l->next == l->n) return NULL;
  message *m = &j->message[l->at[l->next]];
  return m->waits > 0 || j->rank[m->from].sends.busy || j->rank[m->to].receives.busy ? NULL : m;
}

/* Begins the next message of a lane, if it can begin. */
static sl_status move_on(joint *j, lane *l) {
  const message *m = startable(j, l);
  if (!m) return SL_OK;
  l->busy = j->rank[m->from].sends.busy = j->rank[m->to].receives.busy = 1;
  start(j, m->from, m->sent), start(j, m->to, m->taken);
  sl_contention_begin(load_of(j, m->from), m->work, m->seconds);
  sl_contention_begin(load_of(j, m->to), m->work, m->seconds);
  return add_event(&j->events, j->now + m->seconds, MESSAGE_ENDS, m->from, l->at[l->next]);
}

/* Of the messages that wait for a port, begins the one that has been ready longest. */
static sl_status serve(joint *j, const port *p) {
  lane *first = NULL;
  long waited = 0;
  for (int k = 0; k < p->n; k++) {
    const message *m = startable(j, p->lane[k]);
    if (m && (!first || m->waited < waited)) first = p->lane[k], waited = m->waited;
  }
  return first ? move_on(j, first) : SL_OK;
}

static sl_status sum_on(joint *j, int r) {
  member *m = &j->rank[r];
  lane *l = &m->sums;
  if (l->busy || l->next == l->n) return SL_OK;
  const sl_mesh_exchange *x = &m->given->exchange[l->at[l->next]];
  if (m->waits[x->node] > 0) return SL_OK;
  l->busy = 1;
  start(j, r, x->node);
  sl_contention_begin(load_of(j, r), x->work, x->seconds);
  return add_event(&j->events, j->now + x->seconds, SUM_ENDS, r, x->node);
}

/* Queues a task that waits for nothing any more, or begins an exchange if its lane is free. */
static sl_status become_ready(joint *j, int r, int node) {
  member *m = &j->rank[r];
  if (m->message[node] != NONE) {
    message *one = &j->message[m->message[node]];
    if (--one->waits == 0) one->waited = j->ready++;
    return move_on(j, &j->lane[one->from * j->n + one->to]);
  }
  if (node_of(j, r, node)->bucket) return sum_on(j, r);
  sl__heap_push(&m->queue[memory_of(m->given, node)].ready, node);
  m->changed = 1;
  return SL_OK;
}

static sl_status end(joint *j, int r, int node) {
  member *m = &j->rank[r];
  j->left--;
  for (int g = 0; g < m->queues; g++) m->came[g] = (arrival){0};
  for (int k = m->first[node]; k < m->first[node + 1]; k++) {
    const int next = m->after[k];
    const double time = arrives(j, r, node, next);
    if (time > j->now)
      SL_TRY(add_event(&j->events, time, INPUT_COMES, r, next));
    else if (--m->waits[next] == 0)
      SL_TRY(become_ready(j, r, next));
  }
  return SL_OK;
}

/* Whether a task that would end now has to pay for exchanges first. A task pays once. */
static int owes(joint *j, int r, int node) {
  if (memory_of(j->rank[r].given, node) > 0 || j->result->rank[r].later[node] > 0) return 0;
  return load_of(j, r)->debt > 0;
}

static sl_status end_later(joint *j, int r, int node) {
  sl_mesh_share *share = &j->result->rank[r];
  const sl_schedule *s = j->rank[r].given->schedule;
  const int workers = s->cpus + s->gpus > 0 ? s->cpus + s->gpus : 1;
  const double seconds = share->later[node] = sl_contention_pay(&j->rank[r].load);
  share->busy += seconds / workers, share->taken += seconds / workers;
  return add_event(&j->events, j->now + seconds, TASK_ENDS, r, node);
}

static sl_status handle(joint *j, const event *e) {
  member *m = &j->rank[e->rank];
  switch (e->kind) {
    case TASK_ENDS:
      if (owes(j, e->rank, e->at)) return end_later(j, e->rank, e->at);
      load_of(j, e->rank);
      m->queue[memory_of(m->given, e->at)].idle++;
      m->busy[j->result->rank[e->rank].worker[e->at]] = 0;
      m->changed = 1;
      return end(j, e->rank, e->at);
    case SUM_ENDS:
      sl_contention_end(load_of(j, e->rank), m->given->exchange[m->sums.at[m->sums.next]].work,
                        m->given->exchange[m->sums.at[m->sums.next]].seconds);
      m->sums.busy = 0, m->sums.next++;
      SL_TRY(end(j, e->rank, e->at));
      return sum_on(j, e->rank);
    case MESSAGE_ENDS: {
      const message one = j->message[e->at];
      lane *l = &j->lane[one.from * j->n + one.to];
      sl_contention_end(load_of(j, one.from), one.work, one.seconds);
      sl_contention_end(load_of(j, one.to), one.work, one.seconds);
      l->busy = j->rank[one.from].sends.busy = j->rank[one.to].receives.busy = 0, l->next++;
      SL_TRY(serve(j, &j->rank[one.from].sends)); /* waiting messages come before those that become ready now */
      SL_TRY(serve(j, &j->rank[one.to].receives));
      SL_TRY(end(j, one.from, one.sent));
      return end(j, one.to, one.taken);
    }
    default:
      return --m->waits[e->at] == 0 ? become_ready(j, e->rank, e->at) : SL_OK;
  }
}

/* Gives the most urgent tasks to idle workers. */
static sl_status run_tasks(joint *j, int r) {
  member *m = &j->rank[r];
  const sl_schedule *s = m->given->schedule;
  for (int q = 0; q < m->queues; q++)
    while (m->queue[q].idle > 0 && m->queue[q].ready.n > 0) {
      const int node = sl__heap_pop(&m->queue[q].ready);
      int worker = m->queue[q].first;
      while (m->busy[worker]) worker++;
      load_of(j, r);
      m->queue[q].idle--;
      m->busy[worker] = 1;
      j->result->rank[r].worker[node] = worker;
      start(j, r, node);
      const int workers = s->cpus + s->gpus > 0 ? s->cpus + s->gpus : 1;
      j->result->rank[r].busy += s->seconds[node] / workers;
      SL_TRY(add_event(&j->events, j->now + s->seconds[node], TASK_ENDS, r, node));
    }
  m->changed = 0;
  return SL_OK;
}

/* Names a rank that waits, and for what. */
static sl_status stands_still(const joint *j) {
  const int done = j->tasks - j->left;
  for (int k = 0; k < j->n * j->n; k++) {
    const lane *l = &j->lane[k];
    const message *m = l->next < l->n ? &j->message[l->at[l->next]] : NULL;
    if (!m || m->waits != 1) continue;
    const int sender_waits = j->rank[m->from].waits[m->sent] == 0;
    return sl_fail(SL_EINVAL,
                   "the ranks of the mesh wait for each other after %d of %d tasks: rank %d waits %s rank %d, in layer "
                   "'%s'",
                   done, j->tasks, sender_waits ? m->from : m->to, sender_waits ? "to send to" : "for a message of",
                   sender_waits ? m->to : m->from,
                   node_of(j, sender_waits ? m->from : m->to, sender_waits ? m->sent : m->taken)->name);
  }
  return sl_fail(SL_EINVAL, "the ranks of the mesh stand still after %d of %d tasks: a worker or an order is missing",
                 done, j->tasks);
}

static sl_status carry_out(joint *j) {
  j->tasks = j->left;
  for (int r = 0; r < j->n; r++)
    for (int i = 0; i < j->rank[r].given->schedule->n; i++)
      if (j->rank[r].given->schedule->from[i] == j->rank[r].given->schedule->from[i + 1]) SL_TRY(become_ready(j, r, i));
  for (;;) {
    for (int r = 0; r < j->n; r++)
      if (j->rank[r].changed) SL_TRY(run_tasks(j, r));
    if (j->events.n == 0) break;
    j->now = j->events.at[0].time;
    while (j->events.n > 0 && j->events.at[0].time == j->now) {
      const event e = take_event(&j->events);
      SL_TRY(handle(j, &e));
    }
  }
  j->result->makespan = j->now;
  return j->left > 0 ? stands_still(j) : SL_OK;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

typedef struct span {
  double start, end;
} span;

static int by_start(const void *a, const void *b) {
  const span *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

/* Seconds that the spans cover together. */
static double covered(span *all, int n) {
  double seconds = 0, until = 0;
  qsort(all, (size_t)n, sizeof *all, by_start);
  for (int i = 0; i < n; i++) {
    if (all[i].end > until) seconds += all[i].end - fmax(all[i].start, until);
    until = fmax(until, all[i].end);
  }
  return seconds;
}

/* Divides the time in which a rank runs no task. */
static sl_status divide_idle(joint *j, int r) {
  const sl_mesh_rank *given = j->rank[r].given;
  sl_mesh_share *share = &j->result->rank[r];
  span *all = malloc(((size_t)given->schedule->n + 1) * sizeof *all);
  int n = 0;
  if (!all) return sl_no_memory("for %d tasks", given->schedule->n);
  for (int i = 0; i < given->schedule->n; i++)
    if (!given->step->node[i]->bucket)
      all[n++] = (span){share->start[i], share->start[i] + given->schedule->seconds[i] + share->later[i]};
  const double working = covered(all, n);
  for (int k = 0; k < given->exchanges; k++) {
    const sl_mesh_exchange *x = &given->exchange[k];
    const int number = j->rank[r].message[x->node];
    if (number != NONE && j->message[number].from == r) continue; /* a rank does not wait for a message that it sends */
    all[n++] = (span){share->start[x->node],
                      share->start[x->node] + (number == NONE ? x->seconds : j->message[number].seconds)};
  }
  const double with_exchanges = covered(all, n);
  share->exposed = with_exchanges - working;
  share->bubble = j->result->makespan - with_exchanges;
  free(all);
  return SL_OK;
}

static sl_status find_shares(joint *j) {
  sl_mesh_schedule *m = j->result;
  for (int r = 0; r < j->n; r++) {
    SL_TRY(divide_idle(j, r));
    if (!(m->makespan > 0)) continue;
    m->busy += m->rank[r].busy / m->makespan / j->n;
    m->exposed += m->rank[r].exposed / m->makespan / j->n;
    m->bubble += m->rank[r].bubble / m->makespan / j->n;
  }
  return SL_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void close_joint(joint *j) {
  for (int r = 0; j->rank && r < j->n; r++) {
    member *m = &j->rank[r];
    for (int q = 0; m->queue && q < m->queues; q++) free(m->queue[q].ready.at);
    free(m->queue), free(m->busy), free(m->waits), free(m->message), free(m->first), free(m->after), free(m->sums.at);
    free(m->sends.lane), free(m->receives.lane), free(m->link), free(m->came);
  }
  for (int k = 0; j->lane && k < j->n * j->n; k++) free(j->lane[k].at);
  free(j->rank), free(j->lane), free(j->message), free(j->events.at);
}

sl_status sl_mesh_schedule_create(const sl_mesh_rank *rank, int n, sl_mesh_schedule **mesh) {
  joint j = {.n = n,
             .rank = calloc((size_t)n + 1, sizeof *j.rank),
             .lane = calloc((size_t)n * (size_t)n + 1, sizeof *j.lane),
             .result = calloc(1, sizeof *j.result)};
  sl_status status = SL_OK;
  *mesh = NULL;
  if (j.result) j.result->rank = calloc((size_t)n + 1, sizeof *j.result->rank);
  if (!j.rank || !j.lane || !j.result || !j.result->rank) SL_TRY_OUT(sl_no_memory("for a schedule of %d ranks", n));
  j.result->ranks = n;
  for (int r = 0; r < n; r++) j.rank[r].given = &rank[r];
  for (int r = 0; r < n; r++) SL_TRY_OUT(open_member(&j, r));
  SL_TRY_OUT(open_lanes(&j));
  SL_TRY_OUT(carry_out(&j));
  SL_TRY_OUT(find_shares(&j));
  *mesh = j.result;
  j.result = NULL;
out:
  close_joint(&j);
  sl_mesh_schedule_destroy(j.result);
  return status;
}

void sl_mesh_schedule_destroy(sl_mesh_schedule *m) {
  if (!m) return;
  for (int r = 0; m->rank && r < m->ranks; r++) free(m->rank[r].start), free(m->rank[r].later), free(m->rank[r].worker);
  free(m->rank), free(m);
}
