/* The tasks that copies were made for: by data, memory, step and time. */
#include "tasks/starpu/copies.h"

#include "tests/support/scratch.h"

static const char data[3]; /* a, b and c, in the order of their addresses */
#define A &data[0]
#define B &data[1]
#define C &data[2]

static void find(void **state) {
  (void)state;
  /* Worker 0 is a CPU, worker 1 a GPU, whose memory is 1. Node 0 reads a; node 1 reads a and b; node 2 reads b; node 3,
   * an exchange, reads a. Node 4 reads c, which may be there since the step before. */
  static const sl__read read[] = {{.data = B, .node = 2}, {.data = A, .node = 1}, {.data = B, .node = 1},
                                  {.data = A, .node = 0}, {.data = A, .node = 3}, {.data = C, .node = 4, .ahead = 1}};
  static const int memory[] = {0, 1};
  static const sl_record record[] = {
      {.step = 2, .start = 90, .end = 120, .node = 0, .worker = 1, .kind = SL_RECORD_TASK},
      {.step = 3, .start = 210, .end = 220, .node = 4, .worker = 1, .kind = SL_RECORD_TASK},
      {.step = 1, .start = 10, .end = 20, .node = 0, .worker = 1, .kind = SL_RECORD_TASK},
      {.step = 1, .start = 30, .end = 40, .node = 1, .worker = 1, .kind = SL_RECORD_TASK},
      {.step = 1, .start = 35, .end = 45, .node = 2, .worker = 0, .kind = SL_RECORD_TASK},
      {.step = 1, .start = 50, .end = 60, .node = 3, .worker = 1, .kind = SL_RECORD_EXCHANGE},
      {.step = 1, .start = 0, .end = 100, .node = -1, .worker = 0, .kind = SL_RECORD_INPUT}};
  static const sl_copy_record copy[] = {
      {.step = 1, .asked = 5, .data = A, .from = 0, .to = 1},  /* node 0 */
      {.step = 1, .asked = 12, .data = B, .from = 0, .to = 1}, /* node 1, on the GPU; node 2 has a memory of its own */
      {.step = 1, .asked = 20, .data = A, .from = 0, .to = 1}, /* node 0 has ended: node 1 */
      {.step = 1, .asked = 41, .data = A, .from = 1, .to = 0}, /* the exchange, in host memory */
      {.step = 1,
       .asked = 41,
       .data = A,
       .from = 0,
       .to = 1}, /* node 0 of the next step, which has copies of its own */
      {.step = 2, .asked = 80, .data = A, .from = 0, .to = 1},  /* node 0 */
      {.step = 1, .asked = 30, .data = B, .from = 1, .to = 0},  /* node 2 */
      {.step = 1, .asked = 50, .data = B, .from = 1, .to = 0},  /* nobody reads it any more */
      {.step = 3, .asked = 205, .data = C, .from = 0, .to = 1}, /* node 4 */
      {.step = 2, .asked = 100, .data = C, .from = 0, .to = 1}, /* node 4 of the next step */
      {.step = 1, .asked = 50, .data = C, .from = 0, .to = 1},  /* two steps before */
      {.step = 3, .asked = 230, .data = C, .from = 0, .to = 1}, /* for a step that has not run */
      {.step = 3, .asked = 50, .data = B, .from = 0, .to = 1},  /* nobody: what follows reads c */
      {.step = 1, .asked = 5, .data = NULL, .from = 1, .to = 0}};
  static const int32_t wanted[] = {0, 1, 1, 3, -1, 0, 2, -1, 4, 4, -1, -1, -1, -1};
  enum { N = sizeof copy / sizeof *copy };
  int32_t node[N];
  assert_ok(
      sl__copies_find(record, sizeof record / sizeof *record, read, sizeof read / sizeof *read, memory, copy, N, node));
  for (int i = 0; i < N; i++)
    if (node[i] != wanted[i]) fail_msg("copy %d was for node %d, not %d", i, node[i], wanted[i]);
  assert_ok(sl__copies_find(NULL, 0, NULL, 0, memory, copy, N, node));
  for (int i = 0; i < N; i++) assert_int_equal(node[i], -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(find)};
  return cmocka_run_group_tests_name("starpu/copies", tests, NULL, NULL);
}
