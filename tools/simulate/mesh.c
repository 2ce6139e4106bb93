/* Simulates a mesh. StarPU in SimGrid is one rank, and ranks that share samples are not alike: each stage of a pipeline
 * waits for the others. So all of them are scheduled together by predictions (tools/mesh/predict.h), and StarPU and its
 * policies take no part. */
#include "tools/simulate/mesh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/trace/idle.h"
#include "tools/mesh/predict.h"
#include "tools/mesh/timeline.h"
#include "tools/run/session.h"
#include "tools/run/times.h"
#include "tools/settings/model.h"
#include "tools/settings/workers.h"

typedef struct run {
  const sl__options *o;
  const sl__simulated *job;
  const sl__mesh *mesh;
  sl_model *model;
  char name[SL_SIZES_TEXT];
  sl_model_data data;
  sl_training training;
  sl_plan plan;
  sl_machine machine;
  sl_times *times; /* measured; NULL: none */
  sl_network network;
  sl__mesh_steps *steps;
  sl_pipe_order order;
  int tasks;     /* of the rank that has most */
  double flops;  /* of a step, over all ranks */
  double memory; /* bytes of the rank that needs most */
} run;

static double rank_bytes(const run *r, const sl__mesh_step *s) {
  return s->bytes + s->scratch * r->job->share.cpus * r->job->threads +
         sl__simulated_beside(r->job, &r->network, r->plan.batch / r->mesh->data);
}

static double bytes_of(const sl__mesh_step *s, const void *arg) { return rank_bytes(arg, s); }

static sl_status check(const sl__options *o) {
  if (o->sched || o->sched_lib || o->no_priorities)
    return sl_blame(
        sl_fail(SL_EINVAL,
                "a mesh with stages or tensor ranks is simulated by its predicted schedule, in which StarPU's policies "
                "take no part: leave --%s out",
                o->sched       ? "sched"
                : o->sched_lib ? "sched-lib"
                               : "no-priorities"),
        "mesh");
  return SL_OK;
}

static sl_status read_times(run *r) {
  if (!r->job->machine.times[0]) return SL_OK;
  SL_TRY(sl_times_create(&r->times));
  SL_TRY(sl__times_read(r->job->machine.times, &(sl__times_of){r->job->threads, r->job->kernels, NULL}, r->times));
  sl__times_apply(r->times, &r->machine);
  return SL_OK;
}

static sl_status prepare(run *r) {
  const sl__options *o = r->o;
  SL_TRY(check(o));
  SL_TRY(sl__find_model(o->model, o->size, &r->model));
  sl_model_text(r->model, r->name, sizeof r->name);
  SL_TRY(sl__synthetic_data(o, r->model, &r->data));
  sl__training_of(o, r->model, &r->training);
  SL_TRY(sl__plan_of(o, r->model, r->job->ranks, &r->plan));
  if (r->plan.leaves < r->mesh->data) /* training needs a leaf for each rank, because all ranks divide an evaluation */
    return sl_fail(SL_EINVAL, "%d leaves cannot be divided among %d ranks", r->plan.leaves, r->mesh->data);
  SL_TRY(sl__settle_folds(r->mesh, r->job->share.gpus > 0, &r->training));
  r->machine = sl__simulated_machine(r->job);
  r->machine.fast = sl__gpu_kernels(o);
  SL_TRY(read_times(r));
  return sl_network_training(r->model, &r->data, &r->training, r->plan.batch, &r->network);
}

/* A rank on a GPU that cannot hold one of its tasks has no schedule. */
static sl_status check_gpus(const run *r, double room) {
  for (int i = 0; i < r->steps->n; i++)
    if (room > 0 && r->steps->rank[i].gpu > room) {
      char text[SL_PLACEMENT_TEXT];
      return sl_blame(sl_fail(SL_EINVAL,
                              "%s: a task needs %.3f GB of a GPU's memory at once, and there are %.3f: more shards "
                              "make tasks smaller",
                              sl_model_rank_text(i, r->mesh->tensor, text), 1e-9 * r->steps->rank[i].gpu, 1e-9 * room),
                      "shards");
    }
  return SL_OK;
}

