/* starling compare: the same training steps under one scheduling policy after another, each in a process of its own, in
 * repetitions that take turns, held against each other and against one bound. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/machine/policies.h"
#include "runtime/machine/runtime.h"
#include "tasks/graph/bound.h"
#include "tools/commands/commands.h"
#include "tools/compare/parts.h"
#include "tools/run/session.h"

enum { MOST_POLICIES = 64 };
static const char BASE[] = "eager";

/* ---- preparation ------------------------------------------------------------------------------------------------ */

static int given(const char *list, const char *name) {
  for (const char *at = list; at && *at;) {
    const size_t n = strcspn(at, ",");
    if (n == strlen(name) && strncmp(at, name, n) == 0) return 1;
    at += n + (at[n] == ',');
  }
  return 0;
}

static sl_status add_variants(sl__comparison *c) {
  char all[2048], *rest = NULL;
  const sl__options *o = c->o;
  const int on = strcmp(o->priorities, "off") != 0, off = strcmp(o->priorities, "on") != 0;
  c->variant = calloc(2 * MOST_POLICIES, sizeof *c->variant);
  if (!c->variant) return sl_no_memory("for the policies");
  SL_TRY(sl_policies_names(o->sched_lib, all, sizeof all));
  char *known = strdup(all);
  for (const char *at = o->policies; known && at && *at;) { /* those named must exist */
    char name[64];
    const size_t n = strcspn(at, ",");
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    int found = 0;
    for (char *p = strtok_r(strcpy(known, all), ", ", &rest); p; p = strtok_r(NULL, ", ", &rest))
      found |= !strcmp(p, name);
    if (!found) {
      free(known);
      return sl_fail(SL_EINVAL, "--policies: there is no policy '%s'; StarPU %s%s%s has %s", name, sl_runtime_starpu(),
                     o->sched_lib ? " with " : "", o->sched_lib ? o->sched_lib : "", all);
    }
    at += n + (at[n] == ',');
  }
  free(known);
  for (int pass = 0; pass < 2; pass++) { /* the base first */
    char copy[sizeof all];
    for (char *p = strtok_r(strcpy(copy, all), ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
      const int is_base = strcmp(p, BASE) == 0;
      if (is_base != (pass == 0) || (o->policies && !is_base && !given(o->policies, p)) || c->n + 2 > 2 * MOST_POLICIES)
        continue;
      for (int priorities = 1; priorities >= 0; priorities--) {
        if (!(priorities ? on : off)) continue;
        sl__variant *v = &c->variant[c->n++];
        snprintf(v->policy, sizeof v->policy, "%s", p);
        v->priorities = priorities;
        v->measured = calloc((size_t)c->repetitions, sizeof *v->measured);
        if (!v->measured) return sl_no_memory("for %d repetitions", c->repetitions);
      }
    }
  }
  return SL_OK;
}

/* bench with the options given and those in `more`, which begins with --no-measure. */
static sl_status bench(sl__comparison *c, const char *const *more, json_t **json, char **reason) {
  int code;
  return sl__compare_run(c, "bench", more, json, reason, &code);
}

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

/* `starling calibrate MODEL` with our options, as a user would type it; the caller's to free(). */
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

/* Policies that go by StarPU's performance models want these calibrated, by us if --calibrate says so. */
static sl_status see_to_models(sl__comparison *c) {
  json_t *json = NULL;
  char *reason = NULL, *command = NULL;
  int code;
  sl_status status = SL_OK;
  for (int i = 0; i < c->n; i++) c->models_needed |= sl_policies_need_models(c->variant[i].policy);
  if (!c->models_needed) return SL_OK;
  if (c->o->calibrate) {
    SL_TRY_OUT(sl__compare_run(c, "calibrate", (const char *[]){NULL}, &json, &reason, &code));
    if (!json) SL_TRY_OUT(sl_fail(SL_EUNCALIBRATED, "calibrate %s: %s", c->o->model, reason));
    c->calibrated = c->kinds;
  }
  if (!sl__compare_uncalibrated(c) || c->o->uncalibrated) goto out;
  SL_TRY_OUT(calibrate_command(c, &command));
  status =
      sl_fail(SL_EUNCALIBRATED,
              "StarPU's performance models, which some of these policies go by, have samples of %d of %d kinds of "
              "tasks: '%s' calibrates them, and so does compare --calibrate; --policies with none of dm* and *heft* "
              "needs none, and --uncalibrated goes on without",
              c->calibrated, c->kinds, command);
out:
  json_decref(json);
  free(reason), free(command);
  return status;
}

/* What bench says of the machine, with our own command. */
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

/* The graph as it runs on all workers, and what bench says of the machine. */
static sl_status look(sl__comparison *c) {
  char whole[96], *reason = NULL;
  json_t *json = NULL;
  sl_status status = SL_OK;
  snprintf(whole, sizeof whole, "%s/whole", c->folder);
  SL_TRY_OUT(bench(c, (const char *[]){"--no-measure", "--sched", BASE, "--out", whole, NULL}, &json, &reason));
  if (!json) SL_TRY_OUT(sl_fail(SL_EINVAL, "bench %s: %s", c->o->model, reason));
  if (json_integer_value(json_object_get(json, "gpus")) > 0)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "compare measures on CPUs so far: --gpus 0"));
  c->workers = (int)json_integer_value(json_object_get(json, "workers"));
  c->threads = (int)json_integer_value(json_object_get(json, "threads_per_worker"));
  c->memories = (int)json_integer_value(json_object_get(json, "memory_nodes"));
  c->plan = json_incref(json_object_get(json, "plan"));
  const json_t *calibration = json_object_get(json, "calibration");
  c->kinds = (int)json_integer_value(json_object_get(calibration, "kinds"));
  c->calibrated = (int)json_integer_value(json_object_get(calibration, "calibrated"));
  c->machine = strdup(json_string_value(json_object_get(calibration, "machine")));
  SL_TRY_OUT(keep_environment(c, json_object_get(json, "environment")));
  SL_TRY_OUT(read_timeline(c, "whole", &c->graph, &c->n_graph));
  c->alone = malloc(((size_t)c->graph[0]->n_kinds + 1) * sizeof *c->alone);
  if (!c->alone) SL_TRY_OUT(sl_no_memory("for %d kinds of tasks", c->graph[0]->n_kinds));
  for (int k = 0; k < c->graph[0]->n_kinds; k++) c->alone[k] = INFINITY;
