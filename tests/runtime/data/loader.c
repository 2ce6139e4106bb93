/* runtime/data/loader.c: the order of samples, from any cursor and for any part of a batch; the thread prefetches,
 * sleeps when the ring is full, and passes failures on. */
#include "runtime/data/loader.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/numbers/permutation.h"
#include "tests/support/scratch.h"

/* Sample i is five bytes made of i, its label 1000 + i. */
enum { SAMPLE = 5 };

typedef struct fake {
  atomic_int reads;
  int64_t fail_at; /* number of a sample that cannot be read; -1: none */
  int64_t delay_ns;
  atomic_int closed;   /* 1: reads wait */
  atomic_int bound_to; /* the CPU of the last read */
} fake;

static sl_status read_fake(void *arg, int64_t i, void *sample, int32_t *label) {
  fake *f = arg;
  atomic_fetch_add(&f->reads, 1);
  atomic_store(&f->bound_to, sched_getcpu());
  if (i == f->fail_at) return sl_fail(SL_EFORMAT, "sample %lld is rotten", (long long)i);
  if (f->delay_ns) nanosleep(&(struct timespec){.tv_nsec = f->delay_ns}, NULL);
  while (atomic_load(&f->closed)) usleep(1000);
  for (int b = 0; b < SAMPLE; b++) ((uint8_t *)sample)[b] = (uint8_t)(i + b);
  *label = (int32_t)(1000 + i);
  return SL_OK;
}

static sl_loader_options options_of(fake *f, int64_t n, int64_t batch, sl_loader_mode mode) {
  return (sl_loader_options){.source = {.n = n, .sample_bytes = SAMPLE, .read = read_fake, .arg = f},
                             .mode = mode,
                             .batch = batch,
                             .seed = 11};
}

/* The next batch's labels are appended at labels; checks that samples belong to them. */
static void take(sl_loader *loader, int32_t *labels) {
  sl_batch *b;
  assert_ok(sl_loader_next(loader, &b));
  assert_non_null(b);
  assert_int_equal((uintptr_t)b->samples % 64, 0);
  assert_int_equal((uintptr_t)b->labels % 64, 0);
  for (int64_t r = 0; r < b->rows; r++) {
    labels[r] = b->labels[r];
    for (int k = 0; k < SAMPLE; k++)
      assert_int_equal(((uint8_t *)b->samples)[r * SAMPLE + k],
                       b->labels[r] < 0 ? 0 : (uint8_t)(b->labels[r] - 1000 + k));
  }
  sl_loader_release(loader, b);
}

/* Waits until the loader has read so many samples, and a moment more, in which the last batch becomes ready. */
static void wait_until_read(fake *f, int n) {
  while (atomic_load(&f->reads) < n) usleep(100);
  usleep(1000);
}

static void each_epoch_has_every_sample_once(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  enum { N = 37, BATCH = 8, EPOCHS = 8, DEPTH = 3 }; /* 37 batches are 8 epochs, most borders fall inside a batch */
  int32_t stream[N * EPOCHS];
  sl_loader *loader;
  sl_loader_options options = options_of(&f, N, BATCH, SL_LOADER_TRAIN);
  options.depth = DEPTH;
  assert_ok(sl_loader_create(&options, &loader));
  for (int b = 0; b < N * EPOCHS / BATCH; b++) {
    wait_until_read(&f, (b + DEPTH) * BATCH); /* all slots are ready, and not in the order of their batches */
    take(loader, stream + b * BATCH);
    assert_int_equal(sl_loader_cursor(loader), (b + 1) * BATCH);
  }
  int moved = 0;
  for (int e = 0; e < EPOCHS; e++) {
    uint8_t seen[N] = {0};
    for (int i = 0; i < N; i++) {
      const int32_t sample = stream[e * N + i] - 1000;
      assert_in_range(sample, 0, N - 1);
      assert_int_equal(seen[sample]++, 0);
      moved += e && stream[e * N + i] != stream[i];
    }
  }
  assert_true(moved > N * (EPOCHS - 1) / 2); /* epochs differ */
  sl_loader_destroy(loader);
}

