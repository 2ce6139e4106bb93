/* tasks/schedule/mesh.c on graphs with known answers: the bubble of equal stages in both orders, messages that take
 * time and wait for their lane, two ranks that divide a product, sums beside messages, copies from and to GPUs; a
 * missing message, a wrong order and ranks that wait for each other are errors. On spread graphs the schedule keeps to
 * all dependencies, workers and lanes. */
#include "tasks/schedule/mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/schedule/memory.h"
#include "tasks/schedule/schedule.h"
#include "tasks/spread/spread.h"
#include "tasks/spread/timetable.h"
#include "tests/tasks/toy.h"

enum { MOST_RANKS = 6, MOST_EXCHANGES = 256, BYTES = 400 };

/* Nodes take as many seconds as their attribute says. */
static void seconds_cost(const sl_call *c, sl_cost *cost) { cost->flops = *(const double *)c->attr; }
static const sl_operation work = {.name = "work", .attr_bytes = sizeof(double), .cost = seconds_cost};

/* A rank that is being described. */
typedef struct maker {
  sl_graph *g;
  sl_schedule *s;
  sl_machine machine;
  sl_mesh_exchange exchange[MOST_EXCHANGES];
  int exchanges, turn;
} maker;

static const sl_machine one_worker = {.kind = {{1, 1, 1e30, 0}}, .exchange = 1e30};

static maker maker_of(const sl_machine *machine) { return (maker){.g = toy_graph(4), .machine = *machine}; }

static sl_value value(maker *m, int logical, int leaf) {
  return sl_graph_push_value(m->g, &(sl_value_info){.name = "v",
                                                    .dtype = SL_F32,
                                                    .shape = SL_SHAPE(BYTES / 4),
                                                    .scope = SL_SCOPE_LEAF,
                                                    .role = SL_ROLE_TEMPORARY,
                                                    .blocks = 1,
                                                    .producer = -1,
                                                    .logical = logical,
                                                    .leaf = leaf,
                                                    .shard = -1,
                                                    .block = -1});
}

static void push(maker *m, double seconds, sl_value in, sl_value out, int bucket, sl_message message) {
  sl_node n = {.op = &work,
               .name = "layer",
               .attr = &seconds,
               .in = &in,
               .out = &out,
               .n_in = in != SL_NONE,
               .n_out = out != SL_NONE,
               .after = SL_NONE,
               .leaf = -1,
               .shard = -1,
               .block = -1,
               .turn = m->turn,
               .bucket = bucket,
               .message = message};
  n.n_arg = n.n_in;
  if (out != SL_NONE && m->g->value[out]->producer < 0) m->g->value[out]->producer = m->g->n_nodes;
  assert_non_null(sl_graph_push_node(m->g, &n));
}

static void task(maker *m, double seconds, sl_value in, sl_value out) { push(m, seconds, in, out, 0, SL_MESSAGE_NONE); }

static void exchange(maker *m, double seconds, sl_value in, sl_value out, sl_message message, int peer) {
  m->exchange[m->exchanges] = (sl_mesh_exchange){.node = m->g->n_nodes, .peer = peer, .seconds = seconds};
  push(m, seconds, in, out, ++m->exchanges, message);
}
static void send(maker *m, double seconds, sl_value v, int peer) {
  exchange(m, seconds, v, SL_NONE, SL_MESSAGE_SENT, peer);
}
static void receive(maker *m, sl_value v, int peer) { exchange(m, 0, v, v, SL_MESSAGE_RECEIVED, peer); }

static sl_mesh_rank rank_of(maker *m) {
  m->g->turns = m->turn + 1;
  assert_ok(sl_schedule_create(m->g, NULL, &SL_TILES_DEFAULT, &m->machine, &m->s));
  return (sl_mesh_rank){
      .step = m->g, .schedule = m->s, .machine = &m->machine, .exchange = m->exchange, .exchanges = m->exchanges};
}

static void release(maker *m, int n) {
  for (int r = 0; r < n; r++) sl_schedule_destroy(m[r].s), sl_graph_destroy(m[r].g);
}

