/* tools/images/image.c: JPEG, PNG and IDX files become the model's bytes; files that do not fit or are truncated are
 * refused by name. */
#include "tools/images/image.h"

#include <png.h>
#include <stdlib.h>

#include "runtime/data/idx.h"
#include "tests/support/pictures.h"
#include "tests/support/scratch.h"

enum { H = 5, W = 4 };

static const char *png(const char *folder, const char *name, int format, const void *pixels) {
  const char *path = scratch_path(folder, name);
  png_image image = {.version = PNG_IMAGE_VERSION, .width = W, .height = H, .format = (png_uint_32)format};
  assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
  return path;
}

static void png_files(void **state) {
  uint8_t grey[H * W], colour[H * W * 3];
  sl__images images;
  for (int i = 0; i < H * W; i++)
    grey[i] = (uint8_t)(i * 11), colour[3 * i] = colour[3 * i + 1] = colour[3 * i + 2] = (uint8_t)(i * 11);
  assert_ok(sl__images_read(png(*state, "grey.png", PNG_FORMAT_GRAY, grey), H, W, 1, 0, &images));
  assert_int_equal(images.n, 1);
  assert_false(images.indexed);
  assert_memory_equal(images.pixels, grey, sizeof grey);
  sl__images_clear(&images);
  assert_ok(sl__images_read(scratch_path(*state, "grey.png"), H, W, 3, 0, &images));
  assert_memory_equal(images.pixels, colour, sizeof colour);
  sl__images_clear(&images);
  assert_ok(sl__images_read(png(*state, "colour.png", PNG_FORMAT_RGB, colour), H, W, 1, 0, &images));
  for (int i = 0; i < H * W; i++)
    assert_in_range(images.pixels[i] + 1 - grey[i], 0, 2); /* grey of r = g = b is that, to rounding */
  sl__images_clear(&images);
}

static void png_that_do_not_fit(void **state) {
  uint8_t grey[H * W] = {0};
  sl__images images;
  size_t n;
  const char *path = png(*state, "a.png", PNG_FORMAT_GRAY, grey);
  assert_fails(SL_ESHAPE, "5 high and 4 wide", sl__images_read(path, W, H, 1, 0, &images));
  assert_fails(SL_EUNSUPPORTED, "a.png", sl__images_read(path, H, W, 2, 0, &images));
  char *bytes = scratch_read(path, &n);
  for (size_t cut = 8; cut < n - 12; cut++) { /* the last 12 bytes are IEND, which holds nothing */
    scratch_write(scratch_path(*state, "cut.png"), bytes, cut);
    if (sl__images_read(scratch_path(*state, "cut.png"), H, W, 1, 0, &images) != SL_EFORMAT)
      fail_msg("cut at %zu of %zu was taken", cut, n);
    assert_non_null(strstr(sl_error(), "cut.png"));
    assert_null(images.pixels);
  }
  free(bytes);
}

static void idx_files(void **state) {
  uint8_t pixels[3 * H * W * 2];
  sl__images images;
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)i;
  const char *path = scratch_path(*state, "a.idx.gz");
  sl_shape shape = SL_SHAPE(3, H, W);
  assert_ok(sl_idx_write(path, SL_U8, &shape, pixels));
  assert_ok(sl__images_read(path, H, W, 1, 0, &images));
  assert_int_equal(images.n, 3);
  assert_true(images.indexed);
  assert_memory_equal(images.pixels, pixels, 3 * H * W);
  sl__images_clear(&images);
  assert_fails(SL_ESHAPE, "channels", sl__images_read(path, H, W, 3, 0, &images));
  shape = SL_SHAPE(3, H, W, 2);
  assert_ok(sl_idx_write(path, SL_U8, &shape, pixels));
  assert_ok(sl__images_read(path, H, W, 2, 0, &images));
  assert_memory_equal(images.pixels, pixels, sizeof pixels);
  sl__images_clear(&images);
  shape = SL_SHAPE(H, W);
  assert_ok(sl_idx_write(path, SL_U8, &shape, pixels));
  assert_ok(sl__images_read(path, H, W, 1, 0, &images));
  assert_int_equal(images.n, 1);
  sl__images_clear(&images);
  shape = SL_SHAPE(H * W);
  assert_ok(sl_idx_write(path, SL_U8, &shape, pixels));
  assert_fails(SL_EFORMAT, "not images", sl__images_read(path, H, W, 1, 0, &images));
  assert_fails(SL_ENOTFOUND, "none", sl__images_read(scratch_path(*state, "none"), H, W, 1, 0, &images));
}

static void jpeg_files(void **state) {
  uint8_t grey[H * W], flat[6 * 9];
  sl__images images;
  size_t n;
  for (int i = 0; i < H * W; i++) grey[i] = (uint8_t)(i * 11);
  uint8_t *bytes = picture_jpeg(grey, H, W, 1, 0, 0, &n);
  const char *path = scratch_path(*state, "a.jpg");
  scratch_write(path, bytes, n);
  free(bytes);
  assert_ok(sl__images_read(path, H, W, 1, 0, &images));
  for (int i = 0; i < H * W; i++) assert_near(images.pixels[i], grey[i], 2);
  sl__images_clear(&images);
  assert_fails(SL_ESHAPE, "--resize", sl__images_read(path, 3, 3, 1, 0, &images));
  memset(flat, 77, sizeof flat);
  bytes = picture_jpeg(flat, 6, 9, 1, 0, 0, &n);
  scratch_write(path, bytes, n);
  free(bytes);
  assert_ok(sl__images_read(path, H, W, 3, H, &images));
  for (int i = 0; i < H * W * 3; i++) assert_int_equal(images.pixels[i], 77);
  sl__images_clear(&images);
  assert_fails(SL_ESHAPE, "too small to cut 5x4", sl__images_read(path, H, W, 3, 4, &images));
  scratch_write(path, "\xff\xd8\xff\xe0", 4);
  assert_fails(SL_EFORMAT, "a.jpg: broken JPEG", sl__images_read(path, H, W, 1, 0, &images));
  assert_null(images.pixels);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(png_files, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(png_that_do_not_fit, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(idx_files, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(jpeg_files, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
