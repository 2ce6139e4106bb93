/* Writes checkpoints (checkpoint.h) while training goes on. At the end of a step each rank copies its share into a
 * buffer, and a thread writes the buffer to the disk. When all parts are on the disk, rank 0 renames the checkpoint
 * into place.
 *
 * A kill at any moment leaves all earlier checkpoints whole, and at most one partial checkpoint, which the next start
 * removes: parts and manifest are synchronised in .step-00001200.partial before it is renamed. */
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

/* Divides n whole tensors, which all ranks hold, into shares of nearly equal bytes. `mine` (room for n) gets this
 * rank's pieces, consecutive tensors; only tensors larger than a share are cut. Returns the number of pieces. */
int sl_checkpoint_share(const sl_checkpoint_piece *whole, int n, int rank, int ranks, sl_checkpoint_piece *mine);

typedef struct sl_checkpoint_options {
  const char *folder; /* of all checkpoints, by rank 0's name for it; rank 0 makes it in an existing folder */
  MPI_Comm comm;      /* copied; MPI_COMM_NULL: one rank */
  int keep;           /* number of newest checkpoints to keep, at least 1 */
  int64_t from;       /* step at which training continues: later checkpoints in the folder were refused and are put
                         aside */
  int send;           /* for tests; 1: pretends that only rank 0 sees the folder */
  const sl_checkpoint_piece *piece; /* copied, with their names; the pieces of all ranks contain each row once */
  int n;
} sl_checkpoint_options;

typedef struct sl_checkpoint_writer sl_checkpoint_writer;

/* Collective; the same status on all ranks. Makes and tidies the folder, and finds out which ranks see it; the other
 * ranks will send their parts to rank 0. SL_EIO, SL_ENOMEM, SL_EMPI. */
sl_status sl_checkpoint_writer_create(const sl_checkpoint_options *options, sl_checkpoint_writer **writer);
/* Collective; waits for the checkpoint being written. NULL is allowed. */
void sl_checkpoint_writer_destroy(sl_checkpoint_writer *writer);

/* Copies the pieces, which must not change meanwhile, and starts writing them as the checkpoint of this step. Waits
 * first if the previous checkpoint is still being written. All ranks call it, for the same steps. header: a JSON object
 * whose reference the writer takes over; only rank 0 needs one. If it is NULL (out of memory), the checkpoint fails
 * with SL_ENOMEM, which poll and wait return on all ranks. */
sl_status sl_checkpoint_begin(sl_checkpoint_writer *writer, int64_t step, json_t *header);
/* Returns the failure, if any, of a checkpoint that has ended since the last call, with its error text; all ranks get
 * the same. Earlier checkpoints stay, and the next one may begin. poll does not wait for a checkpoint being written. */
sl_status sl_checkpoint_poll(sl_checkpoint_writer *writer);
sl_status sl_checkpoint_wait(sl_checkpoint_writer *writer);
/* The step of the newest checkpoint that has been written, or `from` of the options before the first. */
int64_t sl_checkpoint_written(sl_checkpoint_writer *writer);

/* About this rank. */
size_t sl_checkpoint_bytes(const sl_checkpoint_writer *writer); /* bytes of its part, in the file and in memory */
/* Seconds that the last _begin waited for the checkpoint before it. */
double sl_checkpoint_waited(const sl_checkpoint_writer *writer);
double sl_checkpoint_stood(const sl_checkpoint_writer *writer); /* total seconds spent in _begin */
int sl_checkpoint_sends(const sl_checkpoint_writer *writer);    /* whether it sends its part to rank 0 */

#ifdef __cplusplus
}
#endif
#endif
