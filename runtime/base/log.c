/* The one log sink. */
#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/text.h"

static sl_log_sink current;
static void *current_arg;
static sl_log_level least = SL_LOG_INFO;

void sl_log_set(sl_log_sink sink, void *arg, sl_log_level wanted) {
  current = sink;
  current_arg = arg;
  least = wanted;
}

void sl_log(sl_log_level level, const char *format, ...) {
  if (!current || level < least) return;
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  sl_text_disarm(text);
  current(level, text, current_arg);
}
