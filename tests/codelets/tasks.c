/* Every case as StarPU tasks against direct calls of its CPU kernels: with one shard bit by bit, on a CPU worker and,
 * if there is one, on a GPU; with two within the case's tolerance. Handles, parts, scratch memory and steps, which lie
 * between kernel and task, must change nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/machine/runtime.h"
#include "tasks/starpu/program.h"
#include "tests/codelets/setting.h"

static sl_runtime *runtime;
static sl_team *team;

/* Builds the case's graph again in a form that a program can run: samples come from the step's input arrays, all else
 * from the store. Values have the same numbers as in the setting, so that its data serve here. */
static sl_graph *program_graph(const test_case *c, int64_t batch, sl_value in[CASE_INPUTS], sl_value out[SL_MAX_OUT]) {
  sl_graph *graph = sl_graph_new(batch);
  assert_non_null(graph);
  for (int i = 0; i < c->n_in; i++) {
    char what[16];
    snprintf(what, sizeof what, "%d", i);
    if (c->in[i].scope == SL_SCOPE_SAMPLE) {
      sl_shape sample = {c->in[i].shape.ndim - 1, {0}};
      memcpy(sample.dim, c->in[i].shape.dim + 1, (size_t)sample.ndim * sizeof *sample.dim);
      in[i] = sl_input(graph, "samples", i, c->in[i].dtype, sample);
    } else {
      in[i] = sl_graph_tensor(graph, SL_ROLE_PARAMETER, "in", what, c->in[i].dtype, c->in[i].shape,
                              (sl_init){SL_INIT_CONSTANT, 0});
    }
  }
  if (c->build)
    c->build(graph, c, in, out);
  else
    sl_graph_add(graph, sl_operation_find(c->op), "case", c->attr, in, c->n_in, out, c->n_out);
  assert_ok(sl_graph_status(graph));
  return graph;
}

/* Runs the case's program in `shards` shards on workers of one kind, and compares with `direct`, the outputs of kernels
 * called directly. */
static void run(const setting *s, int shards, sl_worker_kind where, void *const direct[SL_MAX_OUT]) {
  const test_case *c = s->c;
  sl_value in[CASE_INPUTS], out[SL_MAX_OUT], keep[SL_MAX_OUT];
  sl_graph *graph = program_graph(c, s->graph->batch, in, out);
  assert_int_equal(graph->n_values, s->graph->n_values);
  sl_store *store;
  assert_ok(sl_store_create(&store));
  for (int v = 0; v < graph->n_values; v++) {
    const sl_value_info *info = graph->value[v];
    if (info->producer >= 0) continue;
    sl_tensor *tensor;
    assert_ok(sl_store_add(store, info->name, info->dtype, &info->shape, 1, &tensor));
    memcpy(tensor->data, s->run.data[v], sl_value_bytes(info));
  }
  int n_keep = 0;
  for (int j = 0; j < c->n_out; j++)
    if (graph->value[out[j]]->producer >= 0) keep[n_keep++] = out[j];
  sl_plan plan = {.batch = graph->batch, .leaves = 1, .shards = shards, .seed = s->run.step.seed};
  assert_ok(sl_plan_complete(&plan));
  sl_program *program;
  assert_ok(
      sl_program_create(runtime, store, graph, &plan, &(sl_program_options){.keep = keep, .n_keep = n_keep}, &program));
  sl_program_allow(program, 1u << where);
  sl_step step = s->run.step;
  for (int i = 0; i < c->n_in; i++) step.input[i] = s->run.data[i];
  assert_ok(sl_program_run(program, &step));
  assert_ok(sl_store_acquire(store, 0));
  for (int j = 0; j < c->n_out; j++) {
    const sl_value_info *info = graph->value[out[j]];
    void *got = malloc(sl_value_bytes(info));
    assert_non_null(got);
    if (info->producer >= 0)
      assert_ok(sl_program_read(program, out[j], got));
    else
      memcpy(got, sl_store_find(store, info->name)->data, sl_value_bytes(info));
    if (shards > 1)
      setting_compare(s, j, got, NULL, "in tasks");
    else if (memcmp(got, direct[j], sl_value_bytes(info)) != 0)
      fail_msg("output %d: other bits from the task on a %s than from the kernel", j,
               where == SL_WORKER_CPU ? "CPU" : "GPU");
    free(got);
  }
  sl_store_release(store);
  sl_program_destroy(program);
  sl_store_destroy(store);
  sl_graph_destroy(graph);
}

static void task(void **state) {
  setting s;
  void *direct[SL_MAX_OUT] = {NULL};
  setting_build(&s, *state);
  setting_begin(&s, sl_runtime_isa(runtime), team, SL_TILES_DEFAULT);
  setting_refer(&s);
  assert_ok(interpret_run(&s.run, 0, s.nodes));
  for (int j = 0; j < s.c->n_out; j++) {
    size_t bytes = sl_value_bytes(setting_info(&s, s.out[j]));
    direct[j] = malloc(bytes);
    assert_non_null(direct[j]);
    memcpy(direct[j], s.run.data[s.out[j]], bytes);
  }
  setting_begin(&s, sl_runtime_isa(runtime), team, SL_TILES_DEFAULT); /* restores what updates changed */
  for (int where = 0; where < (sl_runtime_gpus(runtime) ? 2 : 1); where++) {
    run(&s, 1, (sl_worker_kind)where, direct);
    if (s.graph->batch > 1) run(&s, 2, (sl_worker_kind)where, direct);
  }
  for (int j = 0; j < SL_MAX_OUT; j++) free(direct[j]);
  setting_finish(&s);
}

static int start(void **state) {
  (void)state;
  sl_runtime_options options = sl_runtime_defaults();
  options.mpi = 0;
  options.workers = 1;
  if (sl_runtime_start(&options, &runtime) != SL_OK) {
    fprintf(stderr, "%s\n", sl_error());
    return -1;
  }
  return sl_team_create(NULL, 1, NULL, &team) == SL_OK ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  sl_team_destroy(team);
  sl_runtime_stop(runtime);
  return 0;
}

int main(void) {
  enum { MOST = 512 };
  static struct CMUnitTest tests[MOST];
  static char name[MOST][128];
  int n = 0;
  for (int f = 0; case_files[f]; f++)
    for (const test_case *c = case_files[f]; c->op; c++)
      if (!c->bench) {
        if (n == MOST) {
          fprintf(stderr, "more than the %d cases that main has room for: make MOST larger\n", (int)MOST);
          return 1;
        }
        snprintf(name[n], sizeof name[n], "%s %s", c->op, c->what);
        tests[n] = (struct CMUnitTest){name[n], task, NULL, NULL, (void *)c};
        n++;
      }
  return _cmocka_run_group_tests("tasks", tests, (size_t)n, start, stop);
}
