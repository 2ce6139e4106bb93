/* runtime/data/tokens.c: windows and splits of text and both kinds of token files, and an error for every fault of a
 * file. */
#include "runtime/data/tokens.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static void put32(uint8_t *at, int64_t x) {
  for (int b = 0; b < 4; b++) at[b] = (uint8_t)(x >> 8 * b);
}

/* A token file of n ids first, first + 1, ...; its header says `count`. */
static const char *ids(const char *folder, const char *name, int32_t magic, int32_t version, int64_t count, int64_t n,
                       int64_t first) {
  const char *path = scratch_path(folder, name);
  const size_t width = magic == 20240801 ? 4 : 2;
  uint8_t *bytes = calloc(1, 1024 + width * (size_t)n);
  put32(bytes, magic), put32(bytes + 4, version), put32(bytes + 8, count);
  for (int64_t i = 0; i < n; i++)
    for (size_t b = 0; b < width; b++) bytes[1024 + width * (size_t)i + b] = (uint8_t)((first + i) >> 8 * b);
  scratch_write(path, bytes, 1024 + width * (size_t)n);
  free(bytes);
  return path;
}
static const char *ids16(const char *folder, const char *name, int64_t n, int64_t first) {
  return ids(folder, name, 20240520, 1, n, n, first);
}
static const char *ids32(const char *folder, const char *name, int64_t n, int64_t first) {
  return ids(folder, name, 20240801, 7, n, n, first);
}

static sl_status open_with(const char *paths, int64_t vocabulary, int64_t window, int64_t stride, double fraction,
                           sl_tokens **t) {
  const sl_tokens_options o = {
      .paths = paths, .vocabulary = vocabulary, .window = window, .stride = stride, .validation_fraction = fraction};
  const sl_status status = sl_tokens_open(&o, t);
  if (status != SL_OK) assert_null(*t);
  return status;
}

/* Sample i of a split is first, first + 1, ... */
static void assert_window(const sl_tokens *t, sl_split split, int64_t i, int64_t window, int32_t first) {
  const sl_sample_source source = sl_tokens_source(t, split);
  int32_t sample[64], label = 7;
  assert_int_equal(source.sample_bytes, 4 * window);
  assert_in_range(i, 0, source.n - 1);
  assert_ok(source.read(source.arg, i, sample, &label));
  assert_int_equal(label, 0);
  for (int64_t k = 0; k < window; k++) assert_int_equal(sample[k], first + k);
}

static void windows_of_each_kind(void **state) {
  sl_tokens *t;
  uint8_t text[100];
  for (int i = 0; i < 100; i++) text[i] = (uint8_t)(100 + i);
  scratch_write(scratch_path(*state, "a.txt"), text, sizeof text);
  const struct {
    const char *path;
    int64_t vocabulary;
    int32_t first;
  } cases[] = {{scratch_path(*state, "a.txt"), 256, 100},
               {ids16(*state, "a.bin", 100, 65436), 65536, 65436},
               {ids32(*state, "b.bin", 100, 70000), 70100, 70000}};
  for (int c = 0; c < 3; c++) {
    assert_ok(open_with(cases[c].path, cases[c].vocabulary, 9, 8, 0, &t)); /* windows share one token */
    assert_int_equal(t->n[SL_SPLIT_TRAIN], 12);
    assert_int_equal(t->tokens[SL_SPLIT_TRAIN], 100);
    assert_int_equal(t->n[SL_SPLIT_VALIDATION] + t->n[SL_SPLIT_TEST], 0);
    assert_int_equal(t->text, c == 0);
    for (int i = 0; i < 12; i++) assert_window(t, SL_SPLIT_TRAIN, i, 9, cases[c].first + 8 * i);
    sl_tokens_close(t);
    assert_ok(open_with(cases[c].path, cases[c].vocabulary, 8, 0, 0, &t)); /* side by side */
    assert_int_equal(t->n[SL_SPLIT_TRAIN], 12);
    assert_window(t, SL_SPLIT_TRAIN, 11, 8, cases[c].first + 88);
    sl_tokens_close(t);
    assert_ok(open_with(cases[c].path, cases[c].vocabulary, 50, 0, 0, &t)); /* an exact fit */
    assert_int_equal(t->n[SL_SPLIT_TRAIN], 2);
    sl_tokens_close(t);
  }
}

