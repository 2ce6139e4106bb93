/* starling graph: prints the tasks of a training step with their costs, buffers and the predicted peak memory, without
 * running them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/print.h"
#include "tasks/schedule/schedule.h"
#include "tasks/spread/print.h"
#include "tasks/spread/spread.h"
#include "tools/commands/commands.h"
#include "tools/machines/description.h"
#include "tools/mesh/predict.h"
#include "tools/run/job.h"
#include "tools/run/plan_choice.h"
#include "tools/run/session.h"
#include "tools/settings/workers.h"
#include "tools/simulate/node.h"

/* Describes the data: from the data set if one is named, else from the options. */
static sl_status find_data(const sl__options *o, const sl_model *model, sl_model_data *data) {
  if (!o->data) return sl__synthetic_data(o, model, data);
  sl_data opened;
  const sl_data_options options = {.model = model, .path = o->data, .length = o->length};
  SL_TRY(sl_data_open(&options, &opened));
  *data = opened.model;
  sl_data_close(&opened);
  return SL_OK;
}

/* Divides the cores that this process may use, as a run does. */
static sl_status find_workers(const sl__options *o, int *workers, int *threads) {
  hwloc_topology_t topology;
  sl_share share;
  if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0)
    return sl_fail(SL_ETOPOLOGY, "hwloc cannot read this machine's topology: give --workers");
  const sl_topology_request request = {.topology = topology,
                                       .quota = sl_cgroup_cpu_quota(""),
                                       .ranks = 1,
                                       .threads_per_worker = o->threads_per_worker > 0 ? (int)o->threads_per_worker : 0,
                                       .max_workers = sl_runtime_starpu_max_cpus()};
  sl_status status = sl_topology_divide(&request, &share);
  if (status == SL_OK) {
    *workers = share.nworkers;
    *threads = share.threads_per_worker;
    sl_share_free(&share);
  }
  hwloc_topology_destroy(topology);
  return status;
}

/* Reads --machine, and divides one node of it: all its cores and GPUs, unless fewer are asked for. */
static sl_status find_machine(const sl__options *o, const sl__workers *asked, sl__machine_description *machine,
                              int *workers, int *gpus) {
  const int threads = o->threads_per_worker > 0 ? (int)o->threads_per_worker : 1;
  SL_TRY(sl__machine_describe(o->described, machine));
  if (asked->gpus < 0) *gpus = machine->gpu.count;
  if (asked->cpus == 0) *workers = machine->cpu.cores / threads;
  if (*workers * threads > machine->cpu.cores || (asked->cpus == 0 && *workers == 0))
    return sl_fail(SL_EINVAL, "--machine %s: it has %d cores: too few for %d workers with %d each", machine->name,
                   machine->cpu.cores, *workers > 0 ? *workers : 1, threads);
  if (asked->cpus < 0 && *gpus == 0)
    return sl_fail(SL_EINVAL, "--machine %s: it has no GPU for --workers gpu", machine->name);
  if (*gpus > machine->gpu.count)
    return sl_fail(SL_EINVAL, "--machine %s: it has %d GPUs, fewer than --gpus %d", machine->name, machine->gpu.count,
                   *gpus);
  return SL_OK;
}

/* The machine of workers that lead teams of `threads` cores. */
static sl_machine of_teams(const sl__machine_description *described, int workers, int threads, int gpus) {
  sl_machine machine = sl__machine_of(described, workers, gpus);
  machine.kind[SL_KIND_CPU].flops *= threads;
  machine.kind[SL_KIND_CPU].half *= threads;
  return machine;
}

/* Makes the step graph of a model rank (placement.h) of the first data replica. */
static sl_status spread_first(const sl_graph *logical, const sl_plan *plan, const sl__mesh *mesh, int model_rank,
                              sl_pipeline pipe, const sl_placements *placements, sl_graph **step) {
  const int ranks = mesh->data;
  int *first = calloc((size_t)ranks + 1, sizeof *first);
  if (!first) return sl_no_memory("for the leaves of %d ranks", ranks);
  for (int r = 0; r < ranks; r++) first[r + 1] = first[r] + sl_leaves_of_rank(plan->leaves, r, ranks).n;
  const sl_status status = sl_spread(logical, plan,
                                     &(sl_division){.ranks = ranks,
                                                    .first = first,
                                                    .model_rank = model_rank,
                                                    .model_ranks = sl__mesh_model_ranks(mesh),
                                                    .tensor = mesh->tensor,
                                                    .pipe = pipe},
                                     placements, step);
  free(first);
  return status;
}

/* What is predicted of the ranks that share samples. keep: room for 3 values. */
static sl__mesh_job mesh_job(const sl__options *o, const sl__machine_description *described, const sl__mesh *mesh,
                             const sl_network *network, const sl_plan *plan, const sl_machine *machine,
                             sl_value *keep) {
  const int ranks = mesh->data * sl__mesh_model_ranks(mesh);
  keep[0] = network->loss, keep[1] = network->correct, keep[2] = network->count;
  sl__mesh_job job = {.logical = network->graph,
                      .plan = plan,
                      .mesh = *mesh,
                      .pipe = sl__pipeline_of(o),
                      .zero = (int)o->zero,
                      .keep = keep,
                      .n_keep = 3,
                      .machine = *machine,
                      .joined = sl__mesh_usual_network(machine, ranks, 1)};
  if (described)
    job.joined = sl__simulation_of(&(sl__simulated){.machine = *described, .nodes = 1, .ranks = ranks}).joined;
  return job;
}

