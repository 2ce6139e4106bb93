/* starling compare: the same training steps under one scheduling policy after another, each in a process of its own, in
 * repetitions that take turns, held against each other and against one bound. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/file.h"
#include "runtime/idle.h"
#include "runtime/json.h"
#include "runtime/philox.h"
#include "runtime/runtime.h"
#include "tasks/bound.h"
#include "tools/commands.h"
#include "tools/data.h"
#include "tools/session.h"

enum { MOST_POLICIES = 64, PATIENCE = 60 /* s beyond what a bench should take */, DRAWS = 4000 };
static const char BASE[] = "eager";

/* What one process measured. */
typedef struct sample {
  double step;                          /* s, median */
  double kernels, idle[SL_IDLE_CAUSES]; /* %, of worker time */
  int order;                            /* of all processes, from 0 */
} sample;

/* A policy, with priorities or without. */
typedef struct variant {
  char policy[64];
  int priorities;
  char *reason;                    /* why it cannot serve; NULL: it can */
  sample *sample;                  /* [repetitions] */
  char digest[24];                 /* of parameters and state after the first steps */
  double median, ratio, low, high; /* seconds; to the base, paired, with the bootstrap's 95% interval */
} variant;

typedef struct comparison {
  const sl__options *o;
  char program[4096], folder[64]; /* where the bound's timelines are */
  char **pass;                    /* arguments for bench */
  int n_pass;
  variant *variant;
  int n, repetitions, base;
  int workers, threads;
  double bound, kernels; /* s: of a step; kernels alone, summed over workers, with nothing beside them */
  int processes;
} comparison;

/* ---- processes -------------------------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The last line that a process said, without the command's name in front. */
static char *last_line(const char *text) {
  size_t n = strlen(text);
  while (n > 0 && text[n - 1] == '\n') n--;
  size_t from = n;
  while (from > 0 && text[from - 1] != '\n') from--;
  const size_t name = strlen("starling: ");
  if (strncmp(text + from, "starling: ", name) == 0) from += name;
  return n > from ? strndup(text + from, n - from) : strdup("it ended without a word");
}

static sl_status read_all(int fd, char **text) {
  const off_t size = lseek(fd, 0, SEEK_END);
  *text = calloc((size_t)size + 1, 1);
  if (!*text) return sl_fail(SL_ENOMEM, "no memory for a process's output");
  for (off_t at = 0; at < size;) {
    const ssize_t n = pread(fd, *text + at, (size_t)(size - at), at);
    if (n <= 0) return sl_fail(SL_EIO, "a process's output cannot be read: %s", strerror(errno));
    at += n;
  }
  return SL_OK;
}

/* Runs `bench` with the arguments given and those in `more`, ended by NULL. *out: its JSON; or NULL, and why it failed
 * in *reason.
 */
