/* tools/images/decode.c: every kind of JPEG and PNG decodes to the pixels that were written, turned as EXIF says;
 * truncated files, and files with a wrong size, are refused by name. */
#include "tools/images/decode.h"

#include <png.h>
#include <stdlib.h>

#include "tests/support/pictures.h"
#include "tests/support/scratch.h"

enum { H = 19, W = 13 };

static uint8_t wave(int y, int x, int c) { return (uint8_t)(40 + 9 * y + (c + 1) * x); }

static void fill(uint8_t *p, int channels) {
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      for (int c = 0; c < channels; c++) *p++ = wave(y, x, c);
}

/* Decodes, expects H x W (exchanged if turned), and frees the file. */
static sl__picture decoded(uint8_t *bytes, size_t n, int channels, int turned) {
  sl__picture p;
  assert_ok(sl__decode("a file", bytes, n, channels, &p));
  assert_int_equal(p.height, turned ? W : H);
  assert_int_equal(p.width, turned ? H : W);
  assert_int_equal(p.channels, channels);
  free(bytes);
  return p;
}

static uint8_t grey_of(const uint8_t *p) { return (uint8_t)(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] + 0.5); }

static void close_to(const sl__picture *p, const uint8_t *expected, int tolerance) {
  for (int64_t i = 0; i < p->height * p->width * p->channels; i++) assert_near(p->pixels[i], expected[i], tolerance);
}

static void jpeg_kinds(void **state) {
  uint8_t colour[H * W * 3], grey[H * W], luma[H * W], thrice[H * W * 3];
  size_t n;
  (void)state;
  fill(colour, 3), fill(grey, 1);
  for (int i = 0; i < H * W; i++) luma[i] = grey_of(colour + 3 * i), memset(thrice + 3 * i, grey[i], 3);
  for (int progressive = 0; progressive < 2; progressive++) {
    uint8_t *bytes = picture_jpeg(colour, H, W, 3, progressive, 0, &n);
    sl__picture p = decoded(bytes, n, 3, 0);
    close_to(&p, colour, 3);
    sl__picture_clear(&p);
    bytes = picture_jpeg(colour, H, W, 3, progressive, 0, &n);
    p = decoded(bytes, n, 1, 0);
    close_to(&p, luma, 3);
    sl__picture_clear(&p);
    bytes = picture_jpeg(grey, H, W, 1, progressive, 0, &n);
    p = decoded(bytes, n, 1, 0);
    close_to(&p, grey, 2);
    sl__picture_clear(&p);
    bytes = picture_jpeg(grey, H, W, 1, progressive, 0, &n);
    p = decoded(bytes, n, 3, 0);
    close_to(&p, thrice, 2);
    sl__picture_clear(&p);
  }
}

static void jpeg_cmyk(void **state) {
  uint8_t inks[H * W * 4], expected[H * W * 3];
  size_t n;
  (void)state;
  fill(inks, 4);
  for (int i = 0; i < H * W; i++)
    for (int c = 0; c < 3; c++) expected[3 * i + c] = (uint8_t)(inks[4 * i + c] * inks[4 * i + 3] / 255.0 + 0.5);
  uint8_t *bytes = picture_jpeg(inks, H, W, 4, 0, 0, &n);
  sl__picture p = decoded(bytes, n, 3, 0);
  close_to(&p, expected, 4);
  sl__picture_clear(&p);
}

/* The stored position of the pixel that is shown at (y, x). By EXIF's definition, orientation says which side of the
 * scene row 0 and column 0 are. */
static void stored_at(int orientation, int y, int x, int *row, int *column) {
  const int top_row = orientation <= 4; /* row 0 is top or bottom */
  const int seen_h = top_row ? H : W, seen_w = top_row ? W : H;
  const int from_bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const int from_right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const int down = from_bottom ? seen_h - 1 - y : y, across = from_right ? seen_w - 1 - x : x;
  *row = top_row ? down : across, *column = top_row ? across : down;
}

static void orientations(void **state) {
  uint8_t grey[H * W];
  (void)state;
  fill(grey, 1);
  for (int o = 0; o <= 9; o++)
    for (int png = 0; png < 2; png++) {
      size_t n;
      uint8_t *bytes =
          png ? picture_png(grey, W, H, W, PNG_COLOR_TYPE_GRAY, 8, 0, o, &n) : picture_jpeg(grey, H, W, 1, 0, o, &n);
      const int known = o >= 1 && o <= 8 ? o : 1;
      sl__picture p = decoded(bytes, n, 1, known >= 5);
      for (int y = 0; y < p.height; y++)
        for (int x = 0; x < p.width; x++) {
          int row, column;
          stored_at(known, y, x, &row, &column);
          assert_near(p.pixels[y * p.width + x], grey[row * W + column], png ? 0 : 2);
        }
      sl__picture_clear(&p);
    }
}

