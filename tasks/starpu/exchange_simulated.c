/* Exchanges of simulations. In place of the exchange's thread, one thread takes the buckets in their order and lets the
 * time pass that the model of the interconnect gives for each. */
#include <stdlib.h>

#include "runtime/base/time.h"
#include "runtime/machine/store.h"
#include "runtime/simulated/simulation.h"
#include "tasks/starpu/exchange.h"
#include "tasks/starpu/simulated.h"

typedef struct bucket {
  sl__exchanges *of;
  sl__task *task;
  starpu_data_handle_t *handle;
  int n;
  atomic_int left; /* values not yet acquired */
  double seconds;  /* of the exchange */
  double work;     /* processor seconds that it takes from tasks */
  double bytes;    /* that this rank sends to other nodes */
  int posted;      /* in this step */
  int64_t at;      /* when it was posted */
} bucket;

struct sl__exchanges {
  sl_interconnect joined;
  bucket **bucket;
  int n, next; /* next: the bucket whose turn it is */
  uint64_t sent;
  sl_block memory; /* addresses of the values that move */
  int ends;
  starpu_pthread_t lane;
  starpu_pthread_mutex_t mutex;
  starpu_pthread_cond_t posted;
};

static struct starpu_codelet nowhere = {
    .where = STARPU_NOWHERE, .nbuffers = 0, .name = "exchange", .modes = {STARPU_NONE}};

static void finish(bucket *b, int64_t start) {
  sl__task *t = b->task;
  const int64_t now = sl_now();
  for (int i = 0; i < b->n; i++) starpu_data_release_on_node(b->handle[i], STARPU_MAIN_RAM);
  t->end = now;
  sl__run_end(t);
  b->of->sent += (uint64_t)b->bytes;
  if (t->recorder)
    sl_recorder_add(t->recorder, &(sl_record){.step = t->program_step->number,
                                              .submit = t->submit,
                                              .ready = sl__task_ready(t),
                                              .taken = b->at,
                                              .start = start,
                                              .end = now,
                                              .node = t->index,
                                              .kind = SL_RECORD_EXCHANGE});
  starpu_task_end_dep_release(t->task);
}

static void *carry_out(void *arg) {
  sl__exchanges *x = arg;
  starpu_pthread_mutex_lock(&x->mutex);
  for (;;) {
    while (!x->ends && !(x->n && x->bucket[x->next]->posted)) starpu_pthread_cond_wait(&x->posted, &x->mutex);
    if (x->ends) break;
    bucket *b = x->bucket[x->next];
    b->posted = 0;
    x->next = (x->next + 1) % x->n;
    starpu_pthread_mutex_unlock(&x->mutex);
    const int64_t start = sl_now();
    sl__simulated_exchange_begins(b->work, b->seconds);
    if (b->seconds > 0) starpu_sleep((float)b->seconds);
    sl__simulated_exchange_ends(b->work, b->seconds);
    finish(b, start);
    starpu_pthread_mutex_lock(&x->mutex);
  }
  starpu_pthread_mutex_unlock(&x->mutex);
  return NULL;
}

sl_status sl__exchanges_create(sl_runtime *runtime, const sl_exchange_type *type, int leaves, const int *first_leaf,
                               int model_ranks, sl_compression compression, sl__exchanges **exchanges) {
  (void)model_ranks, (void)type, (void)leaves, (void)first_leaf, (void)compression, (void)runtime;
  sl__exchanges *x = calloc(1, sizeof *x);
  *exchanges = x;
  if (!x) return sl_no_memory("for the exchanges");
  x->joined = sl_simulation_current()->joined;
  starpu_pthread_mutex_init(&x->mutex, NULL);
  starpu_pthread_cond_init(&x->posted, NULL);
  starpu_pthread_create(&x->lane, NULL, carry_out, x);
  return SL_OK;
}

sl_status sl__exchanges_allocate(sl__exchanges *x, size_t bytes, void **memory) {
  SL_TRY(sl_block_create(bytes, "values that move", &x->memory));
  *memory = x->memory.data;
  return SL_OK;
}

int sl__exchanges_share(const sl__exchanges *x) { return x->joined.nodes == 1; }

