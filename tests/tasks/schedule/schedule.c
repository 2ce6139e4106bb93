/* tasks/schedule/schedule.c on graphs with known answers: dependencies, computing in place, longest paths, the order of
 * greedy list scheduling, the lane of exchanges, and gradients that run early if that costs nothing; on CPUs and GPUs
 * upward ranks, HEFT's choices and transfers worked out by hand, and that no schedule is below the bound. memory.c
 * tests that all orders give the same bits. */
#include "tasks/schedule/schedule.h"

#include <math.h>
#include <stdlib.h>

#include "tasks/bounds/bound.h"
#include "tasks/bounds/flows.h"
#include "tests/tasks/toy.h"

/* Nodes take as many seconds as their attribute says. */
static void seconds_cost(const sl_call *c, sl_cost *cost) { cost->flops = *(const double *)c->attr; }
static const sl_operation work = {.name = "work", .attr_bytes = sizeof(double), .cost = seconds_cost};
static const sl_operation onto_first = {
    .name = "onto_first", .attr_bytes = sizeof(double), .cost = seconds_cost, .inplace = {1}};

static sl_value value(sl_graph *g, sl_scope scope, int64_t rows) {
  return sl_graph_push_value(g, &(sl_value_info){.name = "v",
                                                 .dtype = SL_F32,
                                                 .shape = SL_SHAPE(rows),
                                                 .scope = scope,
                                                 .role = SL_ROLE_TEMPORARY,
                                                 .blocks = 1,
                                                 .producer = -1,
                                                 .leaf = -1,
                                                 .shard = -1,
                                                 .block = -1});
}

/* A node; in and out are lists ended by SL_NONE. */
static sl_node *node(sl_graph *g, const sl_operation *op, double seconds, const sl_value *in, const sl_value *out) {
  sl_node n = {.op = op,
               .name = "n",
               .attr = &seconds,
               .in = (sl_value *)in,
               .out = (sl_value *)out,
               .after = SL_NONE,
               .leaf = -1,
               .shard = -1,
               .block = -1,
               .phase = g->phase};
  while (in[n.n_in] != SL_NONE) n.n_in++;
  while (out[n.n_out] != SL_NONE) n.n_out++;
  n.n_arg = n.n_in;
  for (int j = 0; j < n.n_out; j++)
    if (g->value[out[j]]->producer < 0) g->value[out[j]]->producer = g->n_nodes;
  sl_node *added = sl_graph_push_node(g, &n);
  assert_non_null(added);
  return added;
}
#define LIST(...) ((const sl_value[]){__VA_ARGS__, SL_NONE})
#define NOTHING ((const sl_value[]){SL_NONE})

static sl_schedule *schedule(const sl_graph *g, const char *keep, int workers) {
  const sl_machine machine = {.kind = {{workers, 1, 1e30, 0}}, .exchange = 1e30};
  sl_schedule *s;
  assert_ok(sl_schedule_create(g, keep, &SL_TILES_DEFAULT, &machine, &s));
  return s;
}

