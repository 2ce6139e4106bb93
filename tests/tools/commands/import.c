/* tools/commands/import.c: folders of images become a data set that opens with the pixels, labels and names that were
 * put in; broken images stop it by name, or are left out and listed. */
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/dataset.h"
#include "tests/support/pictures.h"
#include "tests/support/scratch.h"
#include "tools/commands/commands.h"

/* A grey PNG of one value, H x W. */
static void put(const char *folder, const char *name, int height, int width, int value) {
  uint8_t rows[64 * 64];
  size_t n;
  memset(rows, value, sizeof rows);
  uint8_t *bytes = picture_png(rows, (size_t)width, height, width, PNG_COLOR_TYPE_GRAY, 8, 0, 0, &n);
  scratch_write(scratch_path(folder, name), bytes, n);
  free(bytes);
}

static void make_folder(const char *folder, const char *name) {
  assert_int_equal(mkdir(scratch_path(folder, name), 0777), 0);
}

static sl__options options_for(const char *folder, char **from, char **out) {
  *from = strdup(scratch_path(folder, "in")), *out = strdup(scratch_path(folder, "out"));
  return (sl__options){.model = (char *)(uintptr_t) "images",
                       .files = from,
                       .n_files = 1,
                       .out = *out,
                       .resize = -1,
                       .crop = -1,
                       .seed = 1,
                       .import_threads = 3,
                       .test_fraction = NAN,
                       .quiet = 1};
}

/* What the command prints goes to the file "said". */
static sl_status import(const char *folder, sl__options *o) {
  int exit_code = 0;
  fflush(stdout);
  const int old = dup(STDOUT_FILENO);
  FILE *said = fopen(scratch_path(folder, "said"), "w");
  assert_true(old >= 0 && said);
  dup2(fileno(said), STDOUT_FILENO);
  const sl_status status = sl__import(o, &exit_code);
  fflush(stdout);
  dup2(old, STDOUT_FILENO);
  fclose(said), close(old);
  return status;
}

static int said(const char *folder, const char *words) {
  size_t n;
  char *text = scratch_read(scratch_path(folder, "said"), &n);
  const int found = text && strstr(text, words) != NULL;
  free(text);
  return found;
}

static void check_value(const sl_dataset *d, const sl_image_set *set, int64_t i, int value, int label) {
  const int64_t n = d->height * d->width * d->channels;
  for (int64_t k = 0; k < n; k++) assert_int_equal(set->pixels[i * n + k], value);
  assert_int_equal(set->labels[i], label);
}

static void folders_of_images(void **state) {
  char *from, *out;
  sl_dataset *d;
  sl__options o = options_for(*state, &from, &out);
  make_folder(*state, "in"), make_folder(*state, "in/dog"), make_folder(*state, "in/cat"),
      make_folder(*state, "in/cat/more");
  for (int i = 0; i < 40; i++) { /* more than threads, so that order could be lost */
    char name[32];
    snprintf(name, sizeof name, "in/dog/%02d.%s", i, i % 2 ? "PNG" : "jpeg"); /* by content, whatever the name */
    put(*state, name, 3 + i % 20, 4 + i % 7, 100 + i);
  }
  put(*state, "in/cat/b.png", 5, 5, 2), put(*state, "in/cat/a.png", 9, 4, 1), put(*state, "in/cat/more/a.png", 9, 4, 3);
  scratch_write(scratch_path(*state, "in/cat/notes.txt"), "x", 1),
      scratch_write(scratch_path(*state, "in/.hidden"), "x", 1);
  o.resize = 8, o.crop = 6;
  assert_ok(import(*state, &o));
  assert_true(said(*state, "images of 6x6x3 in 2 classes, 43 to train on, 0 to test on"));
  assert_ok(sl_dataset_open(&(sl_dataset_options){.directory = out}, &d));
  assert_int_equal(d->train.n, 43);
  assert_int_equal(d->height * 100 + d->width * 10 + d->channels, 663);
  assert_int_equal(d->classes, 2);
  assert_string_equal(d->class_names[0], "cat");
  assert_string_equal(d->class_names[1], "dog");
  for (int i = 0; i < 43; i++) check_value(d, &d->train, i, i < 3 ? i + 1 : 97 + i, i >= 3);
  sl_dataset_close(d);
  assert_fails(SL_EEXIST, "is not empty", import(*state, &o));
  free(from), free(out);
}

