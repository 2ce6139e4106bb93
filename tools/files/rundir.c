/* The run directory. A marker file identifies it; a lock on the marker shows that a run is writing there. */
#include "tools/files/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "runtime/files/checkpoint.h"
#include "runtime/trace/timeline.h"

#define MARKER_TEXT "A run directory of Starling, format 1. docs/reference/formats.md says what the files are.\n"
static const size_t METRICS_LIMIT_BYTES = (size_t)4 << 30;

static const char *const names[SL__RUNDIR_FILE_COUNT] = {
#define SL__RUNDIR_NAME(name, file) file,
    SL__RUNDIR_FILES(SL__RUNDIR_NAME)
#undef SL__RUNDIR_NAME
};

struct sl__rundir {
  char *path;
  char *files[SL__RUNDIR_FILE_COUNT]; /* path/names[i] */
  sl__rundir_mode mode;
  int made;       /* new directories: the last `made` components of path */
  int unbegun;    /* it existed, but its run had not begun */
  int marker_fd;  /* holds the lock; -1: not yet open */
  int metrics_fd; /* -1 until the first line */
  char *waiting;  /* lines of metrics that are not written yet */
  size_t waits, room;
};

const char *sl__rundir_path(const sl__rundir *r) { return r->path; }
const char *sl__rundir_file_path(const sl__rundir *r, sl__rundir_file file) { return r->files[file]; }
const char *sl__rundir_file_name(sl__rundir_file file) { return names[file]; }

/* Removes the last `made` components that exist, up to one that is not empty. */
static void remove_made(const char *path, int made) {
  char *left = strdup(path);
  while (left && made > 0) {
    if (SL_CALL_OF_FILE("rmdir", left, rmdir(left)) == 0)
      made--;
    else if (errno != ENOENT && errno != ENAMETOOLONG && errno != ENOTDIR)
      break;
    char *slash = strrchr(left, '/');
    if (!slash) break;
    while (slash > left && slash[-1] == '/') slash--;
    *slash = '\0';
  }
  free(left);
}

/* stall-DATE.json, or .stall-RANK.part, which remains if the stall passes (tools/watch/stall.h). */
static int is_of_stall(const char *name) {
  return strncmp(name, ".stall-", 7) == 0 || (strncmp(name, "stall-", 6) == 0 && strstr(name, ".json"));
}

static int is_named(const char *name) {
  if (sl_timeline_is_name(name) || is_of_stall(name)) return 1;
  for (int i = 0; i < SL__RUNDIR_FILE_COUNT; i++)
    if (i != SL__RUNDIR_MARKER && strcmp(name, names[i]) == 0) return 1;
  return 0;
}

/* Whether name is a listed file other than the marker, a rank's timeline, or a temporary file of one of these that a
 * killed run left. */
static int is_ours(const char *name) {
  char inner[256]; /* .NAME.NUMBER.tmp */
  const size_t n = strlen(name);
  if (is_named(name)) return 1;
  if (name[0] != '.' || n < 6 || n >= sizeof inner || strcmp(name + n - 4, ".tmp") != 0) return 0;
  snprintf(inner, sizeof inner, "%.*s", (int)n - 5, name + 1);
  char *number = strrchr(inner, '.');
  if (number) *number = '\0';
  return number && is_named(inner);
}

/* Removes the checkpoints of a run; *others as in remove_files. */
static sl_status remove_checkpoints(const char *path, int *others) {
  char *folder;
  int more = 0;
  if (asprintf(&folder, "%s/%s", path, names[SL__RUNDIR_CHECKPOINTS]) < 0) return sl_no_memory("for %s", path);
  const sl_status status = sl_checkpoint_tidy(folder, 1, &more);
  *others += more;
  free(folder);
  return status;
}

/* Removes the files that a run writes, or only the temporaries; *others counts all other files except the marker. */
static sl_status remove_files(const char *path, int only_temporaries, int *others) {
  sl_status status = SL_OK;
  DIR *folder = sl_folder_open(path);
  if (!folder) return sl_fail(SL_EIO, "cannot read the run directory %s: %s", path, strerror(errno));
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(folder, path, &error));) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, names[SL__RUNDIR_MARKER]) == 0) continue;
    if (!is_ours(name)) {
      ++*others;
    } else if (strcmp(name, names[SL__RUNDIR_CHECKPOINTS]) == 0) {
      if (!only_temporaries) SL_TRY_OUT(remove_checkpoints(path, others));
    } else if (!(only_temporaries && name[0] != '.') &&
               SL_CALL_OF_FILE("unlink", path, unlinkat(dirfd(folder), name, 0)) != 0) {
      SL_TRY_OUT(sl_fail(SL_EIO, "cannot remove %s/%s: %s", path, name, strerror(errno)));
    }
  }
  if (error) status = sl_fail(SL_EIO, "cannot read the run directory %s: %s", path, strerror(error));
