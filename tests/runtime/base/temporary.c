/* runtime/base/temporary.c: a folder goes, at the end and by a signal, also by one that comes before the program that
 * follows guards it; an ignored signal stays ignored. */
#include "runtime/base/temporary.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static const char *make_tree(void *state) {
  const char *folder = scratch_path(state, "folder"), *inner = scratch_path(folder, "inner");
  assert_int_equal(mkdir(folder, 0777), 0);
  assert_int_equal(mkdir(inner, 0777), 0);
  scratch_write(scratch_path(inner, "file"), "x", 1);
  return folder;
}

static void it_is_removed(void **state) {
  const char *folder = make_tree(*state), *link = scratch_path(folder, "link"), *kept = scratch_path(*state, "kept");
  scratch_write(kept, "x", 1);
  assert_int_equal(symlink(kept, link), 0);
  sl_temporary_remove(folder);
  assert_int_equal(access(folder, F_OK), -1);
  assert_int_equal(access(kept, F_OK), 0); /* behind a link */
}

/* The state of a process that guards the folder and gets the signal. */
static int state_after(const char *folder, int number, int ignored) {
  int state = 0;
  const pid_t pid = fork();
  if (pid == 0) {
    if (ignored) signal(number, SIG_IGN);
    sl_temporary_guard(folder);
    raise(number);
    _exit(7);
  }
  assert_true(pid > 0 && waitpid(pid, &state, 0) == pid);
  return state;
}

static void a_signal_removes_it(void **state) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (int i = 0; i < 3; i++) {
    const char *folder = make_tree(*state);
    const int end = state_after(folder, numbers[i], 0);
    assert_true(WIFSIGNALED(end) && WTERMSIG(end) == numbers[i]);
    assert_int_equal(access(folder, F_OK), -1);
  }
}

/* A signal that comes while one program becomes another waits until the other one guards the folder. */
static void a_signal_waits_for_the_next_program(void **state) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/made.XXXXXX", (const char *)*state);
  int end = 0;
  assert_int_equal(sl_temporary_folder(folder), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    sl_temporary_hand_over();
    signal(SIGTERM, SIG_DFL); /* as exec does */
    raise(SIGTERM);
    if (access(folder, F_OK) != 0) _exit(7);
    sl_temporary_guard(folder);
    _exit(8);
  }
  assert_true(pid > 0 && waitpid(pid, &end, 0) == pid);
  assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGTERM);
  assert_int_equal(access(folder, F_OK), -1);
  sl_temporary_remove(folder);
}

static void an_ignored_signal_stays_ignored(void **state) {
  const char *folder = make_tree(*state);
  const int end = state_after(folder, SIGINT, 1);
  assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 7);
  assert_int_equal(access(folder, F_OK), 0);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {CASE(it_is_removed), CASE(a_signal_removes_it),
                                     CASE(a_signal_waits_for_the_next_program), CASE(an_ignored_signal_stays_ignored)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
