/* starling calibrate: measures the network between ranks (--network), or runs training steps of a model until StarPU's
 * performance models, which dm* and heft policies use to place tasks, have samples of every kind of task. Then it shows
 * the models' times and their spread. */
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/machine/comm.h"
#include "runtime/numbers/statistics.h"
#include "tasks/starpu/calibration.h"
#include "tools/commands/commands.h"
#include "tools/machines/network.h"
#include "tools/run/job.h"
#include "tools/run/machine.h"
#include "tools/run/meter.h"
#include "tools/run/session.h"
#include "tools/run/times.h"

/* The time that a worker needs to start a task counts as at most this many medians. */
static const double LONGEST_START = 10;

typedef struct calibrate {
  const sl__options *o;
  sl__job job;
  sl__meter meter;
  sl_calibration *calibration;
  const sl_calibration_kind *kind;
  int n, lacking; /* number of kinds; number of those with too few samples */
  int samples;    /* wanted */
  double *start;  /* [n_starts] seconds that CPU workers needed to start a ready task */
  size_t n_starts;
  sl_timeline *timeline; /* for the sizes of tasks */
  char *said;            /* the text to print */
} calibrate;

static sl_status look(calibrate *c) {
  SL_TRY(sl_calibration_kinds(c->calibration, &c->kind, &c->n));
  c->lacking = 0;
  for (int k = 0; k < c->n; k++) c->lacking += c->kind[k].samples < c->samples;
  return SL_OK;
}

static void show_progress(calibrate *c) {
  double collected = 0;
  for (int k = 0; k < c->n; k++) collected += c->kind[k].samples < c->samples ? c->kind[k].samples : c->samples;
  sl__meter_show(&c->meter, collected, (double)c->n * c->samples,
                 "step %lld: %d of %d kinds of tasks have their samples", (long long)c->job.step, c->n - c->lacking,
                 c->n);
}

static int by_worker(const void *a, const void *b) {
  const sl_record *x = a, *y = b;
  if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
  return (x->start > y->start) - (x->start < y->start);
}

/* Collects what a task costs besides its kernel: how long it waits after it is ready and its CPU worker idle. This
 * depends on the policy. With GPUs an idle worker may wait for a copy, which simulations count apart; then only tasks
 * that were ready before the worker became idle count. Sorts the records. */
static sl_status add_starts(calibrate *c, sl_record *records, size_t n) {
  enum { MOST = 100000 };
  double *more = realloc(c->start, (c->n_starts + n + 1) * sizeof *more);
  if (!more) return sl_no_memory("for the starts of tasks");
  c->start = more;
  const int copies = sl_runtime_gpus(c->job.runtime) > 0;
  qsort(records, n, sizeof *records, by_worker);
  for (size_t i = 1; i < n && c->n_starts < MOST; i++) {
    const sl_record *a = &records[i - 1], *b = &records[i];
    if (a->kind != SL_RECORD_TASK || b->kind != SL_RECORD_TASK || a->worker != b->worker) continue;
    if (copies && b->ready > a->end) continue;
    if (sl_runtime_worker_kind(c->job.runtime, b->worker) == SL_WORKER_CPU)
      c->start[c->n_starts++] = 1e-9 * (double)(b->start - (b->ready > a->end ? b->ready : a->end));
  }
  return SL_OK;
}

static sl_status collect(calibrate *c) {
  sl__job *s = &c->job;
  sl__meter_start(&c->meter, c->o->quiet, 0);
  do {
    sl_record *records;
    size_t n;
    sl_recorder_clear(s->recorder);
    sl_calibration_place(c->calibration);
    SL_TRY(sl__job_step(s, s->facts.training.learning_rate, NULL));
    SL_TRY(sl_recorder_snapshot(s->recorder, &records, &n));
    sl_status status = sl_calibration_add(c->calibration, records, n);
    if (status == SL_OK) status = add_starts(c, records, n);
    free(records);
    SL_TRY(status);
    SL_TRY(look(c));
    show_progress(c);
  } while (c->lacking && s->step < c->o->most_steps);
  sl__meter_clear(&c->meter);
  return SL_OK;
}

