/* A prefetching loader: one thread fills a ring of batches ahead of their use, so that reading, decoding and gathering
 * samples stays off the workers' critical path. It sleeps when all slots are full.
 *
 * Training order is one endless stream of samples: epoch 0's permutation of all samples, then epoch 1's, and so on. A
 * batch is the next `batch` samples of that stream, so it may cross the border of two epochs; no epoch drops or repeats
 * a sample. The cursor (samples consumed so far, over all ranks) is the loader's whole state: a loader started at
 * cursor c returns the same batches as an older loader after c samples. Evaluation is one pass in order, the last batch
 * padded. Training images may be augmented, depending on seed, epoch and sample alone.
 *
 * All functions are called by one thread (or one at a time). */
#ifndef SL_LOADER_H
#define SL_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/data/augment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of a data set. */
typedef enum sl_split { SL_SPLIT_TRAIN, SL_SPLIT_VALIDATION, SL_SPLIT_TEST, SL_SPLIT_COUNT } sl_split;

/* A source of n samples of sample_bytes bytes each. */
typedef struct sl_sample_source {
  int64_t n;           /* samples, >= 1 for training */
  size_t sample_bytes; /* of one sample */
  /* Writes sample i (sample_bytes bytes) and its label (-1: ignored). The loader's thread calls it, so it must not use
   * data that another thread writes. sl_loader_next returns its failures. */
  sl_status (*read)(void *arg, int64_t i, void *sample, int32_t *label);
  void *arg; /* outlives the loader */
} sl_sample_source;

typedef enum sl_loader_mode { SL_LOADER_TRAIN, SL_LOADER_EVAL } sl_loader_mode;

typedef struct sl_loader_options {
  sl_sample_source source;
  sl_loader_mode mode;
  int64_t batch;                   /* B, the global batch */
  int64_t first;                   /* this rank's part of each batch: rows [first, first + rows) of its B ... */
  int64_t rows;                    /* ... 0: all rows from `first` on */
  uint64_t seed;                   /* of the order and of augmentation; unused by evaluation */
  int64_t cursor;                  /* number of samples that all ranks consumed before */
  int depth;                       /* slots; 0 means 3, and 2 is the least */
  const int *cpus;                 /* operating-system numbers of the CPUs that the thread is bound to; copied */
  int ncpus;                       /* 0: not bound */
  sl_augment augment;              /* of training; all 0: none */
  int64_t height, width, channels; /* of a sample, where augment is not 0: its bytes are [height, width, channels] */
} sl_loader_options;

/* One slot of the ring. The caller owns it from sl_loader_next to sl_loader_release and may write to it. */
typedef struct sl_batch {
  int slot;           /* number, 0 <= slot < depth; slots never move, so they are registered once */
  int64_t rows;       /* rows here: the loader's rows */
  int64_t valid;      /* rows of the global batch that are real samples; B in training */
  int64_t valid_here; /* rows here that are real samples; padding has zero bytes and label -1 */
  int64_t cursor;     /* the cursor after this batch */
  void *samples;      /* [rows, sample_bytes], 64-byte aligned */
  int32_t *labels;    /* [rows], 64-byte aligned */
} sl_batch;

typedef struct sl_loader sl_loader;

/* Starts the thread that fills the slots. SL_EINVAL, SL_ENOMEM, SL_EIO (no thread). */
sl_status sl_loader_create(const sl_loader_options *options, sl_loader **loader);
/* Returns the next batch in order and waits until it is ready. *batch is NULL after the last batch of an evaluation.
 * SL_EINVAL: the caller holds all slots. A failure of the source is returned in place of the batch that it hit; after
 * it, rewind or destroy the loader. */
sl_status sl_loader_next(sl_loader *loader, sl_batch **batch);
/* The batch that sl_loader_next would return, if it is ready; else NULL. The loader keeps ownership. The content stays
 * until sl_loader_next has returned the batch and the caller has released it, or until the loader is rewound. */
const sl_batch *sl_loader_peek(sl_loader *loader);
/* Returns a slot to the loader. Slots may be returned in any order. */
void sl_loader_release(sl_loader *loader, sl_batch *batch);
/* Starts again at a cursor (evaluation: 0 for another pass). The caller must not hold a slot. */
sl_status sl_loader_rewind(sl_loader *loader, int64_t cursor);
/* Stops the thread and frees all batches, held ones included. NULL is allowed. */
void sl_loader_destroy(sl_loader *loader);

int64_t sl_loader_cursor(const sl_loader *loader); /* after the last batch that sl_loader_next returned */
double sl_loader_waited(const sl_loader *loader);  /* seconds spent waiting in sl_loader_next, since creation */
int sl_loader_depth(const sl_loader *loader);
const sl_batch *sl_loader_slot(const sl_loader *loader, int slot); /* for registering its memory */

#ifdef __cplusplus
}
#endif
#endif