static void acquired(void *arg) {
  bucket *b = arg;
  if (--b->left > 0) return;
  starpu_pthread_mutex_lock(&b->of->mutex);
  b->at = sl_now();
  b->posted = 1;
  starpu_pthread_cond_signal(&b->of->posted);
  starpu_pthread_mutex_unlock(&b->of->mutex);
}

static void ready(void *arg) {
  bucket *b = arg;
  b->left = b->n;
  for (int i = 0; i < b->n; i++)
    starpu_data_acquire_on_node_cb_sequential_consistency(b->handle[i], STARPU_MAIN_RAM, STARPU_RW, acquired, b, 0);
}

/* Whether it copies parameters only, of which the ranks of one node have a single copy. */
static int in_common(const sl__exchanges *x, const sl_graph *graph, const sl_node *node) {
  const sl__exchange_attr *attr = node->attr;
  if (x->joined.nodes > 1 || attr->move.kind != SL_EXCHANGE_COPY) return 0;
  for (int i = 0; i < attr->values; i++)
    if (graph->value[node->in[i]]->role != SL_ROLE_PARAMETER) return 0;
  return 1;
}

sl_status sl__exchanges_add(sl__exchanges *x, const sl_graph *graph, const sl_node *node, void *const *data,
                            const starpu_data_handle_t *handle, int n, double urgency, sl__task *t) {
  (void)urgency; /* the model of the interconnect has one lane */
  const sl__exchange_attr *attr = node->attr;
  bucket *b = calloc(1, sizeof *b), **more = realloc(x->bucket, (size_t)(x->n + 1) * sizeof *more);
  if (more) x->bucket = more;
  if (!b || !more || !(b->handle = malloc((size_t)n * sizeof *b->handle))) {
    free(b);
    return sl_no_memory("for the exchange of layer '%s'", node->name);
  }
  b->of = x, b->task = t;
  x->bucket[x->n++] = b;
  for (int i = 0; i < n; i++) {
    int seen = 0;
    for (int k = 0; k < b->n; k++) seen |= b->handle[k] == handle[i];
    if (!seen) b->handle[b->n++] = handle[i];
  }
  double bytes = 0;
  for (int i = 0; data && !in_common(x, graph, node) && i < attr->values; i++)
    bytes += (double)sl_value_bytes(graph->value[node->in[i]]);
  if (data) b->seconds = sl_interconnect_seconds(&x->joined, &attr->move, bytes);
  if (data) b->work = sl_interconnect_work(&x->joined, &attr->move, bytes);
  if (data && x->joined.nodes > 1) b->bytes = 2 * bytes * (x->joined.nodes - 1) / x->joined.nodes;
  struct starpu_task *task = t->task = starpu_task_create();
  if (!task) return sl_no_memory("for the exchange of layer '%s'", node->name);
  t->lacking = &b->left;
  task->cl = &nowhere;
  task->prologue_callback_pop_func = ready;
  task->prologue_callback_pop_arg = b;
  task->destroy = 0;
  task->sequential_consistency = 0;
  task->name = node->name;
  return SL_OK;
}

size_t sl__exchanges_bytes(const sl__exchanges *x) { return (void)x, 0; } /* the values that move do not count */
uint64_t sl__exchanges_sent(const sl__exchanges *x) { return x->sent; }

void sl__exchanges_hold(sl__task *t) {
  starpu_task_end_dep_add(t->task, 1 - (int)t->task->nb_termination_call_required);
}

sl_status sl__exchanges_status(sl__exchanges *x) {
  (void)x;
  return SL_OK;
}

double sl__exchanges_stalled(sl__exchanges *x, int *node, char *late) {
  (void)x, (void)node, (void)late;
  return 0;
}

void sl__exchanges_destroy(sl__exchanges *x) {
  if (!x) return;
  starpu_pthread_mutex_lock(&x->mutex);
  x->ends = 1;
  starpu_pthread_cond_signal(&x->posted);
  starpu_pthread_mutex_unlock(&x->mutex);
  starpu_pthread_join(x->lane, NULL);
  starpu_pthread_cond_destroy(&x->posted);
  starpu_pthread_mutex_destroy(&x->mutex);
  for (int i = 0; i < x->n; i++) free(x->bucket[i]->handle), free(x->bucket[i]);
  if (x->memory.data) sl_block_destroy(&x->memory);
  free(x->bucket), free(x);
}