out:
  closedir(folder);
  return status;
}

static int is_empty(const char *path) {
  DIR *folder = sl_folder_open(path);
  int entries = 0, error = 0;
  while (folder && sl_folder_next(folder, path, &error)) entries++;
  if (folder) closedir(folder);
  return folder && !error && entries == 2;
}

/* Whether a run directory has no configuration yet, nor anything else that a run leaves: the process that made it ended
 * before its run began. */
static int is_unbegun(const char *path) {
  DIR *folder = sl_folder_open(path);
  int more = 0, error = 0;
  for (struct dirent *d; folder && (d = sl_folder_next(folder, path, &error));)
    more |= d->d_name[0] != '.' && strcmp(d->d_name, names[SL__RUNDIR_HEARTBEAT]) != 0;
  if (folder) closedir(folder);
  return folder && !error && !more;
}

static sl_status set_path(sl__rundir *r, const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  free(r->path);
  if (!(r->path = strndup(path, n))) return sl_no_memory("for %s", path);
  for (int i = 0; i < SL__RUNDIR_FILE_COUNT; i++) {
    free(r->files[i]);
    if (asprintf(&r->files[i], "%s/%s", r->path, names[i]) < 0) {
      r->files[i] = NULL;
      return sl_no_memory("for %s", path);
    }
  }
  return SL_OK;
}

/* Makes the directory. *exists: 1 if it existed already, which is not a failure. */
static sl_status make_directory(sl__rundir *r, int *exists) {
  const sl_status status = sl_folder_make_all(r->path, 0777, &r->made);
  *exists = status == SL_OK && r->made == 0;
  return status == SL_OK ? SL_OK
                         : sl_fail(status, "cannot make the run directory: %s; choose another with --out", sl_error());
}

/* Makes runs/NAME-DATE-TIME; if that exists, the same with -2, -3 and so on. */
static sl_status make_default(sl__rundir *r, const char *name) {
  char path[512], date[32];
  time_t now = time(NULL);
  struct tm local;
  int exists = 1;
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
  for (int i = 1; exists; i++) {
    char number[16] = "";
    if (i > 1) snprintf(number, sizeof number, "-%d", i);
    if (i > 9999)
      return sl_fail(SL_EEXIST, "%s and 9998 more with numbers appended exist; choose another with --out", r->path);
    snprintf(path, sizeof path, "runs/%.400s-%s%s", name, date, number);
    SL_TRY(set_path(r, path));
    SL_TRY(make_directory(r, &exists));
  }
  return SL_OK;
}

/* If a pipe is in a file's place, fails now and names it, not after hours of training, when the file is due. */
static sl_status check_files(const sl__rundir *r) {
  sl_status status = sl_file_check_regular(r->files[SL__RUNDIR_MARKER]);
  DIR *folder = status == SL_OK ? sl_folder_open(r->path) : NULL;
  int error;
  for (struct dirent *d; folder && status == SL_OK && (d = sl_folder_next(folder, r->path, &error));) {
    char *path = NULL;
    if (!is_named(d->d_name) || strcmp(d->d_name, names[SL__RUNDIR_CHECKPOINTS]) == 0) continue;
    if (asprintf(&path, "%s/%s", r->path, d->d_name) < 0) path = NULL;
    status = path ? sl_file_check_regular(path) : sl_no_memory("for %s", r->path);
    free(path);
  }
  if (folder) closedir(folder);
  return status;
}

