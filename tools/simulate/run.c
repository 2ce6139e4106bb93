/* Runs training steps of a model on the simulated machine and prints what bench prints of a real one. */
#include "tools/simulate/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "models/models.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "runtime/exchange/leaves.h"
#include "runtime/machine/policies.h"
#include "runtime/machine/transfers.h"
#include "runtime/numbers/statistics.h"
#include "runtime/trace/idle.h"
#include "runtime/trace/overlap.h"
#include "tasks/bounds/bound.h"
#include "tasks/starpu/program.h"
#include "tools/run/session.h"
#include "tools/run/timeline.h"
#include "tools/run/times.h"
#include "tools/settings/model.h"
#include "tools/settings/workers.h"
#include "tools/simulate/node.h"

typedef struct run {
  const sl__options *o;
  sl__simulated job;
  sl_model *model;
  char name[SL_SIZES_TEXT];
  sl_model_data data;
  sl_training training;
  sl_plan plan;
  sl_machine machine;
  sl_times *times;     /* measured; NULL: none */
  double predicted;    /* seconds of a step by the predicted schedule */
  int kinds, measured; /* kinds of tasks; those whose time was measured */
  sl_runtime *runtime;
  sl_network network;
  sl_store *store;
  sl_recorder *recorder;
  sl_program *program;
  int *first_leaf; /* [ranks + 1] */
  int64_t steps, from, to;
  double *seconds; /* of each measured step */
  double median, flops, moved;
  sl_usage usage;
  sl_bound bound;
  double took; /* seconds of the simulation itself */
} run;

/* The first steps, which bring the parameters to the GPUs, are not counted. */
enum { WARM = 2, STEPS = 5 };

static sl_status divide(run *r) {
  const int ranks = r->job.ranks;
  if (r->plan.leaves < ranks)
    return sl_fail(SL_EINVAL, "%d leaves cannot be divided among %d ranks", r->plan.leaves, ranks);
  if (ranks == 1) return SL_OK;
  r->first_leaf = calloc((size_t)ranks + 1, sizeof *r->first_leaf);
  if (!r->first_leaf) return sl_no_memory("for the leaves of %d ranks", ranks);
  for (int k = 0; k < ranks; k++)
    r->first_leaf[k + 1] = r->first_leaf[k] + sl_leaves_of_rank(r->plan.leaves, k, ranks).n;
  return SL_OK;
}

static sl_status read_times(run *r) {
  SL_TRY(sl_times_create(&r->times));
  const sl__times_of of = {r->job.threads, r->job.kernels, sl_runtime_sched(r->runtime)};
  SL_TRY(sl__times_read(r->job.machine.times, &of, r->times));
  sl__times_apply(r->times, &r->machine);
  return SL_OK;
}

/* Number of kinds of tasks, and of those whose time was measured on a kind of worker that the rank has. */
static sl_status count_measured(run *r) {
  const sl_graph *g = sl_program_graph(r->program);
  int *kind = malloc(((size_t)g->n_nodes + 1) * sizeof *kind), next = 0;
  if (!kind) return sl_no_memory("for the kinds of %d tasks", g->n_nodes);
  const sl_status status = sl_bound_kinds(g, kind, &next);
  next = 0;
  for (int i = 0; i < g->n_nodes && status == SL_OK; i++) {
    if (kind[i] != next) continue; /* not the first of its kind */
    next++;
    if (g->node[i]->bucket) continue;
    const uint32_t footprint = sl_node_footprint(g, g->node[i]);
    const char *operation = g->node[i]->op->name;
    r->kinds++;
    r->measured += (r->job.share.cpus > 0 && sl_times_find(r->times, operation, footprint, SL_KIND_CPU) > 0) ||
                   (r->job.share.gpus > 0 && sl_times_find(r->times, operation, footprint, SL_KIND_GPU) > 0);
  }
  free(kind);
  return status;
}

/* Records for all tasks of the measured steps, of which a shard may repeat each node of the graph; at most 2^20. */
static size_t records_of(const run *r) {
  const double tasks = (double)r->network.graph->n_nodes * (r->plan.shards + r->plan.leaves) * r->plan.row_blocks;
  const double steps = r->o->steps > 0 ? (double)r->o->steps : STEPS;
  return (size_t)fmin(fmax(tasks * steps, SL_RECORDER_CAPACITY), 1 << 20);
}

