/* runtime/files/weights.c: one file or several give the same tensors; half floats are widened exactly; a wrong index is
 * refused by name. */
#include "runtime/files/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static const float a[6] = {1, 2, 3, 4, 5, 6}, b[2] = {7, 8};
static const int64_t count = 9;
static const sl_named_array arrays[] = {
    {"a", SL_F32, {2, {2, 3}}, a}, {"b", SL_F32, {1, {2}}, b}, {"n", SL_I64, {0}, &count}};

static void check(const char *path, int files) {
  sl_weights *w;
  float data[6];
  int64_t n = 0;
  assert_ok(sl_weights_open(path, &w));
  assert_int_equal(sl_weights_count(w), 3);
  assert_int_equal(sl_weights_find(w, "none"), -1);
  assert_string_equal(sl_weights_metadata(w, "format"), "pt");
  assert_ok(sl_weights_read(w, sl_weights_find(w, "a"), data));
  assert_memory_equal(data, a, sizeof a);
  assert_ok(sl_weights_read(w, sl_weights_find(w, "b"), data));
  assert_memory_equal(data, b, sizeof b);
  assert_fails(SL_EUNSUPPORTED, "tensor n is I64", sl_weights_read(w, sl_weights_find(w, "n"), data));
  assert_ok(sl_weights_read_as_is(w, sl_weights_find(w, "n"), &n));
  assert_int_equal(n, 9);
  for (int i = 0; i < 3; i++) assert_int_equal(sl_weights_find(w, sl_weights_get(w, i)->name), i);
  assert_int_equal(strcmp(sl_weights_file(w, 0), sl_weights_file(w, 2)) != 0, files > 1);
  sl_weights_close(w);
}

static const char *const metadata[][2] = {{"format", "pt"}};

static void one_file_or_several(void **state) {
  assert_ok(sl_weights_write(*state, arrays, 3, metadata, 1, 0));
  assert_int_equal(scratch_entries(*state), 1);
  check(*state, 1);
  check(scratch_path(*state, SL_WEIGHTS_FILE), 1);
  unlink(scratch_path(*state, SL_WEIGHTS_FILE));
  assert_fails(SL_ENOTFOUND, "neither model.safetensors nor", sl_weights_open(*state, &(sl_weights *){0}));
  assert_ok(sl_weights_write(*state, arrays, 3, metadata, 1, 16));
  assert_int_equal(scratch_entries(*state), 3); /* a alone is larger than a shard; b and n share one */
  check(*state, 2);
  check(scratch_path(*state, SL_WEIGHTS_INDEX), 2);
}

static void halves_are_exact(void **state) {
  enum { ALL = 65536 };
  static uint16_t bits[ALL];
  static float wide[ALL];
  for (int i = 0; i < ALL; i++) bits[i] = (uint16_t)i;
  const sl_named_array both[] = {{"f16", SL_F16, {1, {ALL}}, bits}, {"bf16", SL_BF16, {1, {ALL}}, bits}};
  const char *path = scratch_path(*state, "half.safetensors");
  sl_weights *w;
  assert_ok(sl_safetensors_write(path, both, 2, NULL, 0));
  assert_ok(sl_weights_open(path, &w));
  assert_ok(sl_weights_read(w, sl_weights_find(w, "f16"), wide));
  for (int i = 0; i < ALL; i++) {
    const int exponent = i >> 10 & 31, fraction = i & 1023;
    const double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                       : ldexp(fraction, -24);
    if (isnan(size) ? !isnan(wide[i]) : (double)wide[i] != (i >> 15 ? -size : size))
      fail_msg("binary16 %04x is read as %.9g", (unsigned)i, (double)wide[i]);
    if (!!signbit(wide[i]) != i >> 15) fail_msg("binary16 %04x loses its sign", (unsigned)i);
  }
  assert_ok(sl_weights_read(w, sl_weights_find(w, "bf16"), wide));
  for (int i = 0; i < ALL; i++) {
    uint32_t is;
    memcpy(&is, &wide[i], sizeof is);
    assert_int_equal(is, (uint32_t)i << 16);
  }
  sl_weights_close(w);
}