static double program_bytes(const sl__mesh_step *s, const void *threads) {
  return s->bytes + s->scratch * *(const int *)threads;
}

static void print_mesh(const sl__mesh_steps *steps) {
  const sl_mesh_schedule *j = steps->joint;
  printf(
      "\nAll %d ranks that share samples, scheduled together: a step of %.3f ms. Workers are in tasks for %.1f %% of "
      "it; no task runs on a rank for %.1f %% (bubble) and, while a message or sum is under way, %.1f %%.\n",
      j->ranks, 1e3 * j->makespan, 100 * j->busy, 100 * j->bubble, 100 * j->exposed);
}

static json_t *mesh_to_json(const sl__mesh_steps *steps) {
  const sl_mesh_schedule *j = steps->joint;
  return json_pack("{s:f, s:f, s:f, s:f}", "predicted_step_s", j->makespan, "busy_percent", 100 * j->busy,
                   "bubble_percent", 100 * j->bubble, "exposed_percent", 100 * j->exposed);
}

sl_status sl__graph(sl__options *o, int *exit_code) {
  sl_model *model = NULL;
  sl_model_data data;
  sl_training training;
  sl_plan plan;
  sl_network network = {0};
  sl_placements *placements = NULL;
  sl_graph *step = NULL;
  sl_schedule *schedule = NULL;
  sl_memory *memory = NULL;
  sl_residence **residence = NULL;
  sl__mesh_steps *steps = NULL;
  char *keep = NULL, title[1024], name[SL_SIZES_TEXT];
  json_t *json = NULL, *transfers = NULL;
  sl__workers asked;
  sl__machine_description described;
  int workers = 0, gpus = 0, threads = o->threads_per_worker > 0 ? (int)o->threads_per_worker : 1;
  const int ranks = o->ranks > 0 ? (int)o->ranks : 1;
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(sl__workers_of(o, &asked));
  workers = asked.cpus, gpus = asked.gpus > 0 ? asked.gpus : 0;
  if (o->described) SL_TRY_OUT(find_machine(o, &asked, &described, &workers, &gpus));
  SL_TRY_OUT(sl__find_model(o->model, o->size, &model));
  SL_TRY_OUT(find_data(o, model, &data));
  sl__training_of(o, model, &training);
  SL_TRY_OUT(sl__plan_of(o, model, ranks, &plan));
  if (workers < 0 && gpus == 0) SL_TRY_OUT(sl_fail(SL_EINVAL, "--workers gpu: give the number of GPUs by --gpus N"));
  if (workers == 0) SL_TRY_OUT(find_workers(o, &workers, &threads));
  sl_machine machine = o->described ? of_teams(&described, workers > 0 ? workers : 0, threads, gpus)
                                    : sl_machine_default(workers > 0 ? workers : 0, threads, gpus);
  machine.fast = sl__gpu_kernels(o);
  if (!o->described) plan.tiles.blocks |= sl__job_prefers_blocks(o, training.precision, gpus);
  if (!o->described && plan.tiles.blocks) sl_machine_set_tiles(&machine);
  sl__mesh mesh;
  SL_TRY_OUT(sl__mesh_of(o, ranks, &mesh));
  SL_TRY_OUT(sl__pipe_is_there(o, &mesh));
  if (o->plan && strcmp(o->plan, "machine") == 0) {
    double gain;
    SL_TRY_OUT(sl__plan_choose(o, model, &training, &machine, &mesh, &plan, &gain));
  }
  SL_TRY_OUT(sl__settle_folds(&mesh, gpus > 0, &training));
  const int model_ranks = sl__mesh_model_ranks(&mesh);
  SL_TRY_OUT(sl_network_training(model, &data, &training, plan.batch, &network));
  if (o->stage >= model_ranks)
    SL_TRY_OUT(sl_blame(sl_fail(SL_EINVAL, "--stage %lld: with --mesh pipe=%d,tensor=%d there are 0 to %d",
                                (long long)o->stage, mesh.pipe, mesh.tensor, model_ranks - 1),
                        "stage"));
  sl_value kept[3];
  sl__mesh_job job = mesh_job(o, o->described ? &described : NULL, &mesh, &network, &plan, &machine, kept);
  if (sl__pipe_order_is_chosen(o) && mesh.pipe > 1) {
    const double room = o->described && described.cpu.memory > 0 ? described.cpu.memory : INFINITY;
    const int each = (workers > 0 ? workers : 0) * threads;
    SL_TRY_OUT(sl__mesh_choose_order(&job, room, program_bytes, &each, &job.pipe.order));
  }
  SL_TRY_OUT(sl_placements_create(network.graph,
                                  &(sl_placing){.ranks = mesh.data,
                                                .model_ranks = model_ranks,
                                                .tensor = mesh.tensor,
                                                .pipe = job.pipe,
                                                .keep = kept,
                                                .n_keep = 3,
                                                .zero = (int)o->zero,
                                                .window = sl_fetch_window(plan.micro_batches)},
                                  &placements));
  SL_TRY_OUT(spread_first(network.graph, &plan, &mesh, (int)o->stage, job.pipe, placements, &step));
  keep = calloc((size_t)step->n_values + 1, 1);
  if (!keep) SL_TRY_OUT(sl_no_memory("for %d values", step->n_values));
  for (sl_value v = 0; v < step->n_values; v++) {
    const sl_value l = step->value[v]->logical;
    keep[v] = l == network.loss || l == network.correct || l == network.count;
  }
  SL_TRY_OUT(sl_schedule_create(step, keep, &plan.tiles, &machine, &schedule));
  SL_TRY_OUT(sl_memory_plan(step, schedule, keep, 0.02, &memory));
  if (model_ranks > 1) SL_TRY_OUT(sl__mesh_predict(&job, &steps));
  if (gpus > 0) {
    residence = calloc((size_t)gpus, sizeof *residence);
    if (!residence) SL_TRY_OUT(sl_no_memory("for %d GPUs", gpus));
    const size_t bytes = o->gpu_memory > 0 ? (size_t)(1e6 * o->gpu_memory)
                         : o->described    ? (size_t)described.gpu.memory
                                           : SIZE_MAX;
    for (int i = 0; i < gpus; i++)
      SL_TRY_OUT(sl_residence_plan(step, schedule, memory, &machine, i, bytes, keep, &residence[i]));
    for (int i = 0; i < gpus; i++)
      if (residence[i]->most > bytes) SL_TRY_OUT(sl_residence_too_large(residence[i], step, bytes));
  }
  char samples[64];
  snprintf(title, sizeof title,
           "%s: a training step on %lld %s of %lld classes, %d leaves, %d shards, %d row blocks; %lld parameters",
           sl_model_text(model, name, sizeof name), (long long)plan.batch,
           sl_data_text(model->family->data, &data, samples, sizeof samples), (long long)data.classes, plan.leaves,
           plan.shards, plan.row_blocks, (long long)network.parameter_count);
  if (o->described) snprintf(title + strlen(title), sizeof title - strlen(title), "; predicted for %s", described.name);
  if (ranks > 1)
    snprintf(title + strlen(title), sizeof title - strlen(title), "; %s of %d ranks",
             model_ranks > 1 ? "one" : "the first", ranks);
  if (model_ranks > 1) {
    char text[SL_PLACEMENT_TEXT];
    snprintf(title + strlen(title), sizeof title - strlen(title), ", %s",
             sl_model_rank_text((int)o->stage, mesh.tensor, text));
  }
  enum { RUNTIME_BYTES = 20 << 20 }; /* of MPI, StarPU and the recorder in a real run */
  const sl_picture picture = {.title = title,
                              .logical = network.graph,
                              .step = step,
                              .schedule = schedule,
                              .memory = memory,
                              .tiles = plan.tiles,
                              .workers = workers > 0 ? workers : 0,
                              .gpus = gpus,
                              .residence = residence,
                              .threads = threads,
                              .tasks = o->tasks,
                              .process = (size_t)sl__resident_memory() + RUNTIME_BYTES,
                              .inputs = (size_t)sl__loader_bytes(&network, plan.batch)};
  if (o->dot) {
    SL_TRY_OUT(sl_print_dot(&picture, stdout));
  } else if (o->json) {
    SL_TRY_OUT(sl_picture_to_json(&picture, &json));
    if (ranks > 1) SL_TRY_OUT(sl_transfers_to_json(network.graph, placements, &transfers));
    if (transfers) json_object_set(json, "transfers", transfers);
    if (model_ranks > 1) {
      json_t *ranks_of_model;
      SL_TRY_OUT(sl_model_ranks_to_json(network.graph, placements, model_ranks, &ranks_of_model));
      json_object_set_new(json, "stages", ranks_of_model);
      json_object_set_new(json, "mesh", mesh_to_json(steps));
    }
    SL_TRY_OUT(sl_json_print(stdout, json, 9));
  } else {
    SL_TRY_OUT(sl_print_table(&picture, stdout));
    if (gpus > 0) sl__job_print_fast(step, sl__gpu_kernels(o), training.precision);
    if (model_ranks > 1) SL_TRY_OUT(sl_print_model_ranks(network.graph, placements, model_ranks, stdout));
    if (ranks > 1) SL_TRY_OUT(sl_print_transfers(network.graph, placements, stdout));
    if (model_ranks > 1) print_mesh(steps);
  }
out:
  json_decref(json);
  json_decref(transfers);
  for (int i = 0; residence && i < gpus; i++) sl_residence_destroy(residence[i]);
  free(residence), free(keep), free(model);
  sl_memory_destroy(memory);
  sl_schedule_destroy(schedule);
  sl_graph_destroy(step);
  sl_placements_destroy(placements);
  sl__mesh_steps_destroy(steps);
  if (network.graph) sl_network_destroy(&network);
  return status;
}
