/* runtime/data/dataset.c: finding and splitting a set, and an error for each way in which four files are not a set. */
#include "runtime/data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/data/idx.h"
#include "runtime/numbers/permutation.h"
#include "tests/support/scratch.h"

enum { H = 2, W = 3, TRAIN = 20, TEST = 7, CLASSES = 4 };
static const char *const usual[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                     "t10k-labels-idx1-ubyte"};

static void write_images(const char *folder, const char *name, int64_t n, int64_t h, int64_t w) {
  uint8_t pixels[4096];
  const sl_shape shape = SL_SHAPE(n, h, w);
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7);
  assert_ok(sl_idx_write(scratch_path(folder, name), SL_U8, &shape, pixels));
}

static void write_labels(const char *folder, const char *name, int64_t n) {
  uint8_t labels[64];
  const sl_shape shape = SL_SHAPE(n);
  for (int i = 0; i < 64; i++) labels[i] = (uint8_t)(i % CLASSES);
  assert_ok(sl_idx_write(scratch_path(folder, name), SL_U8, &shape, labels));
}

static void write_set(const char *folder, const char *const names[4]) {
  write_images(folder, names[0], TRAIN, H, W);
  write_labels(folder, names[1], TRAIN);
  write_images(folder, names[2], TEST, H, W);
  write_labels(folder, names[3], TEST);
}

static sl_status open_set(const char *folder, double fraction, uint64_t seed, sl_dataset **d) {
  const sl_dataset_options options = {.directory = folder, .validation_fraction = fraction, .seed = seed};
  return sl_dataset_open(&options, d);
}

static void reads_a_set(void **state) {
  sl_dataset *d;
  write_set(*state, usual);
  assert_ok(open_set(*state, 0, 0, &d));
  assert_int_equal(d->height, H);
  assert_int_equal(d->width, W);
  assert_int_equal(d->channels, 1);
  assert_int_equal(d->classes, CLASSES);
  assert_string_equal(d->class_names[3], "3");
  assert_int_equal(d->n[SL_SPLIT_TRAIN], TRAIN);
  assert_int_equal(d->n[SL_SPLIT_VALIDATION], 0);
  assert_int_equal(d->n[SL_SPLIT_TEST], TEST);
  for (int s = 0; s < SL_SPLIT_COUNT; s++) {
    sl_sample_source source = sl_dataset_source(d, (sl_split)s);
    assert_int_equal(source.n, d->n[s]);
    assert_int_equal(source.sample_bytes, H * W);
    for (int64_t i = 0; i < source.n; i++) {
      uint8_t sample[H * W];
      int32_t label;
      assert_ok(source.read(source.arg, i, sample, &label));
      assert_int_equal(label, i % CLASSES);
      assert_int_equal(sample[1], (uint8_t)((i * H * W + 1) * 7));
      assert_int_equal(sl_dataset_index(d, (sl_split)s, i), i);
    }
  }
  sl_dataset_close(d);
}

/* Mean and standard deviation against the definition, scaled to 0 .. 1. */
static void pixels_are_measured(void **state) {
  sl_dataset *d;
  double sum = 0, squares = 0;
  write_set(*state, usual);
  assert_ok(open_set(*state, 0.25, 1, &d));
  for (int i = 0; i < TRAIN * H * W; i++) sum += (uint8_t)(i * 7) / 255.0;
  const double mean = sum / (TRAIN * H * W);
  for (int i = 0; i < TRAIN * H * W; i++) squares += pow((uint8_t)(i * 7) / 255.0 - mean, 2);
  assert_true(fabs(d->mean[0] - mean) < 1e-14);
  assert_true(fabs(d->std[0] - sqrt(squares / (TRAIN * H * W))) < 1e-14);
  sl_dataset_close(d);
  const sl_shape shape = SL_SHAPE(TRAIN, H, W);
  const uint8_t black[TRAIN * H * W] = {0};
  assert_ok(sl_idx_write(scratch_path(*state, usual[0]), SL_U8, &shape, black));
  assert_ok(open_set(*state, 0, 0, &d));
  assert_true(d->mean[0] == 0 && d->std[0] == 1);
  sl_dataset_close(d);
}

