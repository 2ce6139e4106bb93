/* starling scale: each point is a process: `starling simulate`, or `starling bench` on ranks that mpiexec starts, here
 * or on hosts. Their JSON has the figures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/trace/idle.h"
#include "tools/compare/child.h"
#include "tools/scale/parts.h"

static const double PATIENCE = 6 * 3600; /* seconds: simulations of many workers are slow */

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

static void tick(void *arg) {
  sl__scaling *s = arg;
  sl__meter_show(&s->meter, s->done, s->all, "%s", s->doing);
}

/* Joules of a step: a simulation's, or those of packages and GPUs that were measured; NaN: one of them is unknown. */
static double energy_of(const json_t *json) {
  const json_t *energy = json_object_get(json, "energy"), *simulated = json_object_get(json, "step_j");
  if (simulated) return json_number_value(simulated);
  const json_t *package = json_object_get(energy, "package_j"), *gpu = json_object_get(energy, "gpu_j");
  if (!package || (number(json, "gpus") > 0 && !gpu)) return NAN;
  return json_number_value(package) + json_number_value(gpu);
}

static void read_figures(const json_t *json, sl__scale_point *p) {
  static const sl__scale_part part[SL_IDLE_CAUSES] = {[SL_IDLE_RUNTIME] = SL__SCALE_RUNTIME,
                                                      [SL_IDLE_DEPENDENCY] = SL__SCALE_TASKS,
                                                      [SL_IDLE_DATA] = SL__SCALE_RUNTIME,
                                                      [SL_IDLE_EXCHANGE] = SL__SCALE_EXCHANGE,
                                                      [SL_IDLE_POLICY] = SL__SCALE_RUNTIME};
  const json_t *idle = json_object_get(json, "idle_percent");
  p->step = number(json, "step_s");
  p->part[SL__SCALE_KERNELS] = p->step * number(json, "kernel_percent") / 100;
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    p->part[part[c]] += p->step * number(idle, sl_idle_cause_name((sl_idle_cause)c)) / 100;
  p->energy = energy_of(json);
  p->workers = (int)number(json, "workers"), p->gpus = (int)number(json, "gpus");
}

/* The hosts of a point as mpiexec reads them, in *text, which the caller frees; NULL: this machine. */
static sl_status hosts_of(const sl__scaling *s, const sl__scale_point *p, char **text) {
  sl__hosts first;
  *text = NULL;
  if (s->hosts.n == 0) return SL_OK;
  SL_TRY(sl__hosts_first(&s->hosts, p->ranks, &first));
  *text = sl__hosts_text(&first);
  sl__hosts_free(&first);
  return *text ? SL_OK : sl_no_memory("for the hosts");
}

/* Runs a point. nodes: simulated ones, which may be fewer than the point's. changed: 1: on the machine with what
 * --what-if and --slow-node change. */
static sl_status run(sl__scaling *s, const sl__scale_point *p, int nodes, int changed, json_t **json, char **reason) {
  static const sl__command bench = {.name = "bench", .bit = SL__BENCH},
                           simulate = {.name = "simulate", .bit = SL__SIMULATE};
  static const char *const ours[] = {"batch",   "leaves",    "shards",     "out",   "json", "quiet",
                                     "what-if", "slow-node", "no-measure", "hosts", NULL};
  const sl__options *o = s->o;
  char **words = NULL, **argv = NULL, text[8][64], *what_if = NULL, *hosts = NULL;
  int n = 0, k = 0, t = 0, code;
  sl_status status = SL_OK;
  *json = NULL, *reason = NULL;
  SL_TRY_OUT(sl__options_words(o, s->simulated ? &simulate : &bench, ours, &words, &n));
  if (!(argv = calloc((size_t)n + 24, sizeof *argv))) SL_TRY_OUT(sl_no_memory("for %d words", n));
  const int by_mpiexec = s->hosts.n > 0 || (!s->simulated && p->ranks > 1);
  if (by_mpiexec) {
    SL_TRY_OUT(hosts_of(s, p, &hosts));
    argv[k++] = s->mpiexec;
    if (hosts) argv[k++] = (char *)"-hosts", argv[k++] = hosts;
    snprintf(text[t], sizeof text[t], "%d", p->ranks);
    argv[k++] = (char *)"-n", argv[k++] = text[t++], argv[k++] = s->program;
  } else {
    argv[k++] = (char *)"starling";
  }
  argv[k++] = (char *)(s->simulated ? "simulate" : "bench"), argv[k++] = o->model, argv[k++] = (char *)"--json";
  for (int i = 0; i < n; i++) argv[k++] = words[i];
  snprintf(text[t], sizeof text[t], "--batch=%lld", (long long)p->batch), argv[k++] = text[t++];
  snprintf(text[t], sizeof text[t], "--leaves=%d", p->leaves), argv[k++] = text[t++];
  if (p->shards) snprintf(text[t], sizeof text[t], "--shards=%d", p->shards), argv[k++] = text[t++];
  if (s->simulated) snprintf(text[t], sizeof text[t], "--nodes=%d", nodes), argv[k++] = text[t++];
  if (!s->simulated) argv[k++] = (char *)"--no-measure";
  if (changed && o->what_if) {
    if (asprintf(&what_if, "--what-if=%s", o->what_if) < 0) what_if = NULL;
    if (!what_if) SL_TRY_OUT(sl_no_memory("for a command"));
    argv[k++] = what_if;
  }
  if (changed && o->slow_node > 1)
    snprintf(text[t], sizeof text[t], "--slow-node=%.9g", o->slow_node), argv[k++] = text[t++];
  SL_TRY_OUT(sl__child_json(
      &(sl__child){.program = by_mpiexec ? s->mpiexec : NULL, .argv = argv, .most = PATIENCE, .tick = tick, .arg = s},
      json, reason, &code));
  s->done++;
  if (sl__child_stopped()) SL_TRY_OUT(sl_fail(SL_EINTERRUPTED, "stopped by a signal"));
out:
  sl__options_words_free(words, n);
  free(argv), free(what_if), free(hosts);
  return status;
}

