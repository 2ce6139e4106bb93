/* Lowering: the step graph becomes StarPU handles and tasks, which every step submits again. */
#include "tasks/starpu/program.h"

#include <config.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "runtime/machine/comm.h"
#include "runtime/machine/transfers.h"
#include "runtime/machine/vectors.h"
#include "tasks/graph/init.h"
#include "tasks/graph/storage.h"
#include "tasks/spread/spread.h"
#include "tasks/starpu/codelet.h"
#include "tasks/starpu/device.h"
#include "tasks/starpu/exchange.h"
#include "tasks/starpu/inputs.h"
#include "tasks/starpu/lowered.h"
#include "tasks/starpu/residence.h"
#include "tasks/starpu/simulated.h"

/* --- binding values to memory ------------------------------------------------------------------------------------ */

static sl_status check_tensor(const sl_tensor *t, const sl_value_info *v) {
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  if (t->dtype == v->dtype && sl_shape_equal(&t->shape, &v->shape)) return SL_OK;
  return sl_fail(SL_ESHAPE, "tensor '%s' is %s %s, but the model needs %s %s", v->name, sl_dtype_name(t->dtype),
                 sl_shape_text(&t->shape, a, sizeof a), sl_dtype_name(v->dtype), sl_shape_text(&v->shape, b, sizeof b));
}

/* Reserves shared memory for parameters that only one rank updates, which saves copying them. Requires that the store
 * has none of them yet. */
static sl_status reserve_common(sl_program *p, const sl_graph *logical, int *common) {
  const sl_placements *placements = p->placements;
  size_t bytes = 0;
  *common = placements->n_owned > 0 && p->model_ranks == 1 && p->exchanges && sl__exchanges_share(p->exchanges);
  for (int i = 0; *common && i < placements->n_owned; i++) {
    const sl_value_info *v = logical->value[placements->owned[i]];
    if (sl_store_find(p->store, v->name)) *common = 0;
    bytes += sl_store_common_bytes(v->dtype, &v->shape);
  }
  if (!*common) return SL_OK;
  const sl_status status = sl_store_reserve_common(p->store, p->runtime, bytes);
  if (status == SL_ENOMEM) *common = 0;
  return *common ? status : SL_OK;
}

/* Finds the rank that has each parameter of the store; -1: all ranks, or the store lacks it. The caller frees *holder.
 */
static sl_status find_holders(const sl_program *p, const sl_graph *logical, int **holder, int *common) {
  *holder = malloc(((size_t)logical->n_values + 1) * sizeof **holder);
  if (!*holder) return sl_no_memory("to place %d values", logical->n_values);
  for (sl_value v = 0; v < logical->n_values; v++) {
    const sl_tensor *t =
        logical->value[v]->role == SL_ROLE_TEMPORARY ? NULL : sl_store_find(p->store, logical->value[v]->name);
    (*holder)[v] = t ? t->owner : -1;
    *common |= t && t->common;
  }
  return SL_OK;
}

/* Places all values. If the ranks share the parameters' memory, ZeRO stage 3 becomes stage 1, because the ranks then
 * have the parameters only once. *common: whether parameters that the store lacks go into shared memory. */
static sl_status place(sl_program *p, const sl_graph *logical, const sl_program_options *o, int *common) {
  int *holder = NULL, are_common = 0;
  const int model_ranks = o->model_ranks > 1 ? o->model_ranks : 1;
  sl_placing how = {.ranks = o->first_leaf ? sl_runtime_ranks(p->runtime) / model_ranks : 1,
                    .model_ranks = model_ranks,
                    .tensor = o->tensor,
                    .pipe = o->pipe,
                    .keep = o->keep,
                    .n_keep = o->n_keep,
                    .zero = o->zero,
                    .window = sl_fetch_window(p->plan.micro_batches)};
  *common = 0;
  sl_status status = find_holders(p, logical, &holder, &are_common);
  how.holder = model_ranks > 1 ? NULL : holder; /* they follow from the graph, as they did when the store was filled */
  if (how.zero == SL_ZERO_PARAMETERS) how.zero = SL_ZERO_STATE;
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl_placements_create(logical, &how, &p->placements));
  SL_TRY_OUT(reserve_common(p, logical, common));
  if (o->zero != SL_ZERO_PARAMETERS || *common || are_common) goto out;
  sl_placements_destroy(p->placements);
  p->placements = NULL;
  how.zero = SL_ZERO_PARAMETERS;
  status = sl_placements_create(logical, &how, &p->placements);