/* Two to six channels, with more pixels than one block of the sums. */
static void channels_are_measured_apart(void **state) {
  enum { N = 21, SIDE = 70 };
  const uint8_t labels[N] = {0};
  const sl_shape one = SL_SHAPE(N);
  uint8_t *pixels = malloc(N * SIDE * SIDE * 6);
  for (int C = 2; C <= 6; C++) {
    const int64_t bytes = (int64_t)N * SIDE * SIDE * C;
    const sl_shape shape = SL_SHAPE(N, SIDE, SIDE, C);
    sl_dataset *d;
    for (int64_t i = 0; i < bytes; i++) pixels[i] = (uint8_t)(i % C * 40 + i / C % 31);
    assert_ok(sl_idx_write(scratch_path(*state, "train-images-idx4-ubyte"), SL_U8, &shape, pixels));
    assert_ok(sl_idx_write(scratch_path(*state, "train-labels-idx1-ubyte"), SL_U8, &one, labels));
    assert_ok(open_set(*state, 0, 0, &d));
    const int groups = C > SL_DATASET_CHANNELS ? 1 : C;
    for (int k = 0; k < SL_DATASET_CHANNELS; k++) {
      double sum = 0, squares = 0, n = (double)bytes / groups;
      for (int64_t i = k; k < groups && i < bytes; i += groups) sum += pixels[i];
      for (int64_t i = k; k < groups && i < bytes; i += groups) squares += pow(pixels[i] - sum / n, 2);
      assert_near(d->mean[k], k < groups ? sum / n / 255 : 0, 1e-13);
      assert_near(d->std[k], k < groups ? sqrt(squares / n) / 255 : 1, 1e-12);
    }
    sl_dataset_close(d);
  }
  free(pixels);
}

static void validation_is_a_seeded_part(void **state) {
  sl_dataset *d[3];
  write_set(*state, usual);
  for (int i = 0; i < 3; i++) assert_ok(open_set(*state, 0.25, (uint64_t[]){5, 5, 6}[i], &d[i]));
  int differ = 0;
  for (int i = 0; i < 3; i++) {
    uint8_t seen[TRAIN] = {0};
    assert_int_equal(d[i]->n[SL_SPLIT_TRAIN], 15);
    assert_int_equal(d[i]->n[SL_SPLIT_VALIDATION], 5);
    for (int s = SL_SPLIT_TRAIN; s <= SL_SPLIT_VALIDATION; s++)
      for (int64_t k = 0; k < d[i]->n[s]; k++) {
        const int64_t number = sl_dataset_index(d[i], (sl_split)s, k);
        assert_in_range(number, 0, TRAIN - 1);
        assert_int_equal(seen[number]++, 0);
        sl_sample_source source = sl_dataset_source(d[i], (sl_split)s);
        uint8_t sample[H * W];
        int32_t label;
        assert_ok(source.read(source.arg, k, sample, &label));
        assert_int_equal(label, number % CLASSES);
        assert_memory_equal(sample, d[i]->train.pixels + number * H * W, H * W);
        if (i == 1) assert_int_equal(number, sl_dataset_index(d[0], (sl_split)s, k));
        if (i == 2) differ += number != sl_dataset_index(d[0], (sl_split)s, k);
      }
  }
  assert_true(differ > 5);
  for (int i = 0; i < 3; i++) sl_dataset_close(d[i]);
  assert_fails(SL_EINVAL, "sets 0 of 20", open_set(*state, 0.001, 0, &d[0]));
  assert_fails(SL_EINVAL, "sets 20 of 20", open_set(*state, 0.99, 0, &d[0]));
  assert_fails(SL_EINVAL, "fraction of 1 ", open_set(*state, 1, 0, &d[0]));
  assert_fails(SL_EINVAL, "fraction of nan", open_set(*state, NAN, 0, &d[0]));
}

static void loads_through_a_loader(void **state) {
  sl_dataset *d;
  sl_loader *loader;
  write_set(*state, usual);
  assert_ok(open_set(*state, 0.25, 5, &d));
  const sl_loader_options options = {.source = sl_dataset_source(d, SL_SPLIT_TRAIN), .batch = 15, .seed = 2};
  assert_ok(sl_loader_create(&options, &loader));
  sl_permutation epoch = sl_permutation_make(15, 2, 0);
  sl_batch *b;
  assert_ok(sl_loader_next(loader, &b));
  for (int r = 0; r < 15; r++) {
    const int64_t number = sl_dataset_index(d, SL_SPLIT_TRAIN, sl_permutation_at(&epoch, r));
    assert_int_equal(b->labels[r], d->train.labels[number]);
    assert_memory_equal((uint8_t *)b->samples + r * H * W, d->train.pixels + number * H * W, H * W);
  }
  sl_loader_destroy(loader);
  sl_dataset_close(d);
}

