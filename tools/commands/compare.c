/* starling compare: runs the same training steps under several scheduling policies, each in a process of its own and in
 * turn, and compares their times with each other and with one bound. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "runtime/machine/policies.h"
#include "tasks/bounds/bound.h"
#include "tools/commands/commands.h"
#include "tools/compare/page.h"
#include "tools/compare/parts.h"
#include "tools/run/session.h"
#include "tools/settings/exit_codes.h"

/* The base of all ratios runs first, and the graph is taken from its run. */
static const char BASE[] = "eager";
static const double MINUTES = 3;

static void add_to_mean(double *mean, int *n, double seconds) {
  *mean = (*mean * *n + seconds) / (*n + 1);
  ++*n;
}

/* ---- preparation ------------------------------------------------------------------------------------------------ */

/* bench with the options given, c->steps, and at most 12 words in `more`, which NULL ends. */
static sl_status bench(sl__comparison *c, const char *const *more, json_t **json, char **reason) {
  const char *words[16] = {NULL};
  char steps[48];
  int code, n = 0;
  snprintf(steps, sizeof steps, "--steps=%lld", (long long)c->steps);
  words[n++] = "--no-measure", words[n++] = steps;
  while (*more) words[n++] = *more++;
  words[n] = NULL;
  return sl__compare_run(c, "bench", words, json, reason, &code);
}

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

/* `starling calibrate MODEL` with the given options, as a user would type it; the caller frees the text. */
static sl_status calibrate_command(const sl__comparison *c, char **text) {
  char **words;
  int n;
  size_t bytes;
  *text = NULL;
  SL_TRY(sl__compare_words(c, "calibrate", &words, &n));
  FILE *to = open_memstream(text, &bytes);
  if (to) {
    fputs("starling calibrate ", to);
    sl__options_quote(to, (const char *const *)&c->o->model, 1);
    if (n) fputc(' ', to);
    sl__options_quote(to, (const char *const *)words, n);
  }
  sl__options_words_free(words, n);
  return to && fclose(to) == 0 ? SL_OK : sl_no_memory("for a command");
}

static int calibrates(const sl__comparison *c) {
  return c->models_needed && (c->o->calibrate || (!c->o->uncalibrated && sl__compare_uncalibrated(c)));
}

/* Calibrates StarPU's performance models if a policy uses them and they lack samples, unless the options forbid it. */
static sl_status see_to_models(sl__comparison *c) {
  json_t *json = NULL;
  char *reason = NULL, *command = NULL;
  int code;
  sl_status status = SL_OK;
  if (!calibrates(c)) return SL_OK;
  snprintf(c->doing, sizeof c->doing, "calibrating StarPU's performance models (%d kinds of tasks)", c->kinds);
  SL_TRY_OUT(sl__compare_run(c, "calibrate", (const char *[]){NULL}, &json, &reason, &code));
  if (json) {
    c->calibrated = c->kinds;
  } else if (!c->o->uncalibrated) {
    SL_TRY_OUT(calibrate_command(c, &command));
    status = sl_fail(SL_EUNCALIBRATED,
                     "%s: %s; some of these policies need StarPU's performance models: give --policies without dm* and "
                     "*heft*, or --uncalibrated to compare all the same",
                     command, reason);
  }
out:
  json_decref(json);
  free(reason), free(command);
  return status;
}

/* bench's description of the machine, with our own command line. */
static sl_status keep_environment(sl__comparison *c, json_t *environment) {
  json_t *command = json_array();
  for (int i = 0; i < c->o->argc; i++) json_array_append_new(command, json_string(c->o->argv[i]));
  c->environment = json_incref(environment);
  json_object_del(json_object_get(environment, "machine"), "sched");
  return json_object_set_new(environment, "command", command) == 0 ? SL_OK : sl_no_memory("for the environment");
}

static sl_status read_timeline(const sl__comparison *c, const char *name, sl_timeline ***timelines, int *n) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", c->folder, name) < 0) return sl_no_memory("for a path");
  const sl_status status = sl_timeline_read_all(path, timelines, n);
  free(path);
  return status;
}

static void destroy(sl_timeline **timelines, int n) {
  for (int i = 0; i < n; i++) sl_timeline_destroy(timelines[i]);
  free(timelines);
}

/* Runs bench once on all workers, for the graph, the machine's description, and the durations of a step and a process.
 */
