/* runtime/data/idx.c: round trips of every element type, and an error for every fault of a file. */
#include "runtime/data/idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/scratch.h"

/* A file of u8 [2, 3, 4]: 4 + 12 bytes of header, 24 of elements. */
static const uint8_t small[40] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3,  0,  0,
                                  0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
enum { SMALL_HEADER = 16 };

static void assert_array(const sl_idx *idx, sl_dtype dtype, const sl_shape *shape, const void *data) {
  assert_int_equal(idx->dtype, dtype);
  assert_true(sl_shape_equal(&idx->shape, shape));
  assert_int_equal((uintptr_t)idx->data % 64, 0);
  assert_memory_equal(idx->data, data, (size_t)sl_shape_count(shape) * sl_dtype_bytes(dtype));
}

static void every_type_comes_back(void **state) {
  const uint8_t u8[6] = {0, 1, 2, 127, 128, 255};
  const int32_t i32[6] = {0, 1, -1, 65536, INT32_MAX, INT32_MIN};
  const float f32[6] = {0, 1, -1.5f, 1e30f, 1e-40f, 3};
  const double f64[6] = {0, 1, -1.5, 1e300, 1e-310, 3};
  const struct {
    sl_dtype dtype;
    const void *data;
  } cases[] = {{SL_U8, u8}, {SL_I32, i32}, {SL_F32, f32}, {SL_F64, f64}};
  const sl_shape shapes[] = {SL_SHAPE(6), SL_SHAPE(2, 3), SL_SHAPE(1, 2, 3), SL_SHAPE(1, 3, 2, 1), SL_SHAPE(0, 5)};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int zip = 0; zip < 2; zip++) {
        const char *path = scratch_path(*state, zip ? "a.gz" : "a");
        sl_idx idx;
        assert_ok(sl_idx_write(path, cases[c].dtype, &shapes[s], cases[c].data));
        assert_ok(sl_idx_read(path, &idx));
        assert_array(&idx, cases[c].dtype, &shapes[s], cases[c].data);
        sl_idx_clear(&idx);
      }
}

static void bytes_are_the_format_s(void **state) {
  const char *path = scratch_path(*state, "a");
  size_t n;
  const sl_shape shape = SL_SHAPE(2);
  const int32_t values[2] = {1, -2};
  assert_ok(sl_idx_write(path, SL_I32, &shape, values));
  char *bytes = scratch_read(path, &n);
  assert_int_equal(n, 16);
  assert_memory_equal(bytes, "\0\0\x0c\x01\0\0\0\x02\0\0\0\x01\xff\xff\xff\xfe", 16);
  free(bytes);
}

static void small_integers_widen(void **state) {
  (void)state;
  sl_idx idx;
  const sl_shape shape = SL_SHAPE(2);
  assert_ok(sl_idx_read_bytes("a", "\0\0\x09\x01\0\0\0\x02\x7f\xff", 10, &idx));
  assert_array(&idx, SL_I32, &shape, (const int32_t[]){127, -1});
  sl_idx_clear(&idx);
  assert_ok(sl_idx_read_bytes("a", "\0\0\x0b\x01\0\0\0\x02\x7f\xff\x80\x01", 12, &idx));
  assert_array(&idx, SL_I32, &shape, (const int32_t[]){32767, -32767});
  sl_idx_clear(&idx);
}

/* Larger than the first output buffer and the input buffer, so that both are refilled. */
static void large_files(void **state) {
  const sl_shape shape = SL_SHAPE(3001, 1000);
  uint8_t *data = malloc(3001000);
  for (uint32_t i = 0; i < 3001000; i++) data[i] = (uint8_t)(i * 2654435761u >> 24);
  for (int zip = 0; zip < 2; zip++) {
    const char *path = scratch_path(*state, zip ? "a.gz" : "a");
    sl_idx idx;
    assert_ok(sl_idx_write(path, SL_U8, &shape, data));
    assert_ok(sl_idx_read(path, &idx));
    assert_array(&idx, SL_U8, &shape, data);
    sl_idx_clear(&idx);
  }
  free(data);
}

/* Reads a copy of small with byte `at` set, and `n` bytes long. */
static sl_status read_changed(int at, uint8_t value, size_t n) {
  uint8_t bytes[sizeof small + 8] = {0};
  sl_idx idx;
  memcpy(bytes, small, sizeof small);
  if (at >= 0) bytes[at] = value;
  sl_status status = sl_idx_read_bytes("some/file", bytes, n, &idx);
  if (status == SL_OK) sl_idx_clear(&idx);
  assert_null(idx.data);
  return status;
}

static void every_truncation_is_found(void **state) {
  assert_ok(read_changed(-1, 0, sizeof small));
  for (size_t n = 0; n < sizeof small; n++) assert_fails(SL_EFORMAT, "some/file: truncated", read_changed(-1, 0, n));
  assert_fails(SL_EFORMAT, "2 x 3 x 4 elements of 1 byte but only 23 of 24", read_changed(-1, 0, sizeof small - 1));
  for (size_t n = 0; n < sizeof small; n++) { /* likewise from a file */
    const char *path = scratch_path(*state, "a");
    sl_idx idx;
    scratch_write(path, small, n);
    assert_fails(SL_EFORMAT, "a: truncated", sl_idx_read(path, &idx));
  }
}

