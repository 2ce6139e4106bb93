/* The graph's values and nodes: adding them, naming them, looking them up, and a node as its kernel sees it. */
#include "tasks/graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numbers/hash.h"

static void *copy_bytes(const void *from, size_t n) {
  if (!from || n == 0) return NULL;
  void *to = malloc(n);
  if (to) memcpy(to, from, n);
  return to;
}

sl_graph *sl_graph_create(int64_t batch, const sl_operation *copy, const sl_operation *add,
                          const sl_operation *convert) {
  sl_graph *graph = calloc(1, sizeof *graph);
  if (!graph) return NULL;
  graph->batch = batch;
  graph->turns = 1;
  graph->folds = graph->fold.to = 1;
  graph->copy = copy;
  graph->add = add;
  graph->convert = convert;
  if (batch < 1) {
    sl_fail(SL_EINVAL, "a batch of %lld samples: at least 1 is needed", (long long)batch);
    sl_graph_fail(graph, SL_EINVAL, NULL);
  }
  return graph;
}

static void free_node(sl_node *node) {
  if (!node) return;
  free(node->name);
  free(node->attr);
  free(node->in);
  free(node->out);
  free(node->in_part);
  free(node);
}

void sl_graph_destroy(sl_graph *graph) {
  if (!graph) return;
  for (int i = 0; i < graph->n_values; i++) {
    free(graph->value[i]->name);
    free(graph->value[i]);
  }
  for (int i = 0; i < graph->n_nodes; i++) free_node(graph->node[i]);
  free(graph->value);
  free(graph->node);
  free(graph->named);
  free(graph);
}

void sl_graph_fail(sl_graph *graph, sl_status status, const char *layer) {
  if (graph->status != SL_OK) return;
  graph->status = status;
  if (layer)
    snprintf(graph->error, sizeof graph->error, "layer '%s': %s", layer, sl_error());
  else
    snprintf(graph->error, sizeof graph->error, "%s", sl_error());
}

sl_status sl_graph_status(const sl_graph *graph) {
  return graph->status == SL_OK ? SL_OK : sl_fail(graph->status, "%s", graph->error);
}

const sl_value_info *sl_graph_value(const sl_graph *graph, sl_value value) {
  return value >= 0 && value < graph->n_values ? graph->value[value] : NULL;
}

static void out_of_memory(sl_graph *graph) {
  sl_no_memory("for a graph of %d values and %d nodes", graph->n_values, graph->n_nodes);
  sl_graph_fail(graph, SL_ENOMEM, NULL);
}

/* Room for one more pointer in *list. */
static int grow(void *list, int n, int *capacity) {
  void **array = *(void ***)list;
  if (n < *capacity) return 1;
  int wanted = *capacity ? 2 * *capacity : 64;
  array = realloc(array, (size_t)wanted * sizeof *array);
  if (!array) return 0;
  *(void ***)list = array;
  *capacity = wanted;
  return 1;
}

/* Sizes may come from a file: their products must not wrap. */
static int bytes_fit(const sl_value_info *info) {
  int64_t bytes = (int64_t)sl_dtype_bytes(info->dtype);
  int wraps = 0;
  for (int i = 0; i < info->shape.ndim; i++) wraps |= __builtin_mul_overflow(bytes, info->shape.dim[i], &bytes);
  return !wraps;
}

/* Hashes lie next to each other, so that a search of all names is fast. */
struct sl__named {
  uint32_t hash;
  sl_value value;
};

static int enter_name(sl_graph *graph, const char *name, sl_value v) {
  if (graph->n_named == graph->capacity_named) {
    const int wanted = graph->capacity_named ? 2 * graph->capacity_named : 64;
    struct sl__named *more = realloc(graph->named, (size_t)wanted * sizeof *more);
    if (!more) return 0;
    graph->named = more;
    graph->capacity_named = wanted;
  }
  graph->named[graph->n_named++] = (struct sl__named){sl_hash32_text(name), v};
  return 1;
}