static sl_status take_existing(sl__rundir *r) {
  struct stat info;
  if (stat(r->path, &info) != 0)
    return sl_fail(SL_EIO, "cannot read the run directory %s: %s", r->path, strerror(errno));
  if (!S_ISDIR(info.st_mode))
    return sl_fail(SL_EEXIST, "%s exists and is not a directory; choose another with --out", r->path);
  const int marked = access(r->files[SL__RUNDIR_MARKER], F_OK) == 0;
  switch (r->mode) {
    case SL__RUNDIR_NEW:
      if (marked && is_unbegun(r->path)) {
        r->unbegun = 1;
        return SL_OK;
      }
      return sl_fail(SL_EEXIST,
                     "the run directory %s exists; --resume continues it, --force starts it afresh, --out names "
                     "another",
                     r->path);
    case SL__RUNDIR_RESUME:
      return marked ? check_files(r)
                    : sl_fail(SL_ENOTFOUND, "%s is not a run directory (no %s in it), so there is nothing to resume",
                              r->path, names[SL__RUNDIR_MARKER]);
    default:
      return marked || is_empty(r->path)
                 ? SL_OK
                 : sl_fail(SL_EEXIST,
                           "%s is not a run directory (no %s in it), so --force leaves it alone; --out names "
                           "another",
                           r->path, names[SL__RUNDIR_MARKER]);
  }
}

/* Locks the marker. A run that goes on waits for the lock: the ranks of a job that has just ended, or was killed, may
 * hold it for some seconds after mpiexec has returned. */
static int lock(const sl__rundir *r) {
  const int64_t until = sl_now() + (r->mode == SL__RUNDIR_RESUME ? SL__RUNDIR_WAIT_S * INT64_C(1000000000) : 0);
  while (SL_CALL_OF_FILE("flock", r->files[SL__RUNDIR_MARKER], flock(r->marker_fd, LOCK_EX | LOCK_NB)) != 0) {
    if (errno != EWOULDBLOCK || sl_now() >= until) return -1;
    usleep(50000);
  }
  return 0;
}

/* Makes the marker and locks it, which also shows that the directory can be written. */
static sl_status take_lock(sl__rundir *r) {
  const char *marker = r->files[SL__RUNDIR_MARKER];
  r->marker_fd = sl_file_open(marker, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (r->marker_fd < 0)
    return sl_fail(errno == ENOSPC || errno == EDQUOT || errno == EIO ? SL_EWRITE : SL_EIO,
                   "cannot write in the run directory %s: %s; choose another with --out", r->path, strerror(errno));
  /* If the lock cannot be had in a directory whose run has not begun, another run may be about to begin there. */
  if (lock(r) != 0 && (errno == EWOULDBLOCK || r->unbegun))
    return sl_fail(SL_EEXIST, "another run is writing in %s; choose another with --out", r->path);
  struct stat info;
  if (fstat(r->marker_fd, &info) == 0 && info.st_size > 0) return SL_OK;
  for (size_t at = 0; at < strlen(MARKER_TEXT);) {
    const ssize_t done =
        SL_CALL_OF_FILE("write", marker, write(r->marker_fd, MARKER_TEXT + at, strlen(MARKER_TEXT) - at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      const int error = done < 0 ? errno : ENOSPC;
      if (ftruncate(r->marker_fd, 0) != 0) errno = error; /* even part of the text would mark the directory */
      return sl_fail(SL_EWRITE, "cannot write in the run directory %s: %s; choose another with --out", r->path,
                     strerror(error));
    }
    at += (size_t)done;
  }
  return SL_OK;
}

/* Synchronises the marker and the new folders' parents, so that later files can be found after a crash of the machine.
 */
static sl_status sync_made(const sl__rundir *r) {
  char *folder = strdup(r->path);
  if (!folder) return sl_no_memory("for %s", r->path);
  sl_status status = SL_OK;
  const char *marker = r->files[SL__RUNDIR_MARKER];
  if (SL_CALL_OF_FILE("fsync", marker, sl_file_sync(r->marker_fd)) != 0 && errno != EINVAL)
    status = sl_file_failed("write", marker, errno);
  if (status == SL_OK) status = sl_folder_sync(folder);
  for (int left = r->made; left > 0 && status == SL_OK; left--) {
    char *slash = strrchr(folder, '/');
    while (slash && slash > folder && slash[-1] == '/') slash--;
    if (slash) slash[slash == folder] = '\0'; /* the root keeps its slash */
    status = sl_folder_sync(slash ? folder : ".");
    if (!slash) break;
  }
  free(folder);
  return status;
}

static void free_rundir(sl__rundir *r) {
  if (r->metrics_fd >= 0) SL_CALL_OF_FILE("close", r->files[SL__RUNDIR_METRICS], close(r->metrics_fd));
  if (r->marker_fd >= 0) SL_CALL_OF_FILE("close", r->files[SL__RUNDIR_MARKER], close(r->marker_fd));
  for (int i = 0; i < SL__RUNDIR_FILE_COUNT; i++) free(r->files[i]);
  free(r->waiting), free(r->path), free(r);
}

sl_status sl__rundir_open(const char *path, const char *name, sl__rundir_mode mode, sl__rundir **result) {
  sl_status status = SL_OK;
  int exists = 0, locked = 0, others = 0;
  *result = NULL;
  if (path && !path[0]) return sl_fail(SL_EINVAL, "the run directory's name is empty");
  if (!path && mode != SL__RUNDIR_NEW)
    return sl_fail(SL_EINVAL, "--resume and --force need the run directory's name (--out DIR)");
  sl__rundir *r = calloc(1, sizeof *r);
  if (!r) return sl_no_memory("for the run directory");
  r->mode = mode, r->marker_fd = r->metrics_fd = -1;
  if (!path) {
    SL_TRY_OUT(make_default(r, name));
  } else {
    SL_TRY_OUT(set_path(r, path));
    if (mode == SL__RUNDIR_RESUME) {
      exists = access(r->path, F_OK) == 0;
      if (!exists) SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "no run directory %s to resume", r->path));
    } else {
      SL_TRY_OUT(make_directory(r, &exists));
    }
    if (exists) SL_TRY_OUT(take_existing(r));
  }
  SL_TRY_OUT(take_lock(r));
  if (r->unbegun) r->made = 1; /* from here on it is this run's own */
  SL_TRY_OUT(sync_made(r));
  locked = 1;
  /* Removes the configuration first, because nothing resumes without it. So a crash leaves the old run whole or no run
   * that looks whole, and never a new configuration beside a checkpoint of the old run. */
  if (exists && mode == SL__RUNDIR_FORCE) {
    if (unlink(r->files[SL__RUNDIR_CONFIG]) != 0 && errno != ENOENT)
      SL_TRY_OUT(sl_fail(SL_EIO, "cannot remove %s: %s", r->files[SL__RUNDIR_CONFIG], strerror(errno)));
    SL_TRY_OUT(sl_folder_sync(r->path));
  }
  if (exists) SL_TRY_OUT(remove_files(r->path, mode == SL__RUNDIR_RESUME, &others));
  if (exists && mode == SL__RUNDIR_FORCE) SL_TRY_OUT(sl_folder_sync(r->path));
  *result = r;
  r = NULL;
out:
  if (r) {
    if (r->made > 0 && r->marker_fd >= 0 && !locked)
      SL_CALL_OF_FILE("unlink", r->files[SL__RUNDIR_MARKER], unlink(r->files[SL__RUNDIR_MARKER]));
    if (r->path) remove_made(r->path, r->made);
    free_rundir(r);
  }
  return status;
}

