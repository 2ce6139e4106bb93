/* Calibration: collects samples by kind of task, rejects outliers, writes StarPU's history models. */
#include "tasks/starpu/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numbers/statistics.h"
#include "tasks/bounds/bound.h"
#include "tasks/starpu/codelet.h"

/* Slow tasks that are no samples of a performance model are part of a step, too; but one that was interrupted for long
 * counts as this many medians. */
static const double SLOWEST = 3;

/* Samples of one kind of task, without first calls. */
typedef struct seen {
  double *x; /* s */
  int n, room;
  int first_calls;
  int turn;              /* counts tasks to alternate between kinds of workers */
  unsigned char *called; /* [workers] */
  unsigned char *accepted;
} seen;

/* Kinds of workers. */
enum { PLACES = SL_WORKER_CUDA + 1 };
static const enum starpu_worker_archtype type_of[PLACES] = {
    [SL_WORKER_CPU] = STARPU_CPU_WORKER, [SL_WORKER_CUDA] = STARPU_CUDA_WORKER};

struct sl_calibration {
  const sl_program *program;
  int workers, n_kinds; /* n_kinds: kinds of tasks times existing kinds of workers */
  int n_places, rounds;
  sl_worker_kind places[PLACES];
  sl_worker_kind *runs_on;          /* [workers] */
  int *kind_of;                     /* [nodes] kind of task */
  seen *seen;                       /* [n_kinds]: kind of task k on worker kind places[w] has number k * n_places + w */
  sl_calibration_kind *kind, *told; /* [n_kinds]; told: only kinds that can have samples */
};

/* Lists the kinds of workers of this process; returns their number. */
static int find_places(sl_worker_kind places[PLACES]) {
  int n = 0;
  for (int w = 0; w < PLACES; w++)
    if (starpu_worker_get_count_by_type(type_of[w]) > 0) places[n++] = (sl_worker_kind)w;
  return n;
}

int sl_calibration_minimum(void) {
  const char *text = getenv("STARPU_CALIBRATE_MINIMUM");
  const int n = text ? atoi(text) : 0;
  return n > 0 ? n : 10;
}

/* ---- what is accepted ------------------------------------------------------------------------------------------- */

sl_status sl_calibration_accept(const double *x, int n, unsigned char *accepted, int *count, double *middle,
                                double *spread) {
  *count = 0, *middle = *spread = 0;
  if (n == 0) return SL_OK;
  double *kept = malloc(2 * (size_t)n * sizeof *kept);
  if (!kept) return sl_no_memory("for %d samples", n);
  double *room = kept + n;
  memcpy(room, x, (size_t)n * sizeof *x);
  const double m = sl_median(room, (size_t)n), mad = fmax(sl_absolute_deviation(x, (size_t)n, m, room), 0.01 * m);
  for (int i = 0; i < n; i++) {
    accepted[i] = 0.6745 * fabs(x[i] - m) <= 3.5 * mad;
    if (accepted[i]) kept[(*count)++] = x[i];
  }
  *middle = sl_median(kept, (size_t)*count);
  *spread = *middle > 0 ? 1.4826 * sl_absolute_deviation(kept, (size_t)*count, *middle, room) / *middle : 0;
  free(kept);
  return SL_OK;
}

/* ---- collecting ------------------------------------------------------------------------------------------------- */

sl_status sl_calibration_create(sl_runtime *runtime, sl_program *program, sl_calibration **calibration) {
  *calibration = NULL;
  const sl_graph *g = sl_program_graph(program);
  sl_status status = SL_OK;
  sl_calibration *c = calloc(1, sizeof *c);
  if (!c) return sl_no_memory("for a calibration");
  c->program = program;
  sl__program_unbind(program);
  c->workers = sl_runtime_workers(runtime);
  c->n_places = find_places(c->places);
  c->kind_of = malloc(((size_t)g->n_nodes + 1) * sizeof *c->kind_of);
  c->runs_on = calloc((size_t)c->workers + 1, sizeof *c->runs_on);
  if (!c->kind_of || !c->runs_on) SL_TRY_OUT(sl_no_memory("for a calibration"));
  for (int w = 0; w < c->workers; w++) c->runs_on[w] = sl_runtime_worker_kind(runtime, w);
  SL_TRY_OUT(sl_bound_kinds(g, c->kind_of, &c->n_kinds));
  c->n_kinds *= c->n_places;
  c->seen = calloc((size_t)c->n_kinds + 1, sizeof *c->seen);
  c->kind = calloc((size_t)c->n_kinds + 1, sizeof *c->kind);
  c->told = calloc((size_t)c->n_kinds + 1, sizeof *c->told);
  if (!c->seen || !c->kind || !c->told) SL_TRY_OUT(sl_no_memory("for %d kinds of tasks", c->n_kinds));
  for (int k = 0; k < c->n_kinds; k++) {
    c->kind[k].worker = c->places[k % c->n_places];
    c->seen[k].called = calloc((size_t)c->workers, 1);
    if (!c->seen[k].called) SL_TRY_OUT(sl_no_memory("for %d kinds of tasks", c->n_kinds));
  }
  for (int i = g->n_nodes - 1; i >= 0; i--)
    for (int w = 0; w < c->n_places; w++) {
      c->kind[c->kind_of[i] * c->n_places + w].node = i;
      c->kind[c->kind_of[i] * c->n_places + w].tasks++;
    }
  *calibration = c;
  c = NULL;
out:
  sl_calibration_destroy(c);
  return status;
}

