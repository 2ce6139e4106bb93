/* Makes the step graphs of a mesh's ranks and schedules them together. */
#include "tools/mesh/predict.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/exchange/leaves.h"
#include "tasks/schedule/print.h"
#include "tasks/schedule/residence.h"
#include "tasks/schedule/schedule.h"
#include "tasks/spread/spread.h"

/* ---- the network ------------------------------------------------------------------------------------------------- */

sl_interconnect sl__mesh_usual_network(const sl_machine *m, int ranks, int nodes) {
  return (sl_interconnect){.ranks = ranks,
                           .nodes = nodes,
                           .shared = m->exchange,
                           .shared_latency = m->latency,
                           .latency = 5e-5,
                           .network = 1e9,
                           .congestion = 1,
                           .adapters = 1e9};
}

/* The most, if nodes have unequal numbers of ranks. */
static int ranks_of_node(const sl_interconnect *j) { return (j->ranks + j->nodes - 1) / j->nodes; }
/* Node of rank r of data replica d. */
static int node_of(const sl__mesh_job *job, int d, int r) {
  return (d * sl__mesh_model_ranks(&job->mesh) + r) / ranks_of_node(&job->joined);
}

/* The rate of each of `senders` ranks of a node that send to other nodes at the same time. */
static double share_of(const sl_interconnect *j, int senders) {
  return j->adapters > 0 ? fmin(j->network, j->adapters / senders) : j->network / senders;
}

/* What joins ranks a and b: two nodes if they are apart in any data replica. All ranks of a node may send at the same
 * time. */
static sl_interconnect pair_of(const sl__mesh_job *job, int a, int b) {
  sl_interconnect pair = job->joined;
  int apart = 0;
  for (int d = 0; d < job->mesh.data && !apart; d++) apart = node_of(job, d, a) != node_of(job, d, b);
  pair.ranks = 2, pair.nodes = 1 + apart;
  pair.network = share_of(&job->joined, ranks_of_node(&job->joined));
  return pair;
}

/* The interconnect of the data ranks with rank r's part of the model. They sum among themselves while the data ranks
 * with other parts do the same. */
