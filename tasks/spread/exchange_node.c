/* The operation of exchange nodes. */
#include "tasks/spread/exchange_node.h"

/* Bytes of the values that move; further outputs are only held back. */
static void cost(const sl_call *c, sl_cost *cost) {
  const sl__exchange_attr *attr = c->attr;
  cost->bytes = 0;
  for (int i = 0; i < c->n_in + attr->values; i++) {
    const sl_array *a = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
    cost->bytes += (double)sl_shape_count(&a->shape) * (double)sl_dtype_bytes(a->dtype);
  }
}

const sl_operation sl__exchange_operation = {.name = "exchange", .attr_bytes = sizeof(sl__exchange_attr), .cost = cost};