void sl_calibration_destroy(sl_calibration *c) {
  if (!c) return;
  for (int k = 0; c->seen && k < c->n_kinds; k++)
    free(c->seen[k].x), free(c->seen[k].called), free(c->seen[k].accepted);
  free(c->kind_of), free(c->runs_on), free(c->seen), free(c->kind), free(c->told), free(c);
}

void sl_calibration_place(sl_calibration *c) {
  const sl_graph *g = sl_program_graph(c->program);
  if (c->n_places < 2) return;
  for (int k = 0; k < c->n_kinds; k++) c->seen[k].turn = c->rounds;
  c->rounds++;
  for (int i = 0; i < g->n_nodes; i++) {
    struct starpu_task *task = sl__program_task(c->program, i);
    const int turn = c->seen[c->kind_of[i] * c->n_places].turn++;
    if (task) sl__task_allow(task->cl_arg, 1u << c->places[turn % c->n_places]);
  }
}

static sl_status add(sl_calibration *c, int kind, int worker, double seconds) {
  seen *s = &c->seen[kind];
  if (!s->called[worker]) {
    s->called[worker] = 1;
    s->first_calls++;
    return SL_OK;
  }
  if (s->n == s->room) {
    const int room = s->room ? 2 * s->room : 32;
    double *x = realloc(s->x, (size_t)room * sizeof *x);
    if (x) s->x = x;
    unsigned char *accepted = realloc(s->accepted, (size_t)room);
    if (accepted) s->accepted = accepted;
    if (!x || !accepted) return sl_no_memory("for %d samples", room);
    s->room = room;
  }
  s->x[s->n++] = seconds;
  return SL_OK;
}

sl_status sl_calibration_add(sl_calibration *c, const sl_record *records, size_t n) {
  const int nodes = sl_program_graph(c->program)->n_nodes;
  for (size_t i = 0; i < n; i++) {
    const sl_record *r = &records[i];
    if (r->kind != SL_RECORD_TASK || r->node < 0 || r->node >= nodes || r->worker < 0 || r->worker >= c->workers)
      continue;
    int w = 0;
    while (c->places[w] != c->runs_on[r->worker]) w++;
    SL_TRY(add(c, c->kind_of[r->node] * c->n_places + w, r->worker, 1e-9 * (double)(r->end - r->start)));
  }
  return SL_OK;
}

/* Fast kernels run on GPUs only. */
static int runs_on(const sl_program *program, int node, sl_worker_kind worker) {
  const struct starpu_task *task = sl__program_task(program, node);
  return !task || (task->cl->where & (worker == SL_WORKER_CPU ? STARPU_CPU : STARPU_CUDA)) != 0;
}

static sl_status look(sl_calibration *c) {
  for (int k = 0; k < c->n_kinds; k++) {
    const seen *s = &c->seen[k];
    sl_calibration_kind *kind = &c->kind[k];
    SL_TRY(sl_calibration_accept(s->x, s->n, s->accepted, &kind->samples, &kind->median, &kind->spread));
    kind->rejected = s->n - kind->samples + s->first_calls;
    const double most = SLOWEST * kind->median;
    kind->mean = s->n ? sl_mean_at_most(s->x, (size_t)s->n, most) : 0;
    kind->deviation = kind->mean > 0 ? sl_deviation_at_most(s->x, (size_t)s->n, kind->mean, most) / kind->mean : 0;
  }
  return SL_OK;
}

sl_status sl_calibration_kinds(sl_calibration *c, const sl_calibration_kind **kinds, int *n) {
  *kinds = c->told;
  *n = 0;
  SL_TRY(look(c));
  for (int k = 0; k < c->n_kinds; k++)
    if (runs_on(c->program, c->kind[k].node, c->kind[k].worker)) c->told[(*n)++] = c->kind[k];
  return SL_OK;
}

/* ---- StarPU's models -------------------------------------------------------------------------------------------- */

/* StarPU's model for worker `number` of a kind. CPU workers share one model; sl_calibration_store writes the same
 * samples into the models of all GPUs. NULL: there is no such worker. */
