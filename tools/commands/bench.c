/* starling bench: measures the speed of training steps after warm-up, and compares it with the processors' peak. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "runtime/machine/energy.h"
#include "runtime/machine/environment.h"
#include "runtime/machine/measure.h"
#include "runtime/machine/transfers.h"
#include "runtime/numbers/statistics.h"
#include "runtime/trace/idle.h"
#include "tasks/bounds/bound.h"
#include "tasks/schedule/print.h"
#include "tasks/starpu/calibration.h"
#include "tasks/starpu/program.h"
#include "tools/commands/commands.h"
#include "tools/run/digest.h"
#include "tools/run/job.h"
#include "tools/run/precision.h"
#include "tools/run/prediction.h"
#include "tools/run/session.h"
#include "tools/run/timeline.h"

typedef struct bench {
  const sl__options *o;
  sl__job job;
  char digest[SL__DIGEST_TEXT]; /* of parameters and state after the first steps */
  double *seconds;              /* of each measured step */
  int64_t n;                    /* number of measured steps */
  int64_t from, to;
  double input;          /* seconds waited for batches while measuring */
  double before, after;  /* the peak, GFLOP/s over all ranks; 0: not measured */
  int in_bf16;           /* 1: the peak is that of instructions that multiply bf16; 0: that of sgemm */
  double memory;         /* triad, GB/s over all ranks; 0: not measured */
  sl__machine machine;   /* peaks of a worker: measured here, or kept from an earlier run */
  int64_t sent;          /* bytes to other nodes in a step, over all ranks */
  int64_t moved;         /* bytes between memory nodes in a step, over all ranks */
  double on_gpus, used;  /* peak bytes in the memories of all GPUs: predicted, and measured */
  double planned, least; /* bytes copied in a step by the GPUs' memory plans, and a lower bound; 0: no copies */
  sl_energy *energy;
  double joules[SL_ENERGY_PARTS]; /* of a step, over all ranks; NaN: not known */
  int64_t peak;                   /* peak bytes of the process, without the memory of the sgemm measurement */
  sl_usage usage;                 /* zeros without a recorder */
  sl_bound bound;                 /* zeros without a recorder or if a task was not recorded */
  sl__clocks clocks;
  sl__prediction prediction;
  json_t *environment; /* the variables before the runtime changed them, and the runtime's own description */
} bench;

/* Measurements of one operation of one layer. */
typedef struct line {
  const sl_group *group;
  int64_t tasks;
  double seconds;
} line;

/* Packages belong to the node, so only one of its ranks counts them. */
static sl_status open_energy(bench *b) {
  enum { MOST = 64 };
  static sl_gpu gpu[MOST];
  const char *gpus[MOST];
  const int n = sl_runtime_gpus(b->job.runtime) < MOST ? sl_runtime_gpus(b->job.runtime) : MOST;
  for (int i = 0; i < n; i++) {
    sl_runtime_gpu(b->job.runtime, i, &gpu[i]);
    gpus[i] = gpu[i].address;
  }
  return sl_energy_open(&(sl_energy_options){.gpus = gpus, .n_gpus = n}, &b->energy);
}

static void add_energy(bench *b) {
  const char *reason;
  for (int k = 0; k < SL_ENERGY_PARTS; k++) {
    const double mine = sl_energy_joules(b->energy, (sl_energy_part)k, &reason);
    const int counts = k != SL_ENERGY_PACKAGES || sl_runtime_local_rank(b->job.runtime) == 0;
    b->joules[k] = sl__ranks_sum(&b->job.ranks, counts ? mine : 0) / (double)b->n;
  }
}

static sl_status prepare(bench *b) {
  sl__job *j = &b->job;
  b->environment = sl_environment(b->o->argc, b->o->argv, sl__commit()); /* before the runtime changes it */
  SL_TRY(sl__job_meet(j, b->o, "bench"));
  if (!b->environment) return sl_no_memory("for the environment");
  SL_TRY(sl__job_name(j, b->o));
  SL_TRY(sl__job_start(j, "bench", 1));
  SL_TRY(sl__job_plan(j));
  SL_TRY(sl__environment_complete(b->environment, j->runtime));
  SL_TRY(open_energy(b));
  if (b->o->no_record && j->balance.measuring)
    return sl_fail(SL_EINVAL, "--balance auto needs task records: leave --no-record out, or give --balance N,N,...");
  if (b->o->no_record && b->o->out)
    return sl_fail(SL_EINVAL, "--out writes the task records as a timeline: leave --no-record or --out out");
  j->records = !b->o->no_record;
  SL_TRY(sl__job_data(j, 1));
  char said[160];
  SL_TRY(sl__precision_choose(j, said, sizeof said));
  if (*said && !b->o->quiet && !b->o->json && j->ranks.rank == 0) printf("precision  %s\n", said);
  SL_TRY(sl__job_build(j));
  return sl__job_load(j);
}