void sl__rundir_discard(sl__rundir *r) {
  int others = 0;
  if (!r) return;
  if (r->mode != SL__RUNDIR_RESUME) remove_files(r->path, 0, &others);
  if (r->made > 0 && others == 0) {
    SL_CALL_OF_FILE("unlink", r->files[SL__RUNDIR_MARKER], unlink(r->files[SL__RUNDIR_MARKER]));
    remove_made(r->path, r->made);
  }
  free_rundir(r);
}

sl_status sl__rundir_write_json(sl__rundir *r, sl__rundir_file file, const json_t *value) {
  if (!r) return SL_OK;
  SL_TRY(sl_file_check_regular(r->files[file]));
  return sl_json_write(r->files[file], value);
}

sl_status sl__rundir_write_text(sl__rundir *r, sl__rundir_file file, const char *text) {
  if (!r) return SL_OK;
  SL_TRY(sl_file_check_regular(r->files[file]));
  return sl_file_replace(r->files[file], text, strlen(text));
}

static sl_status open_metrics(sl__rundir *r) {
  if (r->metrics_fd >= 0) return SL_OK;
  const char *path = r->files[SL__RUNDIR_METRICS];
  SL_TRY(sl_file_open_regular(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666, &r->metrics_fd));
  return sl_folder_sync(r->path);
}

