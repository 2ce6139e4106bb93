/* Reads and writes whole files. A reader sees the old content or the new one, never a part: new content goes to a
 * temporary file in the same folder, which is synchronised and renamed. After a failure, such as a full disk, the
 * temporary file is removed and the old file stays. Symbolic links are followed. Devices, pipes and descriptors, such
 * as /dev/null and /dev/stdout, are written directly. If a descriptor leads to an open file, the file's earlier content
 * stays. Errors name the path and the cause; SL_EWRITE means a full disk, a quota, a limit of file size, or a failing
 * disk. */
#ifndef SL_FILE_H
#define SL_FILE_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file being written; nothing is at its path until sl_file_commit. */
typedef struct sl_file sl_file;

/* Begins new content for path. SL_EIO: the folder cannot be written; SL_EWRITE. */
sl_status sl_file_create(const char *path, sl_file **file);
/* Appends n bytes. After a failure (SL_EWRITE, SL_EIO), call sl_file_discard. */
sl_status sl_file_write(sl_file *file, const void *bytes, size_t n);
/* Overwrites n bytes at offset, for example a header whose numbers are known only at the end. SL_EIO for what is
 * written directly. */
sl_status sl_file_overwrite(sl_file *file, uint64_t offset, const void *bytes, size_t n);
/* Puts the content at its path and frees file. On failure removes the temporary and leaves the path as it was.
 * Exception: if an existing file was replaced but its folder cannot be synchronised, the new content stays, but a crash
 * may undo that. */
sl_status sl_file_commit(sl_file *file);
/* Removes the temporary and frees file; NULL is allowed. */
void sl_file_discard(sl_file *file);

/* Removes the temporary files that killed processes of this host left behind when they wrote path. */
void sl_file_tidy(const char *path);

/* sl_file_create, sl_file_write and sl_file_commit in one call. */
sl_status sl_file_replace(const char *path, const void *bytes, size_t n);

/* Fails for the errno of a call that writes path ("write", "make the folder"): SL_EWRITE with a remedy, SL_ENOTFOUND or
 * SL_EIO. */
sl_status sl_file_failed(const char *what, const char *path, int error);

/* open, fsync and fdatasync, repeated after a signal (EINTR). mode: permissions of a file that open creates. The watch
 * (activity.h) sees open, except for a pipe or device, which may take any time. On failure they return -1 and set
 * errno, like the system's calls. */
int sl_file_open(const char *path, int flags, unsigned mode);
/* From now on, when told() returns true (a signal was caught), sl_file_open stops waiting for the other end of a pipe
 * and fails with EINTR. The functions of this file that open a pipe then fail with SL_EINTERRUPTED. */
void sl_file_wait_until(int (*told)(void));
/* Opens a file that Starling wrote, such as a file of a run directory. It must be a regular file, so that nothing waits
 * for a pipe in its place. SL_ENOTFOUND, SL_EIO, SL_EWRITE. */
sl_status sl_file_open_regular(const char *path, int flags, unsigned mode, int *fd);
/* SL_EIO if something other than a regular file, or a link to one, is at path. */
sl_status sl_file_check_regular(const char *path);
/* Opens a file for reading as a stream, by sl_file_open. The caller must fclose it. NULL: see errno. */
FILE *sl_file_stream(const char *path);
int sl_file_sync(int fd);
int sl_file_sync_data(int fd);

/* Makes a folder, with mode 0777 less the umask. A folder that exists is no error. SL_EIO names the folder. */
sl_status sl_folder_make(const char *path);
/* Makes a folder and the folders above it, with this mode less the umask. *made (unless NULL): number of new components
 * at the end of the path; 0 if the folder existed. SL_EIO, SL_ENOMEM; *made is set then, too. */
sl_status sl_folder_make_all(const char *path, unsigned mode, int *made);
/* Synchronises a folder's entries, so that new names and renames survive a crash. Succeeds on file systems that do not
 * support this (EINVAL). */
sl_status sl_folder_sync(const char *folder);

/* read, repeated after a signal. The watch sees it if the file is regular. */
ssize_t sl_file_get(int fd, const char *path, void *bytes, size_t n);
/* opendir and readdir of the folder at path, which the watch sees. sl_folder_next returns NULL at the folder's end
 * (*error 0) and after a failure (*error is an errno). */
DIR *sl_folder_open(const char *path);
struct dirent *sl_folder_next(DIR *folder, const char *path, int *error);

/* Reads a regular file or stream of at most limit bytes. The caller must free(*bytes). A zero byte follows the content,
 * so text can be used as a string. SL_ENOTFOUND, SL_EIO, SL_EFORMAT (larger than limit), SL_ENOMEM. */
sl_status sl_file_read(const char *path, size_t limit, char **bytes, size_t *n);
/* The same for a file that must be regular (sl_file_open_regular). */
sl_status sl_file_read_regular(const char *path, size_t limit, char **bytes, size_t *n);
/* The type of these two. */
typedef sl_status sl_file_reader(const char *path, size_t limit, char **bytes, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
