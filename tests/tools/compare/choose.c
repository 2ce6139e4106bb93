/* tools/compare/choose.c: which policies take part, by default and by name. */
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tools/compare/parts.h"

static sl__options options(const char *policies, const char *priorities) {
  return (sl__options){.policies = (char *)(uintptr_t)policies, .priorities = (char *)(uintptr_t)priorities};
}

static sl__comparison chosen(const sl__options *o, int gpus) {
  sl__comparison c = {.o = o, .room = 3, .gpus = gpus};
  assert_ok(sl__compare_check_policies(o, NULL));
  assert_ok(sl__compare_choose(&c));
  return c;
}

static void release(sl__comparison *c) {
  for (int i = 0; i < c->n; i++) free(c->variant[i].measured);
  free(c->variant);
}

static int has(const sl__comparison *c, const char *policy, int priorities) {
  for (int i = 0; i < c->n; i++)
    if (strcmp(c->variant[i].policy, policy) == 0 && c->variant[i].priorities == priorities) return 1;
  return 0;
}

static void by_default(void **state) {
  (void)state;
  const sl__options o = options(NULL, "on");
  sl__comparison c = chosen(&o, 0);
  assert_int_equal(c.n, 5);
  assert_string_equal(c.variant[0].policy, "eager");
  assert_true(has(&c, "lws", 1) && has(&c, "prio", 1) && has(&c, "dmda", 1) && has(&c, "dmdas", 1));
  release(&c);
}

static void heteroprio_with_gpus(void **state) {
  (void)state;
  assert_false(sl__compare_default("heteroprio", 0));
  assert_true(sl__compare_default("heteroprio", 1));
  assert_false(sl__compare_default("random", 1));
}

static void all_of_them(void **state) {
  (void)state;
  const sl__options o = options("all", "both");
  sl__comparison c = chosen(&o, 0);
  assert_in_range(c.n, 20, 2 * SL__MOST_POLICIES);
  assert_true(has(&c, "random", 1) && has(&c, "random", 0) && has(&c, "heteroprio", 1));
  release(&c);
}

static void by_name(void **state) {
  (void)state;
  sl__options o = options("ws, random", "off");
  sl__comparison c = chosen(&o, 0);
  assert_int_equal(c.n, 3);
  assert_true(has(&c, "eager", 0) && has(&c, "ws", 0) && has(&c, "random", 0));
  release(&c);
  o = options("ws,rand", "on");
  assert_fails(SL_EINVAL, "no policy 'rand'", sl__compare_check_policies(&o, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_default), cmocka_unit_test(heteroprio_with_gpus),
                                     cmocka_unit_test(all_of_them), cmocka_unit_test(by_name)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