static sl_interconnect group_of(const sl__mesh_job *job, int r) {
  sl_interconnect group = job->joined;
  const int local = ranks_of_node(&job->joined), model_ranks = sl__mesh_model_ranks(&job->mesh);
  group.ranks = job->mesh.data, group.nodes = 1;
  for (int d = 1; d < job->mesh.data; d++) group.nodes += node_of(job, d, r) != node_of(job, d - 1, r);
  group.network = share_of(&job->joined, local < model_ranks ? local : model_ranks);
  return group;
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

/* Whether the ranks have all values of an exchange in common memory. */
static int in_common(const sl__mesh_job *job, const sl_graph *step, const sl_step_exchange *e) {
  const sl_node *node = step->node[e->node];
  if (!job->common || e->move.kind != SL_EXCHANGE_COPY) return 0;
  for (int k = 0; k < node->n_in; k++)
    if (step->value[node->in[k]]->role != SL_ROLE_PARAMETER) return 0;
  return 1;
}

static sl_status list_exchanges(const sl__mesh_job *job, const sl_division *d, sl__mesh_step *s) {
  const int n = s->step->n_nodes, model_ranks = sl__mesh_model_ranks(&job->mesh);
  const sl_interconnect group = group_of(job, d->model_rank);
  sl_step_exchange *list = malloc(((size_t)n + 1) * sizeof *list);
  s->exchange = malloc(((size_t)n + 1) * sizeof *s->exchange);
  if (!list || !s->exchange) {
    free(list);
    return sl_no_memory("for the exchanges of %d tasks", n);
  }
  s->exchanges = sl_spread_exchanges(s->step, d, list);
  for (int k = 0; k < s->exchanges; k++) {
    const int peer = s->step->node[list[k].node]->message ? list[k].move.rank % model_ranks : -1;
    const sl_interconnect joined = peer >= 0 ? pair_of(job, d->model_rank, peer) : group;
    if (in_common(job, s->step, &list[k])) list[k].bytes = 0;
    s->exchange[k] = (sl_mesh_exchange){.node = list[k].node,
                                        .peer = peer,
                                        .seconds = sl_interconnect_seconds(&joined, &list[k].move, list[k].bytes),
                                        .work = sl_interconnect_work(&joined, &list[k].move, list[k].bytes)};
  }
  free(list);
  return SL_OK;
}

/* Finds the bytes that a GPU of a rank must hold, and the least time of its copies if not all data fit. */
static sl_status hold(const sl__mesh_job *job, const char *keep, sl__mesh_step *s) {
  const size_t room = job->gpu_memory > 0 ? (size_t)job->gpu_memory : SIZE_MAX;
  for (int i = 0; i < s->machine.kind[SL_KIND_GPU].workers; i++) {
    sl_residence *r;
    SL_TRY(sl_residence_plan(s->step, s->schedule, s->memory, &s->machine, i, room, keep, &r));
    s->gpu = fmax(s->gpu, (double)r->most);
    if (s->machine.link > 0) s->copies = fmax(s->copies, fmax(r->in, r->out) / s->machine.link);
    sl_residence_destroy(r);
  }
  return SL_OK;
}

/* Replaces the times of the planned machine's schedule by those of the rank's machine. Order and workers stay. */
static void set_times(sl__mesh_step *s) {
  for (int i = 0; i < s->step->n_nodes; i++) {
    const int on_gpu = s->schedule->gpus > 0 && s->schedule->worker[i] >= s->schedule->cpus;
    if (!s->step->node[i]->bucket)
      s->schedule->seconds[i] = sl_machine_seconds(&s->machine, s->step, s->step->node[i], &s->schedule->cost[i],
                                                   on_gpu ? SL_KIND_GPU : SL_KIND_CPU);
  }
}

static sl_status make_step(const sl__mesh_job *job, const sl_placements *placements, const int *first, int r,
                           sl__mesh_step *s) {
  const sl_division division = {.ranks = job->mesh.data,
                                .first = first,
                                .model_rank = r,
                                .model_ranks = sl__mesh_model_ranks(&job->mesh),
                                .tensor = job->mesh.tensor,
                                .pipe = job->pipe};
  char *keep = NULL;
  sl_status status = SL_OK;
  s->machine = job->machine;
  if (job->slower > 0 && node_of(job, 0, r) == 0) s->machine.slower = job->slower;
  SL_TRY_OUT(sl_spread(job->logical, job->plan, &division, placements, &s->step));
  keep = calloc((size_t)s->step->n_values + 1, 1);
  if (!keep) SL_TRY_OUT(sl_no_memory("for %d values", s->step->n_values));
  for (sl_value v = 0; v < s->step->n_values; v++)
    for (int k = 0; k < job->n_keep; k++) keep[v] |= s->step->value[v]->logical == job->keep[k];
  SL_TRY_OUT(
      sl_schedule_create(s->step, keep, &job->plan->tiles, job->planned ? job->planned : &s->machine, &s->schedule));
  SL_TRY_OUT(sl_memory_plan(s->step, s->schedule, keep, 0.02, &s->memory));
  SL_TRY_OUT(list_exchanges(job, &division, s));
  SL_TRY_OUT(hold(job, keep, s));
  if (job->planned) set_times(s);
  for (int i = 0; i < s->step->n_nodes; i++) s->flops += s->schedule->cost[i].flops;
  s->bytes = (double)sl_memory_of_program(s->step, s->memory);
  s->scratch = (double)sl_graph_scratch(s->step, &job->plan->tiles);
out:
  free(keep);
  return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* A lower bound on a rank's step: its longest path if it never waits for other ranks, or its tasks spread evenly over
 * its workers, whichever is longer. */
static sl_status bound(const sl__mesh_step *s, double busy, double *seconds) {
  double *end = calloc((size_t)s->step->n_nodes + 1, sizeof *end); /* of an exchange: at first its time */
  if (!end) return sl_no_memory("for the bound of %d tasks", s->step->n_nodes);
  for (int k = 0; k < s->exchanges; k++) end[s->exchange[k].node] = s->exchange[k].seconds;
  *seconds = busy;
  for (int i = 0; i < s->step->n_nodes; i++) {
    const int node = s->schedule->order[i];
    double begin = 0;
    for (int k = s->schedule->from[node]; k < s->schedule->from[node + 1]; k++)
      begin = fmax(begin, end[s->schedule->before[k]]);
    end[node] = begin + (s->step->node[node]->bucket ? end[node] : s->schedule->seconds[node]);
    *seconds = fmax(*seconds, end[node]);
  }
  free(end);
  return SL_OK;
}

static sl_status schedule(sl__mesh_steps *all) {
  sl_mesh_rank *rank = malloc((size_t)all->n * sizeof *rank);
  if (!rank) return sl_no_memory("for %d ranks", all->n);
  for (int r = 0; r < all->n; r++) {
    const sl__mesh_step *s = &all->rank[r];
    rank[r] = (sl_mesh_rank){.step = s->step,
                             .schedule = s->schedule,
                             .machine = &s->machine,
                             .exchange = s->exchange,
                             .exchanges = s->exchanges};
  }
  const sl_status status = sl_mesh_schedule_create(rank, all->n, &all->joint);
  free(rank);
  if (status != SL_OK) return status;
  all->seconds = all->joint->makespan;
  for (int r = 0; r < all->n; r++) {
    double least = 0;
    SL_TRY(bound(&all->rank[r], all->joint->rank[r].busy - all->joint->rank[r].taken, &least));
    all->bound = fmax(all->bound, least);
    all->seconds = fmax(all->seconds, all->rank[r].copies);
  }
  return SL_OK;
}

sl_status sl__mesh_predict(const sl__mesh_job *job, sl__mesh_steps **steps) {
  const int ranks = job->mesh.data;
  int *first = calloc((size_t)ranks + 1, sizeof *first);
  sl__mesh_steps *all = calloc(1, sizeof *all);
  sl_status status = SL_OK;
  *steps = NULL;
  if (all) all->rank = calloc((size_t)sl__mesh_model_ranks(&job->mesh), sizeof *all->rank);
  if (!first || !all || !all->rank) SL_TRY_OUT(sl_no_memory("for a mesh of %d ranks", job->joined.ranks));
  all->n = sl__mesh_model_ranks(&job->mesh);
  all->micro_batches = job->plan->micro_batches, all->pass_kinds = sl_pipe_pass_kinds(job->pipe.order);
  for (int r = 0; r < ranks; r++) first[r + 1] = first[r] + sl_leaves_of_rank(job->plan->leaves, r, ranks).n;
  SL_TRY_OUT(sl_placements_create(job->logical,
                                  &(sl_placing){.ranks = ranks,
                                                .model_ranks = all->n,
                                                .tensor = job->mesh.tensor,
                                                .pipe = job->pipe,
                                                .keep = job->keep,
                                                .n_keep = job->n_keep,
                                                .zero = job->zero,
                                                .window = sl_fetch_window(job->plan->micro_batches)},
                                  &all->placements));
  for (int r = 0; r < all->n; r++) SL_TRY_OUT(make_step(job, all->placements, first, r, &all->rank[r]));
  SL_TRY_OUT(schedule(all));
  *steps = all;
  all = NULL;
out:
  free(first);
  sl__mesh_steps_destroy(all);
  return status;
}

void sl__mesh_steps_destroy(sl__mesh_steps *all) {
  if (!all) return;
  for (int r = 0; all->rank && r < all->n; r++) {
    sl__mesh_step *s = &all->rank[r];
    free(s->exchange);
    sl_memory_destroy(s->memory);
    sl_schedule_destroy(s->schedule);
    sl_graph_destroy(s->step);
  }
  sl_mesh_schedule_destroy(all->joint);
  sl_placements_destroy(all->placements);
  free(all->rank), free(all);
}

double sl__mesh_node_bytes(const sl__mesh_steps *all, const sl_interconnect *j,
                           double (*bytes)(const sl__mesh_step *step, const void *arg), const void *arg) {
  const int local = ranks_of_node(j);
  double most = 0;
  for (int node = 0; node < j->nodes && node < all->n; node++) { /* later nodes repeat these runs of ranks */
    double here = 0;
    for (int k = 0; k < local && node * local + k < j->ranks; k++)
      here += bytes(&all->rank[(int)(((int64_t)node * local + k) % all->n)], arg);
    most = fmax(most, here);
  }
  return most;
}

sl_status sl__mesh_choose_order(const sl__mesh_job *job, double room,
                                double (*bytes)(const sl__mesh_step *step, const void *arg), const void *arg,
                                sl_pipe_order *order) {
  double least = INFINITY;
  *order = SL_PIPE_1F1B;
  for (int i = 0; i < SL_PIPE_ORDERS; i++) {
    sl__mesh_job mine = *job;
    sl__mesh_steps *steps;
    if (i == SL_PIPE_GPIPE) continue;
    mine.pipe.order = (sl_pipe_order)i;
    SL_TRY(sl__mesh_predict(&mine, &steps));
    double gpu = 0;
    for (int k = 0; k < steps->n; k++) gpu = fmax(gpu, steps->rank[k].gpu);
    const int fits = sl__mesh_node_bytes(steps, &job->joined, bytes, arg) <= room &&
                     (!(job->gpu_memory > 0) || gpu <= job->gpu_memory);
    if (fits && steps->seconds < 0.99 * least) least = steps->seconds, *order = mine.pipe.order;
    sl__mesh_steps_destroy(steps);
  }
  return SL_OK;
}