out:
  json_decref(json);
  free(reason);
  return status;
}

/* Times of the tasks on one worker alone. Something else may have run beside it: it is done again and again, and the
 * least of the medians counts. */
static sl_status time_alone(sl__comparison *c) {
  char alone[96], threads[16], *reason = NULL;
  json_t *json = NULL;
  sl_timeline **times = NULL;
  int n = 0, *cpu = NULL;
  double *seconds = NULL;
  sl_status status = SL_OK;
  snprintf(alone, sizeof alone, "%s/alone", c->folder);
  snprintf(threads, sizeof threads, "%d", c->threads);
  SL_TRY_OUT(bench(c,
                   (const char *[]){"--no-measure", "--sched", BASE, "--workers", "1", "--threads-per-worker", threads,
                                    "--out", alone, NULL},
                   &json, &reason));
  if (!json) SL_TRY_OUT(sl_fail(SL_EINVAL, "bench %s: %s", c->o->model, reason));
  SL_TRY_OUT(read_timeline(c, "alone", &times, &n));
  if (times[0]->n_nodes != c->graph[0]->n_nodes || times[0]->n_kinds != c->graph[0]->n_kinds)
    SL_TRY_OUT(sl_fail(SL_EPLAN, "the graph is another on one worker: fix --shards and --leaves"));
  cpu = calloc((size_t)times[0]->n_workers, sizeof *cpu), seconds = malloc((size_t)times[0]->n_kinds * sizeof *seconds);
  if (!cpu || !seconds) SL_TRY_OUT(sl_no_memory("for the times of %d tasks", times[0]->n_nodes));
  SL_TRY_OUT(sl_bound_times(times[0], cpu, 1, -1, seconds));
  for (int k = 0; k < times[0]->n_kinds; k++)
    if (seconds[k] < c->alone[k]) c->alone[k] = seconds[k];
out:
  destroy(times, n);
  json_decref(json);
  free(reason), free(cpu), free(seconds);
  return status;
}

