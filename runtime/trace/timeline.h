/* The timeline of one rank: the recorder's records, together with the workers, the step graph's tasks, their
 * dependencies and the clock, so that it can be read without the program that made it. Each rank writes its timeline to
 * a file; traces, causes of idle time, bounds and reports are computed from these files. */
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
  int64_t tasks, busy; /* number of tasks it ran, and ns in kernels; counted apart from the records, so none is lost */
} sl_timeline_worker;

/* A task or exchange of the step graph. */
typedef struct sl_timeline_node {
  const char *layer, *operation, *phase;
  const char *shapes; /* "[64, 784] [128, 784] -> [64, 128]" */
  int32_t kind;       /* tasks with the same operation and footprint; they take the same time on the same worker */
  int32_t shard, leaf, micro_batch;
  int32_t priority;
  double flops, bytes;
} sl_timeline_node;

/* A buffer of the memory plan. It holds one value, or several that are computed in place. The buffers of a slot use its
 * memory one after another. */
typedef struct sl_timeline_buffer {
  int64_t bytes;
  int32_t slot;
} sl_timeline_buffer;

/* The node reads or writes the buffer. */
typedef struct sl_timeline_use {
  int32_t node, buffer;
} sl_timeline_use;

enum { SL_TIMELINE_MEMORIES = 128 };
/* A copy between two memories: 0 is the host's, the others are GPUs' (and other NUMA nodes', if StarPU tells them
 * apart). */
typedef struct sl_timeline_transfer {
  int64_t step;
  int64_t start, end; /* start: the request, or the predicted end of the link's previous copy if that is later; end:
                         predicted from the bandwidth that StarPU has measured */
  int64_t bytes;
  int32_t from, to;
  int32_t node; /* the task or exchange that read it there; -1: none */
} sl_timeline_transfer;

/* Node `to` reads the value that node `from` has written in this step. from = -1: the batch, which its kernel brings
 * from the host's memory; to = -1: a result, which must be in the host's memory at the end of the step. */
typedef struct sl_timeline_flow {
  int32_t from, to, value;
  int64_t bytes;
} sl_timeline_flow;

typedef struct sl_timeline {
  const char *model, *sched;
  int rank, ranks;
  /* Ranks with the same samples are `pipe` stages of `tensor` ranks each; this rank is in stage (rank % (pipe *
   * tensor)) / tensor. micro_batches: of a step. chunks: runs of layers of a stage. pass_kinds: passes of a micro-batch
   * through a run, 2, or 3 if the gradients of weights have a pass of their own. pipe 0: not known. */
  int pipe, tensor, micro_batches, chunks, pass_kinds;
  /* sgemm in GFLOP/s and triad in GB/s of one CPU worker while all workers run it; 0: not measured. */
  double peak_gflops, peak_gigabytes;
  int n_workers, n_nodes, n_kinds, n_clocks;
  sl_timeline_worker *worker;
  sl_timeline_node *node;
  int *from, *before;         /* node i waits for before[from[i]] ... before[from[i + 1] - 1] */
  sl_timeline_buffer *buffer; /* [n_buffers] of temporaries */
  sl_timeline_use *use;       /* [n_uses] */
  int n_buffers, n_uses;
  sl_timeline_transfer *transfer; /* [n_transfers] the latest ones, the oldest first */
  int n_transfers;
  sl_timeline_flow *flow; /* [n_flows] by their readers */
  int n_flows;
  double link; /* bytes/s between the host's memory and that of a GPU, in the faster direction, as StarPU has measured
                  it; 0: no GPU */
  sl_clock clock[2]; /* at the start and at the end; n_clocks of them */
  sl_record *record; /* in the order in which they were added */
  size_t n_records;
  uint64_t lost; /* number of earlier records that the ring had overwritten */
  char **text;   /* the texts that the names above point to, each once */
  int n_texts;
} sl_timeline;

/* Makes an empty timeline with room for these numbers of workers, nodes and dependencies; add texts by
 * sl_timeline_text. */
sl_status sl_timeline_create(int n_workers, int n_nodes, int n_dependencies, sl_timeline **timeline);
void sl_timeline_destroy(sl_timeline *timeline); /* NULL is allowed */
/* Replaces the buffers and uses by empty ones, so many of each. */
sl_status sl_timeline_reserve_buffers(sl_timeline *timeline, int n_buffers, int n_uses);
/* Replaces the transfers by so many empty ones. */
sl_status sl_timeline_reserve_transfers(sl_timeline *timeline, int n);
/* Replaces the flows by so many empty ones. */
sl_status sl_timeline_reserve_flows(sl_timeline *timeline, int n);
/* Returns a copy of text that lives as long as the timeline, the same copy for equal texts; NULL when out of memory. */
const char *sl_timeline_text(sl_timeline *timeline, const char *text);
/* Replaces the records by the recorder's. */
sl_status sl_timeline_take(sl_timeline *timeline, const sl_recorder *recorder);

/* "timeline-3.safetensors": the file's name in a run directory. */
enum { SL_TIMELINE_NAME = 40 };
char *sl_timeline_name(int rank, char name[SL_TIMELINE_NAME]);
/* Whether name is the name of a timeline file. */
int sl_timeline_is_name(const char *name);

/* A timeline is one safetensors file, described in docs/reference/formats.md. Errors: SL_EIO; when reading also
 * SL_EFORMAT, which names file and field. */
sl_status sl_timeline_write(const char *path, const sl_timeline *timeline);
sl_status sl_timeline_read(const char *path, sl_timeline **timeline);
/* Reads the timelines of all ranks in a folder, in the order of ranks, each on rank 0's clock; a rank without a file is
 * left out. The caller destroys each timeline and frees *timelines. SL_ENOTFOUND if the folder has none. */
sl_status sl_timeline_read_all(const char *folder, sl_timeline ***timelines, int *n);
/* Converts the records' times to rank 0's clock. */
void sl_timeline_align(sl_timeline *timeline);

/* The window to analyse, in ns: from the first whole step, whose number goes to *first, to the end of the last record.
 * The step whose records the ring has partly overwritten is left out. Both are 0 without records. */
void sl_timeline_window(const sl_timeline *timeline, int64_t *from, int64_t *to, int64_t *first);

#ifdef __cplusplus
}
#endif
#endif
