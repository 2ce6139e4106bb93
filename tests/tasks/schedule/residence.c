/* tasks/schedule/residence.c: plans worked out by hand; on random graphs, a replay of each plan, which keeps track of
 * what lies where: the memory suffices, nothing is forgotten that somebody reads, what moves is what the plan says, and
 * no plan is below the lower bound. */
#include "tasks/schedule/residence.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tasks/toy.h"

enum { BYTES = 1024, MOST = 64 }; /* of each value; values of a random graph */

static sl_value add_value(sl_graph *g, sl_role role) { return toy_value(g, role, BYTES / 4); }

static void add_task(sl_graph *g, double flops, sl_value in0, sl_value in1, sl_value out) {
  toy_task(g, flops, (sl_value[]){in0, in1}, (in0 != SL_NONE) + (in1 != SL_NONE), out);
}

typedef struct planned {
  sl_graph *g;
  sl_schedule *s;
  sl_memory *m;
  sl_residence *r;
} planned;

static planned plan(sl_graph *g, int cpus, size_t bytes) {
  const sl_machine machine = {.kind = {{cpus, 1, 1e30, 0}, {1, 4, 1e30, 0}}, .exchange = 1e30, .link = 1e30};
  planned p = {.g = g};
  assert_ok(sl_schedule_create(g, NULL, &SL_TILES_DEFAULT, &machine, &p.s));
  assert_ok(sl_memory_plan(g, p.s, NULL, 0.02, &p.m));
  assert_ok(sl_residence_plan(g, p.s, p.m, &machine, 0, bytes, NULL, &p.r));
  return p;
}

static void release(planned *p) {
  sl_residence_destroy(p->r);
  sl_memory_destroy(p->m);
  sl_schedule_destroy(p->s);
  sl_graph_destroy(p->g);
}

static void move_is(const planned *p, int k, int after, int buffer, sl_move_kind kind) {
  assert_true(k < p->r->n_moves);
  const sl_move *m = &p->r->move[k];
  if (m->after != after || m->buffer != buffer || m->kind != kind)
    fail_msg("move %d is %d of buffer %d after node %d, not %d of %d after %d", k, m->kind, m->buffer, m->after, kind,
             buffer, after);
}

static planned updates_in_turn(int n, size_t bytes) {
  sl_graph *g = toy_graph(n);
  for (int k = 0; k < n; k++) {
    const sl_value v = add_value(g, SL_ROLE_PARAMETER);
    add_task(g, 4, v, SL_NONE, v);
  }
  return plan(g, 0, bytes);
}

/* Four parameters that are updated in turn, and room for three. The last step that is walked through begins with 1, 3
 * and 4. The second task needs 2: 1, which is used last, was just written and goes. At the end 2 is there in place of
 * 1, so that it is copied out and goes, too. Each goes out and comes in once a step. Any plan: of four parameters one
 * is elsewhere at any time, for three tasks at most. */
static void parameters_in_turn(void **state) {
  (void)state;
  planned p = updates_in_turn(4, 3 * BYTES);
  const int first = p.m->n_slots; /* buffer of the first parameter */
  assert_int_equal(p.r->all, 4 * BYTES);
  assert_int_equal(p.r->most, BYTES);
  assert_int_equal(p.r->peak, 3 * BYTES);
  assert_near(p.r->in, 2 * BYTES, 0);
  assert_near(p.r->out, 2 * BYTES, 0);
  assert_in_range((int)p.r->least_in, (int)(4 * BYTES / 3.0 * 0.93), (int)(4 * BYTES / 3.0));
  assert_in_range((int)p.r->least_out, (int)(4 * BYTES / 3.0 * 0.93), (int)(4 * BYTES / 3.0));
  assert_int_equal(p.r->n_moves, 3);
  move_is(&p, 0, -1, first + 1, SL_MOVE_EVICT);
  move_is(&p, 1, 0, first, SL_MOVE_EVICT);
  move_is(&p, 2, 1, first + 1, SL_MOVE_WRITE_BACK); /* its eviction comes later: as the next step begins */
  release(&p);
}

