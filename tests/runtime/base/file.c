/* runtime/base/file.c: whatever fails, readers see either the old file or the new one. */
#include "runtime/base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static void assert_content(const char *path, const char *text) {
  size_t n;
  char *bytes = scratch_read(path, &n);
  assert_non_null(bytes);
  assert_string_equal(bytes, text);
  free(bytes);
}

static void replaces_whole(void **state) {
  const char *path = scratch_path(*state, "a.txt");
  char *bytes;
  size_t n;
  assert_ok(sl_file_replace(path, "old", 3));
  assert_ok(sl_file_replace(path, "newer", 5));
  assert_ok(sl_file_read(path, 5, &bytes, &n));
  assert_int_equal(n, 5);
  assert_string_equal(bytes, "newer");
  free(bytes);
  assert_int_equal(scratch_entries(*state), 1);
}

static void nothing_is_there_before_commit(void **state) {
  const char *path = scratch_path(*state, "a.txt");
  sl_file *file;
  assert_ok(sl_file_create(path, &file));
  assert_ok(sl_file_write(file, "half", 4));
  assert_int_not_equal(access(path, F_OK), 0);
  sl_file_discard(file);
  assert_int_equal(scratch_entries(*state), 0);
}

static void mode_follows_umask(void **state) {
  const char *path = scratch_path(*state, "a.txt");
  struct stat info;
  const mode_t old = umask(027);
  assert_ok(sl_file_replace(path, "x", 1));
  umask(old);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0640);
}

static void two_writers_of_one_path_do_not_mix(void **state) {
  const char *path = scratch_path(*state, "a.txt");
  sl_file *first, *second;
  assert_ok(sl_file_create(path, &first));
  assert_ok(sl_file_create(path, &second));
  assert_ok(sl_file_write(first, "first", 5));
  assert_ok(sl_file_write(second, "second", 6));
  assert_ok(sl_file_commit(second));
  assert_content(path, "second");
  assert_ok(sl_file_commit(first));
  assert_content(path, "first");
  assert_int_equal(scratch_entries(*state), 1);
}

/* A limit on file size makes writes fail like a full disk, on any machine. */
static void size_limit_leaves_the_old_file(void **state) {
  static char block[1 << 16];
  const char *path = scratch_path(*state, "a.txt");
  struct rlimit old, small;
  assert_ok(sl_file_replace(path, "old", 3));
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old, small.rlim_cur = 4096;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  sl_status status = sl_file_replace(path, block, sizeof block);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_fails(SL_EWRITE, path, status);
  assert_content(path, "old");
  assert_int_equal(scratch_entries(*state), 1);
}

static void full_disk_leaves_the_old_file(void **state) {
  static char block[1 << 20];
  const char *path = scratch_path(*state, "a.txt");
  if (!scratch_small_disk(*state, 256 << 10)) skip(); /* a file system cannot be mounted here */
  assert_ok(sl_file_replace(path, "old", 3));
  assert_fails(SL_EWRITE, "No space left on device; free some space", sl_file_replace(path, block, sizeof block));
  assert_content(path, "old");
  assert_int_equal(scratch_entries(*state), 1);
  scratch_small_disk_end(*state);
}

static void unwritable_folder(void **state) {
  const char *folder = scratch_path(*state, "locked");
  mkdir(folder, 0555);
  chmod(*state, 0755);
  if (!scratch_unprivileged(folder)) skip();
  sl_status status = sl_file_replace(scratch_path(folder, "a.txt"), "x", 1);
  scratch_unprivileged_end();
  assert_fails(SL_EIO, "locked/a.txt: Permission denied", status);
}

