/* Helpers for tests of files. */
#include "tests/support/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

int scratch_setup(void **state) {
  const char *parent = getenv("TMPDIR");
  char *path = malloc(4096);
  snprintf(path, 4096, "%s/starling-test-XXXXXX", parent && parent[0] ? parent : "/tmp");
  if (!mkdtemp(path)) {
    print_error("cannot make %s\n", path);
    free(path);
    return -1;
  }
  *state = path;
  return 0;
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *ftw) {
  (void)info, (void)flag, (void)ftw;
  return remove(path);
}

int scratch_teardown(void **state) {
  const int failed = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  free(*state);
  return failed;
}

const char *scratch_path(const char *folder, const char *name) {
  static char paths[8][4096];
  static unsigned turn;
  char *path = paths[turn++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

void scratch_write(const char *path, const void *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}

char *scratch_read(const char *path, size_t *n) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *n = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*n + 1);
  assert_int_equal(fread(bytes, 1, *n, file), *n);
  bytes[*n] = '\0';
  fclose(file);
  return bytes;
}

int scratch_entries(const char *folder) {
  DIR *directory = opendir(folder);
  int n = -2; /* . and .. */
  assert_non_null(directory);
  while (readdir(directory)) n++;
  closedir(directory);
  return n;
}

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  const int done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) close(fd);
  return done;
}

int scratch_small_disk(const char *folder, size_t bytes) {
  char options[64];
  const unsigned uid = getuid(), gid = getgid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 0;
    snprintf(options, sizeof options, "0 %u 1", uid);
    if (!write_file("/proc/self/uid_map", options)) return 0;
    write_file("/proc/self/setgroups", "deny");
    snprintf(options, sizeof options, "0 %u 1", gid);
    write_file("/proc/self/gid_map", options);
  }
  if (mount("none", "/", "none", MS_REC | MS_PRIVATE, "") != 0) return 0;
  snprintf(options, sizeof options, "size=%zu", bytes);
  return mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}

void scratch_small_disk_end(const char *folder) { umount2(folder, MNT_DETACH); }

int scratch_unprivileged(const char *folder) {
  if (geteuid() == 0 && seteuid(65534) != 0) return 0;
  if (access(folder, F_OK) == 0 && faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) != 0) return 1;
  scratch_unprivileged_end();
  return 0;
}

void scratch_unprivileged_end(void) {
  if (getuid() == 0 && seteuid(0) != 0) abort();
}
