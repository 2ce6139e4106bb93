/* starling compare --machine: the policies on a simulated machine. A simulation always gives the same times, so each
 * policy runs once, and differences need no statistics. With several GPUs, placement by the predicted plan is compared,
 * too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/exchange/exchange.h"
#include "tools/compare/page.h"
#include "tools/compare/parts.h"
#include "tools/settings/workers.h"

/* The output of a policy's simulation. json NULL: it failed, for this reason. */
typedef struct result {
  json_t *json;
  char *reason;
} result;

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

static int other(const char *text, const char *usual) { return text && strcmp(text, usual) != 0; }

const char *sl__compare_measures(const sl__options *o) {
  return o->data                                          ? "--data"
         : other(o->balance, "even")                      ? "--balance"
         : other(sl_exchange_names[o->allreduce], "tree") ? "--allreduce"
         : other(o->compress, "none")                     ? "--compress"
         : other(o->sync, "step")                         ? "--sync"
         : other(o->products, "own")                      ? "--products"
         : o->offload                                     ? "--offload"
         : o->kernels                                     ? "--kernels"
         : o->no_record                                   ? "--no-record"
                                                          : NULL;
}

static sl_status refuse(const sl__options *o) {
  const char *option = o->repetitions > 0   ? "--repetitions"
                       : !isnan(o->minutes) ? "--minutes"
                       : o->calibrate       ? "--calibrate"
                       : o->uncalibrated    ? "--uncalibrated"
                       : o->bundle          ? "--bundle"
                       : o->machine         ? "--performance-models"
                       : o->sched           ? "--sched"
                                            : sl__compare_measures(o);
  sl__mesh mesh = {.pipe = 1, .tensor = 1};
  if (option)
    return sl_fail(SL_EINVAL, "%s is for measurements, and --machine simulates: leave one of them out", option);
  const int ranks = (int)((o->nodes > 0 ? o->nodes : 1) * (o->ranks_per_node > 0 ? o->ranks_per_node : 1));
  SL_TRY(sl__mesh_of(o, ranks, &mesh));
  return sl__mesh_model_ranks(&mesh) == 1
             ? SL_OK
             : sl_fail(SL_EINVAL,
                       "--mesh %s: StarPU's policies take no part in the simulation of a mesh with pipe or tensor; see "
                       "'starling simulate' and 'starling plan'",
                       o->mesh);
}

/* policy NULL: tasks run where the plan has them. */
static sl_status simulate(sl__comparison *c, const char *policy, int priorities, result *r) {
  char steps[48];
  const char *more[8] = {NULL};
  int n = 0, code;
  if (policy)
    more[n++] = "--sched", more[n++] = policy;
  else
    more[n++] = "--placement=plan"; /* after the comparison's own --placement, which it replaces */
  if (!priorities) more[n++] = "--no-priorities";
  if (c->o->steps > 0) {
    snprintf(steps, sizeof steps, "--steps=%lld", (long long)c->o->steps);
    more[n++] = steps;
  }
  return sl__compare_run(c, "simulate", more, &r->json, &r->reason, &code);
}

/* The index of the fastest policy that has a result; -1: no policy has one. */
static int fastest(const sl__comparison *c, const result *r) {
  int best = -1;
  for (int i = 0; i < c->n; i++)
    if (r[i].json && (best < 0 || number(r[i].json, "step_s") < number(r[best].json, "step_s"))) best = i;
  return best;
}

static void print_row(const char *policy, int priorities, const json_t *j, const json_t *base) {
  printf("%-22s %-4s %10.3f %8.3f %7.1f%% %7.1f%%", policy, priorities ? "on" : "off", 1e3 * number(j, "step_s"),
         number(j, "step_s") / number(base, "step_s"), 100 * number(j, "bound_s") / number(j, "step_s"),
         number(j, "kernel_percent"));
  const json_t *idle = json_object_get(j, "idle_percent");
  for (int k = 0; k < SL_IDLE_CAUSES; k++) printf(" %9.1f%%", number(idle, sl_idle_cause_name((sl_idle_cause)k)));
  printf(" %10.3f\n", 1e-6 * number(j, "moved_bytes"));
}

static void print_table(const sl__comparison *c, const result *r) {
  const json_t *base = r[0].json, *plan = r[c->n].json;
  char name[96];
  sl_text_print("%s simulated on %s: %lld nodes, %lld ranks of %lld CPU workers and %lld GPUs; ratios to %s\n",
                c->o->model, c->o->described, (long long)number(base, "nodes"), (long long)number(base, "ranks"),
                (long long)number(base, "workers"), (long long)number(base, "gpus"), c->variant[0].policy);
  printf("bound of a step %.3f ms\n\n", 1e3 * number(base, "bound_s"));
  printf("%-22s %-4s %10s %8s %8s %8s", "policy", "prio", "step ms", "ratio", "of bound", "kernels");
  for (int k = 0; k < SL_IDLE_CAUSES; k++) printf(" %10s", sl_idle_cause_name((sl_idle_cause)k));
  printf(" %10s\n", "moved MB");
  for (int i = 0; i < c->n; i++)
    if (r[i].json) print_row(c->variant[i].policy, c->variant[i].priorities, r[i].json, base);
  if (plan) print_row("(placed by the plan)", 1, plan, base);
  for (int i = 0; i < c->n; i++)
    if (!r[i].json)
      printf("%-22s %-4s no figures: %s\n", c->variant[i].policy, c->variant[i].priorities ? "on" : "off", r[i].reason);
  const int best = fastest(c, r);
  printf("\n%s is the fastest of them: %.3f times as fast as %s.\n",
         sl__compare_name(&c->variant[best], name, sizeof name),
         number(base, "step_s") / number(r[best].json, "step_s"), c->variant[0].policy);
  if (plan)
    printf("With --placement plan, the default of runs that name no policy, a step takes %.3f times as long.\n",
           number(plan, "step_s") / number(r[best].json, "step_s"));
}