/* Two tasks are under way at once if their data take half of the memory at most, else one. */
static void tasks_under_way(void **state) {
  (void)state;
  for (int room = 3; room <= 5; room++) {
    planned p = updates_in_turn(6, (size_t)room * BYTES);
    const int many = room >= 4;
    assert_int_equal(p.r->n_pairs, many ? 4 : 5);
    for (int k = 0; k < p.r->n_pairs; k++) {
      assert_int_equal(p.r->pairs[2 * k], k);
      assert_int_equal(p.r->pairs[2 * k + 1], k + 1 + many);
    }
    release(&p);
  }
}

/* The memory holds three buffers, and the third task needs two more. Of the two that are there, x has just been
 * modified, so evicting it would cost two copies. It stays, although its next use is further away; w leaves. */
static void what_was_changed_stays(void **state) {
  (void)state;
  sl_graph *g = toy_graph(5);
  const sl_value x = add_value(g, SL_ROLE_PARAMETER), w = add_value(g, SL_ROLE_PARAMETER),
                 y = add_value(g, SL_ROLE_PARAMETER), z = add_value(g, SL_ROLE_PARAMETER);
  add_task(g, 4, x, SL_NONE, x);
  add_task(g, 4, w, SL_NONE, SL_NONE);
  add_task(g, 4, y, z, SL_NONE);
  add_task(g, 4, w, SL_NONE, SL_NONE);
  add_task(g, 4, x, SL_NONE, SL_NONE);
  planned p = plan(g, 0, 3 * BYTES);
  assert_near(p.r->out, 0, 0);
  assert_near(p.r->in, 2 * BYTES, 0); /* w, and y or z */
  for (int k = 0; k < p.r->n_moves; k++) assert_int_not_equal(p.r->move[k].buffer, p.m->n_slots + (int)x);
  release(&p);
}

/* A chain w -> x -> y -> z, then w again, and room for two: w, which nobody changes, leaves and moves nothing out; y is
 * dead when w comes back, and is forgotten. */
static void a_chain(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value w = add_value(g, SL_ROLE_PARAMETER), x = add_value(g, SL_ROLE_TEMPORARY),
                 y = add_value(g, SL_ROLE_TEMPORARY), z = add_value(g, SL_ROLE_TEMPORARY);
  add_task(g, 4, w, SL_NONE, x);
  add_task(g, 4, x, SL_NONE, y);
  add_task(g, 4, y, SL_NONE, z);
  add_task(g, 4, z, w, SL_NONE);
  planned p = plan(g, 0, 2 * BYTES);
  assert_near(p.r->in, BYTES, 0);
  assert_near(p.r->out, 0, 0);
  assert_in_range((int)p.r->least_in, (int)(0.93 * BYTES), BYTES);
  assert_near(p.r->least_out, 0, 0);
  int forgotten = 0;
  for (int k = 0; k < p.r->n_moves; k++) {
    if (p.r->move[k].kind == SL_MOVE_FORGET)
      forgotten += p.r->move[k].buffer == p.m->slot[y] && p.r->move[k].after == 2;
    if (p.r->move[k].kind == SL_MOVE_EVICT) assert_int_equal(p.r->move[k].buffer, p.m->n_slots + w);
    assert_true(p.r->move[k].kind != SL_MOVE_WRITE_BACK);
  }
  assert_int_equal(forgotten, 1);
  release(&p);
}

