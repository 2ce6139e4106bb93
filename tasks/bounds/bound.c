/* Critical path, area and mixed bound of a task graph. GLPK solves the linear programs. They are small: one variable
 * per kind of task and kind of worker, and as many again per path. */
#include "tasks/bounds/bound.h"

#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/bounds/flows.h"

enum {
  PATHS = 16,             /* most paths; each further one raises T less */
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
  const sl_bound_copies *c = p->copies;
  if (!c) return SL_OK;
  if (!(c->link > 0) || !(c->latency >= 0))
    return sl_fail(SL_EINVAL, "links cannot have %g bytes/s and %g s a copy", c->link, c->latency);
  for (int i = 0; i < c->n_flows; i++) {
    const sl_timeline_flow *f = &c->flow[i];
    if (f->from < -1 || f->from >= p->n_tasks || f->to < -1 || f->to >= p->n_tasks || (f->from < 0 && f->to < 0) ||
        f->bytes < 0)
      return sl_fail(SL_EINVAL, "flow %d of %lld bytes from task %d to task %d", i, (long long)f->bytes, f->from,
                     f->to);
    if (i > 0 && (unsigned)f->to < (unsigned)f[-1].to)
      return sl_fail(SL_EINVAL, "flow %d is not in the order of readers", i);
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
  if (done < n) status = sl_fail(SL_EINVAL, "%d of %d tasks are in or behind a dependency cycle", n - done, n);
out:
  free(waits), free(first), free(after);
  return status;
}

/* Bytes along each dependency, [dependencies]; and from each task to the host at the end, [tasks]. */
typedef struct edges {
  double *bytes, *result;
} edges;

static void edges_free(edges *e) { free(e->bytes), free(e->result); }

static sl_status find_edges(const sl_bound_problem *p, edges *e) {
  *e = (edges){.bytes = calloc((size_t)p->from[p->n_tasks] + 1, sizeof *e->bytes),
               .result = calloc((size_t)p->n_tasks + 1, sizeof *e->result)};
  if (!e->bytes || !e->result) return sl_no_memory("for what %d tasks read", p->n_tasks);
  for (int i = 0; p->copies && i < p->copies->n_flows; i++) {
    const sl_timeline_flow *f = &p->copies->flow[i];
    if (f->from < 0) continue; /* the task's time includes the copy */
    if (f->to < 0) {
      e->result[f->from] += (double)f->bytes;
      continue;
    }
    int k = p->from[f->to];
    while (k < p->from[f->to + 1] && p->before[k] != f->from) k++;
    if (k == p->from[f->to + 1])
      return sl_fail(SL_EINVAL, "task %d reads what task %d writes, and does not wait for it", f->to, f->from);
    e->bytes[k] += (double)f->bytes;
  }
  return SL_OK;
}

/* Time of a copy between workers of two kinds. 0 if both are devices, since they may be the same device. */
static double crossing(const sl_bound_problem *p, int from, int to, double bytes) {
  const sl_bound_copies *c = p->copies;
  return c && bytes > 0 && c->device[from] != c->device[to] ? c->latency + bytes / c->link : 0;
}

typedef struct path {
  int n;
  int *task; /* [n] the last one first */
} path;

/* The longest path, with kinds of workers and copies chosen so that each path is shortest. */
static sl_status shortest_path(const sl_bound_problem *p, const int *order, const edges *e, double *length,
                               path *path) {
  const int W = p->n_worker_kinds;
  const size_t room = (size_t)p->n_tasks * (size_t)W + 1;
  double *end = malloc(room * sizeof *end); /* [tasks][worker kinds] */
  int *latest = malloc(room * sizeof *latest), last = -1;
  if (!end || !latest) {
    free(end), free(latest);
    return sl_no_memory("for the paths of %d tasks", p->n_tasks);
  }
  *length = -1;
  for (int o = 0; o < p->n_tasks; o++) {
    const int i = order[o];
    double least = INFINITY;
    int where = 0;
    for (int w = 0; w < W; w++) {
      double start = 0;
      latest[i * W + w] = -1;
      for (int k = p->from[i]; k < p->from[i + 1]; k++) {
        double ready = INFINITY;
        int from = 0;
        for (int v = 0; v < W; v++) {
          const double then = end[p->before[k] * W + v] + crossing(p, v, w, e->bytes[k]);
          if (then < ready) ready = then, from = v;
        }
        if (latest[i * W + w] < 0 || ready > start) start = ready, latest[i * W + w] = p->before[k] * W + from;
      }
      end[i * W + w] = start + p->seconds[p->kind[i] * W + w];
      double over = end[i * W + w];
      if (p->copies && p->copies->device[w] && e->result[i] > 0)
        over += p->copies->latency + e->result[i] / p->copies->link;
      if (over < least) least = over, where = w;
    }
    if (least > *length) *length = least, last = i * W + where;
  }
  if (*length < 0) *length = 0;
  path->n = 0;
  for (int at = last; at >= 0; at = latest[at]) path->task[path->n++] = at / W;
  free(end), free(latest);
  return SL_OK;
}

/* The longest path when a task of kind k takes weight[k]. */
static sl_status longest_path(const sl_bound_problem *p, const int *order, const double *weight, double *length,
                              path *path) {
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
  path->n = 0;
  for (int i = last; i >= 0; i = latest[i]) path->task[path->n++] = i;
  free(end), free(latest);
  return SL_OK;
}

/* --- linear programs -----------------------------------------------------------------------------------------------
 */

/* The edges of a path from tasks of kind `before` to tasks of kind `after` that carry the same number of bytes. */
typedef struct stretch {
  int before, after, steps;
  double bytes;
} stretch;

/* A path's tasks and edges, counted by kind, as the linear program needs them. */
typedef struct sums {
  int *count; /* [kinds] tasks of each */
  stretch *stretch;
  int n_stretches;
} sums;

static int by_ends(const void *a, const void *b) {
  const stretch *x = a, *y = b;
  if (x->before != y->before) return x->before < y->before ? -1 : 1;
  if (x->after != y->after) return x->after < y->after ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static sl_status sum_up(const sl_bound_problem *p, const edges *e, const path *path, sums *s) {
  s->count = calloc((size_t)p->n_kinds, sizeof *s->count);
  s->stretch = malloc(((size_t)path->n + 1) * sizeof *s->stretch);
  s->n_stretches = 0;
  if (!s->count || !s->stretch) return sl_no_memory("for a path of %d tasks", path->n);
  int n = 0;
  for (int i = 0; i < path->n; i++) {
    const int task = path->task[i];
    s->count[p->kind[task]]++;
    for (int k = p->from[task]; i + 1 < path->n && k < p->from[task + 1]; k++)
      if (p->before[k] == path->task[i + 1] && e->bytes[k] > 0)
        s->stretch[n++] = (stretch){p->kind[path->task[i + 1]], p->kind[task], 1, e->bytes[k]};
  }
  qsort(s->stretch, (size_t)n, sizeof *s->stretch, by_ends);
  for (int i = 0; i < n; i++)
    if (s->n_stretches > 0 && by_ends(&s->stretch[s->n_stretches - 1], &s->stretch[i]) == 0)
      s->stretch[s->n_stretches - 1].steps++;
    else
      s->stretch[s->n_stretches++] = s->stretch[i];
  return SL_OK;
}

/* A linear program under construction: its matrix in GLPK's triplets, which count from 1, and the row that is being
 * written, in which coefficients of the same column add up. Times are divided by `unit`. */
typedef struct program {
  const sl_bound_problem *p;
  const sl_crossings *crossings; /* NULL: copies take no time */
  const int *total;              /* [kinds] tasks */
  double unit;
  glp_prob *lp;
  int *row, *column, n, room;
  double *value;
  double *coefficient; /* [columns + 1] */
  int *touched, n_touched, room_touched;
  int failed;
} program;

static void put(program *m, int column, double value) {
  if (m->n_touched == m->room_touched) {
    const int room = m->room_touched ? 2 * m->room_touched : 1024;
    int *touched = realloc(m->touched, (size_t)room * sizeof *touched);
    if (!touched) {
      m->failed = 1;
      return;
    }
    m->touched = touched, m->room_touched = room;
  }
  m->coefficient[column] += value;
  m->touched[m->n_touched++] = column;
}

/* Ends the row: its sum is at most, at least or equal to `bound` (GLP_UP, GLP_LO, GLP_FX). */
static void end_row(program *m, int type, double bound) {
  const int row = glp_add_rows(m->lp, 1);
  glp_set_row_bnds(m->lp, row, type, bound, bound);
  for (int k = 0; k < m->n_touched; k++) {
    const int column = m->touched[k];
    if (m->coefficient[column] == 0) continue; /* 0 also means: not in the row */
    if (m->n + 1 >= m->room) {
      const int room = m->room ? 2 * m->room : 4096;
      int *rows = realloc(m->row, (size_t)room * sizeof *rows);
      if (rows) m->row = rows;
      int *columns = realloc(m->column, (size_t)room * sizeof *columns);
      if (columns) m->column = columns;
      double *values = realloc(m->value, (size_t)room * sizeof *values);
      if (values) m->value = values;
      if (!rows || !columns || !values || room > MOST_NUMBERS) {
        m->failed = 1;
        break;
      }
      m->room = room;
    }
    m->n++;
    m->row[m->n] = row, m->column[m->n] = column, m->value[m->n] = m->coefficient[column];
    m->coefficient[column] = 0;
  }
  m->n_touched = 0;
}

/* Adds `times` the number of a kind's tasks that run on one side (1: devices). tasks: number of the kind's tasks;
 * first: column of their share on the first kind of worker. */
static void put_side(program *m, int kind, int side, int first, double tasks, double times) {
  const int W = m->p->n_worker_kinds;
  for (int w = 0; w < W; w++)
    if (m->p->copies->device[w] == side) put(m, first + kind * W + w, times * tasks);
}

/* Variables: T in column 1; then x_kw, the share of kind k's tasks that workers of kind w run; then, for each path,
 * y_kw, the same share of the path's tasks. */
static void fill_work(program *m, const sums *paths, int n_paths) {
  const sl_bound_problem *p = m->p;
  const int K = p->n_kinds, W = p->n_worker_kinds, each = K * W;
  for (int q = 0; q <= n_paths; q++)
    for (int v = 0; v < each; v++)
      if (isfinite(p->seconds[v]))
        glp_set_col_bnds(m->lp, 2 + q * each + v, GLP_DB, 0, 1);
      else
        glp_set_col_bnds(m->lp, 2 + q * each + v, GLP_FX, 0, 0);
  for (int w = 0; w < W; w++) { /* sum_k n_k t_kw x_kw <= m_w T */
    if (p->workers[w] == 0) continue;
    put(m, 1, -p->workers[w]);
    for (int k = 0; k < K; k++)
      if (isfinite(p->seconds[k * W + w])) put(m, 2 + k * W + w, m->total[k] * p->seconds[k * W + w] / m->unit);
    end_row(m, GLP_UP, 0);
  }
  for (int q = 0; q <= n_paths; q++) /* every task runs somewhere */
    for (int k = 0; k < K; k++) {
      for (int w = 0; w < W; w++) put(m, 2 + q * each + k * W + w, 1);
      end_row(m, GLP_FX, 1);
    }
  for (int q = 0; q < n_paths; q++)
    for (int v = 0; v < each; v++) { /* c_k y_kw <= n_k x_kw */
      if (paths[q].count[v / W] == 0 || !isfinite(p->seconds[v])) continue;
      put(m, 2 + (q + 1) * each + v, paths[q].count[v / W]);
      put(m, 2 + v, -m->total[v / W]);
      end_row(m, GLP_UP, 0);
    }
}

/* Variables from column `first` on: for each stretch of each path, the number of its steps that cross to devices, then
 * of those that cross to the host. Each path adds a row: sum_kw c_k t_kw y_kw + the time of these copies <= T. */
static void fill_paths(program *m, const sums *paths, int n_paths, int first) {
  const sl_bound_problem *p = m->p;
  const int W = p->n_worker_kinds, each = p->n_kinds * W;
  for (int q = 0; q < n_paths; q++) {
    const sums *s = &paths[q];
    const int y = 2 + (q + 1) * each, mine = first;
    for (int i = 0; m->crossings && i < s->n_stretches; i++)
      for (int side = 0; side < 2; side++, first++) { /* v + c_before y_before - c_after y_after >= steps - c_after */
        const stretch *t = &s->stretch[i];
        glp_set_col_bnds(m->lp, first, GLP_LO, 0, 0);
        put(m, first, 1);
        put_side(m, t->before, side, y, s->count[t->before], 1);
        put_side(m, t->after, side, y, s->count[t->after], -1);
        end_row(m, GLP_LO, t->steps - s->count[t->after]);
      }
    put(m, 1, -1);
    for (int v = 0; v < each; v++)
      if (s->count[v / W] > 0 && isfinite(p->seconds[v])) put(m, y + v, s->count[v / W] * p->seconds[v] / m->unit);
    for (int v = mine; v < first; v++)
      put(m, v, (p->copies->latency + s->stretch[(v - mine) / 2].bytes / p->copies->link) / m->unit);
    end_row(m, GLP_UP, 0);
  }
}

/* Variables from column `first` on: for each class of values, the number that cross to the host; then, for each class,
 * the number that cross to devices. */
static void fill_links(program *m, int first) {
  const sl_crossings *c = m->crossings;
  const sl_bound_copies *copies = m->p->copies;
  int devices = 0;
  for (int w = 0; w < m->p->n_worker_kinds; w++) devices += copies->device[w] ? m->p->workers[w] : 0;
  for (int side = 0; side < 2; side++, first += c->n_classes) {
    for (int i = 0; i < c->n_classes; i++) glp_set_col_bnds(m->lp, first + i, GLP_LO, 0, 0);
    put(m, 1, -devices); /* sum of bytes / link <= devices T */
    for (int i = 0; i < c->n_classes; i++) put(m, first + i, c->class_of[i].bytes / copies->link / m->unit);
    end_row(m, GLP_UP, 0);
    for (int r = 0; r < c->n_rows; r++) { /* sum of u + writers here - readers here >= pairs - readers */
      const sl_crossing_row *row = &c->row[r];
      if (row->reader < 0 && side == 1) continue;
      const double pairs = side == 1 ? row->pairs : row->written;
      double least = pairs;
      for (int k = row->first; k < row->first + row->n; k++) {
        const int class = c->of[k], writer = c->class_of[class].writer;
        int again = 0;
        put(m, first + class, 1);
        for (int j = row->first; j < k; j++) again |= c->class_of[c->of[j]].writer == writer;
        if (writer >= 0 && !again) put_side(m, writer, side, 2, m->total[writer], 1);
      }
      if (row->reader >= 0) {
        put_side(m, row->reader, side, 2, m->total[row->reader], -1);
        least -= m->total[row->reader];
      }
      end_row(m, GLP_LO, least);
    }
  }
}

/* Solves for the least T; x goes into share. */
static sl_status minimise(const sl_bound_problem *p, const sl_crossings *crossings, const int *total, const sums *paths,
                          int n_paths, double least, double *time, double *share) {
  const size_t each = (size_t)p->n_kinds * (size_t)p->n_worker_kinds;
  size_t columns = 1 + (size_t)(1 + n_paths) * each;
  const size_t links = columns + 1;
  if (crossings) columns += 2 * (size_t)crossings->n_classes;
  const size_t steps = columns + 1;
  for (int q = 0; q < n_paths && crossings; q++) columns += 2 * (size_t)paths[q].n_stretches;
  if (columns > MOST_NUMBERS) return sl_fail(SL_EINVAL, "%d kinds of tasks are too many for a bound", p->n_kinds);
  program m = {.p = p,
               .crossings = crossings,
               .total = total,
               .lp = glp_create_prob(),
               .coefficient = calloc(columns + 1, sizeof(double))};
  sl_status status = SL_OK;
  if (!m.coefficient) {
    status = sl_no_memory("for a linear program of %zu variables", columns);
    goto out;
  }
  for (int k = 0; k < p->n_kinds; k++) { /* unit of time: the total work, so that T is near 1 */
    double fastest = INFINITY;
    for (int w = 0; w < p->n_worker_kinds; w++) fastest = fmin(fastest, p->seconds[k * p->n_worker_kinds + w]);
    m.unit += total[k] * fastest;
  }
  if (m.unit <= 0) m.unit = 1;
  glp_term_out(GLP_OFF);
  glp_set_obj_dir(m.lp, GLP_MIN);
  glp_add_cols(m.lp, (int)columns);
  glp_set_col_bnds(m.lp, 1, GLP_LO, least / m.unit, 0);
  glp_set_obj_coef(m.lp, 1, 1);
  fill_work(&m, paths, n_paths);
  if (crossings) fill_links(&m, (int)links);
  fill_paths(&m, paths, n_paths, (int)steps);
  if (m.failed) {
    status = sl_no_memory("for a linear program of %d numbers", m.n);
    goto out;
  }
  glp_load_matrix(m.lp, m.n, m.row, m.column, m.value);
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
  *time = glp_get_obj_val(m.lp) * m.unit;
  for (size_t v = 0; v < each; v++) share[v] = glp_get_col_prim(m.lp, 2 + (int)v);
out:
  glp_delete_prob(m.lp);
  free(m.row), free(m.column), free(m.value), free(m.coefficient), free(m.touched);
  return status;
}

static int known(const sums *paths, int n, int K) { /* whether path n has the same tasks as an earlier one */
  for (int q = 0; q < n; q++)
    if (memcmp(paths[q].count, paths[n].count, (size_t)K * sizeof(int)) == 0) return 1;
  return 0;
}

/* Kinds without tasks are left out of the linear program; their times are ignored. */
sl_status sl_bound_solve(const sl_bound_problem *p, sl_bound *b, double *share) {
  *b = (sl_bound){0};
  SL_TRY(check(p));
  const int K = p->n_kinds, W = p->n_worker_kinds;
  if (p->n_tasks == 0) return SL_OK;
  int *total = calloc((size_t)K, sizeof *total);
  double *weight = malloc((size_t)K * sizeof *weight), *x = malloc((size_t)K * (size_t)W * sizeof *x), length = 0;
  int *order = malloc((size_t)p->n_tasks * sizeof *order);
  path path = {.task = malloc((size_t)p->n_tasks * sizeof *path.task)};
  sums paths[PATHS + 1] = {{0}};
  edges e = {0};
  sl_crossings crossings = {0};
  const sl_crossings *const copied = p->copies ? &crossings : NULL;
  sl_status status = SL_OK;
  if (!total || !weight || !x || !order || !path.task) {
    status = sl_no_memory("for the bound of %d kinds of tasks", K);
    goto out;
  }
  for (int i = 0; i < p->n_tasks; i++) total[p->kind[i]]++;
  SL_TRY_OUT(order_of(p, order));
  SL_TRY_OUT(find_edges(p, &e));
  if (copied) SL_TRY_OUT(sl__crossings_find(p->copies->flow, p->copies->n_flows, p->kind, &crossings));
  SL_TRY_OUT(shortest_path(p, order, &e, &b->critical_path, &path));
  SL_TRY_OUT(sum_up(p, &e, &path, &paths[0]));
  SL_TRY_OUT(minimise(p, copied, total, NULL, 0, 0, &b->area, x));
  b->mixed = fmax(b->area, b->critical_path);
  for (int n = 1; n <= PATHS; n++) {
    double time;
    SL_TRY_OUT(minimise(p, copied, total, paths, n, b->critical_path, &time, x));
    b->mixed = fmax(b->mixed, time);
    for (int k = 0; k < K; k++) {
      weight[k] = 0;
      for (int w = 0; w < W; w++)
        if (isfinite(p->seconds[k * W + w])) weight[k] += x[k * W + w] * p->seconds[k * W + w];
    }
    SL_TRY_OUT(longest_path(p, order, weight, &length, &path));
    SL_TRY_OUT(sum_up(p, &e, &path, &paths[n]));
    if (length <= b->mixed * (1 + 1e-9) || known(paths, n, K)) break;
  }
  if (share) memcpy(share, x, (size_t)K * (size_t)W * sizeof *x);
out:
  for (int q = 0; q <= PATHS; q++) free(paths[q].count), free(paths[q].stretch);
  edges_free(&e), sl__crossings_free(&crossings);
  free(total), free(weight), free(x), free(order), free(path.task);
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
    /* The time of an exchange contains the wait for the other ranks, which no bound may contain: the least counts. */
    const int waits = samples[first].cell % kinds == (size_t)exchange;
    const size_t low = waits ? first : first + (i - first) / 2, high = waits ? first : first + (i - first + 1) / 2;
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
  sl_bound_copies copies;
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
  /* 0 workers would mean unlimited. Missing workers have no recorded times, so no task is placed on them. */
  r->problem = (sl_bound_problem){.n_tasks = t->n_nodes,
                                  .kind = r->kind,
                                  .from = t->from,
                                  .before = t->before,
                                  .n_kinds = t->n_kinds,
                                  .n_worker_kinds = PLACES,
                                  .workers = r->workers,
                                  .seconds = r->seconds};
  if (r->workers[GPU] > 0 && t->link > 0) {
    static const unsigned char device[PLACES] = {[GPU] = 1};
    r->copies = (sl_bound_copies){.device = device, .link = t->link, .flow = t->flow, .n_flows = t->n_flows};
    r->problem.copies = &r->copies;
  }
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
  int *order = malloc(((size_t)t->n_nodes + 1) * sizeof *order);
  path path = {.task = malloc(((size_t)t->n_nodes + 1) * sizeof *path.task)};
  edges e = {0};
  double length = 0;
  memset(on_path, 0, (size_t)t->n_nodes);
  sl_status status = recorded_of(t, &r);
  SL_TRY_OUT(status);
  if (!order || !path.task) {
    status = sl_no_memory("for the critical path of %d tasks", t->n_nodes);
    goto out;
  }
  SL_TRY_OUT(check(&r.problem));
  SL_TRY_OUT(order_of(&r.problem, order));
  SL_TRY_OUT(find_edges(&r.problem, &e));
  SL_TRY_OUT(shortest_path(&r.problem, order, &e, &length, &path));
  for (int i = 0; i < path.n; i++) on_path[path.task[i]] = 1;
out:
  recorded_free(&r);
  edges_free(&e);
  free(order), free(path.task);
  return status;
}
