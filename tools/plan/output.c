/* The answer of `starling plan`, as text and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "tools/plan/parts.h"
#include "tools/simulate/node.h"

/* The lower bound of a step over the step; NaN: unknown without a simulation. */
static double of_bound(const sl__candidate *c) {
  return c->simulated ? json_number_value(json_object_get(c->simulated, "bound_s")) / sl__seconds(c) : NAN;
}

/* Watts of all nodes while they train; NaN: the machine's file has none. */
static double watts(const sl__planning *s, const sl__candidate *c) {
  const sl__options o = sl__candidate_options(s, c);
  sl__simulated job;
  const json_t *joules = c->simulated ? json_object_get(c->simulated, "step_j") : NULL;
  if (joules) return json_number_value(joules) / sl__seconds(c);
  return sl__simulated_of(&o, &job) == SL_OK ? sl__simulated_watts(&job, c->p.busy, 1) : NAN;
}

static double price(const sl__planning *s) { return s->o->price >= 0 ? s->o->price : s->machine.price; }

/* Name of plan i, or of the default one. */
static char *name_of(const sl__answer *a, const sl__candidate *c, char *text, size_t n) {
  const ptrdiff_t i = c - a->list;
  if (c >= a->list && i < a->shown)
    snprintf(text, n, "plan %d", (int)i + 1);
  else
    snprintf(text, n, "the default plan");
  return text;
}

/* The plan with which the reason compares plan i: the next one; for the last, the default plan. NULL: none. */
static const sl__candidate *compared(const sl__answer *a, int i) {
  if (i + 1 < a->shown) return &a->list[i + 1];
  return a->standard && a->standard != &a->list[i] && a->standard >= a->list + a->shown ? a->standard : NULL;
}

static void put_row(const sl__planning *s, const char *name, const sl__candidate *c) {
  char plan[256], bound[16] = "-";
  if (isfinite(of_bound(c))) snprintf(bound, sizeof bound, "%.1f%%", 100 * of_bound(c));
  printf("%-8s %10.3f %10.1f %9s %9.3f  %s\n", name, 1e3 * sl__seconds(c), (double)c->v[SL__BATCH] / sl__seconds(c),
         bound, 1e-9 * c->p.node, sl__candidate_text(s, c, plan, sizeof plan));
}

static void print_training(const sl__planning *s, const sl__answer *a) {
  const sl__candidate *best = &a->list[0];
  const double seconds = a->samples * sl__seconds(best) / (double)best->v[SL__BATCH], hours = seconds / 3600;
  char text[32], limit[32];
  printf("\n%.0f samples take %s by plan 1, which are %.0f steps", a->samples, sl__meter_duration(seconds, text),
         ceil(a->samples / (double)best->v[SL__BATCH]));
  if (isfinite(watts(s, best))) printf("; energy %.3f kWh", watts(s, best) * seconds / 3.6e6);
  if (price(s) > 0)
    printf(price(s) * best->nodes * hours < 1 ? "; price %.4f%s%s" : "; price %.2f%s%s", price(s) * best->nodes * hours,
           s->machine.currency[0] ? " " : "", s->machine.currency);
  printf("\n");
  if (!(a->limit > 0)) return;
  sl__meter_duration(a->limit, limit);
  if (seconds <= a->limit)
    printf("That is within %s.\n", limit);
  else if (a->nodes_needed)
    printf(
        "That is longer than %s. %d nodes are the least number that trains within it, in %s by prediction: --nodes %d "
        "finds their plan.\n",
        limit, a->nodes_needed, sl__meter_duration(a->needed_seconds, text), a->nodes_needed);
  else
    printf("That is longer than %s, and %s.\n", limit, a->no_nodes);
}

static void print_measured(const sl__planning *s, const sl__answer *a) {
  printf("\nmeasured here, medians of the processes that took turns:\n%-8s %10s %10s %8s %8s  %s\n", "plan", "step ms",
         "expected", "ratio", "spread", "processes");
  for (int i = 0; i < a->n; i++) {
    const sl__candidate *c = &a->list[i];
    char number[16], plan[256];
    if (!(c->measured > 0)) continue;
    snprintf(number, sizeof number, "%d", i + 1);
    printf("%-8s %10.3f %10.3f %8.3f %7.1f%%  %d: %s\n",
           i < a->shown  ? number
           : c->standard ? "default"
                         : "-",
           1e3 * c->measured, 1e3 * sl__seconds(c), c->measured / sl__seconds(c), 100 * (c->spread - 1), c->turns,
           sl__candidate_text(s, c, plan, sizeof plan));
  }
}

/* Whether measured plans are in the simulated order, and how far their steps are off. A difference within the
 * spread of either plan's own turns does not count. */