static void resumes_at_any_cursor(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  enum { N = 10, BATCH = 4, BATCHES = 20 };
  int32_t whole[BATCHES * BATCH], part[BATCH];
  sl_loader *loader;
  sl_loader_options options = options_of(&f, N, BATCH, SL_LOADER_TRAIN);
  assert_ok(sl_loader_create(&options, &loader));
  for (int b = 0; b < BATCHES; b++) take(loader, whole + b * BATCH);
  sl_loader_destroy(loader);
  for (int c = 0; c + BATCH <= BATCHES * BATCH; c++) { /* also cursors that only another batch size reaches */
    options.cursor = c;
    options.depth = 2 + c % 3;
    assert_ok(sl_loader_create(&options, &loader));
    assert_int_equal(sl_loader_cursor(loader), c);
    take(loader, part);
    assert_memory_equal(part, whole + c, sizeof part);
    sl_loader_destroy(loader);
  }
}

static void parts_make_up_the_batch(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  for (int mode = SL_LOADER_TRAIN; mode <= SL_LOADER_EVAL; mode++) {
    int32_t whole[12], part[12];
    sl_loader *all, *rank[3];
    sl_loader_options options = options_of(&f, 17, 12, (sl_loader_mode)mode);
    assert_ok(sl_loader_create(&options, &all));
    for (int r = 0; r < 3; r++) {
      options.first = (int64_t[]){0, 5, 6}[r], options.rows = (int64_t[]){5, 1, 0}[r];
      assert_ok(sl_loader_create(&options, &rank[r]));
    }
    for (int b = 0; b < 2; b++) {
      take(all, whole);
      for (int r = 0; r < 3; r++) {
        take(rank[r], part + (int[]){0, 5, 6}[r]);
        assert_int_equal(sl_loader_cursor(rank[r]), sl_loader_cursor(all));
      }
      assert_memory_equal(whole, part, sizeof whole);
    }
    sl_loader_destroy(all);
    for (int r = 0; r < 3; r++) sl_loader_destroy(rank[r]);
  }
}

static void evaluation_pads_the_last_batch(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  sl_loader *loader;
  sl_batch *b;
  sl_loader_options options = options_of(&f, 10, 4, SL_LOADER_EVAL);
  assert_ok(sl_loader_create(&options, &loader));
  for (int pass = 0; pass < 3; pass++) {
    for (int i = 0; i < 3; i++) {
      int32_t labels[4];
      take(loader, labels);
      for (int r = 0; r < 4; r++) assert_int_equal(labels[r], 4 * i + r < 10 ? 1000 + 4 * i + r : -1);
    }
    assert_int_equal(sl_loader_cursor(loader), 10);
    assert_ok(sl_loader_next(loader, &b));
    assert_null(b);
    assert_ok(sl_loader_next(loader, &b));
    assert_null(b);
    assert_ok(sl_loader_rewind(loader, 0));
  }
  for (int i = 0; i < 3; i++) {
    assert_ok(sl_loader_next(loader, &b));
    assert_int_equal(b->valid, i < 2 ? 4 : 2);
    assert_int_equal(b->valid_here, b->valid);
    sl_loader_release(loader, b);
  }
  sl_loader_destroy(loader);
  options.first = 3; /* a rank with nothing but padding in the last batch */
  assert_ok(sl_loader_create(&options, &loader));
  for (int i = 0; i < 3; i++) {
    assert_ok(sl_loader_next(loader, &b));
    assert_int_equal(b->valid, i < 2 ? 4 : 2);
    assert_int_equal(b->valid_here, i < 2);
    assert_int_equal(b->labels[0], i < 2 ? 1003 + 4 * i : -1);
    sl_loader_release(loader, b);
  }
  sl_loader_destroy(loader);
  options.source.n = 0;
  assert_ok(sl_loader_create(&options, &loader));
  assert_ok(sl_loader_next(loader, &b));
  assert_null(b);
  sl_loader_destroy(loader);
}

