/* Plans a GPU's memory by simulating the step task by task. The first walks reach the state that repeats from step to
 * step; the last walk gives the moves. */
#include "tasks/schedule/residence.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { WALKS = 6 };
enum { WINDOW = 2 }; /* tasks given to a GPU at once, so that the next task's data are copied while a kernel runs */

/* One task's use of a buffer; `at` is the task's place in the order. */
typedef struct use {
  int at;
  char reads, writes, here; /* here: the task runs on this GPU */
} use;

typedef struct planner {
  const sl_graph *g;
  const sl_schedule *s;
  const sl_memory *m;
  int worker;   /* this GPU's number in the schedule */
  size_t bytes; /* its memory */
  int n, buffers;
  use *uses; /* uses of all buffers; those of b are first[b] ... first[b + 1] - 1, by place */
  int *first;
  int *own, n_own;     /* places of this GPU's tasks */
  int *touched, *from; /* buffers that own task k touches: touched[from[k]] ... */
  size_t *size;        /* [buffers] */
  char *kept;          /* [buffers] 1: the content is read after the step */
  sl_residence *r;
  int room_moves, room_pairs;
} planner;

static int buffer_of(const planner *p, sl_value v) { return p->m->slot[v] >= 0 ? p->m->slot[v] : p->m->n_slots + v; }
static int lasts(const planner *p, int b) {
  return b >= p->m->n_slots || p->kept[b];
} /* whether the content lasts from step to step */

/* ---- uses -------------------------------------------------------------------------------------------------------- */

/* Adds the use of a buffer by the task at place `at`, once for each task. */
static void enter(use *list, int *n, int at, int reads, int writes, int here) {
  if (*n == 0 || list[*n - 1].at != at) list[(*n)++] = (use){at, 0, 0, 0};
  use *u = &list[*n - 1];
  u->reads = (char)(u->reads | reads), u->writes = (char)(u->writes | writes), u->here = (char)here;
}

static int by_place(const void *a, const void *b) { return ((const int *)a)[0] - ((const int *)b)[0]; }

static sl_status list_uses(planner *p, const char *keep) {
  const sl_graph *g = p->g;
  size_t total = 0, values = (size_t)g->n_values + 1;
  for (int i = 0; i < p->n; i++) total += (size_t)(g->node[i]->n_in + g->node[i]->n_out);
  int *count = calloc((size_t)p->buffers + 1, sizeof *count);
  p->uses = malloc((total + 1) * sizeof *p->uses);
  p->first = calloc((size_t)p->buffers + 2, sizeof *p->first);
  p->own = malloc(((size_t)p->n + 1) * sizeof *p->own);
  p->from = calloc((size_t)p->n + 2, sizeof *p->from);
  p->touched = malloc((total + 1) * sizeof *p->touched);
  p->size = calloc((size_t)p->buffers + 1, sizeof *p->size);
  p->kept = calloc((size_t)p->buffers + 1, 1);
  if (!count || !p->uses || !p->first || !p->own || !p->from || !p->touched || !p->size || !p->kept) {
    free(count);
    return sl_no_memory("to plan %zu values of a GPU's memory", values);
  }
  for (sl_value v = 0; v < g->n_values; v++) {
    const int b = buffer_of(p, v);
    p->size[b] = b < p->m->n_slots ? p->m->bytes[b] : sl_value_bytes(g->value[v]);
    if (keep && keep[v]) p->kept[b] = 1;
  }
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_out; k++)
      p->first[buffer_of(p, k < g->node[i]->n_in ? g->node[i]->in[k] : g->node[i]->out[k - g->node[i]->n_in]) + 1]++;
  for (int b = 0; b < p->buffers; b++) p->first[b + 1] += p->first[b];
  for (int at = 0; at < p->n; at++) {
    const int i = p->s->order[at], here = p->s->worker[i] == p->worker;
    const sl_node *node = g->node[i];
    if (here) p->own[p->n_own++] = at;
    for (int k = 0; k < node->n_in + node->n_out; k++) {
      const int out = k - node->n_in, b = buffer_of(p, out < 0 ? node->in[k] : node->out[out]);
      const int before = count[b];
      enter(p->uses + p->first[b], &count[b], at, out < 0 || sl_node_reads_output(node, out) || node->bucket, out >= 0,
            here);
      if (here && count[b] > before) p->touched[p->from[p->n_own]++] = b;
    }
    if (here) p->from[p->n_own + 1] = p->from[p->n_own];
  }
  /* Close the gaps: repeated uses were counted but not added. */
  int end = 0;
  for (int b = 0; b < p->buffers; b++) {
    memmove(p->uses + end, p->uses + p->first[b], (size_t)count[b] * sizeof *p->uses);
    p->first[b] = end;
    end += count[b];
  }
  p->first[p->buffers] = end;
  free(count);
  return SL_OK;
}

