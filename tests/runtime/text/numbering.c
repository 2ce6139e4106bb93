/* runtime/text/numbering.c: strings get numbers in the order of adding, known strings their old ones, while the tables
 * grow; strings with zero bytes, and the empty string. */
#include "runtime/text/numbering.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

enum { MANY = 20000 };

static void strings(void **state) {
  (void)state;
  sl__strings s;
  uint32_t number;
  char text[32];
  assert_ok(sl__strings_init(&s));
  assert_int_equal(sl__strings_find(&s, "a", 1), -1);
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < MANY; i++) {
      const int n = snprintf(text, sizeof text, "%d", i * 7);
      assert_ok(sl__strings_add(&s, text, (size_t)n, &number));
      assert_int_equal(number, i);
    }
  assert_int_equal(s.n, MANY);
  for (int i = 0; i < MANY; i++) {
    size_t n;
    const int wanted = snprintf(text, sizeof text, "%d", i * 7);
    const char *bytes = sl__strings_get(&s, (size_t)i, &n);
    assert_int_equal(n, wanted);
    assert_memory_equal(bytes, text, n);
    assert_int_equal(sl__strings_find(&s, text, n), i);
  }
  assert_int_equal(sl__strings_find(&s, "1", 1), -1);
  sl__strings_clear(&s);
}

static void any_bytes(void **state) {
  (void)state;
  sl__strings s;
  uint32_t number;
  const struct {
    const char *bytes;
    size_t n;
  } given[] = {{"", 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}, {"\xff", 1}};
  const int count = (int)(sizeof given / sizeof *given);
  assert_ok(sl__strings_init(&s));
  for (int i = 0; i < 2 * count; i++) {
    assert_ok(sl__strings_add(&s, given[i % count].bytes, given[i % count].n, &number));
    assert_int_equal(number, i % count);
  }
  for (int i = 0; i < count; i++) assert_int_equal(sl__strings_find(&s, given[i].bytes, given[i].n), i);
  sl__strings_clear(&s);
}

static void pairs(void **state) {
  (void)state;
  sl__pairs p;
  uint32_t number;
  assert_ok(sl__pairs_init(&p));
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < MANY; i++) {
      assert_ok(sl__pairs_add(&p, i << 32 | (i * i & 0xffff), &number));
      assert_int_equal(number, i);
    }
  assert_int_equal(p.n, MANY);
  for (uint64_t i = 0; i < MANY; i++) assert_int_equal(sl__pairs_find(&p, i << 32 | (i * i & 0xffff)), i);
  assert_int_equal(sl__pairs_find(&p, UINT64_C(7) << 40 | 1), -1);
  sl__pairs_clear(&p);
}

static void rooms_grow(void **state) {
  (void)state;
  int *array = NULL;
  size_t room = 0;
  for (size_t n = 1; n < 5000; n++) {
    assert_true(sl__grow(&array, &room, n, sizeof *array));
    assert_true(room >= n);
    array[n - 1] = (int)n;
  }
  for (int i = 0; i < 4999; i++) assert_int_equal(array[i], i + 1);
  const size_t before = room;
  assert_false(sl__grow(&array, &room, SIZE_MAX / 2, sizeof *array));
  assert_int_equal(room, before);
  free(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings),
      cmocka_unit_test(any_bytes),
      cmocka_unit_test(pairs),
      cmocka_unit_test(rooms_grow),
  };
  return cmocka_run_group_tests_name("numbering", tests, NULL, NULL);
}
