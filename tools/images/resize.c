/* Resizes by two passes of weighted sums, along rows, then along columns; only what the crop keeps is computed.
 *
 * The filter is a triangle whose half width is one pixel of the coarser grid, so shrinking averages (no aliasing)
 * and enlarging interpolates. Weights have 22 fractional bits, intermediate values 8 bits, as in PIL. The results
 * equal PIL's bit for bit, or within one level where a later PIL goes along columns first (tall pictures). */
#include "tools/images/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRACTION = 22, HALF = 1 << (FRACTION - 1) };

/* Output i is the sum over k < count[i] of weight[i * room + k] * input[first[i] + k]. */
typedef struct filter {
  int64_t n, room;
  int64_t *first, *count;
  int32_t *weight;
} filter;

enum { MOST_WEIGHTS = 1 << 24 };

static void filter_free(filter *f) { free(f->first), free(f->count), free(f->weight); }

/* Weights of the outputs [from, from + n) when `in` pixels become `out`. */
static sl_status filter_make(int64_t in, int64_t out, int64_t from, int64_t n, filter *f) {
  const double scale = (double)in / (double)out, half = scale < 1 ? 1 : scale;
  *f = (filter){.n = n, .room = 2 * (int64_t)ceil(half) + 1};
  if (f->room > MOST_WEIGHTS / n)
    return sl_fail(SL_EUNSUPPORTED, "a side of %lld pixels is too long to become one of %lld", (long long)in,
                   (long long)out);
  double *w = malloc((size_t)f->room * sizeof *w);
  f->first = malloc((size_t)n * sizeof *f->first);
  f->count = malloc((size_t)n * sizeof *f->count);
  f->weight = malloc((size_t)(n * f->room) * sizeof *f->weight);
  if (!w || !f->first || !f->count || !f->weight) {
    free(w), filter_free(f);
    return sl_no_memory("for resizing");
  }
  for (int64_t i = 0; i < n; i++) {
    const double centre = ((double)(from + i) + 0.5) * scale;
    const int64_t low = (int64_t)(centre - half + 0.5), high = (int64_t)(centre + half + 0.5);
    const int64_t first = low < 0 ? 0 : low, count = (high > in ? in : high) - first;
    double sum = 0;
    for (int64_t k = 0; k < count; k++) {
      const double away = fabs(((double)(first + k) - centre + 0.5) * (1 / half));
      w[k] = away < 1 ? 1 - away : 0;
      sum += w[k];
    }
    for (int64_t k = 0; k < count; k++)
      f->weight[i * f->room + k] = (int32_t)(0.5 + w[k] / sum * (double)(1 << FRACTION));
    f->first[i] = first, f->count[i] = count;
  }
  free(w);
  return SL_OK;
}

static uint8_t rounded(int32_t sum) {
  const int32_t x = sum >> FRACTION; /* weights are positive and sum to 1 up to rounding */
  return (uint8_t)(x > 255 ? 255 : x);
}

/* One row of C channels: from [.., C] to [f->n, C]. */
static void resize_row(const filter *f, const uint8_t *from, int64_t C, uint8_t *to) {
  for (int64_t x = 0; x < f->n; x++) {
    const int32_t *w = f->weight + x * f->room;
    const uint8_t *p = from + f->first[x] * C;
    if (C == 3) {
      int32_t red = HALF, green = HALF, blue = HALF;
      for (int64_t k = 0; k < f->count[x]; k++, p += 3) red += w[k] * p[0], green += w[k] * p[1], blue += w[k] * p[2];
      to[3 * x] = rounded(red), to[3 * x + 1] = rounded(green), to[3 * x + 2] = rounded(blue);
    } else {
      int32_t sum = HALF;
      for (int64_t k = 0; k < f->count[x]; k++) sum += w[k] * p[k];
      to[x] = rounded(sum);
    }
  }
}

/* Computes output row y of n bytes from rows that begin at input row `above`. */
static void resize_column(const filter *f, int64_t y, const uint8_t *rows, int64_t above, int64_t n, int32_t *sums,
                          uint8_t *to) {
  for (int64_t i = 0; i < n; i++) sums[i] = HALF;
  for (int64_t k = 0; k < f->count[y]; k++) {
    const uint8_t *row = rows + (f->first[y] + k - above) * n;
    const int32_t w = f->weight[y * f->room + k];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sums[i] += w * row[i];
  }
  for (int64_t i = 0; i < n; i++) to[i] = rounded(sums[i]);
}

/* Rows [top, top + height) and columns [left, left + width) of p, resized to full_height x full_width. */
static sl_status resize(const sl__picture *p, int64_t full_height, int64_t full_width, int64_t top, int64_t left,
                        int64_t height, int64_t width, uint8_t **result) {
  filter rows = {0}, columns = {0};
  uint8_t *between = NULL, *out = NULL;
  int32_t *sums = NULL;
  const int64_t C = p->channels;
  sl_status status = SL_OK;
  SL_TRY_OUT(filter_make(p->width, full_width, left, width, &rows));
  SL_TRY_OUT(filter_make(p->height, full_height, top, height, &columns));
  const int64_t above = columns.first[0], below = columns.first[height - 1] + columns.count[height - 1];
  between = malloc((size_t)((below - above) * width * C));
  out = malloc((size_t)(height * width * C));
  sums = malloc((size_t)(width * C) * sizeof *sums);
  if (!between || !out || !sums) SL_TRY_OUT(sl_no_memory("for resizing"));
  for (int64_t y = above; y < below; y++)
    resize_row(&rows, p->pixels + y * p->width * C, C, between + (y - above) * width * C);
  for (int64_t y = 0; y < height; y++) resize_column(&columns, y, between, above, width * C, sums, out + y * width * C);
  *result = out, out = NULL;
out:
  filter_free(&rows), filter_free(&columns);
  free(between), free(out), free(sums);
  return status;
}

/* Half of an even number; for an odd one the even neighbour, as Python rounds. */
static int64_t half_of(int64_t n) { return n / 2 + (n & 1 & (n / 2)); }

sl_status sl__fit_picture(const char *name, const sl__fit *fit, sl__picture *p) {
  int64_t height = p->height, width = p->width;
  if (fit->height > 0) {
    height = fit->height, width = fit->width;
  } else if (fit->shorter > 0) {
    const int64_t longer = fit->shorter * (height > width ? height : width) / (height > width ? width : height);
    height = p->height > p->width ? longer : fit->shorter;
    width = p->height > p->width ? fit->shorter : longer;
  }
  const int64_t H = fit->crop_height > 0 ? fit->crop_height : height, W = fit->crop_width > 0 ? fit->crop_width : width;
  if (H > height || W > width)
    return sl_fail(SL_ESHAPE, "%s is %lldx%lld%s, too small to cut %lldx%lld out of it; --resize enlarges it", name,
                   (long long)height, (long long)width, fit->height || fit->shorter ? " when resized" : "",
                   (long long)H, (long long)W);
  if (H == p->height && W == p->width && height == H && width == W) return SL_OK;
  if (H > SL__PICTURE_PIXELS / W)
    return sl_fail(SL_ESHAPE, "%s would have more than 2^28 pixels at %lldx%lld; cut it with --crop", name,
                   (long long)H, (long long)W);
  uint8_t *pixels = NULL;
  const sl_status status = resize(p, height, width, half_of(height - H), half_of(width - W), H, W, &pixels);
  if (status != SL_OK) return sl_context(status, "%s", name);
  free(p->pixels);
  *p = (sl__picture){.height = H, .width = W, .channels = p->channels, .pixels = pixels};
  return SL_OK;
}