/* "[64, 784] [128, 784] -> [64, 128]"; tasks that accumulate are kinds of their own. */
static void size_of(const calibrate *c, int k, char *text, size_t n) {
  const int node = c->kind[k].node;
  snprintf(text, n, "%s%s", c->timeline->node[node].shapes,
           sl_program_graph(c->job.program)->node[node]->accumulate ? ", adds" : "");
}

static const char *worker_name(const sl_calibration_kind *kind) {
  return kind->worker == SL_WORKER_CPU ? "CPU" : "GPU";
}

/* Mean seconds in which a CPU worker starts a ready task; 0: not measured. */
static double mean_start(const calibrate *c) {
  const double longest = c->n_starts ? LONGEST_START * sl_median(c->start, c->n_starts) : 0;
  return c->n_starts ? sl_mean_at_most(c->start, c->n_starts, longest) : 0;
}

static sl_status print_table(const calibrate *c, FILE *to) {
  char size[1100];
  const sl__job *s = &c->job;
  const sl_share *share = sl_runtime_share(s->runtime);
  fprintf(to, "%s: %d kinds of tasks in %lld steps, %d workers (threads per worker %d), %d GPUs, %s kernels\n", s->name,
          c->n, (long long)s->step, share->nworkers, share->threads_per_worker, sl_runtime_gpus(s->runtime),
          s->facts.plan.kernels);
  if (!c->o->quiet) {
    fprintf(to, "\n%-18s %-6s %6s %8s %9s %12s %8s  %s\n", "operation", "worker", "tasks", "samples", "rejected",
            "median us", "spread", "size");
    for (int k = 0; k < c->n; k++) {
      const sl_calibration_kind *kind = &c->kind[k];
      size_of(c, k, size, sizeof size);
      fprintf(to, "%-18s %-6s %6d %8d %9d %12.1f %6.1f %%  %s\n", c->timeline->node[kind->node].operation,
              worker_name(kind), kind->tasks, kind->samples, kind->rejected, 1e6 * kind->median, 100 * kind->spread,
              size);
    }
    fputc('\n', to);
  }
  if (c->n_starts)
    fprintf(to, "Under %s an idle CPU worker starts a ready task after %.1f us.\n", sl_runtime_sched(s->runtime),
            1e6 * mean_start(c));
  fprintf(to, "%d of %d have %d samples or more, and are stored for machine %s in %s\n", c->n - c->lacking, c->n,
          c->samples, sl_runtime_model_host(s->runtime), sl_runtime_sampling(s->runtime));
  return SL_OK;
}

static sl_status print_json(const calibrate *c, FILE *to) {
  char size[1100];
  const sl__job *s = &c->job;
  json_t *kinds = json_array();
  for (int k = 0; k < c->n; k++) {
    const sl_calibration_kind *kind = &c->kind[k];
    size_of(c, k, size, sizeof size);
    json_array_append_new(
        kinds, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:b}", "operation",
                         c->timeline->node[kind->node].operation, "size", size, "worker", worker_name(kind), "tasks",
                         kind->tasks, "samples", kind->samples, "rejected", kind->rejected, "median_s", kind->median,
                         "mean_s", kind->mean, "spread", kind->spread, "stored", kind->samples >= c->samples));
  }
  json_t *all =
      json_pack("{s:s, s:o, s:o, s:s, s:s, s:i, s:s, s:f, s:I, s:i, s:i, s:o}", "model", s->facts.model->name, "size",
                sl_model_sizes_to_json(s->facts.model), "plan", sl_plan_to_json(&s->facts.plan), "machine",
                sl_runtime_model_host(s->runtime), "folder", sl_runtime_sampling(s->runtime), "workers",
                sl_runtime_cpu_workers(s->runtime), "sched", sl_runtime_sched(s->runtime), "start_s", mean_start(c),
                "steps", (json_int_t)s->step, "samples", c->samples, "lacking", c->lacking, "kinds", kinds);
  if (!all) return sl_no_memory("for the figures as JSON");
  const sl_status status = sl_json_print(to, all, 9);
  json_decref(all);
  return status;
}

