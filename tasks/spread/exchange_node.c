/* The operation of exchange nodes, the function that adds a node, and their order. */
#include "tasks/spread/exchange_node.h"

#include <stdlib.h>

#include "tasks/spread/spread.h"

/* Bytes of the values that move; further outputs move nothing. */
static void cost(const sl_call *c, sl_cost *cost) {
  const sl__exchange_attr *attr = c->attr;
  cost->bytes = 0;
  const int out = attr->values < c->n_out ? attr->values : c->n_out; /* a message that is sent has no outputs */
  for (int i = 0; i < c->n_in + out; i++) {
    const sl_array *a = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
    cost->bytes += (double)sl_shape_count(&a->shape) * (double)sl_dtype_bytes(a->dtype);
  }
}

const sl_operation sl__exchange_operation = {.name = "exchange", .attr_bytes = sizeof(sl__exchange_attr), .cost = cost};

sl_status sl__exchange_node_add(sl_graph *step, const char *name, sl_phase phase, int number,
                                const sl__exchange_attr *attr, const sl_value *in, int n_in, const sl_value *out,
                                int n_out) {
  sl__exchange_attr mine = *attr;
  mine.place = number;
  sl_graph_push_node(step, &(sl_node){.op = &sl__exchange_operation,
                                      .attr = &mine,
                                      .name = (char *)name,
                                      .n_in = n_in,
                                      .n_out = n_out,
                                      .n_arg = n_in,
                                      .in = (sl_value *)in,
                                      .out = (sl_value *)out,
                                      .phase = phase,
                                      .after = SL_NONE,
                                      .logical = -1,
                                      .bucket = number,
                                      .leaf = -1,
                                      .shard = -1,
                                      .block = -1,
                                      .leaf_rows = step->batch,
                                      .batch_rows = step->batch});
  return sl_graph_status(step);
}

static int by_slot(const void *a, const void *b) {
  const sl_step_exchange *x = a, *y = b;
  if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

/* Ranks that share samples have different graphs, so their exchanges have the order of the timetable, which is the same
 * on all ranks. Without such ranks exchanges have the order of the nodes. */
int sl_spread_exchanges(const sl_graph *step, const sl_division *d, sl_step_exchange *list) {
  int n = 0;
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i];
    if (!node->bucket) continue;
    const sl__exchange_attr *attr = node->attr;
    double bytes = 0;
    for (int k = 0; k < attr->values; k++) bytes += (double)sl_value_bytes(step->value[node->in[k]]);
    list[n++] =
        (sl_step_exchange){.node = i, .move = attr->move, .bytes = bytes, .slot = attr->slot, .place = attr->place};
  }
  if (d && d->model_ranks > 1) qsort(list, (size_t)n, sizeof *list, by_slot);
  return n;
}