static struct starpu_perfmodel_arch *arch_of(sl_worker_kind kind, int number) {
  const int worker = starpu_worker_get_by_type(type_of[kind], number);
  return worker < 0 ? NULL : starpu_worker_get_perf_archtype(worker, STARPU_NMAX_SCHED_CTXS);
}

/* The model's entry for a task's footprint; NULL: none yet, or the model is not loaded. */
static struct starpu_perfmodel_history_entry *entry_of(const struct starpu_task *task,
                                                       struct starpu_perfmodel_arch *arch) {
  struct starpu_perfmodel *model = task->cl->model;
  if (!model->is_loaded || !arch) return NULL;
  struct starpu_perfmodel_per_arch *history = starpu_perfmodel_get_model_per_arch(model, arch, 0);
  const uint32_t footprint = ((const sl__task *)task->cl_arg)->hash;
  for (struct starpu_perfmodel_history_list *l = history ? history->list : NULL; l; l = l->next)
    if (l->entry->footprint == footprint) return l->entry;
  return NULL;
}

/* Sums in microseconds, as StarPU keeps them. */
static void set(struct starpu_perfmodel_history_entry *entry, const seen *s) {
  double sum = 0, sum2 = 0;
  unsigned n = 0;
  for (int i = 0; i < s->n; i++) {
    if (!s->accepted[i]) continue;
    const double us = 1e6 * s->x[i];
    sum += us, sum2 += us * us, n++;
  }
  entry->sum = sum, entry->sum2 = sum2, entry->nsample = n, entry->nerror = 0;
  entry->mean = sum / n;
  entry->deviation = sqrt(fabs(sum2 - sum * sum / n) / n);
}

sl_status sl_calibration_store(sl_calibration *c, int least) {
  const sl_calibration_kind *kind = c->kind;
  SL_TRY(look(c));
  for (int k = 0; k < c->n_kinds; k++) {
    struct starpu_task *task = sl__program_task(c->program, kind[k].node);
    if (!task || kind[k].samples < least) continue;
    struct starpu_perfmodel_arch *arch;
    for (int w = 0; (arch = arch_of(kind[k].worker, w)) && (w == 0 || kind[k].worker != SL_WORKER_CPU); w++) {
      struct starpu_perfmodel_history_entry *entry = entry_of(task, arch);
      if (entry) set(entry, &c->seen[k]); /* so that StarPU accepts the next sample */
      /* Makes the entry if it is missing, and marks the models to be saved at the end. */
      starpu_perfmodel_update_history(task->cl->model, task, arch, 0, 0, 1e6 * kind[k].median);
      entry = entry_of(task, arch);
      if (!entry)
        return sl_fail(SL_ESTARPU, "StarPU's model of %s took no sample",
                       sl_program_graph(c->program)->node[kind[k].node]->op->name);
      set(entry, &c->seen[k]);
    }
  }
  return SL_OK;
}

int sl_calibration_stored(const sl_program *program, int node, sl_worker_kind worker) {
  const struct starpu_task *task = sl__program_task(program, node);
  const struct starpu_perfmodel_history_entry *entry = task ? entry_of(task, arch_of(worker, 0)) : NULL;
  return entry ? (int)entry->nsample : 0;
}

sl_status sl_calibration_covered(const sl_program *program, int *covered, int *kinds) {
  const sl_graph *g = sl_program_graph(program);
  int *kind = malloc(((size_t)g->n_nodes + 1) * sizeof *kind), next = 0;
  sl_worker_kind places[PLACES];
  const int n_places = find_places(places);
  *covered = *kinds = 0;
  if (!kind) return sl_no_memory("for the kinds of %d tasks", g->n_nodes);
  const sl_status status = sl_bound_kinds(g, kind, &next);
  next = 0;
  for (int i = 0; i < g->n_nodes && status == SL_OK; i++) {
    if (kind[i] != next) continue; /* only the first node of each kind counts */
    next++;
    if (!sl__program_task(program, i)) continue;
    for (int w = 0; w < n_places; w++) {
      if (!runs_on(program, i, places[w])) continue;
      *kinds += 1;
      *covered += sl_calibration_stored(program, i, places[w]) >= sl_calibration_minimum();
    }
  }
  free(kind);
  return status;
}

char *sl_calibration_file(const sl_program *program, int node, char *path, size_t n) {
  const struct starpu_task *task = sl__program_task(program, node);
  if (n) path[0] = 0;
  if (task) starpu_perfmodel_get_model_path(task->cl->model->symbol, path, n);
  char *to = path;
  for (const char *from = path; n && *from; from++) /* StarPU writes some slashes twice */
    if (from == path || from[0] != '/' || from[-1] != '/') *to++ = *from;
  if (n) *to = 0;
  return path;
}