static void several_files_make_one_set(void **state) {
  sl_tokens *t;
  char paths[9000];
  const char *a = ids16(*state, "a.bin", 25, 0), *b = ids32(*state, "b.bin", 5, 100),
             *c = ids16(*state, "c.bin", 30, 200);
  snprintf(paths, sizeof paths, "%s,%s,%s", a, b, c);
  assert_ok(open_with(paths, 300, 10, 0, 0, &t));
  assert_int_equal(t->tokens[SL_SPLIT_TRAIN], 60);
  assert_int_equal(t->n[SL_SPLIT_TRAIN], 5); /* no window crosses files; b is too short for one */
  const int32_t first[] = {0, 10, 200, 210, 220};
  for (int i = 0; i < 5; i++) assert_window(t, SL_SPLIT_TRAIN, i, 10, first[i]);
  assert_string_equal(t->paths, paths);
  const uint64_t digest = t->digest;
  sl_tokens_close(t);
  ids16(*state, "c.bin", 30, 201);
  assert_ok(open_with(paths, 300, 10, 0, 0, &t));
  assert_true(t->digest != digest);
  sl_tokens_close(t);
}

static void a_folder_and_its_splits(void **state) {
  sl_tokens *t;
  ids16(*state, "x_train_1.bin", 20, 20), ids16(*state, "x_train_0.bin", 20, 0);
  ids16(*state, "x_val_0.bin", 12, 100), ids16(*state, "x_test.bin", 11, 200);
  scratch_write(scratch_path(*state, "tokenizer.json"), "{}", 2);
  scratch_write(scratch_path(*state, "text.txt"), "not taken where tokens are", 26);
  assert_ok(open_with(*state, 300, 10, 0, 0.5, &t));
  assert_int_equal(t->n[SL_SPLIT_TRAIN], 4); /* nothing is set aside if there are validation files */
  assert_int_equal(t->n[SL_SPLIT_VALIDATION], 1);
  assert_int_equal(t->n[SL_SPLIT_TEST], 1);
  assert_false(t->text);
  for (int i = 0; i < 4; i++) assert_window(t, SL_SPLIT_TRAIN, i, 10, 10 * i);
  assert_window(t, SL_SPLIT_VALIDATION, 0, 10, 100);
  assert_window(t, SL_SPLIT_TEST, 0, 10, 200);
  sl_tokens_close(t);
  assert_fails(SL_EINVAL, "11 tokens for testing, which hold no window of 12: shorten the window",
               open_with(*state, 300, 12, 0, 0, &t));
}

/* The last tokens of all files together, wherever the border falls. */
static void the_last_part_is_validation(void **state) {
  sl_tokens *t;
  ids16(*state, "a.bin", 40, 0), ids16(*state, "b.bin", 60, 100);
  assert_ok(open_with(*state, 300, 5, 0, 0.3, &t));
  assert_int_equal(t->tokens[SL_SPLIT_TRAIN], 70);
  assert_int_equal(t->n[SL_SPLIT_TRAIN], 14);
  assert_window(t, SL_SPLIT_TRAIN, 13, 5, 125);
  assert_int_equal(t->n[SL_SPLIT_VALIDATION], 6);
  assert_window(t, SL_SPLIT_VALIDATION, 0, 5, 130);
  assert_window(t, SL_SPLIT_VALIDATION, 5, 5, 155);
  sl_tokens_close(t);
  assert_ok(open_with(*state, 300, 5, 0, 0.8, &t));
  assert_int_equal(t->n[SL_SPLIT_TRAIN], 4);
  assert_int_equal(t->n[SL_SPLIT_VALIDATION], 4 + 12);
  assert_window(t, SL_SPLIT_VALIDATION, 4, 5, 100);
  sl_tokens_close(t);
  assert_fails(SL_EINVAL,
               "2 tokens for validation, which hold no window of 5: shorten the window or change the validation ",
               open_with(*state, 300, 5, 0, 0.02, &t));
  assert_fails(SL_EINVAL, "fraction of 1 is", open_with(*state, 300, 5, 0, 1, &t));
}

