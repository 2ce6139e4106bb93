/* Critical path, area and mixed bound of a task graph. GLPK solves the linear programs. They are small: one variable
 * per kind of task and kind of worker, and as many again per path. */
#include "tasks/graph/bound.h"

#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PATHS = 16,             /* most paths; each further path raises T by less */
  MOST_NUMBERS = 50000000 /* of a linear program; GLPK ends the process beyond 100 million rows or columns */
};

/* --- paths ---------------------------------------------------------------------------------------------------------
 */

static sl_status check(const sl_bound_problem *p) {
  for (int i = 0; i < p->n_tasks; i++) {
    if (p->kind[i] < 0 || p->kind[i] >= p->n_kinds)
      return sl_fail(SL_EINVAL, "task %d is of kind %d, and there are %d", i, p->kind[i], p->n_kinds);
    for (int k = p->from[i]; k < p->from[i + 1]; k++)
      if (p->before[k] < 0 || p->before[k] >= p->n_tasks)
        return sl_fail(SL_EINVAL, "task %d waits for task %d, and there are %d", i, p->before[k], p->n_tasks);
  }
  for (int k = 0; k < p->n_kinds; k++) {
    int somewhere = 0;
    for (int w = 0; w < p->n_worker_kinds; w++) {
      const double t = p->seconds[k * p->n_worker_kinds + w];
      if (!(t >= 0)) return sl_fail(SL_EINVAL, "tasks of kind %d take %g s on workers of kind %d", k, t, w);
      somewhere |= isfinite(t);
    }
    if (!somewhere) return sl_fail(SL_EINVAL, "tasks of kind %d have no time on any worker", k);
  }
  return SL_OK;
}

/* An order of execution (Kahn, "Topological sorting of large networks", 1962). */
static sl_status order_of(const sl_bound_problem *p, int *order) {
  const int n = p->n_tasks, edges = p->from[n];
  int *waits = malloc(((size_t)n + 1) * sizeof *waits), *first = calloc((size_t)n + 2, sizeof *first);
  int *after = malloc(((size_t)edges + 1) * sizeof *after), done = 0;
  sl_status status = SL_OK;
  if (!waits || !first || !after) {
    status = sl_no_memory("for the order of %d tasks", n);
    goto out;
  }
  for (int k = 0; k < edges; k++) first[p->before[k] + 2]++;
  for (int i = 0; i < n; i++) first[i + 1] += first[i];
  for (int i = 0; i < n; i++) {
    waits[i] = p->from[i + 1] - p->from[i];
    if (waits[i] == 0) order[done++] = i;
    for (int k = p->from[i]; k < p->from[i + 1]; k++) after[first[p->before[k] + 1]++] = i;
  }
  for (int k = 0; k < done; k++)
    for (int e = first[order[k]]; e < first[order[k] + 1]; e++)
      if (--waits[after[e]] == 0) order[done++] = after[e];
  if (done < n) status = sl_fail(SL_EINVAL, "%d of %d tasks wait for one another in a circle", n - done, n);
out:
  free(waits), free(first), free(after);
  return status;
}

/* The longest path when a task of kind k takes weight[k]. Returns its length; count[k] receives its tasks of kind k,
 * and on_path which tasks are on it (NULL: not wanted). */
static sl_status longest_path(const sl_bound_problem *p, const int *order, const double *weight, double *length,
                              int *count, unsigned char *on_path) {
  double *end = malloc(((size_t)p->n_tasks + 1) * sizeof *end);
  int *latest = malloc(((size_t)p->n_tasks + 1) * sizeof *latest), last = -1;
  if (!end || !latest) {
    free(end), free(latest);
    return sl_no_memory("for the paths of %d tasks", p->n_tasks);
  }
  for (int o = 0; o < p->n_tasks; o++) {
    const int i = order[o];
    end[i] = 0;
    latest[i] = -1;
    for (int k = p->from[i]; k < p->from[i + 1]; k++)
      if (latest[i] < 0 || end[p->before[k]] > end[i]) end[i] = end[latest[i] = p->before[k]];
    end[i] += weight[p->kind[i]];
    if (last < 0 || end[i] > end[last]) last = i;
  }
  *length = last < 0 ? 0 : end[last];
  memset(count, 0, (size_t)p->n_kinds * sizeof *count);
  for (int i = last; i >= 0; i = latest[i]) {
    count[p->kind[i]]++;
    if (on_path) on_path[i] = 1;
  }
  free(end), free(latest);
  return SL_OK;
}

static void shortest_times(const sl_bound_problem *p, double *weight) {
  for (int k = 0; k < p->n_kinds; k++) {
    weight[k] = INFINITY;
    for (int w = 0; w < p->n_worker_kinds; w++) weight[k] = fmin(weight[k], p->seconds[k * p->n_worker_kinds + w]);
  }
}