static void other_names_are_found(void **state) {
  static const char *const sets[][4] = {
      {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
       "t10k-labels-idx1-ubyte.gz"},
      {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "test-images.idx3-ubyte.gz", "test-labels.idx1-ubyte"},
      {"emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte",
       "emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"}};
  for (int s = 0; s < 3; s++) {
    sl_dataset *d;
    const char *folder = scratch_path(*state, (const char *[]){"a", "b", "c"}[s]);
    assert_int_equal(mkdir(folder, 0777), 0);
    write_set(folder, sets[s]);
    assert_ok(open_set(folder, 0, 0, &d));
    assert_int_equal(d->n[SL_SPLIT_TEST], TEST);
    sl_dataset_close(d);
  }
}

static void unpacked_and_usual_names_win(void **state) {
  sl_dataset *d;
  write_set(*state, usual);
  scratch_write(scratch_path(*state, "train-images-idx3-ubyte.gz"), "broken", 6);
  scratch_write(scratch_path(*state, "other-train-images-idx3-ubyte"), "broken", 6);
  scratch_write(scratch_path(*state, ".train-images-idx3-ubyte.1-1.tmp"), "broken", 6);
  assert_ok(open_set(*state, 0, 0, &d));
  sl_dataset_close(d);
  unlink(scratch_path(*state, usual[0])), unlink(scratch_path(*state, "train-images-idx3-ubyte.gz"));
  write_images(*state, "b-train-images-idx3-ubyte", TRAIN, H, W);
  assert_fails(SL_EFORMAT, "more than one file of training images", open_set(*state, 0, 0, &d));
}

static void colour_and_other_types(void **state) {
  sl_dataset *d;
  const sl_shape images = SL_SHAPE(4, H, W, 3), labels = SL_SHAPE(4);
  uint8_t pixels[4 * H * W * 3] = {1};
  const int32_t values[4] = {0, 299, 1, 2};
  char names[300 * 8] = "";
  for (int i = 0; i < 300; i++) sprintf(names + strlen(names), "c%d\r\n", i);
  assert_ok(sl_idx_write(scratch_path(*state, "train-images-idx4-ubyte.gz"), SL_U8, &images, pixels));
  assert_ok(sl_idx_write(scratch_path(*state, "train-labels-idx1-int"), SL_I32, &labels, values));
  scratch_write(scratch_path(*state, "labels.txt"), names, strlen(names));
  assert_ok(open_set(*state, 0, 0, &d));
  const sl_shape shape = SL_SHAPE(H, W, 3), sample = sl_dataset_sample_shape(d);
  assert_true(sl_shape_equal(&sample, &shape));
  assert_int_equal(d->classes, 300);
  assert_string_equal(d->class_names[299], "c299");
  assert_int_equal(d->train.labels[1], 299);
  assert_int_equal(d->test.n, 0);
  sl_dataset_close(d);
  /* A byte order mark does not belong to the first name. Names must be UTF-8, because they go into UTF-8 files. */
  char marked[sizeof names + 3];
  const int n = snprintf(marked, sizeof marked, "\xEF\xBB\xBF%s", names);
  scratch_write(scratch_path(*state, "labels.txt"), marked, (size_t)n);
  assert_ok(open_set(*state, 0, 0, &d));
  assert_string_equal(d->class_names[0], "c0");
  sl_dataset_close(d);
  memcpy(names, "c\xE9", 2);
  scratch_write(scratch_path(*state, "labels.txt"), names, strlen(names));
  assert_fails(SL_EFORMAT, "labels.txt: line 1 is not UTF-8", open_set(*state, 0, 0, &d));
  memcpy(names, "c0\r\nc\x1B", 6);
  scratch_write(scratch_path(*state, "labels.txt"), names, strlen(names));
  assert_fails(SL_EFORMAT, "labels.txt: line 2 is not UTF-8 text or has control characters",
               open_set(*state, 0, 0, &d));
}

static void count_warning(sl_log_level level, const char *message, void *arg) {
  if (level == SL_LOG_WARNING && strstr(message, "have no sample")) ++*(int *)arg;
}

/* Sets one label of the training or test file. */
static void set_label(const char *folder, const char *name, int64_t n, int at, int32_t value) {
  int32_t labels[64];
  const sl_shape shape = SL_SHAPE(n);
  for (int i = 0; i < 64; i++) labels[i] = i % CLASSES;
  labels[at] = value;
  assert_ok(sl_idx_write(scratch_path(folder, name), SL_I32, &shape, labels));
}

