/* tasks/schedule/memory.c and schedule.c: with shared memory, every order that the dependencies allow gives the same
 * bits; sharing saves memory; graphs with known schedules. */
#include "tasks/schedule/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/spread.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

typedef struct lowered {
  sl_graph *logical, *step;
  sl_schedule *schedule;
  sl_memory *memory;
} lowered;

/* Whether two nodes use a value in common. */
static int have_in_common(const sl_node *a, const sl_node *b) {
  for (int i = 0; i < a->n_in + a->n_out; i++)
    for (int k = 0; k < b->n_in + b->n_out; k++)
      if ((i < a->n_in ? a->in[i] : a->out[i - a->n_in]) == (k < b->n_in ? b->in[k] : b->out[k - b->n_in])) return 1;
  return 0;
}

/* A micro-batch begins when the previous one has ended, except for its sums over leaves. */
static void check_turns(const sl_graph *step, const sl_schedule *s) {
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i];
    if (node->micro_batch > 0) assert_true(s->from[i + 1] > s->from[i]);
    for (int k = s->from[i]; k < s->from[i + 1]; k++) {
      const sl_node *before = step->node[s->before[k]];
      if (before->micro_batch < node->micro_batch && before->leaf >= 0 && before->shard < 0 && before->accumulate)
        assert_true(have_in_common(before, node));
    }
  }
}

static void raise(lowered *l) {
  sl_memory_destroy(l->memory), sl_schedule_destroy(l->schedule);
  sl_graph_destroy(l->step), sl_graph_destroy(l->logical);
}

static void any_order_gives_the_same_bits(void **state) {
  (void)state;
  for (int workers = 1; workers <= 4; workers++)
    for (int leaves = 1; leaves <= 3; leaves++)
      for (int blocks = 1; blocks <= 2; blocks++) {
        sl_plan plan = {.batch = 24, .leaves = leaves, .shards = 4 * leaves, .row_blocks = blocks, .seed = 1};
        assert_ok(sl_plan_complete(&plan));
        sl_value loss;
        sl_graph *g = toy_training(24, &loss), *step;
        assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
        sl_machine machine = {.kind = {{workers, 1e8, 1e9, 1e-6}}};
        sl_schedule *schedule;
        sl_memory *memory;
        char *keep = calloc((size_t)step->n_values, 1);
        keep[sl_spread_whole(step, loss)] = 1;
        keep[step->node[0]->out[0]] = 1; /* dead early, and as large as other buffers */
        assert_ok(sl_schedule_create(step, keep, &plan.tiles, &machine, &schedule));
        assert_ok(sl_memory_plan(step, schedule, keep, 0.0, &memory));
        assert_true(memory->temporaries < memory->unshared);
        for (sl_value v = 0; v < step->n_values; v++)
          for (sl_value k = 0; k < step->n_values; k++)
            if (keep[k] && v != k) assert_int_not_equal(memory->slot[v], memory->slot[k]);
        execution *plain = execution_create(step, NULL), *shared = execution_create(step, memory);
        execution_run(plain, NULL, 0);
        for (unsigned seed = 1; seed <= 10; seed++) {
          execution *again = execution_create(step, memory);
          execution_run(again, schedule, seed);
          for (sl_value v = 0; v < step->n_values; v++)
            if (step->value[v]->role == SL_ROLE_PARAMETER || keep[v])
              if (memcmp(plain->data[v], again->data[v], sl_value_bytes(step->value[v])) != 0)
                fail_msg("%d workers, %d leaves, seed %u: '%s' differs", workers, leaves, seed, step->value[v]->name);
          execution_destroy(again);
        }
        execution_destroy(plain), execution_destroy(shared);
        free(keep);
        sl_memory_destroy(memory), sl_schedule_destroy(schedule);
        sl_graph_destroy(step), sl_graph_destroy(g);
      }
}

