/* Memory planning: first joins values that are computed in place into groups, then gives the groups slots along the
 * predicted schedule, by the algorithm "shared objects, greedy by size" (Pisarchyk and Lee 2020). */
#include "tasks/schedule/memory.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A group of values in one buffer: a single value, or a chain of in-place operations. */
typedef struct group {
  size_t bytes;
  double start, end;         /* predicted first write, last use */
  int writer;                /* node of the first write */
  int first_turn, last_turn; /* turns of the first write and the last use */
  int received;              /* its first write is a message from another stage */
  int memory;                /* where it is first written: 0 is the host's, others are those of GPUs */
  int keep;
} group;

typedef struct planner {
  const sl_graph *g;
  sl_schedule *s;
  int *group_of;           /* [values] the value that represents its group */
  int *next;               /* [values] next member of the group, -1 at its end */
  group *group;            /* [values], valid where group_of[v] == v */
  int *users, *first_user; /* nodes that touch each value v: users[first_user[v]] ... */
} planner;

/* With GPUs: the largest slot of a value of so many bytes. StarPU copies a slot as a whole, and most of the time of a
 * copy of SMALL bytes is latency. */
enum { SMALL = 64 << 10 };
static size_t largest_slot(size_t bytes) { return bytes > SMALL / 2 ? 2 * bytes : SMALL; }

/* The memory of a node's worker in the predicted schedule. */
static int memory_of(const sl_schedule *s, int node) {
  return s->worker[node] < s->cpus ? 0 : s->worker[node] - s->cpus + 1;
}

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static int temporary(const planner *p, int v) { return p->g->value[v]->role == SL_ROLE_TEMPORARY; }

/* Nodes that touch each value, in node order; a node that reads and writes a value counts once. */
static sl_status list_users(planner *p) {
  const sl_graph *g = p->g;
  int *count = calloc((size_t)g->n_values + 2, sizeof *count), total = 0;
  if (!count) return sl_no_memory("to plan %d values", g->n_values);
  p->first_user = count;
  for (int i = 0; i < g->n_nodes; i++) total += g->node[i]->n_in + g->node[i]->n_out;
  p->users = malloc(((size_t)total + 1) * sizeof *p->users);
  int *last = malloc(((size_t)g->n_values + 1) * sizeof *last);
  if (!p->users || !last) {
    free(last);
    return sl_no_memory("to plan %d values", g->n_values);
  }
  for (int fill = 0; fill < 2; fill++) {
    for (int v = 0; v < g->n_values; v++) last[v] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
      const sl_node *node = g->node[i];
      for (int k = 0; k < node->n_in + node->n_out; k++) {
        int v = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
        if (last[v] == i) continue;
        last[v] = i;
        if (fill)
          p->users[count[v + 1]++] = i;
        else
          count[v + 2]++;
      }
    }
    if (!fill)
      for (int v = 0; v < g->n_values; v++) count[v + 1] += count[v];
  }
  free(last);
  return SL_OK;
}

static int n_users(const planner *p, int v) { return p->first_user[v + 1] - p->first_user[v]; }

/* Values computed in place share their input's group. */
static void join_in_place(planner *p) {
  for (int i = 0; i < p->g->n_nodes; i++)
    for (int j = 0; j < p->g->node[i]->n_out; j++) {
      int to = p->g->node[i]->out[j], from = p->s->onto[to];
      if (from < 0 || p->group_of[to] != to) continue;
      p->group_of[to] = p->group_of[from];
      p->next[to] = p->next[p->group_of[from]];
      p->next[p->group_of[from]] = to;
    }
}