enum { WARM = 3 }; /* first steps, not measured; the digest covers the state after them */

static sl_status one_step(bench *b) {
  SL_TRY(sl__job_step(&b->job, b->job.facts.training.learning_rate, NULL));
  return b->job.step == WARM ? sl__state_digest(b->job.store, b->digest) : SL_OK;
}

/* Runs steps for about half a second. *seconds: the time of a step in the last round. A round has at most four times as
 * many steps as the one before: a policy may begin with fast workers and then choose slow ones.
 *
 * Labels follow from the image, so that the network can learn them. Otherwise repeated training on the same data at the
 * usual learning rate may diverge, and denormals would change the measured time. */
static sl_status warm_up(bench *b, double *seconds) {
  const double least = 0.5;
  enum { MOST = 1000 };
  double all = 0; /* mean over the ranks, so that all run the same number of steps */
  for (int64_t n = WARM, sum = 0; all < least && sum < MOST;
       sum += n, n = (int64_t)fmin(4.0 * (double)n, fmax(1, (least - all) / *seconds))) {
    const int64_t from = sl_now();
    for (int64_t i = 0; i < n; i++) SL_TRY(one_step(b));
    const double took = sl__ranks_sum(&b->job.ranks, 1e-9 * (double)(sl_now() - from)) / b->job.ranks.n;
    *seconds = took / (double)n;
    all += took;
  }
  return SL_OK;
}

/* The peak over all ranks' workers at once; *gflops is this rank's part. */
static sl_status measure_peak(bench *b, double *gflops, double *all) {
  SL_TRY(b->in_bf16 ? sl_measure_bf16(b->job.runtime, 0.5, gflops) : sl_measure_sgemm(b->job.runtime, 1, gflops));
  *all = sl__ranks_sum(&b->job.ranks, *gflops);
  return SL_OK;
}

/* Finds the machine's peaks: measures them before the steps, or with --no-measure takes an earlier run's. */
static sl_status find_peaks(bench *b) {
  double gflops = 0, bf16 = 0, gigabytes = 0;
  const int workers = sl_runtime_cpu_workers(b->job.runtime);
  if (b->o->no_measure || workers < 1) {
    b->machine = sl__machine_read(b->job.runtime);
    return SL_OK;
  }
  SL_TRY(measure_peak(b, &gflops, &b->before));
  if (b->job.facts.training.precision == SL_PRECISION_BF16 && strcmp(b->job.facts.plan.kernels, "avx512") == 0) {
    const double sgemm = b->before;
    b->in_bf16 = 1;
    SL_TRY(measure_peak(b, &bf16, &b->before));
    if (b->before <= sgemm) b->in_bf16 = 0, b->before = sgemm;
  }
  SL_TRY(sl_measure_triad(b->job.runtime, 0.5, 0, &gigabytes));
  b->memory = sl__ranks_sum(&b->job.ranks, gigabytes);
  b->machine = (sl__machine){.gflops = gflops / workers, .gigabytes = gigabytes / workers, .bf16 = bf16 / workers};
  sl__machine_keep(b->job.runtime, &b->machine);
  return SL_OK;
}

/* Computes shares of the workers' time and the steps' distance from their bound, and writes the timeline. */
static sl_status look_at_records(bench *b) {
  const sl_dependencies graph = sl_program_dependencies(b->job.program);
  sl_timeline *timeline;
  if (!b->job.recorder) return SL_OK;
  SL_TRY(sl_usage_since(b->job.recorder, sl_runtime_workers(b->job.runtime), &graph, b->from, b->to, &b->usage));
  SL_TRY(sl_program_timeline(b->job.program, b->job.name, &timeline));
  const sl_status status = sl_bound_recorded(timeline, &b->bound);
  sl_timeline_destroy(timeline);
  if (status != SL_EINVAL) SL_TRY(status); /* a ring that is too small for a step has lost tasks */
  if (!b->o->out) return SL_OK;
  SL_TRY(sl_folder_make(b->o->out));
  return sl__timeline_save(b->job.program, b->job.name, &b->clocks, &b->machine, &b->job.facts, b->o->out);
}