/* The largest number of a logical value's pieces that are alive at once in the predicted schedule. */
static int most_alive(const sl_graph *step, const sl_schedule *s, sl_value logical) {
  int most = 0;
  double first[64], last[64];
  int n = 0;
  for (sl_value v = 0; v < step->n_values; v++) {
    if (step->value[v]->logical != logical) continue;
    assert_true(n < 64);
    first[n] = 1e30, last[n] = 0;
    for (int i = 0; i < step->n_nodes; i++)
      for (int k = 0; k < step->node[i]->n_in + step->node[i]->n_out; k++)
        if ((k < step->node[i]->n_in ? step->node[i]->in[k] : step->node[i]->out[k - step->node[i]->n_in]) == v) {
          first[n] = fmin(first[n], s->start[i]);
          last[n] = fmax(last[n], s->start[i] + s->seconds[i]);
        }
    n++;
  }
  for (int a = 0; a < n; a++) {
    int alive = 0;
    for (int b = 0; b < n; b++) alive += first[b] <= first[a] && first[a] < last[b];
    if (alive > most) most = alive;
  }
  return most;
}

/* Leaves in turns give the same bits as all at once, in any order and with any slack, in less memory; at most the
 * tree's depth + 1 partial gradients are alive. The count that the loss divides by sums over all leaves before the
 * first leaf's loss. */
static void micro_batches_change_no_bit(void **state) {
  (void)state;
  enum { BATCH = 96, LEAVES = 4 };
  execution *reference = NULL;
  lowered first = {0};
  size_t temporaries[3], far[3];
  for (int turn = 0; turn < 3; turn++) {
    sl_plan plan = {.batch = BATCH, .leaves = LEAVES, .shards = 2 * LEAVES, .micro_batches = 1 << turn, .seed = 1};
    assert_ok(sl_plan_complete(&plan));
    sl_value loss;
    lowered l = {.logical = toy_training(BATCH, &loss)};
    const sl_machine machine = {.kind = {{2, 1e8, 1e9, 1e-6}}};
    assert_ok(sl_spread(l.logical, &plan, NULL, NULL, &l.step));
    assert_ok(sl_schedule_create(l.step, NULL, &plan.tiles, &machine, &l.schedule));
    check_turns(l.step, l.schedule);
    assert_ok(sl_memory_plan(l.step, l.schedule, NULL, 0.1, &l.memory));
    temporaries[turn] = l.memory->temporaries;
    lowered apart = {.step = l.step};
    assert_ok(sl_schedule_create(l.step, NULL, &plan.tiles, &machine, &apart.schedule));
    assert_ok(sl_memory_plan(l.step, apart.schedule, NULL, 100, &apart.memory)); /* only between micro-batches */
    far[turn] = apart.memory->temporaries;
    sl_memory_destroy(apart.memory), sl_schedule_destroy(apart.schedule);
    for (int i = 0; i < l.step->n_nodes; i++) {
      const sl_node *node = l.step->node[i];
      if (node->shard >= 0) assert_int_equal(node->micro_batch, node->shard / 2 * plan.micro_batches / LEAVES);
      for (int k = l.schedule->from[i]; k < l.schedule->from[i + 1]; k++) {
        const sl_node *before = l.step->node[l.schedule->before[k]];
        assert_true(before->micro_batch <= node->micro_batch);
      }
    }
    if (plan.micro_batches == LEAVES) {
      const sl_value w = sl_graph_find(l.logical, "fc2.weight");
      for (int i = 0; i < l.logical->n_nodes; i++)
        if (l.logical->node[i]->op == &toy_step && l.logical->node[i]->in[0] == w)
          assert_in_range(most_alive(l.step, l.schedule, l.logical->node[i]->in[1]), 2, 3);
    }
    for (unsigned seed = 1; seed <= 10; seed++) {
      execution *e = execution_create(l.step, l.memory);
      execution_run(e, l.schedule, seed);
      if (!reference) {
        reference = e, first = l;
        continue;
      }
      for (sl_value v = 0; v < first.step->n_values; v++)
        if (first.step->value[v]->role == SL_ROLE_PARAMETER)
          assert_memory_equal(reference->data[v], e->data[sl_graph_find(l.step, first.step->value[v]->name)],
                              sl_value_bytes(first.step->value[v]));
      execution_destroy(e);
    }
    if (turn > 0) raise(&l);
  }
  execution_destroy(reference);
  raise(&first);
  assert_true(temporaries[1] < temporaries[0] && temporaries[2] < temporaries[1]);
  assert_true(far[1] < far[0] && far[2] < far[1]);
}

