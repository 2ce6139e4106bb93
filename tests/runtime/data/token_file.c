/* runtime/data/token_file.c: the bytes of both layouts, ids that do not fit, and unfinished files. */
#include "runtime/data/token_file.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

static int64_t number(const char *bytes, size_t at, int width) {
  uint64_t value = 0;
  for (int b = 0; b < width; b++) value |= (uint64_t)(uint8_t)bytes[at + (size_t)b] << 8 * b;
  return (int64_t)value;
}

/* More than the buffer holds, in two uneven parts. */
static void layouts(void **state) {
  enum { N = 200001, FIRST = 70001 };
  static int32_t tokens[N];
  for (int wide = 0; wide < 2; wide++) {
    const char *path = scratch_path(*state, "a.bin");
    const int width = wide ? 4 : 2;
    sl_token_file *file;
    size_t n;
    for (int i = 0; i < N; i++) tokens[i] = (int32_t)((uint32_t)i * 2654435761u >> (wide ? 1 : 16));
    assert_ok(sl_token_file_create(path, 8 * width, &file));
    assert_ok(sl_token_file_append(file, tokens, FIRST));
    assert_ok(sl_token_file_append(file, tokens + FIRST, N - FIRST));
    assert_int_equal(sl_token_file_count(file), N);
    assert_ok(sl_token_file_commit(file));
    char *bytes = scratch_read(path, &n);
    assert_int_equal(n, 1024 + N * width);
    assert_int_equal(number(bytes, 0, 4), wide ? 20240801 : 20240520);
    assert_int_equal(number(bytes, 4, 4), wide ? 7 : 1);
    assert_int_equal(number(bytes, 8, 4), N);
    for (size_t at = 12; at < 1024; at++) assert_int_equal(bytes[at], 0);
    for (size_t i = 0; i < N; i++) assert_int_equal(number(bytes, 1024 + i * (size_t)width, width), tokens[i]);
    free(bytes);
  }
}

static void ids_that_do_not_fit(void **state) {
  const char *path = scratch_path(*state, "a.bin");
  sl_token_file *file;
  assert_fails(SL_EINVAL, "tokens of 8 bits", sl_token_file_create(path, 8, &file));
  assert_ok(sl_token_file_create(path, 16, &file));
  assert_ok(sl_token_file_append(file, (const int32_t[]){0, 65535}, 2));
  assert_fails(SL_EINVAL, "a.bin: token 3 is 65536", sl_token_file_append(file, (const int32_t[]){1, 65536}, 2));
  sl_token_file_discard(file);
  assert_ok(sl_token_file_create(path, 32, &file));
  assert_fails(SL_EINVAL, "token 0 is -1", sl_token_file_append(file, (const int32_t[]){-1}, 1));
  sl_token_file_discard(file);
  assert_int_equal(scratch_entries(*state), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(layouts, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(ids_that_do_not_fit, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("token_file", tests, NULL, NULL);
}
