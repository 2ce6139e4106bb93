/* Exchanges as StarPU tasks. */
#include "tasks/starpu/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/machine/comm.h"

/* One bucket. When its task is ready, its values are acquired in host memory, each with a callback; the last callback
 * posts the bucket. Later the engine's thread releases the values and ends the task. */
typedef struct bucket {
  sl__exchanges *of;
  sl__task *task;
  int number; /* its number in the exchange */
  starpu_data_handle_t *handle;
  int n;
  enum starpu_data_access_mode mode;
  atomic_int left; /* values not yet acquired; set by the submission, whose writes the engine's thread reads */
  int64_t posted;
} bucket;

struct sl__exchanges {
  sl_exchange *engine;
  int group; /* the ranks that divide the samples */
  bucket **bucket;
  int n;
  int64_t last; /* end of the previous bucket; used by the engine's thread */
};

static struct starpu_codelet nowhere = {
    .where = STARPU_NOWHERE, .nbuffers = 0, .name = "exchange", .modes = {STARPU_NONE}};

/* Declares the group of the ranks with the same model rank. */
static sl_status declare_sums(sl__exchanges *x, const sl_runtime *runtime, int model_ranks, int leaves,
                              const int *first) {
  const int n = sl_runtime_ranks(runtime) / model_ranks;
  int *member = malloc((size_t)n * sizeof *member);
  if (!member) return sl_no_memory("for the ranks with the same part of the model");
  for (int k = 0; k < n; k++) member[k] = sl_runtime_rank(runtime) % model_ranks + k * model_ranks;
  const sl_status status = sl_exchange_group(x->engine, member, n, leaves, first, &x->group);
  free(member);
  return status;
}

sl_status sl__exchanges_create(sl_runtime *runtime, const sl_exchange_type *type, int leaves, const int *first_leaf,
                               int model_ranks, sl_compression compression, sl__exchanges **exchanges) {
  *exchanges = NULL;
  const int ranks = sl_runtime_ranks(runtime);
  sl__exchanges *x = calloc(1, sizeof *x);
  int *each =
      malloc(((size_t)ranks + 1) * sizeof *each); /* with several model ranks nothing is summed over all ranks */
  if (!x || !each) {
    free(x), free(each);
    return sl_no_memory("for the exchanges");
  }
  for (int r = 0; r <= ranks; r++) each[r] = r;
  const sl_share *share = sl_runtime_share(runtime);
  enum { MOST_CPUS = 1024 };
  int cpus[MOST_CPUS], n = 0;
  for (int w = 0; w < share->nworkers; w++)
    for (int i = 0; i < share->worker[w].threads && n < MOST_CPUS; i++) cpus[n++] = (int)share->worker[w].pu[i];
  const sl_exchange_options options = {.type = type ? type : sl_exchange_types[0],
                                       .comm = sl_runtime_comm(runtime),
                                       .node = sl_runtime_node_comm(runtime),
                                       .leaves = model_ranks > 1 ? ranks : leaves,
                                       .first = model_ranks > 1 ? each : first_leaf,
                                       .compression = compression,
                                       .cpus = cpus,
                                       .ncpus = n};
  sl_status status = sl_exchange_create(&options, &x->engine);
  if (status == SL_OK && model_ranks > 1 && ranks > model_ranks)
    status = declare_sums(x, runtime, model_ranks, leaves, first_leaf);
  if (status == SL_OK)
    *exchanges = x;
  else
    free(x);
  free(each);
  return status;
}

sl_status sl__exchanges_allocate(sl__exchanges *x, size_t bytes, void **memory) {
  return sl_exchange_allocate(x->engine, bytes, memory);
}

int sl__exchanges_share(const sl__exchanges *x) {
  return sl_exchange_type_of(x->engine)->shares_memory && sl_exchange_nodes(x->engine) == 1;
}

static void ended(void *arg) {
  bucket *b = arg;
  sl__task *t = b->task;
  const int64_t now = sl_now();
  for (int i = 0; i < b->n; i++) starpu_data_release_on_node(b->handle[i], STARPU_MAIN_RAM);
  t->end = now;
  sl__run_end(t);
  if (t->recorder)
    sl_recorder_add(t->recorder, &(sl_record){.step = t->program_step->number,
                                              .submit = t->submit,
                                              .ready = sl__task_ready(t),
                                              .taken = b->posted,
                                              .start = b->posted > b->of->last ? b->posted : b->of->last,
                                              .end = now,
                                              .node = t->index,
                                              .kind = SL_RECORD_EXCHANGE});
  b->of->last = now;
  starpu_task_end_dep_release(t->task);
}

static void acquired(void *arg) {
  bucket *b = arg;
  if (atomic_fetch_sub(&b->left, 1) > 1) return;
  b->posted = sl_now();
  sl_exchange_post(b->of->engine, b->number, ended, b);
}

