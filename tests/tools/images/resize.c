/* tools/images/resize.c: the same pixels as PIL 13's resize((width, height), BILINEAR) and torchvision's CenterCrop,
 * for shrinking, enlarging and odd margins. The expected pixels are recorded, so the tests need no Python. */
#include "tools/images/resize.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

static const struct {
  int height, width, channels;
  sl__fit fit;
  uint8_t expected[180];
} cases[] = {
    {9, 14, 3, {.shorter = 4, .crop_height = 3, .crop_width = 3}, {104, 136, 129, 110, 112, 142, 146, 94,  100,
                                                                   158, 127, 122, 64,  178, 131, 107, 94,  141,
                                                                   102, 145, 116, 125, 133, 142, 127, 154, 121}},
    {5, 4, 1, {.shorter = 7, .crop_height = 6, .crop_width = 6}, {16,  21,  28,  36,  44,  51,  44,  50,  59,
                                                                  68,  78,  87,  113, 121, 132, 143, 153, 164,
                                                                  126, 134, 147, 160, 172, 185, 81,  90,  105,
                                                                  120, 135, 150, 79,  89,  106, 122, 138, 155}},
    {11, 8, 3, {.shorter = 5, .crop_height = 4, .crop_width = 4}, {113, 158, 75,  146, 120, 114, 181, 101, 179, 182,
                                                                   114, 127, 113, 180, 48,  148, 169, 116, 144, 91,
                                                                   141, 156, 132, 106, 90,  157, 136, 139, 161, 107,
                                                                   145, 98,  145, 90,  153, 96,  91,  141, 150, 133,
                                                                   127, 102, 140, 100, 139, 119, 138, 110}},
    {7,
     10,
     3,
     {.height = 5, .width = 12},
     {12,  103, 194, 22,  121, 157, 33,  141, 164, 43,  161, 121, 53,  180, 51,  64,  193, 80,  75,  141, 109, 85,  154,
      138, 96,  174, 166, 106, 123, 160, 117, 43,  139, 126, 60,  165, 99,  190, 138, 113, 105, 83,  128, 94,  89,  144,
      120, 123, 160, 145, 157, 176, 160, 180, 191, 90,  94,  100, 105, 117, 80,  129, 151, 96,  155, 138, 112, 144, 105,
      125, 59,  136, 90,  181, 16,  110, 174, 52,  131, 194, 92,  153, 137, 132, 175, 45,  172, 196, 76,  204, 218, 107,
      167, 170, 138, 77,  73,  169, 76,  27,  199, 116, 49,  207, 156, 68,  165, 192, 114, 205, 40,  139, 153, 81,  167,
      162, 128, 147, 139, 126, 108, 93,  106, 136, 130, 140, 164, 166, 67,  85,  118, 102, 77,  127, 148, 105, 163, 146,
      132, 165, 126, 157, 91,  167, 87,  178, 184, 116, 152, 102, 149, 172, 110, 147, 143, 126, 130, 86,  127, 148, 127,
      164, 39,  170, 73,  57,  148, 110, 90,  168, 161, 123, 139, 176, 156, 82,  135, 185, 119, 53}},
};

static sl__picture make(int height, int width, int channels) {
  sl__picture p = {height, width, channels, malloc((size_t)(height * width * channels))};
  assert_non_null(p.pixels);
  uint8_t *to = p.pixels;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++) *to++ = (uint8_t)(37 * y * y + 11 * x * (c + 1) + y * x * 5 + c * 91);
  return p;
}

static void as_pil(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const sl__fit *fit = &cases[k].fit;
    sl__picture p = make(cases[k].height, cases[k].width, cases[k].channels);
    assert_ok(sl__fit_picture("a picture", fit, &p));
    assert_int_equal(p.height, fit->crop_height ? fit->crop_height : fit->height);
    assert_int_equal(p.width, fit->crop_width ? fit->crop_width : fit->width);
    for (int64_t i = 0; i < p.height * p.width * p.channels; i++)
      assert_near(p.pixels[i], cases[k].expected[i], k < 3 ? 0 : 1); /* the last one PIL made along columns first */
    sl__picture_clear(&p);
  }
}

/* Further sizes with known results: an image of one value keeps it, and a crop alone only moves pixels. */
static void sizes(void **state) {
  static const struct {
    int height, width;
    sl__fit fit;
    int new_height, new_width;
  } sizes[] = {{100, 1, {.shorter = 3}, 300, 3},
               {1, 100, {.shorter = 3}, 3, 300},
               {300, 200, {.shorter = 7}, 10, 7},
               {300, 200, {.shorter = 7, .crop_height = 7, .crop_width = 5}, 7, 5},
               {40, 50, {.height = 80, .width = 3}, 80, 3},
               {40, 50, {0}, 40, 50}};
  (void)state;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int value = 0; value < 256; value += 51) {
      sl__picture p = make(sizes[k].height, sizes[k].width, 3);
      memset(p.pixels, value, (size_t)(p.height * p.width * 3));
      assert_ok(sl__fit_picture("a picture", &sizes[k].fit, &p));
      assert_int_equal(p.height, sizes[k].new_height);
      assert_int_equal(p.width, sizes[k].new_width);
      for (int64_t i = 0; i < p.height * p.width * 3; i++) assert_int_equal(p.pixels[i], value);
      sl__picture_clear(&p);
    }
  sl__picture whole = make(9, 8, 3), part = make(9, 8, 3);
  assert_ok(sl__fit_picture("a picture", &(sl__fit){.crop_height = 4, .crop_width = 3}, &part));
  for (int y = 0; y < 4; y++)
    for (int x = 0; x < 3; x++) /* rests of 5: 2.5 is rounded to 2 */
      assert_memory_equal(part.pixels + (y * 3 + x) * 3, whole.pixels + ((y + 2) * 8 + x + 2) * 3, 3);
  sl__picture_clear(&part);
  assert_fails(SL_ESHAPE, "a.png is 9x8, too small to cut 10x3 out of it",
               sl__fit_picture("a.png", &(sl__fit){.crop_height = 10, .crop_width = 3}, &whole));
  assert_int_equal(whole.height, 9);
  assert_fails(SL_ESHAPE, "a.png would have more than 2^28 pixels",
               sl__fit_picture("a.png", &(sl__fit){.height = 65536, .width = 65536}, &whole));
  sl__picture_clear(&whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_pil), cmocka_unit_test(sizes)};
  return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
