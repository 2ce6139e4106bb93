/* The prefetching loader: one thread, a ring of slots, a mutex, and a condition for each side to sleep on. */
#include "runtime/data/loader.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "runtime/numbers/permutation.h"

enum { DEFAULT_DEPTH = 3, LEAST_DEPTH = 2, ALIGNMENT = 64, ERROR_BYTES = 2048 };

/* A slot's states: FREE -> FILLING (by the thread) -> READY -> HELD (by the caller) -> FREE. */
typedef enum slot_state { FREE, FILLING, READY, HELD } slot_state;

typedef struct slot {
  sl_batch batch; /* first member: a sl_batch's address is its slot's */
  slot_state state;
  int64_t number; /* of its batch, counted from 0 since the last start or rewind */
  sl_status status;
  char error[ERROR_BYTES];
} slot;

struct sl_loader {
  sl_loader_options options;
  int depth;
  slot *slots;      /* [depth] */
  uint8_t *samples; /* [depth, rows, sample_bytes], each slot's part rounded up to ALIGNMENT */
  int32_t *labels;  /* [depth, rows], likewise */
  uint8_t *plain;   /* [sample_bytes], for the thread: a sample before augmentation; NULL: no augmentation */

  pthread_t thread;
  pthread_mutex_t lock;         /* guards all fields below and the slots' states */
  pthread_cond_t freed, filled; /* the thread waits for freed, the caller for filled */
  atomic_uint generation;       /* changed by rewind and destroy; batches of older generations are discarded */
  int stopping;
  int64_t fill_cursor, fill_number; /* of the next batch to fill; number -1: none */
  int64_t next_cursor, next_number; /* of the next batch to give */
  double waited;
};

