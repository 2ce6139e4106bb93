/* Executes a step graph sequentially, for tests. */
#include "tests/tasks/execute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine/store.h"
#include "tasks/graph/init.h"
#include "tasks/starpu/exchange.h"
#include "tasks/starpu/program.h"
#include "tests/support/scratch.h"

execution *execution_create(const sl_graph *g, const sl_memory *memory) {
  execution *e = calloc(1, sizeof *e);
  e->g = g;
  e->memory = memory;
  e->data = calloc((size_t)g->n_values + 1, sizeof *e->data);
  if (memory) {
    e->slot = calloc((size_t)memory->n_slots + 1, sizeof *e->slot);
    for (int k = 0; k < memory->n_slots; k++) e->slot[k] = malloc(memory->bytes[k]);
  }
  for (sl_value v = 0; v < g->n_values; v++) {
    const sl_value_info *info = g->value[v];
    if (memory && info->role == SL_ROLE_TEMPORARY && memory->slot[v] >= 0) {
      assert_true(memory->bytes[memory->slot[v]] >= sl_value_bytes(info));
      e->data[v] = e->slot[memory->slot[v]];
    } else {
      e->data[v] = malloc(sl_value_bytes(info) + 1);
    }
    if (info->role == SL_ROLE_TEMPORARY) continue;
    if (info->part.size) {
      char name[SL_PART_NAME];
      sl_init_fill_part(&info->init, 1, sl_part_whole_name(info->name, name), info->dtype, &info->part, e->data[v]);
      continue;
    }
    /* A block of a parameter starts from the parameter's own rows. */
    sl_shape whole = info->shape;
    whole.dim[0] += info->row0;
    void *all = malloc((size_t)sl_shape_count(&whole) * 8);
    sl_init_fill(&info->init, 1, info->name, info->dtype, &whole, all);
    size_t row = (size_t)sl_shape_row(&whole) * sl_dtype_bytes(info->dtype);
    memcpy(e->data[v], (char *)all + (size_t)info->row0 * row, sl_value_bytes(info));
    free(all);
  }
  return e;
}

static void run_node(execution *e, const sl_node *node) {
  sl_array arrays[256];
  sl_call call;
  assert_true(sl_call_arrays(node) <= 256);
  sl_call_describe(e->g, node, arrays, &call);
  for (int k = 0; k < node->n_in; k++) arrays[k].data = e->data[node->in[k]];
  if (node->in_part)
    for (int a = 0; a < node->n_arg; a++)
      arrays[node->n_in + a].data = call.in[a].parts > 1 ? NULL : call.in[a].part->data;
  for (int k = 0; k < node->n_out; k++) arrays[node->n_in + node->n_arg + k].data = e->data[node->out[k]];
  sl_step step = {.number = 1, .seed = 1, .learning_rate = 0.125};
  call.step = &step;
  call.tiles = SL_TILES_DEFAULT;
  call.team = sl_team_current();
  assert_ok(node->op->cpu[0](&call));
}

void execution_run(execution *e, const sl_schedule *s, unsigned seed) {
  const sl_graph *g = e->g;
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role == SL_ROLE_TEMPORARY) memset(e->data[v], 0xff, sl_value_bytes(g->value[v]));
  if (!s) {
    for (int i = 0; i < g->n_nodes; i++) run_node(e, g->node[i]);
    return;
  }
  char *done = calloc((size_t)g->n_nodes + 1, 1);
  int *ready = malloc(((size_t)g->n_nodes + 1) * sizeof *ready);
  for (int left = g->n_nodes; left > 0; left--) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
      int waits = done[i];
      for (int k = s->from[i]; k < s->from[i + 1]; k++) waits |= !done[s->before[k]];
      if (!waits) ready[n++] = i;
    }
    assert_true(n > 0); /* else the dependencies have a cycle */
    seed = seed * 1103515245u + 12345u;
    int next = ready[(seed >> 16) % (unsigned)n];
    run_node(e, g->node[next]);
    done[next] = 1;
  }
  free(done);
  free(ready);
}

static double element_of(const execution *e, sl_value v, int64_t i) {
  return e->g->value[v]->dtype == SL_F32 ? ((float *)e->data[v])[i] : ((double *)e->data[v])[i];
}

