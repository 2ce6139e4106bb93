/* Folders of small files: their names, their contents in memory, and their removal, whatever somebody put into them. */
#ifndef SL_TOOLS_FOLDER_H
#define SL_TOOLS_FOLDER_H

#include <sys/types.h>

#include "runtime/base/status.h"

enum { SL__MOST_NAMES = 4096, SL__MOST_BYTES = 1 << 20 /* of a source file */ };

/* Names of a folder's entries, sorted by bytes, without those that begin with '.'. */
typedef struct sl__names {
  char *name[SL__MOST_NAMES];
  int n;
} sl__names;

sl_status sl__names_read(const char *folder, sl__names *names);
int sl__names_hold(const sl__names *names, const char *name);
void sl__names_free(sl__names *names);

/* Files in memory. */
typedef struct sl__text {
  char *name, *bytes;
  size_t n;
} sl__text;
typedef struct sl__texts {
  sl__text *text;
  int n;
} sl__texts;

/* Adds the regular file at path under a name. SL_ENOTFOUND names it: there is none. */
sl_status sl__texts_read(sl__texts *texts, const char *path, const char *name);
/* Writes all of them into a folder. */
sl_status sl__texts_write(const sl__texts *texts, const char *folder);
void sl__texts_free(sl__texts *texts);

char *sl__joined(const char *folder, const char *name); /* "folder/name", the caller's to free(); NULL: no memory */
/* Whether path is a folder (S_IFDIR), a regular file (S_IFREG), or neither (0). Links are not followed. */
mode_t sl__kind_of(const char *path);

/* Removes a folder with all that is in it, however deep, without following links. What cannot be removed stays. */
void sl__folder_remove(const char *path);

#endif