static sl_status bench(comparison *c, const char *const *more, json_t **out, char **reason) {
  const char *argv[256];
  int n = 0, state = 0;
  char *said = NULL, *complaint = NULL;
  FILE *output = tmpfile(), *errors = tmpfile();
  sl_status status = SL_OK;
  *out = NULL, *reason = NULL;
  if (!output || !errors) SL_TRY_OUT(sl_fail(SL_EIO, "no temporary file: %s", strerror(errno)));
  argv[n++] = "starling", argv[n++] = "bench";
  for (int i = 0; i < c->n_pass && n < 200; i++) argv[n++] = c->pass[i];
  argv[n++] = "--no-measure", argv[n++] = "--json";
  while (*more && n < 255) argv[n++] = *more++;
  argv[n] = NULL;
  const double began = now();
  const pid_t pid = fork();
  if (pid < 0) SL_TRY_OUT(sl_fail(SL_EIO, "no process: %s", strerror(errno)));
  if (pid == 0) {
    dup2(fileno(output), STDOUT_FILENO), dup2(fileno(errors), STDERR_FILENO);
    execv(c->program, (char *const *)argv);
    _exit(127);
  }
  const double most = PATIENCE + 30 * (c->o->steps > 0 ? (double)c->o->steps / 10 : 1);
  int late = 0;
  while (waitpid(pid, &state, WNOHANG) == 0) {
    if (!late && now() - began > most) late = 1, kill(pid, SIGKILL);
    usleep(5000);
  }
  c->processes++;
  SL_TRY_OUT(read_all(fileno(output), &said));
  SL_TRY_OUT(read_all(fileno(errors), &complaint));
  if (late) {
    if (asprintf(reason, "it had not ended after %.0f s", most) < 0) *reason = NULL;
  } else if (!WIFEXITED(state)) {
    if (asprintf(reason, "signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state))) < 0) *reason = NULL;
  } else if (WEXITSTATUS(state) != 0) {
    *reason = last_line(complaint);
  } else {
    *out = json_loads(said, 0, NULL);
    if (!*out) *reason = strdup("what it printed is no JSON");
  }
  if (!*out && !*reason) status = sl_fail(SL_ENOMEM, "no memory for a process's output");
out:
  if (output) fclose(output);
  if (errors) fclose(errors);
  free(said), free(complaint);
  return status;
}

/* ---- preparation ------------------------------------------------------------------------------------------------ */

static int given(const char *list, const char *name) {
  for (const char *at = list; at && *at;) {
    const size_t n = strcspn(at, ",");
    if (n == strlen(name) && strncmp(at, name, n) == 0) return 1;
    at += n + (at[n] == ',');
  }
  return 0;
}

static sl_status add_variants(comparison *c) {
  char all[2048], *rest = NULL;
  const sl__options *o = c->o;
  const int on = strcmp(o->priorities, "off") != 0, off = strcmp(o->priorities, "on") != 0;
  c->variant = calloc(2 * MOST_POLICIES, sizeof *c->variant);
  if (!c->variant) return sl_fail(SL_ENOMEM, "no memory for the policies");
  sl_runtime_policies(all, sizeof all);
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
      return sl_fail(SL_EINVAL, "--policies: StarPU %s has no policy '%s'; it has %s", sl_runtime_starpu(), name, all);
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
        variant *v = &c->variant[c->n++];
        snprintf(v->policy, sizeof v->policy, "%s", p);
        v->priorities = priorities;
        v->sample = calloc((size_t)c->repetitions, sizeof *v->sample);
        if (!v->sample) return sl_fail(SL_ENOMEM, "no memory for %d repetitions", c->repetitions);
      }
    }
  }
  return SL_OK;
}

/* What bench is to be given, out of our own words: all but what is for compare. */
static sl_status pass_on(comparison *c) {
  static const char *const ours[] = {"--policies", "--priorities", "--repetitions", "--out"}, *const flags[] = {
                                                                                                  "--json", "--quiet"};
  const sl__options *o = c->o;
  c->pass = calloc((size_t)o->argc + 1, sizeof *c->pass);
  if (!c->pass) return sl_fail(SL_ENOMEM, "no memory for %d arguments", o->argc);
  for (int i = 2; i < o->argc; i++) {
    int skip = 0;
    for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) {
      const size_t n = strlen(ours[k]);
      if (strncmp(o->argv[i], ours[k], n) == 0 && (o->argv[i][n] == '=' || o->argv[i][n] == '\0'))
        skip = o->argv[i][n] == '=' ? 1 : 2;
    }
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) skip |= strcmp(o->argv[i], flags[k]) == 0;
    if (skip == 2) i++;
    if (!skip) c->pass[c->n_pass++] = (char *)o->argv[i];
  }
  return SL_OK;
}

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

/* Lets StarPU's models learn all operations, which dm* and heft policies go by. */
static sl_status calibrate(comparison *c) {
  json_t *json;
  char *reason;
  SL_TRY(bench(c, (const char *[]){"--sched", "dmda", "--calibrate", "--no-record", NULL}, &json, &reason));
  json_decref(json);
  if (reason) sl_fail(SL_EUNCALIBRATED, "the performance models cannot be calibrated: %s", reason);
  free(reason);
  return json ? SL_OK : SL_EUNCALIBRATED;
}

