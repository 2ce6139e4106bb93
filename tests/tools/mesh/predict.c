/* tools/mesh/predict.c: the times of messages and sums of a mesh's ranks on their nodes, by hand; the bytes of the node
 * that needs most; the step of stages beside that of one rank. */
#include "tools/mesh/predict.h"

#include <math.h>
#include <stdio.h>

#include "models/models.h"
#include "tasks/schedule/times.h"
#include "tests/support/scratch.h"

static const double RANK = 1e9, SHARED = 1e10, LATENCY = 1e-3, NEAR = 1e-6;

static double alone(const sl__mesh_step *step, const void *arg) { return (void)arg, step->bytes; }

/* All orders of passes: the choice is the fastest one that fits. */
static void check_choice(const sl__mesh_job *job) {
  double seconds[SL_PIPE_ORDERS], bytes[SL_PIPE_ORDERS];
  sl_pipe_order fastest = SL_PIPE_1F1B, frugal = SL_PIPE_1F1B, order;
  for (int i = 0; i < SL_PIPE_ORDERS; i++) {
    sl__mesh_job mine = *job;
    sl__mesh_steps *steps;
    mine.pipe.order = (sl_pipe_order)i;
    assert_ok(sl__mesh_predict(&mine, &steps));
    seconds[i] = steps->seconds, bytes[i] = sl__mesh_node_bytes(steps, &job->joined, alone, NULL);
    if (i != SL_PIPE_GPIPE && seconds[i] < 0.99 * seconds[fastest]) fastest = (sl_pipe_order)i;
    if (i != SL_PIPE_GPIPE && bytes[i] < bytes[frugal]) frugal = (sl_pipe_order)i;
    sl__mesh_steps_destroy(steps);
  }
  assert_true(fastest != frugal); /* or this shows nothing */
  assert_ok(sl__mesh_choose_order(job, INFINITY, alone, NULL, &order));
  assert_int_equal(order, fastest);
  assert_ok(sl__mesh_choose_order(job, bytes[frugal], alone, NULL, &order));
  assert_int_equal(order, frugal);
  assert_ok(sl__mesh_choose_order(job, bytes[frugal] / 2, alone, NULL, &order));
  assert_int_equal(order, SL_PIPE_1F1B);
}

/* gpt2-nano of four layers on a mesh; `nodes` nodes have the same number of ranks each. */
static sl__mesh_job job_of(sl_network *network, sl_plan *plan, sl__mesh mesh, int nodes, double adapters) {
  sl_model *model;
  const sl_model *listed;
  sl_model_data data;
  assert_ok(sl_model_find("gpt2-nano", &listed));
  assert_ok(sl_model_sized(listed, "layers=4,width=32,heads=2", &model));
  const sl_model_data wanted = {.length = 16};
  model->family->data->usual(model, &wanted, &data);
  sl_training training = model->training;
  if (mesh.tensor > 1) training.folds = mesh.tensor;
  *plan = (sl_plan){.batch = 16, .leaves = 8, .micro_batches = 4, .seed = 1};
  assert_ok(sl_plan_complete(plan));
  assert_ok(sl_network_training(model, &data, &training, plan->batch, network));
  free(model);
  return (sl__mesh_job){.logical = network->graph,
                        .plan = plan,
                        .mesh = mesh,
                        .keep = &network->loss,
                        .n_keep = 1,
                        .machine = sl_machine_default(1, 1, 0),
                        .joined = {.ranks = mesh.data * sl__mesh_model_ranks(&mesh),
                                   .nodes = nodes,
                                   .shared = SHARED,
                                   .shared_latency = NEAR,
                                   .latency = LATENCY,
                                   .network = RANK,
                                   .congestion = 1,
                                   .adapters = adapters}};
}

static sl__mesh_steps *predict(sl_network *network, sl__mesh mesh, int nodes, double adapters) {
  sl_plan plan;
  sl__mesh_steps *steps;
  const sl__mesh_job job = job_of(network, &plan, mesh, nodes, adapters);
  assert_ok(sl__mesh_predict(&job, &steps));
  return steps;
}

