/* Writes checkpoints (checkpoint.h) while training goes on: at a step's end each rank copies its share into a buffer of
 * its own; a thread writes it out, and rank 0 puts the whole in place when the parts of all ranks are on the disk.
 *
 * What a kill at any moment leaves is the checkpoints before, whole, and a partial one that the next start removes:
 * parts and manifest are synchronised in .step-00001200.partial before that is renamed. */
#ifndef SL_CHECKPOINT_WRITER_H
#define SL_CHECKPOINT_WRITER_H

#include <jansson.h>
#include <mpi.h>

#include "runtime/files/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows [first, first + rows) of a tensor, which this rank writes. */
typedef struct sl_checkpoint_piece {
  const char *name;
  sl_dtype dtype;
  sl_shape shape;      /* of the whole tensor */
  int64_t first, rows; /* of a scalar 0, 1 */
  const void *data;    /* of row `first`; the same memory at every checkpoint */
} sl_checkpoint_piece;

/* Divides what all ranks hold alike (n whole tensors) evenly by bytes: this rank's pieces, a run of the tensors. Only
 * one that is larger than a share is cut. mine has room for n; returns how many there are. */
int sl_checkpoint_share(const sl_checkpoint_piece *whole, int n, int rank, int ranks, sl_checkpoint_piece *mine);

typedef struct sl_checkpoint_options {
  const char *folder; /* of all checkpoints, as rank 0 says, which makes it in a folder that exists */
  MPI_Comm comm;      /* copied; MPI_COMM_NULL: one rank */
  int keep;           /* the newest so many stay, at least 1 */
  int64_t from;       /* step that training goes on from: later ones in the folder were refused and are put aside */
  int send;           /* for tests: as if no rank but 0 saw the folder */
  const sl_checkpoint_piece *piece; /* copied, with their names; the pieces of all ranks make up each tensor once */
  int n;
} sl_checkpoint_options;

typedef struct sl_checkpoint_writer sl_checkpoint_writer;

/* Collective; the same status on all ranks. Makes and tidies the folder, and finds out which ranks see it: the others
 * will send their parts to rank 0. SL_EIO, SL_ENOMEM, SL_EMPI. */
sl_status sl_checkpoint_writer_create(const sl_checkpoint_options *options, sl_checkpoint_writer **writer);
/* Collective; waits for what is being written. NULL is allowed. */
void sl_checkpoint_writer_destroy(sl_checkpoint_writer *writer);

/* Copies the pieces, whose tensors must not change meanwhile, and lets them be written as the checkpoint of this step.
 * Waits for the one before if that is still being written. All ranks, for the same steps. header: any JSON object
 * that goes with it, whose reference is taken over; only rank 0 needs one. Without it, as where memory for it was
 * lacking, the checkpoint fails with SL_ENOMEM, which poll and wait tell on all ranks. */
sl_status sl_checkpoint_begin(sl_checkpoint_writer *writer, int64_t step, json_t *header);
/* The failure, with its words, of a checkpoint that has ended and was not asked about yet, once; the same on all ranks.
 * The checkpoints before stay, and the next one may begin. poll does not wait for one that is being written. */
sl_status sl_checkpoint_poll(sl_checkpoint_writer *writer);
sl_status sl_checkpoint_wait(sl_checkpoint_writer *writer);

/* Of this rank. */
size_t sl_checkpoint_bytes(const sl_checkpoint_writer *writer); /* of its part, in the file and in memory */
double sl_checkpoint_stood(const sl_checkpoint_writer *writer); /* seconds that _begin took, in all */
int sl_checkpoint_sends(const sl_checkpoint_writer *writer);    /* whether it sends its part to rank 0 */

#ifdef __cplusplus
}
#endif
#endif
