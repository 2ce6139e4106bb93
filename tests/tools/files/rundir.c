/* tools/files/rundir.c: a run directory is made whole or not at all, is never taken over by accident, and its metrics
 * have only whole lines. */
#include "tools/files/rundir.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "tests/support/scratch.h"

/* Overrides libc's function, and notes the synchronised files. */
static char synced[4096];
int fsync(int fd) {
  char link[64], path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  const size_t used = strlen(synced);
  if (n > 0) snprintf(synced + used, sizeof synced - used, "%.*s\n", (int)n, path);
  return (int)syscall(SYS_fsync, fd);
}

static void assert_synced(const char *path) {
  char line[512];
  snprintf(line, sizeof line, "%s\n", path);
  if (!strstr(synced, line)) fail_msg("%s was not brought to the disk, only:\n%s", path, synced);
}

static sl_status open_at(const char *path, sl__rundir_mode mode, sl__rundir **r) {
  return sl__rundir_open(path, "mlp", mode, r);
}

static sl_status append(sl__rundir *r, int step) {
  json_t *line = json_pack("{s:i, s:f}", "step", step, "loss", 0.5 * step);
  sl_status status = sl__rundir_append_metrics(r, line);
  json_decref(line);
  return status;
}

static void assert_content(const char *path, const char *text) {
  size_t n;
  char *bytes = scratch_read(path, &n);
  assert_non_null(bytes);
  assert_string_equal(bytes, text);
  free(bytes);
}

static void makes_parents_and_files(void **state) {
  sl__rundir *r;
  json_t *plan = json_pack("{s:i}", "shards", 4);
  assert_ok(open_at(scratch_path(*state, "a/b//c/"), SL__RUNDIR_NEW, &r));
  assert_string_equal(sl__rundir_path(r), scratch_path(*state, "a/b//c"));
  assert_ok(sl__rundir_write_text(r, SL__RUNDIR_CONFIG, "batch: 256\n"));
  assert_ok(sl__rundir_write_json(r, SL__RUNDIR_PLAN, plan));
  assert_fails(SL_EINVAL, "plan.json", sl__rundir_write_json(r, SL__RUNDIR_PLAN, json_real(NAN)));
  assert_content(scratch_path(*state, "a/b/c/config.yaml"), "batch: 256\n");
  assert_content(sl__rundir_file_path(r, SL__RUNDIR_PLAN), "{\n  \"shards\": 4\n}\n");
  assert_string_equal(sl__rundir_file_name(SL__RUNDIR_CHECKPOINTS), "checkpoints");
  json_decref(plan);
  assert_ok(sl__rundir_close(r));
  assert_int_equal(scratch_entries(scratch_path(*state, "a/b/c")), 3);
}

static void default_names_are_unique(void **state) {
  char folder[4096];
  sl__rundir *r[3];
  assert_non_null(getcwd(folder, sizeof folder));
  assert_int_equal(chdir(*state), 0);
  for (int i = 0; i < 3; i++) assert_ok(sl__rundir_open(NULL, "lenet", SL__RUNDIR_NEW, &r[i]));
  assert_int_equal(strncmp(sl__rundir_path(r[0]), "runs/lenet-20", 13), 0);
  assert_int_equal(scratch_entries("runs"), 3);
  for (int i = 2; i >= 0; i--) sl__rundir_discard(r[i]); /* the first made runs, so the last to go removes it */
  assert_int_equal(scratch_entries("."), 0);
  assert_int_equal(chdir(folder), 0);
  assert_fails(SL_EINVAL, "--out DIR", sl__rundir_open(NULL, "lenet", SL__RUNDIR_RESUME, &r[0]));
}

