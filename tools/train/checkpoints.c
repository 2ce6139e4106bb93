/* Decides when to write checkpoints, and reports those that failed. */
#include "tools/train/checkpoints.h"

#include <stdlib.h>

#include "runtime/base/log.h"
#include "runtime/base/time.h"
#include "runtime/files/checkpoint_writer.h"
#include "runtime/trace/recorder.h"
#include "tools/run/session.h"

struct sl__checkpoints {
  sl_checkpoint_writer *writer;
  sl_store *store;
  int rank;
  int64_t every, saved; /* saved: step of the last checkpoint */
  double minutes;
  int64_t at; /* ns: when the last checkpoint was begun */
  int warned; /* has warned that training waits for checkpoints */
};

static const double LONG_WAIT_S = 1;

/* Lists the tensors that this rank writes: its share of those that all ranks hold, and all that only it holds. */
static sl_status share_of_store(const sl__checkpoints_options *o, int ranks, int rank, sl_checkpoint_piece **mine,
                                int *n) {
  const int count = sl_store_count(o->store);
  sl_checkpoint_piece *whole = calloc((size_t)count + 1, sizeof *whole);
  *mine = calloc((size_t)count + 1, sizeof **mine);
  if (!whole || !*mine) {
    free(whole);
    return sl_no_memory("for checkpoints");
  }
  int shared = 0, own = count; /* shared tensors fill the list from the front, this rank's own from the back */
  for (int i = 0; i < count; i++) {
    const sl_tensor *t = sl_store_at(o->store, i);
    if (!t->data || (t->owner >= 0 && t->owner != rank)) continue; /* of the ranks of a stage the first one writes */
    whole[t->owner < 0 ? shared++ : --own] = (sl_checkpoint_piece){.name = t->name,
                                                                   .dtype = t->dtype,
                                                                   .shape = t->shape,
                                                                   .rows = t->shape.ndim ? t->shape.dim[0] : 1,
                                                                   .data = t->data};
  }
  *n = sl_checkpoint_share(whole, shared, rank, ranks, *mine);
  for (; own < count; own++) (*mine)[(*n)++] = whole[own];
  free(whole);
  return SL_OK;
}

sl_status sl__checkpoints_create(const sl__checkpoints_options *o, sl__checkpoints **result) {
  sl_status status = SL_OK;
  sl_checkpoint_piece *mine = NULL;
  int ranks = 1;
  *result = NULL;
  sl__checkpoints *c = calloc(1, sizeof *c);
  if (!c) return sl_no_memory("for checkpoints");
  if (o->comm != MPI_COMM_NULL) MPI_Comm_rank(o->comm, &c->rank), MPI_Comm_size(o->comm, &ranks);
  c->store = o->store, c->every = o->every, c->minutes = o->minutes, c->saved = o->from, c->at = sl_now();
  sl_checkpoint_options options = {.folder = o->folder, .comm = o->comm, .keep = o->keep, .from = o->from};
  SL_TRY_OUT(share_of_store(o, ranks, c->rank, &mine, &options.n));
  options.piece = mine;
  SL_TRY_OUT(sl_checkpoint_writer_create(&options, &c->writer));
  *result = c;
  c = NULL;
out:
  free(mine);
  sl__checkpoints_destroy(c);
  return status;
}

void sl__checkpoints_destroy(sl__checkpoints *c) {
  if (!c) return;
  sl_checkpoint_writer_destroy(c->writer);
  free(c);
}

static void warn(const sl__checkpoints *c, sl_status status) {
  if (status != SL_OK && c->rank == 0)
    sl_log(SL_LOG_ERROR, "no checkpoint was written, training goes on: %s", sl_error());
}

sl__wish sl__checkpoints_wish(sl__checkpoints *c) {
  const int late = c->minutes > 0 && 1e-9 * (double)(sl_now() - c->at) >= 60 * c->minutes;
  warn(c, sl_checkpoint_poll(c->writer));
  return sl__signalled() ? SL__WISH_STOP : late ? SL__WISH_SAVE : SL__WISH_NONE;
}

int sl__checkpoints_due(const sl__checkpoints *c, int64_t step, int validated, int last, sl__wish wish) {
  return last || wish != SL__WISH_NONE || (c->every < 0 ? validated : c->every > 0 && step % c->every == 0);
}

sl_status sl__checkpoints_save(sl__checkpoints *c, int64_t step, json_t *header) {
  if (step == c->saved) {
    json_decref(header);
    return SL_OK;
  }
  warn(c, sl_checkpoint_poll(c->writer));
  c->saved = step, c->at = sl_now();
  SL_TRY(sl_store_acquire(c->store, 0));
  const sl_status status = sl_checkpoint_begin(c->writer, step, header);
  sl_store_release(c->store);
  if (sl_checkpoint_waited(c->writer) > LONG_WAIT_S && c->rank == 0 && !c->warned++)
    sl_log(SL_LOG_WARNING,
           "training waited %.1f s at step %lld for the previous checkpoint: the disk is too slow for this many "
           "checkpoints; --checkpoint-every makes them rarer",
           sl_checkpoint_waited(c->writer), (long long)step);
  return status;
}

int64_t sl__checkpoints_written(const sl__checkpoints *c) { return sl_checkpoint_written(c->writer); }

sl_status sl__checkpoints_finish(sl__checkpoints *c) {
  const sl_status status = sl_checkpoint_wait(c->writer);
  /* All ranks know the same step as written, so it decides whether the ranks write again. The failure must not decide:
   * it may be that of an earlier checkpoint, which only some ranks have reported already. */
  if (sl_checkpoint_written(c->writer) == c->saved) {
    warn(c, status);
    return SL_OK;
  }
  c->saved = -1; /* the same step may be saved again */
  return status != SL_OK ? status : sl_fail(SL_EWRITE, "it could not be written");
}

size_t sl__checkpoints_bytes(const sl__checkpoints *c) { return sl_checkpoint_bytes(c->writer); }
double sl__checkpoints_stood(const sl__checkpoints *c) { return sl_checkpoint_stood(c->writer); }