static void oversized_is_found(void **state) {
  (void)state;
  assert_fails(SL_EFORMAT, "some/file: oversized, has 1 bytes after the 2 x 3 x 4",
               read_changed(-1, 0, sizeof small + 1));
  assert_fails(SL_EFORMAT, "oversized", read_changed(11, 2, sizeof small));
}

static void bad_headers_are_named(void **state) {
  (void)state;
  assert_fails(SL_EFORMAT, "not an IDX file, begins with bytes 89 00", read_changed(0, 0x89, sizeof small));
  assert_fails(SL_EFORMAT, "not an IDX file", read_changed(1, 1, sizeof small));
  assert_fails(SL_EFORMAT, "unknown IDX element type 0x0a", read_changed(2, 10, sizeof small));
  assert_fails(SL_EFORMAT, "0 dimensions; 1 to 4", read_changed(3, 0, sizeof small));
  assert_fails(SL_EFORMAT, "5 dimensions; 1 to 4", read_changed(3, 5, sizeof small));
  assert_fails(SL_EFORMAT, "promises 16777218 x 3 x 4", read_changed(4, 1, sizeof small));
}

/* Headers that promise 200 GB, or more than 64 bits can count, are refused, plain or gzip. */
static void promises_are_not_believed(void **state) {
  uint8_t bytes[40] = {0, 0, 8, 3, 0, 0, 0xff, 0xff, 0, 0, 0x10, 0, 0, 0, 0x10, 0};
  sl_idx idx;
  assert_fails(SL_EFORMAT, "truncated, the header promises 65535 x 4096 x 4096",
               sl_idx_read_bytes("a", bytes, 40, &idx));
  const char *path = scratch_path(*state, "a"), *zipped = scratch_path(*state, "a.gz");
  char command[9000];
  snprintf(command, sizeof command, "gzip -k '%s'", path);
  scratch_write(path, bytes, sizeof bytes);
  assert_int_equal(system(command), 0);
  assert_fails(SL_EFORMAT, "truncated, the header promises 65535 x 4096 x 4096", sl_idx_read(zipped, &idx));
  memset(bytes + 4, 0xff, 12);
  assert_fails(SL_EFORMAT, "overflow", sl_idx_read_bytes("a", bytes, 40, &idx));
  unlink(path), unlink(zipped);
  scratch_write(path, bytes, sizeof bytes);
  assert_int_equal(system(command), 0);
  assert_fails(SL_EFORMAT, "overflow", sl_idx_read(zipped, &idx));
}