/* --- linear programs -----------------------------------------------------------------------------------------------
 */

/* The matrix under construction, in GLPK's triplets, which count from 1. */
typedef struct program {
  glp_prob *lp;
  int *row, *column, n;
  double *value;
} program;

static void put(program *m, int row, int column, double value) {
  if (value == 0) return;
  m->n++;
  m->row[m->n] = row, m->column[m->n] = column, m->value[m->n] = value;
}

/* Variables: T in column 1, then x_kw (parts of each kind's tasks), then for each path y_kw (parts of the path's).
 * Times are divided by `unit`. */
static void fill(program *m, const sl_bound_problem *p, const int *total, const int *paths, int n_paths, double least,
                 double unit) {
  const int K = p->n_kinds, W = p->n_worker_kinds, each = K * W;
  glp_set_obj_dir(m->lp, GLP_MIN);
  glp_add_cols(m->lp, 1 + (1 + n_paths) * each);
  glp_set_col_bnds(m->lp, 1, GLP_LO, least / unit, 0);
  glp_set_obj_coef(m->lp, 1, 1);
  for (int q = 0; q <= n_paths; q++)
    for (int v = 0; v < each; v++)
      if (isfinite(p->seconds[v]))
        glp_set_col_bnds(m->lp, 2 + q * each + v, GLP_DB, 0, 1);
      else
        glp_set_col_bnds(m->lp, 2 + q * each + v, GLP_FX, 0, 0);
  for (int w = 0; w < W; w++) { /* sum_k n_k t_kw x_kw <= m_w T */
    if (p->workers[w] == 0) continue;
    const int row = glp_add_rows(m->lp, 1);
    glp_set_row_bnds(m->lp, row, GLP_UP, 0, 0);
    put(m, row, 1, -p->workers[w]);
    for (int k = 0; k < K; k++)
      if (isfinite(p->seconds[k * W + w])) put(m, row, 2 + k * W + w, total[k] * p->seconds[k * W + w] / unit);
  }
  for (int q = 0; q <= n_paths; q++) /* every task runs somewhere */
    for (int k = 0; k < K; k++) {
      const int row = glp_add_rows(m->lp, 1);
      glp_set_row_bnds(m->lp, row, GLP_FX, 1, 1);
      for (int w = 0; w < W; w++) put(m, row, 2 + q * each + k * W + w, 1);
    }
  for (int q = 0; q < n_paths; q++) {
    const int *count = paths + (size_t)q * (size_t)K, length = glp_add_rows(m->lp, 1);
    glp_set_row_bnds(m->lp, length, GLP_UP, 0, 0); /* sum_kw c_k t_kw y_kw <= T */
    put(m, length, 1, -1);
    for (int v = 0; v < each; v++) {
      if (count[v / W] == 0 || !isfinite(p->seconds[v])) continue;
      put(m, length, 2 + (q + 1) * each + v, count[v / W] * p->seconds[v] / unit);
      const int part = glp_add_rows(m->lp, 1); /* c_k y_kw <= n_k x_kw */
      glp_set_row_bnds(m->lp, part, GLP_UP, 0, 0);
      put(m, part, 2 + (q + 1) * each + v, count[v / W]);
      put(m, part, 2 + v, -total[v / W]);
    }
  }
  glp_load_matrix(m->lp, m->n, m->row, m->column, m->value);
}

/* Solves for the least T; x goes into share. */
static sl_status minimise(const sl_bound_problem *p, const int *total, const int *paths, int n_paths, double least,
                          double *time, double *share) {
  const size_t each = (size_t)p->n_kinds * (size_t)p->n_worker_kinds;
  const size_t most = 1 + (size_t)p->n_worker_kinds + each + (size_t)(1 + n_paths) * (4 * each + 1);
  if (most > MOST_NUMBERS) return sl_fail(SL_EINVAL, "%d kinds of tasks are too many for a bound", p->n_kinds);
  program m = {.lp = glp_create_prob(),
               .row = malloc((most + 1) * sizeof(int)),
               .column = malloc((most + 1) * sizeof(int)),
               .value = malloc((most + 1) * sizeof(double))};
  sl_status status = SL_OK;
  if (!m.row || !m.column || !m.value) {
    status = sl_no_memory("for a linear program of %zu numbers", most);
    goto out;
  }
  double unit = 0; /* unit of time: all of the work, so that T is near 1 */
  for (int k = 0; k < p->n_kinds; k++) {
    double fastest = INFINITY;
    for (int w = 0; w < p->n_worker_kinds; w++) fastest = fmin(fastest, p->seconds[k * p->n_worker_kinds + w]);
    unit += total[k] * fastest;
  }
  if (unit <= 0) unit = 1;
  glp_term_out(GLP_OFF);
  fill(&m, p, total, paths, n_paths, least, unit);
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.presolve = GLP_ON;
  const int code = glp_simplex(m.lp, &options);
  if (code != 0 || glp_get_status(m.lp) != GLP_OPT) {
    status = sl_fail(SL_EINVAL, "the linear program of the bound has no solution (GLPK: code %d, status %d)", code,
                     glp_get_status(m.lp));
    goto out;
  }
  *time = glp_get_obj_val(m.lp) * unit;
  for (size_t v = 0; v < each; v++) share[v] = glp_get_col_prim(m.lp, 2 + (int)v);
out:
  glp_delete_prob(m.lp);
  free(m.row), free(m.column), free(m.value);
  return status;
}

