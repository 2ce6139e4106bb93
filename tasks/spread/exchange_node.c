/* The operation of exchange nodes, and the function that adds a node. */
#include "tasks/spread/exchange_node.h"

/* Bytes of the values that move; further outputs move nothing. */
static void cost(const sl_call *c, sl_cost *cost) {
  const sl__exchange_attr *attr = c->attr;
  cost->bytes = 0;
  const int out = attr->values < c->n_out ? attr->values : c->n_out; /* a message that is sent has none */
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