static void ready(void *arg) {
  bucket *b = arg;
  for (int i = 0; i < b->n; i++)
    starpu_data_acquire_on_node_cb_sequential_consistency(b->handle[i], STARPU_MAIN_RAM, b->mode, acquired, b, 0);
}

sl_status sl__exchanges_add(sl__exchanges *x, const sl_graph *graph, const sl_node *node, void *const *data,
                            const starpu_data_handle_t *handle, int n, double urgency, sl__task *t) {
  const sl__exchange_attr *attr = node->attr;
  const int values = data ? attr->values : 0, subtrees = attr->values ? node->n_in / attr->values : 0;
  sl_stretch *stretch = calloc((size_t)values + 1, sizeof *stretch);
  void **item = malloc((size_t)(node->n_in + 1) * sizeof *item);
  bucket *b = calloc(1, sizeof *b), **more = realloc(x->bucket, (size_t)(x->n + 1) * sizeof *more);
  sl_status status = SL_OK;
  if (more) x->bucket = more;
  if (!stretch || !item || !b || !more || !(b->handle = malloc((size_t)n * sizeof *b->handle))) {
    free(b);
    status = sl_no_memory("for the exchange of layer '%s'", node->name);
    goto out;
  }
  *b = (bucket){
      .of = x, .task = t, .handle = b->handle, .mode = attr->move.kind == SL_EXCHANGE_SEND ? STARPU_R : STARPU_RW};
  x->bucket[x->n++] = b;
  for (int i = 0; i < values; i++) {
    for (int k = 0; k < subtrees; k++) item[i * subtrees + k] = data[k * values + i];
    stretch[i] = (sl_stretch){.data = item + i * subtrees, .count = sl_shape_count(&graph->value[node->in[i]]->shape)};
  }
  for (int i = 0; i < n; i++) {
    int seen = 0;
    for (int k = 0; k < b->n; k++) seen |= b->handle[k] == handle[i];
    if (!seen) b->handle[b->n++] = handle[i];
  }
  const sl_dtype dtype = node->n_in ? graph->value[node->in[0]]->dtype : SL_F32;
  for (int i = 0; i < values; i++)
    if (sl_dtype_bytes(graph->value[node->in[i]]->dtype) != sl_dtype_bytes(dtype))
      SL_TRY_OUT(sl_fail(SL_EINVAL, "the exchange of layer '%s' holds values of %zu and of %zu bytes", node->name,
                         sl_dtype_bytes(dtype), sl_dtype_bytes(graph->value[node->in[i]]->dtype)));
  sl_exchange_move move = attr->move;
  if (!node->message) move.group = x->group;
  move.urgency = move.kind == SL_EXCHANGE_SEND ? 0 : urgency;
  SL_TRY_OUT(sl_exchange_add(x->engine, move, dtype, stretch, values, &b->number));
  struct starpu_task *task = t->task = starpu_task_create();
  if (!task) SL_TRY_OUT(sl_no_memory("for the exchange of layer '%s'", node->name));
  t->lacking = &b->left;
  task->cl = &nowhere;
  task->prologue_callback_pop_func = ready;
  task->prologue_callback_pop_arg = b;
  task->destroy = 0;
  task->sequential_consistency = 0;
  task->name = node->name;
out:
  free(stretch), free(item);
  return status;
}

size_t sl__exchanges_bytes(const sl__exchanges *x) { return sl_exchange_memory(x->engine); }

uint64_t sl__exchanges_sent(const sl__exchanges *x) { return sl_exchange_sent(x->engine); }

/* Before each step resets to 1 StarPU's count of the releases that the task's end waits for: if the prologue callback
 * and the exchange's thread end the task at the same time, StarPU leaves the count one too low. Also sets b->left:
 * StarPU orders what this thread has written before the callbacks, but by means that ThreadSanitizer does not see. */
void sl__exchanges_hold(sl__task *t) {
  bucket *b = t->task->prologue_callback_pop_arg;
  atomic_store(&b->left, b->n);
  starpu_task_end_dep_add(t->task, 1 - (int)t->task->nb_termination_call_required);
}

sl_status sl__exchanges_status(sl__exchanges *x) { return x ? sl_exchange_wait(x->engine) : SL_OK; }

double sl__exchanges_stalled(sl__exchanges *x, int *node, char *late) {
  int number;
  const double seconds = sl_exchange_stalled(x->engine);
  if (seconds == 0) return 0;
  sl_exchange_waits_for(x->engine, &number, late);
  if (number < 0) return 0;
  for (int i = 0; i < x->n; i++)
    if (x->bucket[i]->number == number) *node = x->bucket[i]->task->index;
  return seconds;
}

void sl__exchanges_destroy(sl__exchanges *x) {
  if (!x) return;
  sl_exchange_destroy(x->engine);
  for (int i = 0; i < x->n; i++) free(x->bucket[i]->handle), free(x->bucket[i]);
  free(x->bucket), free(x);
}
