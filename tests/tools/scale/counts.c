/* tools/scale/counts.c: lists of counts, and the batch, leaves and shards of each. */
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tools/scale/parts.h"

static void lists(void **state) {
  (void)state;
  int counts[SL__SCALE_COUNTS], n;
  assert_int_equal(sl__scale_list("--nodes", "1,2,16", 65536, counts, &n), SL_OK);
  assert_int_equal(n, 3);
  assert_int_equal(counts[2], 16);
  static const char *const wrong[][2] = {{"0", "'0' must be a whole number from 1 to 100"},
                                         {"1,,2", "'' must be a whole number"},
                                         {"", "'' must be a whole number"},
                                         {"1,2,", "'' must be a whole number"},
                                         {"1,2x", "'2x' must be"},
                                         {"-1", "'-1' must be"},
                                         {"101", "'101' must be"},
                                         {"99999999999999999999", "must be"},
                                         {"2,1", "1 after 2: the numbers must ascend"},
                                         {"2,2", "2 after 2: the numbers must ascend"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(sl__scale_list("--nodes", wrong[i][0], 100, counts, &n), SL_EINVAL);
    if (!strstr(sl_error(), wrong[i][1])) fail_msg("'%s' does not say '%s'", sl_error(), wrong[i][1]);
  }
}

typedef struct plan {
  sl__options o;
  sl_model model;
  sl__scaling s;
} plan;

static sl_status points_of_mesh(plan *p, const char *nodes, const char *mesh, int64_t batch) {
  *p = (plan){.o = {.node_list = (char *)nodes,
                    .mesh = (char *)mesh,
                    .ranks_per_node = 1,
                    .batch = batch,
                    .leaves = -1,
                    .micro_batches = -1,
                    .shards = -1}};
  p->s = (sl__scaling){.o = &p->o, .model = &p->model, .simulated = 1};
  return sl__scale_points(&p->s);
}

static sl_status points(plan *p, const char *nodes, int64_t batch, int64_t leaves, int weak) {
  *p = (plan){.o = {.node_list = (char *)nodes,
                    .ranks_per_node = 1,
                    .batch = batch,
                    .leaves = leaves,
                    .micro_batches = -1,
                    .shards = -1,
                    .weak = weak}};
  p->s = (sl__scaling){.o = &p->o, .model = &p->model, .simulated = 1};
  return sl__scale_points(&p->s);
}

/* One plan for all counts: a leaf for each rank of the largest, and as many for each rank of a smaller one. */
static void strong(void **state) {
  (void)state;
  plan p;
  assert_int_equal(points(&p, "1,2,3,4", 64, -1, 0), SL_OK);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(p.s.is.point[i].batch, 64);
    assert_int_equal(p.s.is.point[i].leaves, 12);
  }
  free(p.s.is.point);
  assert_int_equal(points(&p, "1,2,3,4", 8, -1, 0), SL_OK); /* no sample for 12 leaves */
  assert_int_equal(p.s.is.point[0].leaves, 4);
  free(p.s.is.point);
  assert_int_equal(points(&p, "1,2,3,4", 64, 8, 0), SL_OK);
  assert_int_equal(p.s.is.point[0].leaves, 8);
  free(p.s.is.point);
  assert_int_equal(points(&p, "1,16", 8, -1, 0), SL_EINVAL);
  assert_non_null(strstr(sl_error(), "a batch of 8 has no sample for each of 16 leaves"));
  free(p.s.is.point);
}

static void weak(void **state) {
  (void)state;
  plan p;
  assert_int_equal(points(&p, "2,4,6", 32, -1, 1), SL_OK);
  assert_int_equal(p.s.is.point[0].batch, 32);
  assert_int_equal(p.s.is.point[0].leaves, 2);
  assert_int_equal(p.s.is.point[2].batch, 96);
  assert_int_equal(p.s.is.point[2].leaves, 6);
  free(p.s.is.point);
  assert_int_equal(points(&p, "2,3", 33, -1, 1), SL_EINVAL);
  assert_non_null(strstr(sl_error(), "--batch 33 for 2 does not grow to a whole number for 3: give a multiple of 2"));
  free(p.s.is.point);
}

/* Ranks that share samples share leaves: four micro-batches for each of two stages, on 1, 2 and 4 data ranks. */
static void meshes(void **state) {
  (void)state;
  plan p;
  assert_int_equal(points_of_mesh(&p, "2,4,8", "pipe=2", 64), SL_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(p.s.is.point[i].data, 1 << i);
    assert_int_equal(p.s.is.point[i].leaves, 32);
  }
  free(p.s.is.point);
  assert_int_equal(points_of_mesh(&p, "2,4,8", "pipe=2", 8),
                   SL_OK); /* no sample for 32 leaves: two for each data rank */
  assert_int_equal(p.s.is.point[0].leaves, 8);
  free(p.s.is.point);
  assert_int_equal(points_of_mesh(&p, "2,3", "pipe=2", 64), SL_EINVAL);
  assert_non_null(strstr(sl_error(), "this job has 3"));
  free(p.s.is.point);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lists), cmocka_unit_test(strong), cmocka_unit_test(weak),
                                     cmocka_unit_test(meshes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
