/* runtime/data/augment.c: each pixel of an augmented image against its definition. Draws are equal for equal seed,
 * epoch and sample, uniform over all offsets, and independent of each other. */
#include "runtime/data/augment.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

static uint8_t expected(const sl_augment_draw *d, int64_t H, int64_t W, int64_t C, const uint8_t *from, int64_t y,
                        int64_t x, int64_t c) {
  const int64_t yy = y + d->dy, xx = (d->flip ? W - 1 - x : x) + d->dx;
  return yy < 0 || yy >= H || xx < 0 || xx >= W ? 0 : from[(yy * W + xx) * C + c];
}

static void every_pixel_is_where_it_should_be(void **state) {
  (void)state;
  const int64_t shapes[][3] = {{5, 7, 1}, {4, 3, 3}, {3, 5, 2}, {1, 1, 4}, {28, 28, 1}, {6, 33, 3}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t H = shapes[s][0], W = shapes[s][1], C = shapes[s][2], bytes = H * W * C;
    uint8_t *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++) from[i] = (uint8_t)(1 + i * 37 % 255);
    for (int dy = -(int)H - 1; dy <= H + 1; dy++)
      for (int dx = -(int)W - 1; dx <= W + 1; dx++)
        for (int flip = 0; flip < 2; flip++) {
          const sl_augment_draw d = {dy, dx, flip};
          memset(to, 0xEE, (size_t)bytes);
          sl_augment_apply(&d, H, W, C, from, to);
          for (int64_t i = 0; i < bytes; i++)
            if (to[i] != expected(&d, H, W, C, from, i / C / W, i / C % W, i % C))
              fail_msg("%dx%dx%d, dy %d, dx %d, flip %d: byte %d", (int)H, (int)W, (int)C, dy, dx, flip, (int)i);
        }
    free(from), free(to);
  }
}

static void draws_depend_on_seed_epoch_and_sample(void **state) {
  (void)state;
  const sl_augment a = {.pad = 4, .flip = 1};
  int same[3] = {0};
  enum { N = 4096 };
  for (int i = 0; i < N; i++) {
    const sl_augment_draw d = sl_augment_at(&a, 7, 3, i), again = sl_augment_at(&a, 7, 3, i);
    assert_memory_equal(&d, &again, sizeof d);
    const sl_augment_draw other[3] = {sl_augment_at(&a, 8, 3, i), sl_augment_at(&a, 7, 4, i),
                                      sl_augment_at(&a, 7, 3, i + 1)};
    for (int k = 0; k < 3; k++) same[k] += memcmp(&d, &other[k], sizeof d) == 0;
  }
  for (int k = 0; k < 3; k++) assert_in_range(same[k], 5, 60); /* one in 162 by chance: 25, 7 standard deviations */
}

/* Chi-square of the 9 x 9 x 2 outcomes: 161 degrees of freedom, so mean 161 and standard deviation 18. */
static void all_outcomes_are_as_likely(void **state) {
  (void)state;
  const sl_augment a = {.pad = 4, .flip = 1};
  enum { EACH = 1000, OUTCOMES = 162 };
  static int count[9][9][2];
  memset(count, 0, sizeof count);
  for (int64_t i = 0; i < EACH * OUTCOMES; i++) {
    const sl_augment_draw d = sl_augment_at(&a, 1, i % 5, i / 5);
    assert_true(d.dy >= -4 && d.dy <= 4 && d.dx >= -4 && d.dx <= 4);
    count[d.dy + 4][d.dx + 4][d.flip]++;
  }
  double chi = 0;
  for (int y = 0; y < 9; y++)
    for (int x = 0; x < 9; x++)
      for (int f = 0; f < 2; f++) chi += (count[y][x][f] - EACH) * (double)(count[y][x][f] - EACH) / EACH;
  assert_near(chi, 161, 6 * 18);
  for (int64_t i = 0; i < 1000; i++) {
    sl_augment_draw d = sl_augment_at(&(sl_augment){.flip = 1}, 1, 0, i);
    assert_true(d.dy == 0 && d.dx == 0);
    d = sl_augment_at(&(sl_augment){.pad = 2}, 1, 0, i);
    assert_true(!d.flip && d.dy >= -2 && d.dy <= 2);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pixel_is_where_it_should_be),
      cmocka_unit_test(draws_depend_on_seed_epoch_and_sample),
      cmocka_unit_test(all_outcomes_are_as_likely),
  };
  return cmocka_run_group_tests_name("augment", tests, NULL, NULL);
}
