/* Records what an unchanged program (LD_PRELOAD) does to the files under a folder, so that tests/support/replay.c can
 * say what a crash of the machine leaves of them. RECORD_UNDER: the folder; RECORD_LOG: the log. A line for each
 * operation, with the paths without the folder:
 *
 * C PATH  a file is made        W OFFSET BYTES PATH, and the bytes    T BYTES PATH  cut to this length
 * M PATH  a folder is made      R OLD TAB NEW  renamed                L OLD TAB NEW  linked
 * U PATH  a file is removed     D PATH  a folder is removed           S PATH  a file or folder is synchronised */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH = 4096 };
static const char *under;
static size_t skip;
static int log_fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* an operation and its line */

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("RECORD_LOG");
  under = getenv("RECORD_UNDER");
  if (!under || !path) return;
  skip = strlen(under) + 1;
  log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* The path without the folder, "" for the folder itself, or NULL. */
static const char *mine(const char *path) {
  if (log_fd < 0 || !path || strncmp(path, under, skip - 1) != 0) return NULL;
  return path[skip - 1] == '/' ? path + skip : path[skip - 1] ? NULL : path + skip - 1;
}
static const char *mine_of(int fd, char *room) { /* of a descriptor */
  char link[64];
  if (log_fd < 0) return NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, room, PATH - 1);
  if (n < 0) return NULL;
  room[n] = '\0';
  return mine(room);
}
static const char *mine_at(int folder, const char *name, char *room) {
  if (name[0] == '/' || folder == AT_FDCWD) return mine(name);
  if (!mine_of(folder, room)) return NULL;
  const size_t n = strlen(room);
  snprintf(room + n, PATH - n, "/%s", name);
  return mine(room);
}

static void note(const void *bytes, size_t n, const char *format, ...) {
  char line[2 * PATH + 64];
  va_list args;
  va_start(args, format);
  const int length = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (syscall(SYS_write, log_fd, line, length) != length || (n && syscall(SYS_write, log_fd, bytes, n) != (long)n))
    abort();
}

#define RECORDED(path, call, ...)                 \
  do {                                            \
    pthread_mutex_lock(&lock);                    \
    const long result = call;                     \
    const int error = errno;                      \
    if ((path) && result >= 0) note(__VA_ARGS__); \
    pthread_mutex_unlock(&lock);                  \
    errno = error;                                \
    return (__typeof__(RETURNS))result;           \
  } while (0)

int open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
  va_end(args);
  struct stat there;
  pthread_mutex_lock(&lock);
  const char *p = flags & O_CREAT ? mine(path) : NULL;
  const int makes = p && syscall(SYS_newfstatat, AT_FDCWD, path, &there, 0) != 0;
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), error = errno;
  if (fd >= 0 && makes) note(NULL, 0, "C %s\n", p);
  if (fd >= 0 && p && flags & O_TRUNC) note(NULL, 0, "T 0 %s\n", p);
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}
static ssize_t put(int fd, const void *bytes, size_t n, off_t at, int here) {
  char room[PATH];
  struct stat info;
  pthread_mutex_lock(&lock);
  const char *p = mine_of(fd, room);
  if (p && here && syscall(SYS_fstat, fd, &info) == 0)
    at = syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND ? info.st_size : syscall(SYS_lseek, fd, 0, SEEK_CUR);
  const ssize_t done = here ? syscall(SYS_write, fd, bytes, n) : syscall(SYS_pwrite64, fd, bytes, n, at);
  const int error = errno;
  if (p && done > 0) note(bytes, (size_t)done, "W %lld %lld %s\n", (long long)at, (long long)done, p);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}
ssize_t write(int fd, const void *bytes, size_t n) { return put(fd, bytes, n, 0, 1); }
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { return put(fd, bytes, n, at, 0); }

#define RETURNS (int)0
int ftruncate(int fd, off_t n) {
  char room[PATH];
  const char *p = mine_of(fd, room);
  RECORDED(p, syscall(SYS_ftruncate, fd, n), NULL, 0, "T %lld %s\n", (long long)n, p);
}
int fsync(int fd) {
  char room[PATH];
  const char *p = mine_of(fd, room);
  RECORDED(p, syscall(SYS_fsync, fd), NULL, 0, "S %s\n", p);
}
int rename(const char *old, const char *new) {
  const char *p = mine(old), *q = mine(new);
  RECORDED(p, syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0), NULL, 0, "R %s\t%s\n", p, q);
}
int link(const char *old, const char *new) {
  const char *p = mine(old), *q = mine(new);
  RECORDED(p, syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0), NULL, 0, "L %s\t%s\n", p, q);
}
int unlink(const char *path) {
  const char *p = mine(path);
  RECORDED(p, syscall(SYS_unlinkat, AT_FDCWD, path, 0), NULL, 0, "U %s\n", p);
}
int unlinkat(int folder, const char *name, int flags) {
  char room[PATH];
  const char *p = mine_at(folder, name, room);
  RECORDED(p, syscall(SYS_unlinkat, folder, name, flags), NULL, 0, "%c %s\n", flags & AT_REMOVEDIR ? 'D' : 'U', p);
}
int rmdir(const char *path) {
  const char *p = mine(path);
  RECORDED(p, syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR), NULL, 0, "D %s\n", p);
}
int mkdir(const char *path, mode_t mode) {
  const char *p = mine(path);
  RECORDED(p, syscall(SYS_mkdirat, AT_FDCWD, path, mode), NULL, 0, "M %s\n", p);
}
