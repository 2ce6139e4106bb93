/* Shared by the parts of `starling report`. */
#ifndef SL_TOOLS_REPORT_PARTS_H
#define SL_TOOLS_REPORT_PARTS_H

#include <jansson.h>
#include <stdio.h>

#include "tools/report/sums.h"

/* All tasks of one operation and phase in all ranks' whole steps, or all its exchanges, which hold no worker. */
typedef struct sl__report_line {
  const char *operation, *phase;
  int exchange;
  int64_t count;
  double seconds, flops, bytes;
  double moved;   /* bytes that were copied from another memory for it */
  double at_roof; /* seconds that all of it would take at the machine's roofline; 0: unknown */
} sl__report_line;

typedef struct sl__report_run {
  const char *run; /* the folder, as the user named it */
  sl_timeline *const *timelines;
  int n;
  sl__sums *sums;        /* [n] */
  sl__report_line *line; /* kernels sorted by time, then exchanges */
  int n_lines;
  double kernels; /* seconds in all kernels */
  int gpus;       /* 1: GPUs took part; the roofline, which describes CPU workers, is then left out */
  double peak_gflops, peak_gigabytes; /* peaks of one worker, mean over ranks; 0: unknown */
} sl__report_run;

/* Borrows the timelines. The caller calls sl__report_free, also after a failure. */
sl_status sl__report_of(const char *run, sl_timeline *const *timelines, int n, sl__report_run *report);
void sl__report_free(sl__report_run *report);

/* "Why was this step as slow as it was?" in a few sentences, as an array of texts. NULL when out of memory. */
json_t *sl__report_answer(const sl__report_run *report);

/* Roofline (Williams, Waterman and Patterson, 2009): an operation takes at least max(flops / peak, bytes /
 * bandwidth). Returns a remark on it in a sentence or two, or ""; the text lives as long as the program. */
const char *sl__report_roof_note(const sl__report_run *report);

/* A part of the difference between two runs' step times, in seconds a step, as a mean over workers and ranks. The time
 * in kernels differs by their speed on the same kind of worker (CPU, GPU), by their placement on other kinds, and by
 * the number of workers that share them. */
typedef enum sl__part_kind { SL__PART_KERNELS, SL__PART_PLACEMENT, SL__PART_WORKERS, SL__PART_IDLE } sl__part_kind;
typedef struct sl__report_part {
  sl__part_kind kind;
  sl_idle_cause cause;           /* of SL__PART_IDLE; else SL_IDLE_CAUSES */
  const char *operation, *phase; /* of SL__PART_KERNELS; else "" */
  double run, beside;            /* time in both; 0 for placement and workers */
  double difference;             /* what it adds to run's step */
} sl__report_part;

typedef struct sl__report_beside {
  const sl__report_run *run, *beside;
  int ranks;             /* number of ranks of which both have timelines: the others are left out */
  double step[2];        /* seconds: of run, of beside; mean over ranks */
  sl__report_part *part; /* operations, the largest difference first; then the others. Differences add up to step[0] -
                            step[1] */
  int n_parts;
} sl__report_beside;

/* Divides the difference between two runs of the same step. SL_EINVAL, which names the difference, if their models,
 * numbers of ranks, tasks or the values between these differ. Borrows both. The caller calls sl__report_beside_free,
 * also after a failure. */
sl_status sl__report_beside_of(const sl__report_run *run, const sl__report_run *beside, sl__report_beside *both);
void sl__report_beside_free(sl__report_beside *both);
/* The difference and its largest part as a sentence or two; NULL when out of memory. */
json_t *sl__report_beside_answer(const sl__report_beside *both);
/* NULL when out of memory. */
json_t *sl__report_beside_to_json(const sl__report_beside *both);
/* A table of the parts. */
sl_status sl__report_beside_print(FILE *to, const sl__report_beside *both);

/* All data of the page; docs/reference/formats.md lists the fields. beside: a second run; NULL: none. The caller calls
 * json_decref(*data). */
sl_status sl__report_data(const sl__report_run *report, const sl__report_beside *beside, json_t **data);

/* Writes the report's plots as SVG files into a folder, made if missing: timeline.svg, idle.svg, and if there are
 * data for them loss.svg, throughput.svg, roofline.svg. data comes from sl__report_data. quiet: does not print their
 * names. */
sl_status sl__report_svg(const sl__report_run *report, const json_t *data, const char *folder, int quiet);

#endif