static sl_status look(sl__comparison *c) {
  enum { STEPS = 5 };
  char whole[96], *reason = NULL;
  json_t *json = NULL;
  sl_status status = SL_OK;
  const double from = sl__compare_elapsed(c);
  c->steps = c->o->steps > 0 ? c->o->steps : STEPS;
  snprintf(c->doing, sizeof c->doing, "looking at a step of %s", c->o->model);
  snprintf(whole, sizeof whole, "%s/whole", c->folder);
  SL_TRY_OUT(bench(c, (const char *[]){"--sched", BASE, "--out", whole, NULL}, &json, &reason));
  if (!json) SL_TRY_OUT(sl_fail(SL_EINVAL, "bench %s: %s", c->o->model, reason));
  c->gpus = (int)json_integer_value(json_object_get(json, "gpus"));
  c->workers = (int)json_integer_value(json_object_get(json, "workers"));
  c->threads = (int)json_integer_value(json_object_get(json, "threads_per_worker"));
  c->memories = (int)json_integer_value(json_object_get(json, "memory_nodes"));
  c->plan = json_incref(json_object_get(json, "plan"));
  const json_t *calibration = json_object_get(json, "calibration");
  c->kinds = (int)json_integer_value(json_object_get(calibration, "kinds"));
  c->calibrated = (int)json_integer_value(json_object_get(calibration, "calibrated"));
  c->machine = strdup(json_string_value(json_object_get(calibration, "machine")));
  c->step_s = number(json, "step_s");
  c->process_s = fmax(sl__compare_elapsed(c) - from - (double)c->steps * c->step_s, 0);
  SL_TRY_OUT(keep_environment(c, json_object_get(json, "environment")));
  SL_TRY_OUT(read_timeline(c, "whole", &c->graph, &c->n_graph));
  c->alone = malloc(((size_t)c->graph[0]->n_kinds + 1) * SL__PLACES * sizeof *c->alone);
  if (!c->alone) SL_TRY_OUT(sl_no_memory("for %d kinds of tasks", c->graph[0]->n_kinds));
  for (int k = 0; k < c->graph[0]->n_kinds * SL__PLACES; k++) c->alone[k] = INFINITY;
out:
  json_decref(json);
  free(reason);
  return status;
}

/* Times the tasks on one worker of this kind, while no other worker runs. */
static sl_status time_alone_on(sl__comparison *c, int place) {
  char alone[96], threads[16], *reason = NULL;
  json_t *json = NULL;
  sl_timeline **times = NULL;
  int n = 0, *kind = NULL;
  double *seconds = NULL;
  sl_status status = SL_OK;
  snprintf(c->doing, sizeof c->doing, "timing the tasks on one %s alone", place ? "GPU" : "worker");
  snprintf(alone, sizeof alone, "%s/alone", c->folder);
  snprintf(threads, sizeof threads, "%d", c->threads);
  const char *const words[] = {"--sched",
                               BASE,
                               "--out",
                               alone,
                               "--gpus",
                               place ? "1" : "0",
                               "--workers",
                               place ? "gpu" : "1",
                               place ? NULL : "--threads-per-worker",
                               threads,
                               NULL};
  SL_TRY_OUT(bench(c, words, &json, &reason));
  if (sl__child_stopped()) goto out;
  if (!json) SL_TRY_OUT(sl_fail(SL_EINVAL, "bench %s: %s", c->o->model, reason));
  SL_TRY_OUT(read_timeline(c, "alone", &times, &n));
  if (times[0]->n_nodes != c->graph[0]->n_nodes || times[0]->n_kinds != c->graph[0]->n_kinds)
    SL_TRY_OUT(sl_fail(SL_EPLAN, "the graph on one worker differs: give --shards and --leaves"));
  kind = calloc((size_t)times[0]->n_workers, sizeof *kind),
  seconds = malloc((size_t)times[0]->n_kinds * sizeof *seconds);
  if (!kind || !seconds) SL_TRY_OUT(sl_no_memory("for the times of %d tasks", times[0]->n_nodes));
  SL_TRY_OUT(sl_bound_times(times[0], kind, 1, -1, seconds));
  for (int k = 0; k < times[0]->n_kinds; k++)
    if (seconds[k] < c->alone[k * SL__PLACES + place]) c->alone[k * SL__PLACES + place] = seconds[k];
out:
  destroy(times, n);
  json_decref(json);
  free(reason), free(kind), free(seconds);
  return status;
}

/* Other programs may disturb a measurement, so it is repeated, and the least median counts. */
static sl_status time_alone(sl__comparison *c) {
  const double from = sl__compare_elapsed(c);
  sl__compare_expect_end(c);
  if (c->workers > 0) SL_TRY(time_alone_on(c, 0));
  if (c->gpus > 0 && !sl__child_stopped()) SL_TRY(time_alone_on(c, 1));
  if (!sl__child_stopped()) add_to_mean(&c->alone_s, &c->alones, sl__compare_elapsed(c) - from);
  return SL_OK;
}

