/* Processes that measure or simulate, and print JSON: what `starling compare` and `starling scale` share. One at a
 * time.
 */
#ifndef SL_TOOLS_COMPARE_CHILD_H
#define SL_TOOLS_COMPARE_CHILD_H

#include <jansson.h>

#include "runtime/base/status.h"
#include "tools/settings/options.h"

typedef struct sl__child {
  const char *program;     /* found as a shell finds it; NULL: this program */
  char *const *argv;       /* ended by NULL */
  double most;             /* seconds, after which it is ended */
  void (*tick)(void *arg); /* called every few milliseconds while it runs; NULL: nothing */
  void *arg;
} sl__child;

/* *out: the JSON that the process printed, or NULL after its failure; then *reason says why, and the caller must
 * free(*reason). *code: its exit code. SL_EIO: no process or no temporary file. */
sl_status sl__child_json(const sl__child *child, json_t **out, char **reason, int *code);

/* The first option that is given and only makes sense where something is measured, not simulated; NULL: none is. */
const char *sl__compare_measures(const sl__options *options);

/* ---- being stopped (stop.c) */

/* Installs handlers for SIGINT and SIGTERM. The first signal sets sl__child_stopped; a second one removes the folder
 * (NULL: none) and ends the measuring process and this one. SIGINT stays ignored if the shell started the command in
 * the background. */
void sl__child_catch(const char *folder);
int sl__child_stopped(void);
/* The measuring process; 0: none. */
void sl__child_measuring(int pid);

#endif
