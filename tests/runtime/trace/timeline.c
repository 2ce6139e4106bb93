/* Timelines: round trips through a file, several ranks combined, broken files refused by name. */
#include "runtime/trace/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/files/safetensors.h"
#include "tests/support/scratch.h"

static sl_timeline *example(int rank, int ranks) {
  sl_timeline *t;
  sl_recorder *recorder;
  assert_ok(sl_timeline_create(2, 3, 2, &t));
  t->rank = rank;
  t->ranks = ranks;
  if (ranks == 4) t->pipe = t->tensor = t->chunks = 2, t->micro_batches = 8, t->pass_kinds = 3;
  t->model = sl_timeline_text(t, "mlp");
  t->sched = sl_timeline_text(t, "lws");
  t->n_kinds = 2;
  if (rank % 2 == 0) t->peak_gflops = 101.0 / 3, t->peak_gigabytes = 12.5; /* known or not */
  for (int i = 0; i < 3; i++) {
    char layer[16];
    snprintf(layer, sizeof layer, "fc%d", i);
    t->node[i] = (sl_timeline_node){.layer = sl_timeline_text(t, layer),
                                    .operation = sl_timeline_text(t, i ? "linear" : "input \"\xC3\xA4\""),
                                    .phase = sl_timeline_text(t, "forward"),
                                    .shapes = sl_timeline_text(t, "[2] -> [3]"),
                                    .kind = i > 0,
                                    .shard = i,
                                    .leaf = -1,
                                    .priority = -i,
                                    .flops = 1e9 / 3 * i,
                                    .bytes = 5};
  }
  t->from[2] = 1, t->from[3] = 2, t->before[0] = 0, t->before[1] = 1;
  assert_ok(sl_timeline_reserve_buffers(t, 2, 3));
  t->buffer[0] = (sl_timeline_buffer){INT64_C(5000000000), 1}, t->buffer[1] = (sl_timeline_buffer){16, 0};
  t->use[0] = (sl_timeline_use){0, 0}, t->use[1] = (sl_timeline_use){1, 0}, t->use[2] = (sl_timeline_use){1, 1};
  assert_ok(sl_timeline_reserve_transfers(t, 2));
  t->transfer[0] = (sl_timeline_transfer){2, 500, 900, INT64_C(6000000000), 0, 1, 1};
  t->transfer[1] = (sl_timeline_transfer){3, 600, 700, 16, 2, 0, -1};
  assert_ok(sl_timeline_reserve_flows(t, 2));
  t->flow[0] = (sl_timeline_flow){-1, 0, 4, INT64_C(6000000000)};
  t->flow[1] = (sl_timeline_flow){0, -1, 7, 16};
  t->link = 2.5e10;
  t->worker[0] = (sl_timeline_worker){sl_timeline_text(t, "CPU 0"), 0, 2, 700};
  t->worker[1] = (sl_timeline_worker){sl_timeline_text(t, "GPU 0"), 1, 1, 300};
  t->clock[0] = (sl_clock){0, 1000 * rank, 3};
  t->clock[1] = (sl_clock){1000000, 1000 * rank + 100, 4};
  t->n_clocks = 2;
  assert_ok(sl_recorder_create(8, &recorder));
  for (int i = 0; i < 11; i++) {
    const int64_t at = INT64_C(5000000000) + 1000 * i;
    sl_recorder_add(recorder, &(sl_record){.step = 1 + i / 3,
                                           .submit = at,
                                           .ready = at + 1,
                                           .taken = at + 2,
                                           .start = at + 3,
                                           .end = at + 500,
                                           .node = i % 3,
                                           .worker = (int16_t)(i % 2),
                                           .kind = SL_RECORD_TASK});
  }
  assert_ok(sl_timeline_take(t, recorder));
  sl_recorder_destroy(recorder);
  assert_int_equal(t->n_records, 8);
  assert_int_equal(t->lost, 3);
  return t;
}