static void what_fits_stays(void **state) {
  (void)state;
  sl_graph *g = toy_graph(4);
  const sl_value v = add_value(g, SL_ROLE_PARAMETER), w = add_value(g, SL_ROLE_PARAMETER);
  add_task(g, 4, v, w, v);
  add_task(g, 4, v, w, w);
  planned p = plan(g, 0, 2 * BYTES);
  assert_int_equal(p.r->n_moves, 0);
  assert_int_equal(p.r->n_pairs, 0);
  assert_int_equal(p.r->peak, 2 * BYTES);
  sl_residence *small = NULL;
  const sl_machine machine = {.kind = {{0, 1, 1e30, 0}, {1, 4, 1e30, 0}}, .exchange = 1e30, .link = 1e30};
  assert_ok(sl_residence_plan(g, p.s, p.m, &machine, 0, 2 * BYTES - 1, NULL, &small));
  assert_int_equal(small->most, 2 * BYTES);
  assert_int_equal(small->n_moves, 0);
  assert_int_equal(sl_residence_too_large(small, g, 2 * BYTES - 1), SL_EINVAL);
  assert_non_null(strstr(sl_error(), "layer 'task' (one) needs 0.0 MB at once, and GPU 0 has 0.0 MB"));
  sl_residence_destroy(small);
  release(&p);
}

/* A message on a task that is too large names the option that makes it smaller. */
static void the_message_names_what_would_fit(void **state) {
  (void)state;
  static const struct {
    sl_role role;
    sl_phase phase;
    const char *says;
  } kinds[] = {{SL_ROLE_TEMPORARY, SL_PHASE_FORWARD, "more shards or a smaller batch"},
               {SL_ROLE_PARAMETER, SL_PHASE_FORWARD, "more folds"},
               {SL_ROLE_PARAMETER, SL_PHASE_UPDATE, "more row blocks"}};
  for (int k = 0; k < 3; k++) {
    sl_graph *g = toy_graph(4);
    const sl_value v = add_value(g, kinds[k].role), w = add_value(g, kinds[k].role);
    add_task(g, 4, SL_NONE, SL_NONE, v);
    add_task(g, 4, v, SL_NONE, w);
    for (int i = 0; i < g->n_nodes; i++) g->node[i]->phase = kinds[k].phase;
    planned p = plan(g, 0, BYTES - 1);
    assert_true(p.r->most >= BYTES);
    assert_int_equal(sl_residence_too_large(p.r, g, BYTES - 1), SL_EINVAL);
    if (!strstr(sl_error(), kinds[k].says)) fail_msg("%s", sl_error());
    release(&p);
  }
}

/* ---- replay ---- */

typedef struct lies {
  char gpu, changed; /* changed: the host's copy is older */
  int host, device;  /* versions of the contents */
} lies;

static size_t resident(const lies *at, int buffers) {
  size_t bytes = 0;
  for (int b = 0; b < buffers; b++) bytes += at[b].gpu ? BYTES : 0;
  return bytes;
}

