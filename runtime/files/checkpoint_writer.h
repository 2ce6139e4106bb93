/* Writes checkpoints (checkpoint.h) while training goes on. At a step's end each rank copies its share into a buffer; a
 * thread writes the buffer to the disk; rank 0 renames the checkpoint into place when all parts are on the disk.
 *
 * A kill at any moment leaves all earlier checkpoints whole, and at most a partial one, which the next start removes:
 * parts and manifest are synchronised in .step-00001200.partial before it is renamed. */
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

/* Divides n whole tensors that all ranks hold evenly by bytes. `mine` gets this rank's pieces, a run of the tensors;
 * only a tensor larger than a share is cut. mine has room for n; returns the number of pieces. */
int sl_checkpoint_share(const sl_checkpoint_piece *whole, int n, int rank, int ranks, sl_checkpoint_piece *mine);

typedef struct sl_checkpoint_options {
  const char *folder; /* of all checkpoints, as rank 0 says, which makes it in a folder that exists */
  MPI_Comm comm;      /* copied; MPI_COMM_NULL: one rank */
  int keep;           /* number of newest checkpoints that stay, at least 1 */
  int64_t from;       /* step that training goes on from: later ones in the folder were refused and are put aside */
  int send;           /* for tests: 1: pretend that only rank 0 sees the folder */
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
 * Waits for the one before if that is still being written. All ranks, for the same steps. header: any JSON object,
 * whose reference the writer takes over; only rank 0 needs one. If it is NULL (out of memory), the checkpoint fails
 * with SL_ENOMEM, which poll and wait return on all ranks. */
sl_status sl_checkpoint_begin(sl_checkpoint_writer *writer, int64_t step, json_t *header);
/* Returns, once, the failure of a checkpoint that has ended since the last call, with its error text; the same on all
 * ranks. Earlier checkpoints stay, and the next one may begin. poll does not wait for a checkpoint being written. */
sl_status sl_checkpoint_poll(sl_checkpoint_writer *writer);
sl_status sl_checkpoint_wait(sl_checkpoint_writer *writer);
/* The step of the newest checkpoint that has been written, or `from` of the options before the first. */
int64_t sl_checkpoint_written(sl_checkpoint_writer *writer);

/* Of this rank. */
size_t sl_checkpoint_bytes(const sl_checkpoint_writer *writer); /* of its part, in the file and in memory */
double sl_checkpoint_stood(const sl_checkpoint_writer *writer); /* total seconds spent in _begin */
int sl_checkpoint_sends(const sl_checkpoint_writer *writer);    /* whether it sends its part to rank 0 */

#ifdef __cplusplus
}
#endif
#endif
