/* Carries out a memory plan with StarPU: a GPU's tasks run in the plan's order, and each makes its moves when it
 * ends. Tasks that are bound without a memory plan run by priority. */
#include "tasks/starpu/residence.h"

#include <stdlib.h>

/* A request to StarPU; those of one task are contiguous. */
struct sl__move {
  starpu_data_handle_t handle;
  unsigned node; /* the GPU's memory */
  sl_move_kind kind;
};

typedef struct gpu {
  sl_residence *plan;
  int worker; /* StarPU's */
  unsigned node;
  size_t bytes;   /* memory for the plan */
  sl__move *move; /* in the plan's order */
  int at_begin;   /* how many of the first moves are made before the step */
} gpu;

struct sl__residences {
  sl_runtime *runtime;
  const sl_schedule *schedule;
  int cpus, gpus, planned;
  gpu *gpu;
};

sl_status sl__residences_create(sl_runtime *runtime, const sl_graph *g, sl_schedule *s, const sl_memory *m,
                                const sl_machine *machine, const char *keep, int planned, int lru,
                                sl__residences **residences) {
  *residences = NULL;
  int worker[STARPU_NMAXWORKERS];
  const int gpus = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, worker, STARPU_NMAXWORKERS);
  if (gpus == 0 || gpus != machine->kind[SL_KIND_GPU].workers) return SL_OK;
  sl__residences *all = calloc(1, sizeof *all);
  sl_status status = SL_OK;
  if (!all || !(all->gpu = calloc((size_t)gpus, sizeof *all->gpu))) SL_TRY_OUT(sl_no_memory("for %d GPUs", gpus));
  all->runtime = runtime, all->schedule = s, all->cpus = machine->kind[SL_KIND_CPU].workers, all->gpus = gpus;
  all->planned = planned;
  for (int i = 0; i < gpus; i++) {
    gpu *u = &all->gpu[i];
    u->worker = worker[i], u->node = starpu_worker_get_memory_node((unsigned)worker[i]);
    const starpu_ssize_t total = starpu_memory_get_total(u->node);
    if (total < 0) continue;
    const size_t allowed = sl_runtime_gpu_memory(runtime), bytes = (size_t)total < allowed ? (size_t)total : allowed;
    u->bytes = bytes;
    SL_TRY_OUT(sl_residence_plan(g, s, m, machine, i, bytes, keep, &u->plan));
    if (u->plan->most > bytes && all->cpus == 0) SL_TRY_OUT(sl_residence_too_large(u->plan, g, bytes));
    if (lru) u->plan->n_moves = u->plan->n_pairs = 0;
    if (u->plan->n_pairs) SL_TRY_OUT(sl_schedule_add(s, u->plan->pairs, u->plan->n_pairs));
  }
  *residences = all, all = NULL;
out:
  sl__residences_destroy(all);
  return status;
}

size_t sl__residences_room(const sl__residences *all) {
  size_t room = SIZE_MAX;
  for (int i = 0; all && i < all->gpus; i++) {
    const gpu *u = &all->gpu[i];
    if (!u->plan) continue;
    const size_t mine = u->plan->peak < u->bytes ? u->bytes - u->plan->peak : 0;
    if (mine < room) room = mine;
  }
  return room;
}

void sl__residences_destroy(sl__residences *all) {
  if (!all) return;
  for (int i = 0; all->gpu && i < all->gpus; i++) sl_residence_destroy(all->gpu[i].plan), free(all->gpu[i].move);
  free(all->gpu);
  free(all);
}