static void release(sl__mesh_steps *steps, sl_network *network) {
  sl__mesh_steps_destroy(steps);
  sl_network_destroy(network);
}

static double bytes_of(const sl__mesh_step *s, int node) {
  double bytes = 0;
  for (int k = 0; k < s->step->node[node]->n_in; k++)
    bytes += (double)sl_value_bytes(s->step->value[s->step->node[node]->in[k]]);
  return bytes;
}

/* Checks all messages between two ranks; returns their number. */
static int check_messages(const sl__mesh_steps *steps, int a, int b, double latency, double rate) {
  const sl__mesh_step *s = &steps->rank[a];
  int n = 0;
  for (int k = 0; k < s->exchanges; k++) {
    if (s->exchange[k].peer != b) continue;
    assert_near(s->exchange[k].seconds, latency + bytes_of(s, s->exchange[k].node) / rate, 1e-12);
    n++;
  }
  return n;
}

/* Four ranks on two nodes: the tensor ranks of a stage share one, and its adapters have the rate of one and a half
 * ranks, so two that send at once have three quarters each. */
static void messages_cross_nodes(void **state) {
  (void)state;
  sl_network network;
  sl__mesh_steps *steps = predict(&network, (sl__mesh){.data = 1, .pipe = 2, .tensor = 2}, 2, 1.5 * RANK);
  assert_int_equal(steps->n, 4);
  assert_true(check_messages(steps, 0, 1, NEAR, SHARED) > 0);
  assert_true(check_messages(steps, 2, 3, NEAR, SHARED) > 0);
  assert_true(check_messages(steps, 0, 2, LATENCY + 1e-6, 0.75 * RANK) > 0);
  assert_true(steps->joint->exposed > 0);
  assert_near(steps->seconds, steps->joint->makespan, 0);
  assert_true(steps->bound > 0 && steps->bound <= steps->seconds);
  release(steps, &network);
  steps = predict(&network, (sl__mesh){.data = 1, .pipe = 2, .tensor = 2}, 1, RANK);
  assert_true(check_messages(steps, 0, 2, NEAR, SHARED) > 0);
  release(steps, &network);
}

/* Two stages of two ranks each, rank r in stage r mod 2, on nodes of two: the ranks of a stage are on both nodes, and
 * the two stages sum at the same time. Reduce-scatter and allgather of half of the bytes. */
static void stages_sum_at_the_same_time(void **state) {
  (void)state;
  sl_network network;
  sl__mesh_steps *steps = predict(&network, (sl__mesh){.data = 2, .pipe = 2, .tensor = 1}, 2, RANK);
  int sums = 0;
  for (int r = 0; r < 2; r++)
    for (int k = 0; k < steps->rank[r].exchanges; k++) {
      const sl_mesh_exchange *x = &steps->rank[r].exchange[k];
      const sl__mesh_step *s = &steps->rank[r];
      if (x->peer >= 0 || s->step->node[x->node]->n_in != 1) continue;
      assert_near(x->seconds, 2 * (LATENCY + 1e-6 + bytes_of(s, x->node) / 2 / (RANK / 2)), 1e-12);
      sums++;
    }
  assert_true(sums > 0);
  release(steps, &network);
}

static double one(const sl__mesh_step *step, const void *arg) { return step->bytes + *(const double *)arg; }

/* On nodes of two ranks: the one with the two largest. */
static void a_node_takes_what_its_ranks_take(void **state) {
  (void)state;
  sl_network network;
  const double beside = 1000;
  sl__mesh_steps *steps = predict(&network, (sl__mesh){.data = 1, .pipe = 4, .tensor = 1}, 2, RANK);
  const sl__mesh_step *r = steps->rank;
  const double first = r[0].bytes + r[1].bytes, second = r[2].bytes + r[3].bytes;
  assert_near(sl__mesh_node_bytes(steps, &(sl_interconnect){.ranks = 4, .nodes = 2}, one, &beside),
              2 * beside + (first > second ? first : second), 1);
  assert_near(sl__mesh_node_bytes(steps, &(sl_interconnect){.ranks = 4, .nodes = 1}, one, &beside),
              4 * beside + first + second, 1);
  release(steps, &network);
}

