/* Prints the library's messages. The library itself prints nothing: it has one sink, which is set here. */
#include "tools/settings/messages.h"

#include <stdio.h>

#include "runtime/base/log.h"

static void print(sl_log_level level, const char *message, void *arg) {
  static const char *const names[] = {"debug", "note", "warning", "error"};
  (void)arg;
  fprintf(stderr, "starling: %s: %s\n", names[level], message);
}

void sl__messages_print(int quiet) { sl_log_set(print, NULL, quiet ? SL_LOG_ERROR : SL_LOG_WARNING); }