/* The error for kinds that lack samples; it names the first one. */
static sl_status complain(const calibrate *c) {
  char size[1100];
  int k = 0;
  if (!c->lacking) return SL_OK;
  while (c->kind[k].samples >= c->samples) k++;
  size_of(c, k, size, sizeof size);
  return sl_fail(
      SL_EUNCALIBRATED,
      "%d of %d kinds of tasks lack samples after %lld steps: %s %s has %d of %d, ...; give more --most-steps",
      c->lacking, c->n, (long long)c->job.step, c->timeline->node[c->kind[k].node].operation, size, c->kind[k].samples,
      c->samples);
}

/* Keeps the best rates of one GPU over the kinds of tasks, for predictions. */
static void keep_speeds(const calibrate *c) {
  const sl_schedule *s = sl_program_schedule(c->job.program);
  sl__machine m = {0};
  for (int k = 0; k < c->n; k++) {
    const sl_calibration_kind *kind = &c->kind[k];
    if (kind->worker != SL_WORKER_CUDA || kind->samples < c->samples || !(kind->median > 0)) continue;
    m.gpu_gflops = fmax(m.gpu_gflops, 1e-9 * s->cost[kind->node].flops / kind->median);
    m.gpu_gigabytes = fmax(m.gpu_gigabytes, 1e-9 * s->cost[kind->node].bytes / kind->median);
  }
  sl__machine_keep(c->job.runtime, &m);
}

/* Keeps means and deviations for simulations, even those of too few samples, because nothing better is known. */
static sl_status keep_times(calibrate *c) {
  const sl_graph *g = sl_program_graph(c->job.program);
  char path[PATH_MAX];
  sl_times *times;
  SL_TRY(sl_times_create(&times));
  sl_status status = SL_OK;
  for (int k = 0; k < c->n; k++) {
    const sl_calibration_kind *kind = &c->kind[k];
    if (g->node[kind->node]->bucket || !(kind->mean > 0)) continue;
    sl_time t = {.footprint = sl_node_footprint(g, g->node[kind->node])};
    snprintf(t.operation, sizeof t.operation, "%s", g->node[kind->node]->op->name);
    const int worker = kind->worker == SL_WORKER_CPU ? SL_KIND_CPU : SL_KIND_GPU;
    t.seconds[worker] = kind->mean, t.deviation[worker] = kind->deviation;
    SL_TRY_OUT(sl_times_put(times, &t));
  }
  if (c->n_starts) sl_times_set_overhead(times, SL_KIND_CPU, mean_start(c));
  const sl__times_of of = sl__times_of_run(c->job.runtime);
  status = sl__times_keep(sl__times_path(c->job.runtime, c->job.facts.plan.tiles.blas, path, sizeof path), &of, times);
out:
  sl_times_destroy(times);
  return status;
}

