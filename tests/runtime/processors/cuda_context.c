/* The context that CUDA kernels share, and where they differ from CPU kernels. (tests/codelets/operations.c checks that
 * each operation has both and that they compute the same.) */
#include <math.h>

#include "codelets/attributes.h"
#include "codelets/codelets.h"
#include "tests/codelets/cuda.h"
#include "tests/support/scratch.h"

#ifdef SL_HAVE_CUDA
#include "runtime/processors/cuda_context.h"

static void without_gpu(void **state) {
  (void)state;
  if (sl_cuda_devices() > 0) skip();
  sl_status status = SL_OK;
  assert_null(sl_cuda_create(NULL, 64, &status));
  assert_int_equal(status, SL_EUNSUPPORTED);
  assert_non_null(strstr(sl_error(), "GPU"));
  sl_cuda_destroy(NULL);
}

static void begins_and_ends(void **state) {
  (void)state;
  if (sl_cuda_devices() == 0) skip();
  for (int i = 0; i < 2; i++) {
    sl_status status = SL_EINVAL;
    sl_cuda *cuda = sl_cuda_create(NULL, i ? 1 << 20 : 0, &status);
    assert_ok(status);
    assert_non_null(cuda);
    sl_cuda_destroy(cuda);
  }
}

/* A call on arrays of one part each. */
static void call_of(sl_call *c, sl_array *arrays, int n_in, int n_out) {
  for (int i = 0; i < n_in + n_out; i++) {
    arrays[i].parts = 1;
    arrays[i].part = &arrays[i];
  }
  *c = (sl_call){.n_in = n_in,
                 .n_out = n_out,
                 .in = arrays,
                 .out = arrays + n_in,
                 .rows = 2,
                 .leaf_rows = 2,
                 .batch_rows = 2,
                 .tiles = SL_TILES_DEFAULT};
}

/* A kernel must not use more scratch memory than the call offers. */
static void too_little_scratch(void **state) {
  (void)state;
  if (sl_cuda_devices() == 0) skip();
  int32_t target[2] = {0, 1};
  double count = 7;
  sl_array arrays[2] = {{.data = target, .shape = SL_SHAPE(2), .dtype = SL_I32},
                        {.data = &count, .shape = SL_SHAPE(1), .dtype = SL_F64}};
  sl_call call;
  call_of(&call, arrays, 1, 1);
  sl_status status;
  sl_cuda *cuda = sl_cuda_create(NULL, 8, &status);
  assert_ok(status);
  status = sl_op_count_targets.cuda(&call, cuda); /* fails before it touches an array */
  sl_cuda_destroy(cuda);
  assert_int_equal(status, SL_ETASK);
  assert_non_null(strstr(sl_error(), "count_targets"));
}

/* A target beyond the classes: a CPU kernel fails the task, a CUDA kernel makes the loss NaN. */
static void target_beyond(void **state) {
  (void)state;
  if (sl_cuda_devices() == 0) skip();
  float logits[6] = {1, 2, 3, 4, 5, 6}, dx[6];
  int32_t target[2] = {1, 3};
  double count = 2, loss = 0, lse[2];
  sl_array arrays[5] = {{.data = logits, .shape = SL_SHAPE(2, 3), .dtype = SL_F32},
                        {.data = target, .shape = SL_SHAPE(2), .dtype = SL_I32},
                        {.data = &count, .shape = SL_SHAPE(1), .dtype = SL_F64},
                        {.data = &loss, .shape = SL_SHAPE(1), .dtype = SL_F64},
                        {.data = lse, .shape = SL_SHAPE(2), .dtype = SL_F64}};
  const sl_cross_entropy_attr attr = {0};
  sl_call call;
  call_of(&call, arrays, 3, 2);
  call.attr = &attr;
  assert_ok(cuda_case_run(&sl_op_cross_entropy, &call, 0));
  assert_true(isnan(loss));
  assert_true(isfinite(lse[0]));
  assert_true(isnan(lse[1]));
  arrays[3] = (sl_array){.data = lse, .shape = SL_SHAPE(2), .dtype = SL_F64};
  arrays[4] = (sl_array){.data = dx, .shape = SL_SHAPE(2, 3), .dtype = SL_F32};
  call_of(&call, arrays, 4, 1);
  call.attr = &attr;
  assert_ok(cuda_case_run(&sl_op_cross_entropy_grad, &call, 0));
  for (int i = 0; i < 6; i++) assert_int_equal(isnan(dx[i]) != 0, i >= 3);
}

/* Values that are not finite must reach the result, as on a CPU. */
static void nan_is_seen(void **state) {
  (void)state;
  if (sl_cuda_devices() == 0) skip();
  float x[6] = {1, NAN, 3, -INFINITY, 5, 6}, y[6];
  int32_t target[2] = {2, 2};
  double count = 2, loss = 0, lse[2], hits = 7;
  sl_array arrays[5] = {{.data = x, .shape = SL_SHAPE(2, 3), .dtype = SL_F32},
                        {.data = target, .shape = SL_SHAPE(2), .dtype = SL_I32},
                        {.data = &count, .shape = SL_SHAPE(1), .dtype = SL_F64},
                        {.data = &loss, .shape = SL_SHAPE(1), .dtype = SL_F64},
                        {.data = lse, .shape = SL_SHAPE(2), .dtype = SL_F64}};
  const sl_cross_entropy_attr attr = {0};
  sl_call call;
  call_of(&call, arrays, 3, 2);
  call.attr = &attr;
  assert_ok(cuda_case_run(&sl_op_cross_entropy, &call, 0));
  assert_true(isnan(loss) && isnan(lse[0]) && isnan(lse[1]));
  arrays[2] = (sl_array){.data = &hits, .shape = SL_SHAPE(1), .dtype = SL_F64};
  call_of(&call, arrays, 2, 1);
  call.attr = &(sl_accuracy_attr){1};
  assert_ok(cuda_case_run(&sl_op_accuracy, &call, 0));
  assert_true(hits == 1);
  call.attr = &(sl_accuracy_attr){3};
  assert_ok(cuda_case_run(&sl_op_accuracy, &call, 0));
  assert_true(hits == 1);
  arrays[1] = (sl_array){.data = y, .shape = SL_SHAPE(2, 3), .dtype = SL_F32};
  call_of(&call, arrays, 1, 1);
  assert_ok(cuda_case_run(&sl_op_relu, &call, 0));
  assert_true(isnan(y[1]) && y[3] == 0 && y[5] == 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_gpu),   cmocka_unit_test(begins_and_ends), cmocka_unit_test(too_little_scratch),
      cmocka_unit_test(target_beyond), cmocka_unit_test(nan_is_seen),
  };
  if (cuda_case_missing()) print_message("# most is skipped: %s\n", cuda_case_missing());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static void no_cuda(void **state) {
  (void)state;
  print_message("# skipped: %s\n", cuda_case_missing());
  skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_cuda)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