static void labels_out_of_range(void **state) {
  sl_dataset *d;
  int warnings = 0;
  write_set(*state, usual);
  set_label(*state, usual[1], TRAIN, 6, -1);
  assert_fails(SL_EFORMAT, "train-labels-idx1-ubyte: label 6 is -1, out of the range", open_set(*state, 0, 0, &d));
  set_label(*state, usual[1], TRAIN, 6, INT32_MAX);
  assert_fails(SL_EFORMAT, "label 6 is 2147483647, out of the range", open_set(*state, 0, 0, &d));
  set_label(*state, usual[1], TRAIN, 6, 250);
  assert_fails(SL_EFORMAT, "label 6 is 250, which would leave 246 of 251 classes without a sample",
               open_set(*state, 0, 0, &d));
  sl_log_set(count_warning, &warnings, SL_LOG_WARNING);
  set_label(*state, usual[1], TRAIN, 6, 5);
  assert_ok(open_set(*state, 0, 0, &d));
  sl_log_set(NULL, NULL, SL_LOG_INFO);
  assert_int_equal(warnings, 1);
  assert_int_equal(d->classes, 6);
  sl_dataset_close(d);
  scratch_write(scratch_path(*state, "labels.txt"), "a\nb\nc\nd", 7);
  assert_fails(SL_EFORMAT, "label 6 is 5, out of the range 0 to 3 (labels.txt names 4 classes)",
               open_set(*state, 0, 0, &d));
  write_labels(*state, usual[1], TRAIN);
  assert_ok(open_set(*state, 0, 0, &d));
  sl_dataset_close(d);
  set_label(*state, usual[3], TEST, 5, 4);
  assert_fails(SL_EFORMAT, "t10k-labels-idx1-ubyte: label 5 is 4, out of the range 0 to 3", open_set(*state, 0, 0, &d));
  unlink(scratch_path(*state, "labels.txt"));
  assert_fails(SL_EFORMAT, "label 5 is 4, out of the range 0 to 3 (the training labels' range)",
               open_set(*state, 0, 0, &d));
  scratch_write(scratch_path(*state, "labels.txt"), "", 0);
  assert_fails(SL_EFORMAT, "names 0 classes", open_set(*state, 0, 0, &d));
}

static void files_that_do_not_belong_together(void **state) {
  sl_dataset *d;
  write_set(*state, usual);
  write_labels(*state, usual[1], TRAIN - 1);
  assert_fails(SL_EFORMAT, "has 19 labels for 20 images", open_set(*state, 0, 0, &d));
  write_labels(*state, usual[1], TRAIN);
  write_labels(*state, usual[3], TEST + 1);
  assert_fails(SL_EFORMAT, "has 8 labels for 7 images", open_set(*state, 0, 0, &d));
  write_labels(*state, usual[3], TEST);
  write_images(*state, usual[2], TEST, W, H);
  assert_fails(SL_EFORMAT, "t10k-images-idx3-ubyte: has images of shape [3, 2, 1] where training has [2, 3, 1]",
               open_set(*state, 0, 0, &d));
  write_images(*state, usual[2], TEST, H, W);
  write_labels(*state, usual[0], TRAIN); /* labels under the name of images */
  assert_fails(SL_EFORMAT, "train-images-idx3-ubyte: has U8 of shape [20], not images", open_set(*state, 0, 0, &d));
  write_images(*state, usual[0], TRAIN, H, W);
  write_images(*state, usual[1], TRAIN, H, W);
  assert_fails(SL_EFORMAT, "train-labels-idx1-ubyte: has U8 of shape [20, 2, 3], not labels",
               open_set(*state, 0, 0, &d));
  write_labels(*state, usual[1], TRAIN);
  write_images(*state, usual[0], 0, H, W);
  assert_fails(SL_EFORMAT, "has no images", open_set(*state, 0, 0, &d));
  const sl_shape shape = SL_SHAPE(2, H, W);
  const float real[2 * H * W] = {0};
  assert_ok(sl_idx_write(scratch_path(*state, usual[0]), SL_F32, &shape, real));
  assert_fails(SL_EFORMAT, "has F32 of shape [2, 2, 3], not images", open_set(*state, 0, 0, &d));
}

static void broken_files_are_named(void **state) {
  sl_dataset *d;
  size_t n;
  write_set(*state, usual);
  for (int f = 0; f < 4; f++) {
    const char *path = scratch_path(*state, usual[f]);
    char *bytes = scratch_read(path, &n);
    scratch_write(path, bytes, n - 1);
    assert_fails(SL_EFORMAT, "truncated", open_set(*state, 0, 0, &d));
    assert_non_null(strstr(sl_error(), usual[f]));
    scratch_write(path, bytes, n);
    free(bytes);
  }
  assert_ok(open_set(*state, 0, 0, &d));
  sl_dataset_close(d);
}