static void same(const sl_timeline *a, const sl_timeline *b) {
  assert_string_equal(a->model, b->model);
  assert_string_equal(a->sched, b->sched);
  assert_true(a->rank == b->rank && a->ranks == b->ranks && a->n_workers == b->n_workers && a->n_nodes == b->n_nodes &&
              a->n_kinds == b->n_kinds && a->n_clocks == b->n_clocks && a->lost == b->lost &&
              a->n_records == b->n_records && a->peak_gflops == b->peak_gflops &&
              a->peak_gigabytes == b->peak_gigabytes);
  assert_true(a->pipe == b->pipe && a->tensor == b->tensor && a->micro_batches == b->micro_batches &&
              a->chunks == b->chunks && a->pass_kinds == b->pass_kinds);
  assert_int_equal(a->n_buffers, b->n_buffers);
  assert_int_equal(a->n_uses, b->n_uses);
  for (int i = 0; i < a->n_buffers; i++)
    assert_true(a->buffer[i].bytes == b->buffer[i].bytes && a->buffer[i].slot == b->buffer[i].slot);
  assert_true(a->link == b->link);
  assert_int_equal(a->n_flows, b->n_flows);
  for (int i = 0; i < a->n_flows; i++)
    assert_true(a->flow[i].from == b->flow[i].from && a->flow[i].to == b->flow[i].to &&
                a->flow[i].value == b->flow[i].value && a->flow[i].bytes == b->flow[i].bytes);
  assert_int_equal(a->n_transfers, b->n_transfers);
  for (int i = 0; i < a->n_transfers; i++) {
    const sl_timeline_transfer *x = &a->transfer[i], *y = &b->transfer[i];
    assert_true(x->step == y->step && x->start == y->start && x->end == y->end && x->bytes == y->bytes &&
                x->from == y->from && x->to == y->to);
  }
  if (a->n_uses) assert_memory_equal(a->use, b->use, (size_t)a->n_uses * sizeof *a->use);
  assert_memory_equal(a->record, b->record, a->n_records * sizeof *a->record);
  assert_memory_equal(a->clock, b->clock, sizeof a->clock);
  assert_memory_equal(a->from, b->from, ((size_t)a->n_nodes + 1) * sizeof *a->from);
  assert_memory_equal(a->before, b->before, (size_t)a->from[a->n_nodes] * sizeof *a->before);
  for (int i = 0; i < a->n_nodes; i++) {
    const sl_timeline_node *x = &a->node[i], *y = &b->node[i];
    assert_string_equal(x->layer, y->layer);
    assert_string_equal(x->operation, y->operation);
    assert_string_equal(x->phase, y->phase);
    assert_string_equal(x->shapes, y->shapes);
    assert_true(x->kind == y->kind && x->shard == y->shard && x->leaf == y->leaf && x->micro_batch == y->micro_batch &&
                x->priority == y->priority && x->flops == y->flops && x->bytes == y->bytes);
  }
  for (int w = 0; w < a->n_workers; w++) {
    assert_string_equal(a->worker[w].name, b->worker[w].name);
    assert_true(a->worker[w].gpu == b->worker[w].gpu && a->worker[w].tasks == b->worker[w].tasks &&
                a->worker[w].busy == b->worker[w].busy);
  }
}

static void through_a_file(void **state) {
  const char *path = scratch_path(*state, "one.safetensors");
  sl_timeline *t = example(0, 4), *back;
  assert_ok(sl_timeline_write(path, t));
  assert_ok(sl_timeline_read(path, &back));
  same(t, back);
  const char *more = sl_timeline_text(back, "another text");
  assert_string_equal(more, "another text");
  assert_ptr_equal(more, sl_timeline_text(back, "another text"));
  sl_timeline_destroy(back);
  sl_timeline_destroy(t);
  /* an empty timeline */
  assert_ok(sl_timeline_create(0, 0, 0, &t));
  assert_ok(sl_timeline_write(path, t));
  assert_ok(sl_timeline_read(path, &back));
  same(t, back);
  int64_t from, to, first;
  sl_timeline_window(back, &from, &to, &first);
  assert_true(from == 0 && to == 0);
  sl_timeline_destroy(back);
  sl_timeline_destroy(t);
}

static void several_ranks(void **state) {
  char name[SL_TIMELINE_NAME];
  sl_timeline **all;
  int n;
  assert_fails(SL_ENOTFOUND, "there is no timeline", sl_timeline_read_all(*state, &all, &n));
  for (int rank = 2; rank >= 0; rank--) {
    sl_timeline *t = example(rank, rank == 2 ? 3 : 2); /* the third is an earlier run's */
    assert_ok(sl_timeline_write(scratch_path(*state, sl_timeline_name(rank, name)), t));
    sl_timeline_destroy(t);
  }
  scratch_write(scratch_path(*state, "timeline-01.safetensors"), "", 0); /* not a timeline's name */
  assert_ok(sl_timeline_read_all(*state, &all, &n));
  assert_int_equal(n, 2);
  sl_timeline *plain = example(1, 2);
  for (size_t i = 0; i < plain->n_records; i++) {
    /* rank 1's clock is 1000 behind and loses 100 more every ms */
    const sl_record *r = &plain->record[i], *moved = &all[1]->record[i];
    assert_true(moved->start == r->start + 1000 + (int64_t)((double)r->start / 1000000 * 100));
    assert_true(moved->end - moved->start == r->end - r->start || moved->end - moved->start == r->end - r->start + 1);
  }
  assert_int_equal(all[0]->record[0].start,
                   plain->record[0].start + (int64_t)((double)plain->record[0].start / 1000000 * 100));
  sl_timeline_destroy(plain);
  for (int i = 0; i < n; i++) sl_timeline_destroy(all[i]);
  free(all);
  assert_true(sl_timeline_is_name("timeline-12.safetensors"));
  assert_false(sl_timeline_is_name("timeline-.safetensors") || sl_timeline_is_name("timeline-1") ||
               sl_timeline_is_name("timeline--1.safetensors"));
}