sl_value sl_graph_push_value(sl_graph *graph, const sl_value_info *info) {
  if (graph->status != SL_OK) return SL_NONE;
  if (!bytes_fit(info)) {
    char text[SL_SHAPE_TEXT];
    sl_fail(SL_ESHAPE, "%s of shape %s has more than 2^63 bytes", info->name ? info->name : "a result",
            sl_shape_text(&info->shape, text, sizeof text));
    sl_graph_fail(graph, SL_ESHAPE, NULL);
    return SL_NONE;
  }
  sl_value_info *mine = copy_bytes(info, sizeof *info);
  char *name = info->name ? strdup(info->name) : NULL;
  if (!mine || (info->name && !name) || !grow(&graph->value, graph->n_values, &graph->capacity_values) ||
      (name && !enter_name(graph, name, graph->n_values))) {
    free(mine);
    free(name);
    out_of_memory(graph);
    return SL_NONE;
  }
  mine->name = name;
  graph->value[graph->n_values] = mine;
  return graph->n_values++;
}

sl_node *sl_graph_push_node(sl_graph *graph, const sl_node *node) {
  if (graph->status != SL_OK) return NULL;
  sl_node *mine = copy_bytes(node, sizeof *node);
  if (!mine || !grow(&graph->node, graph->n_nodes, &graph->capacity_nodes)) {
    free(mine);
    out_of_memory(graph);
    return NULL;
  }
  mine->name = strdup(node->name ? node->name : "");
  mine->attr = copy_bytes(node->attr, node->op->attr_bytes);
  mine->in = copy_bytes(node->in, (size_t)node->n_in * sizeof *node->in);
  mine->out = copy_bytes(node->out, (size_t)node->n_out * sizeof *node->out);
  mine->in_part = node->in_part ? copy_bytes(node->in_part, (size_t)(node->n_arg + 1) * sizeof *node->in_part) : NULL;
  if (!mine->name || (node->op->attr_bytes && node->attr && !mine->attr) || (node->n_in && !mine->in) ||
      (node->n_out && !mine->out) || (node->in_part && !mine->in_part)) {
    free_node(mine);
    out_of_memory(graph);
    return NULL;
  }
  graph->node[graph->n_nodes++] = mine;
  return mine;
}

void sl_graph_add(sl_graph *graph, const sl_operation *op, const char *name, const void *attr, const sl_value *in,
                  int n_in, sl_value *out, int n_out) {
  for (int j = 0; j < n_out; j++) out[j] = SL_NONE;
  if (graph->status != SL_OK) return;
  const sl_value_info **ins = calloc((size_t)n_in + 1, sizeof *ins);
  if (!ins) {
    out_of_memory(graph);
    return;
  }
  sl_scope finest = SL_SCOPE_WHOLE;
  for (int i = 0; i < n_in; i++) {
    ins[i] = sl_graph_value(graph, in[i]);
    if (!ins[i]) {
      sl_fail(SL_EINVAL, "%s: input %d is not a value of this graph", op->name, i);
      sl_graph_fail(graph, SL_EINVAL, name);
      free(ins);
      return;
    }
    if (ins[i]->scope < finest) finest = ins[i]->scope;
  }
  sl_value_info info[SL_MAX_OUT];
  memset(info, 0, sizeof info);
  for (int j = 0; j < n_out; j++)
    info[j] = (sl_value_info){.dtype = SL_F32,
                              .scope = finest,
                              .role = SL_ROLE_TEMPORARY,
                              .blocks = 1,
                              .producer = graph->n_nodes,
                              .leaf = -1,
                              .shard = -1,
                              .block = -1};
  sl_status status = op->shape(attr, ins, n_in, info, n_out);
  free(ins);
  if (status != SL_OK) {
    sl_context(status, "%s", op->name);
    sl_graph_fail(graph, status, name);
    return;
  }
  for (int j = 0; j < n_out; j++) {
    if (op->update[j]) {
      out[j] = in[op->update[j] - 1];
      continue;
    }
    if (info[j].scope < finest) finest = info[j].scope;
    if (info[j].scope == SL_SCOPE_SAMPLE && (info[j].shape.ndim < 1 || info[j].shape.dim[0] != graph->batch)) {
      char shape[SL_SHAPE_TEXT];
      sl_fail(SL_ESHAPE, "%s: output %d has shape %s; its first dimension should be the batch, %lld", op->name, j,
              sl_shape_text(&info[j].shape, shape, sizeof shape), (long long)graph->batch);
      sl_graph_fail(graph, SL_ESHAPE, name);
      return;
    }
    char text[256];
    snprintf(text, sizeof text, n_out > 1 ? "%s:%s.%d" : "%s:%s", name, op->name, j);
    info[j].name = text;
    info[j].logical = graph->n_values;
    out[j] = sl_graph_push_value(graph, &info[j]);
    if (out[j] == SL_NONE) return;
  }
  sl_node node = {.op = op,
                  .name = (char *)name,
                  .attr = (void *)attr,
                  .n_in = n_in,
                  .n_out = n_out,
                  .in = (sl_value *)in,
                  .out = out,
                  .phase = graph->phase,
                  .key = sl_hash32_text(name),
                  .after = SL_NONE,
                  .fold = graph->fold,
                  .logical = graph->n_nodes,
                  .leaf = -1,
                  .shard = -1,
                  .block = -1,
                  .batch_rows = graph->batch,
                  .leaf_rows = graph->batch,
                  .rows = finest == SL_SCOPE_WHOLE ? 0 : graph->batch,
                  .n_arg = n_in};
  memcpy(node.segment, graph->segment, sizeof node.segment);
  sl_graph_push_node(graph, &node);
}