/* Work of all leaves that the first leaf waits for comes first. */
static void what_is_waited_for_comes_first(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 4), total = toy_loss(g, x);
  sl_graph_add1(g, &toy_leafscale, "scale", NULL, (sl_value[]){x, total}, 2);
  sl_plan plan = {.batch = 16, .leaves = 4, .micro_batches = 4};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  for (int i = 0; i < step->n_nodes; i++)
    assert_int_equal(step->node[i]->micro_batch, step->node[i]->op == &toy_leafscale ? step->node[i]->leaf : 0);
  sl_graph_destroy(step), sl_graph_destroy(g);
}

/* A group of values in one buffer, found again from the schedule. */
typedef struct buffer {
  size_t bytes;
  double start, end;
  int writer, slot;
} buffer;

static int in_order(const void *a, const void *b) {
  const buffer *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->writer < y->writer ? -1 : x->writer > y->writer;
}

static int list_buffers(const lowered *l, buffer *list) {
  const sl_graph *g = l->step;
  const sl_schedule *s = l->schedule;
  buffer *of = calloc((size_t)g->n_values, sizeof *of);
  int n = 0;
  assert_non_null(of);
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_out; k++) {
      int v = k < g->node[i]->n_in ? g->node[i]->in[k] : g->node[i]->out[k - g->node[i]->n_in];
      if (g->value[v]->role != SL_ROLE_TEMPORARY) continue;
      while (s->onto[v] >= 0) v = s->onto[v];
      if (!of[v].bytes)
        of[v] = (buffer){(sl_value_bytes(g->value[v]) + 255) / 256 * 256, s->start[i], 0, i, l->memory->slot[v]};
      if (s->start[i] < of[v].start) of[v].start = s->start[i], of[v].writer = i;
      of[v].end = fmax(of[v].end, s->start[i] + s->seconds[i]);
    }
  for (int v = 0; v < g->n_values; v++)
    if (of[v].bytes) list[n++] = of[v];
  free(of);
  qsort(list, (size_t)n, sizeof *list, in_order);
  return n;
}

/* A step of tasks of random lengths, each of which reads up to two values, most of them recent ones. */
static sl_graph *random_step(int tasks, unsigned seed) {
  enum { RECENT = 40 };
  sl_graph *g = toy_graph(16);
  for (int i = 0; i < tasks; i++) {
    sl_value in[2];
    int n = 0;
    for (int k = 0; k < 2 && i > 0; k++) {
      const int most = rand_r(&seed) % 16 && i > RECENT ? RECENT : i;
      if (rand_r(&seed) % 4) in[n++] = i - 1 - rand_r(&seed) % most;
    }
    if (n == 2 && in[0] == in[1]) n = 1;
    const int64_t elements = INT64_C(64) << rand_r(&seed) % 7;
    toy_task(g, 1 + rand_r(&seed) % 1000, in, n, toy_value(g, SL_ROLE_TEMPORARY, elements));
  }
  return g;
}

/* The slots are those of the plain search: the largest buffers first, each into the slot that is free for it and is
 * empty around it for the shortest time; of two, into the earlier one. */