static void names_what_cannot_be(void **state) {
  char *bytes;
  size_t n;
  const char *path = scratch_path(*state, "missing/a.txt");
  assert_fails(SL_EIO, path, sl_file_replace(path, "x", 1));
  assert_fails(SL_EINVAL, "folder", sl_file_replace(scratch_path(*state, ""), "x", 1));
  assert_fails(SL_ENOTFOUND, path, sl_file_read(path, 100, &bytes, &n));
  assert_null(bytes);
  assert_fails(SL_EIO, "directory", sl_file_read(*state, 1 << 20, &bytes, &n));
  path = scratch_path(*state, "folder");
  mkdir(path, 0777);
  assert_fails(SL_EIO, "folder", sl_file_replace(path, "x", 1)); /* a file cannot take a folder's place */
  assert_int_equal(scratch_entries(*state), 1);
}

/* A link stays a link, and what it points to changes; links in a circle are an error. */
static void links_are_followed(void **state) {
  char *bytes;
  size_t n;
  struct stat info;
  assert_int_equal(mkdir(scratch_path(*state, "there"), 0777), 0);
  char *link = strdup(scratch_path(*state, "link"));
  assert_int_equal(symlink("there/file", link), 0); /* the target does not exist yet */
  for (int i = 0; i < 2; i++) {
    assert_ok(sl_file_replace(link, i ? "two" : "one", 3));
    assert_ok(sl_file_read(scratch_path(*state, "there/file"), 100, &bytes, &n));
    assert_string_equal(bytes, i ? "two" : "one");
    free(bytes);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
  }
  assert_int_equal(unlink(link), 0);
  assert_int_equal(symlink("link", link), 0);
  assert_fails(SL_EIO, "link: Too many levels", sl_file_replace(link, "x", 1));
  free(link);
}

static void *read_pipe(void *path) {
  char *bytes;
  size_t n;
  return sl_file_read(path, 100, &bytes, &n) == SL_OK ? bytes : NULL;
}

/* A file that is not regular is written to, not replaced. */
static void devices_stay(void **state) {
  struct stat info;
  pthread_t reader;
  void *bytes;
  char *pipe = strdup(scratch_path(*state, "pipe"));
  assert_int_equal(mkfifo(pipe, 0600), 0);
  assert_int_equal(pthread_create(&reader, NULL, read_pipe, pipe), 0);
  assert_ok(sl_file_replace(pipe, "through", 7));
  assert_int_equal(pthread_join(reader, &bytes), 0);
  assert_string_equal(bytes, "through");
  free(bytes);
  assert_int_equal(stat(pipe, &info), 0);
  assert_true(S_ISFIFO(info.st_mode));
  assert_int_equal(scratch_entries(*state), 1);
  const char *null = scratch_path(*state, "null");
  assert_int_equal(symlink("/dev/null", null), 0); /* never the device itself: this test may run as root */
  assert_ok(sl_file_replace(null, "x", 1));
  assert_int_equal(stat(null, &info), 0);
  assert_true(S_ISCHR(info.st_mode));
  free(pipe);
}

/* Replaces the file at the path of a process's descriptor ("/proc/self/fd", "/dev/fd"). */
static sl_status replace_descriptor(const char *folder, int fd, const char *text) {
  char path[96];
  snprintf(path, sizeof path, "%s/%d", folder, fd);
  return sl_file_replace(path, text, strlen(text));
}

/* What a shell has opened by > or >> is written on, whatever it is and whatever became of its name. */
static void descriptors_are_written_on(void **state) {
  static const char *const folders[] = {"/proc/self/fd", "/dev/fd", "/proc/thread-self/fd"};
  const char *path = scratch_path(*state, "a.txt");
  struct stat before, after;
  char text[16] = "";
  int ends[2];
  if (access("/proc/self/fd", X_OK) != 0) skip();
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    scratch_write(path, "old", 3);
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_ok(replace_descriptor(folders[i], fd, "appended"));
    assert_content(path, "oldappended");
    close(fd);
    fd = open(path, O_RDWR);
    assert_int_equal(write(fd, "new", 3), 3);
    assert_int_equal(fstat(fd, &before), 0);
    assert_ok(replace_descriptor(folders[i], fd, "then"));
    assert_int_equal(write(fd, "!", 1), 1); /* the offset is common */
    assert_content(path, "newthen!ded");
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(unlink(path), 0);
    assert_ok(replace_descriptor(folders[i], fd, "gone"));
    assert_int_equal(pread(fd, text, 4, 8), 4);
    assert_string_equal(text, "gone");
    close(fd);
    assert_int_equal(scratch_entries(*state), 0);
    assert_int_equal(pipe(ends), 0);
    assert_ok(replace_descriptor(folders[i], ends[1], "pipe"));
    close(ends[1]);
    assert_int_equal(read(ends[0], text, sizeof text), 4);
    close(ends[0]);
  }
}

