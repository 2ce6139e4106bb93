/* Divides the difference between two runs' step times by cause. Both runs compute the same tasks, such as a run and its
 * simulation. In each run the mean worker's step is time in kernels and idle time by cause, so the difference is the
 * sum of their differences; that of the kernels divides further, by operation. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/parts.h"

/* --- the same step ---------------------------------------------------------------------------------------------------
 */

static sl_status differ(const sl__report_run *r, const sl__report_run *b, const char *what) {
  return sl_fail(SL_EINVAL,
                 "%s and %s have different steps: %s; give both the same model, --size, --batch, --leaves, --shards, "
                 "--row-blocks, --micro-batches, --recompute, --zero and number of ranks",
                 r->run, b->run, what);
}

static int same_node(const sl_timeline_node *x, const sl_timeline_node *y) {
  return strcmp(x->layer, y->layer) == 0 && strcmp(x->operation, y->operation) == 0 &&
         strcmp(x->phase, y->phase) == 0 && strcmp(x->shapes, y->shapes) == 0 && x->kind == y->kind &&
         x->shard == y->shard && x->leaf == y->leaf && x->micro_batch == y->micro_batch;
}

static int same_flow(const sl_timeline_flow *x, const sl_timeline_flow *y) {
  return x->from == y->from && x->to == y->to && x->value == y->value && x->bytes == y->bytes;
}

/* The values that flow between tasks must be equal. Dependencies may differ: a machine's predicted schedule decides
 * which values share memory, and so the order of some tasks. */
static sl_status check_rank(const sl__report_run *r, const sl__report_run *b, const sl_timeline *x,
                            const sl_timeline *y) {
  char *text = NULL;
  sl_status status = SL_OK;
  int n = 0, at = 0;
  if (x->n_nodes != y->n_nodes) n = asprintf(&text, "%d and %d tasks on rank %d", x->n_nodes, y->n_nodes, x->rank);
  while (!text && n == 0 && at < x->n_nodes && same_node(&x->node[at], &y->node[at])) at++;
  if (!text && n == 0 && at < x->n_nodes) {
    const sl_timeline_node *p = &x->node[at], *q = &y->node[at];
    n = asprintf(&text,
                 "task %d of rank %d is '%s' %s (%s) %s, shard %d, leaf %d; and '%s' %s (%s) %s, shard %d, leaf %d", at,
                 x->rank, p->layer, p->operation, p->phase, p->shapes, p->shard, p->leaf, q->layer, q->operation,
                 q->phase, q->shapes, q->shard, q->leaf);
  }
  if (!text && n == 0 && x->n_flows && y->n_flows) { /* older files have none */
    for (at = 0; x->n_flows == y->n_flows && at < x->n_flows; at++)
      if (!same_flow(&x->flow[at], &y->flow[at])) break;
    if (x->n_flows != y->n_flows || at < x->n_flows)
      n = asprintf(&text, "other values flow between the tasks of rank %d", x->rank);
  }
  if (n < 0)
    status = sl_no_memory("for an error message");
  else if (text)
    status = differ(r, b, text);
  if (n >= 0) free(text);
  return status;
}

/* The rank's sums in a run; NULL: it has no timeline or no whole step. */
static const sl__sums *sums_of_rank(const sl__report_run *r, int rank) {
  for (int i = 0; i < r->n; i++)
    if (r->sums[i].t->rank == rank && r->sums[i].steps > 0) return &r->sums[i];
  return NULL;
}

static sl_status check(const sl__report_run *r, const sl__report_run *b) {
  const sl_timeline *x = r->timelines[0], *y = b->timelines[0];
  char text[160];
  if (strcmp(x->model, y->model) != 0) {
    snprintf(text, sizeof text, "models '%.60s' and '%.60s'", x->model, y->model);
    return differ(r, b, text);
  }
  if (x->ranks != y->ranks) {
    snprintf(text, sizeof text, "%d and %d ranks", x->ranks, y->ranks);
    return differ(r, b, text);
  }
  int common = 0;
  for (int i = 0; i < r->n; i++) {
    const sl__sums *s = sums_of_rank(b, r->sums[i].t->rank);
    if (!s || r->sums[i].steps == 0) continue;
    common++;
    SL_TRY(check_rank(r, b, r->sums[i].t, s->t));
  }
  if (common == 0)
    return sl_fail(SL_EINVAL, "%s and %s have no rank in common of which both recorded a whole step", r->run, b->run);
  return SL_OK;
}

