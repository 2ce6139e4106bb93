/* Meetings of ranks that train apart (--sync). */
#include "tools/ranks/sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/activity.h"
#include "runtime/base/log.h"
#include "runtime/machine/comm.h"

enum { PIECE = 1 << 22 }; /* elements that are summed at once */
static const double OUTER_RATE = 0.7, OUTER_MOMENTUM = 0.9;

static sl_status refuse(const char *what) { return sl_blame(sl_fail(SL_EINVAL, "--sync: %s", what), "sync"); }

sl_status sl__sync_parse(const sl__options *o, const sl__ranks *ranks, sl_precision precision, sl__sync *s) {
  const char *text = o->sync;
  char end;
  long long every = 0;
  *s = (sl__sync){0};
  if (!text || strcmp(text, "step") == 0) return SL_OK;
  s->outer = strncmp(text, "diloco:", 7) == 0;
  if (sscanf(text, s->outer ? "diloco:%lld%c" : "local:%lld%c", &every, &end) != 1 || every < 1)
    return sl_blame(
        sl_fail(SL_EINVAL, "--sync %s is none of step, local:H and diloco:H, with H steps, 1 or more", text), "sync");
  s->every = every;
  if (sl__mesh_model_ranks(&ranks->mesh) > 1)
    return refuse("ranks that share their samples (--mesh) meet in every step");
  if (precision == SL_PRECISION_FP16)
    return refuse("with fp16 each rank would have a loss scale of its own: use --precision bf16 or fp32");
  if (o->zero > 0) return refuse("each rank updates all parameters: leave --zero out");
  if (o->balance && strcmp(o->balance, "auto") == 0)
    return refuse("ranks do not wait for one another in a step: leave --balance auto out");
  if (o->compress && strcmp(o->compress, "none") != 0) return refuse("no gradients are sent: leave --compress out");
  if (ranks->n > 1)
    sl_log(SL_LOG_WARNING,
           "--sync %s gives up the promise of the same bits on any number of ranks: each trains on its own samples for "
           "%lld steps at a time",
           text, every);
  return SL_OK;
}

sl_status sl__sync_plan(const sl_plan *plan, const sl__ranks *ranks, sl_plan *own) {
  *own = *plan;
  own->batch = ranks->training_rows;
  if (ranks->n > 1) own->leaves = ranks->training_leaf[ranks->rank + 1] - ranks->training_leaf[ranks->rank];
  own->shards = plan->shards / plan->leaves * own->leaves;
  return sl_plan_complete(own);
}

/* Whether a meeting averages tensor i: all ranks hold it, and the outer optimizer did not add it. */
static int is_met(const sl__sync *s, const sl_tensor *t, int i) { return i < s->n && t->owner < 0 && t->data; }

static int64_t count(const sl_tensor *t) { return sl_shape_count(&t->shape); }

static sl_tensor *velocity_of(sl_store *store, const sl_tensor *t) {
  char name[512];
  snprintf(name, sizeof name, "%s.outer", t->name);
  return sl_store_find(store, name);
}

sl_status sl__sync_open(sl__sync *s, const sl_plan *plan, const sl__ranks *ranks, sl_store *store) {
  if (s->every == 0) return SL_OK;
  const int n = sl_store_count(store);
  if (s->start) return SL_OK; /* already open: only the programs are made again */
  s->weight = (double)ranks->training_rows / (double)plan->batch;
  s->n = n;
  for (int i = 0; i < n; i++)
    if (sl_store_at(store, i)->dtype != SL_F32 && sl_store_at(store, i)->dtype != SL_F64)
      return refuse("this training keeps state that has no mean, such as a counter");
  if (!s->outer) return SL_OK;
  if (!(s->start = calloc((size_t)n + 1, sizeof *s->start))) return sl_no_memory("for --sync");
  for (int i = 0; i < n; i++) {
    const sl_tensor *t = sl_store_at(store, i);
    char name[512];
    sl_tensor *velocity;
    if (!t->parameter) continue;
    if (!(s->start[i] = malloc((size_t)count(t) * sizeof(float) + 1))) return sl_no_memory("for --sync");
    snprintf(name, sizeof name, "%s.outer", t->name);
    SL_TRY(sl_store_add(store, name, SL_F32, &t->shape, 0, &velocity));
  }
  return SL_OK;
}

