/* A lesson is a folder of examples/ with a program and a Makefile. If students write part of it, the lesson also has a
 * folder skeleton/ with the files that they write, and a program judge. The folder is read once, so later changes to it
 * have no effect. */
#ifndef SL_TOOLS_LESSON_H
#define SL_TOOLS_LESSON_H

#include "tools/grade/folder.h"

typedef struct sl__lesson {
  char *folder;
  const char *name;    /* "07-own-operation" */
  const char *program; /* "own-operation" */
  sl__names skeleton;  /* the files that students write; none: there is no folder skeleton */
  sl__texts own;       /* the lesson's files except those and built ones */
  sl__texts start;     /* the skeleton's files */
} sl__lesson;

/* Finds a lesson: a folder, the name of a lesson that pkg-config knows, or its number ("7", "07"). Puts the pkg-config
 * files of this build or installation into PKG_CONFIG_PATH first, for this process and those that it starts. */
sl_status sl__lesson_find(const char *name, sl__lesson *lesson);
void sl__lesson_free(sl__lesson *lesson);

/* SL_EUNSUPPORTED, which says what would help, if the lesson simulates and starling-sim is not built. */
sl_status sl__lesson_can_run(const sl__lesson *lesson);
/* The same for grading. A hand-out finds a build for emulated GPUs by itself; grading uses this command's build. */
sl_status sl__lesson_can_be_graded(const sl__lesson *lesson);
/* Whether the program of a lesson simulates: its Makefile asks pkg-config for starling-sim's folder. In other lessons
 * only the judge may do so. */
int sl__lesson_simulates(const sl__lesson *lesson);
/* The folder with starling-sim; the caller's to free(). NULL: it is not built. */
char *sl__simulated_folder(void);

/* A variable of Starling's pkg-config file ("examples"), or the answer to an option ("--cflags"): one line, the
 * caller's to free(). NULL: pkg-config does not find Starling. */
char *sl__pkg_config(const char *question);
/* The folder of the pkg-config file that belongs to this program; the caller's to free(). NULL: not found. */
char *sl__pkg_config_folder(void);

#endif