/* Seconds of a step by the predicted schedule. If times were measured, this is a schedule by them, not the plan's. */
static sl_status predict(run *r) {
  const sl_graph *g = sl_program_graph(r->program);
  r->predicted = sl_program_schedule(r->program)->makespan;
  if (!r->times) return SL_OK;
  char *keep = calloc((size_t)g->n_values + 1, 1);
  sl_schedule *schedule;
  if (!keep) return sl_no_memory("for %d values", g->n_values);
  for (sl_value v = 0; v < g->n_values; v++) keep[v] = g->value[v]->logical == r->network.loss;
  const sl_status status = sl_schedule_create(g, keep, &r->plan.tiles, &r->machine, &schedule);
  free(keep);
  if (status != SL_OK) return status;
  r->predicted = schedule->makespan;
  sl_schedule_destroy(schedule);
  return SL_OK;
}

static sl_status prepare(run *r) {
  const sl__options *o = r->o;
  SL_TRY(sl__simulated_of(o, &r->job));
  SL_TRY(sl__find_model(o->model, o->size, &r->model));
  sl_model_text(r->model, r->name, sizeof r->name);
  SL_TRY(sl__synthetic_data(o, r->model, &r->data));
  sl__training_of(o, r->model, &r->training);
  SL_TRY(sl__plan_of(o, r->model, r->job.ranks, &r->plan));
  SL_TRY(divide(r));
  const sl_simulation simulation = sl__simulation_of(&r->job);
  sl_simulation_set(&simulation);
  sl_runtime_options options = sl_runtime_defaults();
  options.sched = o->sched, options.sched_lib = o->sched_lib;
  options.fast = sl__gpu_kernels(o);
  if (o->gpu_memory > 0) options.gpu_memory = (size_t)(1e6 * o->gpu_memory);
  SL_TRY(sl_runtime_start(&options, &r->runtime));
  r->machine = sl__simulated_machine(&r->job);
  r->machine.slower = o->slow_node;
  if (r->job.machine.times[0]) SL_TRY(read_times(r));
  SL_TRY(sl_network_training(r->model, &r->data, &r->training, r->plan.batch, &r->network));
  SL_TRY(sl_recorder_create(records_of(r), &r->recorder));
  SL_TRY(sl_store_create(&r->store));
  const sl_value keep[] = {r->network.loss};
  const sl_machine planned = sl__simulated_planned(&r->job, &r->machine, &r->plan);
  const sl_program_options with = {.recorder = r->recorder,
                                   .keep = keep,
                                   .n_keep = 1,
                                   .first_leaf = r->first_leaf,
                                   .no_priorities = o->no_priorities,
                                   .machine = &planned,
                                   .runs_on = &r->machine,
                                   .zero = (int)o->zero,
                                   .planned = sl__placed_by_plan(o, r->job.share.gpus),
                                   .lru = o->gpu_eviction && strcmp(o->gpu_eviction, "lru") == 0};
  SL_TRY(sl_program_create(r->runtime, r->store, r->network.graph, &r->plan, &with, &r->program));
  SL_TRY(predict(r));
  return count_measured(r);
}

static sl_status one_step(run *r, int64_t number) {
  const sl_step step = {.number = number, .seed = 1, .learning_rate = r->training.learning_rate};
  return sl_program_run(r->program, &step);
}

/* The bound by the times that the machine gives each kind of task on each kind of worker, whether it ran there or not.
 * So the bound is the same for every policy. */
static sl_status find_bound(run *r, const sl_timeline *t) {
  enum { CPU, GPU, EXCHANGE, PLACES };
  const sl_graph *g = sl_program_graph(r->program);
  const sl_schedule *s = sl_program_schedule(r->program);
  const int workers[PLACES] = {r->job.share.cpus, r->job.share.gpus, 0}; /* 0: an exchange holds no worker */
  const unsigned char device[PLACES] = {0, 1, 0};
  int *kind = malloc(((size_t)t->n_nodes + 1) * sizeof *kind), *place = calloc((size_t)t->n_workers + 1, sizeof *place);
  double *seconds = malloc(((size_t)t->n_kinds + 1) * PLACES * sizeof *seconds);
  sl_status status = SL_OK;
  if (!kind || !place || !seconds) SL_TRY_OUT(sl_no_memory("for the bound of %d tasks", t->n_nodes));
  for (int w = 0; w < t->n_workers; w++) place[w] = t->worker[w].gpu ? GPU : CPU;
  SL_TRY_OUT(sl_bound_times(t, place, PLACES, EXCHANGE, seconds)); /* of exchanges: as they were simulated */
  for (int i = 0; i < t->n_nodes; i++) {
    kind[i] = t->node[i].kind;
    if (g->node[i]->bucket) continue;
    for (int k = CPU; k <= GPU; k++)
      seconds[kind[i] * PLACES + k] =
          workers[k] ? sl_machine_seconds(&r->machine, g, g->node[i], &s->cost[i], k == CPU ? SL_KIND_CPU : SL_KIND_GPU)
                     : INFINITY;
  }
  const sl_bound_copies copies = {.device = device,
                                  .link = r->job.machine.gpu.link,
                                  .latency = r->job.machine.gpu.link_latency,
                                  .flow = t->flow,
                                  .n_flows = t->n_flows};
  const sl_bound_problem problem = {.n_tasks = t->n_nodes,
                                    .kind = kind,
                                    .from = t->from,
                                    .before = t->before,
                                    .n_kinds = t->n_kinds,
                                    .n_worker_kinds = PLACES,
                                    .workers = workers,
                                    .seconds = seconds,
                                    .copies = workers[GPU] ? &copies : NULL};
  status = sl_bound_solve(&problem, &r->bound, NULL);
out:
  free(kind), free(place), free(seconds);
  return status;
}