/* Runs the steps that --workers auto and --balance auto measure, and makes the program again if the division of the
 * leaves changes. */
static sl_status settle(bench *b) {
  int changed = 0;
  while (b->job.choice.measuring) SL_TRY(one_step(b));
  while (b->job.balance.measuring) {
    SL_TRY(one_step(b));
    SL_TRY(sl__balance_step(&b->job.balance, b->job.program, b->job.recorder, &changed));
  }
  if (!changed) return SL_OK;
  return sl__job_rebuild(&b->job);
}

static sl_status measure(bench *b) {
  double guess, gflops;
  SL_TRY(find_peaks(b));
  SL_TRY(settle(b));
  sl__peak_memory_restart();
  sl_transfers_peak_restart();
  SL_TRY(warm_up(b, &guess));
  b->n = b->o->steps > 0 ? b->o->steps : (int64_t)fmin(fmax(20, 5 / guess), 100000);
  b->seconds = malloc((size_t)b->n * sizeof *b->seconds);
  if (!b->seconds) return sl_no_memory("for the times of %lld steps", (long long)b->n);
  b->input = sl_loader_waited(b->job.loader);
  const uint64_t sent = sl__job_sent(&b->job);
  if (b->job.recorder) sl_recorder_clear(b->job.recorder), sl_transfers_clear();
  sl_transfers_bytes();
  SL_TRY(sl__clocks_look(b->job.runtime, &b->clocks));
  sl_energy_start(b->energy);
  int64_t last = b->from = sl_now();
  for (int64_t i = 0; i < b->n; i++) {
    SL_TRY(one_step(b));
    const int64_t now = sl_now();
    b->seconds[i] = 1e-9 * (double)(now - last);
    last = now;
    sl_energy_watch(b->energy);
  }
  b->to = last;
  sl_energy_stop(b->energy);
  add_energy(b);
  b->moved = (int64_t)sl__ranks_sum(&b->job.ranks, (double)sl_transfers_bytes() / (double)b->n);
  for (int i = 0; i < sl_runtime_gpus(b->job.runtime); i++) {
    const sl_residence *r = sl_program_residence(b->job.program, i);
    if (r && r->n_moves) b->planned += r->in + r->out, b->least += r->least_in + r->least_out;
    size_t beside;
    b->on_gpus += (double)sl_program_gpu_bytes(b->job.program, i, &beside);
    b->used += (double)(sl_runtime_gpu_peak(b->job.runtime, i) + beside);
  }
  double *const sums[] = {&b->planned, &b->least, &b->on_gpus, &b->used};
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sums[i] = sl__ranks_sum(&b->job.ranks, *sums[i]);
  b->sent = (int64_t)sl__ranks_sum(&b->job.ranks, (double)(sl__job_sent(&b->job) - sent) / (double)b->n);
  b->peak = sl__peak_memory();
  b->input = sl_loader_waited(b->job.loader) - b->input;
  SL_TRY(sl__clocks_look(b->job.runtime, &b->clocks));
  SL_TRY(look_at_records(b));
  return b->before > 0 ? measure_peak(b, &gflops, &b->after) : SL_OK;
}

static int longest_first(const void *a, const void *b) {
  return (((const line *)a)->seconds < ((const line *)b)->seconds) -
         (((const line *)a)->seconds > ((const line *)b)->seconds);
}

/* Sums kernel time by layer and operation over the kept records. *lines has room for groups->n. */
static sl_status break_down(const bench *b, const sl_groups *groups, line *lines, double *total) {
  sl_record *records;
  size_t n;
  for (int i = 0; i < groups->n; i++) lines[i] = (line){.group = &groups->group[i]};
  *total = 0;
  if (!b->job.recorder) return SL_OK;
  SL_TRY(sl_recorder_snapshot(b->job.recorder, &records, &n));
  for (size_t i = 0; i < n; i++) {
    const int node = records[i].node;
    if (records[i].kind != SL_RECORD_TASK || node < 0 || node >= sl_program_graph(b->job.program)->n_nodes) continue;
    line *l = &lines[groups->of[node]];
    const double seconds = 1e-9 * (double)(records[i].end - records[i].start);
    l->tasks++;
    l->seconds += seconds;
    *total += seconds;
  }
  free(records);
  qsort(lines, (size_t)groups->n, sizeof *lines, longest_first);
  return SL_OK;
}

