/* Tables, JSON and drawings of a step graph. */
#include "tasks/schedule/print.h"

#include <stdlib.h>
#include <string.h>

#include "tasks/graph/storage.h"

enum { OUTPUT = SL_SHAPE_TEXT + 16 }; /* room for a shape and a dtype */

static const char *const phase_names[SL_PHASE_COUNT] = {"forward", "backward", "update"};
void sl_node_shapes(const sl_graph *g, const sl_node *node, char *text, size_t n) {
  size_t used = 0;
  text[0] = 0;
  for (int k = 0; k < node->n_in + node->n_out && used + SL_SHAPE_TEXT + 8 < n; k++) {
    const sl_value v = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
    used += (size_t)snprintf(text + used, n - used, "%s%s",
                             k == node->n_in ? k ? " -> " : "-> "
                             : k             ? " "
                                             : "",
                             sl_shape_text(&g->value[v]->shape, (char[SL_SHAPE_TEXT]){0}, SL_SHAPE_TEXT));
  }
}

const char *sl_phase_name(sl_phase phase) { return (unsigned)phase < SL_PHASE_COUNT ? phase_names[phase] : "?"; }

/* ---- groups ----------------------------------------------------------------------------------------------------- */

sl_status sl_groups_create(const sl_graph *logical, const sl_graph *step, const sl_schedule *schedule,
                           sl_groups **groups) {
  *groups = NULL;
  const size_t most = (size_t)step->n_nodes + 1;
  sl_groups *g = calloc(1, sizeof *g);
  /* first[2 l]: the tasks of logical node l; first[2 l + 1]: the additions over leaves that spreading put after it.
   * Exchanges come at the end, since they belong to no logical node. */
  int *first = malloc(2 * ((size_t)logical->n_nodes + 1) * sizeof *first);
  if (g) g->group = calloc(most, sizeof *g->group), g->of = calloc(most, sizeof *g->of);
  if (!g || !first || !g->group || !g->of) {
    free(first);
    sl_groups_destroy(g);
    return sl_no_memory("to describe a graph of %d tasks", step->n_nodes);
  }
  for (int i = 0; i < 2 * logical->n_nodes + 1; i++) first[i] = -1;
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i], *whole = node->bucket ? node : logical->node[node->logical];
    int *at = &first[node->bucket ? 2 * logical->n_nodes : 2 * node->logical + (node->op != whole->op)];
    if (*at < 0 && node->bucket) {
      *at = g->n++;
      g->group[*at] = (sl_group){.op = node->op, .layer = "(ranks)", .phase = node->phase, .dtype = SL_F32};
    } else if (*at < 0) {
      *at = g->n++;
      const sl_value_info *out = node->n_out ? logical->value[whole->out[0]] : NULL;
      g->group[*at] =
          (sl_group){.op = node->op, .layer = whole->name, .phase = node->phase, .dtype = out ? out->dtype : SL_F32};
      if (out) g->group[*at].shape = out->shape;
    }
    sl_group *mine = &g->group[g->of[i] = *at];
    mine->tasks++;
    mine->cost.flops += schedule->cost[i].flops;
    mine->cost.bytes += schedule->cost[i].bytes;
    mine->seconds += schedule->seconds[i];
  }
  free(first);
  *groups = g;
  return SL_OK;
}

void sl_groups_destroy(sl_groups *g) {
  if (!g) return;
  free(g->group), free(g->of), free(g);
}

size_t sl_graph_scratch(const sl_graph *step, const sl_tiles *tiles) {
  size_t most = 0;
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i];
    sl_call call = {0};
    sl_array *arrays = calloc((size_t)sl_call_arrays(node) + 1, sizeof *arrays);
    if (!arrays) return most;
    sl_call_describe(step, node, arrays, &call);
    call.tiles = *tiles;
    const size_t bytes = sl_operation_scratch(node->op, &call);
    if (bytes > most) most = bytes;
    free(arrays);
  }
  return most;
}

typedef struct totals {
  sl_cost cost;
  double seconds;
  size_t scratch, peak, other; /* bytes; other: the process itself, and descriptions of tasks and handles */
} totals;

static totals add_up(const sl_picture *p) {
  totals t = {.scratch = sl_graph_scratch(p->step, &p->tiles) * (size_t)(p->workers * p->threads)};
  for (int i = 0; i < p->step->n_nodes; i++) {
    t.cost.flops += p->schedule->cost[i].flops;
    t.cost.bytes += p->schedule->cost[i].bytes;
    t.seconds += p->schedule->seconds[i];
  }
  if (p->memory) {
    t.peak = sl_memory_of_program(p->step, p->memory) + t.scratch + p->inputs + p->process;
    t.other = t.peak - p->memory->temporaries - p->memory->persistent - t.scratch - p->inputs;
  }
  return t;
}