sl_value sl_graph_add1(sl_graph *graph, const sl_operation *op, const char *name, const void *attr, const sl_value *in,
                       int n_in) {
  sl_value out;
  sl_graph_add(graph, op, name, attr, in, n_in, &out, 1);
  return out;
}

sl_value sl_graph_find(const sl_graph *graph, const char *name) {
  const uint32_t hash = sl_hash32_text(name);
  for (int i = 0; i < graph->n_named; i++) {
    const struct sl__named *x = &graph->named[i];
    if (x->hash == hash && strcmp(graph->value[x->value]->name, name) == 0) return x->value;
  }
  return SL_NONE;
}

sl_value sl_graph_tensor(sl_graph *graph, sl_role role, const char *layer, const char *what, sl_dtype dtype,
                         sl_shape shape, sl_init init) {
  if (graph->status != SL_OK) return SL_NONE;
  char name[256];
  snprintf(name, sizeof name, "%s.%s", layer, what);
  sl_value old = sl_graph_find(graph, name);
  if (old != SL_NONE) {
    const sl_value_info *info = graph->value[old];
    if (info->role == role && info->dtype == dtype && sl_shape_equal(&info->shape, &shape)) return old;
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    sl_fail(SL_ESHAPE, "tensor '%s' %s %s exists already as %s %s; give layers of different shapes different names",
            name, sl_dtype_name(dtype), sl_shape_text(&shape, a, sizeof a), sl_dtype_name(info->dtype),
            sl_shape_text(&info->shape, b, sizeof b));
    sl_graph_fail(graph, SL_ESHAPE, layer);
    return SL_NONE;
  }
  for (int i = 0; i < shape.ndim; i++)
    if (shape.dim[i] < 1) {
      char a[SL_SHAPE_TEXT];
      sl_fail(SL_ESHAPE, "tensor '%s' would have shape %s", name, sl_shape_text(&shape, a, sizeof a));
      sl_graph_fail(graph, SL_ESHAPE, layer);
      return SL_NONE;
    }
  return sl_graph_push_value(graph, &(sl_value_info){.name = name,
                                                     .dtype = dtype,
                                                     .shape = shape,
                                                     .scope = SL_SCOPE_WHOLE,
                                                     .role = role,
                                                     .init = init,
                                                     .decay = shape.ndim > 1,
                                                     .blocks = 1,
                                                     .producer = -1,
                                                     .logical = graph->n_values,
                                                     .leaf = -1,
                                                     .shard = -1,
                                                     .block = -1});
}

void sl_graph_renumber(sl_graph *g) {
  for (sl_value v = 0; v < g->n_values; v++) g->value[v]->producer = -1;
  for (int i = 0; i < g->n_nodes; i++) {
    g->node[i]->logical = i;
    for (int j = 0; j < g->node[i]->n_out; j++) {
      sl_value_info *info = g->value[g->node[i]->out[j]];
      if (info->producer < 0 && info->role == SL_ROLE_TEMPORARY) info->producer = i;
    }
  }
}

void sl_graph_segment(sl_graph *graph, sl_recompute kind, int begin) {
  graph->segment[kind] = begin ? ++graph->n_segments : 0;
}

void sl_graph_rename(sl_graph *graph, sl_value value, const char *name) {
  if (graph->status != SL_OK || value == SL_NONE) return;
  char *mine = strdup(name);
  int at = 0;
  while (at < graph->n_named && graph->named[at].value != value) at++;
  if (!mine || (at == graph->n_named && !enter_name(graph, name, value))) {
    free(mine);
    out_of_memory(graph);
    return;
  }
  graph->named[at].hash = sl_hash32_text(name);
  free(graph->value[value]->name);
  graph->value[value]->name = mine;
}