static void parts(void **state) {
  char *from, *out;
  sl_dataset *d;
  sl__options o = options_for(*state, &from, &out);
  make_folder(*state, "in"), make_folder(*state, "in/train"), make_folder(*state, "in/val"),
      make_folder(*state, "in/test");
  make_folder(*state, "in/train/a"), make_folder(*state, "in/train/b"), make_folder(*state, "in/val/b");
  put(*state, "in/train/a/1.png", 5, 4, 1), put(*state, "in/train/b/1.png", 5, 4, 2),
      put(*state, "in/val/b/1.png", 5, 4, 3);
  put(*state, "in/test/1.png", 5, 4, 3); /* without classes: no part of the set */
  o.grey = 1;
  assert_ok(import(*state, &o));
  assert_ok(sl_dataset_open(&(sl_dataset_options){.directory = out}, &d));
  assert_int_equal(d->channels, 1);
  assert_int_equal(d->train.n * 10 + d->test.n, 21);
  check_value(d, &d->train, 0, 1, 0), check_value(d, &d->train, 1, 2, 1), check_value(d, &d->test, 0, 3, 1);
  sl_dataset_close(d);
  free(out), out = o.out = strdup(scratch_path(*state, "out2"));
  o.test_fraction = 0.5;
  assert_fails(SL_EINVAL, "has images to test on already", import(*state, &o));
  o.test_fraction = NAN;
  make_folder(*state, "in/val/c");
  put(*state, "in/val/c/1.png", 5, 4, 3);
  assert_fails(SL_EFORMAT, "val/c: not a class, because the training part has no folder of that name",
               import(*state, &o));
  assert_int_not_equal(access(out, F_OK), 0);
  free(from), free(out);
}

static void test_fraction(void **state) {
  char *from, *out, name[32];
  sl_dataset *d;
  int seen[60] = {0}, moved = 0, count[2] = {0};
  sl__options o = options_for(*state, &from, &out);
  make_folder(*state, "in"), make_folder(*state, "in/a"), make_folder(*state, "in/b");
  for (int i = 0; i < 60; i++)
    snprintf(name, sizeof name, "in/%c/%02d.png", i < 20 ? 'a' : 'b', i), put(*state, name, 2, 3, i);
  o.test_fraction = 0.25;
  assert_ok(import(*state, &o));
  assert_ok(sl_dataset_open(&(sl_dataset_options){.directory = out}, &d));
  assert_int_equal(d->train.n, 45);
  assert_int_equal(d->test.n, 15);
  for (int i = 0; i < 60; i++) {
    const sl_image_set *set = i < 45 ? &d->train : &d->test;
    const int64_t k = i < 45 ? i : i - 45, value = set->pixels[k * 18];
    assert_in_range(value, 0, 59);
    assert_int_equal(set->labels[k], value >= 20);
    seen[value]++;
    if (i >= 45) count[value >= 20]++, moved += value != i && value % 20 != i % 20;
  }
  for (int i = 0; i < 60; i++) assert_int_equal(seen[i], 1);
  assert_int_equal(count[0] * 100 + count[1], 510);
  assert_true(moved > 0); /* not simply the last */
  sl_dataset_close(d);
  free(from), free(out);
}