/* ---- table ------------------------------------------------------------------------------------------------------ */

/* "[8, 8, 16] BF16" */
static const char *output_text(const sl_shape *shape, sl_dtype dtype, char *text, size_t n) {
  char dims[SL_SHAPE_TEXT];
  snprintf(text, n, "%s %s", sl_shape_text(shape, dims, sizeof dims), sl_dtype_name(dtype));
  return text;
}

static void print_row(FILE *file, const char *phase, const char *layer, const char *op, const char *output, int tasks,
                      sl_cost cost, double seconds) {
  fprintf(file, "%-8s  %-20s  %-18s  %-20s %5d %10.3f %9.2f %9.1f\n", phase, layer, op, output, tasks,
          1e-6 * cost.flops, 1e-6 * cost.bytes, 1e6 * seconds);
}

static void print_tasks(const sl_picture *p, FILE *file) {
  for (int i = 0; i < p->step->n_nodes; i++) {
    const sl_node *node = p->step->node[i];
    const sl_value_info *out = node->n_out ? p->step->value[node->out[0]] : NULL;
    char layer[96], output[OUTPUT] = "";
    int n = snprintf(layer, sizeof layer, "%s", node->name);
    if (node->shard >= 0)
      n += snprintf(layer + n, sizeof layer - (size_t)n, " s%d", node->shard);
    else if (node->leaf >= 0)
      n += snprintf(layer + n, sizeof layer - (size_t)n, " l%d", node->leaf);
    if (node->block >= 0) snprintf(layer + n, sizeof layer - (size_t)n, " b%d", node->block);
    if (out) output_text(&out->shape, out->dtype, output, sizeof output);
    print_row(file, sl_phase_name(node->phase), layer, node->op->name, output, 1, p->schedule->cost[i],
              p->schedule->seconds[i]);
  }
}

/* The line on the predicted schedule on CPUs and GPUs. */
static void print_mixed(const sl_picture *p, FILE *file) {
  double on_gpus = 0, all = 0;
  int tasks = 0;
  for (int i = 0; i < p->step->n_nodes; i++) {
    const int gpu = p->schedule->worker[i] >= p->workers;
    tasks += gpu;
    on_gpus += gpu * p->schedule->seconds[i], all += p->schedule->seconds[i];
  }
  fprintf(file,
          "predicted step on %d workers (threads per worker %d) and %d GPUs: %.3f ms; critical path %.3f ms; %d tasks "
          "on GPUs (%.0f %% of the time), %.2f MB between host and GPUs\n",
          p->workers, p->threads, p->gpus, 1e3 * p->schedule->makespan, 1e3 * p->schedule->critical_path, tasks,
          all > 0 ? 100 * on_gpus / all : 0, 1e-6 * p->schedule->moved);
}

/* A line for each GPU. */
static void print_residence(const sl_picture *p, FILE *file) {
  for (int i = 0; p->residence && i < p->gpus; i++) {
    const sl_residence *r = p->residence[i];
    fprintf(file, "memory of GPU %d: %.2f MB for all data of its tasks, %.2f MB for one task at most", i,
            1e-6 * (double)r->all, 1e-6 * (double)r->most);
    if (r->n_moves)
      fprintf(file,
              "; with %.2f MB a step moves %.2f MB in and %.2f MB out (in this order of tasks at least %.2f and %.2f)",
              1e-6 * (double)r->peak, 1e-6 * r->in, 1e-6 * r->out, 1e-6 * r->least_in, 1e-6 * r->least_out);
    fputc('\n', file);
  }
}

static json_t *residence_to_json(const sl_picture *p) {
  json_t *array = json_array();
  for (int i = 0; i < p->gpus; i++) {
    const sl_residence *r = p->residence[i];
    json_array_append_new(
        array, json_pack("{s:I, s:I, s:I, s:i, s:f, s:f, s:f, s:f}", "all_bytes", (json_int_t)r->all, "task_bytes",
                         (json_int_t)r->most, "peak_bytes", (json_int_t)r->peak, "moves", r->n_moves, "in_bytes", r->in,
                         "out_bytes", r->out, "least_in_bytes", r->least_in, "least_out_bytes", r->least_out));
  }
  return array;
}