static sl_status run(calibrate *c) {
  size_t bytes;
  c->samples = c->o->samples > 0 ? (int)c->o->samples : sl_calibration_minimum();
  unsetenv("STARPU_CALIBRATE"); /* StarPU must not add samples of its own */
  c->job.records = 1;
  SL_TRY(sl__job_name(&c->job, c->o));
  SL_TRY(sl__job_start(&c->job, "calibrate", 0));
  SL_TRY(sl__job_plan(&c->job));
  SL_TRY(sl__job_data(&c->job, 1));
  SL_TRY(sl__job_build(&c->job));
  SL_TRY(sl__job_load(&c->job));
  SL_TRY(sl_calibration_create(c->job.runtime, c->job.program, &c->calibration));
  SL_TRY(collect(c));
  SL_TRY(sl_calibration_store(c->calibration, c->samples));
  keep_speeds(c);
  SL_TRY(keep_times(c));
  SL_TRY(sl_program_timeline(c->job.program, c->job.name, &c->timeline));
  FILE *to = open_memstream(&c->said, &bytes);
  if (!to) return sl_no_memory("for the table");
  const sl_status status = c->o->json ? print_json(c, to) : print_table(c, to);
  if (fclose(to) != 0) return sl_no_memory("for the table");
  return status == SL_OK ? complain(c) : status;
}

static sl_status print_network(const sl__options *o, const sl__network_description *n) {
  char *text = NULL;
  if (o->json) {
    json_t *all =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "latency_s", n->latency, "rank_bytes_per_s", n->per_rank,
                  "node_bytes_per_s", n->per_node, "shared_bytes_per_s", n->shared, "shared_latency_s",
                  n->shared_latency, "cpu_bytes_per_s", n->cpu, "shared_cpu_bytes_per_s", n->shared_cpu);
    text = sl_json_text(all, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(all);
    if (!text) return sl_no_memory("for the figures as JSON");
    puts(text);
  } else {
    SL_TRY(sl__network_to_yaml(n, &text));
    fputs(text, stdout);
  }
  free(text);
  return SL_OK;
}

/* StarPU is started only to find the ranks and the path of this machine's file. It stops before the measurement,
 * because its idle workers spin. */
static sl_status calibrate_network(const sl__options *o) {
  sl_runtime *runtime = NULL;
  sl__network_description network;
  MPI_Comm comm = MPI_COMM_NULL, node = MPI_COMM_NULL;
  char path[PATH_MAX];
  SL_TRY(sl__start(o, "calibrate --network", 1, &runtime));
  const sl_share *share = sl_runtime_share(runtime);
  const int cpu = share->nworkers > 0 && !share->oversubscribed ? (int)share->worker[0].pu[0] : -1;
  const int ranks = sl_runtime_ranks(runtime), rank = sl_runtime_rank(runtime), local = sl_runtime_local_rank(runtime);
  sl__network_path(runtime, path, sizeof path);
  sl_status status = ranks > 1
                         ? sl_comm_status(MPI_Comm_dup(sl_runtime_comm(runtime), &comm), "MPI_Comm_dup")
                         : sl_fail(SL_EINVAL,
                                   "--network measures between ranks, and there is one: start this command by mpiexec "
                                   "with two or more");
  if (status == SL_OK) status = sl_comm_status(MPI_Comm_dup(sl_runtime_node_comm(runtime), &node), "MPI_Comm_dup");
  sl_runtime_stop(runtime);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl__network_measure(comm, node, cpu, &network));
  if (local == 0) sl__network_keep(path, &network);
  if (rank == 0) SL_TRY_OUT(print_network(o, &network));
out:
  if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  return status;
}

sl_status sl__calibrate(sl__options *o, int *exit_code) {
  calibrate c = {.o = o};
  (void)exit_code;
  if (o->network && o->model) return sl_fail(SL_EINVAL, "unexpected argument '%s': --network needs no model", o->model);
  if (o->network) return calibrate_network(o);
  if (!o->model) return sl_fail(SL_EINVAL, "an argument is missing; usage: starling calibrate MODEL [OPTION]...");
  SL_TRY(sl__option_default_text(&o->placement, "policy")); /* each kind of task must run on each kind of worker */
  const sl_status status = run(&c);
  sl_timeline_destroy(c.timeline);
  sl_calibration_destroy(c.calibration);
  sl__job_close(&c.job); /* StarPU writes its models here, before writing the output can fail */
  if (c.said) fputs(c.said, stdout);
  free(c.said), free(c.start);
  return status;
}