static sl_status read_timeline(const comparison *c, const char *name, sl_timeline ***timelines, int *n) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", c->folder, name) < 0) return sl_fail(SL_ENOMEM, "no memory for a path");
  const sl_status status = sl_timeline_read_all(path, timelines, n);
  free(path);
  return status;
}

static void destroy(sl_timeline **timelines, int n) {
  for (int i = 0; i < n; i++) sl_timeline_destroy(timelines[i]);
  free(timelines);
}

/* One bound for all: the graph as it runs on all workers, with the times that its tasks take on one worker alone. */
static sl_status find_bound(comparison *c) {
  char whole[96], alone[96], threads[16], *reason = NULL;
  json_t *json = NULL;
  sl_timeline **graph = NULL, **times = NULL;
  int n_graph = 0, n_times = 0, *kind = NULL, *cpu = NULL;
  double *seconds = NULL;
  sl_status status = SL_OK;
  snprintf(whole, sizeof whole, "%s/whole", c->folder), snprintf(alone, sizeof alone, "%s/alone", c->folder);
  SL_TRY_OUT(bench(c, (const char *[]){"--sched", BASE, "--out", whole, NULL}, &json, &reason));
  if (!json) SL_TRY_OUT(sl_fail(SL_EINVAL, "bench %s: %s", c->o->model, reason));
  if (json_integer_value(json_object_get(json, "gpus")) > 0)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "compare measures on CPUs so far: --gpus 0"));
  c->workers = (int)json_integer_value(json_object_get(json, "workers"));
  c->threads = (int)json_integer_value(json_object_get(json, "threads_per_worker"));
  json_decref(json), json = NULL;
  snprintf(threads, sizeof threads, "%d", c->threads);
  SL_TRY_OUT(bench(
      c, (const char *[]){"--sched", BASE, "--workers", "1", "--threads-per-worker", threads, "--out", alone, NULL},
      &json, &reason));
  if (!json) SL_TRY_OUT(sl_fail(SL_EINVAL, "bench %s: %s", c->o->model, reason));
  SL_TRY_OUT(read_timeline(c, "whole", &graph, &n_graph));
  SL_TRY_OUT(read_timeline(c, "alone", &times, &n_times));
  const sl_timeline *g = graph[0];
  kind = malloc((size_t)g->n_nodes * sizeof *kind), cpu = calloc((size_t)times[0]->n_workers, sizeof *cpu);
  seconds = malloc((size_t)g->n_kinds * sizeof *seconds);
  if (!kind || !cpu || !seconds) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for the bound of %d tasks", g->n_nodes));
  if (times[0]->n_nodes != g->n_nodes || times[0]->n_kinds != g->n_kinds)
    SL_TRY_OUT(sl_fail(SL_EPLAN, "the graph is another on one worker: fix --shards and --leaves"));
  SL_TRY_OUT(sl_bound_times(times[0], cpu, 1, -1, seconds));
  for (int i = 0; i < g->n_nodes; i++) {
    kind[i] = g->node[i].kind;
    c->kernels += seconds[kind[i]];
  }
  sl_bound bound;
  const sl_bound_problem problem = {.n_tasks = g->n_nodes,
                                    .kind = kind,
                                    .from = g->from,
                                    .before = g->before,
                                    .n_kinds = g->n_kinds,
                                    .n_worker_kinds = 1,
                                    .workers = &c->workers,
                                    .seconds = seconds};
  SL_TRY_OUT(sl_bound_solve(&problem, &bound, NULL));
  c->bound = bound.mixed;
out:
  destroy(graph, n_graph), destroy(times, n_times);
  json_decref(json);
  free(reason), free(kind), free(cpu), free(seconds);
  return status;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

