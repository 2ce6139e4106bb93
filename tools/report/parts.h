/* What the parts of `starling report` share. */
#ifndef SL_TOOLS_REPORT_PARTS_H
#define SL_TOOLS_REPORT_PARTS_H

#include <jansson.h>

#include "tools/report/sums.h"

/* All tasks of one operation and phase, of all ranks' whole steps; or all its exchanges, which hold no worker. */
typedef struct sl__report_line {
  const char *operation, *phase;
  int exchange;
  int64_t count;
  double seconds, flops, bytes;
  double at_roof; /* seconds that all of it would take on the machine's roofline; 0: not known */
} sl__report_line;

typedef struct sl__report_run {
  const char *run; /* the folder, as it was named */
  sl_timeline *const *timelines;
  int n;
  sl__sums *sums;        /* [n] */
  sl__report_line *line; /* kernels by the time they took, then exchanges */
  int n_lines;
  double kernels; /* seconds of all kernels */
  int gpus;       /* whether GPUs had a part: then the roofline, which is of CPU workers, is left out */
  double peak_gflops, peak_gigabytes; /* of a worker, the mean of the ranks; 0: not known */
} sl__report_run;

/* Borrows the timelines. The caller ends with sl__report_free, also after a failure. */
sl_status sl__report_of(const char *run, sl_timeline *const *timelines, int n, sl__report_run *report);
void sl__report_free(sl__report_run *report);

/* "Why was this step as slow as it was?" in a few sentences, as an array of texts. NULL when out of memory. */
json_t *sl__report_answer(const sl__report_run *report);

/* Roofline (Williams, Waterman and Patterson, 2009): n lines take at least max(flops / peak, bytes / bandwidth). What
 * to know about it here, as a sentence or two; "" when nothing. *text lives as long as the program. */
const char *sl__report_roof_note(const sl__report_run *report);

/* All that the page shows; docs/reference/formats.md has the fields. *data is the caller's to json_decref(). */
sl_status sl__report_data(const sl__report_run *report, json_t **data);

/* The report's plots as SVG files in a folder, which is made where it is missing: timeline.svg, idle.svg, and where
 * data are there loss.svg, throughput.svg, roofline.svg. data as sl__report_data makes it. quiet: their names are not
 * printed. */
sl_status sl__report_svg(const sl__report_run *report, const json_t *data, const char *folder, int quiet);

#endif