static void broken_files(void **state) {
  sl_tokens *t;
  assert_fails(SL_EFORMAT, "a.bin: not a token file, its magic is 20240521",
               open_with(ids(*state, "a.bin", 20240521, 1, 10, 10, 0), 300, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "a.bin: version 2 at offset 4; with magic 20240520 it is 1",
               open_with(ids(*state, "a.bin", 20240520, 2, 10, 10, 0), 300, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "version 1 at offset 4; with magic 20240801 it is 7",
               open_with(ids(*state, "a.bin", 20240801, 1, 10, 10, 0), 300, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "counts 11 tokens of 2 bytes, and 20 bytes follow it: truncated",
               open_with(ids(*state, "a.bin", 20240520, 1, 11, 10, 0), 300, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "counts 9 tokens of 4 bytes, and 40 bytes follow it: oversized",
               open_with(ids(*state, "a.bin", 20240801, 7, 9, 10, 0), 300, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "counts -1 tokens",
               open_with(ids(*state, "a.bin", 20240801, 7, -1, 10, 0), 300, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "counts 2147483647 tokens of 4 bytes, and 40 bytes follow it: truncated",
               open_with(ids(*state, "a.bin", 20240801, 7, INT32_MAX, 10, 0), 300, 5, 0, 0, &t));
  size_t n;
  char *good = scratch_read(ids16(*state, "b.bin", 10, 0), &n);
  for (size_t cut = 1; cut < n; cut += 7) {
    const char *path = scratch_path(*state, "c.bin");
    scratch_write(path, good, cut);
    assert_fails(SL_EFORMAT, "truncated", open_with(path, 300, 5, 0, 0, &t));
  }
  free(good);
  scratch_write(scratch_path(*state, "empty.txt"), "", 0);
  assert_fails(SL_EFORMAT, "empty.txt is empty", open_with(scratch_path(*state, "empty.txt"), 256, 5, 0, 0, &t));
}

static void ids_beyond_the_vocabulary(void **state) {
  sl_tokens *t;
  assert_fails(SL_EFORMAT, "a.bin: token 6 (byte offset 1036) is 306, beyond the vocabulary of 306",
               open_with(ids16(*state, "a.bin", 10, 300), 306, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "a.bin: token 9 (byte offset 1060) is 65545, beyond the vocabulary of 65545",
               open_with(ids32(*state, "a.bin", 10, 65536), 65545, 5, 0, 0, &t));
  assert_fails(SL_EFORMAT, "a.bin: token 0 (byte offset 1024) is 4294967295",
               open_with(ids32(*state, "a.bin", 1, -1), INT32_MAX, 1, 0, 0, &t));
  scratch_write(scratch_path(*state, "a.txt"), "abc\xff", 4);
  assert_fails(SL_EFORMAT, "a.txt: token 3 (byte offset 3) is 255, beyond the vocabulary of 128",
               open_with(scratch_path(*state, "a.txt"), 128, 2, 0, 0, &t));
  assert_ok(open_with(ids16(*state, "a.bin", 10, 300), 310, 5, 0, 0, &t));
  sl_tokens_close(t);
}

static void what_cannot_be_read(void **state) {
  sl_tokens *t;
  char paths[9000];
  assert_fails(SL_ENOTFOUND, "none'", open_with(scratch_path(*state, "none"), 256, 5, 0, 0, &t));
  assert_fails(SL_ENOTFOUND, "neither .bin files (of tokens) nor .txt", open_with(*state, 256, 5, 0, 0, &t));
  assert_fails(SL_EIO, "not a regular file", open_with("/dev/null", 256, 5, 0, 0, &t));
  snprintf(paths, sizeof paths, "%s,%s/none", ids16(*state, "a.bin", 10, 0), (char *)*state);
  assert_fails(SL_ENOTFOUND, "none'", open_with(paths, 256, 5, 0, 0, &t));
  assert_fails(SL_EINVAL, "names no file", open_with(",", 256, 5, 0, 0, &t));
  assert_fails(SL_EINVAL, "windows of 0", open_with(*state, 256, 0, 0, 0, &t));
}

static void more_files_than_may_be(void **state) {
  sl_tokens *t;
  char name[16];
  for (int i = 0; i <= 65536; i++) {
    snprintf(name, sizeof name, "%d.bin", i);
    close(open(scratch_path(*state, name), O_WRONLY | O_CREAT, 0600));
  }
  assert_fails(SL_EINVAL, "more than 65536 token files", open_with(*state, 256, 5, 0, 0, &t));
  assert_int_equal(unlink(scratch_path(*state, "0.bin")), 0);
  assert_fails(SL_EFORMAT, "is empty", open_with(*state, 256, 5, 0, 0, &t));
}

/* The loader's thread meets the missing pages, and the error arrives with its batch. */
static void cut_short_while_read(void **state) {
  enum { BYTES = 1 << 20 };
  const char *path = scratch_path(*state, "a.txt");
  char *text = calloc(1, BYTES);
  scratch_write(path, text, BYTES);
  free(text);
  sl_tokens *t;
  sl_loader *loader;
  sl_batch *batch;
  assert_ok(open_with(path, 256, 1 << 10, 0, 0, &t));
  const sl_loader_options o = {.source = sl_tokens_source(t, SL_SPLIT_TRAIN), .mode = SL_LOADER_EVAL, .batch = 64};
  assert_ok(sl_loader_create(&o, &loader));
  assert_ok(sl_loader_next(loader, &batch));
  sl_loader_release(loader, batch);
  assert_int_equal(truncate(path, 100), 0);
  sl_status status;
  while ((status = sl_loader_next(loader, &batch)) == SL_OK && batch) sl_loader_release(loader, batch);
  assert_int_equal(status, SL_EIO);
  assert_non_null(strstr(sl_error(), path));
  sl_loader_destroy(loader);
  sl_tokens_close(t);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      TEST(windows_of_each_kind),
      TEST(several_files_make_one_set),
      TEST(a_folder_and_its_splits),
      TEST(the_last_part_is_validation),
      TEST(broken_files),
      TEST(ids_beyond_the_vocabulary),
      TEST(what_cannot_be_read),
      TEST(more_files_than_may_be),
      TEST(cut_short_while_read),
  };
  return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