/* Incompressible elements, so that any changed byte is detected. */
static uint8_t *zipped_file(const char *folder, size_t *n) {
  uint8_t data[600];
  uint32_t x = 1;
  for (int i = 0; i < 600; i++) data[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
  const sl_shape shape = SL_SHAPE(6, 100);
  const char *path = scratch_path(folder, "good.gz");
  assert_ok(sl_idx_write(path, SL_U8, &shape, data));
  return (uint8_t *)scratch_read(path, n);
}

static void every_truncated_gzip_is_found(void **state) {
  size_t n;
  uint8_t *bytes = zipped_file(*state, &n);
  sl_idx idx;
  for (size_t cut = 2; cut < n; cut++)
    assert_fails(SL_EFORMAT, "a.gz: truncated gzip", sl_idx_read_bytes("a.gz", bytes, cut, &idx));
  assert_ok(sl_idx_read_bytes("a.gz", bytes, n, &idx));
  sl_idx_clear(&idx);
  free(bytes);
}

static void corrupt_gzip_is_found(void **state) {
  size_t n;
  uint8_t *bytes = zipped_file(*state, &n);
  sl_idx idx;
  size_t harmless = 0;
  for (size_t at = 10; at < n; at++) { /* after gzip's header, whose time and flags are arbitrary */
    bytes[at] ^= 0x10;
    sl_status status = sl_idx_read_bytes("a.gz", bytes, n, &idx);
    if (status != SL_OK && status != SL_EFORMAT) fail_msg("byte %zu changed: %s", at, sl_status_name(status));
    harmless += status == SL_OK;
    sl_idx_clear(&idx);
    bytes[at] ^= 0x10;
  }
  assert_in_range(harmless, 0, 1); /* the padding of the stored block's header; all else is under the checksum */
  bytes[n - 6] ^= 1;               /* of the checksum */
  assert_fails(SL_EFORMAT, "corrupt gzip after 612 unpacked bytes (incorrect data check)",
               sl_idx_read_bytes("a.gz", bytes, n, &idx));
  bytes[n - 6] ^= 1;
  bytes = realloc(bytes, n + 600);
  memset(bytes + n, 0, 600);
  assert_ok(sl_idx_read_bytes("a.gz", bytes, n + 600, &idx)); /* gzip ignores zeros after its end too */
  sl_idx_clear(&idx);
  bytes[n + 599] = 'a';
  assert_fails(SL_EFORMAT, "after the end of the gzip data", sl_idx_read_bytes("a.gz", bytes, n + 600, &idx));
  memcpy(bytes + n, "abc", 3);
  assert_fails(SL_EFORMAT, "after the end of the gzip data", sl_idx_read_bytes("a.gz", bytes, n + 3, &idx));
  free(bytes);
}

static void gzip_members_join(void **state) {
  char command[9000];
  sl_idx idx;
  scratch_write(scratch_path(*state, "1"), small, 20);
  scratch_write(scratch_path(*state, "2"), small + 20, sizeof small - 20);
  snprintf(command, sizeof command, "cd '%s' && gzip 1 2 && cat 1.gz 2.gz > a.gz && cat a.gz 2.gz > b.gz",
           (char *)*state);
  assert_int_equal(system(command), 0);
  const sl_shape shape = SL_SHAPE(2, 3, 4);
  assert_ok(sl_idx_read(scratch_path(*state, "a.gz"), &idx));
  assert_array(&idx, SL_U8, &shape, small + SMALL_HEADER);
  sl_idx_clear(&idx);
  assert_fails(SL_EFORMAT, "oversized", sl_idx_read(scratch_path(*state, "b.gz"), &idx));
}

static void files_that_cannot_be_read(void **state) {
  sl_idx idx;
  assert_fails(SL_ENOTFOUND, "none: No such file", sl_idx_read(scratch_path(*state, "none"), &idx));
  assert_fails(SL_EIO, "directory", sl_idx_read(*state, &idx));
  assert_fails(SL_EFORMAT, "truncated", sl_idx_read("/dev/null", &idx));
  assert_fails(SL_EFORMAT, "0 dimensions", sl_idx_read_bytes("a", "\0\0\x08\0", 4, &idx));
}

static void writer_refuses(void **state) {
  const sl_shape deep = SL_SHAPE(1, 1, 1, 1, 1), wide = SL_SHAPE((int64_t)1 << 32), plain = SL_SHAPE(1);
  const char *path = scratch_path(*state, "a");
  assert_fails(SL_EINVAL, "5 dimensions", sl_idx_write(path, SL_U8, &deep, ""));
  assert_fails(SL_EINVAL, "dimension 4294967296", sl_idx_write(path, SL_U8, &wide, ""));
  assert_fails(SL_EINVAL, "BF16", sl_idx_write(path, SL_BF16, &plain, ""));
  assert_int_equal(scratch_entries(*state), 0);
}

static void mapped(void **state) {
  const char *path = scratch_path(*state, "a");
  const sl_shape shape = SL_SHAPE(2, 3, 4);
  sl_idx_mapping map;
  scratch_write(path, small, sizeof small);
  assert_ok(sl_idx_map(path, &map));
  assert_true(sl_shape_equal(&map.shape, &shape));
  assert_memory_equal(map.data, small + SMALL_HEADER, sizeof small - SMALL_HEADER);
  sl_idx_unmap(&map);
  assert_null(map.file);
  for (size_t n = 1; n < sizeof small; n++) {
    scratch_write(path, small, n);
    assert_fails(SL_EFORMAT, "truncated", sl_idx_map(path, &map));
    assert_null(map.file);
  }
  uint8_t more[sizeof small + 1] = {0};
  memcpy(more, small, sizeof small);
  scratch_write(path, more, sizeof more);
  assert_fails(SL_EFORMAT, "oversized", sl_idx_map(path, &map));
  scratch_write(path, "", 0);
  assert_fails(SL_EUNSUPPORTED, "empty", sl_idx_map(path, &map));
  scratch_write(path, "\x1f\x8b", 2);
  assert_fails(SL_EUNSUPPORTED, "gzip", sl_idx_map(path, &map));
  more[2] = 9;
  scratch_write(path, more, sizeof small);
  assert_fails(SL_EUNSUPPORTED, "not bytes", sl_idx_map(path, &map));
  assert_fails(SL_ENOTFOUND, "none", sl_idx_map(scratch_path(*state, "none"), &map));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      TEST(mapped),
      TEST(every_type_comes_back),
      TEST(bytes_are_the_format_s),
      TEST(small_integers_widen),
      TEST(large_files),
      TEST(every_truncation_is_found),
      TEST(oversized_is_found),
      TEST(bad_headers_are_named),
      TEST(promises_are_not_believed),
      TEST(every_truncated_gzip_is_found),
      TEST(corrupt_gzip_is_found),
      TEST(gzip_members_join),
      TEST(files_that_cannot_be_read),
      TEST(writer_refuses),
  };
  return cmocka_run_group_tests_name("idx", tests, NULL, NULL);
}
