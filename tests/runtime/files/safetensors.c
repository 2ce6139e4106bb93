/* runtime/files/safetensors.c: files have exactly the format's bytes and read back equal; errors name the malformed
 * part. */
#include "runtime/files/safetensors.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static const float weight[6] = {1, 2, 3, 4, 5, 6};
static const uint8_t odd[3] = {7, 8, 9};
static const double scalar[1] = {2.5};
static const int64_t steps[2] = {1, -1};

static sl_status write_sample(const char *path) {
  const sl_named_array arrays[] = {{"layer.weight", SL_F32, SL_SHAPE(2, 3), weight},
                                   {"odd", SL_U8, SL_SHAPE(3), odd},
                                   {"scalar", SL_F64, {0}, scalar},
                                   {"empty", SL_BF16, SL_SHAPE(0, 4), NULL},
                                   {"gr\xc3\xb6\xc3\x9f\x65 \"q\"", SL_I64, SL_SHAPE(2), steps}};
  const char *const metadata[][2] = {{"format", "starling"}, {"seed", "42"}};
  return sl_safetensors_write(path, arrays, 5, metadata, 2);
}

static void comes_back(void **state) {
  const char *path = scratch_path(*state, "a.safetensors");
  sl_safetensors *st;
  assert_ok(write_sample(path));
  assert_ok(sl_safetensors_open(path, &st));
  assert_int_equal(sl_safetensors_count(st), 5);
  assert_string_equal(sl_safetensors_metadata(st, "format"), "starling");
  assert_string_equal(sl_safetensors_metadata(st, "seed"), "42");
  assert_null(sl_safetensors_metadata(st, "none"));
  assert_int_equal(sl_safetensors_find(st, "none"), -1);
  assert_int_equal(sl_safetensors_find(st, "__metadata__"), -1);
  const struct {
    const char *name;
    const void *data;
    size_t bytes;
  } expected[] = {{"layer.weight", weight, 24},
                  {"odd", odd, 3},
                  {"scalar", scalar, 8},
                  {"gr\xc3\xb6\xc3\x9f\x65 \"q\"", steps, 16}};
  for (size_t i = 0; i < 4; i++) {
    uint8_t data[24];
    const int number = sl_safetensors_find(st, expected[i].name);
    assert_true(number >= 0);
    assert_string_equal(sl_safetensors_get(st, number)->name, expected[i].name);
    assert_ok(sl_safetensors_read(st, number, data));
    assert_memory_equal(data, expected[i].data, expected[i].bytes);
  }
  const sl_named_array *array = sl_safetensors_get(st, 0);
  const sl_shape shape = SL_SHAPE(2, 3);
  assert_int_equal(array->dtype, SL_F32);
  assert_true(sl_shape_equal(&array->shape, &shape));
  assert_int_equal(sl_safetensors_get(st, sl_safetensors_find(st, "scalar"))->shape.ndim, 0);
  sl_safetensors_close(st);
}

static void bytes_are_the_format_s(void **state) {
  const char *path = scratch_path(*state, "a.safetensors");
  size_t n;
  const sl_named_array arrays[] = {{"w", SL_F32, SL_SHAPE(1), weight}};
  assert_ok(sl_safetensors_write(path, arrays, 1, NULL, 0));
  char *bytes = scratch_read(path, &n);
  static const char expected[] =
      "\x38\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\x80\x3f";
  assert_int_equal(n, 8 + 56 + 4);
  assert_memory_equal(bytes, expected, n);
  free(bytes);
}

static void data_begin_aligned(void **state) {
  char name[16] = "a";
  for (int i = 0; i < 8; i++, strcat(name, "a")) {
    size_t n;
    const char *path = scratch_path(*state, "a.safetensors");
    const sl_named_array arrays[] = {{name, SL_U8, SL_SHAPE(3), odd}};
    assert_ok(sl_safetensors_write(path, arrays, 1, NULL, 0));
    uint8_t *bytes = (uint8_t *)scratch_read(path, &n);
    assert_int_equal(bytes[0] % 8, 0);
    assert_int_equal(n, 8 + bytes[0] + 3);
    free(bytes);
  }
}

