/* runtime/machine/policies.c: StarPU's own policies by name. tests/policy.sh tests policies from libraries. */
#include "runtime/machine/policies.h"

#include <starpu.h>

#include "tests/support/scratch.h"

static void every_name_is_found(void **state) {
  (void)state;
  char names[4096];
  assert_ok(sl_policies_names(NULL, names, sizeof names));
  int n = 0;
  for (struct starpu_sched_policy **p = starpu_sched_get_predefined_policies(); *p; p++, n++) {
    struct starpu_sched_policy *found;
    int own = 1;
    assert_non_null(strstr(names, (*p)->policy_name));
    assert_ok(sl_policies_find(NULL, (*p)->policy_name, &found, &own));
    assert_string_equal(found->policy_name, (*p)->policy_name);
    assert_int_equal(own, 0);
  }
  assert_true(n > 5);
}

static void the_standard(void **state) {
  (void)state;
  struct starpu_sched_policy *found;
  int own = 1;
  assert_ok(sl_policies_find(NULL, NULL, &found, &own));
  assert_string_equal(found->policy_name, "lws");
  assert_int_equal(own, 0);
  assert_ok(sl_policies_find("", "", &found, &own));
  assert_string_equal(found->policy_name, "lws");
}

static void unknown_ones_are_listed(void **state) {
  (void)state;
  struct starpu_sched_policy *found;
  int own;
  assert_fails(SL_EINVAL, "unknown scheduling policy 'lwss'; StarPU", sl_policies_find(NULL, "lwss", &found, &own));
  assert_non_null(strstr(sl_error(), "eager"));
  assert_fails(SL_ENOTFOUND, "/nowhere.so", sl_policies_find("/nowhere.so", NULL, &found, &own));
  assert_fails(SL_EFORMAT, "cannot load the policy library /proc/self/status",
               sl_policies_find("/proc/self/status", NULL, &found, &own));
}

static void little_room_for_names(void **state) {
  (void)state;
  char names[8] = "xxxxxxx";
  assert_ok(sl_policies_names(NULL, names, 4));
  assert_int_equal(strlen(names), 3);
  assert_int_equal(names[4], 'x');
  assert_ok(sl_policies_names(NULL, NULL, 0));
}

static void who_needs_models(void **state) {
  (void)state;
  const char *const with[] = {"dm", "dmda", "dmdas", "modular-heft", "pheft"}, *const without[] = {"lws", "eager",
                                                                                                   "prio"};
  for (int i = 0; i < 5; i++) assert_true(sl_policies_need_models(with[i]));
  for (int i = 0; i < 3; i++) assert_false(sl_policies_need_models(without[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_name_is_found),     cmocka_unit_test(the_standard),
      cmocka_unit_test(unknown_ones_are_listed), cmocka_unit_test(little_room_for_names),
      cmocka_unit_test(who_needs_models),
  };
  return cmocka_run_group_tests_name("policies", tests, NULL, NULL);
}