static json_t *to_json(const sl__comparison *c, const result *r) {
  json_t *policies = json_array(), *plan = r[c->n].json;
  char name[96];
  if (plan) json_object_del(plan, "policies");
  for (int i = 0; i < c->n; i++) {
    json_t *one = r[i].json ? json_deep_copy(r[i].json) : json_pack("{s:s}", "reason", r[i].reason);
    json_object_set_new(one, "policy", json_string(c->variant[i].policy));
    json_object_set_new(one, "priorities", json_boolean(c->variant[i].priorities));
    json_object_del(one, "policies");
    if (r[i].json)
      json_object_set_new(one, "ratio", json_real(number(r[i].json, "step_s") / number(r[0].json, "step_s")));
    json_array_append_new(policies, one);
  }
  return json_pack("{s:s, s:s, s:b, s:s, s:f, s:s, s:O*, s:o}", "model", c->o->model, "machine", c->o->described,
                   "simulated", 1, "base", c->variant[0].policy, "bound_s", number(r[0].json, "bound_s"), "fastest",
                   sl__compare_name(&c->variant[fastest(c, r)], name, sizeof name), "placed_by_plan", plan, "policies",
                   policies);
}

static sl_status write_file(const sl__comparison *c, const json_t *json) {
  char *text = sl_json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  const sl_status status = text ? sl__page_file(c->o, "compare.json", text) : sl_no_memory("for the figures");
  free(text);
  return status;
}

static sl_status report(const sl__comparison *c, const result *r) {
  json_t *json = to_json(c, r);
  sl_status status = json ? SL_OK : sl_no_memory("for the figures");
  if (json && c->o->json) {
    status = sl_json_print(stdout, json, 9);
  } else if (json) {
    print_table(c, r);
  }
  if (status == SL_OK && c->o->out) status = write_file(c, json);
  json_decref(json);
  return status;
}

sl_status sl__compare_simulated(sl__comparison *c) {
  const sl__options *o = c->o;
  result first = {NULL, NULL}, *r = NULL;
  char *names = NULL;
  sl_status status = SL_OK;
  SL_TRY(refuse(o));
  sl__child_catch(NULL);
  if (o->out) SL_TRY(sl_folder_make(o->out));
  SL_TRY_OUT(simulate(c, "eager", 1, &first)); /* tells which policies and GPUs there are */
  if (sl__child_stopped()) SL_TRY_OUT(sl_fail(SL_EINTERRUPTED, "stopped by a signal"));
  if (!first.json) SL_TRY_OUT(sl_fail(SL_EINVAL, "%s", first.reason));
  const char *told = json_string_value(json_object_get(first.json, "policies"));
  if (!(names = strdup(told ? told : ""))) SL_TRY_OUT(sl_no_memory("for the names of policies"));
  c->names = names;
  c->gpus = (int)number(first.json, "gpus");
  c->room = 1;
  SL_TRY_OUT(sl__compare_check_policies(o, names));
  SL_TRY_OUT(sl__compare_choose(c));
  if (!(r = calloc((size_t)c->n + 1, sizeof *r))) SL_TRY_OUT(sl_no_memory("for the figures"));
  for (int i = 0; i < c->n && !sl__child_stopped(); i++) {
    if (i == 0 && c->variant[0].priorities) {
      r[0] = first, first = (result){NULL, NULL};
      continue;
    }
    snprintf(c->doing, sizeof c->doing, "simulation %d of %d: %s", i + 1, c->n, c->variant[i].policy);
    SL_TRY_OUT(simulate(c, c->variant[i].policy, c->variant[i].priorities, &r[i]));
  }
  if (c->gpus > 1 && !sl__child_stopped()) SL_TRY_OUT(simulate(c, NULL, 1, &r[c->n]));
  if (sl__child_stopped()) SL_TRY_OUT(sl_fail(SL_EINTERRUPTED, "stopped by a signal"));
  sl__meter_clear(&c->meter);
  if (!r[0].json) SL_TRY_OUT(sl_fail(SL_EINVAL, "%s", r[0].reason));
  status = report(c, r);
out:
  for (int i = 0; r && i <= c->n; i++) json_decref(r[i].json), free(r[i].reason);
  json_decref(first.json);
  free(first.reason), free(r), free(names);
  c->names = NULL;
  return status;
}
