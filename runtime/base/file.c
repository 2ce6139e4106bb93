/* Writes whole files through a temporary file beside them, which a rename puts into place in one step. */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* Limits on the bytes of a write and of an fsync: calls stay short even on a slow disk, so that long ones show a
 * hanging disk. */
enum { MOST_BYTES = 1 << 26, MOST_UNSYNCED = 1 << 28 };

static int synchronise(int fd, const char *path) { return (int)SL_CALL_OF_FILE("fsync", path, sl_file_sync(fd)); }

static int open_again(const char *path, int flags, unsigned mode) {
  int fd;
  do {
    fd = open(path, flags, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int sl_file_open(const char *path, int flags, unsigned mode) {
  struct stat info;
  const int at_once = flags & (O_CREAT | O_DIRECTORY) || SL_CALL_OF_FILE("stat", path, stat(path, &info)) != 0 ||
                      S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
  return at_once ? (int)SL_CALL_OF_FILE("open", path, open_again(path, flags, mode)) : open_again(path, flags, mode);
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

sl_status sl_file_failed(const char *what, const char *path, int error) {
  const char *mend = mend_of(error);
  if (!mend) return sl_fail(error == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot %s %s: %s", what, path, strerror(error));
  sl_fail(SL_EWRITE, "cannot %s %s: %s; %s", what, path, strerror(error), mend);
  return sl_blame(SL_EWRITE, "path");
}

static sl_status fail_to_read(const char *path, int error) {
  return sl_fail(error == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(error));
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

/* Resolves symbolic links, even if the final target does not exist. The caller frees *target. */
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
    file->fd =
        (int)SL_CALL_OF_FILE("open", path, open_again(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (file->fd < 0 && errno == EEXIST); /* a killed process with the same pid left one */
}

sl_status sl_file_create(const char *path, sl_file **result) {
  struct stat there;
  sl_status status = SL_OK;
  *result = NULL;
  sl_file *file = calloc(1, sizeof *file);
  if (!file) return sl_no_memory("for writing %s", path);
  file->fd = -1;
  SL_TRY_OUT(follow_links(path, &file->path));
  const int exists = SL_CALL_OF_FILE("stat", file->path, stat(file->path, &there)) == 0;
  if (!file->path[name_start(file->path)])
    SL_TRY_OUT(sl_fail(SL_EINVAL, "cannot write %s: it names a folder, not a file", path));
  if (exists && S_ISDIR(there.st_mode)) SL_TRY_OUT(sl_file_failed("write", path, EISDIR));
  const size_t room = strlen(file->path) + 64;
  if (!(file->temporary = calloc(room, 1))) SL_TRY_OUT(sl_no_memory("for writing %s", path));
  if (exists && !S_ISREG(there.st_mode))
    file->fd = sl_file_open(file->path, O_WRONLY | O_CLOEXEC, 0); /* a pipe waits for its reader */
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
  size_t start = name_start(path);
  char *folder = start ? strndup(path, start) : strdup(".");
  if (!folder) return sl_no_memory("for writing %s", path);
  const sl_status status = sl_folder_sync(folder);
  free(folder);
  return status;
}

sl_status sl_file_commit(sl_file *file) {
  sl_status status = SL_OK;
  const int through = !file->temporary[0]; /* writes directly to a device or pipe */
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

/* The number of the process in the name of a temporary file of `name`; 0: it is none. */
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
  char *folder = start ? strndup(path, start) : strdup(".");
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

sl_status sl_file_read(const char *path, size_t limit, char **bytes, size_t *n) {
  *bytes = NULL, *n = 0;
  sl_status status = SL_OK;
  char *buffer = NULL;
  size_t used = 0, room = 0;
  struct stat info;
  const int fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0);
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
    const ssize_t got = sl_file_get(fd, path, buffer + used, room - used);
    if (got < 0) SL_TRY_OUT(fail_to_read(path, errno));
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