static sl_status run_series(sl__scaling *s, sl__scale_series *series, int changed) {
  json_t *json;
  for (int i = 0; i < series->n; i++) {
    sl__scale_point *p = &series->point[i];
    snprintf(s->doing, sizeof s->doing, "%s on %d %s%s", s->o->model, p->count, sl__scale_unit(s, p->count),
             changed ? ", changed" : "");
    SL_TRY(run(s, p, p->count, changed, &json, &p->reason));
    if (json) read_figures(json, p);
    json_decref(json);
  }
  return SL_OK;
}

/* The same batch in the same leaves on one node less: the leaves are no longer divided evenly. */
static sl_status run_lost(sl__scaling *s, sl__scale_series *series, int changed) {
  json_t *json;
  for (int i = 0; i < series->n; i++) {
    sl__scale_point *p = &series->point[i], left = {0};
    p->left = NAN;
    if (p->count < 2 || p->reason) continue;
    snprintf(s->doing, sizeof s->doing, "%s on %d nodes less one", s->o->model, p->count);
    SL_TRY(run(s, p, p->count - 1, changed, &json, &p->left_reason));
    if (json) {
      read_figures(json, &left);
      left.ranks = p->ranks / p->count * (p->count - 1);
      sl__scale_series one = {.point = &left, .n = 1};
      if (s->o->jitter > 0) sl__scale_jitter(&one, s->o->jitter, 0);
      p->left = (double)p->batch / left.step;
    }
    json_decref(json);
  }
  return SL_OK;
}

static sl_status copy_points(const sl__scale_series *from, sl__scale_series *to) {
  to->point = calloc((size_t)from->n, sizeof *to->point);
  if (!to->point) return sl_no_memory("for %d counts", from->n);
  to->n = from->n;
  for (int i = 0; i < from->n; i++) {
    const sl__scale_point *p = &from->point[i];
    to->point[i] = (sl__scale_point){.count = p->count,
                                     .ranks = p->ranks,
                                     .data = p->data,
                                     .nodes = p->nodes,
                                     .batch = p->batch,
                                     .leaves = p->leaves,
                                     .shards = p->shards};
  }
  return SL_OK;
}

/* Watts of a node that computes nothing. */
static double idle_watts(const sl__machine_description *m) { return m->cpu.idle + m->gpu.count * m->gpu.idle; }

/* What --what-if, --slow-node and --jitter change, in words. */
static sl_status title(const sl__options *o, char **text) {
  size_t n;
  const char *between = "";
  FILE *to = open_memstream(text, &n);
  if (!to) return sl_no_memory("for a title");
  if (o->what_if) fprintf(to, "%s", o->what_if), between = "; ";
  if (o->slow_node > 1)
    fprintf(to, "%stasks of one node take %.9g times as long", between, o->slow_node), between = "; ";
  if (o->jitter > 0) fprintf(to, "%sjitter of %.9g %%", between, o->jitter);
  return fclose(to) == 0 ? SL_OK : sl_no_memory("for a title");
}

sl_status sl__scale_run(sl__scaling *s) {
  const sl__options *o = s->o;
  const int simulates_change = o->what_if || o->slow_node > 1, changes = simulates_change || o->jitter > 0;
  sl__scale_series *last = changes ? &s->changed : &s->is;
  s->all = s->is.n * (1 + simulates_change + o->lost_node);
  SL_TRY(run_series(s, &s->is, 0));
  if (changes) {
    SL_TRY(title(o, &s->changed.title));
    SL_TRY(copy_points(&s->is, &s->changed));
    if (simulates_change) SL_TRY(run_series(s, &s->changed, 1));
    for (int i = 0; i < s->is.n && !simulates_change; i++) {
      s->changed.point[i] = s->is.point[i];
      if (s->is.point[i].reason && !(s->changed.point[i].reason = strdup(s->is.point[i].reason)))
        return sl_no_memory("for a message");
    }
    if (o->jitter > 0) sl__scale_jitter(&s->changed, o->jitter, idle_watts(&s->what_if));
  }
  return o->lost_node ? run_lost(s, last, changes) : SL_OK;
}
