/* runtime/base/mapping.c: a mapped file that is cut short gives an error with its name and does not end the process;
 * other faults still end it. */
#include "runtime/base/mapping.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

enum { PAGES = 5 };
static size_t page;

static sl_mapping *map(const char *path, size_t bytes) {
  uint8_t *content = malloc(bytes);
  memset(content, 7, bytes);
  scratch_write(path, content, bytes);
  free(content);
  const int fd = open(path, O_RDONLY);
  sl_mapping *m;
  assert_ok(sl_mapping_open(fd, path, bytes, &m));
  close(fd);
  return m;
}

static size_t sum(const sl_mapping *m, size_t bytes) {
  size_t all = 0;
  for (size_t i = 0; i < bytes; i++) all += ((const volatile uint8_t *)sl_mapping_data(m))[i];
  return all;
}

static void cut_short(void **state) {
  const char *path = scratch_path(*state, "a"), *other = scratch_path(*state, "b");
  sl_mapping *m = map(path, PAGES * page), *whole = map(other, 3);
  assert_int_equal(sum(m, PAGES * page), 7 * PAGES * page);
  assert_ok(sl_mapping_check(m));
  assert_int_equal(truncate(path, (off_t)page + 10), 0);
  assert_int_equal(sum(m, PAGES * page), 7 * (page + 10)); /* zeros behind the new end */
  assert_fails(SL_EIO, path, sl_mapping_check(m));
  assert_int_equal(truncate(path, (off_t)(PAGES * page)), 0); /* the old length again, but the bytes are lost */
  assert_fails(SL_EIO, "was cut short", sl_mapping_check(m));
  assert_int_equal(sum(whole, 3), 21);
  assert_ok(sl_mapping_check(whole));
  sl_mapping_close(m);
  m = map(path, 2 * page); /* at the previous mapping's address */
  assert_int_equal(sum(m, 2 * page), 14 * page);
  assert_ok(sl_mapping_check(m));
  sl_mapping_close(m);
  sl_mapping_close(whole);
  sl_mapping_close(NULL);
}

static void within_a_page(void **state) {
  const char *path = scratch_path(*state, "a"), *new = scratch_path(*state, "new");
  sl_mapping *m = map(path, 100);
  assert_int_equal(truncate(path, 50), 0);
  assert_int_equal(sum(m, 100), 350); /* no fault, but the file is too short */
  assert_fails(SL_EIO, path, sl_mapping_check(m));
  sl_mapping_close(m);
  m = map(path, 100);
  scratch_write(new, "short", 5);
  assert_int_equal(rename(new, path), 0); /* replaces the file: the mapped one stays whole */
  assert_int_equal(sum(m, 100), 700);
  assert_ok(sl_mapping_check(m));
  sl_mapping_close(m);
}

static void other_faults(void **state) {
  const char *path = scratch_path(*state, "a");
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGBUS, SIG_DFL); /* cmocka has set its own */
    map(scratch_path(*state, "b"), page);
    alarm(20); /* in case the fault repeats for ever */
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    volatile uint8_t *mine = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || mine == MAP_FAILED || ftruncate(fd, 0) != 0) _exit(1);
    _exit(mine[0]);
  }
  int state_of;
  assert_int_equal(waitpid(child, &state_of, 0), child);
  assert_true(WIFSIGNALED(state_of) && WTERMSIG(state_of) == SIGBUS);
}

int main(void) {
  page = (size_t)sysconf(_SC_PAGESIZE);
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(cut_short, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(within_a_page, scratch_setup, scratch_teardown),
                                     cmocka_unit_test_setup_teardown(other_faults, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests_name("runtime/mapping", tests, NULL, NULL);
}
