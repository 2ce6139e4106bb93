/* runtime/machine/store.c: named tensors of zeros; owners; row blocks; memory shared by the ranks of a node. Starts
 * itself again under mpiexec. */
#include "runtime/machine/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/machine/comm.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

static void named_tensors(void **state) {
  (void)state;
  sl_store *store;
  sl_tensor *t;
  const sl_shape shape = SL_SHAPE(3, 5), scalar = SL_SHAPE();
  assert_ok(sl_store_create(&store));
  assert_null(sl_store_find(store, "w"));
  assert_ok(sl_store_add(store, "w", SL_F32, &shape, 1, &t));
  assert_int_equal((uintptr_t)t->data % 64, 0);
  for (int i = 0; i < 15; i++) assert_true(((float *)t->data)[i] == 0);
  assert_int_equal(t->parameter, 1);
  assert_int_equal(t->owner, -1);
  assert_fails(SL_EEXIST, "already has a tensor 'w'", sl_store_add(store, "w", SL_F64, &scalar, 0, &t));
  assert_null(t);
  for (int i = 0; i < 200; i++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    assert_ok(sl_store_add(store, name, SL_F64, &scalar, 0, &t));
    *(double *)t->data = i;
  }
  assert_int_equal(sl_store_count(store), 201);
  for (int i = 0; i < 200; i++) {
    t = sl_store_at(store, i + 1);
    assert_ptr_equal(sl_store_find(store, t->name), t);
    assert_true(*(double *)t->data == i);
  }
  assert_ok(sl_store_acquire(store, 1)); /* nothing is registered */
  sl_store_release(store);
  sl_store_destroy(store);
  sl_store_destroy(NULL);
}

static void owned_tensors(void **state) {
  (void)state;
  sl_store *store;
  sl_tensor *mine, *other;
  const sl_shape shape = SL_SHAPE(7);
  assert_ok(sl_store_create(&store));
  assert_ok(sl_store_add_owned(store, "mine", SL_F32, &shape, 0, 2, 1, 0, 2, &mine));
  assert_ok(sl_store_add_owned(store, "other", SL_F32, &shape, 1, 1, 1, 0, 2, &other));
  assert_non_null(mine->data);
  assert_null(other->data);
  assert_int_equal(mine->owner, 2);
  assert_int_equal(other->owner, 1);
  /* Ranks 0, 3 and 6 of three stages hold the tensors of the first. */
  assert_ok(sl_store_add_owned(store, "staged", SL_F32, &shape, 1, 0, 1, 3, 6, &mine));
  assert_non_null(mine->data);
  assert_ok(sl_store_add_owned(store, "elsewhere", SL_F32, &shape, 1, 1, 1, 3, 6, &other));
  assert_null(other->data);
  for (int r = 0; r < 9; r++) assert_int_equal(sl_tensor_is_on(mine, r), r % 3 == 0);
  /* Two stages of two ranks each that divide products: all of the second stage hold what is not divided. */
  assert_ok(sl_store_add_owned(store, "whole", SL_F32, &shape, 1, 2, 2, 4, 3, &mine));
  assert_non_null(mine->data);
  for (int r = 0; r < 12; r++) assert_int_equal(sl_tensor_is_on(mine, r), r % 4 >= 2);
  sl_store_destroy(store);
}

static sl_runtime *start(int mpi) {
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  o.mpi = mpi, o.gpus = 0, o.workers = 1;
  return sl_runtime_start(&o, &rt) == SL_OK ? rt : NULL;
}

/* In an uneven division, rows [rows b / blocks, rows (b + 1) / blocks) of block b are at the host's addresses. */
static void row_blocks(void **state) {
  (void)state;
  sl_runtime *rt = start(0);
  sl_store *store;
  sl_tensor *t, *scalar;
  const sl_shape shape = SL_SHAPE(7, 3), one = SL_SHAPE();
  assert_non_null(rt);
  assert_ok(sl_store_create(&store));
  assert_ok(sl_store_add(store, "w", SL_F32, &shape, 1, &t));
  assert_ok(sl_store_add(store, "loss", SL_F64, &one, 0, &scalar));
  assert_ok(sl_store_register(t, 3));
  assert_ok(sl_store_register(t, 3)); /* a second call changes nothing */
  assert_fails(SL_EINVAL, "'w' is registered in 3 row blocks and cannot be registered in 2", sl_store_register(t, 2));
  assert_ok(sl_store_register(scalar, 1));
  const int first[] = {0, 2, 4, 7};
  for (int b = 0; b < 3; b++) {
    assert_ptr_equal(starpu_vector_get_local_ptr(t->handle[b]), (uintptr_t)t->data + (size_t)first[b] * 12);
    assert_int_equal(starpu_vector_get_nx(t->handle[b]), (first[b + 1] - first[b]) * 3);
    assert_int_equal(starpu_vector_get_elemsize(t->handle[b]), 4);
  }
  assert_int_equal(starpu_vector_get_nx(scalar->handle[0]), 1);
  assert_int_equal(starpu_vector_get_elemsize(scalar->handle[0]), 8);
  for (int write = 0; write < 2; write++) {
    assert_ok(sl_store_acquire(store, write));
    sl_store_release(store);
  }
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

/* In place of StarPU's: the acquisition that counts down to 0 fails. */
static int failing, held;
int starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode) {
  if (failing > 0 && --failing == 0) return -ENOMEM;
  held++;
  return starpu_data_acquire_on_node(handle, STARPU_MAIN_RAM, mode);
}
void starpu_data_release(starpu_data_handle_t handle) {
  held--;
  starpu_data_release_on_node(handle, STARPU_MAIN_RAM);
}