/* --- parts -----------------------------------------------------------------------------------------------------------
 */

/* The part, made if missing; NULL when out of memory. Names live as long as the timelines. */
static sl__report_part *part_of(sl__report_beside *x, sl__part_kind kind, sl_idle_cause cause, const char *operation,
                                const char *phase) {
  for (int i = 0; i < x->n_parts; i++) {
    sl__report_part *p = &x->part[i];
    if (p->kind == kind && p->cause == cause && strcmp(p->operation, operation) == 0 && strcmp(p->phase, phase) == 0)
      return p;
  }
  sl__report_part *more = realloc(x->part, ((size_t)x->n_parts + 1) * sizeof *more);
  if (!more) return NULL;
  x->part = more;
  more[x->n_parts] = (sl__report_part){.kind = kind, .cause = cause, .operation = operation, .phase = phase};
  return &more[x->n_parts++];
}

static sl_status add(sl__report_beside *x, sl__part_kind kind, sl_idle_cause cause, double run, double beside,
                     double difference) {
  sl__report_part *p = part_of(x, kind, cause, "", "");
  if (!p) return sl_no_memory("for the parts of a difference");
  p->run += run, p->beside += beside, p->difference += difference;
  return SL_OK;
}

/* Tasks of one kind in a step, on CPU or on GPU workers. */
typedef struct work {
  double tasks, mean; /* mean seconds of a task */
} work;
enum { CPU, GPU, PLACES };

static work *work_of(const sl__sums *s) {
  const sl_timeline *t = s->t;
  work *all = calloc(((size_t)t->n_nodes + 1) * PLACES, sizeof *all); /* there are at most as many kinds as nodes */
  for (size_t i = 0; all && i < t->n_records; i++) {
    const sl_record *a = &t->record[i];
    if (a->kind != SL_RECORD_TASK || a->step < s->first || a->node < 0 || a->node >= t->n_nodes || a->worker < 0 ||
        a->worker >= t->n_workers)
      continue;
    work *w = &all[t->node[a->node].kind * PLACES + (t->worker[a->worker].gpu ? GPU : CPU)];
    w->tasks++;
    w->mean += 1e-9 * (double)(a->end - a->start);
  }
  for (int i = 0; all && i < t->n_nodes * PLACES; i++)
    if (all[i].tasks > 0) all[i].mean /= all[i].tasks, all[i].tasks /= (double)s->steps;
  return all;
}

/* Adds one kind of tasks. If one run has n tasks of t seconds and the other n' tasks of t', then n (t - t') is due to
 * speed and (n - n') t' to placement; together they are n t - n' t'. If the other run had no such task on such workers,
 * all of it is placement. */
static sl_status add_kind(sl__report_beside *to, const sl_timeline_node *node, const work *mine, const work *other,
                          double share, int workers, int others) {
  double run = 0, beside = 0, speed = 0, placed = 0;
  for (int p = 0; p < PLACES; p++) {
    const work *x = &mine[p], *y = &other[p];
    run += x->tasks * x->mean / workers, beside += y->tasks * y->mean / others;
    if (x->tasks > 0 && y->tasks > 0)
      speed += x->tasks * (x->mean - y->mean) / workers, placed += (x->tasks - y->tasks) * y->mean / workers;
    else
      placed += (x->tasks * x->mean - y->tasks * y->mean) / workers;
  }
  const double number = run - beside - speed - placed;
  if (run > 0 || beside > 0) {
    sl__report_part *part = part_of(to, SL__PART_KERNELS, SL_IDLE_CAUSES, node->operation, node->phase);
    if (!part) return sl_no_memory("for the parts of a difference");
    part->run += share * run, part->beside += share * beside, part->difference += share * speed;
  }
  SL_TRY(add(to, SL__PART_PLACEMENT, SL_IDLE_CAUSES, 0, 0, share * placed));
  return workers == others ? SL_OK : add(to, SL__PART_WORKERS, SL_IDLE_CAUSES, 0, 0, share * number);
}