sl_status sl__residences_bind(sl__residences *all, sl__task *task, int n, const starpu_data_handle_t *handle) {
  for (int i = 0; all && i < all->gpus; i++) {
    gpu *u = &all->gpu[i];
    const int moves = u->plan ? u->plan->n_moves : 0;
    for (int k = 0; k < n; k++)
      if ((moves || all->planned) && all->schedule->worker[k] == all->cpus + i) task[k].bound = u->worker;
    if (moves == 0) continue;
    u->move = malloc((size_t)u->plan->n_moves * sizeof *u->move);
    if (!u->move) return sl_no_memory("for a plan of %d copies", u->plan->n_moves);
    for (int k = 0; k < u->plan->n_moves; k++) {
      const sl_move *m = &u->plan->move[k];
      u->move[k] = (sl__move){handle[m->buffer], u->node, m->kind};
      if (m->after < 0) {
        u->at_begin++;
      } else {
        if (task[m->after].n_moves++ == 0) task[m->after].moves = &u->move[k];
      }
    }
  }
  for (int k = 0; all && all->planned && k < n; k++)
    task[k].on_host = all->schedule->worker[k] >= 0 && all->schedule->worker[k] < all->cpus;
  return SL_OK;
}

void sl__residences_unbind(sl__residences *all, sl__task *task, int n) {
  for (int i = 0; all && i < all->gpus; i++) all->gpu[i].at_begin = 0;
  for (int k = 0; k < n; k++) {
    if (task[k].on_host && task[k].task) task[k].task->where = STARPU_CPU | STARPU_CUDA;
    task[k].bound = -1;
    task[k].on_host = 0;
    task[k].n_moves = 0;
    if (task[k].task) task[k].task->execute_on_a_specific_worker = 0;
  }
}

/* Whether the task's GPU has a memory plan, which holds in one order only. */
static int in_order(const sl__residences *all, const sl__task *t) {
  for (int i = 0; i < all->gpus; i++)
    if (all->gpu[i].worker == t->bound) return all->gpu[i].plan && all->gpu[i].plan->n_moves > 0;
  return 0;
}

void sl__residences_order(sl__residences *all, sl__task *t) {
  if (!all) return;
  if (t->on_host && t->task->where & STARPU_CPU) t->task->where = STARPU_CPU;
  if (t->bound < 0) return;
  const int here = (t->task->where & STARPU_CUDA) != 0;
  t->task->execute_on_a_specific_worker = here ? 1 : 0;
  t->task->workerid = (unsigned)t->bound;
  t->task->workerorder = here && in_order(all, t) ? sl_runtime_next_order(all->runtime, t->bound) : 0;
}

/* Evicts a buffer; StarPU 1.3 can only be told to evict it first when it needs memory. */
static void evict(sl__move *m) {
#if STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION > 3
  (void)starpu_data_evict_from_node(m->handle, m->node);
#else
  starpu_data_wont_use(m->handle);
#endif
}

static void forgotten(void *arg) {
  sl__move *m = arg;
  starpu_data_release_on_node(m->handle, STARPU_MAIN_RAM);
  evict(m);
}

/* Carries out a move. Forgetting means acquiring the buffer on the host for writing, which copies nothing.
 * (starpu_data_invalidate_submit would also mark the handle as never written, although the tasks that write to it next
 * are already submitted.) */
static void carry_out(sl__move *m) {
  switch (m->kind) {
    case SL_MOVE_FORGET:
      (void)starpu_data_acquire_on_node_cb(m->handle, STARPU_MAIN_RAM, STARPU_W, forgotten, m);
      break;
    case SL_MOVE_WRITE_BACK:
      starpu_data_prefetch_on_node(m->handle, STARPU_MAIN_RAM, 1);
      break;
    case SL_MOVE_EVICT:
      evict(m);
      break;
  }
}

void sl__residences_begin(sl__residences *all) {
  for (int i = 0; all && i < all->gpus; i++)
    for (int k = 0; k < all->gpu[i].at_begin; k++) carry_out(&all->gpu[i].move[k]);
}

void sl__residences_after(const sl__task *t) {
  for (int k = 0; k < t->n_moves; k++) carry_out(&t->moves[k]);
}

const sl_residence *sl__residences_of(const sl__residences *all, int i) {
  return all && i < all->gpus ? all->gpu[i].plan : NULL;
}
