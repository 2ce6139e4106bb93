/* runtime/simulated/interconnect.c: times of exchanges against sums made by hand. */
#include "runtime/simulated/simulation.h"
#include "tests/support/scratch.h"

static const double MB = 1e6;

static double seconds(int ranks, int nodes, sl_exchange_kind kind, int rank, double bytes) {
  const sl_interconnect j = {.ranks = ranks,
                             .nodes = nodes,
                             .shared = 1e10,
                             .shared_latency = 1e-6,
                             .latency = 1e-3,
                             .network = 1e9,
                             .congestion = 1};
  return sl_interconnect_seconds(&j, &(sl_exchange_move){.kind = kind, .rank = rank}, bytes);
}

static void near(double a, double b) { assert_near(a, b, 1e-9 * b); }

/* Two ranks of a node: each reads and writes half of every value. */
static void in_a_node(void **state) {
  (void)state;
  near(seconds(2, 1, SL_EXCHANGE_SUM, SL_EXCHANGE_ALL, 10 * MB), 1e-6 + 1e-3);
  near(seconds(4, 1, SL_EXCHANGE_SUM, SL_EXCHANGE_ALL, 10 * MB), 1e-6 + 1.5e-3);
  near(seconds(2, 1, SL_EXCHANGE_COPY, 0, 10 * MB), 1e-6 + 1e-3);
}

/* Reduce-scatter and allgather send (n - 1) / n of the bytes each; a message costs a microsecond beside. */
static void between_nodes(void **state) {
  (void)state;
  near(seconds(2, 2, SL_EXCHANGE_SUM, SL_EXCHANGE_ALL, 10 * MB), 2 * (1e-3 + 1e-6 + 5e-3));
  near(seconds(4, 4, SL_EXCHANGE_SUM, SL_EXCHANGE_ALL, 10 * MB), 2 * (1e-3 + 3e-6 + 7.5e-3));
  near(seconds(4, 4, SL_EXCHANGE_SUM, SL_EXCHANGE_PARTS, 10 * MB), 1e-3 + 3e-6 + 7.5e-3);
  /* from or to one node: relayed, but for two nodes and short ones */
  near(seconds(4, 4, SL_EXCHANGE_SUM, 2, 10 * MB), 2 * (1e-3 + 3e-6 + 7.5e-3));
  near(seconds(4, 4, SL_EXCHANGE_COPY, 2, 10 * MB), 2 * (1e-3 + 3e-6 + 7.5e-3));
  near(seconds(4, 4, SL_EXCHANGE_COPY, 2, 10000), 1e-3 + 3e-6 + 30e-6);
  near(seconds(2, 2, SL_EXCHANGE_SUM, 1, 10 * MB), 1e-3 + 1e-6 + 10e-3);
  near(seconds(4, 4, SL_EXCHANGE_GATHER, SL_EXCHANGE_ALL, 10 * MB), 1e-3 + 3e-6 + 7.5e-3);
  near(seconds(2, 2, SL_EXCHANGE_SEND, 1, 10 * MB), 1e-3 + 1e-6 + 10e-3);
}

/* Both stages, one after the other. */
static void nodes_of_several_ranks(void **state) {
  (void)state;
  near(seconds(4, 2, SL_EXCHANGE_SUM, SL_EXCHANGE_ALL, 10 * MB), 1e-6 + 1e-3 + 2 * (1e-3 + 1e-6 + 5e-3));
}

static void congested(void **state) {
  (void)state;
  const sl_interconnect j = {.ranks = 2, .nodes = 2, .latency = 1e-3, .network = 1e9, .congestion = 3};
  const sl_exchange_move sum = {.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_ALL};
  near(sl_interconnect_seconds(&j, &sum, 10 * MB), 2 * (1e-3 + 1e-6 + 15e-3));
}

/* Each rank's part of the work: of a sum by two ranks all of it; between nodes by the bytes that a node sends, which
 * its ranks share. */
static void work_of_exchanges(void **state) {
  (void)state;
  const sl_exchange_move sum = {.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_ALL},
                         parts = {.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_PARTS},
                         copied = {.kind = SL_EXCHANGE_COPY, .rank = 0}, sent = {.kind = SL_EXCHANGE_SEND, .rank = 1};
  sl_interconnect j = {.ranks = 2, .nodes = 1, .work = 1e-10, .network_work = 1e-9};
  near(sl_interconnect_work(&j, &sum, 10 * MB), 1e-3);
  near(sl_interconnect_work(&j, &copied, 10 * MB), 1e-3);
  near(sl_interconnect_work(&j, &sent, 10 * MB), 1e-3);
  j.ranks = 4;
  near(sl_interconnect_work(&j, &sum, 10 * MB), 1.5e-3);
  j.nodes = 2;
  near(sl_interconnect_work(&j, &sum, 10 * MB), 1e-3 + 5e-3);
  near(sl_interconnect_work(&j, &parts, 10 * MB), 1e-3 + 2.5e-3);
  j.ranks = 2;
  near(sl_interconnect_work(&j, &sum, 10 * MB), 10e-3);
  near(sl_interconnect_work(&j, &sent, 10 * MB), 10e-3);
  j.ranks = j.nodes = 1;
  assert_near(sl_interconnect_work(&j, &sum, 10 * MB), 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_node), cmocka_unit_test(between_nodes),
                                     cmocka_unit_test(nodes_of_several_ranks), cmocka_unit_test(congested),
                                     cmocka_unit_test(work_of_exchanges)};
  return cmocka_run_group_tests_name("interconnect", tests, NULL, NULL);
}