/* A line's rate. cost: that of the group->tasks tasks of its group. */
static double per_second(const line *l, double cost) {
  return l->seconds > 0 ? cost * (double)l->tasks / l->group->tasks / l->seconds : 0;
}

static void print_energy(const bench *b) {
  static const char *const names[SL_ENERGY_PARTS] = {"packages", "GPUs"};
  const char *reason;
  for (int k = 0; k < SL_ENERGY_PARTS; k++) {
    if (k == SL_ENERGY_GPUS && sl_runtime_gpus(b->job.runtime) == 0) continue;
    sl_energy_joules(b->energy, (sl_energy_part)k, &reason);
    if (isfinite(b->joules[k]))
      printf("energy           %10.3f J    a step, all of the %s\n", b->joules[k], names[k]);
    else
      printf("energy                    -      of the %s: %s\n", names[k], reason ? reason : "not known on all ranks");
  }
}

/* package_j, gpu_j: joules of a step, or why they are unknown. */
static json_t *energy_json(const bench *b) {
  static const char *const names[SL_ENERGY_PARTS] = {"package_j", "gpu_j"}, *const whys[] = {"package_why", "gpu_why"};
  const char *reason;
  json_t *all = json_object();
  for (int k = 0; k < SL_ENERGY_PARTS; k++) {
    if (k == SL_ENERGY_GPUS && sl_runtime_gpus(b->job.runtime) == 0) continue;
    sl_energy_joules(b->energy, (sl_energy_part)k, &reason);
    if (isfinite(b->joules[k]))
      json_object_set_new(all, names[k], json_real(b->joules[k]));
    else
      json_object_set_new(all, whys[k], json_string(reason ? reason : "not known on all ranks"));
  }
  return all;
}

/* Reports whether StarPU's performance models have samples of these tasks, and the models' folder. */
static sl_status calibration_json(const bench *b, json_t **json) {
  const sl_program *p = b->job.program;
  int covered, kinds;
  SL_TRY(sl_calibration_covered(p, &covered, &kinds));
  json_t *files = json_object(), *names = json_array();
  const char *name;
  json_t *value;
  for (int i = 0; i < sl_program_graph(p)->n_nodes; i++) {
    char path[PATH_MAX];
    if (*sl_calibration_file(p, i, path, sizeof path) && access(path, R_OK) == 0)
      json_object_set_new(files, path, json_null()); /* each once */
  }
  json_object_foreach(files, name, value) json_array_append_new(names, json_string(name));
  json_decref(files);
  *json = json_pack("{s:s, s:i, s:i, s:o}", "machine", sl_runtime_model_host(b->job.runtime), "kinds", kinds,
                    "calibrated", covered, "files", names);
  return *json ? SL_OK : sl_no_memory("for the figures as JSON");
}

