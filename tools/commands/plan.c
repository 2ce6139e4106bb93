/* starling plan: searches for the plan that trains a model fastest on a machine: first by predictions, which take
 * milliseconds each, then by simulations of the best. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/plan/parts.h"
#include "tools/run/times.h"
#include "tools/settings/model.h"
#include "tools/simulate/find.h"
#include "tools/simulate/node.h"

enum { SHOWN = 5 };

/* "90m", "36h", "7d", "45s". */
static sl_status read_duration(const char *text, double *seconds) {
  static const struct {
    char unit;
    double seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  char *end;
  errno = 0;
  const double n = strtod(text, &end);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (end != text && *end == units[i].unit && !end[1] && errno == 0 && n > 0 && isfinite(n)) {
      *seconds = n * units[i].seconds;
      return SL_OK;
    }
  return sl_fail(SL_EINVAL, "--time %.40s: give a number and its unit, s, m, h or d, such as 36h", text);
}

/* Reads the number of samples of the training, and its limit in seconds; 0: not given. */
static sl_status read_training(const sl__planning *s, double *samples, double *limit) {
  const sl__options *o = s->o;
  *samples = *limit = 0;
  if (o->train_samples > 0 && o->train_tokens > 0)
    return sl_fail(SL_EINVAL, "--samples and --tokens are two lengths of one training: give one of them");
  if (o->train_tokens > 0 && !(s->data.length > 0))
    return sl_fail(SL_EINVAL, "--tokens: '%s' learns from images: give --samples", o->model);
  if (o->train_samples > 0) *samples = (double)o->train_samples;
  if (o->train_tokens > 0) *samples = ceil((double)o->train_tokens / (double)s->data.length);
  if (!o->within) return SL_OK;
  if (*samples <= 0)
    return sl_fail(SL_EINVAL, "--time needs the length of the training: --samples%s",
                   s->data.length > 0 ? " or --tokens" : "");
  return read_duration(o->within, limit);
}

static sl_status open_machine(sl__planning *s) {
  sl__options *o = s->o;
  sl__simulated job;
  if (o->measures && o->nodes > 1)
    return sl_fail(SL_EINVAL, "--run measures this machine, which is one node: leave out --nodes");
  if (o->measures && o->plan_ranks_per_node > 1)
    return sl_fail(SL_EINVAL, "--run measures plans of one rank: leave out --ranks-per-node");
  if (!o->described) SL_TRY(sl__plan_here(s));
  SL_TRY(sl__machine_describe(o->described, &s->machine));
  const int64_t before = o->ranks_per_node;
  o->ranks_per_node = o->plan_ranks_per_node;
  const sl_status status = sl__simulated_of(o, &job); /* says what is wrong with the options */
  o->ranks_per_node = before;
  SL_TRY(status);
  s->memory = o->node_memory > 0 ? fmin(1e6 * o->node_memory, s->machine.cpu.memory) : s->machine.cpu.memory;
  s->gpu_memory = o->gpu_memory > 0 ? fmin(1e6 * o->gpu_memory, s->machine.gpu.memory) : s->machine.gpu.memory;
  if (!s->machine.times[0]) return SL_OK;
  SL_TRY(sl_times_create(&s->times));
  return sl__times_read(s->machine.times, &(sl__times_of){job.threads, job.kernels, o->sched}, s->times);
}

static sl_status prepare(sl__planning *s, double *samples, double *limit) {
  sl__options *o = s->o;
  SL_TRY(sl__find_model(o->model, o->size, &s->model));
  SL_TRY(sl__synthetic_data(o, s->model, &s->data));
  SL_TRY(read_training(s, samples, limit));
  sl__training_of(o, s->model, &s->training);
  s->first_batch = o->batch > 0 ? o->batch : s->model->batch;
  return open_machine(s);
}

/* The default plan, if there is one and it fits; else why not. */
static sl_status find_standard(sl__planning *s, sl__candidate *standard, int *there, char *why, size_t n) {
  *there = 0;
  if (sl__candidate_standard(s, (int)s->o->nodes, standard) != SL_OK) {
    snprintf(why, n, "%s", sl_error());
    return SL_OK;
  }
  SL_TRY(sl__screen(s, standard, 0));
  *there = standard->p.valid && standard->p.over <= 0;
  if (!standard->p.valid) snprintf(why, n, "the batch or the node cannot be divided so");
  if (standard->p.valid && !*there) snprintf(why, n, "it needs %.3f GB more than there are", 1e-9 * standard->p.over);
  return SL_OK;
}

/* Without a simulator: the best predicted ones, with the default policy. */
static sl_status list_predicted(sl__planning *s, const sl__candidate *standard, sl__candidate **list, int *n) {
  int index[SHOWN];
  const int found = sl__search_best(s, index, SHOWN);
  if (!(*list = calloc(SHOWN + 1, sizeof **list))) return sl_no_memory("for %d plans", SHOWN);
  for (int i = 0; i < found; i++) {
    (*list)[*n] = s->seen[index[i]];
    (*list)[(*n)++].standard = standard && sl__candidate_same(standard, &s->seen[index[i]]);
  }
  for (int i = 0; i < *n; i++)
    if ((*list)[i].standard) return SL_OK;
  if (standard) (*list)[(*n)++] = *standard;
  return SL_OK;
}

static sl_status answer(sl__planning *s, double samples, double limit) {
  sl__candidate standard, *list = NULL;
  char path[PATH_MAX], why[512] = "", *no_nodes = NULL;
  int best, there, n = 0;
  sl__answer a = {.samples = samples, .limit = limit, .no_standard = why};
  sl_status status = SL_OK;
  SL_TRY_OUT(sl__search(s, (int)s->o->nodes, &best));
  if (s->seen[best].p.over > 0) {
    const sl__candidate c = s->seen[best];
    SL_TRY_OUT(sl__fit_explain(s, &c, &no_nodes, &a.nodes_needed));
    sl__meter_clear(&s->meter);
    SL_TRY_OUT(sl__plan_print_unfit(s, &c, no_nodes, a.nodes_needed));
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s", no_nodes));
  }
  SL_TRY_OUT(find_standard(s, &standard, &there, why, sizeof why));
  a.predicted = sl__simulator_find(path, sizeof path) != SL_OK;
  if (a.predicted)
    SL_TRY_OUT(list_predicted(s, there ? &standard : NULL, &list, &n));
  else
    SL_TRY_OUT(sl__simulate_best(s, there ? &standard : NULL, &list, &n));
  a.shown = n < SHOWN ? n : SHOWN;
  if (a.predicted && list[n - 1].standard && n > 1) a.shown = n - 1; /* the default plan is not sorted in */
  if (s->o->measures) SL_TRY_OUT(sl__plan_measure(s, &list, &n, &a.shown));
  a.list = list, a.n = n;
  for (int i = 0; i < n; i++)
    if (list[i].standard) a.standard = &list[i];
  if (!a.standard && !*why) snprintf(why, sizeof why, "it could not be simulated");
  if (a.limit > 0 && samples * sl__seconds(&list[0]) / (double)list[0].v[SL__BATCH] > a.limit)
    SL_TRY_OUT(sl__nodes_needed(s, &list[0], samples, a.limit, sl__seconds(&list[0]) / list[0].p.seconds,
                                &a.nodes_needed, &a.needed_seconds, &no_nodes));
  a.no_nodes = no_nodes;
  sl__meter_clear(&s->meter);
  SL_TRY_OUT(sl__plan_print(s, &a));
out:
  sl__candidates_free(list, n);
  free(no_nodes);
  return status;
}

sl_status sl__plan(sl__options *o, int *exit_code) {
  sl__planning s = {.o = o};
  double samples, limit;
  sl_status status = SL_OK;
  (void)exit_code;
  sl__meter_start(&s.meter, o->quiet, 0);
  SL_TRY_OUT(prepare(&s, &samples, &limit));
  SL_TRY_OUT(answer(&s, samples, limit));
out:
  sl__meter_clear(&s.meter);
  sl__plan_here_remove(&s);
  if (s.network.graph) sl_network_destroy(&s.network);
  sl_times_destroy(s.times);
  free(s.seen), free(s.model);
  return status;
}
