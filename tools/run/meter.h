/* The progress of a long command, on standard error: what is done, and the time left.
 *
 *   sl__meter meter;
 *   sl__meter_start(&meter, options->quiet, 0);
 *   for (int i = 0; i < n; i++) {
 *     sl__meter_show(&meter, i, n, "image %d of %d", i, n);
 *     ...
 *   }
 *   sl__meter_clear(&meter);
 *
 * On a terminal it rewrites one line, five times a second at most. Into a log or a pipe it prints a line after 30 s,
 * then whenever the running time has doubled or grown by 10 minutes. --quiet silences it. */
#ifndef SL_TOOLS_METER_H
#define SL_TOOLS_METER_H

#include <stdint.h>
#include <stdio.h>

typedef struct sl__meter {
  FILE *to; /* NULL: quiet */
  int terminal;
  int shown;     /* 1: the terminal shows a line */
  int64_t began; /* ns */
  int64_t next;  /* ns: when to print again */
  double first;  /* what had been done at the start, in the caller's unit */
} sl__meter;

/* done: work that an earlier start of the command did; it does not count for the time left. */
void sl__meter_start(sl__meter *meter, int quiet, double done);
/* Prints the text and the time left if a line is due. The time left assumes the mean speed since the start; it is
 * omitted while nothing is done, or if total is 0 (unknown). */
void sl__meter_show(sl__meter *meter, double done, double total, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Removes the line from the terminal; call before other output and at the end. */
void sl__meter_clear(sl__meter *meter);
/* "45 s", "2 min 05 s", "1 h 20 min" */
char *sl__meter_duration(double seconds, char text[32]);

#endif