out:
  free(holder);
  return status;
}

/* Finds the ranks that have a parameter or state between two steps: the first rank, the number of ranks, and the stride
 * with which these ranks repeat (store.h). First rank -1: all ranks have it. */
static int owner_of(const sl_program *p, sl_value v, int *width, int *stride) {
  const sl_rank_set set = p->placements->keeps ? p->placements->keeps[v] : 0;
  const sl_placement placed = p->placements->value[v];
  int first = 0;
  *width = 1, *stride = 0;
  if (!set) return placed.rank;
  while (!sl_rank_set_has(set, first)) first++;
  while (first + *width < p->model_ranks && sl_rank_set_has(set, first + *width)) ++*width;
  if (placed.kind == SL_PLACE_OWNED) return placed.rank * p->model_ranks + first;
  *stride = p->model_ranks;
  return *width == p->model_ranks || set != sl_rank_set_of(first + *width) - sl_rank_set_of(first) ? -1 : first;
}

/* Adds a tensor to the store. In shared memory rank 0 initialises it; the others wait when they make the exchanges. */
static sl_status add_tensor(sl_program *p, const sl_graph *logical, sl_value v, int common, sl_tensor **t) {
  const sl_value_info *info = logical->value[v];
  int width, stride;
  const int rank = sl_runtime_rank(p->runtime), owner = owner_of(p, v, &width, &stride);
  const int parameter = info->role == SL_ROLE_PARAMETER;
  if (owner >= 0)
    SL_TRY(
        sl_store_add_owned(p->store, info->name, info->dtype, &info->shape, parameter, owner, width, stride, rank, t));
  else if (common && p->placements->made[v].kind == SL_PLACE_OWNED)
    SL_TRY(sl_store_add_common(p->store, info->name, info->dtype, &info->shape, parameter, t));
  else
    SL_TRY(sl_store_add(p->store, info->name, info->dtype, &info->shape, parameter, t));
  (*t)->part = info->part;
  if (SL_SIMULATED || !(*t)->data || ((*t)->common && rank != 0)) return SL_OK;
  char whole[SL_PART_NAME];
  /* The other ranks wait here for rank 0 if it initialises what they share: the watch must see that it works. */
  sl_activity_begin(SL_WORKS_LONG, "the initial values of a tensor");
  if (info->part.size)
    sl_init_fill_part(&info->init, p->plan.seed, sl_part_whole_name((*t)->name, whole), (*t)->dtype, &info->part,
                      (*t)->data);
  else
    sl_init_fill(&info->init, p->plan.seed, (*t)->name, (*t)->dtype, &(*t)->shape, (*t)->data);
  sl_activity_end();
  return SL_OK;
}

static sl_status bind_tensors(sl_program *p, const sl_graph *logical, int common) {
  for (sl_value v = 0; v < logical->n_values; v++) {
    if (logical->value[v]->role == SL_ROLE_TEMPORARY) continue;
    sl_tensor *t = sl_store_find(p->store, logical->value[v]->name);
    if (!t) SL_TRY(add_tensor(p, logical, v, common, &t));
    SL_TRY(check_tensor(t, logical->value[v]));
    int width, stride;
    if (t->owner != owner_of(p, v, &width, &stride))
      return sl_fail(SL_EINVAL, "the store holds tensor '%s' on other ranks than this program needs", t->name);
  }
  for (sl_value v = 0; v < p->graph->n_values; v++) {
    const sl_value_info *info = p->graph->value[v];
    if (info->role == SL_ROLE_TEMPORARY) continue;
    sl_tensor *t = sl_store_find(p->store, logical->value[info->logical]->name);
    if (!t->data) return sl_fail(SL_EINVAL, "tensor '%s' is on rank %d only", t->name, t->owner);
    SL_TRY(sl_store_register(t, info->blocks));
    p->tensor[v] = t;
  }
  return SL_OK;
}

/* Allocates the slots: one mapping, touched here so that no step meets a page fault; and for slots with exchanged
 * values another one, which the ranks of a node share. */