static void indexes_that_lie(void **state) {
  static const struct {
    const char *text, *error;
  } cases[] = {
      {"{", "line"},
      {"[]", "no weight_map"},
      {"{\"weight_map\": {}}", "no weight_map"},
      {"{\"weight_map\": {\"a\": 1}}", "weight_map.a is not the name of a file"},
      {"{\"weight_map\": {\"a\": \"../one.safetensors\"}}", "weight_map.a is not the name of a file beside"},
      {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "weight_map.a is not the name of a file beside"},
      {"{\"weight_map\": {\"a\": \"..\"}}", "weight_map.a is not the name of a file beside"},
      {"{\"weight_map\": {\"a\": \"\"}}", "weight_map.a is not the name of a file beside"},
      {"{\"weight_map\": {\"a\": \"one.safetensors\", \"a\": \"one.safetensors\"}}", "duplicate"},
      {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", "gone.safetensors"},
      {"{\"weight_map\": {\"a\": \"broken.safetensors\"}}", "broken.safetensors: truncated"},
      {"{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\", \"c\": \"one.safetensors\"}}",
       "tensor c is not in"},
      {"{\"weight_map\": {\"a\": \"one.safetensors\"}}", "tensor b lies in"},
      {"{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}}",
       "tensor b lies in"}, /* and in one.safetensors too */
  };
  sl_weights *w;
  assert_ok(sl_safetensors_write(scratch_path(*state, "one.safetensors"), arrays, 2, NULL, 0));
  assert_ok(sl_safetensors_write(scratch_path(*state, "two.safetensors"), arrays + 1, 1, NULL, 0));
  scratch_write(scratch_path(*state, "broken.safetensors"), "\x40\0\0\0\0\0\0\0{", 9);
  const char *path = scratch_path(*state, SL_WEIGHTS_INDEX);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    scratch_write(path, cases[i].text, strlen(cases[i].text));
    assert_fails(i == 9 ? SL_ENOTFOUND : SL_EFORMAT, cases[i].error, sl_weights_open(path, &w));
    assert_null(w);
    assert_non_null(strstr(sl_error(), SL_WEIGHTS_INDEX));
  }
}

/* Seconds of processor time to open a model of n tensors in files of 1,000, and to find every tenth by its name. */
static double seconds_to_open(const char *folder, int n) {
  enum { MOST = 100000, EACH = 1000 };
  static char name[MOST][8];
  static sl_named_array all[MOST];
  for (int i = 0; i < n; i++) {
    snprintf(name[i], sizeof name[i], "%d", i);
    all[i] = (sl_named_array){name[i], SL_U8, {1, {1}}, "x"};
  }
  assert_ok(sl_weights_write(folder, all, n, NULL, 0, EACH));
  const clock_t start = clock();
  sl_weights *w;
  assert_ok(sl_weights_open(folder, &w));
  assert_int_equal(sl_weights_count(w), n);
  for (int i = 0; i < n; i += 10) assert_int_equal(sl_weights_find(w, sl_weights_get(w, i)->name), i);
  const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  sl_weights_close(w);
  return seconds;
}

/* The time to find a tensor must not grow with their number. */
static void many_tensors(void **state) {
  assert_int_equal(mkdir(scratch_path(*state, "few"), 0700), 0);
  assert_int_equal(mkdir(scratch_path(*state, "many"), 0700), 0);
  const double few = seconds_to_open(scratch_path(*state, "few"), 10000),
               many = seconds_to_open(scratch_path(*state, "many"), 100000);
  assert_int_equal(scratch_entries(scratch_path(*state, "many")), 100 + 1);
  print_message("10,000 tensors: %.3f s of processor time, 100,000: %.2f s\n", few, many);
  assert_true(many < 30 * few); /* about 10 times; 100 times if each tensor looked at all others */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_file_or_several, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(halves_are_exact, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(indexes_that_lie, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(many_tensors, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