static void missing_files_are_named(void **state) {
  sl_dataset *d;
  assert_fails(SL_ENOTFOUND, "has no training images (train-images-idx3-ubyte or", open_set(*state, 0, 0, &d));
  write_images(*state, usual[0], TRAIN, H, W);
  assert_fails(SL_ENOTFOUND, "has no training labels", open_set(*state, 0, 0, &d));
  write_labels(*state, usual[1], TRAIN);
  assert_ok(open_set(*state, 0, 0, &d));
  sl_dataset_close(d);
  write_images(*state, usual[2], TEST, H, W);
  assert_fails(SL_ENOTFOUND, "has no test labels", open_set(*state, 0, 0, &d));
  assert_fails(SL_ENOTFOUND, "none: No such file", open_set(scratch_path(*state, "none"), 0, 0, &d));
  assert_fails(SL_EIO, "Not a directory", open_set(scratch_path(*state, usual[0]), 0, 0, &d));
}

static void fashion_mnist(void **state) {
  (void)state;
  sl_dataset *d;
  if (access(SL_DATASET_DEFAULT, F_OK) != 0) {
    assert_fails(SL_ENOTFOUND, "apt-get install dataset-fashion-mnist", open_set(NULL, 0, 0, &d));
    skip(); /* the set is not installed */
  }
  assert_ok(open_set(NULL, 1.0 / 12, 0, &d));
  assert_int_equal(d->n[SL_SPLIT_TRAIN], 55000);
  assert_int_equal(d->n[SL_SPLIT_VALIDATION], 5000);
  assert_int_equal(d->n[SL_SPLIT_TEST], 10000);
  assert_int_equal(d->height * d->width * d->channels, 784);
  assert_string_equal(d->class_names[9], "Ankle boot");
  assert_true(fabs(d->mean[0] - 0.2860) < 1e-4 && fabs(d->std[0] - 0.3530) < 1e-4); /* as published */
  sl_dataset_close(d);
}

/* 257 MB, a hole except for the last pixel. */
static void large_files_are_mapped(void **state) {
  enum { SIDE = 1024, N = 257 };
  uint8_t head[16] = {0, 0, 8, 3, 0, 0, N >> 8, N & 255, 0, 0, SIDE >> 8, 0, 0, 0, SIDE >> 8, 0}, labels[N] = {0};
  const sl_shape shape = SL_SHAPE(N);
  const char *path = scratch_path(*state, usual[0]);
  const off_t end = sizeof head + (off_t)N * SIDE * SIDE;
  sl_dataset *d;
  scratch_write(path, head, sizeof head);
  labels[N - 1] = 1;
  assert_ok(sl_idx_write(scratch_path(*state, usual[1]), SL_U8, &shape, labels));
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseeko(file, end - 1, SEEK_SET), 0);
  assert_int_equal(fputc(77, file), 77);
  assert_int_equal(fclose(file), 0);
  assert_ok(open_set(*state, 0, 0, &d));
  assert_non_null(d->train.map.file);
  assert_null(d->train.memory);
  assert_int_equal(d->train.n * 10000 + d->height + d->width, 2572048);
  assert_int_equal(d->train.pixels[(int64_t)N * SIDE * SIDE - 1], 77);
  assert_near(d->mean[0], 77.0 / 255 / N / SIDE / SIDE, 1e-15);
  sl_dataset_close(d);
  assert_int_equal(truncate(path, end - 1), 0);
  assert_fails(SL_EFORMAT, "truncated", open_set(*state, 0, 0, &d));
}

int main(void) {
#define TEST_IN(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      TEST_IN(reads_a_set),
      TEST_IN(pixels_are_measured),
      TEST_IN(channels_are_measured_apart),
      TEST_IN(validation_is_a_seeded_part),
      TEST_IN(loads_through_a_loader),
      TEST_IN(other_names_are_found),
      TEST_IN(unpacked_and_usual_names_win),
      TEST_IN(colour_and_other_types),
      TEST_IN(labels_out_of_range),
      TEST_IN(files_that_do_not_belong_together),
      TEST_IN(broken_files_are_named),
      TEST_IN(missing_files_are_named),
      TEST_IN(large_files_are_mapped),
      cmocka_unit_test(fashion_mnist),
  };
  return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