static void existing_is_refused_then_resumed(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r;
  assert_fails(SL_ENOTFOUND, "no run directory", open_at(path, SL__RUNDIR_RESUME, &r));
  assert_int_equal(scratch_entries(*state), 0);
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  assert_ok(sl__rundir_close(r));
  assert_fails(SL_EEXIST, "run exists; --resume continues it, --force starts it afresh",
               open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(open_at(path, SL__RUNDIR_RESUME, &r));
  assert_ok(append(r, 2));
  assert_ok(sl__rundir_close(r));
  assert_content(scratch_path(path, "metrics.jsonl"), "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":1.0}\n");
}

/* What a process left that ended before its run began is begun again; a run that is about to begin there is not. */
static void a_run_that_had_not_begun_begins(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r, *other;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_fails(SL_EEXIST, "another run is writing", open_at(path, SL__RUNDIR_NEW, &other));
  assert_int_equal(scratch_entries(path), 1);
  assert_ok(sl__rundir_close(r));
  scratch_write(scratch_path(path, "heartbeat.json"), "{}", 2);
  scratch_write(scratch_path(path, ".config.yaml.77-0.tmp"), "half", 4);
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_int_equal(scratch_entries(path), 1);
  sl__rundir_discard(r);
  assert_int_equal(scratch_entries(*state), 0);
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(sl__rundir_close(r));
  scratch_write(scratch_path(path, "notes.txt"), "mine", 4);
  assert_fails(SL_EEXIST, "run exists", open_at(path, SL__RUNDIR_NEW, &r));
}

static void force_removes_only_what_runs_write(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  assert_ok(sl__rundir_write_text(r, SL__RUNDIR_CONFIG, "x"));
  assert_ok(sl__rundir_close(r));
  scratch_write(scratch_path(path, "notes.txt"), "mine", 4);
  scratch_write(scratch_path(path, ".model.safetensors.77-0.tmp"), "half", 4);
  scratch_write(scratch_path(path, ".model.other.tmp"), "mine", 4);
  assert_ok(open_at(path, SL__RUNDIR_FORCE, &r));
  assert_int_equal(scratch_entries(path), 3); /* marker, and the two */
  assert_content(scratch_path(path, "notes.txt"), "mine");
  assert_ok(sl__rundir_close(r));
}

static void force_leaves_other_folders_alone(void **state) {
  const char *path = scratch_path(*state, "home");
  sl__rundir *r;
  assert_int_equal(mkdir(path, 0777), 0);
  assert_fails(SL_EEXIST, "home exists", open_at(path, SL__RUNDIR_NEW, &r));
  scratch_write(scratch_path(path, "config.yaml"), "mine", 4);
  assert_fails(SL_EEXIST, "--force leaves it alone", open_at(path, SL__RUNDIR_FORCE, &r));
  assert_fails(SL_ENOTFOUND, "nothing to resume", open_at(path, SL__RUNDIR_RESUME, &r));
  assert_content(scratch_path(path, "config.yaml"), "mine");
  assert_int_equal(scratch_entries(path), 1);
  assert_fails(SL_EEXIST, "not a directory", open_at(scratch_path(path, "config.yaml"), SL__RUNDIR_FORCE, &r));
  unlink(scratch_path(path, "config.yaml"));
  assert_ok(open_at(path, SL__RUNDIR_FORCE, &r)); /* nothing in it to lose */
  sl__rundir_discard(r);
}

static void resume_removes_torn_files(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(sl__rundir_close(r));
  scratch_write(scratch_path(path, ".model.safetensors.77-0.tmp"), "half", 4);
  scratch_write(scratch_path(path, "model.safetensors"), "whole", 5);
  assert_ok(open_at(path, SL__RUNDIR_RESUME, &r));
  assert_ok(sl__rundir_close(r));
  assert_int_equal(scratch_entries(path), 2);
}

/* A pipe in place of a file is named when the run resumes, or when the file is due; nothing waits for it. */
static void pipes_are_refused(void **state) {
  static const char *const more[] = {"timeline-0.safetensors", "stall-20260101-000000.json"};
  char *path = strdup(scratch_path(*state, "run"));
  sl__rundir *r;
  json_t *plan = json_object();
  alarm(60);
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  char *file = strdup(sl__rundir_file_path(r, SL__RUNDIR_SUMMARY));
  assert_int_equal(mkfifo(file, 0600), 0);
  assert_fails(SL_EIO, "summary.json is a pipe, not a regular file: remove it",
               sl__rundir_write_json(r, SL__RUNDIR_SUMMARY, plan));
  assert_fails(SL_EIO, "summary.json is a pipe", sl__rundir_write_text(r, SL__RUNDIR_SUMMARY, "x"));
  assert_int_equal(mkfifo(sl__rundir_file_path(r, SL__RUNDIR_METRICS), 0600), 0);
  assert_fails(SL_EIO, "metrics.jsonl is a pipe", sl__rundir_rewind_metrics(r, 1));
  assert_fails(SL_EIO, "metrics.jsonl is a pipe", append(r, 1));
  assert_int_equal(unlink(sl__rundir_file_path(r, SL__RUNDIR_METRICS)), 0);
  assert_int_equal(unlink(file), 0);
  assert_ok(sl__rundir_close(r));
  for (int i = 0; i < SL__RUNDIR_FILE_COUNT + 2; i++) {
    const char *name =
        i < SL__RUNDIR_FILE_COUNT ? sl__rundir_file_name((sl__rundir_file)i) : more[i - SL__RUNDIR_FILE_COUNT];
    if (i == SL__RUNDIR_CHECKPOINTS) continue; /* a folder */
    free(file);
    file = strdup(scratch_path(path, name));
    unlink(file); /* the marker */
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_fails(SL_EIO, "is a pipe, not a regular file: remove it", open_at(path, SL__RUNDIR_RESUME, &r));
    assert_non_null(strstr(sl_error(), name));
    assert_int_equal(unlink(file), 0);
    if (i == SL__RUNDIR_MARKER) scratch_write(file, "x", 1);
  }
  assert_int_equal(mkfifo(file, 0600), 0);
  assert_ok(open_at(path, SL__RUNDIR_FORCE, &r)); /* removes it */
  assert_ok(sl__rundir_close(r));
  assert_ok(open_at(path, SL__RUNDIR_RESUME, &r));
  assert_ok(sl__rundir_close(r));
  alarm(0);
  json_decref(plan);
  free(file), free(path);
}

static void one_run_at_a_time(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r, *second;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  assert_fails(SL_EEXIST, "another run is writing", open_at(path, SL__RUNDIR_RESUME, &second));
  assert_fails(SL_EEXIST, "another run is writing", open_at(path, SL__RUNDIR_FORCE, &second));
  assert_ok(append(r, 2));
  assert_ok(sl__rundir_close(r));
  assert_ok(open_at(path, SL__RUNDIR_RESUME, &r));
  assert_ok(sl__rundir_close(r));
}

static void *close_later(void *run) {
  usleep(300000);
  return sl__rundir_close(run) == SL_OK ? NULL : run;
}
static void resuming_waits_for_a_run_that_ends(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r, *second;
  pthread_t thread;
  void *failed;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  assert_int_equal(pthread_create(&thread, NULL, close_later, r), 0);
  assert_ok(open_at(path, SL__RUNDIR_RESUME, &second));
  assert_int_equal(pthread_join(thread, &failed), 0);
  assert_null(failed);
  assert_ok(sl__rundir_close(second));
}

static void discard_leaves_nothing(void **state) {
  sl__rundir *r;
  assert_ok(open_at(scratch_path(*state, "a/b/c"), SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  sl__rundir_discard(r);
  assert_int_equal(scratch_entries(*state), 0);
  assert_int_equal(mkdir(scratch_path(*state, "a"), 0777), 0);
  assert_ok(open_at(scratch_path(*state, "a/b/c"), SL__RUNDIR_NEW, &r));
  scratch_write(scratch_path(*state, "a/b/mine"), "", 0);
  sl__rundir_discard(r);
  assert_int_equal(scratch_entries(scratch_path(*state, "a")), 1); /* b, which has mine in it */
  assert_int_equal(scratch_entries(scratch_path(*state, "a/b")), 1);
}

static void failure_leaves_nothing(void **state) {
  sl__rundir *r;
  char name[512];
  scratch_write(scratch_path(*state, "file"), "", 0);
  assert_fails(SL_EIO, "cannot make the run directory: cannot make the folder",
               open_at(scratch_path(*state, "file/run"), SL__RUNDIR_NEW, &r));
  memset(name, 'x', sizeof name);
  memcpy(name, "a/b/", 4);
  name[sizeof name - 1] = '\0';
  assert_fails(SL_EIO, "File name too long", open_at(scratch_path(*state, name), SL__RUNDIR_NEW, &r));
  assert_int_equal(scratch_entries(*state), 1);
  assert_fails(SL_EINVAL, "empty", open_at("", SL__RUNDIR_NEW, &r));
}

static void unwritable_directory(void **state) {
  const char *locked = scratch_path(*state, "locked"), *run = scratch_path(*state, "run");
  sl__rundir *r;
  assert_ok(open_at(run, SL__RUNDIR_NEW, &r));
  assert_ok(sl__rundir_close(r));
  assert_int_equal(mkdir(locked, 0555), 0);
  assert_int_equal(chmod(run, 0555), 0);
  assert_int_equal(chmod(*state, 0755), 0);
  if (!scratch_unprivileged(locked)) skip();
  sl_status inside = open_at(scratch_path(locked, "a/run"), SL__RUNDIR_NEW, &r);
  char first[256];
  snprintf(first, sizeof first, "%s", sl_error());
  sl_status resumed = open_at(run, SL__RUNDIR_RESUME, &r);
  scratch_unprivileged_end();
  assert_int_equal(inside, SL_EIO);
  assert_non_null(strstr(first, "locked/a: Permission denied; choose another with --out"));
  /* The marker can be opened, so the error comes from the first file. */
  if (resumed == SL_OK) {
    assert_int_equal(scratch_unprivileged(locked), 1);
    resumed = sl__rundir_write_text(r, SL__RUNDIR_CONFIG, "x");
    scratch_unprivileged_end();
    assert_ok(sl__rundir_close(r));
    assert_fails(SL_EIO, "config.yaml: Permission denied", resumed);
  } else {
    assert_fails(SL_EIO, "cannot write in the run directory", resumed);
  }
  assert_int_equal(chmod(run, 0755), 0);
  assert_int_equal(scratch_entries(locked), 0);
}

/* A limit on the file's size, reached inside a line: write(2) writes a part of the line, as on a full disk. */
static void torn_lines_are_taken_back(void **state) {
  const char *path = scratch_path(*state, "run");
  struct rlimit old, small;
  sl__rundir *r;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  getrlimit(RLIMIT_FSIZE, &old);
  small = old, small.rlim_cur = 30;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  sl_status status = append(r, 2);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_fails(SL_EWRITE, "metrics.jsonl", status);
  assert_content(scratch_path(path, "metrics.jsonl"), "{\"step\":1,\"loss\":0.5}\n");
  assert_ok(append(r, 3));
  assert_content(scratch_path(path, "metrics.jsonl"),
                 "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":1.0}\n{\"step\":3,\"loss\":1.5}\n");
  assert_fails(SL_EINVAL, "cannot be written as JSON", sl__rundir_append_metrics(r, NULL));
  assert_ok(sl__rundir_close(r));
}

/* Puts a device in place of the open file at path. */
static void replace_open(const char *path, const char *device) {
  struct stat file, open_one;
  const int to = open(device, O_WRONLY);
  assert_int_equal(stat(path, &file), 0);
  for (int fd = 3; fd < 1024; fd++)
    if (fstat(fd, &open_one) == 0 && open_one.st_ino == file.st_ino && open_one.st_dev == file.st_dev)
      assert_int_equal(dup2(to, fd), fd);
  close(to);
}

static void full_device_is_reported(void **state) {
  const char *path = scratch_path(*state, "run");
  sl__rundir *r;
  if (access("/dev/full", W_OK) != 0) skip();
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(append(r, 1));
  replace_open(sl__rundir_file_path(r, SL__RUNDIR_METRICS), "/dev/full");
  assert_fails(SL_EWRITE, "metrics.jsonl: No space left on device; free some space", append(r, 2));
  sl__rundir_discard(r);
  assert_int_equal(scratch_entries(*state), 0);
}

static void full_disk(void **state) {
  sl__rundir *r;
  if (!scratch_small_disk(*state, 64 << 10)) skip(); /* a file system cannot be mounted here */
  assert_ok(open_at(scratch_path(*state, "run"), SL__RUNDIR_NEW, &r));
  static char large[1 << 20];
  memset(large, 'x', sizeof large - 1);
  sl_status status = SL_OK;
  int lines = 0;
  for (; status == SL_OK && lines < 100000; lines++) status = append(r, lines);
  assert_fails(SL_EWRITE, "metrics.jsonl: No space left on device", status);
  size_t n;
  char *text = scratch_read(sl__rundir_file_path(r, SL__RUNDIR_METRICS), &n);
  assert_true(n > 0 && text[n - 1] == '\n'); /* whole lines */
  free(text);
  assert_fails(SL_EWRITE, "config.yaml: No space left on device", sl__rundir_write_text(r, SL__RUNDIR_CONFIG, large));
  assert_int_equal(scratch_entries(sl__rundir_path(r)), 2); /* marker and metrics */
  sl__rundir *second;
  assert_fails(SL_EWRITE, "No space left on device", open_at(scratch_path(*state, "x/run2"), SL__RUNDIR_NEW, &second));
  assert_int_equal(scratch_entries(*state), 1);
  sl__rundir_discard(r);
  scratch_small_disk_end(*state);
}

static void metrics_rewind(void **state) {
  const char *path = scratch_path(*state, "run"), *metrics = scratch_path(path, "metrics.jsonl");
  sl__rundir *r;
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_ok(sl__rundir_rewind_metrics(r, 0)); /* none yet */
  for (int i = 1; i <= 4; i++) assert_ok(append(r, i));
  assert_ok(sl__rundir_rewind_metrics(r, 2));
  assert_content(metrics, "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":1.0}\n");
  assert_ok(append(r, 3));
  assert_ok(sl__rundir_close(r));
  size_t n;
  char *text = scratch_read(metrics, &n);
  scratch_write(metrics, text, n - 5); /* killed inside the line of step 3 */
  free(text);
  assert_ok(open_at(path, SL__RUNDIR_RESUME, &r));
  assert_ok(sl__rundir_rewind_metrics(r, 3));
  assert_content(metrics, "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":1.0}\n");
  scratch_write(metrics, "{\"step\":1}\n\0\0\0\n{\"step\":3}\n", 26); /* a crash lost the middle */
  assert_ok(sl__rundir_rewind_metrics(r, 3));
  assert_content(metrics, "{\"step\":1}\n");
  scratch_write(metrics, "{\"step\":1}\nrubbish\n", 19);
  assert_fails(SL_EFORMAT, "metrics.jsonl, line 2", sl__rundir_rewind_metrics(r, 3));
  assert_ok(sl__rundir_close(r));
}

/* After a crash of the machine, all new files must have their names, and metrics the lines before a checkpoint. */
static void brought_to_the_disk(void **state) {
  const char *path = scratch_path(*state, "a/b/c");
  sl__rundir *r;
  synced[0] = '\0';
  assert_ok(open_at(path, SL__RUNDIR_NEW, &r));
  assert_synced(scratch_path(*state, "a/b/c/.starling-run"));
  assert_synced(path);
  assert_synced(scratch_path(*state, "a/b"));
  assert_synced(scratch_path(*state, "a"));
  assert_synced(*state);
  synced[0] = '\0';
  assert_ok(append(r, 1));
  assert_synced(path); /* the name of the metrics */
  assert_ok(append(r, 2));
  assert_null(strstr(synced, "metrics.jsonl"));
  assert_ok(sl__rundir_sync_metrics(r));
  assert_synced(scratch_path(path, "metrics.jsonl"));
  assert_ok(sl__rundir_close(r));
  assert_ok(sl__rundir_sync_metrics(NULL));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      TEST(makes_parents_and_files),
      TEST(default_names_are_unique),
      TEST(existing_is_refused_then_resumed),
      TEST(a_run_that_had_not_begun_begins),
      TEST(force_removes_only_what_runs_write),
      TEST(force_leaves_other_folders_alone),
      TEST(resume_removes_torn_files),
      TEST(pipes_are_refused),
      TEST(one_run_at_a_time),
      TEST(resuming_waits_for_a_run_that_ends),
      TEST(discard_leaves_nothing),
      TEST(failure_leaves_nothing),
      TEST(unwritable_directory),
      TEST(torn_lines_are_taken_back),
      TEST(full_device_is_reported),
      TEST(metrics_rewind),
      TEST(brought_to_the_disk),
      TEST(full_disk), /* last: it changes the process's view of the file systems */
  };
  return cmocka_run_group_tests_name("rundir", tests, NULL, NULL);
}
