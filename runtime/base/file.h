/* Reads and writes whole files. A reader sees the old content or the new one, never a part: new content goes to a
 * temporary file in the same folder, which is synchronised and renamed. After a failure, such as a full disk, the
 * temporary file is removed and the old file stays. Symbolic links are followed. What is no regular file, such as
 * /dev/null or a pipe, is written directly. Errors name the path and the cause; SL_EWRITE is for what cannot be stored:
 * a full disk, a quota, a limit of a file's size, a failing disk. */
#ifndef SL_FILE_H
#define SL_FILE_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

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
/* Overwrites n bytes at offset, for example a header whose numbers are known only at the end. */
sl_status sl_file_overwrite(sl_file *file, uint64_t offset, const void *bytes, size_t n);
/* Puts the content at its path and frees file. On failure the temporary is gone and the file at path is unchanged, or
 * still missing; except where the folder of a file that was there before cannot be synchronised: then the content is at
 * path, but a crash may undo that. */
sl_status sl_file_commit(sl_file *file);
/* Removes the temporary and frees file; NULL is allowed. */
void sl_file_discard(sl_file *file);

/* sl_file_create, sl_file_write and sl_file_commit in one call. */
sl_status sl_file_replace(const char *path, const void *bytes, size_t n);

/* Fails for an errno of a call that writes path ("write", "make the folder"): SL_EWRITE with what mends it,
 * SL_ENOTFOUND or SL_EIO. */
sl_status sl_file_failed(const char *what, const char *path, int error);

/* open, fsync and fdatasync, begun again where a signal interrupts them. mode: of a file that open makes. */
int sl_file_open(const char *path, int flags, unsigned mode);
int sl_file_sync(int fd);
int sl_file_sync_data(int fd);

/* Makes a folder, with mode 0777 less the umask. A folder that exists is no error. SL_EIO names the folder. */
sl_status sl_folder_make(const char *path);
/* Makes a folder and the folders above it, with this mode less the umask. *made, where made is not NULL, counts the
 * components at the end of the path that are new: 0 when the folder existed. SL_EIO, SL_ENOMEM; *made is set then too.
 */
sl_status sl_folder_make_all(const char *path, unsigned mode, int *made);
/* The next entry of a folder, or NULL: at its end, with *error 0, or where it cannot be read, with an errno. */
struct dirent *sl_folder_next(DIR *folder, int *error);
/* Writes a folder's entries to the disk, so that new names and renames outlive a crash. File systems that cannot do
 * that (EINVAL) are not an error. */
sl_status sl_folder_sync(const char *folder);

/* Reads a regular file or stream of at most limit bytes. The caller must free(*bytes). A zero byte follows the content,
 * so text can be used as a string. SL_ENOTFOUND, SL_EIO, SL_EFORMAT (larger than limit), SL_ENOMEM. */
sl_status sl_file_read(const char *path, size_t limit, char **bytes, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