/* The batch that comes next may be looked at before it is taken: the same slot, the same content. */
static void peeks(void **state) {
  (void)state;
  fake f = {.fail_at = 9, .delay_ns = 20000};
  sl_loader *loader;
  sl_batch *b, *held = NULL;
  sl_loader_options options = options_of(&f, 12, 4, SL_LOADER_EVAL);
  assert_ok(sl_loader_create(&options, &loader));
  for (int i = 0; i < 2; i++) {
    const sl_batch *next;
    while (!(next = sl_loader_peek(loader))) sched_yield();
    const int32_t label = next->labels[3];
    assert_int_equal(label, 1003 + 4 * i);
    assert_ptr_equal(sl_loader_peek(loader), next);
    assert_ok(sl_loader_next(loader, &b));
    assert_ptr_equal(b, next);
    assert_int_equal(b->labels[3], label);
    assert_ptr_not_equal(sl_loader_peek(loader), b);
    if (i) sl_loader_release(loader, held);
    held = b;
  }
  assert_fails(SL_EFORMAT, "sample 9 is rotten", sl_loader_next(loader, &b));
  assert_null(sl_loader_peek(loader)); /* it failed */
  sl_loader_release(loader, held);
  assert_ok(sl_loader_rewind(loader, 12));
  assert_null(sl_loader_peek(loader)); /* the end */
  sl_loader_destroy(loader);
}

static void rewinds_while_filling(void **state) {
  (void)state;
  fake f = {.fail_at = -1, .delay_ns = 20000};
  int32_t first[16], again[16];
  sl_loader *loader;
  sl_batch *b;
  sl_loader_options options = options_of(&f, 1000, 16, SL_LOADER_TRAIN);
  assert_ok(sl_loader_create(&options, &loader));
  take(loader, first);
  for (int i = 0; i < 50; i++) {
    assert_ok(sl_loader_rewind(loader, 0));
    if (i % 3 == 0) take(loader, again);
    if (i % 3 == 0) assert_memory_equal(first, again, sizeof first);
  }
  assert_ok(sl_loader_next(loader, &b));
  assert_fails(SL_EINVAL, "is held", sl_loader_rewind(loader, 0));
  sl_loader_release(loader, b);
  sl_loader_destroy(loader);
}

/* All slots may be held, and released in any order, without changing the batches. */
static void slots_are_held_and_released_in_any_order(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  sl_loader *loader, *plain;
  sl_batch *b[3], *more;
  int32_t expected[8];
  sl_loader_options options = options_of(&f, 50, 8, SL_LOADER_TRAIN);
  assert_ok(sl_loader_create(&options, &loader));
  assert_ok(sl_loader_create(&options, &plain));
  assert_int_equal(sl_loader_depth(loader), 3);
  for (int turn = 0; turn < 10; turn++) {
    for (int i = 0; i < 3; i++) {
      assert_ok(sl_loader_next(loader, &b[i]));
      assert_ptr_equal(sl_loader_slot(loader, b[i]->slot), b[i]);
    }
    assert_fails(SL_EINVAL, "all 3 slots are held", sl_loader_next(loader, &more));
    for (int i = 0; i < 3; i++) {
      take(plain, expected);
      assert_memory_equal(b[i]->labels, expected, sizeof expected);
    }
    for (int i = 0; i < 3; i++) sl_loader_release(loader, b[(turn + 2 * i) % 3]);
  }
  sl_loader_destroy(loader), sl_loader_destroy(plain);
}

static void failures_reach_the_caller_in_their_place(void **state) {
  (void)state;
  fake f = {.fail_at = 9};
  sl_loader *loader;
  sl_batch *b;
  int32_t labels[4];
  sl_loader_options options = options_of(&f, 20, 4, SL_LOADER_EVAL);
  assert_ok(sl_loader_create(&options, &loader));
  take(loader, labels), take(loader, labels);
  for (int i = 0; i < 2; i++) {
    assert_fails(SL_EFORMAT, "sample 9 is rotten", sl_loader_next(loader, &b));
    assert_null(b);
  }
  assert_int_equal(sl_loader_cursor(loader), 8);
  assert_ok(sl_loader_rewind(loader, 12));
  take(loader, labels);
  assert_int_equal(labels[0], 1012);
  sl_loader_destroy(loader);
}