/* Computes one bound for all policies, from the graph on all workers and the times of tasks that ran alone. */
static sl_status find_bound(sl__comparison *c) {
  const sl_timeline *g = c->graph[0];
  const int workers[SL__PLACES] = {c->workers, c->gpus};
  int *kind = malloc(((size_t)g->n_nodes + 1) * sizeof *kind);
  double *share = malloc(((size_t)g->n_kinds + 1) * SL__PLACES * sizeof *share);
  sl_status status = kind && share ? SL_OK : sl_no_memory("for the bound of %d tasks", g->n_nodes);
  SL_TRY_OUT(status);
  for (int i = 0; i < g->n_nodes; i++) kind[i] = g->node[i].kind;
  sl_bound bound;
  const unsigned char device[SL__PLACES] = {0, 1};
  const sl_bound_copies copies = {.device = device, .link = g->link, .flow = g->flow, .n_flows = g->n_flows};
  const sl_bound_problem problem = {
      .n_tasks = g->n_nodes,
      .kind = kind,
      .from = g->from,
      .before = g->before,
      .n_kinds = g->n_kinds,
      .n_worker_kinds = SL__PLACES,
      .workers = workers, /* may be 0 for a kind: its times are infinite, so the bound places no task there */
      .seconds = c->alone,
      .copies = c->gpus > 0 && g->link > 0 ? &copies : NULL};
  SL_TRY_OUT(sl_bound_solve(&problem, &bound, share));
  c->bound = bound.mixed;
  for (int i = 0; i < g->n_nodes; i++)
    for (int w = 0; w < SL__PLACES; w++) {
      const int at = kind[i] * SL__PLACES + w;
      if (isfinite(c->alone[at])) c->kernels += share[at] * c->alone[at];
    }
out:
  free(kind), free(share);
  return status;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

/* The joules of the packages and, if there are GPUs, of the GPUs. If only one of the two is known, it counts alone and
 * a note says so. */
static double joules_of(sl__comparison *c, const json_t *energy) {
  static const char *const parts[] = {"package_j", "gpu_j"}, *const whys[] = {"package_why", "gpu_why"},
                           *const names[] = {"packages", "GPUs"};
  const int n = c->gpus > 0 ? 2 : 1;
  const char *why[2] = {NULL};
  double joules = 0;
  for (int k = 0; k < n; k++) {
    const json_t *part = json_object_get(energy, parts[k]), *text = json_object_get(energy, whys[k]);
    joules += json_number_value(part);
    if (!part) why[k] = text ? json_string_value(text) : "not reported";
  }
  if (why[0] && (n == 1 || why[1])) {
    if (!c->no_energy) c->no_energy = strdup(why[0]);
  } else if (n == 2 && (why[0] || why[1]) && !c->part_energy) {
    const int known = why[0] != NULL;
    if (asprintf(&c->part_energy, "of the %s only: %s", names[known], why[!known]) < 0) c->part_energy = NULL;
  }
  return joules;
}

static sl_status measure(sl__comparison *c, sl__variant *v, int repetition) {
  json_t *json;
  char *reason;
  const char *more[8] = {NULL};
  int n = 0;
  more[n++] = "--sched", more[n++] = v->policy;
  if (!v->priorities) more[n++] = "--no-priorities";
  more[n] = NULL;
  const int order = c->processes;
  const double from = sl__compare_elapsed(c);
  char name[96];
  sl__compare_expect_end(c);
  snprintf(c->doing, sizeof c->doing, "repetition %d of about %d: %s", repetition + 1, c->planned,
           sl__compare_name(v, name, sizeof name));
  SL_TRY(bench(c, more, &json, &reason));
  if (sl__child_stopped()) {
    json_decref(json);
    free(reason);
    return SL_OK;
  }
  add_to_mean(&c->process_s, &c->measured, sl__compare_elapsed(c) - from);
  if (!json) {
    free(v->reason);
    v->reason = reason;
    return SL_OK;
  }
  sl__measured *s = &v->measured[repetition];
  const json_t *idle = json_object_get(json, "idle_percent");
  json_decref(c->models); /* the same in all processes once they exist */
  c->models = json_incref(json_object_get(json_object_get(json, "calibration"), "files"));
  const double joules = joules_of(c, json_object_get(json, "energy"));
  *s = (sl__measured){.there = 1,
                      .step = number(json, "step_s"),
                      .kernels = number(json, "kernel_percent"),
                      .moved = number(json, "moved_bytes"),
                      .energy = joules,
                      .order = order};
  for (int k = 0; k < SL_IDLE_CAUSES; k++) s->idle[k] = number(idle, sl_idle_cause_name((sl_idle_cause)k));
  const char *digest = json_string_value(json_object_get(json, "state_digest"));
  if (!v->digest[0]) snprintf(v->digest, sizeof v->digest, "%s", digest ? digest : "");
  if (strcmp(v->digest, digest ? digest : "") != 0) snprintf(v->digest, sizeof v->digest, "varies");
  json_decref(json);
  return SL_OK;
}

/* The number of repetitions: from the options, or as many as the time allows by the durations so far. */
static int plan(const sl__comparison *c, int begun) {
  if (c->o->repetitions > 0) return (int)c->o->repetitions;
  const double left = c->limit - sl__compare_elapsed(c) - (SL__ALONE - c->alones) * c->alone_s;
  const int more = (int)fmin(fmax(left / (c->n * c->process_s), 0), SL__MOST_REPETITIONS);
  const int n = begun + more < SL__LEAST_REPETITIONS ? SL__LEAST_REPETITIONS : begun + more;
  return n < SL__MOST_REPETITIONS ? n : SL__MOST_REPETITIONS;
}

/* Each repetition runs the policies in another order, so that a machine that becomes warm or busy favours none. */
static sl_status measure_all(sl__comparison *c) {
  for (int r = 0; r < c->planned && !sl__child_stopped(); r++) {
    if (c->alones == 0 || (c->alones == 1 && r >= c->planned / 2)) SL_TRY(time_alone(c));
    for (int i = 0; i < c->n && !sl__child_stopped(); i++) {
      sl__variant *v = &c->variant[(i * (r % 2 ? c->n - 1 : 1) + r) % c->n];
      c->repetitions = r + 1;
      if (!v->reason) SL_TRY(measure(c, v, r));
    }
    c->planned = plan(c, r + 1);
  }
  if (!sl__child_stopped()) SL_TRY(time_alone(c));
  c->stopped = sl__child_stopped();
  return SL_OK;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static sl_status write_files(const sl__comparison *c, const sl__tables *t) {
  char *json = sl_json_text(t->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  sl_status status = json ? sl__page_file(c->o, "compare.json", json) : sl_no_memory("for the figures");
  if (status == SL_OK) status = sl__page_file(c->o, "compare.csv", t->csv);
  if (status == SL_OK) status = sl__page_file(c->o, "compare.html", t->html);
  if (status == SL_OK) status = sl__page_file(c->o, "compare-ratios.svg", t->plot[0]);
  if (status == SL_OK) status = sl__page_file(c->o, "compare-shares.svg", t->plot[1]);
  free(json);
  return status;
}

static sl_status report(const sl__comparison *c) {
  sl__tables t = {.json = sl__compare_json(c)};
  sl_status status = SL_OK;
  if (!t.json) SL_TRY_OUT(sl_no_memory("for the figures"));
  if (c->o->json)
    SL_TRY_OUT(sl_json_print(stdout, t.json, 9));
  else
    sl__compare_table(c);
  if (!c->o->out && !c->o->bundle) goto out;
  SL_TRY_OUT(sl__compare_csv(c, &t.csv));
  SL_TRY_OUT(sl__compare_plots(c, t.plot));
  SL_TRY_OUT(sl__compare_html(c, t.plot, &t.html));
  if (c->o->out) SL_TRY_OUT(write_files(c, &t));
  if (c->o->bundle) SL_TRY_OUT(sl__bundle_write(c->o->bundle, c, &t));
out:
  json_decref(t.json);
  free(t.csv), free(t.html), free(t.plot[0]), free(t.plot[1]);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static sl__amount amount(const sl__comparison *c) {
  const sl__budget b = {.seconds = c->limit - sl__compare_elapsed(c),
                        .process = c->process_s,
                        .step = c->step_s,
                        .variants = c->n,
                        .workers = c->workers,
                        .steps = c->o->steps,
                        .repetitions = (int)c->o->repetitions};
  return sl__compare_fit(&b);
}

/* Prints, before measuring, the plan of the comparison and its expected duration. */
static void say_estimate(sl__comparison *c) {
  char text[32];
  const sl__amount a = amount(c);
  if (!c->meter.to) return;
  sl__meter_clear(&c->meter);
  fprintf(c->meter.to, "%s:", c->o->model);
  for (int i = 0; i < c->n; i++) {
    const int both = i + 1 < c->n && strcmp(c->variant[i].policy, c->variant[i + 1].policy) == 0;
    fprintf(c->meter.to, "%s %s%s", i ? "," : "", c->variant[i].policy,
            both                       ? " with priorities and without"
            : c->variant[i].priorities ? ""
                                       : " without priorities");
    i += both;
  }
  fprintf(c->meter.to, ". About %d repetitions of %lld steps each, in turn; this takes about %s%s\n", a.repetitions,
          (long long)a.steps, sl__meter_duration(a.seconds, text),
          calibrates(c)          ? ", and calibrating before it"
          : a.seconds > c->limit ? ": fewer --policies take less"
                                 : "");
  fflush(c->meter.to);
}

static sl_status make_folder(sl__comparison *c) {
  snprintf(c->folder, sizeof c->folder, "/tmp/starling-compare-XXXXXX");
  if (!mkdtemp(c->folder)) {
    c->folder[0] = '\0';
    return sl_fail(SL_EIO, "cannot make a folder in /tmp: %s", strerror(errno));
  }
  sl__child_catch(c->folder);
  return SL_OK;
}

static sl_status prepare(sl__comparison *c) {
  const sl__options *o = c->o;
  sl_model *model; /* looked up now, so that a wrong name is reported before any measurement */
  SL_TRY(sl__find_model(o->model, o->size, &model));
  free(model);
  if (o->sched) return sl_fail(SL_EINVAL, "--sched: compare takes --policies %s", o->sched);
  if (o->nodes > 1 || o->ranks_per_node > 1)
    return sl_fail(SL_EINVAL, "%s is simulated: name a machine with --machine ('starling info --machines' lists some)",
                   o->nodes > 1 ? "--nodes" : "--ranks-per-node");
  SL_TRY(sl__compare_check_policies(o, NULL));
  if (o->out) SL_TRY(sl_folder_make(o->out));
  if (o->bundle) SL_TRY(sl__bundle_check(o->bundle));
  SL_TRY(make_folder(c));
  SL_TRY(look(c));
  SL_TRY(sl__compare_choose(c));
  for (int i = 0; i < c->n; i++) c->models_needed |= sl_policies_need_models(c->variant[i].policy);
  say_estimate(c);
  SL_TRY(see_to_models(c));
  const sl__amount a = amount(c); /* calibrating took some of the time */
  c->steps = a.steps, c->planned = a.repetitions;
  c->process_s += (double)a.steps * c->step_s;
  c->alone_s = c->process_s + (c->workers - 1) * (double)a.steps * c->step_s;
  return SL_OK;
}

sl_status sl__compare(sl__options *o, int *exit_code) {
  const int by_options = o->repetitions > 0 && isnan(o->minutes);
  sl__comparison c = {.o = o,
                      .limit = by_options ? INFINITY : 60 * (isnan(o->minutes) ? MINUTES : o->minutes),
                      .room = o->repetitions > 0 ? (int)o->repetitions : SL__MOST_REPETITIONS,
                      .began = sl_now()};
  sl_status status = sl__option_default_text(&o->placement, "policy"); /* by plan, all policies would be alike */
  if (status != SL_OK) return status;
  if (o->no_priorities) return sl_fail(SL_EINVAL, "--no-priorities: compare takes --priorities off");
  if (o->no_record) return sl_fail(SL_EINVAL, "compare computes its figures from task records: leave --no-record out");
  sl__meter_start(&c.meter, o->quiet, 0);
  if (o->described) {
    status = sl__compare_simulated(&c);
    goto out;
  }
  c.expected = by_options ? 0 : c.limit;
  status = prepare(&c);
  if (status == SL_OK) status = measure_all(&c);
  sl__meter_clear(&c.meter);
  if (sl__child_stopped()) *exit_code = SL__EXIT_INTERRUPTED;
  if (sl__child_stopped() && c.measured == 0)
    status = sl_fail(SL_EINTERRUPTED, "stopped by a signal before the first measurement");
  if (status != SL_OK) goto out;
  SL_TRY_OUT(find_bound(&c));
  SL_TRY_OUT(sl__compare_figures(&c));
  SL_TRY_OUT(report(&c));
  if (!sl__compare_same_bits(&c))
    status = sl_fail(SL_ETASK, "policies ended with different parameters or optimizer state for the same plan");
out:
  sl__compare_remove_folder();
  for (int i = 0; i < c.n; i++) free(c.variant[i].measured), free(c.variant[i].reason);
  destroy(c.graph, c.n_graph);
  free(c.variant), free(c.alone), free(c.no_energy), free(c.part_energy);
  free(c.machine);
  json_decref(c.environment), json_decref(c.plan), json_decref(c.models);
  return status;
}