static sl_status measure(comparison *c, variant *v, int repetition) {
  json_t *json;
  char *reason;
  const char *more[8];
  int n = 0;
  more[n++] = "--sched", more[n++] = v->policy;
  if (!v->priorities) more[n++] = "--no-priorities";
  more[n] = NULL;
  const int order = c->processes;
  SL_TRY(bench(c, more, &json, &reason));
  if (!json) {
    free(v->reason);
    v->reason = reason;
    return SL_OK;
  }
  sample *s = &v->sample[repetition];
  const json_t *idle = json_object_get(json, "idle_percent");
  *s = (sample){.step = number(json, "step_s"), .kernels = number(json, "kernel_percent"), .order = order};
  for (int k = 0; k < SL_IDLE_CAUSES; k++) s->idle[k] = number(idle, sl_idle_cause_name((sl_idle_cause)k));
  const char *digest = json_string_value(json_object_get(json, "state_digest"));
  if (repetition == 0) snprintf(v->digest, sizeof v->digest, "%s", digest ? digest : "");
  if (strcmp(v->digest, digest ? digest : "") != 0) snprintf(v->digest, sizeof v->digest, "varies");
  json_decref(json);
  return SL_OK;
}

static void progress(const comparison *c, int repetition) {
  if (c->o->quiet || c->o->json || !isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r\033[Krepetition %d of %d", repetition + 1, c->repetitions);
  if (repetition + 1 == c->repetitions) fputs("\r\033[K", stderr);
  fflush(stderr);
}

/* Each repetition takes the policies in another order, so that a machine that grows warm or busy favours none. */
static sl_status measure_all(comparison *c) {
  for (int r = 0; r < c->repetitions; r++) {
    progress(c, r);
    for (int i = 0; i < c->n; i++) {
      variant *v = &c->variant[(i * (r % 2 ? c->n - 1 : 1) + r) % c->n];
      if (!v->reason) SL_TRY(measure(c, v, r));
    }
  }
  return SL_OK;
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static double median_of(const comparison *c, const variant *v, size_t offset, double *room) {
  for (int r = 0; r < c->repetitions; r++) room[r] = *(const double *)((const char *)&v->sample[r] + offset);
  return median(room, c->repetitions);
}

/* Medians of the paired ratios, and their percentile bootstrap (Efron 1979): repetitions are drawn with replacement. */
static sl_status add_up(comparison *c) {
  const int n = c->repetitions;
  double *ratio = malloc((size_t)n * sizeof *ratio), *drawn = malloc((size_t)n * sizeof *drawn),
         *medians = malloc(DRAWS * sizeof *medians);
  c->base = -1;
  for (int i = 0; i < c->n && c->base < 0; i++)
    if (!c->variant[i].reason) c->base = i;
  sl_status status = ratio && drawn && medians ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %d repetitions", n);
  if (status == SL_OK && c->base < 0) status = sl_fail(SL_ENOTFOUND, "no policy could serve: %s", c->variant[0].reason);
  for (int i = 0; i < c->n && status == SL_OK; i++) {
    variant *v = &c->variant[i];
    if (v->reason) continue;
    for (int r = 0; r < n; r++) ratio[r] = v->sample[r].step / c->variant[c->base].sample[r].step;
    for (int d = 0; d < DRAWS; d++) {
      for (int r = 0; r < n; r++) {
        uint32_t x[4];
        sl_random_u32x4(1, (uint64_t)d, 0, (uint64_t)r, x);
        drawn[r] = ratio[x[0] % (unsigned)n];
      }
      medians[d] = median(drawn, n);
    }
    qsort(medians, DRAWS, sizeof *medians, ascending);
    v->low = medians[DRAWS * 25 / 1000], v->high = medians[DRAWS * 975 / 1000];
    v->ratio = median(ratio, n);
    v->median = median_of(c, v, offsetof(sample, step), ratio);
  }
  free(ratio), free(drawn), free(medians);
  return status;
}

static const variant *best_of(const comparison *c) {
  const variant *best = &c->variant[c->base];
  for (int i = 0; i < c->n; i++)
    if (!c->variant[i].reason && c->variant[i].ratio < best->ratio) best = &c->variant[i];
  return best;
}

/* In words: which one to take, and whether the difference is more than noise. */
static void verdict(const comparison *c, char *text, size_t n) {
  const variant *base = &c->variant[c->base], *best = best_of(c);
  if (best == base || best->high >= 1)
    snprintf(text, n, "No policy is faster than %s beyond the noise of this machine: take %s.", base->policy,
             base->policy);
  else
    snprintf(text, n, "Take %s%s: a step takes %.1f%% less than with %s (95%% interval %.1f to %.1f%%).", best->policy,
             best->priorities ? "" : " without priorities", 100 * (1 - best->ratio), base->policy,
             100 * (1 - best->high), 100 * (1 - best->low));
}

/* Whether all that ran left the same bytes. */
static int same_bits(const comparison *c) {
  for (int i = 0; i < c->n; i++)
    if (!c->variant[i].reason && strcmp(c->variant[i].digest, c->variant[c->base].digest) != 0) return 0;
  return strcmp(c->variant[c->base].digest, "varies") != 0;
}

static void print_table(const comparison *c, double *room) {
  char text[512];
  printf(
      "%s: %d repetitions in turn, %d workers of %d threads; ratios to %s, paired, with 95%% intervals of the "
      "bootstrap\n",
      c->o->model, c->repetitions, c->workers, c->threads, c->variant[c->base].policy);
  printf("bound of a step %.3f ms, from the times of tasks that run alone\n\n", 1e3 * c->bound);
  printf("%-22s %-4s %10s  %-22s %8s %8s %9s", "policy", "prio", "step ms", "ratio", "of bound", "kernels",
         "inflation");
  for (int k = 0; k < SL_IDLE_CAUSES; k++) printf(" %10s", sl_idle_cause_name((sl_idle_cause)k));
  putchar('\n');
  for (int i = 0; i < c->n; i++) {
    const variant *v = &c->variant[i];
    if (v->reason) continue;
    const double kernels = median_of(c, v, offsetof(sample, kernels), room);
    printf("%-22s %-4s %10.3f  %.3f (%.3f to %.3f) %7.1f%% %7.1f%% %9.3f", v->policy, v->priorities ? "on" : "off",
           1e3 * v->median, v->ratio, v->low, v->high, 100 * c->bound / v->median, kernels,
           kernels / 100 * v->median * c->workers / c->kernels);
    for (int k = 0; k < SL_IDLE_CAUSES; k++)
      printf(" %9.1f%%", median_of(c, v, offsetof(sample, idle) + (size_t)k * sizeof(double), room));
    putchar('\n');
  }
  for (int i = 0; i < c->n; i++)
    if (c->variant[i].reason)
      printf("%-22s %-4s cannot serve: %s\n", c->variant[i].policy, c->variant[i].priorities ? "on" : "off",
             c->variant[i].reason);
  verdict(c, text, sizeof text);
  printf("\n%s\n%s\n", text,
         same_bits(c) ? "All left the same bytes."
                      : "They did not leave the same bytes: that is a defect; please report it.");
}

static json_t *to_json(const comparison *c, double *room) {
  char text[512];
  json_t *variants = json_array();
  for (int i = 0; i < c->n; i++) {
    const variant *v = &c->variant[i];
    if (v->reason) {
      json_array_append_new(variants, json_pack("{s:s, s:b, s:s}", "policy", v->policy, "priorities", v->priorities,
                                                "reason", v->reason));
      continue;
    }
    json_t *idle = json_object();
    for (int k = 0; k < SL_IDLE_CAUSES; k++)
      json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)k),
                          json_real(median_of(c, v, offsetof(sample, idle) + (size_t)k * sizeof(double), room)));
    const double kernels = median_of(c, v, offsetof(sample, kernels), room);
    json_array_append_new(
        variants, json_pack("{s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:s}", "policy", v->policy,
                            "priorities", v->priorities, "step_s", v->median, "ratio", v->ratio, "ratio_low", v->low,
                            "ratio_high", v->high, "of_bound", c->bound / v->median, "kernel_percent", kernels,
                            "kernel_inflation", kernels / 100 * v->median * c->workers / c->kernels, "idle_percent",
                            idle, "state_digest", v->digest));
  }
  verdict(c, text, sizeof text);
  return json_pack("{s:s, s:i, s:i, s:i, s:s, s:f, s:s, s:b, s:o}", "model", c->o->model, "repetitions", c->repetitions,
                   "workers", c->workers, "threads_per_worker", c->threads, "base", c->variant[c->base].policy,
                   "bound_s", c->bound, "verdict", text, "same_bits", same_bits(c), "policies", variants);
}