static double thread_seconds(void) { /* of the whole process */
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void prefetches_then_sleeps(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  sl_loader *loader;
  sl_loader_options options = options_of(&f, 1000, 10, SL_LOADER_TRAIN);
  assert_ok(sl_loader_create(&options, &loader));
  for (int i = 0; i < 300000 && atomic_load(&f.reads) < 30; i++) usleep(2000);
  assert_int_equal(atomic_load(&f.reads), 30); /* three slots, before the first sl_loader_next */
  const double before = thread_seconds();
  usleep(200000);
  assert_int_equal(atomic_load(&f.reads), 30);
  assert_true(thread_seconds() - before < 0.1); /* a spinning thread takes 0.2 s */
  assert_true(sl_loader_waited(loader) == 0);
  int32_t labels[10];
  take(loader, labels);
  assert_true(sl_loader_waited(loader) == 0);
  sl_loader_destroy(loader);
}

/* Lets reads go on once the main thread was found asleep ten times in a row, 5 ms apart: then it waits for the loader.
 */
static void *open_when_waited_for(void *arg) {
  fake *f = arg;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
  for (int slept = 0; slept < 10; usleep(5000)) {
    char state = 'S';
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'S';
    if (file) fclose(file);
    slept = state == 'S' ? slept + 1 : 0;
  }
  atomic_store(&f->closed, 0);
  return NULL;
}

static void waiting_is_counted(void **state) {
  (void)state;
  fake f = {.fail_at = -1, .closed = 1};
  sl_loader *loader;
  pthread_t opener;
  int32_t labels[10];
  sl_loader_options options = options_of(&f, 1000, 10, SL_LOADER_TRAIN);
  struct timespec t0, t1;
  assert_ok(sl_loader_create(&options, &loader));
  clock_gettime(CLOCK_MONOTONIC, &t0);
  assert_int_equal(pthread_create(&opener, NULL, open_when_waited_for, &f), 0);
  take(loader, labels);
  clock_gettime(CLOCK_MONOTONIC, &t1);
  pthread_join(opener, NULL);
  const double call = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
  assert_true(sl_loader_waited(loader) > 0.02 && sl_loader_waited(loader) <= call);
  sl_loader_destroy(loader);
}

static void thread_is_bound_where_asked(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  cpu_set_t allowed;
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (int cpu = 0, tried = 0; cpu < CPU_SETSIZE && tried < 4; cpu++) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    sl_loader *loader;
    int32_t labels[4];
    sl_loader_options options = options_of(&f, 100, 4, SL_LOADER_TRAIN);
    options.cpus = &cpu, options.ncpus = 1;
    assert_ok(sl_loader_create(&options, &loader));
    take(loader, labels);
    assert_int_equal(atomic_load(&f.bound_to), cpu);
    sl_loader_destroy(loader);
    tried++;
  }
}

/* Images of 4 x 5 x 3 whose pixels encode sample and place. */
enum { H = 4, W = 5, C = 3, IMAGE = H * W * C };
static uint8_t pixel(int64_t i, int64_t at) { return (uint8_t)(1 + (i * 101 + at * 7) % 255); }
static sl_status read_image(void *arg, int64_t i, void *sample, int32_t *label) {
  (void)arg;
  for (int at = 0; at < IMAGE; at++) ((uint8_t *)sample)[at] = pixel(i, at);
  *label = (int32_t)i;
  return SL_OK;
}

/* Checks that the loader's part of each batch, from cursor on, has the images that the draws of epoch and sample give.
 * Returns how many differ from the original image. */
static int check_augmented(sl_loader *loader, const sl_loader_options *o, int batches) {
  int differ = 0;
  for (int k = 0; k < batches; k++) {
    sl_batch *b;
    const int64_t cursor = sl_loader_cursor(loader) + o->first;
    assert_ok(sl_loader_next(loader, &b));
    for (int64_t r = 0; r < b->rows; r++) {
      const int64_t i = b->labels[r], epoch = (cursor + r) / o->source.n;
      const sl_augment_draw d = sl_augment_at(&o->augment, o->seed, epoch, i);
      const uint8_t *p = (const uint8_t *)b->samples + r * IMAGE;
      differ += d.dy || d.dx || d.flip;
      for (int at = 0; at < IMAGE; at++) {
        const int y = at / (W * C) + d.dy, x = at / C % W, xx = (d.flip ? W - 1 - x : x) + d.dx;
        const int inside = y >= 0 && y < H && xx >= 0 && xx < W;
        assert_int_equal(p[at], inside ? pixel(i, (y * W + xx) * C + at % C) : 0);
      }
    }
    sl_loader_release(loader, b);
  }
  return differ;
}