static void print_text(const bench *b, const line *lines, int n, double total, double median, double gflops) {
  const sl_share *share = sl_runtime_share(b->job.runtime);
  char text[SL__PREDICTION_TEXT];
  printf(
      "%s: batch %lld in %d leaves, %d shards, %d row blocks; %d ranks of %d workers (threads per worker %d), %d GPUs, "
      "policy %s, %s kernels, %lld steps\n",
      b->job.name, (long long)b->job.facts.plan.batch, b->job.facts.plan.leaves, b->job.facts.plan.shards,
      b->job.facts.plan.row_blocks, b->job.ranks.n, share->nworkers, share->threads_per_worker,
      sl_runtime_gpus(b->job.runtime), sl_runtime_sched(b->job.runtime), b->job.facts.plan.kernels, (long long)b->n);
  sl__job_print_choices(&b->job);
  if (*sl__balance_text(&b->job.balance)) printf("balance          %s\n", sl__balance_text(&b->job.balance));
  if (*sl__choice_text(&b->job.choice)) printf("choice           %s\n", sl__choice_text(&b->job.choice));
  printf("step time        %10.3f ms   median; 10%% of steps took less than %.3f, 10%% more than %.3f\n", 1e3 * median,
         1e3 * sl_quantile(b->seconds, (size_t)b->n, 0.1), 1e3 * sl_quantile(b->seconds, (size_t)b->n, 0.9));
  printf("samples/s        %10.0f\n", (double)b->job.facts.plan.batch / median);
  printf("GFLOP/s          %10.1f      %.2f GFLOP in %d tasks %sa step\n", gflops, 1e-9 * b->job.flops,
         sl_program_graph(b->job.program)->n_nodes, b->job.ranks.n > 1 ? "on rank 0, " : "");
  if (b->before > 0)
    printf("%s %10.1f %%    peak %.1f GFLOP/s: %.1f before, %.1f after\n",
           b->in_bf16 ? "of bf16 peak    " : "of sgemm peak   ", 200 * gflops / (b->before + b->after),
           (b->before + b->after) / 2, b->before, b->after);
  if (b->memory > 0) printf("memory           %10.1f GB/s   triad on all workers at once\n", b->memory);
  if (b->bound.mixed > 0)
    printf("of the bound     %10.1f %%    bound %.3f ms: critical path %.3f, area %.3f\n",
           100 * b->bound.mixed / median, 1e3 * b->bound.mixed, 1e3 * b->bound.critical_path, 1e3 * b->bound.area);
  if (b->prediction.seconds > 0)
    printf("predicted        %10.3f ms   %s\n", 1e3 * b->prediction.seconds,
           sl__prediction_text(&b->prediction, text, sizeof text));
  if (b->job.recorder) {
    printf("worker time      %10.1f %%    in kernels; idle:", 100 * b->usage.kernels);
    for (int c = 0; c < SL_IDLE_CAUSES; c++)
      printf("%s %s %.1f %%", c ? "," : "", sl_idle_cause_name((sl_idle_cause)c), 100 * b->usage.idle[c]);
    printf("\n");
  }
  printf("input            %10.1f %%    of the measured time, spent waiting for batches\n",
         100e9 * b->input / (double)(b->to - b->from));
  if (sl_transfers_nodes() > 1)
    printf("moved            %10.1f MB   a step, between %d memories\n", 1e-6 * (double)b->moved, sl_transfers_nodes());
  if (b->used > 0) printf("GPU memory       %10.1f MB   at most, predicted %.1f\n", 1e-6 * b->used, 1e-6 * b->on_gpus);
  if (b->planned > 0)
    printf(
        "  planned        %10.1f MB   copied in a step, as not all data fit into the GPUs' memory; in this order of "
        "tasks at least %.1f MB\n",
        1e-6 * b->planned, 1e-6 * b->least);
  print_energy(b);
  printf("peak memory      %10.1f MB   predicted %.1f\n", 1e-6 * (double)b->peak, 1e-6 * (double)b->job.predicted);
  if (b->o->quiet) return;
  printf("\n%-8s  %-16s  %-18s %6s  %8s  %9s  %8s\n", "phase", "layer", "operation", "tasks", "of time", "us a task",
         "GFLOP/s");
  for (int i = 0; i < n && lines[i].seconds > 0.002 * total; i++)
    printf("%-8s  %-16s  %-18s %6d  %6.1f %%  %9.1f  %8.1f\n", sl_phase_name(lines[i].group->phase),
           lines[i].group->layer, lines[i].group->op->name, lines[i].group->tasks, 100 * lines[i].seconds / total,
           1e6 * lines[i].seconds / (double)lines[i].tasks, 1e-9 * per_second(&lines[i], lines[i].group->cost.flops));
}

