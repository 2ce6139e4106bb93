/* Predicts a plan without StarPU: the step graph of rank 0, its list schedule and its plan of the memory, as `starling
 * graph` makes them. Exchanges take the time that simulations give them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/data_kind.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/print.h"
#include "tasks/schedule/residence.h"
#include "tasks/schedule/schedule.h"
#include "tasks/spread/spread.h"
#include "tools/mesh/predict.h"
#include "tools/plan/parts.h"
#include "tools/run/times.h"
#include "tools/settings/model.h"
#include "tools/settings/workers.h"
#include "tools/simulate/node.h"

enum { BUCKET = 2 << 20 }; /* bytes that one exchange moves */

/* The logical graph depends on batch, recomputation, folds and kind of workers only, so neighbours in the search share
 * it. */
static sl_status build(sl__planning *s, const sl__candidate *c) {
  sl_training training = s->training;
  if (s->network.graph && s->built_batch == c->v[SL__BATCH] && s->built_recompute == c->v[SL__RECOMPUTE] &&
      s->built_tensor == c->v[SL__TENSOR] && s->built_workers == c->v[SL__WORKERS])
    return SL_OK;
  if (s->network.graph) sl_network_destroy(&s->network);
  s->network = (sl_network){0};
  training.recompute = (sl_recompute)c->v[SL__RECOMPUTE];
  /* Ranks that divide no products divide no positions. */
  if (c->v[SL__TENSOR] <= 1 && training.folds <= 1) training.sequence_parallel = SL_SEQUENCE_PARALLEL_OFF;
  const sl__mesh mesh = {.tensor = (int)c->v[SL__TENSOR]};
  SL_TRY(sl__settle_folds(&mesh, c->v[SL__WORKERS] != SL__ONLY_CPU, &training));
  SL_TRY(sl_network_training(s->model, &s->data, &training, c->v[SL__BATCH], &s->network));
  s->built_batch = c->v[SL__BATCH], s->built_recompute = c->v[SL__RECOMPUTE], s->built_tensor = c->v[SL__TENSOR];
  s->built_workers = c->v[SL__WORKERS];
  return SL_OK;
}

/* Bytes that no plan avoids: parameters; gradients, if clipping needs all of them at once; the optimizer's state. */
static void count(const sl__planning *s, sl__prediction *p) {
  const sl_graph *g = s->network.graph;
  for (sl_value v = 0; v < g->n_values; v++) {
    const double bytes = (double)sl_value_bytes(g->value[v]);
    if (g->value[v]->role == SL_ROLE_PARAMETER) p->replicated += bytes * (s->network.clip != SL_NONE ? 2 : 1);
    if (g->value[v]->role == SL_ROLE_STATE) p->state += bytes;
  }
}

static sl_machine machine_of(const sl__planning *s, const sl__simulated *job) {
  sl_machine m = sl__simulated_machine(job);
  const sl_simulation simulation = sl__simulation_of(job);
  if (s->times) sl__times_apply(s->times, &m);
  /* The cost of an exchange counts each byte twice, read and written. */
  if (job->ranks > 1)
    m.exchange = 2.0 * BUCKET /
                 sl_interconnect_seconds(&simulation.joined,
                                         &(sl_exchange_move){.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_ALL}, BUCKET);
  return m;
}

/* Busy time of workers and of the exchanges. */
static void add_up(const sl_graph *step, const sl_schedule *schedule, int workers, sl__prediction *p) {
  double busy = 0;
  for (int i = 0; i < step->n_nodes; i++) *(step->node[i]->bucket ? &p->exchanging : &busy) += schedule->seconds[i];
  p->busy = schedule->makespan > 0 ? fmin(busy / (workers * schedule->makespan), 1) : 0;
}

static void judge(const sl__planning *s, sl__prediction *p) {
  const double node = p->node - s->memory, gpu = p->gpu - s->gpu_memory;
  p->over = fmax(fmax(node, gpu), 0);
  p->of_gpu = gpu > node && gpu > 0;
}

/* Finds the bytes that a GPU must hold. Raises the step's time to the least time of the copies by the plan of its
 * memory. */
static sl_status hold(const sl__planning *s, const sl_graph *step, const sl_schedule *schedule, const sl_memory *memory,
                      const sl_machine *machine, const char *keep, sl__prediction *p) {
  for (int i = 0; i < machine->kind[SL_KIND_GPU].workers; i++) {
    sl_residence *r;
    SL_TRY(sl_residence_plan(step, schedule, memory, machine, i, (size_t)s->gpu_memory, keep, &r));
    p->gpu = fmax(p->gpu, fmax((double)r->most, (double)r->peak));
    if (machine->link > 0) p->seconds = fmax(p->seconds, fmax(r->in, r->out) / machine->link);
    sl_residence_destroy(r);
  }
  return SL_OK;
}