static const use *use_of(const planner *p, int b, int at) {
  const use *list = p->uses + p->first[b];
  return bsearch(&at, list, (size_t)(p->first[b + 1] - p->first[b]), sizeof *list, by_place);
}

/* The next use after place `at`, and its distance in places; the next step's places follow this one's. */
static const use *next_use(const planner *p, int b, int at, int *distance) {
  const use *list = p->uses + p->first[b];
  const int n = p->first[b + 1] - p->first[b];
  int low = 0, high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (list[middle].at <= at)
      low = middle + 1;
    else
      high = middle;
  }
  const use *u = &list[low < n ? low : 0];
  *distance = u->at - at + (low < n ? 0 : p->n);
  return u;
}

/* Whether the content that buffer b has after place `at` is read later. */
static int alive(const planner *p, int b, int at) {
  int distance;
  const use *u = next_use(p, b, at, &distance);
  return at + distance >= p->n ? lasts(p, b) : u->reads;
}

/* Whether only tasks of this GPU, which run in order, use the content that buffer b has at place `at`. */
static int ours(const planner *p, int b, int at) {
  const use *u = use_of(p, b, at), *first = p->uses + p->first[b];
  for (; u >= first; u--) {
    if (!u->here) return 0;
    if (!u->reads) return 1; /* this task writes the content first */
  }
  return !lasts(p, b);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

typedef struct place {
  char resident, dirty;
  int last; /* the GPU's task that used it last */
  int step; /* walk of that use */
} place;

static sl_status push_move(planner *p, int after, int buffer, sl_move_kind kind) {
  sl_residence *r = p->r;
  if (r->n_moves == p->room_moves) {
    p->room_moves = p->room_moves ? 2 * p->room_moves : 64;
    sl_move *more = realloc(r->move, (size_t)p->room_moves * sizeof *more);
    if (!more) return sl_no_memory("to plan a GPU's memory");
    r->move = more;
  }
  r->move[r->n_moves++] = (sl_move){after, buffer, kind};
  return SL_OK;
}

static sl_status push_pair(planner *p, int before, int after) {
  sl_residence *r = p->r;
  if (r->n_pairs == p->room_pairs) {
    p->room_pairs = p->room_pairs ? 2 * p->room_pairs : 64;
    int *more = realloc(r->pairs, (size_t)p->room_pairs * 2 * sizeof *more);
    if (!more) return sl_no_memory("to plan a GPU's memory");
    r->pairs = more;
  }
  r->pairs[2 * r->n_pairs] = before, r->pairs[2 * r->n_pairs++ + 1] = after;
  return SL_OK;
}

static int node_of(const planner *p, int own) { return p->s->order[p->own[own]]; }

/* Bytes of the buffers that the GPU's tasks number `from` to `to` touch; sets in[b] = stamp for these buffers. */
static size_t union_of(const planner *p, int from, int to, int *in, int stamp) {
  size_t bytes = 0;
  for (int k = p->from[from]; k < p->from[to + 1]; k++)
    if (in[p->touched[k]] != stamp) in[p->touched[k]] = stamp, bytes += p->size[p->touched[k]];
  return bytes;
}

/* Chooses the buffer to evict before the GPU's task k: a dead one or, if there is none, the one with the furthest next
 * use. A modified buffer must also be copied out, which doubles the cost, so its distance counts half. Buffers of the
 * tasks in the window stay. -1: none can go. */
static int victim(const planner *p, const place *at, const int *in, int stamp, int k) {
  int best = -1, best_score = -1;
  for (int b = 0; b < p->buffers; b++) {
    int distance;
    if (!at[b].resident || in[b] == stamp) continue;
    const int now = p->own[k] - 1;
    (void)next_use(p, b, now, &distance);
    const int score = alive(p, b, now) ? distance * (at[b].dirty ? 1 : 2) : INT_MAX;
    if (score > best_score) best = b, best_score = score;
  }
  return best;
}

/* Applies what other workers' tasks between two tasks of this GPU do to the buffers: a reader copies the content to the
 * host, a writer invalidates the GPU's copy. */
static void elsewhere(planner *p, place *at, int place_from, int place_to, double *out) {
  for (int k = place_from; k < place_to; k++) {
    const int i = p->s->order[k];
    const sl_node *node = p->g->node[i];
    if (p->s->worker[i] == p->worker) continue;
    for (int j = 0; j < node->n_in + node->n_out; j++) {
      const int b = buffer_of(p, j < node->n_in ? node->in[j] : node->out[j - node->n_in]);
      const use *u = use_of(p, b, k);
      if (at[b].resident && at[b].dirty && u->reads) *out += (double)p->size[b], at[b].dirty = 0;
      if (u->writes) at[b].resident = at[b].dirty = 0;
    }
  }
}

/* Simulates one step. Lists the moves if `list` is set. */
static sl_status walk(planner *p, place *at, int *in, int *stamp, size_t *used, int step, int list) {
  sl_residence *r = p->r;
  int reached = 0, released = -1;
  double bytes_in = 0, bytes_out = 0;
  for (int k = 0; k < p->n_own; k++) {
    elsewhere(p, at, reached, p->own[k], &bytes_out);
    reached = p->own[k] + 1;
    *used = 0;
    for (int b = 0; b < p->buffers; b++) *used += at[b].resident ? p->size[b] : 0;
    /* Releases the task once its data and those of the tasks still running fit in half the memory. With more, copying
     * its data early would evict data that are needed soon. */
    int after = k - WINDOW > released ? k - WINDOW : released;
    while (after < k - 1 && union_of(p, after + 1, k, in, ++*stamp) > p->bytes / 2) after++;
    (void)union_of(p, after + 1 > 0 ? after + 1 : 0, k, in, ++*stamp);
    released = after;
    const int anchor = after >= 0 ? node_of(p, after) : -1;
    if (list && after >= 0) SL_TRY(push_pair(p, anchor, node_of(p, k)));
    size_t wanted = 0;
    for (int j = p->from[k]; j < p->from[k + 1]; j++)
      if (!at[p->touched[j]].resident) wanted += p->size[p->touched[j]];
    while (*used + wanted > p->bytes) {
      const int b = victim(p, at, in, *stamp, k);
      if (b < 0) break; /* this task's data alone fill the memory */
      const int end = p->own[at[b].last], forget = !alive(p, b, end) && ours(p, b, end);
      if (!forget && at[b].dirty) bytes_out += (double)p->size[b];
      /* Copy it out right after its last use. Forget it then, too: later another task may have written to it. */
      if (list && forget)
        SL_TRY(push_move(p, node_of(p, at[b].last), b, SL_MOVE_FORGET));
      else if (list && at[b].dirty && (at[b].step < step || at[b].last < after))
        SL_TRY(push_move(p, node_of(p, at[b].last), b, SL_MOVE_WRITE_BACK));
      if (list && !forget) SL_TRY(push_move(p, anchor, b, SL_MOVE_EVICT));
      at[b].resident = at[b].dirty = 0;
      *used -= p->size[b];
    }
    for (int j = p->from[k]; j < p->from[k + 1]; j++) {
      const int b = p->touched[j];
      const use *u = use_of(p, b, p->own[k]);
      if (!at[b].resident) {
        if (u->reads) bytes_in += (double)p->size[b];
        *used += p->size[b];
      }
      at[b].resident = 1;
      if (u->writes) at[b].dirty = 1;
      at[b].last = k, at[b].step = step;
    }
    if (*used > r->peak) r->peak = *used;
  }
  elsewhere(p, at, reached, p->n, &bytes_out);
  r->in = bytes_in, r->out = bytes_out;
  return SL_OK;
}

/* Makes steps repeat: evicts buffers that were absent at the step's start (`start`) but are present at its end (`at`).
 * Buffers that were present and are now absent are copied in again when used. */
static sl_status close_circle(planner *p, const place *start, const place *at) {
  for (int b = 0; b < p->buffers; b++) {
    const double bytes = (double)p->size[b];
    if (at[b].resident && !start[b].resident) {
      if (at[b].dirty) {
        p->r->out += bytes;
        SL_TRY(push_move(p, node_of(p, at[b].last), b, SL_MOVE_WRITE_BACK));
      }
      SL_TRY(push_move(p, -1, b, SL_MOVE_EVICT));
    }
    if (start[b].resident && !at[b].resident) p->r->in += bytes;
    if (at[b].resident && at[b].dirty && start[b].resident && !start[b].dirty) p->r->out += bytes;
  }
  return SL_OK;
}

static const int *places; /* places of the nodes, for sorting the moves; one thread plans at a time */
static int by_after(const void *a, const void *b) {
  const sl_move *x = a, *y = b;
  const int at = x->after < 0 ? -1 : places[x->after], other = y->after < 0 ? -1 : places[y->after];
  if (at != other) return at - other;
  return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->buffer - y->buffer;
}

/* ---- lower bounds ------------------------------------------------------------------------------------------------ */

/* A gap between two uses: up to `bytes` bytes may be absent from the memory at places `from` to `to`, at the cost of
 * copying them. */
typedef struct span {
  int from, to;
  double bytes, taken;
} span;

static int by_from(const void *a, const void *b) { return ((const span *)a)[0].from - ((const span *)b)[0].from; }

/* The least number of bytes, taken from spans, such that the spans over each place t give need[t] or more. Taking bytes
 * from the span that reaches furthest is optimal, because all bytes cost the same. */
static double cover(span *list, int n, const double *need, int places_n) {
  double sum = 0, covered = 0;
  int begun = 0, active = 0;
  qsort(list, (size_t)n, sizeof *list, by_from);
  for (int t = 0; t < places_n; t++) {
    while (begun < n && list[begun].from <= t) { /* active spans are moved to the front */
      const span s = list[begun];
      list[begun++] = list[active];
      list[active++] = s;
    }
    for (int k = 0; k < active; k++)
      if (list[k].to < t) {
        covered -= list[k].taken;
        const span ended = list[k];
        list[k--] = list[--active];
        list[active] = ended;
      }
    while (need[t] > covered + 0.5) {
      int best = -1;
      for (int k = 0; k < active; k++)
        if (list[k].taken < list[k].bytes && (best < 0 || list[k].to > list[best].to)) best = k;
      if (best < 0) break;
      const double left = list[best].bytes - list[best].taken, missing = need[t] - covered,
                   more = left < missing ? left : missing;
      list[best].taken += more, covered += more, sum += more;
    }
  }
  return sum;
}

/* Adds bytes to places `from` to `to`, as differences that are summed later. */
static void add(double *of, int from, int to, double bytes) { of[from] += bytes, of[to + 1] -= bytes; }

/* Lower bounds on the bytes copied in and out in each step. Data that do not fit must be absent between uses; the
 * cheapest set of such gaps (spans) bounds the copies. It is computed for `steps` consecutive steps, of which the first
 * and the last have only some of their spans; in any run, the mean over its steps costs at least as much. Content that
 * is modified once is copied out at most once, so for copies out a span extends over later uses; content that the host
 * also has leaves at no cost. */
static sl_status least(planner *p, double *least_in, double *least_out) {
  enum { MOST_STEPS = 32, PLACES = 400000, NEVER = -2 };
  const int steps = PLACES / p->n > MOST_STEPS ? MOST_STEPS : PLACES / p->n < 4 ? 4 : PLACES / p->n;
  const int n = p->n * steps;
  const size_t uses = (size_t)p->first[p->buffers] * (size_t)steps + 1;
  double *need = calloc((size_t)n + 2, sizeof *need), *free_out = calloc((size_t)n + 2, sizeof *free_out);
  span *in = malloc(uses * sizeof *in), *out = malloc(uses * sizeof *out);
  int n_in = 0, n_out = 0;
  sl_status status = SL_OK;
  *least_in = *least_out = 0;
  if (!need || !free_out || !in || !out) SL_TRY_OUT(sl_no_memory("to plan a GPU's memory"));
  for (int b = 0; b < p->buffers; b++) {
    const int first = p->first[b], count = p->first[b + 1] - first;
    const double bytes = (double)p->size[b];
    int here = NEVER; /* place of this GPU's last use of the current content */
    int changed = -1; /* place where this GPU modified it, if the host has no copy; read until place `until` */
    int until = -1;
    for (int k = 0; k < count * steps; k++) {
      const use *u = &p->uses[first + k % count];
      const int t = u->at + k / count * p->n;
      const int holds = u->reads && (k % count > 0 || lasts(p, b));
      if (!u->here) {
        if (changed >= 0 && holds) {
          *least_out += bytes;
          add(free_out, changed + 1, t, bytes);
          changed = -1;
        }
        if (u->writes) {
          if (changed >= 0 && until > changed + 1) out[n_out++] = (span){changed + 1, until - 1, bytes, 0};
          here = changed = -1;
        }
        continue;
      }
      add(need, holds && here >= 0 ? here + 1 : t, t, bytes);
      if (holds && here >= 0) {
        if (t > here + 1) in[n_in++] = (span){here + 1, t - 1, bytes, 0};
        if (t > here + 1 && changed < 0) add(free_out, here + 1, t - 1, bytes);
      } else if (holds && here != NEVER) {
        *least_in += bytes;
      }
      if (holds) until = t;
      if (changed >= 0 && (!holds || u->writes)) {
        if (until > changed + 1) out[n_out++] = (span){changed + 1, until - 1, bytes, 0};
        changed = -1;
      }
      if (u->writes) changed = until = t;
      here = t;
    }
    if (changed >= 0 && until > changed + 1) out[n_out++] = (span){changed + 1, until - 1, bytes, 0};
  }
  for (int t = 1; t <= n; t++) need[t] += need[t - 1], free_out[t] += free_out[t - 1];
  for (int t = 0; t <= n; t++) need[t] -= (double)p->bytes;
  *least_in += cover(in, n_in, need, n);
  for (int t = 0; t <= n; t++) need[t] -= free_out[t];
  *least_out += cover(out, n_out, need, n);
  *least_in /= steps, *least_out /= steps;
out:
  free(need), free(free_out), free(in), free(out);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

sl_status sl_residence_plan(const sl_graph *g, const sl_schedule *s, const sl_memory *m, const sl_machine *machine,
                            int gpu, size_t bytes, const char *keep, sl_residence **residence) {
  *residence = NULL;
  planner p = {.g = g,
               .s = s,
               .m = m,
               .worker = machine->kind[SL_KIND_CPU].workers + gpu,
               .bytes = bytes,
               .n = s->n,
               .buffers = m->n_slots + g->n_values,
               .r = calloc(1, sizeof(sl_residence))};
  place *at = calloc((size_t)p.buffers + 1, sizeof *at), *start = calloc((size_t)p.buffers + 1, sizeof *at);
  int *in = calloc((size_t)p.buffers + 1, sizeof *in), *place_of = malloc(((size_t)s->n + 1) * sizeof *place_of);
  int stamp = 0;
  size_t used = 0;
  sl_status status = SL_OK;
  if (!p.r || !at || !start || !in || !place_of) SL_TRY_OUT(sl_no_memory("to plan a GPU's memory"));
  p.r->gpu = gpu, p.r->node = -1;
  SL_TRY_OUT(list_uses(&p, keep));
  for (int k = 0; k < p.n_own; k++) {
    const size_t mine = union_of(&p, k, k, in, ++stamp);
    if (mine > p.r->most) p.r->most = mine, p.r->node = node_of(&p, k);
  }
  if (p.n_own) p.r->all = union_of(&p, 0, p.n_own - 1, in, ++stamp);
  p.r->peak = p.r->all;
  if (p.r->all > bytes && p.r->most <= bytes) {
    p.r->peak = 0;
    for (int k = 0; k < s->n; k++) place_of[s->order[k]] = k;
    for (int step = 0; step < WALKS; step++) {
      memcpy(start, at, (size_t)p.buffers * sizeof *at);
      SL_TRY_OUT(walk(&p, at, in, &stamp, &used, step, step == WALKS - 1));
    }
    SL_TRY_OUT(close_circle(&p, start, at));
    places = place_of;
    if (p.r->n_moves) qsort(p.r->move, (size_t)p.r->n_moves, sizeof *p.r->move, by_after);
    SL_TRY_OUT(least(&p, &p.r->least_in, &p.r->least_out));
  }
  *residence = p.r;
  p.r = NULL;
out:
  sl_residence_destroy(p.r);
  free(p.uses), free(p.first), free(p.own), free(p.from), free(p.touched), free(p.size), free(p.kept), free(at),
      free(start), free(in), free(place_of);
  return status;
}

/* Bytes of a task's values: of those of samples (samples 1), or of all others (0). */
static double bytes_of(const sl_graph *g, const sl_node *node, int samples) {
  double bytes = 0;
  for (int k = 0; k < node->n_in + node->n_out; k++) {
    const sl_value_info *v = g->value[k < node->n_in ? node->in[k] : node->out[k - node->n_in]];
    if ((v->scope == SL_SCOPE_SAMPLE) == samples) bytes += (double)sl_value_bytes(v);
  }
  return bytes;
}

/* Which option makes the task smaller: row blocks for an update; shards, if the values that are not of samples fit into
 * `bytes`; else folds. */
static const char *remedy(const sl_graph *g, const sl_node *node, double bytes, const char **setting) {
  if (node->phase == SL_PHASE_UPDATE) return *setting = "row_blocks", "more row blocks";
  if (bytes_of(g, node, 0) < bytes) return *setting = "shards, batch", "more shards or a smaller batch";
  return *setting = "folds", "more folds (they divide the weights of products)";
}

sl_status sl_residence_too_large(const sl_residence *r, const sl_graph *g, size_t bytes) {
  const sl_node *node = g->node[r->node];
  const char *setting, *what = remedy(g, node, (double)bytes, &setting);
  return sl_blame(
      sl_fail(SL_EINVAL,
              "layer '%s' (%s) needs %.1f MB at once, and GPU %d has %.1f MB for data: use %s, or smaller sizes of the "
              "model",
              node->name, node->op->name, 1e-6 * (double)r->most, r->gpu, 1e-6 * (double)bytes, what),
      setting);
}

void sl_residence_destroy(sl_residence *r) {
  if (!r) return;
  free(r->move), free(r->pairs);
  free(r);
}