static void whole_steps(void **state) {
  (void)state;
  sl_timeline *t = example(0, 1);
  int64_t from, to, first;
  sl_timeline_window(t, &from, &to, &first); /* records 3 to 10 are kept: step 2 may be incomplete */
  assert_int_equal(first, 3);
  assert_int_equal(from, INT64_C(5000000000) + 6000);
  assert_int_equal(to, INT64_C(5000000000) + 10500);
  t->lost = 0;
  sl_timeline_window(t, &from, &to, &first);
  assert_int_equal(first, 2);
  sl_timeline_destroy(t);
}

static void refuse(const char *path, const sl_timeline *t, const char *words) {
  sl_timeline *back;
  assert_ok(sl_timeline_write(path, t));
  assert_fails(SL_EFORMAT, words, sl_timeline_read(path, &back));
  assert_null(back);
}

/* Numbers that would overflow in bounds, causes of idle time and exporters. */
static void numbers_out_of_range(const char *path) {
  sl_timeline *t = example(0, 1), *back;
  const char *const graph = "its graph is not valid", *const fact = "is out of range";
  t->n_kinds = 715827884; /* times three kinds of workers: beyond int */
  refuse(path, t, graph);
  t->n_kinds = 4; /* of three nodes */
  refuse(path, t, graph);
  t->n_kinds = 2, t->pipe = t->chunks = 1, t->tensor = 2, t->micro_batches = 1; /* two ranks of one */
  refuse(path, t, fact);
  t->tensor = 0;
  refuse(path, t, fact);
  t->tensor = 1, t->pass_kinds = 4;
  refuse(path, t, fact);
  t->pipe = t->tensor = t->micro_batches = t->chunks = t->pass_kinds = 0, t->node[1].flops = INFINITY;
  refuse(path, t, graph);
  t->node[1].flops = 1, t->buffer[0].bytes = t->buffer[1].bytes = INT64_C(3) << 57;
  refuse(path, t, graph);
  t->buffer[1].bytes = 1, t->flow[1].from = 3; /* of three nodes */
  refuse(path, t, graph);
  t->flow[1].from = 0, t->flow[1].to = -2;
  refuse(path, t, graph);
  t->flow[1].to = -1, t->transfer[1].node = 3;
  refuse(path, t, fact);
  t->transfer[1].node = -1;
  assert_ok(sl_timeline_write(path, t));
  assert_ok(sl_timeline_read(path, &back));
  sl_timeline_destroy(back);
  int64_t *const numbers[] = {&t->record[3].end,  &t->record[3].step,  &t->record[3].submit,
                              &t->clock[1].local, &t->clock[1].offset, &t->worker[1].busy};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const int64_t right = *numbers[i];
    *numbers[i] = i % 2 ? INT64_MIN : INT64_MAX;
    refuse(path, t, fact);
    *numbers[i] = right;
  }
  sl_timeline_destroy(t);
}

static void broken_files(void **state) {
  const char *path = scratch_path(*state, "broken.safetensors");
  sl_timeline *t = example(0, 1), *back;
  t->before[0] = 1; /* node 1 waits for itself */
  assert_ok(sl_timeline_write(path, t));
  assert_fails(SL_EFORMAT, "broken.safetensors: its graph is not valid", sl_timeline_read(path, &back));
  t->before[0] = 0;
  t->node[2].kind = 7;
  assert_ok(sl_timeline_write(path, t));
  assert_fails(SL_EFORMAT, "its graph is not valid", sl_timeline_read(path, &back));
  sl_timeline_destroy(t);
  numbers_out_of_range(path);
  const float x[] = {1};
  const sl_named_array array = {"x", SL_F32, SL_SHAPE(1), x};
  const char *const wrong[][2] = {{"format", "starling-1"}}, *const right[][2] = {{"format", "starling-timeline-1"}};
  assert_ok(sl_safetensors_write(path, &array, 1, wrong, 1));
  assert_fails(SL_EFORMAT, "is not a timeline", sl_timeline_read(path, &back));
  assert_ok(sl_safetensors_write(path, &array, 1, right, 1));
  assert_fails(SL_EFORMAT, "'worker.name' is missing", sl_timeline_read(path, &back));
  assert_fails(SL_ENOTFOUND, "none.safetensors", sl_timeline_read(scratch_path(*state, "none.safetensors"), &back));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(through_a_file, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(several_ranks, scratch_setup, scratch_teardown),
                                     cmocka_unit_test(whole_steps),
                                     cmocka_unit_test_setup_teardown(broken_files, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests_name("runtime/timeline", tests, NULL, NULL);
}