static sl_status predict(run *r) {
  const sl_simulation simulation = sl__simulation_of(r->job);
  const double least = 1e6 * r->o->gpu_memory, all = r->job->machine.gpu.memory;
  const sl_machine planned = sl__simulated_planned(r->job, &r->machine, &r->plan);
  sl__mesh_job job = {.logical = r->network.graph,
                      .plan = &r->plan,
                      .mesh = *r->mesh,
                      .pipe = sl__pipeline_of(r->o),
                      .zero = (int)r->o->zero,
                      .keep = &r->network.loss,
                      .n_keep = 1,
                      .machine = r->machine,
                      .planned = &planned,
                      .slower = r->o->slow_node,
                      .joined = simulation.joined,
                      .gpu_memory = least > 0 && least < all ? least : all};
  if (sl__pipe_order_is_chosen(r->o) && r->mesh->pipe > 1)
    SL_TRY(sl__mesh_choose_order(&job, r->job->machine.cpu.memory > 0 ? r->job->machine.cpu.memory : INFINITY, bytes_of,
                                 r, &job.pipe.order));
  r->order = job.pipe.order;
  SL_TRY(sl__mesh_predict(&job, &r->steps));
  SL_TRY(check_gpus(r, job.gpu_memory));
  for (int i = 0; i < r->steps->n; i++) {
    const sl__mesh_step *s = &r->steps->rank[i];
    r->flops += s->flops * r->mesh->data;
    r->memory = fmax(r->memory, rank_bytes(r, s));
    if (s->step->n_nodes > r->tasks) r->tasks = s->step->n_nodes;
  }
  return SL_OK;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static double peak(const run *r) { return sl__simulated_peak(r->job, r->training.precision); }
static double watts(const run *r) { return sl__simulated_watts(r->job, r->steps->joint->busy, r->o->slow_node); }

/* Idle time by this cause, in percent of the workers' time; 0 for causes that a prediction does not know. */
static double idle_percent(const run *r, int cause) {
  const sl_mesh_schedule *j = r->steps->joint;
  if (cause == SL_IDLE_EXCHANGE) return 100 * j->exposed;
  return cause == SL_IDLE_DEPENDENCY ? 100 * fmax(0, 1 - j->busy - j->exposed) : 0;
}

static void print_ranks(const run *r) {
  const sl_mesh_schedule *j = r->steps->joint;
  printf("\n%-20s %8s %10s %8s %8s %8s %11s\n", "rank", "tasks", "GFLOP", "busy", "exposed", "bubble", "memory MB");
  for (int i = 0; i < j->ranks; i++) {
    const sl__mesh_step *s = &r->steps->rank[i];
    char text[SL_PLACEMENT_TEXT];
    printf("%-20s %8d %10.2f %7.1f%% %7.1f%% %7.1f%% %11.1f\n", sl_model_rank_text(i, r->mesh->tensor, text),
           s->step->n_nodes, 1e-9 * s->flops, 100 * j->rank[i].busy / j->makespan,
           100 * j->rank[i].exposed / j->makespan, 100 * j->rank[i].bubble / j->makespan, 1e-6 * (rank_bytes(r, s)));
  }
}

static void print_text(const run *r) {
  const sl__machine_description *m = &r->job->machine;
  const sl_mesh_schedule *j = r->steps->joint;
  const double seconds = r->steps->seconds;
  printf(
      "%s: batch %lld in %d leaves, %d shards, %d row blocks, %d micro-batches; predicted on %s: %d nodes, %d ranks "
      "(data %d, pipe %d, tensor %d) of %d CPU workers (threads per worker %d) and %d GPUs\n",
      r->name, (long long)r->plan.batch, r->plan.leaves, r->plan.shards, r->plan.row_blocks, r->plan.micro_batches,
      m->name, r->job->nodes, r->job->ranks, r->mesh->data, r->mesh->pipe, r->mesh->tensor, r->job->share.cpus,
      r->job->threads, r->job->share.gpus);
  printf("step time        %10.3f ms   by the joint schedule of the %d ranks that share samples\n", 1e3 * seconds,
         j->ranks);
  printf("samples/s        %10.0f\n", (double)r->plan.batch / seconds);
  printf("GFLOP/s          %10.1f      %.2f GFLOP a step\n", 1e-9 * r->flops / seconds, 1e-9 * r->flops);
  printf("of the peak      %10.1f %%    %.1f GFLOP/s in %s\n", 100 * r->flops / seconds / peak(r), 1e-9 * peak(r),
         sl__simulated_precision(r->job, r->training.precision));
  printf("of the bound     %10.1f %%    bound %.3f ms: the longest path or the work of one rank\n",
         100 * r->steps->bound / seconds, 1e3 * r->steps->bound);
  printf(
      "worker time      %10.1f %%    in tasks; no task runs on a rank: bubble %.1f %%, exposed messages and sums %.1f "
      "%%\n",
      100 * j->busy, 100 * j->bubble, 100 * j->exposed);
  printf("memory           %10.1f MB   predicted peak of the rank that needs most\n", 1e-6 * r->memory);
  if (isfinite(watts(r))) printf("energy           %10.3f J    a step\n", watts(r) * seconds);
  if (m->price > 0)
    printf("price            %10.4f %s  for 1000 samples\n",
           m->price * r->job->nodes * seconds / 3.6 / (double)r->plan.batch, m->currency);
  if (!r->o->quiet) print_ranks(r);
}

static json_t *ranks_to_json(const run *r) {
  json_t *all = json_array();
  const sl_mesh_schedule *j = r->steps->joint;
  for (int i = 0; i < j->ranks; i++) {
    const sl__mesh_step *s = &r->steps->rank[i];
    json_array_append_new(
        all,
        json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "stage", i / r->mesh->tensor, "part", i % r->mesh->tensor,
                  "tasks", s->step->n_nodes, "flops", s->flops, "busy_percent", 100 * j->rank[i].busy / j->makespan,
                  "exposed_percent", 100 * j->rank[i].exposed / j->makespan, "bubble_percent",
                  100 * j->rank[i].bubble / j->makespan, "predicted_peak_bytes", rank_bytes(r, s)));
  }
  return all;
}