/* Of another process's descriptor only the file can be had, which keeps its bytes. A link to a descriptor is one. */
static void other_descriptors_are_written_on(void **state) {
  char folder[64], target[96], *path = strdup(scratch_path(*state, "a.txt")), *link = strdup(scratch_path(*state, "b"));
  sl_file *file;
  if (access("/proc/self/fd", X_OK) != 0) skip();
  scratch_write(path, "old", 3);
  const int fd = open(path, O_RDWR);
  const pid_t child = fork();
  if (child == 0) pause(), _exit(0);
  snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)child);
  assert_ok(replace_descriptor(folder, fd, "and"));
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_content(path, "oldand");
  snprintf(target, sizeof target, "/dev/fd/%d", fd);
  assert_int_equal(symlink(target, link), 0);
  assert_ok(sl_file_create(link, &file));
  assert_ok(sl_file_write(file, "new", 3));
  assert_fails(SL_EIO, "cannot write", sl_file_overwrite(file, 0, "x", 1)); /* where its bytes begin is not known */
  assert_ok(sl_file_commit(file));
  close(fd);
  assert_content(path, "newand");
  assert_int_equal(scratch_entries(*state), 2);
  free(path), free(link);
}

/* Nothing waits for a pipe in place of a file that Starling wrote. */
static void regular_files_only(void **state) {
  char *bytes, *pipe = strdup(scratch_path(*state, "pipe"));
  const char *path = scratch_path(*state, "a.txt"), *missing = scratch_path(*state, "b.txt");
  size_t n;
  int fd;
  assert_int_equal(mkfifo(pipe, 0600), 0);
  alarm(60);
  assert_fails(SL_EIO, "pipe is a pipe, not a regular file: remove it", sl_file_read_regular(pipe, 100, &bytes, &n));
  assert_fails(SL_EIO, "not a regular file", sl_file_open_regular(pipe, O_WRONLY | O_CREAT, 0600, &fd));
  assert_fails(SL_EIO, "not a regular file", sl_file_check_regular(pipe));
  assert_fails(SL_EIO, "is a folder, not", sl_file_check_regular(*state));
  assert_fails(SL_EIO, "is a device, not", sl_file_read_regular("/dev/null", 100, &bytes, &n));
  alarm(0);
  assert_ok(sl_file_check_regular(missing));
  assert_fails(SL_ENOTFOUND, missing, sl_file_read_regular(missing, 100, &bytes, &n));
  assert_ok(sl_file_replace(path, "12345", 5));
  assert_ok(sl_file_check_regular(path));
  assert_fails(SL_EFORMAT, "5 bytes, more than the 4", sl_file_read_regular(path, 4, &bytes, &n));
  assert_ok(sl_file_read_regular(path, 5, &bytes, &n));
  assert_string_equal(bytes, "12345");
  free(bytes), free(pipe);
}

static volatile sig_atomic_t stops;
static void stop(int number) {
  (void)number;
  stops = 1;
}
static int stopped(void) { return stops; }

/* A signal whose handler lets calls go on ends the wait for a pipe's other end all the same. */
static void waits_end(void **state) {
  struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART}, before;
  char *bytes, *pipe = strdup(scratch_path(*state, "pipe"));
  size_t n;
  assert_int_equal(mkfifo(pipe, 0600), 0);
  sl_file_wait_until(stopped);
  sigaction(SIGALRM, &action, &before);
  alarm(1);
  assert_fails(SL_EINTERRUPTED, "stopped by a signal", sl_file_replace(pipe, "x", 1));
  stops = 0;
  alarm(1);
  assert_fails(SL_EINTERRUPTED, "stopped by a signal", sl_file_read(pipe, 100, &bytes, &n));
  stops = 0;
  sigaction(SIGALRM, &before, NULL);
  assert_int_equal(unlink(pipe), 0);
  free(pipe);
  devices_stay(state); /* a pipe whose other end is there */
  sl_file_wait_until(NULL);
}