/* Schedules the ranks, or expects an error whose text contains `error`. */
static sl_mesh_schedule *joint(maker *m, int n, const char *error) {
  sl_mesh_rank rank[MOST_RANKS];
  sl_mesh_schedule *mesh;
  for (int r = 0; r < n; r++) rank[r] = rank_of(&m[r]);
  const sl_status status = sl_mesh_schedule_create(rank, n, &mesh);
  if (!error) {
    assert_ok(status);
    return mesh;
  }
  assert_int_equal(status, SL_EINVAL);
  if (!strstr(sl_error(), error)) fail_msg("'%s' is not in: %s", error, sl_error());
  assert_null(mesh);
  return NULL;
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static int message_of(int stage, int backward) { return 10 * stage + backward; } /* between this stage and the next */

/* Stage s of a pipeline: passes of `forward` and `backward` seconds, with messages between them. By
 * SL_PIPE_ZERO_BUBBLE the backward pass takes half of its seconds, and the pass for the weights the other half. */
static maker stage_of(sl_pipe_order order, int stages, int s, int parts, double forward, double backward,
                      double message) {
  maker m = maker_of(&one_worker);
  int turn[SL__PASS_KINDS * 64];
  const int *f = turn, *b = turn + parts, *w = turn + 2 * parts;
  const int kinds = sl_pipe_pass_kinds(order);
  sl_value kept[64];
  sl__timetable *t;
  assert_ok(sl__timetable_create(order, stages, 1, parts, &t));
  sl__timetable_turns(t, s, turn);
  sl__timetable_destroy(t);
  for (m.turn = 0; m.turn < kinds * parts; m.turn++)
    for (int k = 0; k < parts; k++) {
      if (f[k] == m.turn) {
        sl_value in = SL_NONE;
        kept[k] = value(&m, message_of(s, 0), k);
        if (s > 0) receive(&m, in = value(&m, message_of(s - 1, 0), k), s - 1);
        task(&m, forward, in, kept[k]);
        if (s + 1 < stages) send(&m, message, kept[k], s + 1);
      }
      if (b[k] == m.turn) {
        sl_value in = kept[k];
        const sl_value out = value(&m, message_of(s - 1, 1), k);
        if (s + 1 < stages) receive(&m, in = value(&m, message_of(s, 1), k), s + 1);
        task(&m, kinds == 3 ? backward / 2 : backward, in, out);
        if (s > 0) send(&m, message, out, s - 1);
      }
      if (kinds == 3 && w[k] == m.turn) task(&m, backward / 2, kept[k], value(&m, message_of(s, 2), k));
    }
  m.turn--;
  return m;
}

static sl_mesh_schedule *pipeline(maker *m, sl_pipe_order order, int stages, int parts, double forward, double backward,
                                  double message) {
  for (int s = 0; s < stages; s++) m[s] = stage_of(order, stages, s, parts, forward, backward, message);
  return joint(m, stages, NULL);
}

/* Of equal stages: (P - 1) / (M + P - 1) of the step (Huang et al. 2019; Narayanan et al. 2019); with passes for the
 * gradients of weights a third of those seconds (Qi et al. 2023). */
static void the_bubble_is_that_of_the_formula(void **state) {
  (void)state;
  maker m[MOST_RANKS];
  for (int order = 0; order < SL_PIPE_ORDERS; order++)
    for (int stages = 1; stages <= MOST_RANKS; stages++)
      for (int parts = 1; parts <= 12; parts++) {
        if (order == SL_PIPE_ZERO_BUBBLE && parts < stages) continue; /* too few micro-batches to fill it */
        sl_mesh_schedule *mesh = pipeline(m, (sl_pipe_order)order, stages, parts, 1, 2, 0);
        const double quiet = stages - 1, passes = order == SL_PIPE_ZERO_BUBBLE ? 3 * parts : parts;
        assert_near(mesh->makespan, 3.0 * parts * (passes + quiet) / passes, 1e-9);
        assert_near(mesh->bubble, quiet / (passes + quiet), 1e-9);
        assert_near(mesh->busy, 1 - mesh->bubble, 1e-9);
        assert_near(mesh->exposed, 0, 1e-9);
        sl_mesh_schedule_destroy(mesh);
        release(m, stages);
      }
}

/* Passes of 1 s and 2 s, and what each further micro-batch takes. By 1F1B stages wait for messages: on two stages for
 * one of them in each micro-batch, on more stages for longer. By eager 1F1B no stage waits for a message of up to 1.5
 * s.
 */
static void eager_passes_hide_messages(void **state) {
  (void)state;
  maker m[MOST_RANKS];
  for (int stages = 2; stages <= MOST_RANKS; stages++)
    for (double message = 0.25; message <= 1.25; message += 0.5) {
      double seconds[2][2];
      for (int k = 0; k < 2; k++)
        for (int parts = 20; parts <= 40; parts += 20) {
          sl_mesh_schedule *mesh = pipeline(m, k ? SL_PIPE_EAGER_1F1B : SL_PIPE_1F1B, stages, parts, 1, 2, message);
          seconds[k][parts / 20 - 1] = mesh->makespan;
          sl_mesh_schedule_destroy(mesh);
          release(m, stages);
        }
      const double each = (seconds[0][1] - seconds[0][0]) / 20;
      if (stages == 2)
        assert_near(each, 3 + message, 1e-9);
      else
        assert_true(each > 3 + message);
      assert_near((seconds[1][1] - seconds[1][0]) / 20, 3, 1e-9);
    }
}

/* Two stages, two micro-batches, all forward passes first; passes take 1 s, messages 0.5 s.
 *   stage 0: F F . . : b b       '.': nothing, for 2.5 s; ':': the message of the first backward pass, 4.5 to 5 s
 *   stage 1: . : f f b b . .     ends at 5.5 s; the message of the second one ends at 6 s, while stage 0 computes */
static void messages_take_time(void **state) {
  (void)state;
  maker m[2];
  sl_mesh_schedule *mesh = pipeline(m, SL_PIPE_GPIPE, 2, 2, 1, 1, 0.5);
  assert_near(mesh->makespan, 7, 1e-9);
  for (int r = 0; r < 2; r++) {
    assert_near(mesh->rank[r].busy, 4, 1e-9);
    assert_near(mesh->rank[r].exposed, 0.5, 1e-9);
    assert_near(mesh->rank[r].bubble, 2.5, 1e-9);
  }
  assert_near(mesh->exposed, 0.5 / 7, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
}

/* Rank 0 makes two values by 1 s and by 2 s; each message takes 2 s, so the second one waits for the first: it goes
 * from 3 s to 5 s. */
static void messages_wait_for_their_lane(void **state) {
  (void)state;
  maker m[2] = {maker_of(&one_worker), maker_of(&one_worker)};
  for (int k = 0; k < 2; k++) {
    const sl_value a = value(&m[0], 1, k), b = value(&m[1], 1, k);
    task(&m[0], 1, SL_NONE, a);
    send(&m[0], 2, a, 1);
    receive(&m[1], b, 0);
    task(&m[1], 1, b, SL_NONE);
  }
  sl_mesh_schedule *mesh = joint(m, 2, NULL);
  assert_near(mesh->rank[0].start[1], 1, 1e-9);
  assert_near(mesh->rank[0].start[3], 3, 1e-9);
  assert_near(mesh->rank[1].start[2], 3, 1e-9);
  assert_near(mesh->makespan, 6, 1e-9);
  assert_near(mesh->rank[1].exposed, 3, 1e-9); /* 1 s to 3 s, and 4 s to 5 s */
  assert_near(mesh->rank[1].bubble, 1, 1e-9);
  assert_near(mesh->rank[0].exposed, 0, 1e-9); /* what a rank sends does not keep it waiting */
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
}

/* A sum of 2 s that takes 1 s of a core moves from 1 s to 3 s; then a task of 8 s needs it. One worker: meanwhile it
 * has a task of 1.5 s, by whose end, at 2.5 s, the sum has taken 0.75 s; so the task ends at 3.25 s. The last 0.25 s of
 * the sum's work delay the next task. Two workers: one is idle, and the sum has its core. */
static void exchanges_take_time_from_tasks(void **state) {
  (void)state;
  for (int workers = 1; workers <= 2; workers++) {
    const sl_machine machine = {.kind = {{workers, 1, 1e30, 0}}, .exchange = 1e30};
    maker m = maker_of(&machine);
    const sl_value a = value(&m, 1, 0), z = value(&m, 2, 0);
    task(&m, 1, SL_NONE, a);
    task(&m, 0, a, z);
    exchange(&m, 2, z, z, SL_MESSAGE_NONE, -1);
    m.exchange[0].work = 1;
    task(&m, 1.5, SL_NONE, SL_NONE);
    m.g->node[3]->after = a;
    task(&m, 8, z, SL_NONE);
    sl_mesh_schedule *mesh = joint(&m, 1, NULL);
    const sl_mesh_share *r = &mesh->rank[0];
    assert_near(r->start[2], 1, 1e-9);
    assert_near(r->start[4], workers == 1 ? 3.25 : 3, 1e-9);
    assert_near(r->later[3], workers == 1 ? 0.75 : 0, 1e-9);
    assert_near(r->later[4], workers == 1 ? 0.25 : 0, 1e-9);
    assert_near(r->taken, workers == 1 ? 1 : 0, 1e-9);
    assert_near(mesh->makespan, workers == 1 ? 11.5 : 11, 1e-9);
    assert_near(r->busy, (10.5 + r->taken) / workers, 1e-9);
    sl_mesh_schedule_destroy(mesh);
    release(&m, 1);
  }
}

/* A rank that waits for a message of 2 s does the message's work of 1 s meanwhile. Its sender has a task of 3 s, which
 * ends 1 s later. */
static void idle_workers_lose_nothing(void **state) {
  (void)state;
  maker m[2] = {maker_of(&one_worker), maker_of(&one_worker)};
  const sl_value a = value(&m[0], 1, 0), b = value(&m[1], 1, 0);
  task(&m[0], 1, SL_NONE, a);
  send(&m[0], 2, a, 1);
  m[0].exchange[0].work = 1;
  task(&m[0], 3, SL_NONE, SL_NONE);
  m[0].g->node[2]->after = a;
  receive(&m[1], b, 0);
  task(&m[1], 0.5, b, SL_NONE);
  sl_mesh_schedule *mesh = joint(m, 2, NULL);
  assert_near(mesh->rank[1].later[1], 0, 1e-9);
  assert_near(mesh->rank[1].start[1], 3, 1e-9);
  assert_near(mesh->rank[0].later[2], 1, 1e-9);
  assert_near(mesh->makespan, 5, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
}

/* Rank 0 makes three values by 0.5 s, 1 s and 1.5 s, for ranks 1, 2 and 1; messages take 2 s. It sends one at a time,
 * the one first that has waited longest: from 0.5 s, 2.5 s and 4.5 s on. */
static void a_rank_sends_one_message_at_a_time(void **state) {
  (void)state;
  maker m[3] = {maker_of(&one_worker), maker_of(&one_worker), maker_of(&one_worker)};
  const int to[] = {1, 2, 1};
  for (int k = 0; k < 3; k++) {
    const sl_value a = value(&m[0], 1, k), b = value(&m[to[k]], 1, k);
    task(&m[0], 0.5, SL_NONE, a);
    send(&m[0], 2, a, to[k]);
    receive(&m[to[k]], b, 0);
  }
  sl_mesh_schedule *mesh = joint(m, 3, NULL);
  for (int k = 0; k < 3; k++) assert_near(mesh->rank[0].start[2 * k + 1], 0.5 + 2 * k, 1e-9);
  assert_near(mesh->rank[2].start[0], 2.5, 1e-9);
  assert_near(mesh->makespan, 6.5, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 3);
}

/* Ranks 1 and 2 have a value for rank 0 by 1 s and by 2 s; rank 0 receives one after the other, while it sends. */
static void a_rank_receives_one_message_at_a_time(void **state) {
  (void)state;
  maker m[3] = {maker_of(&one_worker), maker_of(&one_worker), maker_of(&one_worker)};
  for (int r = 1; r < 3; r++) {
    const sl_value a = value(&m[r], 1, r), b = value(&m[0], 1, r), c = value(&m[0], 2, r), d = value(&m[r], 2, r);
    task(&m[r], r, SL_NONE, a);
    send(&m[r], 2, a, 0);
    receive(&m[0], b, r);
    if (r > 1) continue;
    task(&m[0], 1, SL_NONE, c);
    send(&m[0], 2, c, r);
    receive(&m[r], d, 0);
  }
  sl_mesh_schedule *mesh = joint(m, 3, NULL);
  assert_near(mesh->rank[1].start[1], 1, 1e-9);
  assert_near(mesh->rank[2].start[1], 3, 1e-9);
  assert_near(mesh->rank[0].start[2], 1, 1e-9); /* what it sends */
  assert_near(mesh->makespan, 5, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 3);
}

/* ---- ranks that divide products ---------------------------------------------------------------------------------- */

/* Each of two ranks makes an addend, in 1 s and in `other` s, sends it in 0.25 s, and adds what it gets in 0.5 s. */
static void two_ranks(maker m[2], double other) {
  for (int r = 0; r < 2; r++) {
    m[r] = maker_of(&one_worker);
    const sl_value mine = value(&m[r], 1 + r, 0), theirs = value(&m[r], 2 - r, 0);
    task(&m[r], r ? other : 1, SL_NONE, mine);
    send(&m[r], 0.25, mine, !r);
    receive(&m[r], theirs, !r);
    task(&m[r], 0.5, theirs, SL_NONE);
  }
}

static void tensor_ranks_wait_for_each_other(void **state) {
  (void)state;
  maker m[2];
  two_ranks(m, 1);
  sl_mesh_schedule *mesh = joint(m, 2, NULL);
  assert_near(mesh->makespan, 1.75, 1e-9);
  assert_near(mesh->exposed, 0.25 / 1.75, 1e-9);
  assert_near(mesh->bubble, 0, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
  two_ranks(m, 2);
  mesh = joint(m, 2, NULL);
  assert_near(mesh->makespan, 2.75, 1e-9);
  assert_near(mesh->rank[0].bubble, 1, 1e-9);
  assert_near(mesh->rank[0].exposed, 0.25, 1e-9);
  assert_near(mesh->rank[1].start[3], 2, 1e-9); /* its message has come long before */
  assert_near(mesh->rank[1].bubble, 0.25, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
}

/* Sums over the data ranks run one after another in their order, beside messages: the second value is made first. */
static void sums_keep_their_order(void **state) {
  (void)state;
  maker m[1] = {maker_of(&one_worker)};
  const sl_value a = value(&m[0], 1, 0), b = value(&m[0], 2, 0);
  task(&m[0], 3, SL_NONE, a);
  exchange(&m[0], 2, a, a, SL_MESSAGE_NONE, -1);
  task(&m[0], 1, SL_NONE, b);
  exchange(&m[0], 1, b, b, SL_MESSAGE_NONE, -1);
  sl_mesh_schedule *mesh = joint(m, 1, NULL);
  assert_near(mesh->rank[0].start[1], 3, 1e-9);
  assert_near(mesh->rank[0].start[3], 5, 1e-9);
  assert_near(mesh->makespan, 6, 1e-9);
  assert_near(mesh->rank[0].exposed, 2, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 1);
}

/* On GPUs a value of 400 bytes goes to the host and from there at 400 bytes/s: 1 s + 1 s + message of 1 s + 1 s. */
static void values_leave_a_gpu(void **state) {
  (void)state;
  const sl_machine gpu = {.kind = {[SL_KIND_GPU] = {1, 1, 1e30, 0}}, .exchange = 1e30, .link = BYTES};
  maker m[2] = {maker_of(&gpu), maker_of(&gpu)};
  const sl_value a = value(&m[0], 1, 0), b = value(&m[1], 1, 0);
  task(&m[0], 1, SL_NONE, a);
  send(&m[0], 1, a, 1);
  receive(&m[1], b, 0);
  task(&m[1], 1, b, SL_NONE);
  sl_mesh_schedule *mesh = joint(m, 2, NULL);
  assert_near(mesh->rank[0].start[1], 2, 1e-9);
  assert_near(mesh->rank[1].start[1], 4, 1e-9);
  assert_near(mesh->makespan, 5, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
}

/* A GPU makes two values by 1 s and by 2 s. Their copies to the host, of 3 s each, follow one another, and each value
 * is copied once for both of its messages, which take no time. */
static void copies_share_a_link(void **state) {
  (void)state;
  const sl_machine gpu = {.kind = {[SL_KIND_GPU] = {1, 1, 1e30, 0}}, .exchange = 1e30, .link = BYTES, .latency = 2};
  maker m[3] = {maker_of(&gpu), maker_of(&one_worker), maker_of(&one_worker)};
  for (int k = 0; k < 2; k++) {
    const sl_value a = value(&m[0], 1, k);
    task(&m[0], 1, SL_NONE, a);
    for (int r = 1; r < 3; r++) {
      send(&m[0], 0, a, r);
      receive(&m[r], value(&m[r], 1, k), 0);
    }
  }
  sl_mesh_schedule *mesh = joint(m, 3, NULL);
  for (int r = 1; r < 3; r++) {
    assert_near(mesh->rank[r].start[0], 1 + 3, 1e-9);
    assert_near(mesh->rank[r].start[1], 1 + 3 + 3, 1e-9);
  }
  sl_mesh_schedule_destroy(mesh);
  release(m, 3);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void faults_are_named(void **state) {
  (void)state;
  maker m[2];
  for (int s = 0; s < 2; s++) m[s] = stage_of(SL_PIPE_1F1B, 2, s, 4, 1, 1, 0);
  m[1].g->node[m[1].exchange[0].node]->message = SL_MESSAGE_SENT; /* in place of receiving */
  joint(m, 2, "rank 0 of the mesh sends 4 messages to rank 1, which receives 3");
  release(m, 2);
  for (int s = 0; s < 2; s++) m[s] = stage_of(SL_PIPE_1F1B, 2, s, 4, 1, 1, 0);
  m[0].exchanges--; /* one is left out of the list */
  joint(m, 2, "rank 0 of the mesh lists no exchange for layer 'layer'");
  release(m, 2);
  for (int s = 0; s < 2; s++) m[s] = stage_of(SL_PIPE_GPIPE, 2, s, 4, 1, 1, 0);
  const sl_mesh_exchange first = m[0].exchange[0]; /* the first two messages in the other order */
  m[0].exchange[0] = m[0].exchange[1], m[0].exchange[1] = first;
  joint(m, 2, "message 1 from rank 0 of the mesh to rank 1");
  release(m, 2);
  for (int s = 0; s < 2; s++) m[s] = stage_of(SL_PIPE_1F1B, 2, s, 4, 1, 1, 0);
  m[0].exchange[1].peer = 2;
  joint(m, 2, "do not fit its graph");
  release(m, 2);
}

/* Each of two ranks sends what it makes of what it gets from the other one. */
static void a_circle_is_no_endless_loop(void **state) {
  (void)state;
  maker m[2] = {maker_of(&one_worker), maker_of(&one_worker)};
  for (int r = 0; r < 2; r++) {
    const sl_value mine = value(&m[r], 1 + r, 0), theirs = value(&m[r], 2 - r, 0);
    receive(&m[r], theirs, !r);
    task(&m[r], 1, theirs, mine);
    send(&m[r], 0.25, mine, !r);
  }
  joint(m, 2, "wait for each other after 0 of 6 tasks: rank 1 waits for a message of rank 0");
  release(m, 2);
  /* Stages with different orders need not wait for ever. */
  for (int s = 0; s < 2; s++) m[s] = stage_of(s ? SL_PIPE_1F1B : SL_PIPE_GPIPE, 2, s, 4, 1, 1, 0);
  sl_mesh_schedule *mesh = joint(m, 2, NULL);
  assert_near(mesh->makespan, 10, 1e-9);
  sl_mesh_schedule_destroy(mesh);
  release(m, 2);
}

/* ---- graphs of the passes ---------------------------------------------------------------------------------------- */

typedef struct real_rank {
  sl_graph *g;
  sl_schedule *s;
  sl_memory *m;
  sl_mesh_exchange *x;
  sl_step_exchange *list;
} real_rank;

static int workers_at(const sl_mesh_rank *r, const sl_mesh_share *share, double time) {
  int n = 0;
  for (int i = 0; i < r->step->n_nodes; i++)
    n += !r->step->node[i]->bucket && share->start[i] <= time && time < share->start[i] + r->schedule->seconds[i];
  return n;
}

/* Starts keep to the dependencies, the workers, and the lanes of messages. */
static void check_rank(const sl_mesh_rank *rank, const sl_mesh_schedule *mesh, int me) {
  enum { WORKERS = 2 };
  const sl_mesh_rank *r = &rank[me];
  const double *start = mesh->rank[me].start, tiny = 1e-12;
  double *end = malloc((size_t)r->step->n_nodes * sizeof *end), last[MOST_RANKS] = {0};
  for (int i = 0; i < r->step->n_nodes; i++) end[i] = start[i] + r->schedule->seconds[i];
  for (int k = 0; k < r->exchanges; k++) {
    const sl_mesh_exchange *x = &r->exchange[k];
    end[x->node] = start[x->node] + x->seconds;
    if (r->step->node[x->node]->message != SL_MESSAGE_SENT) continue;
    assert_true(start[x->node] >= last[x->peer] - tiny);
    last[x->peer] = end[x->node];
  }
  for (int i = 0; i < r->step->n_nodes; i++) {
    for (int k = r->schedule->from[i]; k < r->schedule->from[i + 1]; k++)
      assert_true(start[i] >= end[r->schedule->before[k]] - tiny);
    assert_true(end[i] <= mesh->makespan + tiny);
    if (!r->step->node[i]->bucket) assert_true(workers_at(r, &mesh->rank[me], start[i]) <= WORKERS);
  }
  free(end);
}

static void spread_graphs_are_scheduled(void **state) {
  (void)state;
  sl_value loss;
  sl_graph *g = toy_deep_training(24, 16, &loss);
  for (int order = 0; order < SL_PIPE_ORDERS; order++)
    for (int stages = 2; stages <= 4; stages++)
      for (int parts = 1; parts <= 6; parts++) {
        sl_plan plan = {.batch = 24, .leaves = 6 * parts > 24 ? parts : 2 * parts, .micro_batches = parts, .seed = 1};
        if (24 % plan.leaves) continue;
        sl_placements *p;
        real_rank real[4];
        sl_mesh_rank rank[4];
        sl_mesh_schedule *mesh;
        const int first[] = {0, plan.leaves};
        const sl_machine machine = sl_machine_default(2, 1, 0);
        assert_ok(sl_plan_complete(&plan));
        assert_ok(
            sl_placements_create(g, &(sl_placing){.ranks = 1, .model_ranks = stages, .keep = &loss, .n_keep = 1}, &p));
        for (int s = 0; s < stages; s++) {
          real_rank *r = &real[s];
          const sl_division d = {
              .ranks = 1, .first = first, .model_rank = s, .model_ranks = stages, .pipe.order = (sl_pipe_order)order};
          assert_ok(sl_spread(g, &plan, &d, p, &r->g));
          assert_ok(sl_schedule_create(r->g, NULL, &plan.tiles, &machine, &r->s));
          assert_ok(sl_memory_plan(r->g, r->s, NULL, 0.02, &r->m));
          r->list = malloc(((size_t)r->g->n_nodes + 1) * sizeof *r->list);
          r->x = malloc(((size_t)r->g->n_nodes + 1) * sizeof *r->x);
          const int n = sl_spread_exchanges(r->g, &d, r->list);
          for (int k = 0; k < n; k++)
            r->x[k] = (sl_mesh_exchange){
                .node = r->list[k].node, .peer = r->list[k].move.rank, .seconds = 1e-6 + r->list[k].bytes / 1e9};
          for (int k = 0; k < n; k++) /* both ends of a message take the sender's time: their bytes are the same */
            assert_true(r->g->node[r->x[k].node]->message != SL_MESSAGE_NONE);
          rank[s] =
              (sl_mesh_rank){.step = r->g, .schedule = r->s, .machine = &machine, .exchange = r->x, .exchanges = n};
        }
        assert_ok(sl_mesh_schedule_create(rank, stages, &mesh));
        for (int s = 0; s < stages; s++) {
          check_rank(rank, mesh, s);
          assert_true(mesh->makespan > mesh->rank[s].busy);
        }
        sl_mesh_schedule_destroy(mesh);
        for (int s = 0; s < stages; s++) {
          free(real[s].x), free(real[s].list);
          sl_memory_destroy(real[s].m), sl_schedule_destroy(real[s].s), sl_graph_destroy(real[s].g);
        }
        sl_placements_destroy(p);
      }
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bubble_is_that_of_the_formula),
      cmocka_unit_test(eager_passes_hide_messages),
      cmocka_unit_test(messages_take_time),
      cmocka_unit_test(messages_wait_for_their_lane),
      cmocka_unit_test(a_rank_sends_one_message_at_a_time),
      cmocka_unit_test(exchanges_take_time_from_tasks),
      cmocka_unit_test(idle_workers_lose_nothing),
      cmocka_unit_test(a_rank_receives_one_message_at_a_time),
      cmocka_unit_test(tensor_ranks_wait_for_each_other),
      cmocka_unit_test(sums_keep_their_order),
      cmocka_unit_test(values_leave_a_gpu),
      cmocka_unit_test(copies_share_a_link),
      cmocka_unit_test(faults_are_named),
      cmocka_unit_test(a_circle_is_no_endless_loop),
      cmocka_unit_test(spread_graphs_are_scheduled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