/* An element of the sum over a subtree: the value of the rank that owns the subtree, else the sum of its branches. */
static double element(execution *const *e, const sl_leaves *mine, const int *at, int n, int leaves, sl_leaves tree,
                      int value, int64_t i) {
  for (int r = 0; r < n; r++) {
    sl_leaves own[SL_MAX_SUBTREES];
    const int count = sl_subtrees(leaves, mine[r], own);
    const sl_node *node = e[r]->g->node[at[r]];
    for (int k = 0; k < count; k++)
      if (own[k].first == tree.first && own[k].n == tree.n) {
        const sl_value v = node->in[k * ((const sl__exchange_attr *)node->attr)->values + value];
        return element_of(e[r], v, i);
      }
  }
  const int left = sl_left_branch(tree.n);
  const double a = element(e, mine, at, n, leaves, (sl_leaves){tree.first, left}, value, i),
               b = element(e, mine, at, n, leaves, (sl_leaves){tree.first + left, tree.n - left}, value, i);
  return e[0]->g->value[e[0]->g->node[at[0]]->in[0]]->dtype == SL_F32 ? (float)a + (float)b : a + b;
}

void execution_run_ranks(execution *const *e, const sl_leaves *mine, int n, int leaves) {
  int at[16] = {0}, buckets = 0;
  assert_in_range(n, 1, 16);
  for (int r = 0; r < n; r++)
    for (sl_value v = 0; v < e[r]->g->n_values; v++)
      if (e[r]->g->value[v]->role == SL_ROLE_TEMPORARY) memset(e[r]->data[v], 0xff, sl_value_bytes(e[r]->g->value[v]));
  for (;;) {
    int waiting = 0;
    for (int r = 0; r < n; r++) {
      for (; at[r] < e[r]->g->n_nodes && !e[r]->g->node[at[r]]->bucket; at[r]++) run_node(e[r], e[r]->g->node[at[r]]);
      waiting += at[r] < e[r]->g->n_nodes;
    }
    if (waiting == 0) return;
    assert_int_equal(waiting, n);
    buckets++;
    const sl_node *first = e[0]->g->node[at[0]];
    const sl__exchange_attr *attr = first->attr;
    const int from = attr->move.rank, copies = attr->move.kind == SL_EXCHANGE_COPY;
    for (int k = 0; k < attr->values && copies; k++) {
      const sl_value theirs = e[from]->g->node[at[from]]->in[k];
      for (int r = 0; r < n; r++) {
        const sl_value v = e[r]->g->node[at[r]]->in[k];
        assert_int_equal(sl_value_bytes(e[r]->g->value[v]), sl_value_bytes(e[from]->g->value[theirs]));
        if (r != from) memcpy(e[r]->data[v], e[from]->data[theirs], sl_value_bytes(e[r]->g->value[v]));
      }
    }
    for (int r = 0; r < n; r++) {
      const sl_node *node = e[r]->g->node[at[r]];
      assert_int_equal(node->bucket, buckets);
      assert_memory_equal(node->attr, attr, sizeof *attr);
      assert_int_equal(node->n_out, first->n_out);
      for (int k = 0; k < attr->values; k++) {
        assert_int_equal(node->out[k], node->in[k]);
        assert_int_equal(e[r]->g->value[node->out[k]]->logical, e[0]->g->value[first->out[k]]->logical);
      }
    }
    for (int k = 0; k < attr->values && !copies; k++) {
      const int64_t count = sl_shape_count(&e[0]->g->value[first->in[k]]->shape);
      double *sum = malloc((size_t)count * sizeof *sum);
      for (int64_t i = 0; i < count; i++) sum[i] = element(e, mine, at, n, leaves, (sl_leaves){0, leaves}, k, i);
      for (int r = 0; r < n; r++) {
        const sl_node *node = e[r]->g->node[at[r]];
        const int gets = from < 0 || from == r;
        for (int64_t i = 0; i < count; i++)
          if (e[r]->g->value[node->out[k]]->dtype == SL_F32)
            ((float *)e[r]->data[node->out[k]])[i] = gets ? (float)sum[i] : NAN;
          else
            ((double *)e[r]->data[node->out[k]])[i] = gets ? sum[i] : NAN;
      }
      free(sum);
    }
    for (int r = 0; r < n; r++) at[r]++;
  }
}

void execution_destroy(execution *e) {
  for (sl_value v = 0; v < e->g->n_values; v++)
    if (!e->memory || e->g->value[v]->role != SL_ROLE_TEMPORARY || e->memory->slot[v] < 0) free(e->data[v]);
  for (int k = 0; e->memory && k < e->memory->n_slots; k++) free(e->slot[k]);
  free(e->slot);
  free(e->data);
  free(e);
}
