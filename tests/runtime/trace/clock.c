/* Clock offsets: estimated from synthetic ping-pongs with known delays, mapped along a drift, and over MPI with itself.
 */
#include "runtime/trace/ping.h"
#include "tests/support/scratch.h"

static void the_quickest_ping_counts(void **state) {
  (void)state;
  /* Rank 0 is 5000 ahead. Ways there and back: 900 and 100; 60 and 40; 300 and 300. */
  const int64_t ways[][2] = {{900, 100}, {60, 40}, {300, 300}};
  sl_ping pings[3];
  for (int i = 0; i < 3; i++) {
    const int64_t sent = 1000000 * (i + 1);
    pings[i] = (sl_ping){sent, sent + ways[i][0] + 5000, sent + ways[i][0] + ways[i][1]};
  }
  const sl_clock c = sl_clock_estimate(pings, 3);
  assert_int_equal(c.local, 2000050);
  assert_int_equal(c.offset, 5010); /* off by half the difference of the two delays */
  assert_int_equal(c.error, 50);
}

/* Whatever the delays, the true offset is within the error. */
static void the_error_holds(void **state) {
  (void)state;
  unsigned x = 1;
  for (int round = 0; round < 1000; round++) {
    sl_ping pings[8];
    const int64_t offset = (int64_t)round * 1234567 - 600000000;
    int64_t now = 77;
    for (int i = 0; i < 8; i++) {
      x = x * 1664525 + 1013904223;
      const int64_t there = x >> 20, back = x >> 8 & 4095;
      pings[i] = (sl_ping){now, now + there + offset, now + there + back};
      now += 10000;
    }
    const sl_clock c = sl_clock_estimate(pings, 8);
    assert_true(c.offset - offset <= c.error && offset - c.offset <= c.error);
  }
}

static void mapping(void **state) {
  (void)state;
  /* 100 ns an hour, say: from +1000 to +1100 */
  const int64_t hour = 3600000000000;
  const sl_clock c[] = {{hour, 1000, 0}, {2 * hour, 1100, 0}};
  assert_int_equal(sl_clock_map(NULL, 0, 42), 42);
  assert_int_equal(sl_clock_map(c, 1, hour + 7), hour + 1007);
  assert_int_equal(sl_clock_map(c, 2, hour), hour + 1000);
  assert_int_equal(sl_clock_map(c, 2, hour + hour / 2), hour + hour / 2 + 1050);
  assert_int_equal(sl_clock_map(c, 2, 3 * hour), 3 * hour + 1200);
  const sl_clock once[] = {{hour, 1000, 0}, {hour, 1000, 0}};
  assert_int_equal(sl_clock_map(once, 2, 5), 1005);
}

/* Ranks of one machine share a clock, so the estimate itself is the error. An MPI launcher can start several ranks. */
static void over_mpi(void **state) {
  (void)state;
  sl_clock c;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 5; i++) {
    assert_ok(sl_clock_offset(MPI_COMM_WORLD, &c));
    assert_true(c.offset <= c.error && -c.offset <= c.error);
    assert_true(rank > 0 || c.error == 0);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_quickest_ping_counts), cmocka_unit_test(the_error_holds),
                                     cmocka_unit_test(mapping), cmocka_unit_test(over_mpi)};
  MPI_Init(&argc, &argv);
  const int failed = cmocka_run_group_tests_name("runtime/clock", tests, NULL, NULL);
  MPI_Finalize();
  return failed;
}
