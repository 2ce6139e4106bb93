/* Prints the progress of a long command on standard error. */
#include "tools/run/meter.h"

#include <math.h>
#include <stdarg.h>
#include <unistd.h>

#include "runtime/base/time.h"

static const int64_t REFRESH = 200000000, FIRST_LINE = 30000000000, LONGEST_PAUSE = 600000000000; /* ns */

void sl__meter_start(sl__meter *meter, int quiet, double done) {
  const int64_t now = sl_now();
  *meter = (sl__meter){.to = quiet ? NULL : stderr, .terminal = isatty(STDERR_FILENO), .began = now, .first = done};
  meter->next = meter->terminal ? now : now + FIRST_LINE;
}

char *sl__meter_duration(double seconds, char text[32]) {
  const long long s = seconds < 1e9 ? (long long)ceil(seconds) : 1000000000;
  if (s < 60)
    snprintf(text, 32, "%lld s", s);
  else if (s < 3600)
    snprintf(text, 32, "%lld min %02lld s", s / 60, s % 60);
  else
    snprintf(text, 32, "%lld h %02lld min", s / 3600, s / 60 % 60);
  return text;
}

void sl__meter_show(sl__meter *meter, double done, double total, const char *format, ...) {
  const int64_t now = sl_now(), passed = now - meter->began;
  char text[32];
  va_list list;
  if (!meter->to || now < meter->next) return;
  meter->next = now + (meter->terminal ? REFRESH : passed < LONGEST_PAUSE ? passed : LONGEST_PAUSE);
  if (meter->terminal) fputs("\r\033[K", meter->to);
  va_start(list, format);
  vfprintf(meter->to, format, list);
  va_end(list);
  if (total > 0 && done > meter->first)
    fprintf(meter->to, "  %s left",
            sl__meter_duration(1e-9 * (double)passed * fmax(total - done, 0) / (done - meter->first), text));
  if (!meter->terminal) fputc('\n', meter->to);
  fflush(meter->to);
  meter->shown = meter->terminal;
}

void sl__meter_clear(sl__meter *meter) {
  if (!meter->shown) return;
  fputs("\r\033[K", meter->to);
  fflush(meter->to);
  meter->shown = 0;
  meter->next = 0;
}