static void judge_measured(const sl__answer *a, char *text, size_t n) {
  const sl__candidate *first = &a->list[0], *fastest = first;
  double off = 0;
  char name[32];
  for (int i = 0; i < a->n; i++) {
    const sl__candidate *c = &a->list[i];
    if (!(c->measured > 0)) continue;
    off = fmax(off, fabs(log(c->measured / sl__seconds(c))));
    if (sl__measured_each(c) < sl__measured_each(fastest)) fastest = c;
  }
  const double gain = sl__measured_each(first) / sl__measured_each(fastest),
               spread = fmax(first->spread, fastest->spread);
  int used = 0;
  if (fastest == first)
    used = snprintf(text, n, "Plan 1 is the fastest here too");
  else if (gain < spread)
    used = snprintf(text, n,
                    "No plan is faster than plan 1 by more than the spread of their measurements (%s: %.2f times)",
                    name_of(a, fastest, name, sizeof name), gain);
  else
    used = snprintf(text, n, "The order did not hold: %s is %.2f times as fast as plan 1 here",
                    name_of(a, fastest, name, sizeof name), gain);
  if (used < (int)n)
    snprintf(text + used, n - (size_t)used, "; measured and expected steps differ by up to a factor of %.2f.",
             exp(off));
}

static int any_measured(const sl__answer *a) {
  for (int i = 0; i < a->n; i++)
    if (a->list[i].measured > 0) return 1;
  return 0;
}

static sl_status print_text(const sl__planning *s, const sl__answer *a) {
  char text[512], other[32], named[SL_SIZES_TEXT], number[24];
  sl_text_print("%s on %s, %d node%s: %d plans predicted, %d %s; the best of them\n\n",
                sl_model_text(s->model, named, sizeof named), s->machine.name, a->list[0].nodes,
                a->list[0].nodes > 1 ? "s" : "", s->n_seen, a->n, a->predicted ? "fitting ones kept" : "simulated");
  printf("%-8s %10s %10s %9s %9s  %s\n", "plan", "step ms", "samples/s", "of bound", "node GB", "");
  for (int i = 0; i < a->shown; i++) {
    snprintf(number, sizeof number, "%d%s", i + 1, a->standard == &a->list[i] ? " default" : "");
    put_row(s, number, &a->list[i]);
  }
  if (a->standard && (a->standard < a->list || a->standard >= a->list + a->shown)) put_row(s, "default", a->standard);
  if (!a->standard) printf("default  none: %s\n", a->no_standard);
  printf("\n");
  for (int i = 0; i < a->shown; i++) {
    const sl__candidate *next = compared(a, i);
    char *command;
    if (next)
      printf("plan %d: %s\n", i + 1,
             sl__reason(s, &a->list[i], next, name_of(a, next, other, sizeof other), text, sizeof text));
    else
      printf("plan %d:\n", i + 1);
    SL_TRY(sl__candidate_command(s, &a->list[i], &command));
    sl_text_print("  %s\n", command);
    free(command);
  }
  if (a->samples > 0) print_training(s, a);
  if (any_measured(a)) {
    print_measured(s, a);
    judge_measured(a, text, sizeof text);
    printf("%s\n", text);
  }
  for (int i = 0; i < a->shown; i++)
    if (a->list[i].sched && strncmp(a->list[i].sched, "dm", 2) == 0) {
      printf(
          "\nPolicies dm* place tasks by StarPU's performance models: 'starling calibrate %s' with the same options "
          "fills them.\n",
          s->o->model);
      break;
    }
  if (a->predicted)
    printf(
        "\nSteps are those of the predicted schedule, as starling-sim is not here: './quickstart simulate' in "
        "Starling's sources builds it.\n");
  return SL_OK;
}

static json_t *plan_to_json(const sl__planning *s, const sl__candidate *c, const char *command) {
  const sl__options o = sl__candidate_options(s, c);
  json_t *j = json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:i, s:I, s:s, s:s, s:f, s:f, s:f, s:I, s:I, s:i, s:b, s:b, s:s}", "batch",
      (json_int_t)o.batch, "leaves", (json_int_t)o.leaves, "shards", (json_int_t)o.shards, "micro_batches",
      (json_int_t)c->v[SL__MICRO], "row_blocks", (json_int_t)c->v[SL__BLOCKS], "recompute",
      sl_recompute_names[c->v[SL__RECOMPUTE]], "zero", (json_int_t)c->v[SL__ZERO], "nodes", c->nodes, "ranks_per_node",
      (json_int_t)c->v[SL__LOCAL], "workers", o.workers ? o.workers : "both", "sched", c->sched ? c->sched : "default",
      "step_s", sl__seconds(c), "predicted_step_s", c->p.seconds, "samples_per_s",
      (double)c->v[SL__BATCH] / sl__seconds(c), "peak_bytes", (json_int_t)c->p.node, "gpu_bytes", (json_int_t)c->p.gpu,
      "tasks", c->p.tasks, "simulated", c->simulated != NULL, "default", c->standard, "command", command);
  if (j && isfinite(of_bound(c))) json_object_set_new(j, "of_bound", json_real(of_bound(c)));
  if (j && c->mesh[0]) json_object_set_new(j, "mesh", json_string(c->mesh));
  if (j && c->measured > 0) json_object_set_new(j, "measured_step_s", json_real(c->measured));
  return j;
}