static void training_images_are_augmented(void **state) {
  (void)state;
  enum { N = 30, BATCH = 8 };
  sl_loader *loader;
  sl_loader_options o = {.source = {.n = N, .sample_bytes = IMAGE, .read = read_image},
                         .batch = BATCH,
                         .seed = 5,
                         .augment = {.pad = 2, .flip = 1},
                         .height = H,
                         .width = W,
                         .channels = C};
  assert_ok(sl_loader_create(&o, &loader));
  assert_true(check_augmented(loader, &o, 20) > 20 * BATCH * 9 / 10); /* over five epochs */
  assert_ok(sl_loader_rewind(loader, 3 * BATCH));
  check_augmented(loader, &o, 6);
  sl_loader_destroy(loader);
  o.cursor = 43, o.first = 3, o.rows = 4; /* resumed, and one rank of several */
  assert_ok(sl_loader_create(&o, &loader));
  check_augmented(loader, &o, 6);
  sl_loader_destroy(loader);
  o.augment.pad = H;
  assert_fails(SL_EINVAL, "border of 4 pixels", sl_loader_create(&o, &loader));
  o.augment.pad = 1, o.mode = SL_LOADER_EVAL;
  assert_fails(SL_EINVAL, "training images", sl_loader_create(&o, &loader));
  o.mode = SL_LOADER_TRAIN, o.channels = 1;
  assert_fails(SL_EINVAL, "60 bytes, not 4x5x1", sl_loader_create(&o, &loader));
}

static void refuses_what_makes_no_sense(void **state) {
  (void)state;
  fake f = {.fail_at = -1};
  sl_loader *loader;
  const sl_loader_options good = options_of(&f, 10, 4, SL_LOADER_TRAIN);
  sl_loader_options o = good;
  o.batch = 0;
  assert_fails(SL_EINVAL, "batch of 0", sl_loader_create(&o, &loader));
  o = good, o.first = 2, o.rows = 3;
  assert_fails(SL_EINVAL, "rows 2 to 5 are not within a batch of 4", sl_loader_create(&o, &loader));
  o = good, o.source.n = 0;
  assert_fails(SL_EINVAL, "no samples", sl_loader_create(&o, &loader));
  o = good, o.cursor = -1;
  assert_fails(SL_EINVAL, "cursor -1", sl_loader_create(&o, &loader));
  o = good, o.depth = 1;
  assert_fails(SL_EINVAL, "depth of 1", sl_loader_create(&o, &loader));
  o = good, o.batch = INT64_MAX / 2;
  assert_fails(SL_EINVAL, "overflows", sl_loader_create(&o, &loader));
  sl_loader_destroy(NULL);
}

/* After a rewind, position p of an epoch is sample p of its permutation from the first batch on, even if the loader has
 * read ahead from another cursor. */
static void positions_follow_the_permutation(void **state) {
  (void)state;
  enum { N = 24, BATCH = 4 };
  fake f = {.fail_at = -1};
  const sl_loader_options options = options_of(&f, N, BATCH, SL_LOADER_TRAIN);
  sl_loader *loader;
  int32_t labels[BATCH];
  assert_ok(sl_loader_create(&options, &loader));
  while (atomic_load(&f.reads) < 3 * BATCH) usleep(1000); /* all slots */
  for (int64_t cursor = 0; cursor < 3 * N; cursor += N / 2) {
    const sl_permutation order = sl_permutation_make(N, options.seed, (uint64_t)(cursor / N));
    usleep(5000);
    assert_ok(sl_loader_rewind(loader, cursor));
    take(loader, labels);
    for (int r = 0; r < BATCH; r++) assert_int_equal(labels[r], 1000 + sl_permutation_at(&order, cursor % N + r));
  }
  sl_loader_destroy(loader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(positions_follow_the_permutation),
      cmocka_unit_test(each_epoch_has_every_sample_once),
      cmocka_unit_test(resumes_at_any_cursor),
      cmocka_unit_test(parts_make_up_the_batch),
      cmocka_unit_test(evaluation_pads_the_last_batch),
      cmocka_unit_test(peeks),
      cmocka_unit_test(rewinds_while_filling),
      cmocka_unit_test(slots_are_held_and_released_in_any_order),
      cmocka_unit_test(failures_reach_the_caller_in_their_place),
      cmocka_unit_test(prefetches_then_sleeps),
      cmocka_unit_test(waiting_is_counted),
      cmocka_unit_test(thread_is_bound_where_asked),
      cmocka_unit_test(training_images_are_augmented),
      cmocka_unit_test(refuses_what_makes_no_sense),
  };
  return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