static sl_status print_json(const run *r) {
  const sl__machine_description *m = &r->job->machine;
  const double seconds = r->steps->seconds;
  json_t *idle = json_object();
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)c), json_real(idle_percent(r, c)));
  json_t *all = json_pack("{s:s, s:o, s:o, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "model",
                          r->model->name, "size", sl_model_sizes_to_json(r->model), "plan", sl_plan_to_json(&r->plan),
                          "simulated", 1, "machine", m->name, "nodes", r->job->nodes, "ranks", r->job->ranks, "workers",
                          r->job->share.cpus, "threads_per_worker", r->job->threads, "gpus", r->job->share.gpus,
                          "steps", 1, "step_s", seconds, "samples_per_s", (double)r->plan.batch / seconds, "gflops",
                          1e-9 * r->flops / seconds, "step_flops", r->flops, "percent_of_peak",
                          100 * r->flops / seconds / peak(r));
  json_t *more = json_pack(
      "{s:{s:i, s:i, s:i, s:s}, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:i, s:I}", "mesh", "data", r->mesh->data, "pipe",
      r->mesh->pipe, "tensor", r->mesh->tensor, "order", sl__pipe_orders[r->order], "bound_s", r->steps->bound,
      "predicted_step_s", seconds, "kernel_percent", 100 * r->steps->joint->busy, "bubble_percent",
      100 * r->steps->joint->bubble, "exposed_percent", 100 * r->steps->joint->exposed, "idle_percent", idle, "stages",
      ranks_to_json(r), "tasks", r->tasks, "predicted_peak_bytes", (json_int_t)r->memory);
  if (!all || !more || json_object_update_new(all, more) != 0) {
    json_decref(all);
    return sl_no_memory("for the figures as JSON");
  }
  if (isfinite(watts(r))) json_object_set_new(all, "step_j", json_real(watts(r) * seconds));
  json_object_set_new(all, "micro_batches", json_integer(r->plan.micro_batches));
  json_object_set_new(all, "process_peak_bytes", json_integer(sl__peak_memory()));
  const sl_status status = sl_json_print(stdout, all, 9);
  json_decref(all);
  return status;
}

sl_status sl__simulate_mesh(const sl__options *o, const sl__simulated *simulated, const sl__mesh *mesh) {
  run r = {.o = o, .job = simulated, .mesh = mesh};
  sl_status status = SL_OK;
  SL_TRY_OUT(prepare(&r));
  SL_TRY_OUT(predict(&r));
  if (o->out) SL_TRY_OUT(sl__mesh_timelines(r.steps, r.name, simulated->machine.name, o->out));
  if (o->json)
    SL_TRY_OUT(print_json(&r));
  else
    print_text(&r);
out:
  sl__mesh_steps_destroy(r.steps);
  if (r.network.graph) sl_network_destroy(&r.network);
  sl_times_destroy(r.times);
  free(r.model);
  return status;
}