static void folders_are_made(void **state) {
  int made = -1;
  const char *path = scratch_path(*state, "a");
  assert_ok(sl_folder_make(path));
  assert_ok(sl_folder_make(path)); /* it exists already */
  path = scratch_path(*state, "a/b/c");
  assert_fails(SL_EIO, "cannot make the folder", sl_folder_make(path)); /* parent folders are not made */
  assert_ok(sl_folder_make_all(path, 0700, &made));
  assert_int_equal(made, 2);
  assert_ok(sl_folder_make_all(path, 0700, &made));
  assert_int_equal(made, 0);
  assert_ok(sl_folder_make_all(scratch_path(*state, "a//d/"), 0777, &made)); /* more slashes than needed */
  assert_int_equal(made, 1);
  struct stat info;
  assert_int_equal(stat(scratch_path(*state, "a/b/c"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  assert_ok(sl_file_replace(scratch_path(*state, "a/file"), "x", 1));
  path = scratch_path(*state, "a/file/e/f");
  assert_fails(SL_EIO, "a/file/e: Not a directory", sl_folder_make_all(path, 0777, &made));
  assert_fails(SL_EIO, "cannot make the folder", sl_folder_make_all("", 0777, &made));
}

static void reading_is_bounded(void **state) {
  char *bytes;
  size_t n;
  const char *path = scratch_path(*state, "a.txt");
  assert_ok(sl_file_replace(path, "12345", 5));
  assert_fails(SL_EFORMAT, "5 bytes, more than the 4", sl_file_read(path, 4, &bytes, &n));
  assert_fails(SL_EFORMAT, "more than the 1000", sl_file_read("/dev/zero", 1000, &bytes, &n)); /* no end of its own */
  assert_ok(sl_file_read("/dev/null", 0, &bytes, &n));
  assert_int_equal(n, 0);
  free(bytes);
}

static void killed_writers_are_tidied(void **state) {
  const char *folder = *state;
  char dead[300], alive[300], other[300], path[300];
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  snprintf(path, sizeof path, "%s/a.bin", folder);
  snprintf(dead, sizeof dead, "%s/.a.bin.%ld-3.tmp", folder, (long)child);
  snprintf(alive, sizeof alive, "%s/.a.bin.%ld-4.tmp", folder, (long)getpid());
  snprintf(other, sizeof other, "%s/.b.bin.%ld-3.tmp", folder, (long)child);
  const char *const all[] = {dead, alive, other};
  for (int i = 0; i < 3; i++) assert_ok(sl_file_replace(all[i], "x", 1));
  sl_file_tidy(path);
  assert_int_not_equal(access(dead, F_OK), 0);
  assert_int_equal(access(alive, F_OK), 0); /* its process may still be writing */
  assert_int_equal(access(other, F_OK), 0);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      TEST(replaces_whole),
      TEST(nothing_is_there_before_commit),
      TEST(mode_follows_umask),
      TEST(two_writers_of_one_path_do_not_mix),
      TEST(size_limit_leaves_the_old_file),
      TEST(unwritable_folder),
      TEST(names_what_cannot_be),
      TEST(links_are_followed),
      TEST(devices_stay),
      TEST(descriptors_are_written_on),
      TEST(other_descriptors_are_written_on),
      TEST(regular_files_only),
      TEST(waits_end),
      TEST(folders_are_made),
      TEST(reading_is_bounded),
      TEST(killed_writers_are_tidied),
      TEST(full_disk_leaves_the_old_file), /* last: it changes the process's view of the file systems */
  };
  return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