static void each_is_in_the_tightest_slot(void **state) {
  (void)state;
  enum { TASKS = 1500 };
  int most = 0;
  for (int workers = 1; workers <= 64; workers *= 8)
    for (unsigned seed = 1; seed <= 4; seed++) {
      const double slack = seed % 2 ? 0 : 0.002;
      lowered l = {.step = random_step(TASKS, seed)};
      const sl_machine machine = {.kind = {{workers, 1, 1e30, 0}}};
      assert_ok(sl_schedule_create(l.step, NULL, &SL_TILES_DEFAULT, &machine, &l.schedule));
      assert_ok(sl_memory_plan(l.step, l.schedule, NULL, slack, &l.memory));
      buffer *list = calloc((size_t)l.step->n_values + 1, sizeof *list);
      struct {
        double free, to;
        int overlaps;
      } *at = calloc((size_t)l.step->n_values + 1, sizeof *at);
      assert_true(list && at);
      const int n = list_buffers(&l, list);
      const double apart = slack * l.schedule->makespan;
      int slots = 0;
      for (int i = 0; i < n; i++) {
        int best = slots;
        double least = INFINITY;
        for (int k = 0; k < slots; k++) at[k].free = -INFINITY, at[k].to = INFINITY, at[k].overlaps = 0;
        for (int j = 0; j < i; j++) {
          const int k = list[j].slot, first = list[j].start < list[i].start;
          at[k].overlaps |= !(first ? list[j].end + apart <= list[i].start : list[i].end + apart <= list[j].start);
          if (first) at[k].free = fmax(at[k].free, list[j].end);
          if (!first) at[k].to = fmin(at[k].to, list[j].start);
        }
        for (int k = 0; k < slots; k++) {
          const double idle = (isfinite(at[k].free) ? list[i].start - at[k].free : 0) +
                              (isfinite(at[k].to) ? at[k].to - list[i].end : 0);
          if (!at[k].overlaps && idle < least) best = k, least = idle;
        }
        assert_int_equal(list[i].slot, best);
        slots += best == slots;
      }
      assert_int_equal(slots, l.memory->n_slots);
      if (slots > most) most = slots;
      free(list), free(at);
      sl_memory_destroy(l.memory), sl_schedule_destroy(l.schedule), sl_graph_destroy(l.step);
    }
  assert_true(most > 64); /* more than one block of bits */
}

/* One chain of in-place operations needs one buffer. */
static void chains_run_in_place(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 8);
  for (int i = 0; i < 5; i++) x = sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
  sl_plan plan = {.batch = 16, .shards = 1};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  sl_machine machine = sl_machine_default(1, 1, 0);
  sl_schedule *schedule;
  sl_memory *memory;
  assert_ok(sl_schedule_create(step, NULL, &plan.tiles, &machine, &schedule));
  assert_ok(sl_memory_plan(step, schedule, NULL, 0.0, &memory));
  assert_int_equal(memory->n_slots, 1);
  assert_int_equal(memory->temporaries, 16 * 8 * 4);
  assert_int_equal(memory->added, 0);
  sl_memory_destroy(memory), sl_schedule_destroy(schedule);
  sl_graph_destroy(step), sl_graph_destroy(g);
}

/* An output may overwrite an input that other nodes read earlier, and waits for them; but not an input that is read
 * later. */
static void waits_for_earlier_readers(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 64);
  toy_loss(g, x); /* reads x first */
  sl_value y = sl_graph_add1(g, &toy_square, "onto x", NULL, &x, 1);
  sl_value z = sl_graph_add1(g, &toy_square, "not onto y", NULL, &y, 1);
  toy_loss(g, y);
  sl_plan plan = {.batch = 16, .shards = 1};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  sl_machine machine = sl_machine_default(2, 1, 0);
  sl_schedule *s;
  assert_ok(sl_schedule_create(step, NULL, &plan.tiles, &machine, &s));
  sl_value on[3] = {x, y, z};
  for (int i = 0; i < 3; i++)
    for (sl_value v = 0; v < step->n_values; v++)
      if (step->value[v]->logical == on[i]) {
        on[i] = v;
        break;
      }
  assert_int_equal(s->onto[on[1]], on[0]);
  assert_int_equal(s->onto[on[2]], -1);
  int waits = 0; /* node 2 (square) for node 1 (loss) */
  for (int k = s->from[2]; k < s->from[3]; k++) waits |= s->before[k] == 1;
  assert_true(waits);
  sl_schedule_destroy(s);
  char *keep = calloc((size_t)step->n_values, 1);
  keep[on[0]] = 1;
  assert_ok(sl_schedule_create(step, keep, &plan.tiles, &machine, &s));
  assert_int_equal(s->onto[on[1]], -1);
  sl_schedule_destroy(s);
  free(keep);
  sl_graph_destroy(step), sl_graph_destroy(g);
}