sl_status sl_print_table(const sl_picture *p, FILE *file) {
  sl_groups *groups;
  SL_TRY(sl_groups_create(p->logical, p->step, p->schedule, &groups));
  const totals t = add_up(p);
  fprintf(file, "%s\n\n%-8s  %-20s  %-18s  %-20s %5s %10s %9s %9s\n", p->title, "phase", "layer", "operation", "output",
          "tasks", "MFLOP", "MB r+w", "us");
  if (p->tasks) print_tasks(p, file);
  for (int i = 0; i < groups->n && !p->tasks; i++) {
    const sl_group *g = &groups->group[i];
    char output[OUTPUT];
    print_row(file, sl_phase_name(g->phase), g->layer, g->op->name,
              output_text(&g->shape, g->dtype, output, sizeof output), g->tasks, g->cost, g->seconds);
  }
  fprintf(file, "%-8s  %-20s  %-18s  %-20s %5d %10.3f %9.2f %9.1f\n\n", "all", "", "", "", p->step->n_nodes,
          1e-6 * t.cost.flops, 1e-6 * t.cost.bytes, 1e6 * t.seconds);
  if (p->gpus > 0)
    print_mixed(p, file), print_residence(p, file);
  else
    fprintf(file,
            "predicted step on %d workers (threads per worker %d): %.3f ms; critical path %.3f ms, so at most %.1f "
            "workers can help\n",
            p->workers, p->threads, 1e3 * p->schedule->makespan, 1e3 * p->schedule->critical_path,
            t.seconds / p->schedule->critical_path);
  if (p->memory)
    fprintf(file,
            "predicted peak memory: %.2f MB = %.2f MB in %d shared buffers (%.2f MB if none were shared) + %.2f MB of "
            "parameters and "
            "state + %.2f MB of scratch + %.2f MB of batches read ahead + %.2f MB of the process and "
            "its descriptions of tasks\n",
            1e-6 * (double)t.peak, 1e-6 * (double)p->memory->temporaries, p->memory->n_slots,
            1e-6 * (double)p->memory->unshared, 1e-6 * (double)p->memory->persistent, 1e-6 * (double)t.scratch,
            1e-6 * (double)p->inputs, 1e-6 * (double)t.other);
  sl_groups_destroy(groups);
  return ferror(file) ? sl_fail(SL_EIO, "the graph's table cannot be written") : SL_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *shape_to_json(const sl_shape *shape) {
  json_t *array = json_array();
  for (int i = 0; i < shape->ndim; i++) json_array_append_new(array, json_integer((json_int_t)shape->dim[i]));
  return array;
}

static json_t *task_to_json(const sl_picture *p, int i) {
  const sl_node *node = p->step->node[i];
  const sl_value_info *out = node->n_out ? p->step->value[node->out[0]] : NULL;
  json_t *before = json_array();
  for (int k = p->schedule->from[i]; k < p->schedule->from[i + 1]; k++)
    json_array_append_new(before, json_integer(p->schedule->before[k]));
  return json_pack("{s:i, s:s, s:s, s:s, s:o, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:o}", "task", i,
                   "phase", sl_phase_name(node->phase), "layer", node->name, "operation", node->op->name, "shape",
                   out ? shape_to_json(&out->shape) : json_array(), "dtype", out ? sl_dtype_name(out->dtype) : "",
                   "leaf", node->leaf, "shard", node->shard, "block", node->block, "flops", p->schedule->cost[i].flops,
                   "bytes", p->schedule->cost[i].bytes, "predicted_s", p->schedule->seconds[i], "urgency_s",
                   p->schedule->urgency[i], "start_s", p->schedule->start[i], "worker", p->schedule->worker[i],
                   "buffer", p->memory && node->n_out ? p->memory->slot[node->out[0]] : -1, "after", before);
}

static json_t *groups_to_json(const sl_groups *groups) {
  json_t *array = json_array();
  for (int i = 0; i < groups->n; i++) {
    const sl_group *g = &groups->group[i];
    json_array_append_new(
        array,
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:i, s:f, s:f, s:f}", "phase", sl_phase_name(g->phase), "layer", g->layer,
                  "operation", g->op->name, "shape", shape_to_json(&g->shape), "dtype", sl_dtype_name(g->dtype),
                  "tasks", g->tasks, "flops", g->cost.flops, "bytes", g->cost.bytes, "predicted_s", g->seconds));
  }
  return array;
}