static int known(const int *paths, int n, int K) { /* whether path n has the same tasks as an earlier one */
  for (int q = 0; q < n; q++)
    if (memcmp(paths + (size_t)q * (size_t)K, paths + (size_t)n * (size_t)K, (size_t)K * sizeof *paths) == 0) return 1;
  return 0;
}

/* Kinds without a task do not enter the program; their numbers stay valid, with any time. */
sl_status sl_bound_solve(const sl_bound_problem *p, sl_bound *b, double *share) {
  *b = (sl_bound){0};
  SL_TRY(check(p));
  const int K = p->n_kinds, W = p->n_worker_kinds;
  if (p->n_tasks == 0) return SL_OK;
  int *total = calloc((size_t)K, sizeof *total), *paths = calloc((size_t)K * (PATHS + 1), sizeof *paths);
  double *weight = malloc((size_t)K * sizeof *weight), *x = malloc((size_t)K * (size_t)W * sizeof *x), length;
  int *order = malloc((size_t)p->n_tasks * sizeof *order);
  sl_status status = SL_OK;
  if (!total || !paths || !weight || !x || !order) {
    status = sl_no_memory("for the bound of %d kinds of tasks", K);
    goto out;
  }
  for (int i = 0; i < p->n_tasks; i++) total[p->kind[i]]++;
  shortest_times(p, weight);
  SL_TRY_OUT(order_of(p, order));
  SL_TRY_OUT(longest_path(p, order, weight, &b->critical_path, paths, NULL));
  SL_TRY_OUT(minimise(p, total, NULL, 0, 0, &b->area, x));
  b->mixed = fmax(b->area, b->critical_path);
  for (int n = 1; n <= PATHS; n++) {
    double time;
    SL_TRY_OUT(minimise(p, total, paths, n, b->critical_path, &time, x));
    b->mixed = fmax(b->mixed, time);
    for (int k = 0; k < K; k++) {
      weight[k] = 0;
      for (int w = 0; w < W; w++)
        if (isfinite(p->seconds[k * W + w])) weight[k] += x[k * W + w] * p->seconds[k * W + w];
    }
    SL_TRY_OUT(longest_path(p, order, weight, &length, paths + (size_t)n * (size_t)K, NULL));
    if (length <= b->mixed * (1 + 1e-9) || known(paths, n, K)) break;
  }
  if (share) memcpy(share, x, (size_t)K * (size_t)W * sizeof *x);
out:
  free(total), free(paths), free(weight), free(x), free(order);
  return status;
}

/* --- kinds and their times -----------------------------------------------------------------------------------------
 */

typedef struct place {
  const char *operation;
  uint32_t footprint;
  int node;
} place;

static int by_kind(const void *a, const void *b) {
  const place *x = a, *y = b;
  const int names = strcmp(x->operation, y->operation);
  if (names) return names;
  if (x->footprint != y->footprint) return x->footprint < y->footprint ? -1 : 1;
  return x->node - y->node;
}

sl_status sl_bound_kinds(const sl_graph *g, int *of, int *n_kinds) {
  *n_kinds = 0;
  place *at = malloc(((size_t)g->n_nodes + 1) * sizeof *at);
  if (!at) return sl_no_memory("for the kinds of %d tasks", g->n_nodes);
  for (int i = 0; i < g->n_nodes; i++) at[i] = (place){g->node[i]->op->name, sl_node_footprint(g, g->node[i]), i};
  qsort(at, (size_t)g->n_nodes, sizeof *at, by_kind);
  /* Each node first gets the first node of its kind; these become numbers in the order of nodes. */
  for (int i = 0, first = 0; i < g->n_nodes; i++) {
    if (strcmp(at[i].operation, at[first].operation) != 0 || at[i].footprint != at[first].footprint) first = i;
    of[at[i].node] = at[first].node;
  }
  for (int i = 0; i < g->n_nodes; i++) of[i] = of[i] == i ? (*n_kinds)++ : of[of[i]];
  free(at);
  return SL_OK;
}