/* Opens a file of the given header and `data` zero bytes. */
static sl_status open_header(const char *folder, const char *header, size_t data) {
  const char *path = scratch_path(folder, "bad.safetensors");
  char bytes[2048] = {0};
  sl_safetensors *st;
  const size_t n = strlen(header);
  bytes[0] = (char)(n & 255), bytes[1] = (char)(n >> 8);
  memcpy(bytes + 8, header, n);
  scratch_write(path, bytes, 8 + n + data);
  sl_status status = sl_safetensors_open(path, &st);
  if (status == SL_OK) sl_safetensors_close(st);
  return status;
}

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void odd_but_right(void **state) {
  assert_ok(open_header(*state, "{}", 0));
  assert_ok(open_header(*state, "{\"__metadata__\":{}}   ", 0));
  assert_ok(
      open_header(*state, "{\"b\":" T("F32", "[1]", "[4,8]") ",\"a\":" T("F32", "[]", "[0,4]") "}", 8)); /* any order */
  assert_ok(open_header(
      *state,
      "{\"a\":" T("U8", "[1]", "[0,1]") ",\"e\":" T("F32", "[0]", "[1,1]") ",\"f\":" T("F32", "[0]", "[0,0]") "}", 1));
  assert_ok(open_header(*state, "{\"a\":{\"extra\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1));
}

static void malformed_headers_are_named(void **state) {
  static const struct {
    const char *header;
    size_t data;
    sl_status status;
    const char *words;
  } cases[] = {
      {"", 0, SL_EFORMAT, "does not begin with '{'"},
      {"[]", 0, SL_EFORMAT, "does not begin with '{'"},
      {" {}", 0, SL_EFORMAT, "does not begin with '{'"},
      {"{", 0, SL_EFORMAT, "malformed header near offset"},
      {"{} x", 0, SL_EFORMAT, "malformed header near offset"},
      {"{\"a\":1}", 0, SL_EFORMAT, "value of a is not an object"},
      {"{\"__metadata__\":3}", 0, SL_EFORMAT, "value of __metadata__ is not an object"},
      {"{\"__metadata__\":{\"k\":3}}", 0, SL_EFORMAT, "__metadata__.k is not a string"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, SL_EFORMAT, "tensor a has no dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, SL_EFORMAT, "tensor a has no shape"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, SL_EFORMAT, "tensor a has no data_offsets"},
      {"{\"a\":" T("F33", "[1]", "[0,4]") "}", 4, SL_EFORMAT, "tensor a has the unknown dtype F33"},
      {"{\"a\":" T("I8", "[1]", "[0,1]") "}", 1, SL_EUNSUPPORTED, "tensor a has dtype I8"},
      {"{\"a\":" T("F32", "[1,1,1,1,1,1,1]", "[0,4]") "}", 4, SL_EUNSUPPORTED, "tensor a has 7 dimensions"},
      {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, SL_EFORMAT, "dimension 0 of tensor a"},
      {"{\"a\":" T("F32", "[1,1.0]", "[0,4]") "}", 4, SL_EFORMAT, "dimension 1 of tensor a"},
      {"{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 4, SL_EFORMAT, "dimension 0 of tensor a"},
      {"{\"a\":" T("F32", "[99999999999999999999]", "[0,4]") "}", 4, SL_EFORMAT, "malformed header"},
      {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,4]") "}", 4, SL_EFORMAT, "shape of tensor a overflows"},
      {"{\"a\":" T("F32", "[2305843009213693953]", "[0,4]") "}", 4, SL_EFORMAT, "shape of tensor a overflows"},
      {"{\"a\":" T("F32", "[9223372036854775807,3,0]", "[0,0]") "}", 0, SL_EFORMAT, "shape of tensor a overflows"},
      {"{\"a\":" T("F32", "[1]", "[0]") "}", 4, SL_EFORMAT, "tensor a has no data_offsets of two"},
      {"{\"a\":" T("F32", "[1]", "[0,4,8]") "}", 4, SL_EFORMAT, "tensor a has no data_offsets of two"},
      {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 4, SL_EFORMAT, "tensor a has data_offsets [4, 0] that do not ascend"},
      {"{\"a\":" T("F32", "[1]", "[-4,0]") "}", 4, SL_EFORMAT, "tensor a has data_offsets [-4, 0]"},
      {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 3, SL_EFORMAT,
       "tensor a ends at data offset 4 but the data, from file offset 62, have 3"},
      {"{\"a\":" T("F32", "[1]", "[0,8]") "}", 8, SL_EFORMAT,
       "tensor a at data offset 0 has 8 bytes where F32 of shape [1] takes 4"},
      {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 5, SL_EFORMAT, "1 bytes after the last tensor, from data offset 4"},
      {"{}", 1, SL_EFORMAT, "1 bytes after the last tensor, from data offset 0"},
      {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[2,6]") "}", 6, SL_EFORMAT,
       "tensor b at data offset 2 overlaps tensor a, which ends at 4"},
      {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[5,9]") "}", 9, SL_EFORMAT,
       "hole in the data from offset 4 to tensor b at 5"},
      {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, SL_EFORMAT, "hole in the data from offset 0 to tensor a"},
      {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[0,4]") "}", 4, SL_EFORMAT,
       "duplicate object key near '\"a\"'"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, SL_EFORMAT,
       "duplicate object key"},
      {"{\"\xff\":1}", 0, SL_EFORMAT, "malformed header"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_fails(cases[i].status, cases[i].words, open_header(*state, cases[i].header, cases[i].data));
    assert_non_null(strstr(sl_error(), "bad.safetensors"));
  }
}

static void deep_nesting_is_an_error(void **state) {
  char header[2000];
  memset(header, '[', sizeof header);
  memcpy(header, "{\"a\":", 5);
  header[sizeof header - 1] = '\0';
  assert_fails(SL_EFORMAT, "malformed header", open_header(*state, header, 0));
}

static void every_truncation_is_found(void **state) {
  const char *path = scratch_path(*state, "a.safetensors"), *cut = scratch_path(*state, "cut.safetensors");
  size_t n;
  sl_safetensors *st;
  assert_ok(write_sample(path));
  char *bytes = scratch_read(path, &n);
  for (size_t i = 0; i < n; i++) {
    scratch_write(cut, bytes, i);
    assert_fails(SL_EFORMAT, "cut.safetensors", sl_safetensors_open(cut, &st));
    assert_null(st);
  }
  memcpy(bytes, "\x01\xe1\xf5\x05\0\0\0\0", 8); /* 100,000,001 */
  scratch_write(cut, bytes, n);
  assert_fails(SL_EFORMAT, "beyond the format's limit", sl_safetensors_open(cut, &st));
  memset(bytes, 0xff, 8);
  scratch_write(cut, bytes, n);
  assert_fails(SL_EFORMAT, "beyond the format's limit", sl_safetensors_open(cut, &st));
  free(bytes);
}

static void shrinking_under_the_reader(void **state) {
  const char *path = scratch_path(*state, "a.safetensors");
  sl_safetensors *st;
  double value;
  assert_ok(write_sample(path));
  assert_ok(sl_safetensors_open(path, &st));
  assert_int_equal(truncate(path, 500), 0);
  assert_int_equal(truncate(path, 100), 0);
  assert_fails(SL_EFORMAT, "cut short while being read, in tensor scalar",
               sl_safetensors_read(st, sl_safetensors_find(st, "scalar"), &value));
  sl_safetensors_close(st);
}

static void files_that_cannot_be_read(void **state) {
  sl_safetensors *st;
  assert_fails(SL_ENOTFOUND, "none", sl_safetensors_open(scratch_path(*state, "none"), &st));
  assert_fails(SL_EIO, "not a regular file", sl_safetensors_open(*state, &st));
  assert_fails(SL_EIO, "not a regular file", sl_safetensors_open("/dev/zero", &st));
}

static void writer_refuses(void **state) {
  const char *path = scratch_path(*state, "a.safetensors");
  const sl_named_array twice[] = {{"w", SL_F32, SL_SHAPE(1), weight}, {"w", SL_F32, SL_SHAPE(1), weight}};
  const sl_named_array reserved[] = {{"__metadata__", SL_F32, SL_SHAPE(1), weight}};
  const sl_named_array latin[] = {{"gr\xf6", SL_F32, SL_SHAPE(1), weight}};
  const char *const metadata[][2] = {{"k", "\xff"}};
  assert_fails(SL_EINVAL, "name w is given to two tensors", sl_safetensors_write(path, twice, 2, NULL, 0));
  assert_fails(SL_EINVAL, "__metadata__ is reserved", sl_safetensors_write(path, reserved, 1, NULL, 0));
  assert_fails(SL_EINVAL, "not UTF-8", sl_safetensors_write(path, latin, 1, NULL, 0));
  assert_fails(SL_EINVAL, "metadata k is not UTF-8", sl_safetensors_write(path, twice, 1, metadata, 1));
  assert_int_equal(scratch_entries(*state), 0);
}

static void failed_writing_leaves_the_old(void **state) {
  static float large[1 << 16];
  const char *path = scratch_path(*state, "a.safetensors");
  const sl_named_array arrays[] = {{"w", SL_F32, SL_SHAPE(1 << 16), large}};
  struct rlimit old, small;
  size_t n, m;
  assert_ok(write_sample(path));
  char *before = scratch_read(path, &n);
  getrlimit(RLIMIT_FSIZE, &old);
  small = old, small.rlim_cur = 4096;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  sl_status status = sl_safetensors_write(path, arrays, 1, NULL, 0);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_fails(SL_EWRITE, "a.safetensors", status);
  char *after = scratch_read(path, &m);
  assert_int_equal(n, m);
  assert_memory_equal(before, after, n);
  free(before), free(after);
  assert_int_equal(scratch_entries(*state), 1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      TEST(comes_back),
      TEST(bytes_are_the_format_s),
      TEST(data_begin_aligned),
      TEST(odd_but_right),
      TEST(malformed_headers_are_named),
      TEST(deep_nesting_is_an_error),
      TEST(every_truncation_is_found),
      TEST(shrinking_under_the_reader),
      TEST(files_that_cannot_be_read),
      TEST(writer_refuses),
      TEST(failed_writing_leaves_the_old),
  };
  return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