/* Whether the last two of eight steps were alike; peak, in and out are those of the last. */
static int replay(const planned *p, int cpus, size_t *peak, double *in, double *out) {
  const int buffers = p->m->n_slots + p->g->n_values;
  lies at[MOST] = {{0}}, before[MOST];
  int version[MOST] = {0}, next = 1, alike = 0;
  assert_true(buffers <= MOST);
  for (int step = 0; step < 8; step++) {
    memcpy(before, at, sizeof at);
    *in = *out = 0, *peak = 0;
    for (int k = -1, move = 0; k < p->s->n; k++) {
      const int i = k < 0 ? -1 : p->s->order[k];
      const sl_node *node = i < 0 ? NULL : p->g->node[i];
      const int here = i >= 0 && p->s->worker[i] == cpus;
      for (int j = 0; node && j < node->n_in + node->n_out; j++) {
        const sl_value v = j < node->n_in ? node->in[j] : node->out[j - node->n_in];
        const int b = p->m->slot[v] >= 0 ? p->m->slot[v] : p->m->n_slots + v;
        lies *a = &at[b];
        if (j < node->n_in) {
          if (here && !a->gpu) *in += BYTES, a->device = a->host, a->changed = 0;
          if (!here && a->gpu && a->changed) *out += BYTES, a->host = a->device, a->changed = 0;
          assert_int_equal(here ? a->device : a->host, version[b]); /* what was written last */
        } else {
          version[b] = next++;
          *(here ? &a->device : &a->host) = version[b];
          a->changed = (char)here;
        }
        a->gpu = (char)(here || (a->gpu && j < node->n_in));
      }
      if (resident(at, buffers) > *peak) *peak = resident(at, buffers);
      for (; move < p->r->n_moves && p->r->move[move].after == i; move++) {
        lies *a = &at[p->r->move[move].buffer];
        const sl_move_kind kind = p->r->move[move].kind;
        if (kind != SL_MOVE_FORGET && a->gpu && a->changed) *out += BYTES, a->host = a->device, a->changed = 0;
        if (kind == SL_MOVE_FORGET) a->host = -1;
        if (kind != SL_MOVE_WRITE_BACK) a->gpu = a->changed = 0;
      }
    }
    alike = 1;
    for (int b = 0; b < buffers; b++) alike &= at[b].gpu == before[b].gpu && at[b].changed == before[b].changed;
  }
  return alike;
}

static uint32_t draws = 1;
static int draw(int n) { return (int)((draws = draws * 1664525u + 1013904223u) >> 8) % n; }

static void random_plans(void **state) {
  (void)state;
  int planned_runs = 0, alike = 0, exact = 0;
  double worst = 0, moved = 0;
  for (int run = 0; run < 400; run++) {
    sl_graph *g = toy_graph(4);
    sl_value v[40];
    const int parameters = 1 + draw(6), tasks = 3 + draw(16), cpus = draw(3);
    int n = 0;
    for (; n < parameters; n++) v[n] = add_value(g, SL_ROLE_PARAMETER);
    for (int k = 0; k < tasks; k++) {
      const sl_value a = v[draw(n)], b = draw(2) ? v[draw(n)] : SL_NONE;
      const int updates = draw(3) == 0;
      sl_value out = updates ? v[draw(parameters)] : add_value(g, SL_ROLE_TEMPORARY);
      add_task(g, 1 + draw(40), updates ? out : a, b == a || (updates && b == out) ? SL_NONE : b, out);
      if (!updates) v[n++] = out;
    }
    const size_t bytes = (size_t)(3 + draw(5)) * BYTES;
    planned p = plan(g, cpus, bytes);
    assert_true(p.r->peak <= p.r->all);
    if (p.r->n_moves) {
      double in, out;
      size_t peak;
      planned_runs++;
      assert_true(p.r->peak <= bytes);
      if (replay(&p, cpus, &peak, &in, &out)) {
        alike++;
        assert_true(peak <= bytes);
        assert_true(in <= p.r->in && out <= p.r->out);
        exact += in == p.r->in && out == p.r->out;
        if (in < p.r->least_in - 1 || out < p.r->least_out - 1)
          fail_msg("run %d: %g in and %g out are below the bound, %g and %g", run, in, out, p.r->least_in,
                   p.r->least_out);
        const double least = p.r->least_in + p.r->least_out;
        moved += in + out, worst += least;
      }
    }
    release(&p);
  }
  print_message("# %d plans, %d of them alike each step, %d exact; bytes over the bound %.2f\n", planned_runs, alike,
                exact, worst > 0 ? moved / worst : 0.0);
  assert_true(planned_runs > 50);
  assert_true(alike == planned_runs);
  assert_true(exact >= 0.9 * alike);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_in_turn),     cmocka_unit_test(tasks_under_way),
      cmocka_unit_test(what_was_changed_stays), cmocka_unit_test(a_chain),
      cmocka_unit_test(what_fits_stays),        cmocka_unit_test(the_message_names_what_would_fit),
      cmocka_unit_test(random_plans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
