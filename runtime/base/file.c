/* Writes whole files through a temporary file beside them, which a rename puts into place in one step. */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/activity.h"

struct sl_file {
  int fd;
  char *path, *temporary;
  size_t unsynced; /* bytes written since the last fdatasync */
};

/* Limits on the bytes of a write and of an fsync: calls stay short even on a slow disk, so that a long call means that
 * the disk hangs. */
enum { MOST_BYTES = 1 << 26, MOST_UNSYNCED = 1 << 28 };

static int synchronise(int fd, const char *path) { return (int)SL_CALL_OF_FILE("fsync", path, sl_file_sync(fd)); }

static int open_again(const char *path, int flags, unsigned mode) {
  int fd;
  do {
    fd = open(path, flags, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

/* Returns true when waits for the other end of a pipe must stop; NULL: they never stop. */
static int (*told_to_stop)(void);
void sl_file_wait_until(int (*told)(void)) { told_to_stop = told; }

/* Opens a pipe when its other end is open. open() itself would keep waiting after a signal whose handler has
 * SA_RESTART. */
static int open_pipe(const char *path, int flags) {
  enum { LOOK_MS = 50 };
  const int reads = (flags & O_ACCMODE) == O_RDONLY;
  struct pollfd pipe = {.fd = open_again(path, flags | O_NONBLOCK, 0), .events = POLLIN};
  while (pipe.fd < 0 ? errno == ENXIO && !reads : reads && poll(&pipe, 1, LOOK_MS) <= 0) {
    if (told_to_stop()) {
      if (pipe.fd >= 0) close(pipe.fd);
      errno = EINTR;
      return -1;
    }
    if (pipe.fd < 0) poll(NULL, 0, LOOK_MS), pipe.fd = open_again(path, flags | O_NONBLOCK, 0);
  }
  if (pipe.fd >= 0) fcntl(pipe.fd, F_SETFL, fcntl(pipe.fd, F_GETFL) & ~O_NONBLOCK);
  return pipe.fd;
}

int sl_file_open(const char *path, int flags, unsigned mode) {
  struct stat info;
  const int at_once = flags & (O_CREAT | O_DIRECTORY) || SL_CALL_OF_FILE("stat", path, stat(path, &info)) != 0 ||
                      S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
  if (at_once) return (int)SL_CALL_OF_FILE("open", path, open_again(path, flags, mode));
  return S_ISFIFO(info.st_mode) && told_to_stop ? open_pipe(path, flags) : open_again(path, flags, mode);
}

FILE *sl_file_stream(const char *path) {
  const int fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
  if (fd >= 0 && !file) {
    const int error = errno;
    close(fd);
    errno = error;
  }
  return file;
}

int sl_file_sync(int fd) {
  int code;
  do {
    code = fsync(fd);
  } while (code != 0 && errno == EINTR);
  return code;
}

int sl_file_sync_data(int fd) {
  int code;
  do {
    code = fdatasync(fd);
  } while (code != 0 && errno == EINTR);
  return code;
}

/* The remedy for a full or failing disk; NULL: the error has another cause, such as permissions. */
static const char *mend_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another place";
    case EFBIG:
      return "raise the limit of a file's size (ulimit -f) or choose another place";
    case EIO:
      return "the disk or file server fails: choose another place";
    default:
      return NULL;
  }
}

static sl_status failed(const char *what, const char *path, int error) {
  if (error == EINTR) /* from open_pipe */
    return sl_fail(SL_EINTERRUPTED, "cannot %s %s: stopped by a signal before the pipe's other end was open", what,
                   path);
  return sl_fail(error == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot %s %s: %s", what, path, strerror(error));
}

sl_status sl_file_failed(const char *what, const char *path, int error) {
  const char *mend = mend_of(error);
  if (!mend) return failed(what, path, error);
  sl_fail(SL_EWRITE, "cannot %s %s: %s; %s", what, path, strerror(error), mend);
  return sl_blame(SL_EWRITE, "path");
}

static sl_status not_regular(const char *path, mode_t mode) {
  return sl_fail(SL_EIO, "%s is a %s, not a regular file: remove it, or put the file back that was there", path,
                 S_ISFIFO(mode)   ? "pipe"
                 : S_ISDIR(mode)  ? "folder"
                 : S_ISSOCK(mode) ? "socket"
                                  : "device");
}

sl_status sl_file_check_regular(const char *path) {
  struct stat info;
  const int there = SL_CALL_OF_FILE("stat", path, stat(path, &info)) == 0;
  return there && !S_ISREG(info.st_mode) ? not_regular(path, info.st_mode) : SL_OK;
}

sl_status sl_file_open_regular(const char *path, int flags, unsigned mode, int *fd) {
  struct stat info;
  *fd = -1;
  SL_TRY(sl_file_check_regular(path)); /* opening a pipe would let its writer go on, and a device may act */
  *fd = (int)SL_CALL_OF_FILE("open", path, open_again(path, flags | O_NONBLOCK, mode));
  if (*fd < 0)
    return (flags & O_ACCMODE) == O_RDONLY ? failed("read", path, errno) : sl_file_failed("write", path, errno);
  const int error = fstat(*fd, &info) == 0 ? 0 : errno;
  if (!error && S_ISREG(info.st_mode)) return SL_OK;
  close(*fd);
  *fd = -1;
  return error ? failed("read the type of", path, error) : not_regular(path, info.st_mode);
}

/* A missing parent gives SL_EIO, not SL_ENOTFOUND. */
static sl_status fail_to_make(const char *path, int error) {
  return mend_of(error) ? sl_file_failed("make the folder", path, error)
                        : sl_fail(SL_EIO, "cannot make the folder %s: %s", path, strerror(error));
}

/* Offset of the last name in a path: 4 in "a/b/c", 0 in "c". */
static size_t name_start(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The folder of a path, which the caller frees; NULL: no memory. */
static char *folder_of(const char *path) {
  const size_t start = name_start(path);
  return start ? strndup(path, start) : strdup(".");
}

/* Whether path is a descriptor of a process, such as /proc/self/fd/1, to which /dev/stdout and /dev/fd/1 lead. *own:
 * the descriptor's number if it is one of this process, else -1. */
static int is_descriptor(const char *path, int *own) {
  char *folder = folder_of(path), *end;
  char *real = folder ? SL_POINTER_OF_FILE("realpath", path, realpath(folder, NULL)) : NULL;
  char *ours = real ? realpath("/proc/self/fd", NULL) : NULL,
       *thread = ours ? realpath("/proc/thread-self/fd", NULL) : NULL;
  const char *name = path + name_start(path);
  const int is =
      real && (fnmatch("/proc/*/fd", real, FNM_PATHNAME) == 0 || fnmatch("/proc/*/task/*/fd", real, FNM_PATHNAME) == 0);
  *own = -1;
  if (is && ((ours && strcmp(real, ours) == 0) || (thread && strcmp(real, thread) == 0))) {
    const long number = strtol(name, &end, 10);
    if (end > name && !*end && number >= 0 && number <= INT_MAX) *own = (int)number;
  }
  free(folder), free(real), free(ours), free(thread);
  return is;
}

/* Resolves symbolic links, even if the final target does not exist. Does not resolve the link of a descriptor, because
 * its text may name a file that is gone or no file at all; *target is then the link itself. The caller frees *target.
 */
static sl_status follow_links(const char *path, char **target, int *descriptor, int *own) {
  enum { MOST_LINKS = 40 };
  char link[PATH_MAX];
  *target = strdup(path);
  for (int i = 0; *target && i < MOST_LINKS; i++) {
    const ssize_t n = readlink(*target, link, sizeof link - 1);
    if (n < 0) return SL_OK; /* no link */
    if ((*descriptor = is_descriptor(*target, own))) return SL_OK;
    link[n] = '\0';
    char *next = NULL;
    if (asprintf(&next, "%.*s%s", link[0] == '/' ? 0 : (int)name_start(*target), *target, link) < 0) next = NULL;
    free(*target);
    *target = next;
  }
  if (!*target) return sl_no_memory("for writing %s", path);
  free(*target);
  *target = NULL;
  return sl_file_failed("write", path, ELOOP);
}

/* Opens a new temporary file beside file->path. */
static void open_temporary(sl_file *file, size_t room) {
  static atomic_uint serial; /* several threads may write the same path */
  const char *path = file->path;
  const size_t start = name_start(path);
  do {
    snprintf(file->temporary, room, "%.*s.%s.%ld-%u.tmp", (int)start, path, path + start, (long)getpid(),
             atomic_fetch_add(&serial, 1));
    file->fd =
        (int)SL_CALL_OF_FILE("open", path, open_again(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (file->fd < 0 && errno == EEXIST); /* a killed process with the same pid left one */
}

/* Opens a pipe, device or descriptor, which is written to, not replaced. `own` is this process's descriptor, used as it
 * is, because opening it anew would lose its offset and the O_APPEND of ">>"; -1: path names none. */
static int open_through(const char *path, int own) {
  if (own < 0) return sl_file_open(path, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
  fflush(stdout); /* what was printed comes first */
  return fcntl(own, F_DUPFD_CLOEXEC, 0);
}

sl_status sl_file_create(const char *path, sl_file **result) {
  struct stat there;
  sl_status status = SL_OK;
  int descriptor = 0, own = -1;
  *result = NULL;
  sl_file *file = calloc(1, sizeof *file);
  if (!file) return sl_no_memory("for writing %s", path);
  file->fd = -1;
  SL_TRY_OUT(follow_links(path, &file->path, &descriptor, &own));
  const int exists = SL_CALL_OF_FILE("stat", file->path, stat(file->path, &there)) == 0;
  if (!file->path[name_start(file->path)])
    SL_TRY_OUT(sl_fail(SL_EINVAL, "cannot write %s: it names a folder, not a file", path));
  if (exists && S_ISDIR(there.st_mode)) SL_TRY_OUT(sl_file_failed("write", path, EISDIR));
  const size_t room = strlen(file->path) + 64;
  if (!(file->temporary = calloc(room, 1))) SL_TRY_OUT(sl_no_memory("for writing %s", path));
  if (descriptor || (exists && !S_ISREG(there.st_mode)))
    file->fd = open_through(file->path, own);
  else
    open_temporary(file, room);
  if (file->fd < 0 && (mend_of(errno) || errno == EINTR)) SL_TRY_OUT(sl_file_failed("write", path, errno));
  if (file->fd < 0) SL_TRY_OUT(sl_fail(SL_EIO, "cannot write %s: %s", path, strerror(errno)));
  *result = file;
  file = NULL;
out:
  sl_file_discard(file);
  return status;
}

sl_status sl_file_write(sl_file *file, const void *bytes, size_t n) {
  for (const char *at = bytes; n > 0;) {
    const size_t now = n < MOST_BYTES ? n : MOST_BYTES;
    const ssize_t done = SL_CALL_OF_FILE("write", file->path, write(file->fd, at, now));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return sl_file_failed("write", file->path, done < 0 ? errno : ENOSPC);
    at += done, n -= (size_t)done, file->unsynced += (size_t)done;
    if (file->unsynced < MOST_UNSYNCED || !file->temporary[0]) continue;
    file->unsynced = 0;
    if (SL_CALL_OF_FILE("fdatasync", file->path, sl_file_sync_data(file->fd)) != 0 && errno != EINVAL)
      return sl_file_failed("write", file->path, errno);
  }
  return SL_OK;
}

sl_status sl_file_overwrite(sl_file *file, uint64_t offset, const void *bytes, size_t n) {
  /* Nobody knows at which offset the bytes of a pipe or descriptor begin. */
  if (!file->temporary[0]) return sl_file_failed("write", file->path, ESPIPE);
  for (const char *at = bytes; n > 0;) {
    const ssize_t done = SL_CALL_OF_FILE("write", file->path, pwrite(file->fd, at, n, (off_t)offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return sl_file_failed("write", file->path, done < 0 ? errno : ENOSPC);
    at += done, offset += (uint64_t)done, n -= (size_t)done;
  }
  return SL_OK;
}

sl_status sl_folder_make(const char *path) {
  return SL_CALL_OF_FILE("mkdir", path, mkdir(path, 0777)) == 0 || errno == EEXIST ? SL_OK : fail_to_make(path, errno);
}

sl_status sl_folder_make_all(const char *path, unsigned mode, int *made) {
  sl_status status = SL_OK;
  int new_at_end = 0;
  char *part = strdup(path);
  if (!part) return sl_no_memory("to make the folder %s", path);
  for (char *end = part;;) {
    end += strspn(end, "/"), end += strcspn(end, "/"); /* to the end of the next component */
    const char after = *end;
    *end = '\0';
    const int error = SL_CALL_OF_FILE("mkdir", part, mkdir(part, mode)) == 0 ? 0 : errno;
    if (!error)
      new_at_end++;
    else if (error == EEXIST ||
             access(part, F_OK) == 0) /* on a read-only disk, mkdir of a folder that exists gives EROFS */
      new_at_end = 0;
    else
      SL_TRY_OUT(fail_to_make(part, error));
    *end = after;
    if (!end[strspn(end, "/")]) break;
  }
out:
  free(part);
  if (made) *made = new_at_end;
  return status;
}

sl_status sl_folder_sync(const char *folder) {
  sl_status status = SL_OK;
  const int fd = sl_file_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  /* A folder without read permission (mode -wx) cannot be opened, so it stays unsynchronised. */
  if (fd >= 0 && synchronise(fd, folder) != 0 && errno != EINVAL && errno != EROFS)
    status = sl_file_failed("synchronise", folder, errno);
  if (fd >= 0) SL_CALL_OF_FILE("close", folder, close(fd));
  return status;
}

/* Synchronises the folder that holds path, so that the rename survives a crash. */
static sl_status sync_folder_of(const char *path) {
  char *folder = folder_of(path);
  if (!folder) return sl_no_memory("for writing %s", path);
  const sl_status status = sl_folder_sync(folder);
  free(folder);
  return status;
}

sl_status sl_file_commit(sl_file *file) {
  sl_status status = SL_OK;
  const int through = !file->temporary[0]; /* writes directly to a device, pipe or descriptor */
  if (!through && synchronise(file->fd, file->path) != 0 && errno != EINVAL)
    status = sl_file_failed("write", file->path, errno);
  const int closed = (int)SL_CALL_OF_FILE("close", file->path, close(file->fd));
  file->fd = -1;
  if (status == SL_OK && closed != 0) status = sl_file_failed("write", file->path, errno);
  if (through) {
    sl_file_discard(file);
    return status;
  }
  const int is_new = status == SL_OK && access(file->path, F_OK) != 0;
  if (status == SL_OK && SL_CALL_OF_FILE("rename", file->path, rename(file->temporary, file->path)) != 0)
    status = sl_file_failed("write", file->path, errno);
  if (status == SL_OK) {
    status = sync_folder_of(file->path);
    file->temporary[0] = '\0';
    if (status != SL_OK && is_new) { /* remove a file that a crash may lose, so that the next start writes it again */
      const sl_failure why = sl_failure_keep(status);
      SL_CALL_OF_FILE("unlink", file->path, unlink(file->path));
      sl_failure_again(&why);
    }
  }
  sl_file_discard(file);
  return status;
}

void sl_file_discard(sl_file *file) {
  if (!file) return;
  if (file->fd >= 0) SL_CALL_OF_FILE("close", file->path, close(file->fd));
  if (file->temporary && file->temporary[0]) SL_CALL_OF_FILE("unlink", file->path, unlink(file->temporary));
  free(file->path), free(file->temporary), free(file);
}

/* The process id in the name of an entry; 0: the entry is no temporary file of `name`. */
static pid_t writer_of(const char *entry, const char *name) {
  const size_t n = strlen(name);
  long pid = 0;
  unsigned serial;
  int end = 0;
  if (entry[0] != '.' || strncmp(entry + 1, name, n) != 0) return 0;
  return sscanf(entry + 1 + n, ".%ld-%u.tmp%n", &pid, &serial, &end) == 2 && end > 0 && !entry[1 + n + (size_t)end]
             ? (pid_t)pid
             : 0;
}

void sl_file_tidy(const char *path) {
  const size_t start = name_start(path);
  char *folder = folder_of(path);
  DIR *entries = folder ? sl_folder_open(folder) : NULL;
  int error;
  for (struct dirent *entry; entries && (entry = sl_folder_next(entries, folder, &error));) {
    const pid_t pid = writer_of(entry->d_name, path + start);
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH)
      SL_CALL_OF_FILE("unlink", folder, unlinkat(dirfd(entries), entry->d_name, 0));
  }
  if (entries) closedir(entries);
  free(folder);
}

sl_status sl_file_replace(const char *path, const void *bytes, size_t n) {
  sl_file *file;
  SL_TRY(sl_file_create(path, &file));
  sl_status status = sl_file_write(file, bytes, n);
  if (status == SL_OK) return sl_file_commit(file);
  sl_file_discard(file);
  return status;
}

ssize_t sl_file_get(int fd, const char *path, void *bytes, size_t n) {
  struct stat info;
  const int regular = SL_CALL_OF_FILE("stat", path, fstat(fd, &info)) == 0 && S_ISREG(info.st_mode);
  ssize_t got;
  do {
    got = regular ? SL_CALL_OF_FILE("read", path, read(fd, bytes, n)) : read(fd, bytes, n);
  } while (got < 0 && errno == EINTR);
  return got;
}

DIR *sl_folder_open(const char *path) { return SL_POINTER_OF_FILE("opendir", path, opendir(path)); }

struct dirent *sl_folder_next(DIR *folder, const char *path, int *error) {
  struct dirent *entry = SL_POINTER_OF_FILE("readdir", path, (errno = 0, readdir(folder)));
  *error = entry ? 0 : errno;
  return entry;
}

/* Reads the file open as fd, and closes it. */
static sl_status read_all(int fd, const char *path, size_t limit, char **bytes, size_t *n) {
  sl_status status = SL_OK;
  char *buffer = NULL;
  size_t used = 0, room = 0;
  struct stat info;
  if (fstat(fd, &info) != 0) SL_TRY_OUT(failed("read", path, errno));
  if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > limit)
    SL_TRY_OUT(
        sl_fail(SL_EFORMAT, "%s has %lld bytes, more than the %zu allowed here", path, (long long)info.st_size, limit));
  for (;;) {
    if (used ==
        room) { /* one byte more than the file has, so that read() finds its end before the buffer grows again */
      room = room ? 2 * room : S_ISREG(info.st_mode) ? (size_t)info.st_size + 1 : 4096;
      char *larger = realloc(buffer, room + 1);
      if (!larger) SL_TRY_OUT(sl_no_memory("for %s (%zu bytes)", path, room));
      buffer = larger;
    }
    const ssize_t got = sl_file_get(fd, path, buffer + used, room - used);
    if (got < 0) SL_TRY_OUT(failed("read", path, errno));
    if (got == 0) break;
    used += (size_t)got;
    if (used > limit) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s has more than the %zu bytes allowed here", path, limit));
  }
  buffer[used] = '\0';
  *bytes = buffer, *n = used;
out:
  SL_CALL_OF_FILE("close", path, close(fd));
  if (status != SL_OK) free(buffer);
  return status;
}

sl_status sl_file_read(const char *path, size_t limit, char **bytes, size_t *n) {
  *bytes = NULL, *n = 0;
  const int fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0);
  return fd < 0 ? failed("read", path, errno) : read_all(fd, path, limit, bytes, n);
}

sl_status sl_file_read_regular(const char *path, size_t limit, char **bytes, size_t *n) {
  int fd;
  *bytes = NULL, *n = 0;
  SL_TRY(sl_file_open_regular(path, O_RDONLY | O_CLOEXEC, 0, &fd));
  return read_all(fd, path, limit, bytes, n);
}