/* Adds a rank of which both runs have whole steps. share: 1 / number of such ranks. */
static sl_status add_rank(sl__report_beside *x, const sl__sums *r, const sl__sums *b, double share) {
  unsigned char *seen = calloc((size_t)r->t->n_nodes + 1, 1);
  work *mine = work_of(r), *other = work_of(b);
  sl_status status = seen && mine && other ? SL_OK : sl_no_memory("for the tasks of rank %d", r->t->rank);
  SL_TRY_OUT(status);
  x->step[0] += share * r->step, x->step[1] += share * b->step;
  for (int i = 0; i < r->t->n_nodes; i++) {
    const int kind = r->t->node[i].kind;
    if (seen[kind]) continue;
    seen[kind] = 1;
    SL_TRY_OUT(add_kind(x, &r->t->node[i], &mine[kind * PLACES], &other[kind * PLACES], share, r->t->n_workers,
                        b->t->n_workers));
  }
  for (int c = 0; c < SL_IDLE_CAUSES; c++) {
    const double run = share * r->usage.idle[c] * r->step, beside = share * b->usage.idle[c] * b->step;
    SL_TRY_OUT(add(x, SL__PART_IDLE, (sl_idle_cause)c, run, beside, run - beside));
  }
out:
  free(seen), free(mine), free(other);
  return status;
}

/* Kernels by size, then the other parts; idle time of the runtime, which includes the remainder, comes last. */
static int by_size(const void *a, const void *b) {
  const sl__report_part *x = a, *y = b;
  if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
  if (x->kind == SL__PART_KERNELS && fabs(x->difference) != fabs(y->difference))
    return fabs(x->difference) < fabs(y->difference) ? 1 : -1;
  if (x->cause != y->cause)
    return x->cause == SL_IDLE_RUNTIME ? 1 : y->cause == SL_IDLE_RUNTIME ? -1 : (int)x->cause - (int)y->cause;
  const int order = strcmp(x->operation, y->operation);
  return order ? order : strcmp(x->phase, y->phase);
}

sl_status sl__report_beside_of(const sl__report_run *r, const sl__report_run *b, sl__report_beside *x) {
  *x = (sl__report_beside){.run = r, .beside = b};
  SL_TRY(check(r, b));
  int common = 0;
  for (int i = 0; i < r->n; i++) common += r->sums[i].steps > 0 && sums_of_rank(b, r->sums[i].t->rank);
  for (int i = 0; i < r->n; i++) {
    const sl__sums *s = sums_of_rank(b, r->sums[i].t->rank);
    if (s && r->sums[i].steps > 0) SL_TRY(add_rank(x, &r->sums[i], s, 1.0 / common));
  }
  x->ranks = common;
  /* Kernels that overlap on a worker or lie across the window's edge make the sums differ slightly from the shares. */
  double rest = x->step[0] - x->step[1];
  for (int i = 0; i < x->n_parts; i++) rest -= x->part[i].difference;
  SL_TRY(add(x, SL__PART_IDLE, SL_IDLE_RUNTIME, 0, 0, rest));
  qsort(x->part, (size_t)x->n_parts, sizeof *x->part, by_size);
  return SL_OK;
}

void sl__report_beside_free(sl__report_beside *x) { free(x->part); }

/* --- words -----------------------------------------------------------------------------------------------------------
 */

static const char *cause_words(const sl__report_part *p) {
  static const char *const idle[SL_IDLE_CAUSES] = {
      [SL_IDLE_RUNTIME] = "runtime: tasks not submitted yet, and the rest",
      [SL_IDLE_DEPENDENCY] = "dependency: waiting for tasks, none ready",
      [SL_IDLE_DATA] = "data: waiting for memory and copies",
      [SL_IDLE_EXCHANGE] = "exchange: waiting for other ranks",
      [SL_IDLE_POLICY] = "policy: ready tasks placed elsewhere or held",
  };
  return p->kind == SL__PART_PLACEMENT ? "placement: tasks on other kinds of workers"
         : p->kind == SL__PART_WORKERS ? "workers: another number of them"
                                       : idle[p->cause];
}

static json_t *name_of(const sl__report_part *p) {
  return p->kind == SL__PART_KERNELS ? json_sprintf("kernels: %s (%s)", p->operation, p->phase)
                                     : json_string(cause_words(p));
}

static const char *kind_name(const sl__report_part *p) {
  return p->kind == SL__PART_KERNELS     ? "kernels"
         : p->kind == SL__PART_PLACEMENT ? "placement"
         : p->kind == SL__PART_WORKERS   ? "workers"
                                         : sl_idle_cause_name(p->cause);
}

