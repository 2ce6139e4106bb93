/* The timeline of one rank: what the recorder kept, with all that is needed to read it without the program - workers,
 * the step graph's tasks and their dependencies, the clock. Plain data, written into a file for each rank and read
 * back; traces, causes of idle time, bounds and reports are made of it. */
#ifndef SL_TIMELINE_H
#define SL_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/trace/clock.h"
#include "runtime/trace/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_timeline_worker {
  const char *name; /* "CPU 0, cores 0-3 (NUMA 0)" */
  int gpu;
  int64_t tasks, busy; /* that it ran, and ns in kernels: counted apart from the records, and never lost */
} sl_timeline_worker;

/* A task or exchange of the step graph. */
typedef struct sl_timeline_node {
  const char *layer, *operation, *phase;
  const char *shapes; /* "[64, 784] [128, 784] -> [64, 128]" */
  int32_t kind;       /* tasks of one kind (operation and footprint) take the same time, all else equal */
  int32_t shard, leaf, micro_batch;
  int32_t priority;
  double flops, bytes;
} sl_timeline_node;

/* A buffer of the memory plan: of one value, or of several that are computed in place. Those of a slot share its
 * memory, one after another. */
typedef struct sl_timeline_buffer {
  int64_t bytes;
  int32_t slot;
} sl_timeline_buffer;

/* The node reads or writes the buffer. */
typedef struct sl_timeline_use {
  int32_t node, buffer;
} sl_timeline_use;

typedef struct sl_timeline {
  const char *model, *sched;
  int rank, ranks;
  double peak_gflops,
      peak_gigabytes; /* sgemm and triad of one CPU worker while all work, each a second; 0: not known */
  int n_workers, n_nodes, n_kinds, n_clocks;
  sl_timeline_worker *worker;
  sl_timeline_node *node;
  int *from, *before;         /* node i waits for before[from[i]] ... before[from[i + 1] - 1] */
  sl_timeline_buffer *buffer; /* [n_buffers] of temporaries */
  sl_timeline_use *use;       /* [n_uses] */
  int n_buffers, n_uses;
  sl_clock clock[2]; /* at the start and at the end; n_clocks of them */
  sl_record *record; /* in the order of adding */
  size_t n_records;
  uint64_t lost; /* records before these that the ring no longer had */
  char **text;   /* what the names above point into; each stands there once */
  int n_texts;
} sl_timeline;

/* An empty timeline with room for so many; texts come by sl_timeline_text. */
sl_status sl_timeline_create(int n_workers, int n_nodes, int n_dependencies, sl_timeline **timeline);
void sl_timeline_destroy(sl_timeline *timeline); /* NULL is allowed */
/* Room for so many buffers and uses, in place of those there were. */
sl_status sl_timeline_reserve_buffers(sl_timeline *timeline, int n_buffers, int n_uses);
/* A copy of text that lives as long as the timeline; the same for equal texts. NULL when out of memory. */
const char *sl_timeline_text(sl_timeline *timeline, const char *text);
/* Takes the recorder's records in, in place of those there were. */
sl_status sl_timeline_take(sl_timeline *timeline, const sl_recorder *recorder);

/* "timeline-3.safetensors": the file's name in a run directory. */
enum { SL_TIMELINE_NAME = 40 };
char *sl_timeline_name(int rank, char name[SL_TIMELINE_NAME]);
/* Whether a file of that name is one. */
int sl_timeline_is_name(const char *name);

/* One safetensors file, docs/reference/formats.md describes it. SL_EIO; when reading SL_EFORMAT, naming file and field.
 */
sl_status sl_timeline_write(const char *path, const sl_timeline *timeline);
sl_status sl_timeline_read(const char *path, sl_timeline **timeline);
/* All ranks' files of a folder, in the order of ranks, each on rank 0's clock; a rank that left none is missing.
 * *timelines is the caller's to destroy one by one and free(). SL_ENOTFOUND when there is none at all. */
sl_status sl_timeline_read_all(const char *folder, sl_timeline ***timelines, int *n);
/* Puts the records on rank 0's clock. */
void sl_timeline_align(sl_timeline *timeline);

/* From the first whole step to the end of the last record, ns; *first is that step. Of a ring that turned over, what is
 * left of the oldest step is no fair sample. 0, 0 without records. */
void sl_timeline_window(const sl_timeline *timeline, int64_t *from, int64_t *to, int64_t *first);

#ifdef __cplusplus
}
#endif
#endif