static void png_kinds(void **state) {
  static const struct {
    int type, depth, samples;
  } kinds[] = {{PNG_COLOR_TYPE_GRAY, 1, 1},        {PNG_COLOR_TYPE_GRAY, 2, 1},    {PNG_COLOR_TYPE_GRAY, 4, 1},
               {PNG_COLOR_TYPE_GRAY, 8, 1},        {PNG_COLOR_TYPE_GRAY, 16, 1},   {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 2},
               {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 2}, {PNG_COLOR_TYPE_PALETTE, 2, 1}, {PNG_COLOR_TYPE_PALETTE, 8, 1},
               {PNG_COLOR_TYPE_RGB, 8, 3},         {PNG_COLOR_TYPE_RGB, 16, 3},    {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4},
               {PNG_COLOR_TYPE_RGB_ALPHA, 16, 4}};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const int depth = kinds[k].depth, samples = kinds[k].samples, colour = samples >= 3;
    const size_t row_bytes = (size_t)(W * samples * depth + 7) / 8;
    uint8_t rows[H * W * 4 * 2] = {0}, expected[H * W * 3], luma[H * W];
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) {
        uint8_t *seen = expected + 3 * (y * W + x);
        for (int s = 0; s < samples; s++) {
          const int at = (x * samples + s) * depth, value = wave(y, x, s) >> (depth < 8 ? 8 - depth : 0);
          uint8_t *to = rows + (size_t)y * row_bytes + at / 8;
          *to = (uint8_t)(*to | (depth < 8 ? value << (8 - depth - at % 8) : value));
          if (depth == 16) to[1] = (uint8_t)value; /* 257 v: scales to v */
          if (s < 3)
            seen[s] =
                (uint8_t)(depth < 8 && kinds[k].type == PNG_COLOR_TYPE_GRAY ? value * 255 / ((1 << depth) - 1) : value);
        }
        if (kinds[k].type == PNG_COLOR_TYPE_PALETTE) {
          const uint8_t i = seen[0];
          seen[0] = i, seen[1] = (uint8_t)(255 - i), seen[2] = i / 2;
        } else if (!colour) {
          seen[1] = seen[2] = seen[0];
        }
        luma[y * W + x] = grey_of(seen);
      }
    for (int interlaced = 0; interlaced < 2; interlaced++) {
      size_t n;
      uint8_t *bytes = picture_png(rows, row_bytes, H, W, kinds[k].type, depth, interlaced, 0, &n);
      sl__picture p = decoded(bytes, n, 3, 0);
      assert_memory_equal(p.pixels, expected, sizeof expected);
      sl__picture_clear(&p);
      bytes = picture_png(rows, row_bytes, H, W, kinds[k].type, depth, interlaced, 0, &n);
      p = decoded(bytes, n, 1, 0);
      close_to(&p, luma, 1);
      sl__picture_clear(&p);
    }
  }
}

static void torn(void **state) {
  uint8_t colour[H * W * 3];
  sl__picture p;
  (void)state;
  fill(colour, 3);
  for (int png = 0; png < 2; png++) {
    size_t n;
    uint8_t *bytes = png ? picture_png(colour, 3 * W, H, W, PNG_COLOR_TYPE_RGB, 8, 0, 6, &n)
                         : picture_jpeg(colour, H, W, 3, 0, 6, &n);
    for (size_t cut = 8; cut < n - (png ? 0 : 2); cut++) { /* the last 2 bytes of a JPEG only mark its end */
      uint8_t *exact = malloc(cut);
      assert_non_null(exact);
      memcpy(exact, bytes, cut);
      const sl_status status = sl__decode("torn.file", exact, cut, 3, &p);
      free(exact);
      if (status != SL_EFORMAT)
        fail_msg("%s cut at %zu of %zu: %s", png ? "PNG" : "JPEG", cut, n, sl_status_name(status));
      assert_non_null(strstr(sl_error(), "torn.file"));
      assert_null(p.pixels);
    }
    free(bytes);
  }
}

static void lies(void **state) {
  uint8_t grey[H * W];
  sl__picture p;
  size_t n, at = 2;
  (void)state;
  fill(grey, 1);
  assert_fails(SL_EUNSUPPORTED, "a.gif is neither", sl__decode("a.gif", "GIF89a..", 8, 3, &p));
  assert_fails(SL_EUNSUPPORTED, "it is empty", sl__decode("a.png", "", 0, 3, &p));
  uint8_t *bytes = picture_jpeg(grey, H, W, 1, 0, 0, &n);
  while (bytes[at + 1] != 0xc0)
    at += 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]); /* the frame: precision, height, width */
  bytes[at + 5] = bytes[at + 7] = 0x3f;
  assert_fails(SL_EFORMAT, "a.jpg: broken JPEG: its header promises more pixels than its bytes can hold",
               sl__decode("a.jpg", bytes, n, 1, &p));
  bytes[at + 5] = bytes[at + 7] = 0xff;
  assert_fails(SL_EFORMAT, "a.jpg: broken JPEG", sl__decode("a.jpg", bytes, n, 1, &p));
  free(bytes);
  /* Sides whose product is 0 in 64 bits. */
  memset(&p, 0, sizeof p);
  assert_string_equal(sl__picture_reserve(&p, INT64_C(1) << 32, INT64_C(1) << 32, 3, 8, 1),
                      "its header promises more pixels than the limit of 2^28");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jpeg_kinds), cmocka_unit_test(jpeg_cmyk), cmocka_unit_test(orientations),
      cmocka_unit_test(png_kinds),  cmocka_unit_test(torn),      cmocka_unit_test(lies),
  };
  return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