static void bad_images(void **state) {
  char *from, *out;
  sl_dataset *d;
  sl__options o = options_for(*state, &from, &out);
  make_folder(*state, "in"), make_folder(*state, "in/a");
  assert_fails(SL_EFORMAT, "in/a has no images", import(*state, &o));
  for (int i = 0; i < 9; i++) {
    char name[32];
    snprintf(name, sizeof name, "in/a/%d.png", i);
    put(*state, name, 5, 4, i);
  }
  scratch_write(scratch_path(*state, "in/a/2.png"), "GIF89a", 6);
  scratch_write(scratch_path(*state, "in/a/4.png"), "\x89PNG\r\n\x1a\n", 8);
  put(*state, "in/a/7.png", 6, 4, 7);
  assert_fails(SL_EUNSUPPORTED, "in/a/2.png is neither a", import(*state, &o));
  assert_int_not_equal(access(out, F_OK), 0); /* nothing is left */
  o.skip_bad = 1, o.quiet = 0;
  assert_ok(import(*state, &o));
  assert_true(said(*state, "left out 3 images"));
  assert_true(said(*state, "in/a/2.png is neither"));
  assert_true(said(*state, "in/a/4.png: broken PNG: the file ends early"));
  assert_true(said(*state, "in/a/7.png is 6 high and 4 wide, those before it 5x4; give all one size with --size"));
  assert_true(said(*state, "6 to train on"));
  assert_ok(sl_dataset_open(&(sl_dataset_options){.directory = out}, &d));
  assert_int_equal(d->train.n, 6);
  static const int values[] = {0, 1, 3, 5, 6, 8};
  for (int i = 0; i < 6; i++) check_value(d, &d->train, i, values[i], 0);
  sl_dataset_close(d);
  free(out), out = o.out = strdup(scratch_path(*state, "out2"));
  o.crop = 60;
  assert_fails(SL_EFORMAT, "none of 9 images can be read; the first:", import(*state, &o));
  assert_true(strstr(sl_error(), "too small to cut 60x60 out of it") != NULL);
  assert_int_not_equal(access(out, F_OK), 0);
  free(from), free(out);
}

static void many_classes(void **state) {
  char *from, *out, name[32];
  sl_dataset *d;
  sl__options o = options_for(*state, &from, &out);
  make_folder(*state, "in");
  for (int i = 0; i < 300; i++) {
    snprintf(name, sizeof name, "in/%03d", i), make_folder(*state, name);
    snprintf(name, sizeof name, "in/%03d/1.png", i), put(*state, name, 2, 2, i % 256);
  }
  assert_ok(import(*state, &o));
  assert_ok(sl_dataset_open(&(sl_dataset_options){.directory = out}, &d));
  assert_int_equal(d->classes, 300);
  for (int i = 0; i < 300; i++) check_value(d, &d->train, i, i % 256, i);
  sl_dataset_close(d);
  free(from), free(out);
}

static void wrong_options(void **state) {
  char *from, *out;
  const sl__options right = options_for(*state, &from, &out);
  sl__options o = right;
  o.model = (char *)(uintptr_t) "sounds";
  assert_fails(SL_EINVAL, "cannot import 'sounds'", import(*state, &o));
  o = right, o.out = NULL;
  assert_fails(SL_EINVAL, "--out DIR is needed", import(*state, &o));
  o = right, o.size = (char *)(uintptr_t) "20";
  assert_fails(SL_EINVAL, "--size: '20' is not HEIGHTxWIDTH", import(*state, &o));
  o.size = (char *)(uintptr_t) "20x30", o.resize = 20;
  assert_fails(SL_EINVAL, "exclude each other", import(*state, &o));
  o.resize = -1, o.crop = 21;
  assert_fails(SL_EINVAL, "--crop 21 is more than the 20 pixels", import(*state, &o));
  o = right;
  assert_fails(SL_ENOTFOUND, "cannot read the folder", import(*state, &o));
  make_folder(*state, "in");
  assert_fails(SL_EFORMAT, "has no folders, one for each class", import(*state, &o));
  free(from), free(out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(folders_of_images, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(parts, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(test_fraction, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(bad_images, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(many_classes, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(wrong_options, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