static int largest_first(const void *a, const void *b) {
  const group *x = *(group *const *)a, *y = *(group *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->writer < y->writer ? -1 : x->writer > y->writer;
}

typedef struct tenant {
  double start, end; /* of the group */
  const group *group;
} tenant;

/* A slot and its groups, sorted by time. The last place that was looked up is kept: groups of one size come in the
 * order of their starts, so the next one often has the same place. */
typedef struct slot {
  tenant *tenant;
  int n, capacity;
  int memory, keep;      /* as the groups have them */
  int place;             /* index that a group gets which starts after `from`, and at `to` at the latest */
  double from, free, to; /* start and end of the group before this place, start of the group after it */
} slot;

/* The turn in which a node ends. A message that is sent ends in the next turn, when another stage has received it. */
static int last_turn_of(const sl_node *node) { return node->turn + (node->message == SL_MESSAGE_SENT); }

/* Whether b may follow a in a slot: a's last use ends well before b's first write, or in an earlier turn. A buffer that
 * receives a message must be free before the turn of its readers begins: otherwise stages that wait for each other's
 * messages in one slot of the timetable could deadlock. */
static int gives_way(const group *a, const group *b, double slack) {
  if (a->last_turn > b->first_turn || (b->received && a->last_turn == b->first_turn)) return 0;
  return a->end + (a->last_turn < b->first_turn ? 0 : slack) <= b->start;
}

/* Finds the place of a group that starts at this time. */
static void look_up(slot *s, double start) {
  int low = 0, high = s->n;
  if (s->from < start && start <= s->to) return;
  while (low < high) {
    const int mid = (low + high) / 2;
    if (s->tenant[mid].start < start)
      low = mid + 1;
    else
      high = mid;
  }
  s->place = low;
  s->from = low > 0 ? s->tenant[low - 1].start : -INFINITY;
  s->free = low > 0 ? s->tenant[low - 1].end : -INFINITY;
  s->to = low < s->n ? s->tenant[low].start : INFINITY;
}

/* How long the slot would be empty before and after the group; infinite: the group overlaps another one. */
static double idle_around(slot *s, const group *mine) {
  look_up(s, mine->start);
  if (mine->start < s->free || mine->end > s->to) return INFINITY;
  return (s->place > 0 ? mine->start - s->free : 0) + (s->place < s->n ? s->to - mine->end : 0);
}

/* Whether the group may come at the place that was looked up for it. */
static int fits(const slot *s, const group *mine, double slack) {
  const tenant *at = s->tenant + s->place;
  return (s->place == 0 || gives_way(at[-1].group, mine, slack)) &&
         (s->place == s->n || gives_way(mine, at->group, slack));
}

/* Inserts the group at the place that was looked up for it. */
static int insert(slot *s, const group *mine) {
  if (s->n == s->capacity) {
    const int wanted = s->capacity ? 2 * s->capacity : 8;
    tenant *more = realloc(s->tenant, (size_t)wanted * sizeof *more);
    if (!more) return 0;
    s->tenant = more;
    s->capacity = wanted;
  }
  memmove(s->tenant + s->place + 1, s->tenant + s->place, (size_t)(s->n++ - s->place) * sizeof *s->tenant);
  s->tenant[s->place] = (tenant){mine->start, mine->end, mine};
  s->memory = mine->memory, s->keep = mine->keep;
  s->from = s->to = 0; /* no place is kept */
  return 1;
}

/* Which slots are in use when. The predicted step is cut into equal spans; a bit says that one group of a slot covers a
 * whole span. A slot with such a bit in a group's lifetime is ruled out without a look at its groups. */
enum { SPANS = 512, LOOKS = 16, BITS = 64 };
typedef struct taken {
  uint64_t (*spans)[SPANS]; /* [slots / BITS] */
  int n;                    /* blocks of BITS slots */
  double width;             /* seconds of a span */
} taken;

/* The first span that ends after the time. */
static int span_of(const taken *t, double time) {
  int span = t->width > 0 ? (int)fmin(fmax(time / t->width, 0), SPANS) : 0;
  while (span > 0 && time < t->width * span) span--;
  while (span < SPANS && time >= t->width * (span + 1)) span++;
  return span;
}

/* Sets the bits of the spans that the group covers. 0: no memory. */
static int take(taken *t, int slot, const group *mine) {
  if (slot / BITS == t->n) {
    uint64_t(*more)[SPANS] = realloc(t->spans, (size_t)(t->n + 1) * sizeof *more);
    if (!more) return 0;
    t->spans = more;
    memset(t->spans[t->n++], 0, sizeof *t->spans);
  }
  int span = span_of(t, mine->start);
  if (t->width * span < mine->start) span++;
  for (; span < SPANS && t->width * (span + 1) <= mine->end; span++)
    t->spans[slot / BITS][span] |= UINT64_C(1) << slot % BITS;
  return 1;
}

/* The slots of a block that may be free while the group is used: it looks at up to LOOKS spans of this time. */
static uint64_t free_slots(const taken *t, int block, int first, int last) {
  const int n = last - first, step = n > LOOKS ? (n + LOOKS - 1) / LOOKS : 1;
  uint64_t occupied = 0;
  for (int span = first; span < last; span += step) occupied |= t->spans[block][span];
  if (n > 0) occupied |= t->spans[block][last - 1];
  return ~occupied;
}

/* Whether another user of the group depends directly on this one, so that waiting for that user suffices. */
static int covered(const planner *p, int old, int node) {
  for (int v = old; v >= 0; v = p->next[v])
    for (int u = p->first_user[v]; u < p->first_user[v + 1]; u++)
      for (int k = p->s->from[p->users[u]]; k < p->s->from[p->users[u] + 1]; k++)
        if (p->s->before[k] == node) return 1;
  return 0;
}

/* Makes all users of the old group end before the new group's first write. */
static sl_status order_after(planner *p, int old, int writer, int **pairs, int *n, int *capacity) {
  for (int v = old; v >= 0; v = p->next[v])
    for (int u = p->first_user[v]; u < p->first_user[v + 1]; u++) {
      if (covered(p, old, p->users[u])) continue;
      if (*n == *capacity) {
        int wanted = *capacity ? 2 * *capacity : 256;
        int *more = realloc(*pairs, (size_t)wanted * 2 * sizeof *more);
        if (!more) return sl_no_memory("to order buffers");
        *pairs = more;
        *capacity = wanted;
      }
      (*pairs)[2 * *n] = p->users[u];
      (*pairs)[2 * (*n)++ + 1] = writer;
    }
  return SL_OK;
}

sl_status sl_memory_plan(const sl_graph *g, sl_schedule *s, const char *keep, double slack, sl_memory **memory) {
  *memory = NULL;
  size_t n = (size_t)g->n_values + 1;
  planner p = {.g = g,
               .s = s,
               .group_of = malloc(n * sizeof(int)),
               .next = malloc(n * sizeof(int)),
               .group = calloc(n, sizeof(group))};
  group **list = malloc(n * sizeof *list);
  slot *slots = calloc(n, sizeof *slots);
  taken taken = {0};
  const double free_for = slack * s->makespan / g->turns;
  int *pairs = NULL, n_pairs = 0, capacity = 0, n_groups = 0;
  sl_memory *m = calloc(1, sizeof *m);
  sl_status status = SL_OK;
  if (!p.group_of || !p.next || !p.group || !list || !slots || !m || !(m->slot = malloc(n * sizeof(int))) ||
      !(m->bytes = calloc(n, sizeof(size_t)))) {
    status = sl_no_memory("to plan %d values", g->n_values);
    goto out;
  }
  SL_TRY_OUT(list_users(&p));
  for (int v = 0; v < g->n_values; v++) p.group_of[v] = v, p.next[v] = -1, m->slot[v] = -1;
  join_in_place(&p);
  for (int v = 0; v < g->n_values; v++) {
    if (!temporary(&p, v)) {
      m->persistent += sl_value_bytes(g->value[v]);
      continue;
    }
    if (n_users(&p, v) == 0) continue;
    group *mine = &p.group[p.group_of[v]];
    if (mine->bytes == 0) {
      *mine = (group){.bytes = rounded(sl_value_bytes(g->value[v])), .writer = p.users[p.first_user[v]]};
      mine->start = s->start[mine->writer];
      list[n_groups++] = mine;
    }
    m->unshared += rounded(sl_value_bytes(g->value[v]));
    mine->keep |= keep && keep[v];
    for (int u = p.first_user[v]; u < p.first_user[v + 1]; u++) {
      int node = p.users[u];
      if (s->start[node] + s->seconds[node] > mine->end) mine->end = s->start[node] + s->seconds[node];
      if (last_turn_of(g->node[node]) > mine->last_turn) mine->last_turn = last_turn_of(g->node[node]);
      if (s->start[node] < mine->start) mine->start = s->start[node], mine->writer = node;
    }
  }
  for (int i = 0; i < n_groups; i++) {
    list[i]->first_turn = g->node[list[i]->writer]->turn;
    list[i]->received = g->node[list[i]->writer]->message == SL_MESSAGE_RECEIVED;
    list[i]->memory = memory_of(s, list[i]->writer);
  }
  /* Largest first: a slot is as large as its first group. Each smaller group goes into the tightest gap that fits. */
  qsort(list, (size_t)n_groups, sizeof *list, largest_first);
  taken.width = s->makespan / SPANS;
  for (int i = 0; i < n_groups; i++) {
    group *mine = list[i];
    const int first = span_of(&taken, mine->start);
    int best = -1, last = first;
    double least = INFINITY;
    while (last < SPANS && taken.width * last < mine->end) last++;
    for (int block = 0; block < taken.n && !mine->keep; block++)
      for (uint64_t left = free_slots(&taken, block, first, last); left; left &= left - 1) {
        const int k = BITS * block + __builtin_ctzll(left);
        if (k >= m->n_slots) break;
        if (slots[k].keep || slots[k].memory != mine->memory || (s->gpus && m->bytes[k] > largest_slot(mine->bytes)))
          continue;
        const double idle = idle_around(&slots[k], mine);
        if (idle < least && fits(&slots[k], mine, free_for)) best = k, least = idle;
      }
    if (best < 0) {
      best = m->n_slots++;
      m->bytes[best] = mine->bytes;
    }
    if (!insert(&slots[best], mine) || !take(&taken, best, mine))
      SL_TRY_OUT(sl_no_memory("to plan %d values", g->n_values));
    m->slot[mine - p.group] = best;
  }
  for (int k = 0; k < m->n_slots; k++)
    for (int i = 1; i < slots[k].n; i++)
      SL_TRY_OUT(order_after(&p, (int)(slots[k].tenant[i - 1].group - p.group), slots[k].tenant[i].group->writer,
                             &pairs, &n_pairs, &capacity));
  for (int v = 0; v < g->n_values; v++)
    if (temporary(&p, v) && n_users(&p, v)) m->slot[v] = m->slot[p.group_of[v]];
  for (int k = 0; k < m->n_slots; k++) m->temporaries += m->bytes[k];
  int before = s->from[s->n];
  SL_TRY_OUT(sl_schedule_add(s, pairs, n_pairs));
  m->added = s->from[s->n] - before;
  *memory = m;
  m = NULL;
out:
  sl_memory_destroy(m);
  for (size_t k = 0; slots && k < n; k++) free(slots[k].tenant);
  free(taken.spans), free(p.group_of), free(p.next), free(p.group), free(p.users), free(p.first_user), free(list),
      free(slots), free(pairs);
  return status;
}

/* Bytes that StarPU 1.3 and 1.4 and this engine keep per task and per handle, measured on x86-64. */
enum { TASK_BYTES = 2600, HANDLE_BYTES = 4500, HUGE_PAGE = 2 << 20 };

size_t sl_memory_of_program(const sl_graph *g, const sl_memory *m) {
  size_t handles = (size_t)m->n_slots;
  for (int v = 0; v < g->n_values; v++) handles += g->value[v]->role != SL_ROLE_TEMPORARY;
  return (m->temporaries + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + m->persistent + handles * HANDLE_BYTES +
         (size_t)g->n_nodes * TASK_BYTES;
}

void sl_memory_destroy(sl_memory *m) {
  if (!m) return;
  free(m->bytes);
  free(m->slot);
  free(m);
}
