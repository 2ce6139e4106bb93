/* Chooses the weights that are cut into row blocks. Values that one operation maps block by block (a weight, its
 * gradient, its momentum) must have the same blocks, so they form a class. A class is cut into row blocks if every use
 * of its values allows this and they have enough rows. */
#include <stdlib.h>

#include "tasks/graph/masks.h"
#include "tasks/spread/spread.h"

enum { LEAST_ROWS = 32 };

static int root(int *class, int v) {
  while (class[v] != v) v = class[v] = class[class[v]];
  return v;
}

static void join(int *class, int *last, int v) {
  if (*last != SL_NONE) class[root(class, v)] = root(class, *last);
  *last = v;
}

/* Whether the value is a parameter, or its copy in another type. An evaluation in 16 bits reads a weight as a copy and
 * its bias as it is, and both must have the blocks that they have in training. */
static int is_parameter(const sl_graph *g, sl_value v) {
  const int producer = g->value[v]->producer;
  const sl_node *node = producer < 0 ? NULL : g->node[producer];
  if (g->value[v]->role == SL_ROLE_PARAMETER) return 1;
  return node && g->convert && node->op == g->convert && g->value[node->in[0]]->role == SL_ROLE_PARAMETER;
}

sl_status sl_row_blocks(const sl_graph *g, const sl_plan *plan, int *blocks) {
  for (int v = 0; v < g->n_values; v++) blocks[v] = 1;
  if (plan->row_blocks == 1) return SL_OK;
  int *class = malloc((size_t)g->n_values * sizeof *class);
  char *fixed = calloc((size_t)g->n_values, 1); /* by value, later by class: must not be cut */
  char *large = calloc((size_t)g->n_values, 1); /* the class contains a matrix */
  if (!class || !fixed || !large) {
    free(class), free(fixed), free(large);
    return sl_no_memory("to cut %d values into row blocks", g->n_values);
  }
  for (int v = 0; v < g->n_values; v++) {
    class[v] = v;
    if (g->value[v]->scope != SL_SCOPE_WHOLE || g->value[v]->shape.ndim == 0 ||
        g->value[v]->shape.dim[0] < (int64_t)LEAST_ROWS * plan->row_blocks)
      fixed[v] = 1;
  }
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    int mapped = SL_NONE, whole = SL_NONE;
    for (int k = 0; k < node->n_in; k++) {
      int v = node->in[k];
      if (g->value[v]->scope != SL_SCOPE_WHOLE) continue;
      if (sl__mask_has(node->op->map_in, k))
        join(class, &mapped, v);
      else if (!sl__mask_has(node->op->all_in, k))
        fixed[v] = 1;
      else if (is_parameter(g, v) && (whole == SL_NONE || g->value[v]->shape.dim[0] == g->value[whole]->shape.dim[0]))
        join(class, &whole, v);
    }
    for (int k = 0; k < node->n_out; k++)
      if (g->value[node->out[k]]->scope == SL_SCOPE_WHOLE) {
        if (sl__mask_has(node->op->map_out, k))
          join(class, &mapped, node->out[k]);
        else
          fixed[node->out[k]] = 1;
      }
  }
  for (int v = 0; v < g->n_values; v++) {
    int r = root(class, v);
    if (fixed[v] || g->value[v]->shape.dim[0] != g->value[r]->shape.dim[0]) fixed[r] = 1;
    if (g->value[v]->shape.ndim > 1) large[r] = 1;
  }
  for (int v = 0; v < g->n_values; v++)
    if (!fixed[root(class, v)] && large[root(class, v)]) blocks[v] = plan->row_blocks;
  free(class), free(fixed), free(large);
  return SL_OK;
}
