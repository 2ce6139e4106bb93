/* tools/train/checkpoints.c: a run ends well if its last checkpoint is on the disk, whatever became of earlier ones. */
#include "tools/train/checkpoints.h"

#include <sys/stat.h>

#include "runtime/base/file.h"
#include "runtime/files/checkpoint.h"
#include "tests/support/scratch.h"

/* The failure of an earlier checkpoint may be known only when the run ends. Then it must not be taken for that of the
 * last one: on several ranks some would write again, and wait for the others. */
static void ends_with_the_last_one(void **state) {
  const char *folder = scratch_path(*state, "checkpoints");
  const sl_shape shape = SL_SHAPE(1 << 22); /* written slowly enough that step 2 begins before step 1 has failed */
  sl_store *store;
  sl_tensor *t;
  sl__checkpoints *c;
  assert_ok(sl_store_create(&store));
  assert_ok(sl_store_add(store, "w", SL_F32, &shape, 1, &t));
  const sl__checkpoints_options options = {.folder = folder, .comm = MPI_COMM_NULL, .store = store, .keep = 2};
  assert_ok(sl__checkpoints_create(&options, &c));
  char *in_the_way = sl_checkpoint_path(folder, 1);
  assert_ok(sl_folder_make(in_the_way));
  scratch_write(scratch_path(*state, "checkpoints/step-00000001/file"), "x", 1);
  assert_ok(sl__checkpoints_save(c, 1, json_object()));
  assert_ok(sl__checkpoints_save(c, 2, json_object()));
  assert_ok(sl__checkpoints_finish(c));
  assert_int_equal(sl__checkpoints_written(c), 2);
  assert_ok(sl__checkpoints_save(c, 2, json_object())); /* is saved already */
  assert_ok(sl__checkpoints_finish(c));
  /* A last one that fails is a failure, and can be saved again. */
  free(in_the_way);
  in_the_way = sl_checkpoint_path(folder, 3);
  assert_ok(sl_folder_make(in_the_way));
  const char *file = scratch_path(*state, "checkpoints/step-00000003/file");
  scratch_write(file, "x", 1);
  assert_ok(sl__checkpoints_save(c, 3, json_object()));
  assert_fails(SL_EIO, "step-00000003", sl__checkpoints_finish(c));
  remove(file);
  assert_ok(sl__checkpoints_save(c, 3, json_object()));
  assert_ok(sl__checkpoints_finish(c));
  assert_int_equal(sl__checkpoints_written(c), 3);
  free(in_the_way);
  sl__checkpoints_destroy(c);
  sl_store_destroy(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(ends_with_the_last_one, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests_name("checkpoints", tests, NULL, NULL);
}