sl_status sl_picture_to_json(const sl_picture *p, json_t **json) {
  sl_groups *groups;
  SL_TRY(sl_groups_create(p->logical, p->step, p->schedule, &groups));
  const totals t = add_up(p);
  json_t *all = json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "title", p->title, "workers",
                          p->workers, "threads_per_worker", p->threads, "gpus", p->gpus, "tasks", p->step->n_nodes,
                          "flops", t.cost.flops, "bytes", t.cost.bytes, "task_s", t.seconds, "step_s",
                          p->schedule->makespan, "critical_path_s", p->schedule->critical_path, "moved_bytes",
                          p->schedule->moved, "groups", groups_to_json(groups));
  sl_groups_destroy(groups);
  if (all && p->memory)
    json_object_set_new(
        all, "memory",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "peak_bytes", (json_int_t)t.peak, "temporary_bytes",
                  (json_int_t)p->memory->temporaries, "unshared_bytes", (json_int_t)p->memory->unshared,
                  "persistent_bytes", (json_int_t)p->memory->persistent, "scratch_bytes", (json_int_t)t.scratch,
                  "input_bytes", (json_int_t)p->inputs, "process_bytes", (json_int_t)t.other, "buffers",
                  p->memory->n_slots));
  if (all && p->residence) json_object_set_new(all, "gpu_memory", residence_to_json(p));
  if (all && p->tasks) {
    json_t *tasks = json_array();
    for (int i = 0; i < p->step->n_nodes; i++) json_array_append_new(tasks, task_to_json(p, i));
    json_object_set_new(all, "task_list", tasks);
  }
  *json = all;
  return all ? SL_OK : sl_no_memory("for the graph as JSON");
}

/* ---- dot -------------------------------------------------------------------------------------------------------- */

/* In DOT's quoted strings only the quote and the backslash are special. */
static void put_quoted(FILE *file, const char *text) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', file);
    fputc(*text, file);
  }
}

static void put_dot_node(FILE *file, int number, sl_phase phase, const char *layer, const char *op, const char *last) {
  static const char *const colours[SL_PHASE_COUNT] = {"#cfe3f7", "#fbdcc4", "#d5eccd"};
  fprintf(file, "  n%d [fillcolor=\"%s\", label=\"", number, colours[phase]);
  put_quoted(file, layer);
  fputs("\\n", file);
  put_quoted(file, op);
  fputs("\\n", file);
  put_quoted(file, last);
  fputs("\"];\n", file);
}

static void dot_tasks(const sl_picture *p, FILE *file) {
  for (int i = 0; i < p->step->n_nodes; i++) {
    const sl_node *node = p->step->node[i];
    char last[64];
    snprintf(last, sizeof last, "%s%.0d%s%.0d %.0f us", node->shard >= 0 ? "shard " : "",
             node->shard >= 0 ? node->shard + 1 : 0, node->block >= 0 ? " block " : "",
             node->block >= 0 ? node->block + 1 : 0, 1e6 * p->schedule->seconds[i]);
    put_dot_node(file, i, node->phase, node->name, node->op->name, last);
    for (int k = p->schedule->from[i]; k < p->schedule->from[i + 1]; k++)
      fprintf(file, "  n%d -> n%d;\n", p->schedule->before[k], i);
  }
}

static sl_status dot_groups(const sl_picture *p, FILE *file) {
  sl_groups *groups;
  SL_TRY(sl_groups_create(p->logical, p->step, p->schedule, &groups));
  const size_t n = (size_t)groups->n;
  char *drawn = calloc(n * n + 1, 1);
  for (int i = 0; i < groups->n; i++) {
    const sl_group *g = &groups->group[i];
    char last[OUTPUT + 64], output[OUTPUT];
    snprintf(last, sizeof last, "%s, %d tasks", output_text(&g->shape, g->dtype, output, sizeof output), g->tasks);
    put_dot_node(file, i, g->phase, g->layer, g->op->name, last);
  }
  for (int i = 0; drawn && i < p->step->n_nodes; i++) {
    const sl_node *node = p->step->node[i];
    for (int k = 0; k < node->n_in; k++) {
      const int producer = p->step->value[node->in[k]]->producer;
      if (producer < 0 || groups->of[producer] == groups->of[i]) continue;
      char *seen = &drawn[(size_t)groups->of[producer] * n + (size_t)groups->of[i]];
      if (!*seen) fprintf(file, "  n%d -> n%d;\n", groups->of[producer], groups->of[i]);
      *seen = 1;
    }
  }
  sl_groups_destroy(groups);
  if (!drawn) return sl_no_memory("for the drawing");
  free(drawn);
  return SL_OK;
}

sl_status sl_print_dot(const sl_picture *p, FILE *file) {
  fputs("digraph step {\n  label=\"", file);
  put_quoted(file, p->title);
  fputs(
      "\";\n  labelloc=t;\n  fontname=sans;\n  node [shape=box, style=\"rounded,filled\", fontname=sans, "
      "fontsize=10];\n",
      file);
  if (p->tasks)
    dot_tasks(p, file);
  else
    SL_TRY(dot_groups(p, file));
  fputs("}\n", file);
  return ferror(file) ? sl_fail(SL_EIO, "the graph's drawing cannot be written") : SL_OK;
}