/* One bound for all: the graph as it runs on all workers, with those times. */
static sl_status find_bound(sl__comparison *c) {
  const sl_timeline *g = c->graph[0];
  int *kind = malloc(((size_t)g->n_nodes + 1) * sizeof *kind);
  if (!kind) return sl_no_memory("for the bound of %d tasks", g->n_nodes);
  for (int i = 0; i < g->n_nodes; i++) {
    kind[i] = g->node[i].kind;
    c->kernels += c->alone[kind[i]];
  }
  sl_bound bound;
  const sl_bound_problem problem = {.n_tasks = g->n_nodes,
                                    .kind = kind,
                                    .from = g->from,
                                    .before = g->before,
                                    .n_kinds = g->n_kinds,
                                    .n_worker_kinds = 1,
                                    .workers = &c->workers,
                                    .seconds = c->alone};
  const sl_status status = sl_bound_solve(&problem, &bound, NULL);
  free(kind);
  if (status == SL_OK) c->bound = bound.mixed;
  return status;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

static sl_status measure(sl__comparison *c, sl__variant *v, int repetition) {
  json_t *json;
  char *reason;
  const char *more[8];
  int n = 0;
  more[n++] = "--no-measure", more[n++] = "--sched", more[n++] = v->policy;
  if (!v->priorities) more[n++] = "--no-priorities";
  more[n] = NULL;
  const int order = c->processes;
  SL_TRY(bench(c, more, &json, &reason));
  if (!json) {
    free(v->reason);
    v->reason = reason;
    return SL_OK;
  }
  sl__measured *s = &v->measured[repetition];
  const json_t *idle = json_object_get(json, "idle_percent");
  json_decref(c->models); /* they are the same in all processes, once there are any */
  c->models = json_incref(json_object_get(json_object_get(json, "calibration"), "files"));
  const json_t *energy = json_object_get(json, "energy"), *joules = json_object_get(energy, "package_j");
  if (!joules && !c->no_energy) {
    const char *why = json_string_value(json_object_get(energy, "package_why"));
    c->no_energy = strdup(why ? why : "not told");
  }
  *s = (sl__measured){.step = number(json, "step_s"),
                      .kernels = number(json, "kernel_percent"),
                      .moved = number(json, "moved_bytes"),
                      .energy = json_number_value(joules),
                      .order = order};
  for (int k = 0; k < SL_IDLE_CAUSES; k++) s->idle[k] = number(idle, sl_idle_cause_name((sl_idle_cause)k));
  const char *digest = json_string_value(json_object_get(json, "state_digest"));
  if (repetition == 0) snprintf(v->digest, sizeof v->digest, "%s", digest ? digest : "");
  if (strcmp(v->digest, digest ? digest : "") != 0) snprintf(v->digest, sizeof v->digest, "varies");
  json_decref(json);
  return SL_OK;
}

static void progress(const sl__comparison *c, int repetition) {
  if (c->o->quiet || c->o->json || !isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r\033[Krepetition %d of %d", repetition + 1, c->repetitions);
  if (repetition + 1 == c->repetitions) fputs("\r\033[K", stderr);
  fflush(stderr);
}

/* Each repetition takes the policies in another order, so that a machine that grows warm or busy favours none. */
static sl_status measure_all(sl__comparison *c) {
  for (int r = 0; r < c->repetitions; r++) {
    progress(c, r);
    if (r == 0 || r == c->repetitions / 2 || r == c->repetitions - 1) SL_TRY(time_alone(c));
    for (int i = 0; i < c->n; i++) {
      sl__variant *v = &c->variant[(i * (r % 2 ? c->n - 1 : 1) + r) % c->n];
      if (!v->reason) SL_TRY(measure(c, v, r));
    }
  }
  return SL_OK;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static sl_status write_file(const sl__comparison *c, const char *name, const char *text) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", c->o->out, name) < 0) return sl_no_memory("for a path");
  const sl_status status = sl_file_replace(path, text, strlen(text));
  free(path);
  return status;
}

static sl_status write_files(const sl__comparison *c, const sl__tables *t) {
  char *json = json_dumps(t->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  sl_status status = json ? write_file(c, "compare.json", json) : sl_no_memory("for the figures");
  if (status == SL_OK) status = write_file(c, "compare.csv", t->csv);
  if (status == SL_OK) status = write_file(c, "compare.html", t->html);
  if (status == SL_OK) status = write_file(c, "compare-ratios.svg", t->plot[0]);
  if (status == SL_OK) status = write_file(c, "compare-shares.svg", t->plot[1]);
  free(json);
  return status;
}

static sl_status report(const sl__comparison *c) {
  sl__tables t = {.json = sl__compare_json(c)};
  sl_status status = SL_OK;
  if (!t.json) SL_TRY_OUT(sl_no_memory("for the figures"));
  if (c->o->json) {
    json_dumpf(t.json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
  } else {
    sl__compare_table(c);
  }
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

static void remove_folder(const sl__comparison *c) {
  static const char *const parts[] = {"whole/timeline-0.safetensors", "alone/timeline-0.safetensors", "whole", "alone",
                                      ""};
  char path[128];
  for (size_t i = 0; i < sizeof parts / sizeof *parts && c->folder[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", c->folder, parts[i]);
    if (remove(path) != 0 && errno != ENOENT) break;
  }
}

sl_status sl__compare(sl__options *o, int *exit_code) {
  sl__comparison c = {.o = o, .repetitions = (int)o->repetitions};
  const sl_model *model;
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(sl__find_model(o->model, &model));
  if (o->sched) SL_TRY_OUT(sl_fail(SL_EINVAL, "--sched: compare takes --policies %s", o->sched));
  if (o->out) SL_TRY_OUT(sl_folder_make(o->out));
  if (o->bundle) SL_TRY_OUT(sl__bundle_check(o->bundle));
  const ssize_t n = readlink("/proc/self/exe", c.program, sizeof c.program - 1);
  if (n <= 0) SL_TRY_OUT(sl_fail(SL_EIO, "/proc/self/exe cannot be read: %s", strerror(errno)));
  snprintf(c.folder, sizeof c.folder, "/tmp/starling-compare-XXXXXX");
  if (!mkdtemp(c.folder)) {
    c.folder[0] = '\0';
    SL_TRY_OUT(sl_fail(SL_EIO, "no folder in /tmp: %s", strerror(errno)));
  }
  SL_TRY_OUT(add_variants(&c));
  SL_TRY_OUT(look(&c));
  SL_TRY_OUT(see_to_models(&c));
  SL_TRY_OUT(measure_all(&c));
  SL_TRY_OUT(find_bound(&c));
  SL_TRY_OUT(sl__compare_figures(&c));
  SL_TRY_OUT(report(&c));
  if (!sl__compare_same_bits(&c)) status = sl_fail(SL_ETASK, "policies gave different bytes for one plan");
out:
  remove_folder(&c);
  for (int i = 0; i < c.n; i++) free(c.variant[i].measured), free(c.variant[i].reason);
  destroy(c.graph, c.n_graph);
  free(c.variant), free(c.alone), free(c.no_energy);
  free(c.machine);
  json_decref(c.environment), json_decref(c.plan), json_decref(c.models);
  return status;
}