static sl_status print_json(const bench *b, const line *lines, int n, double total, double median, double gflops) {
  const sl_share *share = sl_runtime_share(b->job.runtime);
  json_t *operations = json_array(), *calibration;
  SL_TRY(calibration_json(b, &calibration));
  for (int i = 0; i < n; i++)
    json_array_append_new(
        operations, json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f}", "phase", sl_phase_name(lines[i].group->phase),
                              "layer", lines[i].group->layer, "operation", lines[i].group->op->name, "tasks",
                              lines[i].group->tasks, "percent", total > 0 ? 100 * lines[i].seconds / total : 0.0,
                              "task_s", lines[i].tasks ? lines[i].seconds / (double)lines[i].tasks : 0.0, "gflops",
                              1e-9 * per_second(&lines[i], lines[i].group->cost.flops), "gigabytes_per_s",
                              1e-9 * per_second(&lines[i], lines[i].group->cost.bytes)));
  json_t *all =
      json_pack("{s:s, s:o, s:s, s:o, s:i, s:i, s:i, s:i, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "model",
                b->job.facts.model->name, "size", sl_model_sizes_to_json(b->job.facts.model), "precision",
                sl_precision_names[b->job.facts.training.precision], "plan", sl_plan_to_json(&b->job.facts.plan),
                "ranks", b->job.ranks.n, "workers", share->nworkers, "threads_per_worker", share->threads_per_worker,
                "gpus", sl_runtime_gpus(b->job.runtime), "sched", sl_runtime_sched(b->job.runtime), "starpu",
                sl_runtime_starpu(), "steps", (json_int_t)b->n, "step_s", median, "step_s_p10",
                sl_quantile(b->seconds, (size_t)b->n, 0.1), "step_s_p90", sl_quantile(b->seconds, (size_t)b->n, 0.9),
                "samples_per_s", (double)b->job.facts.plan.batch / median, "gflops", gflops, "step_flops", b->job.flops,
                "tasks", sl_program_graph(b->job.program)->n_nodes);
  json_t *more =
      json_pack("{s:s, s:f, s:I, s:I, s:I, s:i, s:I, s:o, s:o, s:o, s:O}", "state_digest", b->digest, "input_percent",
                100e9 * b->input / (double)(b->to - b->from), "peak_memory_bytes", (json_int_t)b->peak,
                "predicted_peak_bytes", (json_int_t)b->job.predicted, "sent_bytes", (json_int_t)b->sent, "memory_nodes",
                sl_transfers_nodes(), "moved_bytes", (json_int_t)b->moved, "energy", energy_json(b), "calibration",
                calibration, "operations", operations, "environment", b->environment);
  if (all && b->used > 0) {
    json_object_set_new(all, "gpu_memory_bytes", json_real(b->used));
    json_object_set_new(all, "predicted_gpu_memory_bytes", json_real(b->on_gpus));
  }
  if (all && b->planned > 0) {
    json_object_set_new(all, "planned_moved_bytes", json_real(b->planned));
    json_object_set_new(all, "least_moved_bytes", json_real(b->least));
  }
  if (all && b->job.recorder) {
    json_t *idle = json_object();
    for (int c = 0; c < SL_IDLE_CAUSES; c++)
      json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)c), json_real(100 * b->usage.idle[c]));
    json_object_update_new(all,
                           json_pack("{s:f, s:o}", "kernel_percent", 100 * b->usage.kernels, "idle_percent", idle));
  }
  if (all && b->bound.mixed > 0)
    json_object_update_new(all, json_pack("{s:f, s:f, s:f}", "bound_s", b->bound.mixed, "critical_path_s",
                                          b->bound.critical_path, "area_s", b->bound.area));
  sl__prediction_add(&b->prediction, all);
  if (all && b->job.ranks.n > 1) json_object_set_new(all, "balance", sl__balance_json(&b->job.balance));
  if (all && b->before > 0)
    json_object_update_new(
        all, json_pack("{s:f, s:f, s:f, s:f}", b->in_bf16 ? "bf16_gflops_before" : "sgemm_gflops_before", b->before,
                       b->in_bf16 ? "bf16_gflops_after" : "sgemm_gflops_after", b->after, "percent_of_peak",
                       200 * gflops / (b->before + b->after), "triad_gigabytes_per_s", b->memory));
  if (!all || !more || json_object_update_new(all, more) != 0) {
    json_decref(all);
    return sl_no_memory("for the figures as JSON");
  }
  const sl_status status = sl_json_print(stdout, all, 9);
  json_decref(all);
  return status;
}

static sl_status report(bench *b) {
  sl_groups *groups;
  double total = 0;
  b->prediction = sl__predict_or_warn(&b->job, &b->machine);
  SL_TRY(sl_groups_create(b->job.network.graph, sl_program_graph(b->job.program), sl_program_schedule(b->job.program),
                          &groups));
  line *lines = calloc((size_t)groups->n + 1, sizeof *lines);
  sl_status status = lines ? break_down(b, groups, lines, &total) : sl_no_memory("for %d operations", groups->n);
  const double median = sl_median(b->seconds, (size_t)b->n), gflops = 1e-9 * b->job.flops / median;
  if (status == SL_OK && b->o->json)
    status = print_json(b, lines, groups->n, total, median, gflops);
  else if (status == SL_OK)
    print_text(b, lines, groups->n, total, median, gflops);
  free(lines);
  sl_groups_destroy(groups);
  return status;
}

sl_status sl__bench(sl__options *o, int *exit_code) {
  bench b = {.o = o};
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(prepare(&b));
  SL_TRY_OUT(measure(&b));
  if (b.job.ranks.rank == 0) SL_TRY_OUT(report(&b));
out:
  if (status != SL_OK) sl__ranks_fail(&b.job.ranks, sl__exit_code(status));
  sl_energy_close(b.energy);
  sl__job_close(&b.job);
  json_decref(b.environment);
  free(b.seconds);
  return status;
}