void sl__sync_close(sl__sync *s) {
  for (int i = 0; i < s->n && s->start; i++) free(s->start[i]);
  free(s->start);
  s->start = NULL;
}

size_t sl__sync_bytes(const sl__sync *s, const sl_store *store) {
  size_t bytes = s->every ? (size_t)PIECE * sizeof(float) : 0;
  for (int i = 0; i < s->n && s->start; i++)
    if (s->start[i]) bytes += 2 * (size_t)count(sl_store_at(store, i)) * sizeof(float); /* start and velocity */
  return bytes;
}

void sl__sync_restart(sl__sync *s, int64_t step) { s->met = step, s->begun = 0; }

sl_status sl__sync_begin(sl__sync *s, sl_store *store) {
  if (s->every == 0 || s->begun) return SL_OK;
  s->begun = 1;
  if (!s->start) return SL_OK;
  SL_TRY(sl_store_acquire(store, 0));
  for (int i = 0; i < s->n; i++)
    if (s->start[i])
      memcpy(s->start[i], sl_store_at(store, i)->data, (size_t)count(sl_store_at(store, i)) * sizeof(float));
  sl_store_release(store);
  return SL_OK;
}

/* Replaces a tensor by its mean over the ranks. */
static sl_status take_mean(sl__sync *s, const sl__ranks *ranks, const sl_tensor *t) {
  const int wide = t->dtype == SL_F64;
  for (int64_t at = 0; at < count(t) && ranks->n > 1; at += PIECE) {
    const int n = (int)(count(t) - at < PIECE ? count(t) - at : PIECE);
    float *x = (float *)t->data + (wide ? 0 : at);
    double *y = (double *)t->data + (wide ? at : 0);
    if (wide)
      for (int i = 0; i < n; i++) y[i] *= s->weight;
    else
      for (int i = 0; i < n; i++) x[i] *= (float)s->weight;
    SL_TRY(sl_comm_status(
        MPI_Allreduce(MPI_IN_PLACE, wide ? (void *)y : x, n, wide ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, ranks->comm),
        "MPI_Allreduce"));
    s->sent += 2 * (uint64_t)n * (wide ? 8 : 4) * (uint64_t)(ranks->n - 1) / (uint64_t)ranks->n;
    sl_activity_move();
  }
  return SL_OK;
}

/* Nesterov momentum as torch.optim.SGD has it, of the gradient start - mean. */
static void move_on(const sl_tensor *t, float *start, float *velocity) {
  float *x = t->data;
  for (int64_t i = 0; i < count(t); i++) {
    const double way = (double)start[i] - (double)x[i], v = OUTER_MOMENTUM * (double)velocity[i] + way;
    velocity[i] = (float)v;
    x[i] = start[i] = (float)((double)start[i] - OUTER_RATE * (way + OUTER_MOMENTUM * v));
  }
}

sl_status sl__sync_meet(sl__sync *s, const sl__ranks *ranks, sl_store *store, int64_t step) {
  if (sl__sync_alike(s, step)) return SL_OK;
  s->met = step;
  if (!s->begun) return SL_OK; /* all steps since the last meeting were skipped: the ranks are still alike */
  sl_status status = SL_OK;
  sl_activity_begin(SL_WAITS, "the mean of the ranks' parameters (--sync)");
  SL_TRY_OUT(sl_store_acquire(store, 1));
  for (int i = 0; i < sl_store_count(store) && status == SL_OK; i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (!is_met(s, t, i)) continue;
    status = take_mean(s, ranks, t);
    if (status == SL_OK && s->start && s->start[i]) move_on(t, s->start[i], velocity_of(store, t)->data);
  }
  sl_store_release(store);
  s->begun = 0;
out:
  sl_activity_end();
  return status;
}