typedef struct sample {
  size_t cell;
  int64_t ns;
} sample;

static int by_cell(const void *a, const void *b) {
  const sample *x = a, *y = b;
  if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

sl_status sl_bound_times(const sl_timeline *t, const int *worker_kind, int n_worker_kinds, int exchange,
                         double *seconds) {
  sample *samples = malloc((t->n_records + 1) * sizeof *samples);
  if (!samples) return sl_no_memory("for the times of %zu tasks", t->n_records);
  const size_t kinds = (size_t)n_worker_kinds;
  size_t n = 0;
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->node < 0 || r->node >= t->n_nodes) continue;
    const int w = r->kind == SL_RECORD_EXCHANGE                                             ? exchange
                  : r->kind == SL_RECORD_TASK && r->worker >= 0 && r->worker < t->n_workers ? worker_kind[r->worker]
                                                                                            : -1;
    if (w >= 0) samples[n++] = (sample){(size_t)t->node[r->node].kind * kinds + (size_t)w, r->end - r->start};
  }
  qsort(samples, n, sizeof *samples, by_cell);
  for (size_t v = 0; v < (size_t)t->n_kinds * kinds; v++) seconds[v] = INFINITY;
  for (size_t first = 0, i = 0; i < n; i++) {
    if (i + 1 < n && samples[i + 1].cell == samples[first].cell) continue;
    const size_t low = first + (i - first) / 2, high = first + (i - first + 1) / 2;
    seconds[samples[i].cell] = 0.5e-9 * (double)(samples[low].ns + samples[high].ns);
    first = i + 1;
  }
  free(samples);
  return SL_OK;
}

/* A timeline's step as a problem, with the arrays that the problem borrows. */
enum { CPU, GPU, NETWORK, PLACES };
typedef struct recorded {
  int workers[PLACES];
  int *kind;
  double *seconds;
  sl_bound_problem problem;
} recorded;

static void recorded_free(recorded *r) { free(r->kind), free(r->seconds); }

/* The caller calls recorded_free, also after a failure. */
static sl_status recorded_of(const sl_timeline *t, recorded *r) {
  int *worker_kind = calloc((size_t)t->n_workers + 1, sizeof *worker_kind);
  *r = (recorded){.kind = malloc(((size_t)t->n_nodes + 1) * sizeof *r->kind),
                  .seconds = malloc(((size_t)t->n_kinds * PLACES + 1) * sizeof *r->seconds)};
  sl_status status = SL_OK;
  if (!worker_kind || !r->kind || !r->seconds) {
    status = sl_no_memory("for the bound of %d tasks", t->n_nodes);
    goto out;
  }
  for (int w = 0; w < t->n_workers; w++) r->workers[worker_kind[w] = t->worker[w].gpu ? GPU : CPU]++;
  for (int i = 0; i < t->n_nodes; i++) r->kind[i] = t->node[i].kind;
  SL_TRY_OUT(sl_bound_times(t, worker_kind, PLACES, NETWORK, r->seconds));
  /* 0 workers would mean unlimited. Nothing was recorded on missing workers, so nothing is put there. */
  r->problem = (sl_bound_problem){.n_tasks = t->n_nodes,
                                  .kind = r->kind,
                                  .from = t->from,
                                  .before = t->before,
                                  .n_kinds = t->n_kinds,
                                  .n_worker_kinds = PLACES,
                                  .workers = r->workers,
                                  .seconds = r->seconds};
out:
  free(worker_kind);
  return status;
}

sl_status sl_bound_recorded(const sl_timeline *t, sl_bound *bound) {
  recorded r;
  sl_status status = recorded_of(t, &r);
  if (status == SL_OK) status = sl_bound_solve(&r.problem, bound, NULL);
  recorded_free(&r);
  return status;
}

sl_status sl_bound_critical(const sl_timeline *t, unsigned char *on_path) {
  recorded r;
  int *order = malloc(((size_t)t->n_nodes + 1) * sizeof *order),
      *count = malloc(((size_t)t->n_kinds + 1) * sizeof *count);
  double *weight = malloc(((size_t)t->n_kinds + 1) * sizeof *weight), length;
  memset(on_path, 0, (size_t)t->n_nodes);
  sl_status status = recorded_of(t, &r);
  SL_TRY_OUT(status);
  if (!order || !count || !weight) {
    status = sl_no_memory("for the critical path of %d tasks", t->n_nodes);
    goto out;
  }
  SL_TRY_OUT(check(&r.problem));
  shortest_times(&r.problem, weight);
  SL_TRY_OUT(order_of(&r.problem, order));
  SL_TRY_OUT(longest_path(&r.problem, order, weight, &length, count, on_path));
out:
  recorded_free(&r);
  free(order), free(count), free(weight);
  return status;
}