/* Four independent chains of two tasks: predicted makespan and critical path by hand. */
static void predicts_known_schedules(void **state) {
  (void)state;
  sl_graph *g = toy_graph(16), *step;
  sl_value x = toy_input(g, 64);
  sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
  sl_plan plan = {.batch = 16, .shards = 4};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  for (int workers = 1; workers <= 4; workers *= 2) {
    sl_machine machine = {.kind = {{workers, 1e9, 1e30, 1}}};
    sl_schedule *s;
    assert_ok(sl_schedule_create(step, NULL, &plan.tiles, &machine, &s));
    assert_int_equal(s->n, 8);
    assert_true(fabs(s->critical_path - 2) < 1e-6);
    assert_true(fabs(s->makespan - 8.0 / workers) < 1e-6);
    for (int i = 0; i < s->n; i++)
      for (int k = s->from[i]; k < s->from[i + 1]; k++)
        assert_true(s->start[s->before[k]] + s->seconds[s->before[k]] <= s->start[i] + 1e-9);
    sl_schedule_destroy(s);
  }
  sl_graph_destroy(step), sl_graph_destroy(g);
}

/* With GPUs, whose memories StarPU copies whole slots between: no slot is much larger than a value in it, and values of
 * two GPUs share none. On CPUs alone all values of such a step share slots freely. */
static void slots_suit_copies(void **state) {
  (void)state;
  for (int gpus = 0; gpus <= 2; gpus++) {
    sl_plan plan = {
        .batch = 4096, .leaves = 3, .shards = 9, .seed = 1}; /* GPUs in step would share no slot by chance */
    sl_value loss;
    lowered l = {.logical = toy_deep_training(4096, 64, &loss)};
    assert_ok(sl_plan_complete(&plan));
    const sl_machine machine = {.kind = {{gpus ? 0 : 2, 1e8, 1e9, 1e-6}, {gpus, 1e9, 1e10, 1e-6}}, .link = 1e9};
    assert_ok(sl_spread(l.logical, &plan, NULL, NULL, &l.step));
    assert_ok(sl_schedule_create(l.step, NULL, &plan.tiles, &machine, &l.schedule));
    assert_ok(sl_memory_plan(l.step, l.schedule, NULL, 0, &l.memory));
    int *gpu = malloc(((size_t)l.memory->n_slots + 1) * sizeof *gpu), wide = 0, shared = 0, on[2] = {0};
    for (int i = 0; i < l.step->n_nodes; i++) on[l.schedule->worker[i]]++;
    if (gpus > 1) assert_true(on[0] > l.step->n_nodes / 4 && on[1] > l.step->n_nodes / 4);
    assert_non_null(gpu);
    for (int k = 0; k < l.memory->n_slots; k++) gpu[k] = -1;
    for (int i = 0; i < l.step->n_nodes; i++)
      for (int k = 0; k < l.step->node[i]->n_out; k++) {
        const sl_value v = l.step->node[i]->out[k];
        const int slot = l.memory->slot[v];
        if (slot < 0) continue;
        const size_t bytes = sl_value_bytes(l.step->value[v]);
        wide += l.memory->bytes[slot] > (64 << 10) && l.memory->bytes[slot] > 2 * bytes + 512;
        shared += gpu[slot] >= 0;
        if (gpus > 1 && l.schedule->onto[v] < 0 && !sl_node_reads_output(l.step->node[i], k)) {
          if (gpu[slot] >= 0) assert_int_equal(gpu[slot], l.schedule->worker[i]);
          gpu[slot] = l.schedule->worker[i];
        } else if (gpu[slot] < 0) {
          gpu[slot] = l.schedule->worker[i];
        }
      }
    assert_true(shared > 0);
    if (gpus)
      assert_int_equal(wide, 0);
    else
      assert_true(wide > 0);
    free(gpu);
    raise(&l);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_order_gives_the_same_bits),
      cmocka_unit_test(micro_batches_change_no_bit),
      cmocka_unit_test(what_is_waited_for_comes_first),
      cmocka_unit_test(chains_run_in_place),
      cmocka_unit_test(waits_for_earlier_readers),
      cmocka_unit_test(predicts_known_schedules),
      cmocka_unit_test(slots_suit_copies),
      cmocka_unit_test(each_is_in_the_tightest_slot),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
