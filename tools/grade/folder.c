/* Folders of small files. Removal uses descriptors and no path longer than a name, because a tree can be deeper than
 * any path: a folder's contents are moved up to the top before the folder is removed. */
#include "tools/grade/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void sl__names_free(sl__names *names) {
  while (names->n > 0) free(names->name[--names->n]);
}

sl_status sl__names_read(const char *folder, sl__names *names) {
  DIR *d = opendir(folder);
  names->n = 0;
  if (!d) return sl_fail(SL_ENOTFOUND, "cannot read the folder %s: %s", folder, strerror(errno));
  int more = 0; /* than fit */
  for (struct dirent *entry; (entry = readdir(d)) && !more;) {
    if (entry->d_name[0] == '.') continue;
    more = names->n == SL__MOST_NAMES;
    if (!more && (names->name[names->n] = strdup(entry->d_name))) names->n++;
  }
  closedir(d);
  if (more) {
    sl__names_free(names);
    return sl_fail(SL_EINVAL, "the folder %s has more than %d entries: divide them", folder, SL__MOST_NAMES);
  }
  qsort(names->name, (size_t)names->n, sizeof *names->name, by_bytes);
  return SL_OK;
}

int sl__names_hold(const sl__names *names, const char *name) {
  int held = 0;
  for (int i = 0; i < names->n; i++) held |= strcmp(names->name[i], name) == 0;
  return held;
}

char *sl__joined(const char *folder, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

mode_t sl__kind_of(const char *path) {
  struct stat s;
  return path && lstat(path, &s) == 0 && (S_ISDIR(s.st_mode) || S_ISREG(s.st_mode)) ? s.st_mode & S_IFMT : 0;
}

sl_status sl__texts_read(sl__texts *texts, const char *path, const char *name) {
  sl__text text = {0};
  if (sl__kind_of(path) != S_IFREG) return sl_fail(SL_ENOTFOUND, "there is no file %s", name);
  sl__text *larger = realloc(texts->text, ((size_t)texts->n + 1) * sizeof *larger);
  if (!larger) return sl_no_memory("for %s", name);
  texts->text = larger;
  SL_TRY(sl_file_read(path, SL__MOST_BYTES, &text.bytes, &text.n));
  text.name = strdup(name);
  texts->text[texts->n++] = text;
  return text.name ? SL_OK : sl_no_memory("for %s", name);
}

sl_status sl__texts_write(const sl__texts *texts, const char *folder) {
  for (int i = 0; i < texts->n; i++) {
    char *path = sl__joined(folder, texts->text[i].name);
    const sl_status status =
        path ? sl_file_replace(path, texts->text[i].bytes, texts->text[i].n) : sl_no_memory("for a path");
    free(path);
    SL_TRY(status);
  }
  return SL_OK;
}

void sl__texts_free(sl__texts *texts) {
  while (texts->n > 0) {
    texts->n--;
    free(texts->text[texts->n].name), free(texts->text[texts->n].bytes);
  }
  free(texts->text);
  *texts = (sl__texts){0};
}

static int open_folder(int at, const char *name) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int fd = openat(at, name, flags);
  if (fd >= 0 || errno != EACCES) return fd;
  fchmodat(at, name, 0700, 0); /* somebody took its rights away */
  return openat(at, name, flags);
}

/* Removes each entry of a folder, or moves it to `top` if it is a folder that is not empty. Returns the number of
 * entries removed or moved. */
static int lift(int folder, int top, unsigned *number) {
  int done = 0;
  DIR *d = fdopendir(dup(folder));
  if (!d) return 0;
  fchmod(folder, 0700);
  for (struct dirent *entry; (entry = readdir(d));) {
    char name[32];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (unlinkat(folder, entry->d_name, 0) == 0 || unlinkat(folder, entry->d_name, AT_REMOVEDIR) == 0) {
      done++;
      continue;
    }
    fchmodat(folder, entry->d_name, 0700, 0);
    do snprintf(name, sizeof name, "removed.%u", ++*number);
    while (faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
    done += renameat(folder, entry->d_name, top, name) == 0;
  }
  closedir(d);
  return done;
}

void sl__folder_remove(const char *path) {
  const int top = open_folder(AT_FDCWD, path);
  unsigned number = 0;
  if (top < 0) return;
  fchmod(top, 0700);
  for (int more = 1; more > 0;) {
    DIR *d = fdopendir(openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    more = 0;
    for (struct dirent *entry; d && (entry = readdir(d));) {
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      if (unlinkat(top, entry->d_name, 0) == 0) {
        more = 1;
        continue;
      }
      const int inner = open_folder(top, entry->d_name);
      if (inner >= 0) {
        more |= lift(inner, top, &number) > 0;
        close(inner);
      }
      more |= unlinkat(top, entry->d_name, AT_REMOVEDIR) == 0;
    }
    if (d) closedir(d);
  }
  close(top);
  rmdir(path);
}