/* Writes the queued lines, all or none. If a partly written line cannot be undone, its remainder stays queued. */
static sl_status write_waiting(sl__rundir *r) {
  ssize_t done;
  if (r->waits == 0) return SL_OK;
  SL_TRY(open_metrics(r));
  const off_t before = lseek(r->metrics_fd, 0, SEEK_END);
  do {
    done = SL_CALL_OF_FILE("write", r->files[SL__RUNDIR_METRICS], write(r->metrics_fd, r->waiting, r->waits));
  } while (done < 0 && errno == EINTR);
  const int error = done < 0 ? errno : ENOSPC;
  if (done == (ssize_t)r->waits) {
    r->waits = 0;
    return SL_OK;
  }
  if (done > 0 && (before < 0 || ftruncate(r->metrics_fd, before) != 0))
    memmove(r->waiting, r->waiting + done, r->waits -= (size_t)done);
  return sl_file_failed("write", r->files[SL__RUNDIR_METRICS], error);
}

sl_status sl__rundir_append_metrics(sl__rundir *r, const json_t *object) {
  if (!r) return SL_OK;
  if (!json_is_object(object)) return sl_fail(SL_EINVAL, "metrics: a value cannot be written as JSON (not finite?)");
  char *line = sl_json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
  const size_t n = line ? strlen(line) + 1 : 0;
  if (r->room < r->waits + n) {
    char *more = line ? realloc(r->waiting, 2 * (r->waits + n)) : NULL;
    if (more) r->waiting = more, r->room = 2 * (r->waits + n);
  }
  if (!line || r->room < r->waits + n) {
    free(line);
    return sl_no_memory("for a line of metrics");
  }
  line[n - 1] = '\n'; /* overwrites the terminating zero: the text is written by its length from here on */
  memcpy(r->waiting + r->waits, line, n);
  r->waits += n;
  free(line);
  return write_waiting(r);
}

sl_status sl__rundir_sync_metrics(sl__rundir *r) {
  if (!r) return SL_OK;
  SL_TRY(write_waiting(r));
  const char *path = r->files[SL__RUNDIR_METRICS];
  if (r->metrics_fd < 0 || SL_CALL_OF_FILE("fsync", path, sl_file_sync(r->metrics_fd)) == 0 || errno == EINVAL)
    return SL_OK;
  return sl_file_failed("write", path, errno);
}

sl_status sl__rundir_close(sl__rundir *r) {
  if (!r) return SL_OK;
  const sl_status status = sl__rundir_sync_metrics(r);
  free_rundir(r);
  return status;
}

/* Drops the lines whose step is above the given one, and a torn last line; *n becomes the length of the others. */
static sl_status keep_lines(const char *path, char *text, size_t *n, int64_t step) {
  size_t kept = 0;
  int number = 0;
  for (size_t at = 0; at < *n;) {
    const char *end = memchr(text + at, '\n', *n - at);
    if (!end) break; /* partly written when the run was killed */
    const size_t length = (size_t)(end - (text + at)) + 1;
    if (memchr(text + at, '\0', length)) break; /* a crash of the machine lost a line that was not synchronised */
    json_error_t error;
    json_t *object;
    number++;
    const sl_status status = sl_json_parse(text + at, length, 0, &object, &error);
    if (status == SL_ENOMEM) return status;
    if (!object) return sl_fail(SL_EFORMAT, "%s, line %d: %s", path, number, error.text);
    if (json_integer_value(json_object_get(object, "step")) <= step) {
      memmove(text + kept, text + at, length);
      kept += length;
    }
    json_decref(object);
    at += length;
  }
  *n = kept;
  return SL_OK;
}

sl_status sl__rundir_rewind_metrics(sl__rundir *r, int64_t step) {
  if (!r) return SL_OK;
  char *text;
  size_t n, kept;
  if (r->waits > 0 && write_waiting(r) != SL_OK)
    SL_TRY(keep_lines(r->files[SL__RUNDIR_METRICS], r->waiting, &r->waits, step));
  sl_status status = sl_file_read_regular(r->files[SL__RUNDIR_METRICS], METRICS_LIMIT_BYTES, &text, &n);
  if (status == SL_ENOTFOUND) return SL_OK;
  if (status != SL_OK) return status;
  kept = n;
  status = keep_lines(r->files[SL__RUNDIR_METRICS], text, &kept, step);
  if (status == SL_OK && kept < n) {
    if (r->metrics_fd >= 0) close(r->metrics_fd); /* of the file that is about to be replaced */
    r->metrics_fd = -1;
    status = sl_file_replace(r->files[SL__RUNDIR_METRICS], text, kept);
  }
  free(text);
  return status;
}