static int64_t round_up(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* The permutation of one epoch, kept by the thread. */
typedef struct epoch_order {
  int64_t epoch;
  sl_permutation permutation;
} epoch_order;

static int64_t training_sample(const sl_loader *l, epoch_order *order, int64_t position) {
  const int64_t n = l->options.source.n;
  if (position / n != order->epoch) {
    order->epoch = position / n;
    order->permutation = sl_permutation_make(n, l->options.seed, (uint64_t)order->epoch);
  }
  return sl_permutation_at(&order->permutation, position % n);
}

/* Fills the slot with its rows of the batch that begins at cursor. Returns early when the generation is over. */
static sl_status fill(const sl_loader *l, epoch_order *order, slot *s, int64_t cursor, unsigned generation) {
  const sl_loader_options *o = &l->options;
  const int64_t left = o->source.n - cursor;
  const int eval = o->mode == SL_LOADER_EVAL;
  sl_batch *b = &s->batch;
  b->valid = eval && left < o->batch ? left : o->batch;
  b->valid_here = b->valid - o->first;
  if (b->valid_here < 0) b->valid_here = 0;
  if (b->valid_here > b->rows) b->valid_here = b->rows;
  b->cursor = cursor + b->valid;
  for (int64_t r = 0; r < b->valid_here; r++) {
    if (atomic_load_explicit(&l->generation, memory_order_relaxed) != generation) return SL_OK;
    const int64_t position = cursor + o->first + r, i = eval ? position : training_sample(l, order, position);
    uint8_t *sample = (uint8_t *)b->samples + (size_t)r * o->source.sample_bytes;
    SL_TRY(o->source.read(o->source.arg, i, l->plain ? l->plain : sample, &b->labels[r]));
    if (!l->plain) continue;
    const sl_augment_draw draw = sl_augment_at(&o->augment, o->seed, order->epoch, i);
    sl_augment_apply(&draw, o->height, o->width, o->channels, l->plain, sample);
  }
  memset((char *)b->samples + (size_t)b->valid_here * o->source.sample_bytes, 0,
         (size_t)(b->rows - b->valid_here) * o->source.sample_bytes);
  for (int64_t r = b->valid_here; r < b->rows; r++) b->labels[r] = -1;
  return SL_OK;
}

static slot *free_slot(sl_loader *l) {
  if (l->fill_number < 0) return NULL;
  for (int i = 0; i < l->depth; i++)
    if (l->slots[i].state == FREE) return &l->slots[i];
  return NULL;
}

static void *run(void *arg) {
  sl_loader *l = arg;
  epoch_order order = {.epoch = -1};
  pthread_mutex_lock(&l->lock);
  for (;;) {
    slot *s;
    while (!l->stopping && !(s = free_slot(l))) pthread_cond_wait(&l->freed, &l->lock);
    if (l->stopping) break;
    const unsigned generation = atomic_load(&l->generation);
    const int64_t cursor = l->fill_cursor;
    s->state = FILLING;
    s->number = l->fill_number;
    pthread_mutex_unlock(&l->lock);

    sl_status status = fill(l, &order, s, cursor, generation);
    if (status != SL_OK) snprintf(s->error, sizeof s->error, "%s", sl_error());

    pthread_mutex_lock(&l->lock);
    if (atomic_load(&l->generation) != generation) {
      s->state = FREE;
      continue;
    }
    s->status = status;
    s->state = READY;
    l->fill_cursor = s->batch.cursor;
    l->fill_number++;
    if (status != SL_OK || (l->options.mode == SL_LOADER_EVAL && l->fill_cursor >= l->options.source.n))
      l->fill_number = -1;
    pthread_cond_signal(&l->filled);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

/* Sets the position at which filling and giving go on. The caller holds the lock, or no thread runs yet. */
static void start_at(sl_loader *l, int64_t cursor) {
  l->fill_cursor = l->next_cursor = cursor;
  l->fill_number = l->next_number = 0;
  if (l->options.mode == SL_LOADER_EVAL && cursor >= l->options.source.n) l->fill_number = -1;
}

/* Starts the thread, bound to the given CPUs if there are any. All signals are blocked in it, so that they reach the
 * program's own threads; all but SIGBUS, because sources may be mapped files. */
static sl_status start_thread(sl_loader *l) {
  sigset_t all, old;
  pthread_attr_t attributes;
  sl_status status = SL_OK;
  cpu_set_t *set = NULL;
  if (pthread_attr_init(&attributes) != 0) return sl_no_memory("for the loader's thread");
  if (l->options.ncpus > 0) {
    int most = 0;
    for (int i = 0; i < l->options.ncpus; i++)
      if (l->options.cpus[i] > most) most = l->options.cpus[i];
    const size_t bytes = CPU_ALLOC_SIZE(most + 1);
    set = CPU_ALLOC(most + 1);
    if (!set) SL_TRY_OUT(sl_no_memory("for the loader's thread"));
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < l->options.ncpus; i++) CPU_SET_S(l->options.cpus[i], bytes, set);
    pthread_attr_setaffinity_np(&attributes, bytes, set);
  }
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int error = pthread_create(&l->thread, &attributes, run, l);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (error) SL_TRY_OUT(sl_fail(SL_EIO, "cannot start the loader's thread: %s", strerror(error)));
  pthread_setname_np(l->thread, "sl-loader");
out:
  if (set) CPU_FREE(set);
  pthread_attr_destroy(&attributes);
  return status;
}

static void free_memory(sl_loader *l) {
  pthread_cond_destroy(&l->freed);
  pthread_cond_destroy(&l->filled);
  pthread_mutex_destroy(&l->lock);
  free((void *)l->options.cpus);
  free(l->samples), free(l->labels), free(l->plain), free(l->slots), free(l);
}

static sl_status check_augment(const sl_loader_options *o) {
  const sl_augment *a = &o->augment;
  if (a->pad < 0 || a->pad >= o->height || a->pad >= o->width)
    return sl_fail(SL_EINVAL, "augmentation: a border of %d pixels must be smaller than the image, %lldx%lld", a->pad,
                   (long long)o->height, (long long)o->width);
  int64_t row, bytes;
  if (o->mode != SL_LOADER_TRAIN || o->channels < 1 || __builtin_mul_overflow(o->width, o->channels, &row) ||
      __builtin_mul_overflow(o->height, row, &bytes) || (size_t)bytes != o->source.sample_bytes)
    return sl_fail(SL_EINVAL, "augmentation is for training images, but a sample has %zu bytes, not %lldx%lldx%lld",
                   o->source.sample_bytes, (long long)o->height, (long long)o->width, (long long)o->channels);
  return SL_OK;
}

sl_status sl_loader_create(const sl_loader_options *options, sl_loader **result) {
  const sl_loader_options *o = options;
  *result = NULL;
  const int64_t rows = o->rows ? o->rows : o->batch - o->first;
  const int depth = o->depth ? o->depth : DEFAULT_DEPTH;
  if (o->batch < 1 || o->first < 0 || rows < 1 || o->first + rows > o->batch)
    return sl_fail(SL_EINVAL, "loader: rows %lld to %lld are not within a batch of %lld", (long long)o->first,
                   (long long)(o->first + rows), (long long)o->batch);
  if (o->source.n < (o->mode == SL_LOADER_TRAIN) || o->source.sample_bytes < 1 || !o->source.read)
    return sl_fail(SL_EINVAL, "loader: the source has no samples");
  if (o->cursor < 0) return sl_fail(SL_EINVAL, "loader: the cursor %lld is negative", (long long)o->cursor);
  if (depth < LEAST_DEPTH) return sl_fail(SL_EINVAL, "loader: a depth of %d; %d is the least", depth, LEAST_DEPTH);
  const int augments = o->augment.pad || o->augment.flip;
  if (augments) SL_TRY(check_augment(o));
  int64_t slot_bytes, all_bytes;
  if (__builtin_mul_overflow(rows, (int64_t)o->source.sample_bytes, &slot_bytes) || slot_bytes > INT64_MAX / 2 ||
      __builtin_mul_overflow(round_up(slot_bytes), (int64_t)depth, &all_bytes))
    return sl_fail(SL_EINVAL, "loader: a batch of %lld samples overflows", (long long)rows);
  const int64_t label_bytes = round_up(rows * (int64_t)sizeof(int32_t));

  sl_loader *l = calloc(1, sizeof *l);
  if (!l) return sl_no_memory("for the loader");
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->freed, NULL);
  pthread_cond_init(&l->filled, NULL);
  l->options = *o;
  l->options.cpus = NULL;
  l->depth = depth;
  l->slots = calloc((size_t)depth, sizeof *l->slots);
  l->samples = aligned_alloc(ALIGNMENT, (size_t)all_bytes);
  l->labels = aligned_alloc(ALIGNMENT, (size_t)(label_bytes * depth));
  if (augments) l->plain = malloc(o->source.sample_bytes);
  int *cpus = o->ncpus > 0 ? malloc((size_t)o->ncpus * sizeof *cpus) : NULL;
  sl_status status = SL_OK;
  if (!l->slots || !l->samples || !l->labels || (augments && !l->plain) || (o->ncpus > 0 && !cpus)) {
    free(cpus);
    SL_TRY_OUT(sl_no_memory("for the loader's %d slots of %lld bytes; a smaller batch needs less", depth,
                            (long long)slot_bytes));
  }
  if (cpus) l->options.cpus = memcpy(cpus, o->cpus, (size_t)o->ncpus * sizeof *cpus);
  memset(l->samples, 0, (size_t)all_bytes); /* takes the page faults here, not in a step */
  memset(l->labels, 0, (size_t)(label_bytes * depth));
  for (int i = 0; i < depth; i++)
    l->slots[i].batch = (sl_batch){.slot = i,
                                   .rows = rows,
                                   .samples = l->samples + i * round_up(slot_bytes),
                                   .labels = l->labels + i * label_bytes / (int64_t)sizeof(int32_t)};
  start_at(l, o->cursor);
  SL_TRY_OUT(start_thread(l));
  *result = l;
  return SL_OK;
out:
  free_memory(l);
  return status;
}

static slot *ready_slot(sl_loader *l) {
  for (int i = 0; i < l->depth; i++)
    if (l->slots[i].state == READY && l->slots[i].number == l->next_number) return &l->slots[i];
  return NULL;
}

sl_status sl_loader_next(sl_loader *l, sl_batch **batch) {
  *batch = NULL;
  if (l->options.mode == SL_LOADER_EVAL && l->next_cursor >= l->options.source.n) return SL_OK;
  sl_status status = SL_OK;
  pthread_mutex_lock(&l->lock);
  int held = 0;
  for (int i = 0; i < l->depth; i++) held += l->slots[i].state == HELD;
  slot *s = ready_slot(l);
  if (!s && held == l->depth) {
    status = sl_fail(SL_EINVAL, "loader: all %d slots are held; release one first", l->depth);
  } else {
    if (!s) {
      const double start = sl_seconds();
      sl_activity_begin(SL_WAITS, "the next batch");
      while (!(s = ready_slot(l))) pthread_cond_wait(&l->filled, &l->lock);
      sl_activity_end();
      l->waited += sl_seconds() - start;
    }
    if (s->status != SL_OK) { /* the slot stays, so that the next call fails too */
      status = sl_fail(s->status, "%s", s->error);
    } else {
      s->state = HELD;
      l->next_cursor = s->batch.cursor;
      l->next_number++;
      *batch = &s->batch;
    }
  }
  pthread_mutex_unlock(&l->lock);
  return status;
}

const sl_batch *sl_loader_peek(sl_loader *l) {
  pthread_mutex_lock(&l->lock);
  const slot *s = ready_slot(l);
  const sl_batch *batch = s && s->status == SL_OK ? &s->batch : NULL;
  pthread_mutex_unlock(&l->lock);
  return batch;
}

void sl_loader_release(sl_loader *l, sl_batch *batch) {
  pthread_mutex_lock(&l->lock);
  l->slots[batch->slot].state = FREE;
  pthread_cond_signal(&l->freed);
  pthread_mutex_unlock(&l->lock);
}

sl_status sl_loader_rewind(sl_loader *l, int64_t cursor) {
  if (cursor < 0) return sl_fail(SL_EINVAL, "loader: the cursor %lld is negative", (long long)cursor);
  sl_status status = SL_OK;
  pthread_mutex_lock(&l->lock);
  for (int i = 0; i < l->depth; i++)
    if (l->slots[i].state == HELD)
      SL_TRY_OUT(sl_fail(SL_EINVAL, "loader: slot %d is held; release it before rewinding", i));
  atomic_fetch_add(&l->generation, 1);
  for (int i = 0; i < l->depth; i++)
    if (l->slots[i].state == READY) l->slots[i].state = FREE;
  start_at(l, cursor);
  pthread_cond_signal(&l->freed);
out:
  pthread_mutex_unlock(&l->lock);
  return status;
}

void sl_loader_destroy(sl_loader *l) {
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  l->stopping = 1;
  atomic_fetch_add(&l->generation, 1);
  pthread_cond_signal(&l->freed);
  pthread_mutex_unlock(&l->lock);
  sl_activity_begin(SL_WAITS, "the end of reading");
  pthread_join(l->thread, NULL);
  sl_activity_end();
  free_memory(l);
}

int64_t sl_loader_cursor(const sl_loader *l) { return l->next_cursor; }
double sl_loader_waited(const sl_loader *l) { return l->waited; }
int sl_loader_depth(const sl_loader *l) { return l->depth; }
const sl_batch *sl_loader_slot(const sl_loader *l, int slot) { return &l->slots[slot].batch; }