json_t *sl__report_beside_answer(const sl__report_beside *x) {
  const double difference = x->step[0] - x->step[1];
  const sl__report_part *most = NULL;
  /* Kernels come first, and stay first if another part differs by as much, because other parts often wait
   * for the kernels. */
  for (int i = 0; i < x->n_parts; i++) {
    const double part = x->part[i].difference / difference;
    if (difference != 0 && part > 0 && (!most || part > 1.001 * most->difference / difference)) most = &x->part[i];
  }
  /* Steps of one run vary by more than a thousandth. */
  if (!most || fabs(difference) <= 1e-3 * fmin(x->step[0], x->step[1]))
    return json_sprintf("A step took %.3f ms in %s and %.3f ms in %s: the same.", 1e3 * x->step[0], x->run->run,
                        1e3 * x->step[1], x->beside->run);
  json_t *name = name_of(most);
  json_t *text =
      name ? json_sprintf(
                 "A step took %.3f ms in %s and %.3f ms in %s: %.3f ms (%.1f %%) %s. The largest part of that, "
                 "%.3f ms, is '%s'.",
                 1e3 * x->step[0], x->run->run, 1e3 * x->step[1], x->beside->run, 1e3 * fabs(difference),
                 100 * fabs(difference) / x->step[1], difference > 0 ? "longer" : "shorter",
                 1e3 * fabs(most->difference), json_string_value(name))
           : NULL;
  json_decref(name);
  return text;
}

json_t *sl__report_beside_to_json(const sl__report_beside *x) {
  json_t *parts = json_array();
  for (int i = 0; i < x->n_parts; i++) {
    const sl__report_part *p = &x->part[i];
    json_array_append_new(parts, json_pack("{s:s, s:s, s:s, s:o, s:f, s:f, s:f}", "cause", kind_name(p), "operation",
                                           p->operation, "phase", p->phase, "name", name_of(p), "run_s", p->run,
                                           "beside_s", p->beside, "difference_s", p->difference));
  }
  return json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:o, s:o}", "sched", x->beside->timelines[0]->sched, "ranks",
                   x->ranks, "workers", x->beside->timelines[0]->n_workers, "run_step_s", x->step[0], "beside_step_s",
                   x->step[1], "difference_s", x->step[0] - x->step[1], "answer", sl__report_beside_answer(x), "parts",
                   parts);
}

/* In ms, without a minus before 0.000. */
static double rounded(double seconds) { return round(1e6 * seconds) / 1e3 + 0.0; }

static void print_line(FILE *to, const char *name, double run, double beside, double difference) {
  fprintf(to, "%-50s %12.3f %12.3f %+12.3f\n", name, rounded(run), rounded(beside), rounded(difference));
}

/* Operations beyond the first ten are one line. */
sl_status sl__report_beside_print(FILE *to, const sl__report_beside *x) {
  enum { OPERATIONS = 10 };
  int kernels = 0;
  sl__report_part others = {0};
  json_t *answer = sl__report_beside_answer(x);
  if (!answer) return sl_no_memory("for an answer");
  fprintf(to, "%s\n\n", json_string_value(answer));
  json_decref(answer);
  fprintf(to, "%-50s %12s %12s %12s\n", "ms a step, mean over workers", "run", "beside", "difference");
  for (int i = 0; i < x->n_parts; i++) {
    const sl__report_part *p = &x->part[i];
    const int kernel = p->kind == SL__PART_KERNELS, more = kernel && ++kernels > OPERATIONS;
    if (more) others.run += p->run, others.beside += p->beside, others.difference += p->difference;
    if (kernels > OPERATIONS && (i + 1 == x->n_parts || (kernel && x->part[i + 1].kind != SL__PART_KERNELS)))
      print_line(to, "kernels: other operations", others.run, others.beside, others.difference);
    if (more || (p->kind == SL__PART_PLACEMENT && p->difference == 0)) continue;
    json_t *name = name_of(p);
    if (!name) return sl_no_memory("for the name of a part");
    if (kernel || p->kind == SL__PART_IDLE)
      print_line(to, json_string_value(name), p->run, p->beside, p->difference);
    else
      fprintf(to, "%-50s %12s %12s %+12.3f\n", json_string_value(name), "", "", rounded(p->difference));
    json_decref(name);
  }
  print_line(to, "a step", x->step[0], x->step[1], x->step[0] - x->step[1]);
  return SL_OK;
}