static sl_status look_at_records(run *r) {
  const sl_dependencies graph = sl_program_dependencies(r->program);
  sl_timeline *timeline;
  SL_TRY(sl_usage_since(r->recorder, sl_runtime_workers(r->runtime), &graph, r->from, r->to, &r->usage));
  SL_TRY(sl_program_timeline(r->program, r->name, &timeline));
  timeline->clock[0] = timeline->clock[1] = (sl_clock){.local = r->from};
  timeline->clock[1].local = r->to;
  timeline->n_clocks = 2;
  timeline->peak_gflops = 1e-9 * r->machine.kind[SL_KIND_CPU].flops;
  timeline->peak_gigabytes = 1e-9 * r->machine.kind[SL_KIND_CPU].bytes;
  sl_status status = find_bound(r, timeline);
  if (status == SL_EINVAL) status = SL_OK; /* a ring that is too small for a step has lost exchanges */
  if (status == SL_OK && r->o->out) {
    char name[SL_TIMELINE_NAME], *path = NULL;
    status = sl_folder_make(r->o->out);
    if (status == SL_OK && asprintf(&path, "%s/%s", r->o->out, sl_timeline_name(0, name)) < 0)
      path = NULL, status = sl_no_memory("for a path");
    if (status == SL_OK) status = sl_timeline_write(path, timeline);
    free(path);
  }
  sl_timeline_destroy(timeline);
  return status;
}

static sl_status simulate(run *r) {
  r->steps = r->o->steps > 0 ? r->o->steps : STEPS;
  r->seconds = calloc((size_t)r->steps, sizeof *r->seconds);
  if (!r->seconds) return sl_no_memory("for the times of %lld steps", (long long)r->steps);
  for (int64_t i = 0; i < WARM; i++) SL_TRY(one_step(r, i + 1));
  sl_recorder_clear(r->recorder), sl_transfers_clear();
  sl_transfers_bytes();
  int64_t last = r->from = sl_now();
  for (int64_t i = 0; i < r->steps; i++) {
    SL_TRY(one_step(r, WARM + i + 1));
    const int64_t now = sl_now();
    r->seconds[i] = 1e-9 * (double)(now - last);
    last = now;
  }
  r->to = last;
  r->moved = (double)sl_transfers_bytes() / (double)r->steps;
  SL_TRY(look_at_records(r));
  r->median = sl_median(r->seconds, (size_t)r->steps);
  r->flops = sl_program_flops(r->program) * r->job.ranks; /* ranks are alike */
  return SL_OK;
}

static double peak(const run *r) { return sl__simulated_peak(&r->job, r->training.precision); }
static double peak_bytes(const run *r) {
  return (double)sl_program_bytes(r->program, 0) +
         sl__simulated_beside(&r->job, &r->network, r->plan.batch / r->job.ranks);
}
static double watts(const run *r) { return sl__simulated_watts(&r->job, r->usage.kernels, r->machine.slower); }