/* Stages compute what one rank does, and are faster, but not as many times as there are. */
static void stages_share_the_work(void **state) {
  (void)state;
  sl_network network, same;
  sl__mesh_steps *two = predict(&network, (sl__mesh){.data = 1, .pipe = 2, .tensor = 1}, 1, RANK),
                 *four = predict(&same, (sl__mesh){.data = 1, .pipe = 4, .tensor = 1}, 1, RANK);
  double flops[2] = {0};
  for (int r = 0; r < 2; r++) flops[0] += two->rank[r].flops;
  for (int r = 0; r < 4; r++) flops[1] += four->rank[r].flops;
  assert_near(flops[0], flops[1], 0.01 * flops[0]);
  assert_true(four->seconds < two->seconds && four->seconds > two->seconds / 2);
  assert_true(four->joint->bubble > two->joint->bubble);
  release(two, &network), release(four, &same);
}

static void the_fastest_order_that_fits(void **state) {
  (void)state;
  sl_network network;
  sl_plan plan;
  const sl__mesh_job job = job_of(&network, &plan, (sl__mesh){.data = 1, .pipe = 4, .tensor = 1}, 1, RANK);
  check_choice(&job);
  sl_network_destroy(&network);
}

/* Measured times change the length of tasks, but neither the plan of the memory nor the order of tasks. */
static void a_run_plans_without_measured_times(void **state) {
  (void)state;
  sl_network network;
  sl_plan plan;
  sl_times *times;
  sl__mesh_steps *usual, *planned, *unplanned;
  sl__mesh_job job = job_of(&network, &plan, (sl__mesh){.data = 1, .pipe = 2, .tensor = 1}, 1, RANK);
  const sl_machine ordinary = job.machine = sl_machine_default(2, 1, 0);
  assert_ok(sl__mesh_predict(&job, &usual));
  assert_ok(sl_times_create(&times));
  const sl_graph *g = usual->rank[0].step;
  for (int i = 0; i < g->n_nodes; i += 3) { /* some kinds take far longer than their costs say */
    sl_time time = {.footprint = sl_node_footprint(g, g->node[i]), .seconds = {[SL_KIND_CPU] = 0.01}};
    snprintf(time.operation, sizeof time.operation, "%s", g->node[i]->op->name);
    assert_ok(sl_times_put(times, &time));
  }
  job.machine.times = times;
  assert_ok(sl__mesh_predict(&job, &unplanned));
  job.planned = &ordinary;
  assert_ok(sl__mesh_predict(&job, &planned));
  int differ = 0;
  for (int r = 0; r < 2; r++) {
    const sl__mesh_step *a = &usual->rank[r], *b = &planned->rank[r], *c = &unplanned->rank[r];
    assert_true(a->bytes == b->bytes);
    differ += a->bytes != c->bytes;
    for (int i = 0; i < a->step->n_nodes; i++) {
      assert_int_equal(a->schedule->order[i], b->schedule->order[i]);
      if (!b->step->node[i]->bucket)
        assert_true(b->schedule->seconds[i] ==
                    sl_machine_seconds(&job.machine, b->step, b->step->node[i], &b->schedule->cost[i], SL_KIND_CPU));
    }
  }
  assert_true(differ > 0); /* or this shows nothing */
  assert_true(planned->seconds > 2 * usual->seconds);
  sl__mesh_steps_destroy(usual), sl__mesh_steps_destroy(unplanned), release(planned, &network);
  sl_times_destroy(times);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_cross_nodes),
      cmocka_unit_test(stages_sum_at_the_same_time),
      cmocka_unit_test(a_node_takes_what_its_ranks_take),
      cmocka_unit_test(stages_share_the_work),
      cmocka_unit_test(the_fastest_order_that_fits),
      cmocka_unit_test(a_run_plans_without_measured_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
