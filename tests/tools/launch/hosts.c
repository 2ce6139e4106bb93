/* tools/launch/hosts.c: lists of hosts, Slurm's nodes, and hosts that are dead, with programs in the place of mpiexec
 * and scontrol. */
#include "tools/launch/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/scratch.h"

static void assert_text(const sl__hosts *h, const char *wanted) {
  char *text = sl__hosts_text(h);
  assert_non_null(text);
  assert_string_equal(text, wanted);
  free(text);
}

static const char *program(const char *folder, const char *name, const char *script) {
  const char *path = scratch_path(folder, name);
  scratch_write(path, script, strlen(script));
  assert_int_equal(chmod(path, 0755), 0);
  return path;
}

static void lists_are_read(void **state) {
  (void)state;
  sl__hosts h;
  assert_ok(sl__hosts_parse(NULL, &h));
  assert_int_equal(h.n, 0);
  assert_ok(sl__hosts_parse("a,b:4,c:2", &h));
  assert_int_equal(sl__hosts_ranks(&h), 7);
  assert_text(&h, "a:1,b:4,c:2");
  sl__hosts first;
  const char *const firsts[] = {NULL, "a:1", "a:1,b:1", NULL, NULL, "a:1,b:4", "a:1,b:4,c:1"};
  for (int ranks = 1; ranks < 7; ranks++) {
    if (!firsts[ranks]) continue;
    assert_ok(sl__hosts_first(&h, ranks, &first));
    assert_text(&first, firsts[ranks]);
    assert_int_equal(first.n, ranks == 1 ? 1 : ranks < 6 ? 2 : 3);
    sl__hosts_free(&first);
  }
  assert_int_equal(sl__hosts_ranks(&h), 7); /* as it was */
  sl__hosts_limit(&h, 4);
  assert_text(&h, "a:1,b:3");
  sl__hosts_free(&h);
  assert_fails(SL_EINVAL, "'b' is named twice: NAME:N", sl__hosts_parse("a,b:2,bb,b", &h));
  sl__hosts_free(&h);
  const char *const wrong[] = {"", "a,,b", "a:", "a:0", "a:x", "a:-1", "a:1x", ":2", "a:99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(SL_EINVAL, "is not NAME or NAME:RANKS", sl__hosts_parse(wrong[i], &h));
    sl__hosts_free(&h);
  }
  assert_ok(sl__hosts_parse("me@node-1.example_2:3,10.0.0.1", &h));
  assert_text(&h, "me@node-1.example_2:3,10.0.0.1:1");
  sl__hosts_free(&h);
}

/* Names that ssh or a shell would take for something else. */
static void names_that_are_none(void **state) {
  (void)state;
  sl__hosts h;
  assert_fails(SL_EINVAL, "'-oProxyCommand=x' begins with '-'", sl__hosts_parse("a,-oProxyCommand=x:2", &h));
  sl__hosts_free(&h);
  const char *const wrong[] = {"a b", "$(x)", "a;x", "a\nb", "a/b", "[1]", "caf\303\251", "a\033", "x=1", "a%b"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(SL_EINVAL, "is no name of a host", sl__hosts_parse(wrong[i], &h));
    sl__hosts_free(&h);
  }
}

/* A host that answers, one that answers the second time, one that refuses, and one that does not answer. */
static void dead_hosts_are_dropped(void **state) {
  sl__hosts h;
  char gone[64], small[4];
  const char *mpiexec = program(*state, "mpiexec",
                                "#!/bin/sh\n[ \"$1 $3 $4 $5\" = '-hosts -n 1 true' ] || exit 9\n"
                                "case $2 in alive*) exit 0 ;; refuses*) exit 1 ;; second*) mkdir \"$0.$2\" 2>/dev/null "
                                "&& exit 255 || exit 0 ;; *) sleep 1000 ;; esac\n");
  assert_ok(sl__hosts_parse("second,refuses1", &h));
  assert_int_equal(sl__hosts_drop_dead(&h, mpiexec, 100, gone, sizeof gone), 1);
  assert_text(&h, "second:1");
  sl__hosts_free(&h);
  assert_ok(sl__hosts_parse("alive1:2,refuses1:3,hangs1,alive2", &h));
  assert_int_equal(sl__hosts_drop_dead(&h, mpiexec, 1, gone, sizeof gone), 2);
  assert_string_equal(gone, "refuses1, hangs1");
  assert_text(&h, "alive1:2,alive2:1");
  assert_int_equal(sl__hosts_drop_dead(&h, mpiexec, 100, gone, sizeof gone), 0);
  assert_string_equal(gone, "");
  assert_text(&h, "alive1:2,alive2:1");
  sl__hosts_free(&h);
  assert_ok(sl__hosts_parse("refuses1,refuses2", &h));
  assert_int_equal(sl__hosts_drop_dead(&h, mpiexec, 100, small, sizeof small), 2);
  assert_int_equal(h.n, 0);
  assert_string_equal(small, "ref");
  sl__hosts_free(&h);
}

static void slurm_names_its_nodes(void **state) {
  sl__hosts h;
  char path[4096];
  unsetenv("SLURM_JOB_NODELIST");
  assert_ok(sl__hosts_of_slurm(5, &h));
  assert_int_equal(h.n, 0);
  program(*state, "scontrol", "#!/bin/sh\n[ \"$*\" = 'show hostnames' ] && printf 'n1\\nn2\\nn3\\n'\n");
  snprintf(path, sizeof path, "%s:%s", (char *)*state, getenv("PATH"));
  setenv("PATH", path, 1);
  setenv("SLURM_JOB_NODELIST", "n[1-3]", 1);
  assert_ok(sl__hosts_of_slurm(5, &h));
  assert_text(&h, "n1:2,n2:2,n3:1");
  sl__hosts_free(&h);
  assert_ok(sl__hosts_of_slurm(2, &h));
  assert_int_equal(h.n, 3);
  assert_text(&h, "n1:1,n2:1");                          /* n3 is spare */
  h.host[0] = h.host[1], h.host[1] = h.host[2], h.n = 2; /* n1 is lost */
  sl__hosts_fill(&h, 2);
  assert_text(&h, "n2:1,n3:1");
  sl__hosts_fill(&h, 5); /* no host is spare any more */
  assert_text(&h, "n2:1,n3:1");
  sl__hosts_free(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read),
      cmocka_unit_test(names_that_are_none),
      cmocka_unit_test_setup_teardown(dead_hosts_are_dropped, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(slurm_names_its_nodes, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