static sl_status make_slots(sl_program *p) {
  const sl_memory *m = p->memory;
  enum { HUGE_PAGE = 2 << 20 };
  const size_t n = (size_t)m->n_slots + 1;
  size_t private_bytes = 0, shared_bytes = 0;
  char *shared = calloc(n, 1);
  void *memory = NULL;
  sl_status status = SL_OK;
  p->slot = calloc(n, sizeof *p->slot);
  p->slot_data = calloc(n, sizeof *p->slot_data);
  if (!shared || !p->slot || !p->slot_data) {
    status = sl_no_memory("for %d buffers", m->n_slots);
    goto out;
  }
  for (int i = 0; i < p->graph->n_nodes; i++)
    for (int k = 0; k < p->graph->node[i]->n_in && p->graph->node[i]->bucket; k++)
      if (m->slot[p->graph->node[i]->in[k]] >= 0) shared[m->slot[p->graph->node[i]->in[k]]] = 1;
  for (int k = 0; k < m->n_slots; k++) *(shared[k] ? &shared_bytes : &private_bytes) += m->bytes[k];
  if (shared_bytes) {
    SL_TRY_OUT(sl__exchanges_allocate(p->exchanges, shared_bytes, &memory));
    if (!SL_SIMULATED) memset(memory, 0, shared_bytes);
    p->exchanged = memory, p->exchanged_bytes = shared_bytes;
    p->exchanged_pinned = !SL_SIMULATED && sl_block_pin(memory, shared_bytes);
  }
  const size_t arena = (private_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if (arena) status = sl_block_create(arena, "temporaries", &p->arena);
  if (status == SL_ENOMEM) status = sl_no_memory("for %zu bytes of temporaries: a smaller batch needs less", arena);
  if (status != SL_OK) goto out;
  char *next[2] = {p->arena.data, memory};
  for (int k = 0; k < m->n_slots; next[(int)shared[k]] += m->bytes[k], k++) {
    p->slot_data[k] = next[(int)shared[k]];
    sl_vector_register(&p->slot[k], p->slot_data[k], m->bytes[k] / 16, 16);
  }
out:
  free(shared);
  return status;
}

starpu_data_handle_t sl__program_handle(const sl_program *p, sl_value v) {
  const sl_value_info *info = p->graph->value[v];
  if (p->tensor[v]) return p->tensor[v]->handle[info->block < 0 ? 0 : info->block];
  return p->slot[p->memory->slot[v]];
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */

/* Adds a value to the task's list of buffers; returns its index. */
static int enter(starpu_data_handle_t *handle, enum starpu_data_access_mode *mode, int *n, starpu_data_handle_t mine,
                 enum starpu_data_access_mode how) {
  for (int b = 0; b < *n; b++)
    if (handle[b] == mine) {
      mode[b] |= how;
      return b;
    }
  handle[*n] = mine;
  mode[*n] = how;
  return (*n)++;
}

/* Host address of a value. */
static void *data_of(const sl_program *p, sl_value v) {
  const sl_value_info *info = p->graph->value[v];
  if (!p->tensor[v]) return p->slot_data[p->memory->slot[v]];
  return (char *)p->tensor[v]->data +
         (size_t)info->row0 * (size_t)sl_shape_row(&info->shape) * sl_dtype_bytes(info->dtype);
}

static sl_status make_exchange(sl_program *p, const sl_node *node, sl__task *t) {
  const int n = node->n_in + node->n_out;
  int moves = 0;
  void **data = malloc((size_t)(n + 1) * sizeof *data);
  starpu_data_handle_t *handle = malloc((size_t)(n + 1) * sizeof *handle);
  for (int k = 0; k < n && data && handle; k++) {
    const sl_value v = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
    data[k] = data_of(p, v);
    handle[k] = sl__program_handle(p, v);
    moves |= k < node->n_in && !(p->tensor[v] && p->tensor[v]->common);
  }
  /* In turns: model ranks differ in the seconds of a turn. */
  const double urgency = p->schedule->turn > 0 ? p->schedule->urgency[t->index] / p->schedule->turn : 0;
  const sl_status status =
      data && handle ? sl__exchanges_add(p->exchanges, p->graph, node, moves ? data : NULL, handle, n, urgency, t)
                     : sl_no_memory("for the exchange of layer '%s'", node->name);
  free(data), free(handle);
  return status;
}

static sl_status make_task(sl_program *p, int i, sl_array *arrays, int *buffer_of) {
  const sl_node *node = p->graph->node[i];
  sl__task *t = &p->task[i];
  *t = (sl__task){.program_step = &p->step,
                  .run = &p->run,
                  .recorder = p->recorder,
                  .devices = p->devices,
                  .counters = p->counters,
                  .tasks = p->task,
                  .before = p->schedule->before + p->schedule->from[i],
                  .n_before = p->schedule->from[i + 1] - p->schedule->from[i],
                  .exchange = node->bucket > 0,
                  .op = node->op,
                  .convert = p->graph->convert,
                  .name = node->name,
                  .arrays = arrays,
                  .buffer_of = buffer_of,
                  .index = i,
                  .n_parts = node->n_in,
                  .split = node->in_part != NULL,
                  .bound = -1,
                  .worker = -1,
                  .ahead = -1};
  if (node->bucket) return make_exchange(p, node, t);
  sl_call_describe(p->graph, node, arrays, &t->call);
  t->call.tiles = p->plan.tiles;
  t->call.step = &p->step;
  struct starpu_task *task = t->task = starpu_task_create();
  if (task) task->destroy = 0; /* sl_program_destroy frees it, even after a failure here */
  int most = node->n_in + node->n_out, n = 0;
  starpu_data_handle_t *handle = malloc((size_t)(most + 1) * sizeof *handle);
  enum starpu_data_access_mode *mode = malloc((size_t)(most + 1) * sizeof *mode);
  if (!task || !handle || !mode) {
    free(handle), free(mode);
    return sl_no_memory("for the task of layer '%s'", node->name);
  }
  for (int k = 0; k < node->n_in; k++)
    buffer_of[k] = enter(handle, mode, &n, sl__program_handle(p, node->in[k]), STARPU_R);
  for (int k = 0; k < node->n_out; k++)
    buffer_of[node->n_in + k] = enter(handle, mode, &n, sl__program_handle(p, node->out[k]),
                                      sl_node_reads_output(node, k) ? STARPU_RW : STARPU_W);
  t->first_out = (int)(t->call.out - arrays);
  if (n > STARPU_NMAXBUFS) {
    task->dyn_handles = handle; /* StarPU frees both with the task */
    task->dyn_modes = mode;
  } else {
    for (int b = 0; b < n; b++) {
      task->handles[b] = handle[b];
      task->modes[b] = mode[b];
    }
    free(handle), free(mode);
  }
  task->nbuffers = n;
  t->fast = (char)((SL_SIMULATED ? node->op->fast : node->op->cuda_fast != NULL) ? sl_runtime_fast(p->runtime) : 0);
  task->cl = sl__codelet_of(node->op, t->fast, p->plan.tiles.blas);
  if (!task->cl) return sl_no_memory("for the codelet of %s", node->op->name);
  task->cl_arg = t;
  task->sequential_consistency = 0;
  task->name = node->name;
  if (p->recorder) sl__task_watch(t);
#if SL_SIMULATED
  sl__simulated_task(t, &p->machine, p->graph, node, &p->schedule->cost[i]);
#endif
  if (sl_runtime_gpus(p->runtime)) sl__gpu_task(t);
  t->hash = sl_node_footprint(p->graph, node);
  return SL_OK;
}

/* Sets priorities: microseconds of urgency if the policy takes any number (longer units if the step is long), else
 * scaled to its range. */
static void set_priorities(sl_program *p) {
  int low = starpu_sched_get_min_priority(), high = starpu_sched_get_max_priority();
  double most = 1e-12;
  for (int i = 0; i < p->graph->n_nodes; i++) most = fmax(most, p->schedule->urgency[i]);
  for (int i = 0; i < p->graph->n_nodes; i++) {
    double share = p->schedule->urgency[i] / most;
    double wide = (double)high - low;
    p->task[i].task->priority =
        wide > 1e6 ? (int)fmin(p->schedule->urgency[i] * 1e6, share * 1e9) : low + (int)(share * wide);
  }
}

/* Makes the tasks of the exchanges. */
static sl_status make_exchange_tasks(sl_program *p, const sl_division *division) {
  const int n = p->graph->n_nodes;
  sl_step_exchange *list = malloc(((size_t)n + 1) * sizeof *list);
  sl_status status = list ? SL_OK : sl_no_memory("for %d tasks", n);
  const int count = list ? sl_spread_exchanges(p->graph, division, list) : 0;
  for (int k = 0; k < count && status == SL_OK; k++) {
    const int i = list[k].node;
    status = make_task(p, i, p->task[i].arrays, p->task[i].buffer_of);
  }
  free(list);
  return status;
}

static sl_status make_tasks(sl_program *p, const sl_division *division) {
  int n = p->graph->n_nodes, total = 0, values = 0;
  for (int i = 0; i < n; i++) {
    total += sl_call_arrays(p->graph->node[i]);
    values += p->graph->node[i]->n_in + p->graph->node[i]->n_out;
  }
  p->task = calloc((size_t)n + 1, sizeof *p->task);
  p->arrays = calloc((size_t)total + 1, sizeof *p->arrays);
  p->buffer_of = calloc((size_t)values + 1, sizeof *p->buffer_of);
  struct starpu_task **before = malloc(((size_t)n + 1) * sizeof *before);
  sl_status status = SL_OK;
  if (!p->task || !p->arrays || !p->buffer_of || !before) {
    status = sl_no_memory("for %d tasks", n);
    goto out;
  }
  sl_array *arrays = p->arrays;
  int *buffer_of = p->buffer_of;
  for (int i = 0; i < n; i++) {
    if (p->graph->node[i]->bucket)
      p->task[i].arrays = arrays, p->task[i].buffer_of = buffer_of;
    else
      SL_TRY_OUT(make_task(p, i, arrays, buffer_of));
    arrays += sl_call_arrays(p->graph->node[i]);
    buffer_of += p->graph->node[i]->n_in + p->graph->node[i]->n_out;
    p->flops += p->schedule->cost[i].flops;
  }
  SL_TRY_OUT(make_exchange_tasks(p, division));
  for (int i = 0; i < n; i++) {
    int count = p->task[i].n_before;
    for (int k = 0; k < count; k++) before[k] = p->task[p->task[i].before[k]].task;
    if (count) starpu_task_declare_deps_array(p->task[i].task, (unsigned)count, before);
  }
out:
  free(before);
  return status;
}

/* Reserves the scratch memory of the most demanding task, and writes its size into each call. */
static sl_status reserve_scratch(sl_program *p) {
  size_t cpu = 0;
  const sl__task *asks = NULL;
  int copies = 0, bf16 = 0;
  for (int i = 0; i < p->graph->n_nodes; i++) {
    const sl_call *call = &p->task[i].call;
    size_t mine = 0;
    if (p->graph->node[i]->bucket) continue;
    for (int k = 0; k < p->graph->node[i]->n_in; k++) bf16 |= p->task[i].fast && call->in[k].dtype == SL_BF16;
    if ((mine = sl_operation_scratch(p->task[i].op, call)) > cpu) cpu = mine;
    p->task[i].call.scratch_bytes = mine;
    p->task[i].scratch_cuda = sl_operation_scratch_cuda(p->task[i].op, p->task[i].fast, call);
    if (p->task[i].scratch_cuda > (asks ? asks->scratch_cuda : 0)) asks = &p->task[i];
    if (sl_operation_copies_cuda(p->task[i].op, call) > copies) copies = sl_operation_copies_cuda(p->task[i].op, call);
  }
  if (cpu) SL_TRY(sl_runtime_reserve_scratch(p->runtime, cpu));
  for (int w = 0; w < sl_runtime_workers(p->runtime); w++) {
    const sl_team *team = sl_runtime_team(p->runtime, w);
    if (team) p->scratch += cpu * (size_t)team->threads;
  }
  return sl__devices_open(p->runtime, asks, copies, bf16, &p->devices);
}

static sl_status bind_residences(sl_program *p) {
  const int n = p->memory->n_slots + p->graph->n_values;
  starpu_data_handle_t *handle = calloc((size_t)n + 1, sizeof *handle);
  if (!handle) return sl_no_memory("for %d buffers", n);
  for (int k = 0; k < p->memory->n_slots; k++) handle[k] = p->slot[k];
  for (sl_value v = 0; v < p->graph->n_values; v++)
    if (p->tensor[v]) handle[p->memory->n_slots + v] = sl__program_handle(p, v);
  const sl_status status = sl__residences_bind(p->residences, p->task, p->graph->n_nodes, handle);
  free(handle);
  return status;
}

/* --- life -----------------------------------------------------------------------------------------------------------
 */

sl_status sl_program_create(sl_runtime *runtime, sl_store *store, const sl_graph *logical, const sl_plan *plan,
                            const sl_program_options *options, sl_program **program) {
  *program = NULL;
  static const sl_program_options none = {0};
  if (!options) options = &none;
  if (plan->tiles.blocks && sl_runtime_gpus(runtime) > 0)
    return sl_blame(sl_fail(SL_EUNSUPPORTED,
                            "products of bf16 add up by blocks in this plan, which GPUs' kernels cannot: use no GPUs"),
                    "gpus");
  if (plan->tiles.blas && sl_runtime_gpus(runtime) > 0)
    return sl_blame(
        sl_fail(SL_EUNSUPPORTED, "products are OpenBLAS's in this plan, which only CPUs compute: use no GPUs"), "gpus");
  sl_program *p = calloc(1, sizeof *p);
  if (!p) return sl_no_memory("for a program");
  p->runtime = runtime;
  p->store = store;
  p->plan = *plan;
  p->recorder = options->recorder;
  sl_status status = sl__run_create(&p->run);
  if (status != SL_OK) {
    free(p);
    return status;
  }
  const int rank = sl_runtime_rank(runtime), *first = options->first_leaf;
  int common;
  const int model_ranks = p->model_ranks = options->model_ranks > 1 ? options->model_ranks : 1;
  p->pass_kinds = sl_pipe_pass_kinds(options->pipe.order);
  const sl_division division = {.rank = rank / model_ranks,
                                .ranks = sl_runtime_ranks(runtime) / model_ranks,
                                .first = first,
                                .model_rank = rank % model_ranks,
                                .model_ranks = model_ranks,
                                .tensor = options->tensor,
                                .pipe = options->pipe};
  if (first && sl_runtime_ranks(runtime) > 1)
    SL_TRY_OUT(sl__exchanges_create(runtime, options->exchange, plan->leaves, first, model_ranks, options->compression,
                                    &p->exchanges));
  p->run.yields = p->exchanges != NULL;
  SL_TRY_OUT(place(p, logical, options, &common));
  SL_TRY_OUT(sl_spread(logical, plan, first ? &division : NULL, p->placements, &p->graph));
  size_t n = (size_t)p->graph->n_values + 1;
  p->tensor = calloc(n, sizeof *p->tensor);
  p->kept = calloc(n, 1);
  if (!p->tensor || !p->kept) {
    status = sl_no_memory("for a program of %d values", p->graph->n_values);
    goto out;
  }
  for (sl_value v = 0; v < p->graph->n_values; v++)
    for (int k = 0; k < options->n_keep; k++) p->kept[v] |= p->graph->value[v]->logical == options->keep[k];
  int workers = sl_runtime_workers(runtime);
  p->counters = aligned_alloc(_Alignof(sl__counter), ((size_t)workers + 1) * sizeof *p->counters);
  if (!p->counters) SL_TRY_OUT(sl_no_memory("for the counters of %d workers", workers));
  memset(p->counters, 0, ((size_t)workers + 1) * sizeof *p->counters);
  sl_team *team = NULL;
  for (int w = 0; w < workers && !team; w++) team = sl_runtime_team(runtime, w);
  sl_machine machine = options->machine ? *options->machine
                                        : sl_machine_default(sl_runtime_cpu_workers(runtime), team ? team->threads : 1,
                                                             sl_runtime_gpus(runtime));
  machine.fast = sl_runtime_fast(runtime);
  if (!options->machine && plan->tiles.blocks) sl_machine_set_tiles(&machine);
  p->machine = options->runs_on ? *options->runs_on : machine;
  p->machine.fast = machine.fast;
  SL_TRY_OUT(sl_schedule_create(p->graph, p->kept, &plan->tiles, &machine, &p->schedule));
  SL_TRY_OUT(sl_memory_plan(p->graph, p->schedule, p->kept, options->slack > 0 ? options->slack : 0.02, &p->memory));
  SL_TRY_OUT(sl__residences_create(runtime, p->graph, p->schedule, p->memory, &machine, p->kept, options->planned,
                                   options->lru, &p->residences));
  SL_TRY_OUT(bind_tensors(p, logical, common));
  SL_TRY_OUT(make_slots(p));
  SL_TRY_OUT(make_tasks(p, &division));
  if (p->residences) SL_TRY_OUT(bind_residences(p));
  if (sl_runtime_gpus(runtime))
    SL_TRY_OUT(sl__inputs_create(p->graph, p->task, sl__residences_room(p->residences), &p->inputs));
  if (!options->no_priorities) set_priorities(p);
  SL_TRY_OUT(reserve_scratch(p));
  for (int i = 0; i < p->graph->n_nodes; i++) p->task[i].devices = p->devices;
  *program = p;
  p = NULL;
out:
  /* Destroying the exchanges is collective, but other ranks may not have failed. So they are leaked; the job must
   * end. */
  if (p) p->exchanges = NULL;
  sl_program_destroy(p);
  return status;
}

void sl_program_destroy(sl_program *p) {
  if (!p || sl_runtime_abandoned()) return;
  if (p->in_flight) starpu_task_wait_for_all();
  if (p->recorder) sl_transfers_record(0);
  sl__inputs_destroy(p->inputs);
  for (int i = 0; p->task && i < p->graph->n_nodes; i++)
    if (p->task[i].task) starpu_task_destroy(p->task[i].task);
  for (int k = 0; p->slot && k < p->memory->n_slots; k++)
    if (p->slot[k]) starpu_data_unregister_no_coherency(p->slot[k]);
  if (p->exchanged_pinned) sl_block_unpin(p->exchanged, p->exchanged_bytes);
  sl__exchanges_destroy(p->exchanges);
  sl__devices_close(p->runtime, p->devices);
  sl__residences_destroy(p->residences);
  sl_block_destroy(&p->arena);
  free(p->slot), free(p->slot_data), free(p->task), free(p->arrays), free(p->buffer_of), free(p->tensor), free(p->kept),
      free(p->counters);
  sl_memory_destroy(p->memory);
  sl_schedule_destroy(p->schedule);
  sl_graph_destroy(p->graph);
  sl_placements_destroy(p->placements);
  sl__run_destroy(&p->run);
  free(p);
}

sl_status sl_program_submit(sl_program *p, const sl_step *step) {
  if (p->in_flight) return sl_fail(SL_EINVAL, "a step is in flight: wait for it first");
  p->step = *step;
  atomic_store(&p->number, step->number);
  sl__run_begin(&p->run, p->task, p->graph->n_nodes);
  p->in_flight = 1;
  sl_transfers_record(p->recorder ? step->number : 0);
  sl__residences_begin(p->residences);
  sl__inputs_bind(p->inputs, step);
  for (int k = 0; k < p->graph->n_nodes; k++) {
    sl__task *t = &p->task[p->schedule->order[k]];
    if (p->recorder) t->submit = sl_now();
    if (p->graph->node[t->index]->bucket) sl__exchanges_hold(t);
    sl__residences_order(p->residences, t);
    int code = starpu_task_submit(t->task);
    if (code != 0) {
      starpu_task_wait_for_all();
      p->in_flight = 0;
      const sl_status status =
          sl_fail(SL_ESTARPU, "layer '%s' (%s): StarPU refused the task (%s): no worker can run it", t->name,
                  t->op->name, strerror(-code));
      return sl_runtime_cpu_workers(p->runtime) == 0 ? sl_blame(status, "workers") : status;
    }
  }
  return SL_OK;
}

void sl_program_ahead(sl_program *p, const sl_step *next) { sl__inputs_announce(p->inputs, next); }

void sl_program_forget_ahead(sl_program *p) {
  if (p && !sl_runtime_abandoned()) sl__inputs_forget(p->inputs);
}

sl_status sl_program_wait(sl_program *p) {
  if (!p->in_flight) return SL_OK;
  starpu_do_schedule(); /* some policies only schedule when asked */
  const sl_status scheduled = sl__run_wait(&p->run, p->task, p->schedule->order, p->graph->n_nodes,
                                           sl_runtime_sched(p->runtime), sl_runtime_patience(p->runtime));
  if (scheduled != SL_OK) sl_runtime_abandon(p->runtime);
  SL_TRY(scheduled);
  int code = starpu_task_wait_for_all();
  p->in_flight = 0; /* StarPU may still begin copies for tasks that ran elsewhere; they count for this step */
  if (code != 0) return sl_fail(SL_ESTARPU, "waiting for the step failed (%s)", strerror(-code));
  SL_TRY(sl__exchanges_status(p->exchanges));
  sl_status status = (sl_status)atomic_load(&p->run.status);
  return status == SL_OK ? SL_OK : sl_fail(status, "step %lld: %s", (long long)p->step.number, p->run.text);
}

sl_status sl_program_run(sl_program *p, const sl_step *step) {
  SL_TRY(sl_program_submit(p, step));
  return sl_program_wait(p);
}

sl_status sl_program_read(sl_program *p, sl_value logical, void *to) {
  int found = 0;
  for (sl_value v = 0; v < p->graph->n_values; v++) {
    const sl_value_info *info = p->graph->value[v];
    if (info->logical != logical || (info->scope == SL_SCOPE_WHOLE && info->leaf >= 0)) continue;
    if (info->scope == SL_SCOPE_LEAF && info->leaf > 0) continue;
    if (!p->kept[v] && info->role == SL_ROLE_TEMPORARY)
      return sl_fail(SL_EINVAL, "value '%s' was not kept: other values use its memory; list it in the program's `keep`",
                     info->name);
    starpu_data_handle_t handle = sl__program_handle(p, v);
    if (starpu_data_acquire(handle, STARPU_R) != 0) return sl_fail(SL_ESTARPU, "value '%s' cannot be read", info->name);
    size_t row = (size_t)sl_shape_row(&info->shape) * sl_dtype_bytes(info->dtype);
    memcpy((char *)to + (size_t)info->row0 * row, (void *)starpu_vector_get_local_ptr(handle), sl_value_bytes(info));
    starpu_data_release(handle);
    found = 1;
  }
  return found ? SL_OK : sl_fail(SL_ENOTFOUND, "value %d is not in this program", logical);
}

static int finite_tensor(const sl_tensor *t) {
  int64_t n = sl_shape_count(&t->shape);
  return !t->data || sl__all_finite(t->data, t->dtype, n);
}

sl_status sl_program_find_nonfinite(sl_program *p, const sl_step *step) {
  SL_TRY(sl_store_acquire(p->store, 0));
  const char *bad = NULL;
  for (int i = 0; i < sl_store_count(p->store) && !bad; i++)
    if (!finite_tensor(sl_store_at(p->store, i))) bad = sl_store_at(p->store, i)->name;
  sl_store_release(p->store);
  sl_status status = SL_OK;
  if (bad)
    status = sl_fail(SL_ENONFINITE,
                     "step %lld: tensor '%s' is not finite at its start: the update of the step before overflowed",
                     (long long)step->number, bad);
  /* Tensors that only their owner holds may fail on that rank alone. */
  if (p->exchanges) status = sl_comm_agree(sl_runtime_comm(p->runtime), status);
  if (status != SL_OK) return status;
  sl_step again = *step;
  again.check = 1;
  SL_TRY(sl_program_run(p, &again));
  int first = atomic_load(&p->run.first_bad);
  if (first == INT_MAX) return SL_OK;
  const sl_node *node = p->graph->node[first];
  char where[64] = "";
  if (node->rows > 0)
    snprintf(where, sizeof where, ", samples %lld to %lld of the batch", (long long)node->row0,
             (long long)(node->row0 + node->rows - 1));
  return sl_fail(SL_ENONFINITE, "step %lld: the first value that is not finite comes from operation %s of layer '%s'%s",
                 (long long)step->number, node->op->name, node->name, where);
}

void sl_program_allow(sl_program *p, unsigned kinds) {
  for (int i = 0; i < p->graph->n_nodes; i++)
    if (!p->graph->node[i]->bucket) sl__task_allow(&p->task[i], kinds);
}

int sl_program_running(const sl_program *p) { return p->in_flight; }

uint64_t sl_program_sent(const sl_program *p) { return p->exchanges ? sl__exchanges_sent(p->exchanges) : 0; }

const sl_graph *sl_program_graph(const sl_program *p) { return p->graph; }
const sl_schedule *sl_program_schedule(const sl_program *p) { return p->schedule; }
const sl_memory *sl_program_memory(const sl_program *p) { return p->memory; }
const sl_residence *sl_program_residence(const sl_program *p, int gpu) { return sl__residences_of(p->residences, gpu); }
size_t sl_program_gpu_bytes(const sl_program *p, int gpu, size_t *beside) {
  const sl_residence *r = sl__residences_of(p->residences, gpu);
  *beside = sl__devices_bytes(p->devices);
  return r ? r->peak + sl__inputs_bytes(p->inputs, p->schedule, sl_runtime_cpu_workers(p->runtime) + gpu) + *beside : 0;
}
size_t sl_program_bytes(const sl_program *p, int shared) {
  const size_t all = sl_memory_of_program(p->graph, p->memory) + (p->exchanges ? sl__exchanges_bytes(p->exchanges) : 0);
  return shared ? all - p->memory->persistent : all + p->scratch;
}
double sl_program_flops(const sl_program *p) { return p->flops; }

void sl__program_unbind(sl_program *p) { sl__residences_unbind(p->residences, p->task, p->graph->n_nodes); }

struct starpu_task *sl__program_task(const sl_program *p, int node) {
  return p->graph->node[node]->bucket ? NULL : p->task[node].task;
}

double sl_program_expected(const sl_program *p, int node, int worker) {
  if (p->graph->node[node]->bucket) return NAN;
  struct starpu_perfmodel_arch *arch = starpu_worker_get_perf_archtype(worker, STARPU_NMAX_SCHED_CTXS);
  const double us = starpu_task_expected_length(p->task[node].task, arch, 0);
  return us > 0 ? 1e-6 * us : NAN; /* NaN or 0: StarPU has no samples yet */
}