/* Checks that node i waits for exactly these nodes. */
static void waits_for(const sl_schedule *s, int i, const int *before, int n) {
  if (s->from[i + 1] - s->from[i] != n)
    fail_msg("node %d waits for %d nodes, not %d", i, s->from[i + 1] - s->from[i], n);
  for (int k = 0; k < n; k++)
    if (s->before[s->from[i] + k] != before[k])
      fail_msg("node %d waits for node %d, not %d", i, s->before[s->from[i] + k], before[k]);
}
#define WAITS(s, i, ...) \
  waits_for(s, i, (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

static void dependencies(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_WHOLE, 8), b = value(g, SL_SCOPE_WHOLE, 8), c = value(g, SL_SCOPE_WHOLE, 8),
                 d = value(g, SL_SCOPE_WHOLE, 8);
  node(g, &work, 1, NOTHING, LIST(a));            /* 0 writes a */
  node(g, &work, 1, LIST(a), LIST(b));            /* 1 reads it */
  node(g, &work, 1, LIST(a, a), LIST(c));         /* 2 reads it twice */
  node(g, &work, 1, NOTHING, LIST(a));            /* 3 overwrites it: after writer and readers */
  node(g, &work, 1, LIST(a), LIST(d));            /* 4 reads what 3 wrote */
  node(g, &work, 1, LIST(b, c), LIST(b));         /* 5 reads and writes b */
  node(g, &work, 1, NOTHING, LIST(b))->after = d; /* 6 waits for d without reading it */
  node(g, &work, 1, NOTHING, NOTHING);            /* 7 waits for nothing */
  node(g, &work, 1, NOTHING, LIST(a));            /* 8 overwrites a again: readers of its old contents do not count */
  sl_schedule *s = schedule(g, NULL, 2);
  WAITS(s, 8, 3, 4);
  assert_int_equal(s->from[1] - s->from[0], 0);
  WAITS(s, 1, 0);
  WAITS(s, 2, 0);
  WAITS(s, 3, 0, 1, 2);
  WAITS(s, 4, 3);
  WAITS(s, 5, 1, 2);
  WAITS(s, 6, 4, 5);
  assert_int_equal(s->from[8] - s->from[7], 0);
  assert_ok(sl_schedule_add(s, (const int[]){0, 7, 4, 7, 0, 7, 0, 1}, 4));
  WAITS(s, 1, 0);
  WAITS(s, 7, 0, 4);
  WAITS(s, 6, 4, 5);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* The buffer of the second node's output, in a graph where it may take over the input's buffer, and after changes to
 * that graph. */
static sl_value taken_over(int change) {
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_WHOLE, 8), b = value(g, SL_SCOPE_WHOLE, change == 1 ? 9 : 8),
                 c = value(g, SL_SCOPE_WHOLE, 8);
  char keep[3] = {change == 2, change == 3, 0};
  node(g, &work, 1, NOTHING, LIST(a));
  if (change == 4) node(g, &work, 1, NOTHING, LIST(b)); /* b is there before */
  sl_node *n = node(g, change == 5 ? &work : &onto_first, 1, change == 6 ? LIST(a, a) : LIST(a), LIST(b));
  if (change == 7) n->accumulate = 1;
  node(g, &work, 1, change == 8 ? LIST(a, b) : LIST(b), LIST(c)); /* 8: a is read later */
  if (change == 9) g->value[a]->role = SL_ROLE_PARAMETER;
  if (change == 10) g->value[b]->role = SL_ROLE_STATE;
  if (change == 11) n->bucket = 1;
  sl_schedule *s = schedule(g, keep, 1);
  const sl_value onto = s->onto[b] == a ? 1 : s->onto[b];
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
  return onto;
}

static void in_place(void **state) {
  (void)state;
  assert_int_equal(taken_over(0), 1);
  for (int change = 1; change <= 11; change++)
    if (taken_over(change) != -1) fail_msg("computed in place after change %d", change);
}

/* 0 (1 s) -> 1 (1 s) -> 3 (4 s), 0 -> 2 (2 s) -> 3, and 4 (2 s) alone. */
static void longest_paths(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_WHOLE, 8), b = value(g, SL_SCOPE_WHOLE, 8), c = value(g, SL_SCOPE_WHOLE, 8);
  node(g, &work, 1, NOTHING, LIST(a));
  node(g, &work, 1, LIST(a), LIST(b));
  node(g, &work, 2, LIST(a), LIST(c));
  node(g, &work, 4, LIST(b, c), NOTHING);
  node(g, &work, 2, NOTHING, NOTHING);
  const double urgency[] = {7, 5, 6, 4, 2}, makespan[] = {10, 7, 7};
  const int order[] = {0, 2, 1, 3, 4};
  for (int workers = 1; workers <= 3; workers++) {
    sl_schedule *s = schedule(g, NULL, workers);
    for (int i = 0; i < 5; i++) assert_near(s->urgency[i], urgency[i], 1e-12);
    for (int i = 0; i < 5 && workers == 1; i++) assert_int_equal(s->order[i], order[i]);
    assert_near(s->critical_path, 7, 1e-12);
    assert_near(s->makespan, makespan[workers - 1], 1e-12);
    sl_schedule_destroy(s);
  }
  /* Two workers: 4 begins beside 0, so that 1 waits until 4 has ended. */
  sl_schedule *s = schedule(g, NULL, 2);
  const double start[] = {0, 2, 1, 3, 0};
  for (int i = 0; i < 5; i++) assert_near(s->start[i], start[i], 1e-12);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* Exchanges occupy no worker. They begin in the order of their numbers, one at a time, even if a later one is ready
 * first. */
static void exchanges_take_turns(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value slow = value(g, SL_SCOPE_WHOLE, 8), quick = value(g, SL_SCOPE_WHOLE, 8);
  node(g, &work, 3, NOTHING, LIST(slow));
  node(g, &work, 1, NOTHING, LIST(quick));
  node(g, &work, 5, LIST(slow), LIST(slow))->bucket = 1;
  node(g, &work, 2, LIST(quick), LIST(quick))->bucket = 2;
  node(g, &work, 4, NOTHING, NOTHING);
  node(g, &work, 1, LIST(quick), NOTHING);
  sl_schedule *s = schedule(g, NULL, 1);
  /* By urgency: 0 (8 s to the end), 1 and 4 (4 s). */
  const double start[] = {0, 3, 3, 8, 4, 10};
  for (int i = 0; i < 6; i++)
    if (s->start[i] != start[i]) fail_msg("node %d begins at %g s, not %g", i, s->start[i], start[i]);
  assert_near(s->makespan, 11, 1e-12);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* A backward chain of three samples' gradients, each read by a weight's gradient too, which takes `sum` seconds. */
static sl_graph *backward(double sum) {
  sl_graph *g = toy_graph(4);
  sl_value dy = value(g, SL_SCOPE_SAMPLE, 8);
  g->phase = SL_PHASE_BACKWARD;
  node(g, &work, 1, NOTHING, LIST(dy))->shard = 0;
  for (int i = 0; i < 3; i++) {
    const sl_value dx = value(g, SL_SCOPE_SAMPLE, 8), dw = value(g, SL_SCOPE_WHOLE, 8);
    node(g, &work, 1, LIST(dy), LIST(dx))->shard = 0;
    node(g, &work, sum, LIST(dy), LIST(dw))->shard = 0;
    dy = dx;
  }
  return g;
}

static void sums_free_what_they_read(void **state) {
  (void)state;
  /* On one worker all orders take equally long, so each sum comes right after the task beside it. */
  sl_graph *g = backward(1);
  sl_schedule *s = schedule(g, NULL, 1);
  for (int i = 0; i < 7; i++) assert_int_equal(s->order[i], i);
  assert_near(s->makespan, 7, 1e-12);
  for (int i = 1; i < 7; i += 2) assert_near(s->urgency[i], s->urgency[i + 1], 1e-12);
  sl_schedule_destroy(s);
  /* Nodes of the forward pass go by path alone: here first the sums are in the forward pass, then all nodes. */
  for (int all = 0; all < 2; all++) {
    for (int i = 0; i < g->n_nodes; i++)
      if (all || (i > 0 && i % 2 == 0)) g->node[i]->phase = SL_PHASE_FORWARD;
    s = schedule(g, NULL, 1);
    const int by_path[] = {0, 1, 3, 2, 4, 5, 6};
    for (int i = 0; i < 7; i++) assert_int_equal(s->order[i], by_path[i]);
    sl_schedule_destroy(s);
  }
  sl_graph_destroy(g);
}

/* Two workers. 0 -> 1 (dx) -> 4 (12 s) -> 6 (5 s), 0 -> 3 -> 5 (10 s) -> 6, and 2, a sum of 4 s that reads what 1
 * reads. If the sum were as urgent as 1, it would begin before 3, and 6 would begin 2 s later; so it is not preferred.
 */
static void sums_do_not_hold_up_the_step(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  sl_value v[7];
  for (int i = 0; i < 7; i++) v[i] = value(g, i == 6 ? SL_SCOPE_WHOLE : SL_SCOPE_SAMPLE, 8);
  g->phase = SL_PHASE_BACKWARD;
  node(g, &work, 1, NOTHING, LIST(v[0], v[1]))->shard = 0;
  node(g, &work, 1, LIST(v[0]), LIST(v[2]))->shard = 0;
  node(g, &work, 4, LIST(v[0]), LIST(v[6]))->shard = 0;
  node(g, &work, 1, LIST(v[1]), LIST(v[3]))->shard = 0;
  node(g, &work, 12, LIST(v[2]), LIST(v[4]))->shard = 0;
  node(g, &work, 10, LIST(v[3]), LIST(v[5]))->shard = 0;
  node(g, &work, 5, LIST(v[4], v[5]), NOTHING);
  sl_schedule *s = schedule(g, NULL, 2);
  const double start[] = {0, 1, 12, 1, 2, 2, 14}, urgency[] = {19, 18, 4, 16, 17, 15, 5};
  for (int i = 0; i < 7; i++) {
    assert_near(s->start[i], start[i], 1e-12);
    assert_near(s->urgency[i], urgency[i], 1e-12);
  }
  assert_near(s->makespan, 19, 1e-12);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* ---- CPUs and GPUs ---- */

/* A GPU is four times as fast as a CPU worker; 8 bytes, two elements, cross the link in 8 s. */
static sl_machine mixed(int cpus, int gpus) {
  return (sl_machine){.kind = {{cpus, 1, 1e30, 0}, {gpus, 4, 1e30, 0}}, .exchange = 1e30, .link = 1};
}

static sl_schedule *schedule_on(const sl_graph *g, int cpus, int gpus) {
  const sl_machine machine = mixed(cpus, gpus);
  sl_schedule *s;
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
  return s;
}

/* a (4 FLOP) -> b (8 FLOP): means 2.5 and 5 s, and the link between them for half of all pairs of kinds. */
static void upward_ranks(void **state) {
  (void)state;
  static const struct {
    int gpus;
    double apart;
  } cases[] = {{1, 0.5}, {2, 0.625}};
  for (int c = 0; c < 2; c++) {
    sl_graph *g = toy_graph(4);
    const sl_value v = value(g, SL_SCOPE_SAMPLE, 2);
    node(g, &work, 4, NOTHING, LIST(v));
    node(g, &work, 8, LIST(v), NOTHING);
    sl_schedule *s = schedule_on(g, 1, cases[c].gpus);
    assert_near(s->urgency[1], 5, 1e-12);
    assert_near(s->urgency[0], 2.5 + 8 * cases[c].apart + 5, 1e-12);
    assert_near(s->critical_path, 3, 1e-12);
    assert_int_equal(s->worker[0], 1); /* the first GPU; b stays where a was */
    assert_int_equal(s->worker[1], 1);
    assert_near(s->start[1], 1, 1e-12);
    assert_near(s->makespan, 3, 1e-12);
    assert_near(s->moved, 0, 0);
    sl_schedule_destroy(s);
    sl_graph_destroy(g);
  }
}

/* A short task beside a long one goes to the CPU, which ends it earlier; its result crosses the link. */
static void earliest_end(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_SAMPLE, 2), b = value(g, SL_SCOPE_SAMPLE, 2);
  node(g, &work, 40, NOTHING, LIST(a));    /* 10 s on the GPU */
  node(g, &work, 12, NOTHING, LIST(b));    /* on the CPU until 12, on the GPU until 13 */
  node(g, &work, 40, LIST(a, b), NOTHING); /* on the GPU from 12 + 8 to 30, on the CPU until 58 */
  sl_schedule *s = schedule_on(g, 1, 1);
  const int worker[] = {1, 0, 1};
  const double start[] = {0, 0, 20};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(s->worker[i], worker[i]);
    assert_near(s->start[i], start[i], 1e-12);
  }
  assert_near(s->makespan, 30, 1e-12);
  assert_near(s->moved, 8, 0);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* Two GPUs with a link between them, of 4 bytes/s and 1 s: values do not go over the host. */
static void peers(void **state) {
  (void)state;
  sl_machine machine = mixed(0, 2);
  for (int linked = 0; linked < 2; linked++) {
    sl_graph *g = toy_graph(4);
    const sl_value a = value(g, SL_SCOPE_SAMPLE, 2), b = value(g, SL_SCOPE_SAMPLE, 2), c = value(g, SL_SCOPE_SAMPLE, 2);
    node(g, &work, 40, NOTHING, LIST(a));
    node(g, &work, 40, NOTHING, LIST(b, c));
    node(g, &work, 40, LIST(a, b, c), NOTHING); /* on the first GPU needs b and c, on the second a */
    machine.peer = linked ? 4 : 0, machine.peer_latency = linked;
    sl_schedule *s;
    assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
    assert_near(s->urgency[0], 10 + 0.5 * (linked ? 3 : 8) + 10, 1e-12);
    assert_int_equal(s->worker[2], s->worker[1]);
    assert_near(s->start[2], linked ? 10 + 3 : 10 + 8 + 8, 1e-12);
    assert_near(s->moved, linked ? 8 : 16, 0);
    sl_schedule_destroy(s);
    sl_graph_destroy(g);
  }
  sl_graph *g = toy_graph(4);
  const sl_value v = value(g, SL_SCOPE_SAMPLE, 2);
  node(g, &work, 4, NOTHING, LIST(v));
  node(g, &work, 8, LIST(v), NOTHING);
  sl_schedule *s;
  machine.kind[SL_KIND_CPU].workers = 1;
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
  assert_near(s->urgency[0], 2.5 + 0.5 * 8 + 0.125 * 3 + 5, 1e-12);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* b would end at 23 s on the second GPU, after a copy of 3 s, and ends at 24 s on the first: it stays there. */
static void chains_stay(void **state) {
  (void)state;
  sl_machine machine = mixed(0, 2);
  sl_graph *g = toy_graph(4);
  const sl_value v = value(g, SL_SCOPE_SAMPLE, 2), u = value(g, SL_SCOPE_SAMPLE, 2), t = value(g, SL_SCOPE_SAMPLE, 2);
  node(g, &work, 40, NOTHING, LIST(v)); /* 10 s on the first GPU */
  node(g, &work, 40, NOTHING, LIST(u)); /* and on the second */
  node(g, &work, 16, NOTHING, LIST(t)); /* until 14 on the first */
  node(g, &work, 40, LIST(v), NOTHING); /* b */
  node(g, &work, 40, LIST(u), NOTHING);
  node(g, &work, 40, LIST(t), NOTHING);
  machine.peer = 4, machine.peer_latency = 1;
  sl_schedule *s;
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
  const int worker[] = {0, 1, 0, 0};
  const double start[] = {0, 0, 10, 14};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(s->worker[i], worker[i]);
    assert_near(s->start[i], start[i], 1e-12);
  }
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* Two GPUs and four folds of two layers. Without folds the second layer's tasks would go where their GPU is idle first;
 * with them GPU 0 computes folds 0 and 1, and GPU 1 the others, unless that is much slower. */
static void folds_stay(void **state) {
  (void)state;
  sl_machine machine = mixed(0, 2);
  machine.peer = 1e9;
  for (int way = 0; way < 3; way++) {
    sl_graph *g = toy_graph(4);
    for (int layer = 0; layer < 2; layer++)
      for (int f = 0; f < 4; f++) {
        const sl_value w = value(g, SL_SCOPE_WHOLE, 2), out = value(g, SL_SCOPE_SAMPLE, 2);
        g->value[w]->role = SL_ROLE_PARAMETER;
        /* way 1: folds differ a little; way 2: one has most of the work */
        const double flops = way == 2 && f < 2 ? 400 : way == 1 ? 40 + f : 40;
        sl_node *made = node(g, &work, flops, LIST(w), LIST(out));
        if (way) made->fold = (sl_run){f, f + 1};
      }
    sl_schedule *s;
    assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
    int strays = 0;
    for (int i = 0; i < 8; i++) strays += s->worker[i] != (i % 4) / 2;
    if (way == 1) assert_int_equal(strays, 0);
    if (way != 1) assert_true(strays > 0);
    sl_schedule_destroy(s);
    sl_graph_destroy(g);
  }
}

/* A rank that has folds 4 to 7 of 8, and a sum over all of them. */
static void folds_of_one_rank(void **state) {
  (void)state;
  sl_machine machine = mixed(0, 2);
  machine.peer = 1e9;
  sl_graph *g = toy_graph(4);
  sl_value out[4];
  for (int f = 0; f < 4; f++) {
    out[f] = value(g, SL_SCOPE_SAMPLE, 2);
    node(g, &work, f == 0 ? 44 : 40, NOTHING, LIST(out[f]))->fold = (sl_run){4 + f, 5 + f};
  }
  node(g, &work, 4, LIST(out[0], out[1], out[2], out[3]), NOTHING)->fold = (sl_run){0, 8};
  sl_schedule *s;
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
  for (int f = 0; f < 4; f++) assert_int_equal(s->worker[f], f / 2);
  assert_true(s->worker[4] >= 0);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* Two values go from one GPU to the other one after the other, beside what goes to the host. */
static void peers_share_their_link(void **state) {
  (void)state;
  sl_machine machine = mixed(0, 2);
  machine.peer = 4, machine.peer_latency = 1;
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_SAMPLE, 64), b = value(g, SL_SCOPE_SAMPLE, 2), c = value(g, SL_SCOPE_SAMPLE, 2),
                 d = value(g, SL_SCOPE_WHOLE, 2);
  node(g, &work, 40, NOTHING, LIST(a));
  node(g, &work, 40, NOTHING, LIST(b, c, d));
  node(g, &work, 3, LIST(d), LIST(d))->bucket = 1; /* d is with the host after 8 s */
  node(g, &work, 40, LIST(a, b, c), NOTHING);      /* where the large a is */
  sl_schedule *s;
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &s));
  assert_near(s->start[2], 10 + 8, 1e-12);
  assert_int_equal(s->worker[3], s->worker[0]);
  assert_near(s->start[3], 10 + 3 + 3, 1e-12);
  assert_near(s->moved, 8 + 8 + 8, 0);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* A parameter moves once, and then stays where the step before left it; one that is updated on a GPU as well. */
static void parameters_stay(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_SAMPLE, 2), w = value(g, SL_SCOPE_WHOLE, 2);
  g->value[w]->role = SL_ROLE_PARAMETER;
  node(g, &work, 400, LIST(w), LIST(a));
  node(g, &work, 400, LIST(a, w), LIST(w));
  sl_schedule *s = schedule_on(g, 2, 1);
  assert_int_equal(s->worker[0], 2);
  assert_int_equal(s->worker[1], 2);
  assert_near(s->start[0], 0, 1e-12);
  assert_near(s->makespan, 200, 1e-12);
  assert_near(s->moved, 0, 0);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

/* An exchange is on values in host memory: what a GPU has computed crosses the link first. */
static void exchanges_leave_the_gpu(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value a = value(g, SL_SCOPE_WHOLE, 2);
  node(g, &work, 400, NOTHING, LIST(a));
  node(g, &work, 3, LIST(a), LIST(a))->bucket = 1;
  sl_schedule *s = schedule_on(g, 1, 1);
  assert_int_equal(s->worker[0], 1);
  assert_int_equal(s->worker[1], -1);
  assert_near(s->start[1], 108, 1e-12);
  assert_near(s->moved, 8, 0);
  sl_schedule_destroy(s);
  sl_graph_destroy(g);
}

static int first_slot(const void *attr) { return (void)attr, 0; }

/* What nodes read that others wrote: each value once, from its last writer; sums that are added to; parameters after
 * their update; the batch; results. */
static void flows(void **state) {
  (void)state;
  static const sl_operation batch = {
      .name = "batch", .attr_bytes = sizeof(double), .cost = seconds_cost, .batch_slot = first_slot};
  static const sl_operation update = {.name = "update", .attr_bytes = sizeof(double), .update = {2}};
  sl_graph *g = toy_graph(4);
  const sl_value x = value(g, SL_SCOPE_SAMPLE, 2), sum = value(g, SL_SCOPE_WHOLE, 4), w = value(g, SL_SCOPE_WHOLE, 4),
                 loss = value(g, SL_SCOPE_WHOLE, 1), idle = value(g, SL_SCOPE_WHOLE, 1);
  g->value[w]->role = SL_ROLE_PARAMETER;
  node(g, &batch, 1, NOTHING, LIST(x));
  node(g, &work, 1, LIST(x, w, x), LIST(sum));
  node(g, &work, 1, LIST(x), LIST(sum, loss))->accumulate = 1;
  node(g, &update, 1, LIST(sum, w), LIST(w));
  node(g, &work, 1, LIST(w), LIST(w))->bucket = 1;
  node(g, &work, 1, LIST(w), LIST(sum)); /* overwrites it */
  char result[5] = {0};
  result[loss] = result[idle] = 1;
  static const sl_timeline_flow wanted[] = {{-1, 0, 0, 8}, {0, 1, 0, 8},  {0, 2, 0, 8},  {1, 2, 1, 16},
                                            {2, 3, 1, 16}, {3, 4, 2, 16}, {4, 5, 2, 16}, {2, -1, 3, 4}};
  sl_timeline_flow *flow;
  int n;
  assert_ok(sl_flows_find(g, result, &flow, &n));
  assert_int_equal(n, sizeof wanted / sizeof *wanted);
  for (int i = 0; i < n; i++)
    if (flow[i].from != wanted[i].from || flow[i].to != wanted[i].to || flow[i].value != wanted[i].value ||
        flow[i].bytes != wanted[i].bytes)
      fail_msg("flow %d: value %d of %lld bytes from %d to %d", i, flow[i].value, (long long)flow[i].bytes,
               flow[i].from, flow[i].to);
  free(flow);
  sl_graph_destroy(g);
}

/* Random graphs and machines: dependencies hold, no worker runs two tasks at once, the order is one of execution, and
 * the bound is never missed, neither without nor with the copies. */
static void never_below_the_bound(void **state) {
  (void)state;
  srand(7);
  for (int trial = 0; trial < 300; trial++) {
    enum { MOST = 40 };
    const int n = 1 + rand() % MOST, cpus = rand() % 4, gpus = 1 + rand() % 3;
    sl_graph *g = toy_graph(4);
    sl_value made[MOST];
    int kind[MOST];
    double seconds[MOST * SL_KINDS];
    for (int i = 0; i < n; i++) {
      const double flops = 1 + rand() % 50;
      sl_value in[4];
      int n_in = 0;
      for (int k = 0; i > 0 && k < rand() % 4; k++) in[n_in++] = made[rand() % i];
      in[n_in] = SL_NONE;
      made[i] = value(g, SL_SCOPE_SAMPLE, 1 + rand() % 4);
      sl_node *added = node(g, &work, flops, in, LIST(made[i]));
      if (i > 0 && rand() % 4 == 0) added->after = made[rand() % i];
      kind[i] = i;
      seconds[i * SL_KINDS + SL_KIND_CPU] = cpus ? flops : INFINITY;
      seconds[i * SL_KINDS + SL_KIND_GPU] = flops / 4;
    }
    sl_schedule *s = schedule_on(g, cpus, gpus);
    sl_bound_problem problem = {.n_tasks = n,
                                .kind = kind,
                                .from = s->from,
                                .before = s->before,
                                .n_kinds = n,
                                .n_worker_kinds = SL_KINDS,
                                .workers = (const int[]){cpus, gpus},
                                .seconds = seconds};
    sl_bound bound;
    assert_ok(sl_bound_solve(&problem, &bound, NULL));
    assert_true(s->makespan >= bound.mixed * (1 - 1e-9));
    assert_near(s->critical_path, bound.critical_path, 1e-9 * bound.critical_path);
    sl_timeline_flow *flow;
    int n_flows;
    assert_ok(sl_flows_find(g, NULL, &flow, &n_flows));
    problem.copies = &(sl_bound_copies){(const unsigned char[]){0, 1}, 1, 0, flow, n_flows};
    assert_ok(sl_bound_solve(&problem, &bound, NULL));
    if (s->makespan < bound.mixed * (1 - 1e-9))
      fail_msg("trial %d: schedule %.9g, bound %.9g", trial, s->makespan, bound.mixed);
    free(flow);
    int place[MOST];
    for (int k = 0; k < n; k++) place[s->order[k]] = k;
    for (int i = 0; i < n; i++) {
      assert_in_range(s->worker[i], 0, cpus + gpus - 1);
      assert_near(s->seconds[i], seconds[i * SL_KINDS + (s->worker[i] < cpus ? SL_KIND_CPU : SL_KIND_GPU)], 1e-9);
      for (int k = s->from[i]; k < s->from[i + 1]; k++) {
        const int b = s->before[k];
        assert_true(place[b] < place[i]);
        assert_true(s->start[i] >= s->start[b] + s->seconds[b] - 1e-9);
      }
      for (int j = 0; j < i; j++)
        assert_true(s->worker[i] != s->worker[j] || s->start[i] >= s->start[j] + s->seconds[j] - 1e-9 ||
                    s->start[j] >= s->start[i] + s->seconds[i] - 1e-9);
    }
    sl_schedule_destroy(s);
    sl_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dependencies),
      cmocka_unit_test(in_place),
      cmocka_unit_test(longest_paths),
      cmocka_unit_test(exchanges_take_turns),
      cmocka_unit_test(sums_free_what_they_read),
      cmocka_unit_test(sums_do_not_hold_up_the_step),
      cmocka_unit_test(upward_ranks),
      cmocka_unit_test(earliest_end),
      cmocka_unit_test(peers),
      cmocka_unit_test(chains_stay),
      cmocka_unit_test(folds_stay),
      cmocka_unit_test(folds_of_one_rank),
      cmocka_unit_test(peers_share_their_link),
      cmocka_unit_test(parameters_stay),
      cmocka_unit_test(exchanges_leave_the_gpu),
      cmocka_unit_test(flows),
      cmocka_unit_test(never_below_the_bound),
  };
  return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
