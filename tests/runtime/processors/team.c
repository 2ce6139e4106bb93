/* Teams: each tile runs once and gives the same bits, whatever the number of threads; threads stay bound to their cores
 * and have their own scratch memory. */
#include "runtime/processors/team.h"

#include <cblas.h>
#include <hwloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

#ifdef __has_feature /* clang's way to say it */
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED
#endif

enum { TILES = 1000 };
typedef struct visit {
  const sl_team *team;
  atomic_int count[TILES];
  atomic_int wrong;
} visit;

static void visit_tile(void *arg, int64_t tile, int thread) {
  visit *v = arg;
  atomic_fetch_add(&v->count[tile], 1);
  if (thread < 0 || thread >= v->team->threads) atomic_fetch_add(&v->wrong, 1);
}

static void every_tile_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    sl_team *team;
    assert_ok(sl_team_create(NULL, threads, NULL, &team));
    visit *v = calloc(1, sizeof *v);
    v->team = team;
    sl_team_for(team, 0, visit_tile, v);
    sl_team_for(team, 1, visit_tile, v);
    sl_team_for(team, TILES, visit_tile, v);
    assert_int_equal(v->wrong, 0);
    for (int i = 0; i < TILES; i++) assert_int_equal(v->count[i], i == 0 ? 2 : 1);
    free(v);
    sl_team_destroy(team);
  }
}

/* C = A B by tiles of rows: the plan's tiles, not the threads, decide the bits. */
enum { M = 192, N = 96, K = 80, TILE = 48 };
typedef struct product {
  const float *a, *b;
  float *c;
} product;

static void product_tile(void *arg, int64_t tile, int thread) {
  (void)thread;
  const product *p = arg;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, TILE, N, K, 1, p->a + tile * TILE * K, K, p->b, N, 0,
              p->c + tile * TILE * N, N);
}

static void same_bits(void **state) {
  (void)state;
  float *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b), *c[2];
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 101) / 37;
  for (int i = 0; i < K * N; i++) b[i] = (float)(i % 97) / 41 - 1;
  for (int threads = 1; threads <= 2; threads++) {
    sl_team *team;
    c[threads - 1] = calloc(M * N, sizeof **c);
    assert_ok(sl_team_create(NULL, threads, NULL, &team));
    assert_ok(sl_team_start(team));
    sl_team_for(team, M / TILE, product_tile, &(product){a, b, c[threads - 1]});
    sl_team_destroy(team);
  }
  assert_true(c[0][M * N - 1] != 0);
  assert_memory_equal(c[0], c[1], M * N * sizeof **c);
  free(a), free(b), free(c[0]), free(c[1]);
}

/* The checks below bind threads, so they run on a thread of their own and leave the test's thread unbound. */
typedef struct bound_check {
  hwloc_topology_t topology;
  int threads;
  unsigned pu[8];
  int started, bound, current, blas_threads;
  atomic_int elsewhere;
} bound_check;

static void check_place(void *arg, int64_t tile, int thread) {
  bound_check *b = arg;
  (void)tile;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  hwloc_get_cpubind(b->topology, set, HWLOC_CPUBIND_THREAD);
  if (hwloc_bitmap_weight(set) != 1 || !hwloc_bitmap_isset(set, b->pu[thread])) atomic_fetch_add(&b->elsewhere, 1);
  hwloc_bitmap_free(set);
}

static void *lead(void *arg) {
  bound_check *b = arg;
  sl_team *team;
  if (sl_team_create(b->topology, b->threads, b->pu, &team) != SL_OK) return NULL;
  b->started = sl_team_start(team) == SL_OK;
  b->bound = team->bound;
  b->current = sl_team_current() == team;
  b->blas_threads = openblas_get_num_threads();
  for (int round = 0; round < 20; round++) sl_team_for(team, 16, check_place, b);
  sl_team_destroy(team);
  b->current += sl_team_current() != team;
  return NULL;
}

static void bound_and_staying(void **state) {
  (void)state;
  bound_check b = {0};
  assert_int_equal(hwloc_topology_init(&b.topology), 0);
  assert_int_equal(hwloc_topology_load(b.topology), 0);
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(b.topology, allowed, HWLOC_CPUBIND_THREAD) != 0) skip();
  const int pus = hwloc_bitmap_weight(allowed);
  for (b.threads = 1; b.threads <= 4; b.threads++) {
    int pu = hwloc_bitmap_first(allowed);
    for (int i = 0; i < b.threads; i++) { /* wrapping around if there are fewer */
      b.pu[i] = (unsigned)pu;
      if ((i + 1) % pus == 0)
        pu = hwloc_bitmap_first(allowed);
      else
        pu = hwloc_bitmap_next(allowed, pu);
    }
    pthread_t leader;
    b.current = 0;
    assert_int_equal(pthread_create(&leader, NULL, lead, &b), 0);
    pthread_join(leader, NULL);
    assert_true(b.started && b.bound);
    assert_int_equal(b.current, 2);
    assert_int_equal(b.blas_threads, 1);
    assert_int_equal(b.elsewhere, 0);
  }
  hwloc_bitmap_free(allowed);
  hwloc_topology_destroy(b.topology);
}

static void scratch_each(void **state) {
  (void)state;
  sl_team *team;
  assert_ok(sl_team_create(NULL, 3, NULL, &team));
  assert_ok(sl_team_reserve(team, 1000));
  void *first = team->scratch[0];
  assert_ok(sl_team_reserve(team, 10)); /* enough already: stays */
  assert_ptr_equal(team->scratch[0], first);
  assert_ok(sl_team_reserve(team, 100000));
  assert_true(team->scratch_bytes >= 100000);
  for (int i = 0; i < 3; i++) {
    assert_int_equal((uintptr_t)team->scratch[i] % 64, 0);
    memset(team->scratch[i], i + 1, team->scratch_bytes);
  }
  for (int i = 0; i < 3; i++) assert_int_equal(((unsigned char *)team->scratch[i])[team->scratch_bytes - 1], i + 1);
#ifndef SANITIZED /* which ends the program at such a size */
  assert_fails(SL_ENOMEM, "scratch", sl_team_reserve(team, SIZE_MAX / 4));
  assert_int_equal(team->scratch_bytes, 0);
  assert_ok(sl_team_reserve(team, 64)); /* a failure leaves the team usable */
#endif
  sl_team_destroy(team);
  sl_team_destroy(NULL);
}

static void alone(void **state) {
  (void)state;
  sl_team *team = sl_team_current();
  assert_int_equal(team->threads, 1);
  assert_ok(sl_team_reserve(team, 128));
  assert_non_null(team->scratch[0]);
  assert_ptr_equal(sl_team_current(), team);
}

static void senseless(void **state) {
  (void)state;
  sl_team *team;
  assert_fails(SL_EINVAL, "a team of 0", sl_team_create(NULL, 0, NULL, &team));
  assert_null(team);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tile_once), cmocka_unit_test(same_bits), cmocka_unit_test(bound_and_staying),
      cmocka_unit_test(scratch_each),    cmocka_unit_test(alone),     cmocka_unit_test(senseless)};
  return cmocka_run_group_tests_name("runtime/team", tests, NULL, NULL);
}