/* Every repetition, for whoever wants statistics of their own. */
static sl_status write_csv(const comparison *c, const char *path) {
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return sl_fail(SL_ENOMEM, "no memory for the table");
  fputs("policy,priorities,repetition,order,step_s,kernel_percent", to);
  for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, ",idle_%s_percent", sl_idle_cause_name((sl_idle_cause)k));
  fputs(",state_digest\n", to);
  for (int i = 0; i < c->n; i++)
    for (int r = 0; r < c->repetitions && !c->variant[i].reason; r++) {
      const variant *v = &c->variant[i];
      const sample *s = &v->sample[r];
      fprintf(to, "%s,%d,%d,%d,%.9g,%.6g", v->policy, v->priorities, r, s->order, s->step, s->kernels);
      for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, ",%.6g", s->idle[k]);
      fprintf(to, ",%s\n", v->digest);
    }
  const sl_status status =
      fclose(to) == 0 ? sl_file_replace(path, text, bytes) : sl_fail(SL_ENOMEM, "no memory for the table");
  free(text);
  return status;
}

static sl_status report(comparison *c) {
  double *room = malloc((size_t)c->repetitions * sizeof *room);
  char *csv = NULL, *file = NULL;
  json_t *json = room ? to_json(c, room) : NULL;
  sl_status status = json ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the figures");
  if (status == SL_OK && c->o->json) {
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
  } else if (status == SL_OK) {
    print_table(c, room);
  }
  if (status == SL_OK && c->o->out) {
    if (mkdir(c->o->out, 0777) != 0 && errno != EEXIST)
      status = sl_fail(SL_EIO, "cannot make the folder %s: %s", c->o->out, strerror(errno));
    else if (asprintf(&csv, "%s/compare.csv", c->o->out) < 0 || asprintf(&file, "%s/compare.json", c->o->out) < 0)
      status = sl_fail(SL_ENOMEM, "no memory for a path");
    if (status == SL_OK) status = write_csv(c, csv);
    if (status == SL_OK) status = sl_json_write(file, json);
  }
  json_decref(json);
  free(room), free(csv), free(file);
  return status;
}