static sl_status add_plan(const sl__planning *s, const sl__answer *a, const sl__candidate *c, json_t *array) {
  char *command, text[512], other[32];
  SL_TRY(sl__candidate_command(s, c, &command));
  json_t *j = plan_to_json(s, c, command);
  free(command);
  const sl__candidate *next = c >= a->list && c < a->list + a->shown ? compared(a, (int)(c - a->list)) : NULL;
  if (j && next)
    json_object_set_new(j, "why",
                        json_string(sl__reason(s, c, next, name_of(a, next, other, sizeof other), text, sizeof text)));
  return j && json_array_append_new(array, j) == 0 ? SL_OK : sl_no_memory("for the plans as JSON");
}

static json_t *training_to_json(const sl__planning *s, const sl__answer *a) {
  const sl__candidate *best = &a->list[0];
  const double seconds = a->samples * sl__seconds(best) / (double)best->v[SL__BATCH];
  json_t *j = json_pack("{s:f, s:f, s:f}", "samples", a->samples, "steps",
                        ceil(a->samples / (double)best->v[SL__BATCH]), "seconds", seconds);
  if (j && isfinite(watts(s, best))) json_object_set_new(j, "joules", json_real(watts(s, best) * seconds));
  if (j && price(s) > 0) {
    json_object_set_new(j, "price", json_real(price(s) * best->nodes * seconds / 3600));
    json_object_set_new(j, "currency", json_string(s->machine.currency));
  }
  if (j && a->limit > 0) {
    json_object_set_new(j, "limit_s", json_real(a->limit));
    json_object_set_new(j, "in_time", json_boolean(seconds <= a->limit));
    if (a->nodes_needed) json_object_set_new(j, "nodes_needed", json_integer(a->nodes_needed));
    if (a->no_nodes) json_object_set_new(j, "why", json_string(a->no_nodes));
  }
  return j;
}

static json_t *head(const sl__planning *s, int nodes, int fits) {
  char named[SL_SIZES_TEXT];
  return json_pack("{s:s, s:s, s:i, s:b, s:i}", "model", sl_model_text(s->model, named, sizeof named), "machine",
                   s->machine.name, "nodes", nodes, "fits", fits, "predicted_plans", s->n_seen);
}

static sl_status print_json(const sl__planning *s, const sl__answer *a) {
  json_t *all = head(s, a->list[0].nodes, 1), *plans = json_array(), *others = json_array();
  char text[256];
  sl_status status = SL_OK;
  for (int i = 0; i < a->n; i++)
    if (i < a->shown || (a->list[i].measured > 0 && !a->list[i].standard))
      SL_TRY_OUT(add_plan(s, a, &a->list[i], plans));
  if (a->standard) SL_TRY_OUT(add_plan(s, a, a->standard, others));
  json_object_set_new(all, "simulated", json_boolean(!a->predicted));
  json_object_set(all, "plans", plans);
  if (a->standard)
    json_object_set(all, "default", json_array_get(others, 0));
  else
    json_object_set_new(all, "no_default", json_string(a->no_standard));
  if (a->samples > 0) json_object_set_new(all, "training", training_to_json(s, a));
  if (any_measured(a)) {
    judge_measured(a, text, sizeof text);
    json_object_set_new(all, "held", json_string(text));
  }
  status = sl_json_print(stdout, all, 9);
out:
  json_decref(all), json_decref(plans), json_decref(others);
  return status;
}

sl_status sl__plan_print(const sl__planning *s, const sl__answer *a) {
  return s->o->json ? print_json(s, a) : print_text(s, a);
}

sl_status sl__plan_print_unfit(const sl__planning *s, const sl__candidate *best, const char *why, int nodes) {
  if (!s->o->json) return SL_OK; /* the error says it */
  json_t *all = head(s, best->nodes, 0);
  json_object_set_new(all, "why", json_string(why));
  if (nodes) json_object_set_new(all, "nodes_needed", json_integer(nodes));
  const sl_status status = sl_json_print(stdout, all, 9);
  json_decref(all);
  return status;
}