static sl_status predict(sl__planning *s, sl__candidate *c, const sl__simulated *job, const sl_plan *plan) {
  const sl_network *network = &s->network;
  sl_placements *placements = NULL;
  sl_graph *step = NULL;
  sl_schedule *schedule = NULL;
  sl_memory *memory = NULL;
  char *keep = NULL;
  sl__prediction *p = &c->p;
  sl_status status = SL_OK;
  const int ranks = job->ranks, local = ranks / job->nodes;
  int *first = calloc((size_t)ranks + 1, sizeof *first);
  sl_machine machine = machine_of(s, job);
  if (!first) return sl_no_memory("for the leaves of %d ranks", ranks);
  for (int r = 0; r < ranks; r++) first[r + 1] = first[r] + sl_leaves_of_rank(plan->leaves, r, ranks).n;
  machine.fast = sl__gpu_kernels(s->o);
  SL_TRY_OUT(sl_placements_create(
      network->graph,
      &(sl_placing){.ranks = ranks, .zero = (int)c->v[SL__ZERO], .window = sl_fetch_window(plan->micro_batches)},
      &placements));
  SL_TRY_OUT(sl_spread(network->graph, plan, &(sl_division){.ranks = ranks, .first = first}, placements, &step));
  keep = calloc((size_t)step->n_values + 1, 1);
  if (!keep) SL_TRY_OUT(sl_no_memory("for %d values", step->n_values));
  for (sl_value v = 0; v < step->n_values; v++) {
    const sl_value l = step->value[v]->logical;
    keep[v] = l == network->loss || l == network->correct || l == network->count;
  }
  SL_TRY_OUT(sl_schedule_create(step, keep, &plan->tiles, &machine, &schedule));
  SL_TRY_OUT(sl_memory_plan(step, schedule, keep, 0.02, &memory));
  p->tasks = step->n_nodes;
  p->seconds = schedule->makespan;
  add_up(step, schedule, job->share.cpus + job->share.gpus, p);
  p->node = local * ((double)sl_memory_of_program(step, memory) +
                     (double)sl_graph_scratch(step, &plan->tiles) * job->share.cpus * job->threads +
                     sl__simulated_beside(job, network, plan->batch / ranks));
  SL_TRY_OUT(hold(s, step, schedule, memory, &machine, keep, p));
  judge(s, p);
  p->valid = 1;
  s->work += step->n_nodes;
out:
  free(first), free(keep);
  sl_memory_destroy(memory);
  sl_schedule_destroy(schedule);
  sl_graph_destroy(step);
  sl_placements_destroy(placements);
  return status;
}

/* The facts from which rank_bytes computes the memory of a rank. */
typedef struct beside {
  const sl__simulated *job;
  double beside; /* bytes besides its program */
} beside;

static double rank_bytes(const sl__mesh_step *step, const void *arg) {
  const beside *b = arg;
  return step->bytes + step->scratch * b->job->share.cpus * b->job->threads + b->beside;
}

/* A plan whose ranks share samples. */
static sl_status predict_mesh(sl__planning *s, sl__candidate *c, const sl__simulated *job, const sl_plan *plan) {
  const sl_network *network = &s->network;
  const sl_value keep[] = {network->loss, network->correct, network->count};
  const sl__mesh mesh = {.data = sl__candidate_ranks(c) / sl__candidate_model_ranks(c),
                         .pipe = (int)c->v[SL__PIPE],
                         .tensor = (int)c->v[SL__TENSOR]};
  const sl_simulation simulation = sl__simulation_of(job);
  sl__mesh_job wanted = {.logical = network->graph,
                         .plan = plan,
                         .mesh = mesh,
                         .pipe = {.order = (sl_pipe_order)c->v[SL__ORDER], .chunks = (int)c->v[SL__CHUNKS]},
                         .zero = (int)c->v[SL__ZERO],
                         .keep = keep,
                         .n_keep = 3,
                         .machine = machine_of(s, job),
                         .joined = simulation.joined,
                         .gpu_memory = s->gpu_memory};
  const beside other = {.job = job, .beside = sl__simulated_beside(job, network, plan->batch / mesh.data)};
  sl__prediction *p = &c->p;
  sl__mesh_steps *steps;
  wanted.machine.fast = sl__gpu_kernels(s->o);
  const sl_machine planned = sl__simulated_planned(job, &wanted.machine, plan);
  wanted.planned = &planned;
  SL_TRY(sl__mesh_predict(&wanted, &steps));
  p->seconds = steps->seconds;
  p->busy = fmin(steps->joint->busy, 1);
  for (int r = 0; r < steps->n; r++) {
    const sl__mesh_step *step = &steps->rank[r];
    double exchanging = 0;
    for (int k = 0; k < step->exchanges; k++) exchanging += step->exchange[k].seconds;
    p->exchanging = fmax(p->exchanging, exchanging);
    p->gpu = fmax(p->gpu, step->gpu);
    if (step->step->n_nodes > p->tasks) p->tasks = step->step->n_nodes;
    s->work += step->step->n_nodes;
  }
  p->node = sl__mesh_node_bytes(steps, &simulation.joined, rank_bytes, &other);
  judge(s, p);
  p->valid = 1;
  sl__mesh_steps_destroy(steps);
  return SL_OK;
}

