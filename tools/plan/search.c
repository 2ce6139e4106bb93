/* The search for plans by predicted steps: hill climbing from the simplest plan of each division of a node, one or two
 * values along an axis at a time. A plan that fits beats any that does not; of two that do not, the one wins that
 * exceeds the memory by less. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan/parts.h"
#include "tools/settings/workers.h"

/* Limits of a search, in plans and in predicted tasks. With a limit in seconds the answer would differ from run to run.
 */
enum { MOST_CLIMBS = 4, LEAST_PLANS = 24 };
static const double MOST_TASKS = 6e5;

static void put(sl__values *axis, int64_t value) {
  for (int i = 0; i < axis->n; i++)
    if (axis->value[i] == value) return;
  if (axis->n < SL__VALUES) axis->value[axis->n++] = value;
}

static void put_powers(sl__values *axis, int64_t first, int64_t most) {
  for (int64_t v = first; v <= most; v *= 2) put(axis, v);
}

static int ascending(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void put_batches(sl__planning *s, int nodes, sl__values *axis) {
  enum { DOUBLINGS = 5 };
  int64_t most = s->first_batch << DOUBLINGS;
  if (s->o->batch > 0) {
    put(axis, s->o->batch);
    return;
  }
  for (int n = 1; n < nodes && most < 1 << 28; n *= 2) most *= 2;
  put_powers(axis, s->first_batch, most);
}

/* Ranks of a node: numbers that divide its GPUs, and its cores into whole memory domains. */
static void put_locals(const sl__planning *s, sl__values *axis) {
  const sl__machine_description *m = &s->machine;
  if (s->o->plan_ranks_per_node > 0) {
    put(axis, s->o->plan_ranks_per_node);
    return;
  }
  put(axis, 1);
  if (s->o->measures) return; /* --run measures by bench on one rank */
  const int parts = m->gpu.count > 0 ? m->gpu.count : m->cpu.numa_domains;
  for (int n = 2; n <= parts; n++)
    if (parts % n == 0 && (n == 2 || n == parts) && (m->network.shared > 0 || m->network.latency > 0)) put(axis, n);
}

/* Stages, their orders, runs and messages, tensor ranks: powers of two up to the ranks of a node and of all nodes, or
 * as --mesh says. */
static sl_status put_meshes(const sl__planning *s, int nodes, sl__values *axis) {
  enum { MOST_TENSOR = 8, MOST_PIPE = 16, MOST_CHUNKS = 4, GPU_PARTS = 4 };
  sl__mesh named;
  SL_TRY(sl__mesh_named(s->o, &named));
  int64_t local = 1;
  for (int i = 0; i < axis[SL__LOCAL].n; i++)
    if (axis[SL__LOCAL].value[i] > local) local = axis[SL__LOCAL].value[i];
  const int given = s->o->mesh && *s->o->mesh;
  const int64_t most_tensor = given                 ? 1
                              : local < MOST_TENSOR ? local
                                                    : MOST_TENSOR,
                most_pipe = given && !named.data        ? 1
                            : nodes * local < MOST_PIPE ? nodes * local
                                                        : MOST_PIPE;
  if (named.tensor)
    put(&axis[SL__TENSOR], named.tensor);
  else
    put_powers(&axis[SL__TENSOR], 1, most_tensor);
  if (named.pipe)
    put(&axis[SL__PIPE], named.pipe);
  else
    put_powers(&axis[SL__PIPE], 1, most_pipe);
  put(&axis[SL__ORDER], sl__pipeline_of(s->o).order);
  if (!s->o->pipe_order || sl__pipe_order_is_chosen(s->o)) { /* GPipe takes more memory, and is no faster */
    put(&axis[SL__ORDER], SL_PIPE_ZERO_BUBBLE);
    put(&axis[SL__ORDER], SL_PIPE_EAGER_1F1B);
  }
  if (s->o->pipe_chunks > 0)
    put(&axis[SL__CHUNKS], s->o->pipe_chunks);
  else
    put_powers(&axis[SL__CHUNKS], 1, MOST_CHUNKS);
  put(&axis[SL__PARTS], s->o->pipe_parts > 0 ? s->o->pipe_parts : 1);
  if (s->o->pipe_parts <= 0 && s->machine.gpu.count > 0) put(&axis[SL__PARTS], GPU_PARTS);
  return SL_OK;
}

sl_status sl__search_axes(sl__planning *s, int nodes) {
  const sl__options *o = s->o;
  const sl__machine_description *m = &s->machine;
  sl__values *a = s->axis;
  sl__workers asked;
  memset(s->axis, 0, sizeof s->axis);
  SL_TRY(sl__workers_of(o, &asked));
  put_batches(s, nodes, &a[SL__BATCH]);
  put_locals(s, &a[SL__LOCAL]);
  if (m->gpu.count > 0 && !o->workers && o->gpus != 0) put(&a[SL__WORKERS], SL__ONLY_GPU);
  if (m->gpu.count > 0) put(&a[SL__WORKERS], SL__BOTH);
  if (!o->workers && o->gpus < 0) put(&a[SL__WORKERS], SL__ONLY_CPU);
  if (a[SL__WORKERS].n == 0) put(&a[SL__WORKERS], SL__ONLY_CPU);
  const int workers = m->gpu.count > 0 ? 4 * m->gpu.count : m->cpu.cores;
  put_powers(&a[SL__EACH], 1, o->shards > 0 ? 1 : 2 * (int64_t)workers);
  put_powers(&a[SL__GROUPS], 1, o->leaves > 0 ? 1 : m->gpu.count > 0 ? 2 * m->gpu.count : 8);
  if (o->leaves <= 0 && m->gpu.count > 0) put(&a[SL__GROUPS], m->gpu.count), put(&a[SL__GROUPS], 2 * m->gpu.count);
  if (o->micro_batches > 0)
    put(&a[SL__MICRO], o->micro_batches);
  else
    put_powers(&a[SL__MICRO], 1, 32);
  if (o->row_blocks > 0)
    put(&a[SL__BLOCKS], o->row_blocks);
  else
    put_powers(&a[SL__BLOCKS], 1, 8);
  if ((int)o->training.recompute >= 0)
    put(&a[SL__RECOMPUTE], o->training.recompute);
  else
    for (int k = 0; sl_recompute_names[k]; k++) put(&a[SL__RECOMPUTE], k);
  if (o->plan_zero >= 0)
    put(&a[SL__ZERO], o->plan_zero);
  else
    put(&a[SL__ZERO], 0), put(&a[SL__ZERO], 1);
  if (o->plan_zero < 0 && nodes > 1) put(&a[SL__ZERO], 3); /* on one node parameters lie in shared memory anyway */
  SL_TRY(put_meshes(s, nodes, a));
  for (int k = 0; k < SL__AXES; k++)
    if (k != SL__WORKERS && k != SL__ORDER) qsort(a[k].value, (size_t)a[k].n, sizeof *a[k].value, ascending);
  return SL_OK;
}

double sl__score(const sl__planning *s, const sl__candidate *c, double seconds) {
  const double ratio = (double)c->v[SL__BATCH] / (double)s->first_batch;
  return seconds / (double)c->v[SL__BATCH] * (ratio > 1 ? pow(1.05, log2(ratio)) : 1);
}

/* Number of axes on which the plan is not the simplest. Each must save more than half a per cent of the step. */
static int moved(const sl__candidate *c) {
  return (c->v[SL__LOCAL] > 1) + (c->v[SL__MICRO] > 1) + (c->v[SL__BLOCKS] > 1) + (c->v[SL__RECOMPUTE] > 0) +
         (c->v[SL__ZERO] > 0) + (c->v[SL__GROUPS] > 1) + (c->v[SL__PIPE] > 1) + (c->v[SL__TENSOR] > 1) +
         (c->v[SL__ORDER] != SL_PIPE_1F1B) + (c->v[SL__CHUNKS] > 1) + (c->v[SL__PARTS] > 1);
}

static int better(const sl__planning *s, const sl__candidate *a, const sl__candidate *b) {
  if (!a->p.valid || !b->p.valid) return a->p.valid && !b->p.valid;
  if (a->p.over > 0 || b->p.over > 0) return a->p.over < b->p.over;
  return sl__score(s, a, a->p.seconds) * (1 + 0.005 * moved(a)) <
         sl__score(s, b, b->p.seconds) * (1 + 0.005 * moved(b));
}

/* Predicts a plan, or finds it among those predicted before. Its index is in *at. */
static sl_status look(sl__planning *s, const sl__candidate *wanted, int *at) {
  for (*at = 0; *at < s->n_seen; ++*at)
    if (sl__candidate_same(&s->seen[*at], wanted)) return SL_OK;
  if (s->n_seen == s->room) {
    const int room = s->room ? 2 * s->room : 128;
    sl__candidate *more = realloc(s->seen, (size_t)room * sizeof *more);
    if (!more) return sl_no_memory("for %d plans", room);
    s->seen = more, s->room = room;
  }
  s->seen[s->n_seen] = *wanted;
  SL_TRY(sl__screen(s, &s->seen[s->n_seen], 0));
  sl__meter_show(&s->meter, s->n_seen, 0, "plan %d predicted", s->n_seen + 1);
  s->n_seen++;
  return SL_OK;
}

static int spent(const sl__planning *s) { return s->n_seen >= LEAST_PLANS && s->work > MOST_TASKS; }

static int place_of(const sl__values *axis, int64_t value) {
  int i = 0;
  while (i < axis->n && axis->value[i] != value) i++;
  return i;
}

/* Goes to the plan if it is better. */
static sl_status try(sl__planning *s, const sl__candidate *next, int *at, int *improved) {
  int found;
  SL_TRY(look(s, next, &found));
  if (better(s, &s->seen[found], &s->seen[*at])) *at = found, *improved = 1;
  return SL_OK;
}

/* Tries this number of stages with two to four micro-batches for each stage, because a pipeline needs micro-batches. A
 * rank keeps about the same number of shards. */
static sl_status try_stages(sl__planning *s, sl__candidate next, int *at, int *improved) {
  const int64_t all = next.v[SL__EACH] * next.v[SL__MICRO];
  const sl__values *micro = &s->axis[SL__MICRO];
  for (int i = 0; i < micro->n && !spent(s); i++) {
    if (micro->value[i] < 2 * next.v[SL__PIPE] || micro->value[i] > 4 * next.v[SL__PIPE]) continue;
    next.v[SL__MICRO] = micro->value[i];
    next.v[SL__EACH] = all / micro->value[i] > 1 ? all / micro->value[i] : 1;
    SL_TRY(try(s, &next, at, improved));
  }
  return SL_OK;
}

/* Tries the values next to the present one on one axis. More leaves are also tried with the same number of shards in
 * all, because each change alone may be worse. */
static sl_status climb_along(sl__planning *s, int axis, int *at, int *improved) {
  static const int steps[] = {1, 2, -1, -2};
  for (size_t i = 0; i < sizeof steps / sizeof *steps && !spent(s); i++) {
    const sl__candidate *now = &s->seen[*at];
    sl__candidate next = *now;
    const int place = place_of(&s->axis[axis], now->v[axis]) + steps[i];
    if (place < 0 || place >= s->axis[axis].n) continue;
    next.v[axis] = s->axis[axis].value[place];
    const int counts = (axis == SL__GROUPS || axis == SL__MICRO) && s->o->shards <= 0;
    const int64_t each = counts ? now->v[SL__EACH] * now->v[axis] / next.v[axis] : 0;
    SL_TRY(try(s, &next, at, improved));
    if (axis == SL__PIPE && next.v[SL__PIPE] > 1) SL_TRY(try_stages(s, next, at, improved));
    if (each < 1) continue;
    next.v[SL__EACH] = each;
    SL_TRY(try(s, &next, at, improved));
  }
  return SL_OK;
}

static sl_status climb(sl__planning *s, int *at) {
  for (int improved = 1; improved && !spent(s);) {
    improved = 0;
    for (int k = 0; k < SL__AXES; k++) SL_TRY(climb_along(s, k, at, &improved));
  }
  return SL_OK;
}

/* The simplest plan of this division of a node, with the smallest batch that gives each rank a sample. */
static sl__candidate simplest(const sl__planning *s, int nodes, int64_t local, int64_t workers) {
  sl__candidate c = {.nodes = nodes, .sched = s->o->sched};
  for (int k = 0; k < SL__AXES; k++) c.v[k] = s->axis[k].value[0];
  c.v[SL__LOCAL] = local, c.v[SL__WORKERS] = workers;
  const int64_t least = nodes * local * c.v[SL__MICRO];
  for (int i = 0; i < s->axis[SL__BATCH].n && c.v[SL__BATCH] < least; i++) c.v[SL__BATCH] = s->axis[SL__BATCH].value[i];
  /* Two samples a GPU let its kernels and copies overlap; the climb goes on from there. */
  const int gpus = s->machine.gpu.count;
  if (gpus > 0 && workers != SL__ONLY_CPU && c.v[SL__LOCAL] <= gpus)
    for (int i = 0; i < s->axis[SL__EACH].n; i++)
      if (s->axis[SL__EACH].value[i] * nodes * local <= c.v[SL__BATCH] &&
          s->axis[SL__EACH].value[i] <= gpus / c.v[SL__LOCAL])
        c.v[SL__EACH] = s->axis[SL__EACH].value[i];
  return c;
}

/* Predicts the simplest plan of a division of a node. Also predicts the plans with the most stages, the most tensor
 * ranks, or both, because these need least memory. */
static sl_status look_at_meshes(sl__planning *s, const sl__candidate *c, int *start, int *n) {
  const sl__values *pipe = &s->axis[SL__PIPE], *tensor = &s->axis[SL__TENSOR], *micro = &s->axis[SL__MICRO],
                   *order = &s->axis[SL__ORDER];
  SL_TRY(look(s, c, &start[(*n)++]));
  for (int way = 1; way < 4; way++) {
    sl__candidate next = *c;
    const int ranks = sl__candidate_ranks(c);
    for (int i = 0; i < tensor->n && way & 1; i++)
      if (c->v[SL__LOCAL] % tensor->value[i] == 0) next.v[SL__TENSOR] = tensor->value[i];
    for (int i = 0; i < pipe->n && way & 2; i++)
      if (ranks % (pipe->value[i] * next.v[SL__TENSOR]) == 0 &&
          pipe->value[i] * next.v[SL__TENSOR] <= SL_MAX_MODEL_RANKS)
        next.v[SL__PIPE] = pipe->value[i];
    for (int i = 0; i < micro->n && next.v[SL__PIPE] > 1; i++)
      if (micro->value[i] <= 4 * next.v[SL__PIPE] && micro->value[i] <= next.v[SL__BATCH])
        next.v[SL__MICRO] = micro->value[i];
    if (sl__candidate_model_ranks(&next) == sl__candidate_model_ranks(c)) continue;
    next.v[SL__ZERO] = s->o->plan_zero > 0 ? s->o->plan_zero : 0;
    next.v[SL__EACH] = s->axis[SL__EACH].value[0];
    for (int i = 0; i < (next.v[SL__PIPE] > 1 ? order->n : 1); i++) {
      next.v[SL__ORDER] = order->value[i];
      SL_TRY(look(s, &next, &start[(*n)++]));
    }
  }
  return SL_OK;
}

sl_status sl__search(sl__planning *s, int nodes, int *best) {
  int start[SL__VALUES * 3 * 8], n = 0;
  SL_TRY(sl__search_axes(s, nodes));
  for (int i = 0; i < s->axis[SL__LOCAL].n; i++)
    for (int k = 0; k < s->axis[SL__WORKERS].n; k++) {
      const sl__candidate c = simplest(s, nodes, s->axis[SL__LOCAL].value[i], s->axis[SL__WORKERS].value[k]);
      SL_TRY(look_at_meshes(s, &c, start, &n));
    }
  for (int i = 0; i < n; i++) /* best first; stable, and there are few */
    for (int k = i; k > 0 && better(s, &s->seen[start[k]], &s->seen[start[k - 1]]); k--) {
      const int swap = start[k];
      start[k] = start[k - 1], start[k - 1] = swap;
    }
  for (int i = 0; i < n && i < MOST_CLIMBS; i++) SL_TRY(climb(s, &start[i]));
  *best = -1;
  for (int i = 0; i < s->n_seen; i++)
    if (s->seen[i].nodes == nodes && s->seen[i].p.valid && (*best < 0 || better(s, &s->seen[i], &s->seen[*best])))
      *best = i;
  if (*best < 0)
    return sl_fail(SL_EINVAL,
                   "no plan divides a batch of %lld samples among the workers of '%s' on %d nodes: give a larger "
                   "--batch, or fewer --nodes",
                   (long long)(s->o->batch > 0 ? s->o->batch : s->first_batch), s->machine.name, nodes);
  return SL_OK;
}

/* Whether b is too much like a to list: it predicts the same, or differs only in row blocks and by less than 1%. */
static int alike(const sl__candidate *a, const sl__candidate *b) {
  const double ratio = b->p.seconds / a->p.seconds;
  if (ratio == 1 && a->v[SL__BATCH] == b->v[SL__BATCH] && a->p.tasks == b->p.tasks) return 1;
  for (int k = 0; k < SL__AXES; k++)
    if (k != SL__BLOCKS && a->v[k] != b->v[k]) return 0;
  return fabs(ratio - 1) < 0.01;
}

int sl__search_best(const sl__planning *s, int *index, int n) {
  int found = 0;
  while (found < n) {
    int best = -1;
    for (int i = 0; i < s->n_seen; i++) {
      const sl__candidate *c = &s->seen[i];
      int fine = c->p.valid && c->p.over <= 0;
      for (int k = 0; k < found && fine; k++) fine = index[k] != i && !alike(&s->seen[index[k]], c);
      if (fine && (best < 0 || better(s, c, &s->seen[best]))) best = i;
    }
    if (best < 0) break;
    index[found++] = best;
  }
  return found;
}