static void print_text(const run *r) {
  const sl__machine_description *m = &r->job.machine;
  printf(
      "%s: batch %lld in %d leaves, %d shards, %d row blocks; simulated on %s: %d nodes, %d ranks of %d CPU workers "
      "(threads per worker %d) and %d GPUs, policy %s\n",
      r->name, (long long)r->plan.batch, r->plan.leaves, r->plan.shards, r->plan.row_blocks, m->name, r->job.nodes,
      r->job.ranks, r->job.share.cpus, r->job.threads, r->job.share.gpus, sl_runtime_sched(r->runtime));
  printf("step time        %10.3f ms   median of %lld steps\n", 1e3 * r->median, (long long)r->steps);
  printf("samples/s        %10.0f\n", (double)r->plan.batch / r->median);
  printf("GFLOP/s          %10.1f      %.2f GFLOP in %d tasks a rank and step\n", 1e-9 * r->flops / r->median,
         1e-9 * r->flops, sl_program_graph(r->program)->n_nodes);
  printf("of the peak      %10.1f %%    %.1f GFLOP/s in %s\n", 100 * r->flops / r->median / peak(r), 1e-9 * peak(r),
         sl__simulated_precision(&r->job, r->training.precision));
  if (r->bound.mixed > 0)
    printf("of the bound     %10.1f %%    bound %.3f ms: critical path %.3f, area %.3f\n",
           100 * r->bound.mixed / r->median, 1e3 * r->bound.mixed, 1e3 * r->bound.critical_path, 1e3 * r->bound.area);
  printf("predicted        %10.3f ms   by the schedule made beforehand\n", 1e3 * r->predicted);
  printf("worker time      %10.1f %%    in kernels; idle:", 100 * r->usage.kernels);
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    printf("%s %s %.1f %%", c ? "," : "", sl_idle_cause_name((sl_idle_cause)c), 100 * r->usage.idle[c]);
  printf("\n");
  if (sl_transfers_nodes() > 1)
    printf("moved            %10.1f MB   a step and rank, between %d memories\n", 1e-6 * r->moved,
           sl_transfers_nodes());
  printf("memory           %10.1f MB   predicted peak of a rank\n", 1e-6 * peak_bytes(r));
  if (isfinite(watts(r))) printf("energy           %10.3f J    a step\n", watts(r) * r->median);
  if (m->price > 0)
    printf("price            %10.4f %s  for 1000 samples\n",
           m->price * r->job.nodes * r->median / 3.6 / (double)r->plan.batch, m->currency);
  if (r->times) printf("times            %10d      of %d kinds of tasks are measured ones\n", r->measured, r->kinds);
  if (!r->o->quiet) printf("simulated in     %10.2f s\n", r->took);
}

static sl_status print_json(const run *r) {
  const sl__machine_description *m = &r->job.machine;
  json_t *idle = json_object();
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)c), json_real(100 * r->usage.idle[c]));
  json_t *all = json_pack(
      "{s:s, s:o, s:o, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "model", r->model->name,
      "size", sl_model_sizes_to_json(r->model), "plan", sl_plan_to_json(&r->plan), "simulated", 1, "machine", m->name,
      "nodes", r->job.nodes, "ranks", r->job.ranks, "workers", r->job.share.cpus, "threads_per_worker", r->job.threads,
      "gpus", r->job.share.gpus, "sched", sl_runtime_sched(r->runtime), "steps", (json_int_t)r->steps, "step_s",
      r->median, "samples_per_s", (double)r->plan.batch / r->median, "gflops", 1e-9 * r->flops / r->median,
      "step_flops", r->flops, "percent_of_peak", 100 * r->flops / r->median / peak(r));
  json_t *more =
      json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:i, s:f, s:I}", "bound_s", r->bound.mixed, "critical_path_s",
                r->bound.critical_path, "area_s", r->bound.area, "predicted_step_s", r->predicted, "kernel_percent",
                100 * r->usage.kernels, "idle_percent", idle, "tasks", sl_program_graph(r->program)->n_nodes,
                "moved_bytes", r->moved, "predicted_peak_bytes", (json_int_t)peak_bytes(r));
  char policies[4096];
  if (all && sl_policies_names(r->o->sched_lib, policies, sizeof policies) == SL_OK)
    json_object_set_new(all, "policies", json_string(policies));
  if (all) json_object_set_new(all, "process_peak_bytes", json_integer(sl__peak_memory()));
  if (all) json_object_set_new(all, "kinds", json_integer(r->kinds));
  if (all) json_object_set_new(all, "measured_kinds", json_integer(r->measured));
  if (all) json_object_set_new(all, "memory_nodes", json_integer(sl_transfers_nodes()));
  if (all && isfinite(watts(r))) json_object_set_new(all, "step_j", json_real(watts(r) * r->median));
  if (!all || !more || json_object_update_new(all, more) != 0) {
    json_decref(all);
    return sl_no_memory("for the figures as JSON");
  }
  const sl_status status = sl_json_print(stdout, all, 9);
  json_decref(all);
  return status;
}

static void close_run(run *r) {
  sl_program_destroy(r->program);
  if (r->network.graph) sl_network_destroy(&r->network);
  sl_store_destroy(r->store);
  sl_recorder_destroy(r->recorder);
  sl_runtime_stop(r->runtime);
  sl_times_destroy(r->times);
  free(r->first_leaf), free(r->seconds), free(r->model);
}

static double real_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

sl_status sl__simulation_run(sl__options *o, int *exit_code) {
  run r = {.o = o};
  sl_status status = SL_OK;
  const double began = real_seconds();
  (void)exit_code;
  SL_TRY_OUT(prepare(&r));
  SL_TRY_OUT(simulate(&r));
  r.took = real_seconds() - began;
  if (o->json)
    SL_TRY_OUT(print_json(&r));
  else
    print_text(&r);
out:
  close_run(&r);
  return status;
}