/* Whether the ranks can be divided so. On one stage, orders, runs of layers and messages make no difference, so only
 * the first value of each is accepted. Ranks that divide products exchange four times in a block, so they stay on a
 * node, unless the options say otherwise. */
static int fits_mesh(const sl__planning *s, const sl__candidate *c) {
  const int ranks = sl__candidate_ranks(c), model_ranks = sl__candidate_model_ranks(c);
  sl__mesh asked;
  if (c->v[SL__PIPE] == 1 && !c->standard &&
      (c->v[SL__ORDER] != s->axis[SL__ORDER].value[0] || c->v[SL__CHUNKS] != s->axis[SL__CHUNKS].value[0] ||
       c->v[SL__PARTS] != s->axis[SL__PARTS].value[0]))
    return 0;
  if (c->v[SL__CHUNKS] > 1 && c->v[SL__PIPE] > 1 && c->v[SL__ORDER] != SL_PIPE_GPIPE &&
      c->v[SL__MICRO] % c->v[SL__PIPE])
    return 0;
  if (s->o->mesh && *s->o->mesh)
    return sl__mesh_of(s->o, ranks, &asked) == SL_OK && asked.pipe == c->v[SL__PIPE] &&
           asked.tensor == c->v[SL__TENSOR];
  if (model_ranks == 1) return 1;
  return model_ranks <= SL_MAX_MODEL_RANKS && ranks % model_ranks == 0 &&
         (c->v[SL__ZERO] == 0 || ranks > model_ranks || s->o->plan_zero >= 0) &&
         c->v[SL__LOCAL] % c->v[SL__TENSOR] == 0;
}

/* Batch normalisation over the samples of a leaf learns little from a few of them. */
static int normalises_few(const sl__planning *s, const sl__options *o) {
  enum { FEW = 16 };
  const sl_graph *g = s->network.graph;
  if (s->training.batchnorm != SL_BATCHNORM_LEAF || s->o->leaves > 0 || o->batch / o->leaves >= FEW) return 0;
  for (int i = 0; i < g->n_nodes; i++)
    if (strncmp(g->node[i]->op->name, "bn_", 3) == 0) return 1;
  return 0;
}

/* A plan that cannot be built is skipped; running out of memory ends the search. */
static sl_status leave_out(sl_status status) { return status == SL_ENOMEM ? status : SL_OK; }

sl_status sl__screen(sl__planning *s, sl__candidate *c, int exact) {
  const int ranks = sl__candidate_ranks(c), model_ranks = sl__candidate_model_ranks(c);
  sl__candidate_name_mesh(c);
  const sl__options o = sl__candidate_options(s, c);
  sl__simulated job;
  sl_plan plan;
  c->p = (sl__prediction){0};
  if (c->v[SL__ZERO] && ranks == 1 && s->o->plan_zero <= 0) return SL_OK; /* one rank has nothing to divide */
  if (!fits_mesh(s, c)) return SL_OK;
  if (o.leaves > o.batch || o.leaves % (ranks / model_ranks) || o.leaves % c->v[SL__MICRO]) return SL_OK;
  if (model_ranks > 1 && o.leaves / (ranks / model_ranks) % c->v[SL__MICRO]) return SL_OK;
  sl_status status = sl__plan_of(&o, s->model, ranks, &plan);
  if (status == SL_OK) status = sl__simulated_of(&o, &job);
  if (status != SL_OK) return leave_out(status);
  status = build(s, c);
  if (status != SL_OK) return model_ranks > 1 ? leave_out(status) : status; /* not every model can be divided so */
  if (!c->standard && normalises_few(s, &o)) return SL_OK;
  count(s, &c->p);
  const int kept = c->v[SL__ZERO] == SL_ZERO_PARAMETERS ? ranks : model_ranks;
  const double least =
      (double)c->v[SL__LOCAL] * (c->p.replicated / kept + c->p.state / (c->v[SL__ZERO] ? ranks : model_ranks));
  if (!exact && least > s->memory) {
    c->p.valid = c->p.rough = 1;
    c->p.node = least;
    judge(s, &c->p);
    return SL_OK;
  }
  return leave_out(model_ranks > 1 ? predict_mesh(s, c, &job, &plan) : predict(s, c, &job, &plan));
}
