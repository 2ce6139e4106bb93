/* Whole files, by way of a temporary beside them: a rename is the one step that readers see. */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* Calls that a slow disk keeps stay short, so that one that hangs can be told from one that is slow: most bytes of a
 * write, and of what fsync has left to do. */
enum { MOST_BYTES = 1 << 26, MOST_UNSYNCED = 1 << 28 };

static int synchronise(int fd, const char *path) { return (int)SL_CALL_OF_FILE("fsync", path, sl_file_sync(fd)); }

int sl_file_open(const char *path, int flags, unsigned mode) {
  int fd;
  do {
    fd = open(path, flags, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
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

struct dirent *sl_folder_next(DIR *folder, int *error) {
  errno = 0;
  struct dirent *entry = readdir(folder);
  *error = entry ? 0 : errno;
  return entry;
}

/* What mends a write that failed so; NULL: the file system's own reasons, such as permissions. */
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

sl_status sl_file_failed(const char *what, const char *path, int error) {
  const char *mend = mend_of(error);
  if (!mend) return sl_fail(error == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot %s %s: %s", what, path, strerror(error));
  sl_fail(SL_EWRITE, "cannot %s %s: %s; %s", what, path, strerror(error), mend);
  return sl_blame(SL_EWRITE, "path");
}

static sl_status fail_to_read(const char *path, int error) {
  return sl_fail(error == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(error));
}

/* A folder that cannot be made because what is above it is missing is no file that was not found. */
static sl_status fail_to_make(const char *path, int error) {
  return mend_of(error) ? sl_file_failed("make the folder", path, error)
                        : sl_fail(SL_EIO, "cannot make the folder %s: %s", path, strerror(error));
}

/* Offset of the last name in a path: 4 in "a/b/c", 0 in "c". */
static size_t name_start(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The path behind symbolic links, also if nothing is there yet. The caller frees *target. */
static sl_status follow_links(const char *path, char **target) {
  enum { MOST_LINKS = 40 };
  char link[PATH_MAX];
  *target = strdup(path);
  for (int i = 0; *target && i < MOST_LINKS; i++) {
    const ssize_t n = readlink(*target, link, sizeof link - 1);
    if (n < 0) return SL_OK; /* no link */
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
    file->fd = (int)SL_CALL_OF_FILE("open", path,
                                    sl_file_open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (file->fd < 0 && errno == EEXIST); /* left by a killed process of the same number */
}

sl_status sl_file_create(const char *path, sl_file **result) {
  struct stat there;
  sl_status status = SL_OK;
  *result = NULL;
  sl_file *file = calloc(1, sizeof *file);
  if (!file) return sl_no_memory("for writing %s", path);
  file->fd = -1;
  SL_TRY_OUT(follow_links(path, &file->path));
  const int exists = stat(file->path, &there) == 0;
  if (!file->path[name_start(file->path)])
    SL_TRY_OUT(sl_fail(SL_EINVAL, "cannot write %s: it names a folder, not a file", path));
  if (exists && S_ISDIR(there.st_mode)) SL_TRY_OUT(sl_file_failed("write", path, EISDIR));
  const size_t room = strlen(file->path) + 64;
  if (!(file->temporary = calloc(room, 1))) SL_TRY_OUT(sl_no_memory("for writing %s", path));
  if (exists && !S_ISREG(there.st_mode))
    file->fd = sl_file_open(file->path, O_WRONLY | O_CLOEXEC, 0);
  else
    open_temporary(file, room);
  if (file->fd < 0 && mend_of(errno)) SL_TRY_OUT(sl_file_failed("write", path, errno));
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
  for (const char *at = bytes; n > 0;) {
    const ssize_t done = SL_CALL_OF_FILE("write", file->path, pwrite(file->fd, at, n, (off_t)offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return sl_file_failed("write", file->path, done < 0 ? errno : ENOSPC);
    at += done, offset += (uint64_t)done, n -= (size_t)done;
  }
  return SL_OK;
}

sl_status sl_folder_make(const char *path) {
  return mkdir(path, 0777) == 0 || errno == EEXIST ? SL_OK : fail_to_make(path, errno);
}

sl_status sl_folder_make_all(const char *path, unsigned mode, int *made) {
  sl_status status = SL_OK;
  int new_at_end = 0;
  char *part = strdup(path);
  if (!part) return sl_no_memory("to make the folder %s", path);
  for (char *end = part;;) {
    end += strspn(end, "/"), end += strcspn(end, "/"); /* behind the next component */
    const char after = *end;
    *end = '\0';
    const int error = mkdir(part, mode) == 0 ? 0 : errno;
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
  int fd = sl_file_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  /* A folder without read permission (mode -wx) cannot be opened, so it stays unsynchronised. */
  if (fd >= 0 && synchronise(fd, folder) != 0 && errno != EINVAL && errno != EROFS)
    status = sl_file_failed("synchronise", folder, errno);
  if (fd >= 0) close(fd);
  return status;
}

/* Writes the folder that holds path to the disk, so that the rename outlives a crash. */
static sl_status sync_folder_of(const char *path) {
  size_t start = name_start(path);
  char *folder = start ? strndup(path, start) : strdup(".");
  if (!folder) return sl_no_memory("for writing %s", path);
  const sl_status status = sl_folder_sync(folder);
  free(folder);
  return status;
}

sl_status sl_file_commit(sl_file *file) {
  sl_status status = SL_OK;
  const int through = !file->temporary[0]; /* to a device or pipe */
  if (!through && synchronise(file->fd, file->path) != 0 && errno != EINVAL)
    status = sl_file_failed("write", file->path, errno);
  int closed = close(file->fd);
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
    if (status != SL_OK && is_new) { /* what a crash may lose is not there, so that the next start writes it again */
      const sl_failure why = sl_failure_keep(status);
      unlink(file->path);
      sl_failure_again(&why);
    }
  }
  sl_file_discard(file);
  return status;
}

void sl_file_discard(sl_file *file) {
  if (!file) return;
  if (file->fd >= 0) close(file->fd);
  if (file->temporary && file->temporary[0]) unlink(file->temporary);
  free(file->path), free(file->temporary), free(file);
}

sl_status sl_file_replace(const char *path, const void *bytes, size_t n) {
  sl_file *file;
  SL_TRY(sl_file_create(path, &file));
  sl_status status = sl_file_write(file, bytes, n);
  if (status == SL_OK) return sl_file_commit(file);
  sl_file_discard(file);
  return status;
}

sl_status sl_file_read(const char *path, size_t limit, char **bytes, size_t *n) {
  *bytes = NULL, *n = 0;
  sl_status status = SL_OK;
  char *buffer = NULL;
  size_t used = 0, room = 0;
  struct stat info;
  int fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return fail_to_read(path, errno);
  if (fstat(fd, &info) != 0) SL_TRY_OUT(fail_to_read(path, errno));
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
    ssize_t got = read(fd, buffer + used, room - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) SL_TRY_OUT(fail_to_read(path, errno));
    if (got == 0) break;
    used += (size_t)got;
    if (used > limit) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s has more than the %zu bytes allowed here", path, limit));
  }
  buffer[used] = '\0';
  *bytes = buffer, *n = used;
out:
  close(fd);
  if (status != SL_OK) free(buffer);
  return status;
}
