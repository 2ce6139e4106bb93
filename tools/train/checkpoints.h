/* The checkpoints of a training run: when one is due, and the warning if it cannot be written. */
#ifndef SL_TOOLS_CHECKPOINTS_H
#define SL_TOOLS_CHECKPOINTS_H

#include <jansson.h>
#include <mpi.h>

#include "runtime/machine/store.h"

typedef struct sl__checkpoints_options {
  const char *folder; /* RUN/checkpoints; rank 0's counts */
  MPI_Comm comm;      /* MPI_COMM_NULL: one rank */
  sl_store *store;    /* the tensors to save, with fixed memory; all ranks have equal values, except of tensors with an
                         owner */
  int64_t from;       /* step that this start continues from */
  int64_t every;      /* steps between checkpoints; 0: only the last one; -1: at each validation */
  double minutes;     /* longest time between checkpoints; 0: no limit */
  int keep;
} sl__checkpoints_options;

typedef struct sl__checkpoints sl__checkpoints;

/* Collective; the same status on all ranks. */
sl_status sl__checkpoints_create(const sl__checkpoints_options *options, sl__checkpoints **checkpoints);
void sl__checkpoints_destroy(sl__checkpoints *checkpoints); /* collective; NULL is allowed */

/* A rank's wish for a checkpoint. The ranks follow the greatest wish among them. */
typedef enum sl__wish { SL__WISH_NONE, SL__WISH_SAVE /* time is up */, SL__WISH_STOP /* a signal came */ } sl__wish;
/* This rank's wish, for sl__ranks_ask. Warns if a checkpoint has failed; training continues. */
sl__wish sl__checkpoints_wish(sl__checkpoints *checkpoints);
/* Whether to save the step that has just ended; the same on all ranks. validated: the step was validated. last: it is
 * the last step. wish: the result of sl__ranks_answer. */
int sl__checkpoints_due(const sl__checkpoints *checkpoints, int64_t step, int validated, int last, sl__wish wish);
/* Begins the checkpoint of this step, on every rank, while no task runs; skips a step that is saved already. header: on
 * rank 0, which gives up its ownership; NULL on others. Waits only for the previous checkpoint. */
sl_status sl__checkpoints_save(sl__checkpoints *checkpoints, int64_t step, json_t *header);
/* The step of the newest checkpoint on disk that this start wrote or resumed from; 0: none. */
int64_t sl__checkpoints_written(const sl__checkpoints *checkpoints);
/* Waits for the last checkpoint and returns its status. After a failure the same step can be saved again. */
sl_status sl__checkpoints_finish(sl__checkpoints *checkpoints);

size_t sl__checkpoints_bytes(const sl__checkpoints *checkpoints); /* memory of this rank's copy */
double sl__checkpoints_stood(const sl__checkpoints *checkpoints); /* seconds that training waited for checkpoints */

#endif
