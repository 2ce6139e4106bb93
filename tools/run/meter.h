/* The progress of a long command, on standard error: how far it is, and how long it still takes.
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
 * and one each time that the command has run twice as long, or 10 minutes longer. --quiet silences it. */
#ifndef SL_TOOLS_METER_H
#define SL_TOOLS_METER_H

#include <stdint.h>
#include <stdio.h>

typedef struct sl__meter {
  FILE *to; /* NULL: quiet */
  int terminal;
  int shown;     /* a line stands on the terminal */
  int64_t began; /* ns */
  int64_t next;  /* ns: when to print again */
  double first;  /* what had been done at the start, in the caller's unit */
} sl__meter;

/* done: what an earlier start of the command has done already, so that its time is not counted. */
void sl__meter_start(sl__meter *meter, int quiet, double done);
/* Prints the text and the time left, where a line is due. The time left assumes that the rest of `total` goes as fast
 * as what was done since the start; it is left out while nothing was done, or total is 0 (unknown). */
void sl__meter_show(sl__meter *meter, double done, double total, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Takes the line off the terminal: before other output, and at the end. */
void sl__meter_clear(sl__meter *meter);
/* "45 s", "2 min 05 s", "1 h 20 min" */
char *sl__meter_duration(double seconds, char text[32]);

#endif