size_t sl_value_bytes(const sl_value_info *value) {
  return (size_t)sl_shape_count(&value->shape) * sl_dtype_bytes(value->dtype);
}

int sl_node_reads_output(const sl_node *node, int i) {
  return node->bucket || (node->accumulate >> i & 1) || node->op->update[i];
}

sl_scope sl_node_scope(const sl_graph *g, const sl_node *node) {
  sl_scope finest = SL_SCOPE_WHOLE;
  for (int i = 0; i < node->n_in; i++)
    if (g->value[node->in[i]]->scope < finest) finest = g->value[node->in[i]]->scope;
  for (int i = 0; i < node->n_out; i++)
    if (g->value[node->out[i]]->scope < finest) finest = g->value[node->out[i]]->scope;
  return finest;
}

int sl_call_arrays(const sl_node *node) { return node->n_in + node->n_arg + node->n_out; }

static sl_array array_of(const sl_value_info *info) {
  return (sl_array){.shape = info->shape, .dtype = info->dtype, .row0 = info->row0, .parts = 1};
}

/* Layout of arrays: first the parts of all inputs, then, if the node has in_part, one array for each of its n_arg
 * arguments, then the outputs. call->in needs the arguments side by side, which the parts are not. */
void sl_call_describe(const sl_graph *graph, const sl_node *node, sl_array *arrays, sl_call *call) {
  sl_array *part = arrays, *in = node->in_part ? arrays + node->n_in : arrays, *out = arrays + node->n_in + node->n_arg;
  for (int i = 0; i < node->n_in; i++) {
    part[i] = array_of(graph->value[node->in[i]]);
    part[i].part = &part[i];
  }
  if (node->in_part)
    for (int a = 0; a < node->n_arg; a++) {
      int first = node->in_part[a], n = node->in_part[a + 1] - first;
      in[a] = part[first];
      in[a].part = &part[first];
      in[a].parts = n;
      for (int p = 1; p < n; p++) in[a].shape.dim[0] += part[first + p].shape.dim[0];
    }
  for (int j = 0; j < node->n_out; j++) {
    out[j] = array_of(graph->value[node->out[j]]);
    out[j].part = &out[j];
  }
  *call = (sl_call){.attr = node->attr,
                    .n_in = node->n_arg,
                    .n_out = node->n_out,
                    .in = in,
                    .out = out,
                    .accumulate = node->accumulate,
                    .key = node->key,
                    .row0 = node->row0,
                    .rows = node->rows,
                    .leaf_rows = node->leaf_rows,
                    .batch_rows = node->batch_rows};
}

sl_cost sl_node_cost(const sl_graph *graph, const sl_node *node, const sl_tiles *tiles) {
  sl_array small[32], *arrays = small;
  int n = sl_call_arrays(node);
  if (n > 32 && !(arrays = calloc((size_t)n, sizeof *arrays))) return (sl_cost){0};
  sl_call call;
  sl_call_describe(graph, node, arrays, &call);
  call.tiles = *tiles;
  sl_cost cost = {0};
  for (int i = 0; i < node->n_in; i++) cost.bytes += (double)sl_value_bytes(graph->value[node->in[i]]);
  for (int j = 0; j < node->n_out; j++) {
    const int read_apart = !node->bucket && !node->op->update[j] && (node->accumulate >> j & 1);
    cost.bytes += (double)sl_value_bytes(graph->value[node->out[j]]) * (read_apart ? 2 : 1);
  }
  if (node->op->cost) node->op->cost(&call, &cost);
  if (arrays != small) free(arrays);
  return cost;
}

uint32_t sl_node_footprint(const sl_graph *g, const sl_node *node) {
  uint32_t h = sl_hash32_number(SL_HASH32_START, node->accumulate);
  for (int k = 0; k < node->n_in + node->n_out; k++) {
    const sl_value_info *info = g->value[k < node->n_in ? node->in[k] : node->out[k - node->n_in]];
    h = sl_hash32_number(h, (uint64_t)info->dtype << 8 | (uint64_t)info->shape.ndim);
    for (int d = 0; d < info->shape.ndim; d++) h = sl_hash32_number(h, (uint64_t)info->shape.dim[d]);
  }
  const unsigned char *attr = node->attr;
  for (size_t i = 0; attr && i < node->op->attr_bytes; i++) h = sl_hash32_number(h, attr[i]);
  return h;
}
