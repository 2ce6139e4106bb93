/* The precision pass: narrows values of samples, then adds the copies of weights. */
#include "tasks/graph/precision.h"

#include <stdlib.h>
#include <string.h>

const char *const sl_precision_names[] = {
#define NAME(kind, name, dtype) [kind] = name,
    SL_PRECISION_LIST(NAME)
#undef NAME
        [SL_PRECISION_COUNT] = NULL,
};
static const sl_dtype storage[SL_PRECISION_COUNT] = {
#define DTYPE(kind, name, dtype) [kind] = dtype,
    SL_PRECISION_LIST(DTYPE)
#undef DTYPE
};

/* Activations and their gradients: floats of each sample that nodes make, unless an operation keeps them wide. */
static void narrow_values(sl_graph *g, sl_dtype dtype) {
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int j = 0; j < node->n_out; j++) {
      sl_value_info *v = g->value[node->out[j]];
      const int wide = v->dtype != SL_F32 || v->scope != SL_SCOPE_SAMPLE || v->role != SL_ROLE_TEMPORARY ||
                       (node->op->wide_out >> j & 1);
      if (!wide) v->dtype = node->op->any_dtype ? g->value[node->in[0]]->dtype : dtype;
    }
  }
}

/* Kernels are made for one type of each argument, so every value must arrive in the type that its readers take. */
static sl_status check(const sl_graph *g, sl_dtype dtype) {
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in && !node->op->any_dtype; k++) {
      const sl_value_info *v = g->value[node->in[k]];
      if (v->scope != SL_SCOPE_SAMPLE || v->role != SL_ROLE_TEMPORARY || (v->dtype != SL_F32 && v->dtype != dtype))
        continue;
      const int wide = k < 32 && (node->op->wide_in >> k & 1);
      if (wide != (v->dtype == SL_F32))
        return sl_fail(SL_EINVAL, "layer '%s' (%s): input %d is %s, which its kernels do not take", node->name,
                       node->op->name, k, sl_dtype_name(v->dtype));
    }
  }
  return SL_OK;
}

/* Returns the copy of a weight. The first call for a weight makes the copy, in front of node i. */
static sl_value copy_of(sl_graph *g, sl_value weight, sl_dtype dtype, sl_value *copy, int i) {
  if (copy[weight] != SL_NONE) return copy[weight];
  const sl_phase before = g->phase;
  const int first = g->n_nodes;
  g->phase = g->node[i]->phase;
  copy[weight] = sl_graph_add1(g, g->convert, g->value[weight]->name, &dtype, &weight, 1);
  g->phase = before;
  if (copy[weight] == SL_NONE) return SL_NONE;
  sl_node *made = g->node[first];
  memmove(g->node + i + 1, g->node + i, (size_t)(first - i) * sizeof *g->node);
  g->node[i] = made;
  return copy[weight];
}

sl_status sl_precision_apply(sl_graph *g, sl_precision precision) {
  SL_TRY(sl_graph_status(g));
  const sl_dtype dtype = storage[precision];
  if (dtype == SL_F32) return SL_OK;
  sl_value *copy = malloc(((size_t)g->n_values + 1) * sizeof *copy);
  if (!copy) return sl_no_memory("for the copies of %d weights", g->n_values);
  const int n_values = g->n_values;
  for (sl_value v = 0; v < n_values; v++) copy[v] = SL_NONE;
  narrow_values(g, dtype);
  for (int i = 0; i < g->n_nodes && g->status == SL_OK; i++)
    for (int k = 0; k < g->node[i]->n_in && g->status == SL_OK; k++) {
      const sl_value v = g->node[i]->in[k];
      if (k > 31 || !(g->node[i]->op->copies >> k & 1) || v >= n_values || g->value[v]->role != SL_ROLE_PARAMETER ||
          g->value[v]->dtype != SL_F32)
        continue;
      const int nodes = g->n_nodes;
      const sl_value narrow = copy_of(g, v, dtype, copy, i);
      if (narrow == SL_NONE) break;
      i += g->n_nodes - nodes; /* the node that reads it has moved */
      g->node[i]->in[k] = narrow;
    }
  free(copy);
  sl_graph_renumber(g);
  SL_TRY(sl_graph_status(g));
  return check(g, dtype);
}