static void a_failed_acquisition(void **state) {
  (void)state;
  sl_runtime *rt = start(0);
  sl_store *store;
  sl_tensor *t;
  const sl_shape shape = SL_SHAPE(7, 3);
  assert_non_null(rt);
  assert_ok(sl_store_create(&store));
  for (int i = 0; i < 2; i++) {
    assert_ok(sl_store_add(store, i ? "v" : "w", SL_F32, &shape, 1, &t));
    assert_ok(sl_store_register(t, 2));
  }
  for (int n = 1; n <= 4; n++) {
    failing = n;
    assert_fails(SL_ESTARPU, n <= 2 ? "tensor 'w' cannot" : "tensor 'v' cannot", sl_store_acquire(store, 1));
    assert_int_equal(held, 0);
  }
  assert_ok(sl_store_acquire(store, 1));
  assert_int_equal(held, 4);
  sl_store_release(store);
  assert_int_equal(held, 0);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

static void ranks_share(void) {
  sl_runtime *rt = start(1);
  RANK_CHECK(rt);
  const int rank = sl_runtime_rank(rt), ranks = sl_runtime_ranks(rt);
  const sl_shape shape = SL_SHAPE(5), other = SL_SHAPE(100);
  const size_t bytes = sl_store_common_bytes(SL_F32, &shape) + sl_store_common_bytes(SL_F64, &other);
  sl_store *store;
  sl_tensor *a, *b, *c;
  RANK_CHECK(sl_store_create(&store) == SL_OK);
  RANK_CHECK(sl_store_common_bytes(SL_F32, &shape) == 64 && sl_store_common_bytes(SL_F64, &other) == 832);
  RANK_CHECK(sl_store_add_common(store, "early", SL_F32, &shape, 1, &c) == SL_ENOMEM);
  RANK_CHECK(sl_store_reserve_common(store, rt, bytes) == SL_OK);
  RANK_CHECK(sl_store_reserve_common(store, rt, bytes) == SL_EEXIST);
  RANK_CHECK(!sl_store_has_common(store));
  RANK_CHECK(sl_store_add_common(store, "a", SL_F32, &shape, 1, &a) == SL_OK && a->common);
  RANK_CHECK(sl_store_add_common(store, "b", SL_F64, &other, 1, &b) == SL_OK && b->common);
  RANK_CHECK(sl_store_has_common(store));
  RANK_CHECK((uintptr_t)a->data % 64 == 0 && (uintptr_t)b->data % 64 == 0);
  RANK_CHECK(sl_store_add_common(store, "c", SL_F32, &shape, 1, &c) == SL_ENOMEM && strstr(sl_error(), "'c'"));
  for (int i = 0; i < 5; i++) RANK_CHECK(((float *)a->data)[i] == 0);
  for (int i = 0; i < 100; i++) RANK_CHECK(((double *)b->data)[i] == 0);
  MPI_Barrier(sl_runtime_comm(rt));
  ((double *)b->data)[rank] = 1 + rank;
  MPI_Barrier(sl_runtime_comm(rt));
  for (int r = 0; r < ranks; r++) RANK_CHECK(((double *)b->data)[r] == 1 + r);
  MPI_Barrier(sl_runtime_comm(rt));
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

static void common_memory(void **state) {
  (void)state;
  ranks_run(2, "share");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "share") == 0) {
    ranks_share();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(named_tensors),        cmocka_unit_test(owned_tensors), cmocka_unit_test(row_blocks),
      cmocka_unit_test(a_failed_acquisition), cmocka_unit_test(common_memory),
  };
  return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