static void remove_folder(const comparison *c) {
  static const char *const parts[] = {"whole/timeline-0.safetensors", "alone/timeline-0.safetensors", "whole", "alone",
                                      ""};
  char path[128];
  for (size_t i = 0; i < sizeof parts / sizeof *parts && c->folder[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", c->folder, parts[i]);
    if (remove(path) != 0 && errno != ENOENT) break;
  }
}

sl_status sl__compare(sl__options *o, int *exit_code) {
  comparison c = {.o = o, .repetitions = (int)o->repetitions};
  const sl_model *model;
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(sl__find_model(o->model, &model));
  if (o->sched) SL_TRY_OUT(sl_fail(SL_EINVAL, "--sched: compare takes --policies %s", o->sched));
  const ssize_t n = readlink("/proc/self/exe", c.program, sizeof c.program - 1);
  if (n <= 0) SL_TRY_OUT(sl_fail(SL_EIO, "/proc/self/exe cannot be read: %s", strerror(errno)));
  snprintf(c.folder, sizeof c.folder, "/tmp/starling-compare-XXXXXX");
  if (!mkdtemp(c.folder)) {
    c.folder[0] = '\0';
    SL_TRY_OUT(sl_fail(SL_EIO, "no folder in /tmp: %s", strerror(errno)));
  }
  SL_TRY_OUT(pass_on(&c));
  SL_TRY_OUT(add_variants(&c));
  SL_TRY_OUT(find_bound(&c));
  SL_TRY_OUT(calibrate(&c));
  SL_TRY_OUT(measure_all(&c));
  SL_TRY_OUT(add_up(&c));
  SL_TRY_OUT(report(&c));
  if (!same_bits(&c)) status = sl_fail(SL_ETASK, "policies gave different bytes for one plan");
out:
  remove_folder(&c);
  for (int i = 0; i < c.n; i++) free(c.variant[i].sample), free(c.variant[i].reason);
  free(c.variant), free(c.pass);
  return status;
}
