/* Status codes and the per-thread error text. */
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/text.h"

static _Thread_local char error_text[SL_ERROR_TEXT_BYTES];
static _Thread_local char error_setting[64];

static const struct {
  const char *name, *text;
  int survives;
} table[SL_STATUS_COUNT] = {
#define SL_STATUS_ROW(code, text, survives) {#code, text, survives},
    SL_STATUS_LIST(SL_STATUS_ROW)
#undef SL_STATUS_ROW
};

sl_status sl_fail(sl_status code, const char *format, ...) {
  char text[SL_ERROR_TEXT_BYTES]; /* the arguments may contain sl_error() itself */
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  sl_text_disarm(text); /* names in files may hold escape sequences of terminals */
  memcpy(error_text, text, sizeof text);
  error_setting[0] = 0;
  return code;
}

sl_status sl_blame(sl_status code, const char *setting) {
  snprintf(error_setting, sizeof error_setting, "%s", setting);
  return code;
}

const char *sl_error_setting(void) { return error_setting; }

sl_status sl_no_memory(const char *format, ...) {
  char text[SL_ERROR_TEXT_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return sl_fail(SL_ENOMEM, "no memory %s", text);
}

sl_status sl_context(sl_status code, const char *format, ...) {
  char prefix[SL_ERROR_TEXT_BYTES / 4], old[SL_ERROR_TEXT_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(prefix, sizeof prefix, format, args);
  va_end(args);
  memcpy(old, error_text, sizeof old);
  snprintf(error_text, sizeof error_text, "%s: %.*s", prefix, (int)(sizeof old - sizeof prefix - 3), old);
  return code;
}

const char *sl_error(void) { return error_text; }

sl_failure sl_failure_keep(sl_status code) {
  sl_failure f = {.code = code};
  if (code == SL_OK) return f;
  memcpy(f.text, error_text, sizeof f.text);
  memcpy(f.setting, error_setting, sizeof f.setting);
  return f;
}

sl_status sl_failure_again(const sl_failure *f) {
  if (f->code == SL_OK) return SL_OK;
  snprintf(error_text, sizeof error_text, "%s", f->text);
  snprintf(error_setting, sizeof error_setting, "%s", f->setting);
  return f->code;
}

sl_status sl_failure_first(const sl_failure *f, sl_status second) {
  return f->code == SL_OK ? second : sl_failure_again(f);
}

static int known(sl_status code) { return (unsigned)code < SL_STATUS_COUNT; }
const char *sl_status_name(sl_status code) { return known(code) ? table[code].name : "unknown status"; }
const char *sl_status_text(sl_status code) { return known(code) ? table[code].text : "unknown status"; }
int sl_status_survives(sl_status code) { return known(code) ? table[code].survives : 0; }
