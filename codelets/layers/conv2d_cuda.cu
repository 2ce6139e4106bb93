/* Convolution on a GPU; computes the same as conv2d.c, with the same order of sums. The factors of the products
 * (product_cuda.h) read a pixel's taps from the image itself, so there is no im2col. Zeros around the image are terms
 * of a chain, as on the CPU. The gradient by x is one product for each phase of the stride. T is the type of
 * activations and filters, float or sl_bf16. In bf16, products take numbers by pairs: pairs of channels within a tap
 * or, in conv2d_dw, pairs of pixels within a row of a block. A zero completes an odd number of them. */
#include "codelets/attributes.h"
#include "codelets/kernels/product_cuda.h"
#include "codelets/layers/conv2d_blocks.h"

namespace {
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
constexpr int unit = sl_cuda_narrow<T> ? 2 : 1;
template <class T>
using even = sl_cuda_even_pieces<sl_cuda_narrow<T>>;

/* Images [B, H, W, C], and a grid of OH x OW windows over each. */
template <class T>
struct images {
  const T *p;
  int H, W, C, OH, OW, stride, top, left; /* zeros before the first row and column; may be negative */
};
/* A window's image and its first pixel, which may lie before the image. */
template <class T>
struct window {
  const T *image; /* NULL: beyond the last */
  int row, column;
};
template <class T>
__device__ inline window<T> window_of(const images<T> &x, int64_t pixel, int64_t count) {
  if (pixel >= count) return {NULL, 0, 0};
  const int64_t line = pixel / x.OW, b = line / x.OH;
  return {x.p + b * x.H * x.W * x.C, (int)(line - b * x.OH) * x.stride - x.top,
          (int)(pixel - line * x.OW) * x.stride - x.left};
}
template <class T>
__device__ inline float pixel_of(const images<T> &x, const window<T> &w, int row, int column, int channel) {
  const int h = w.row + row, v = w.column + column;
  return w.image && h >= 0 && h < x.H && v >= 0 && v < x.W ? sl_get(w.image + ((int64_t)h * x.W + v) * x.C + channel)
                                                           : 0;
}

/* Pieces of channels under `taps` taps. k counts taps and, within a tap, the channels of the piece, including the zero
 * that completes the last pair. */
template <class T>
struct channel_pieces {
  static constexpr bool PAIRS = sl_cuda_narrow<T>;
  even<T> channels;
  int taps, count;
  __device__ int64_t length(int i) const { return taps * channels.length(i); }
  __device__ int64_t numbers(int i) const { return length(i); }
};
template <class T>
channel_pieces<T> pieces_of(int64_t taps, int64_t C) {
  const int n = (int)sl_conv2d_pieces(taps, (C + unit<T> - 1) / unit<T>, SL_PRODUCT_DEPTH / unit<T>);
  return {{C, n}, (int)taps, n};
}
/* A grid of taps, with `across` taps in a row. The index of a tap in the filter starts at `first` and changes by
 * row_step and column_step. */
struct taps {
  int across, first, row_step, column_step;
};

/* Position in a walk over a piece's k. */
struct place {
  int row, column, tap, channel;
};
template <class T>
__device__ inline place place_of(const channel_pieces<T> &p, const taps &t, int piece, int64_t k) {
  const int n = (int)p.channels.length(piece), tap = (int)(k / n), row = tap / t.across;
  return {row, tap - row * t.across, tap, (int)p.channels.first(piece) + (int)(k - (int64_t)tap * n)};
}
template <class T>
__device__ inline void advance(const channel_pieces<T> &p, const taps &t, int piece, place &at) {
  if (++at.channel < p.channels.first(piece + 1)) return;
  at.channel = (int)p.channels.first(piece), at.tap++;
  if (++at.column == t.across) at.column = 0, at.row++;
}

/* Element (pixel, k) of conv2d and conv2d_dx. */
template <class T>
struct pixels_by_tap {
  static constexpr bool ALONG_K = true, PLAIN = false;
  images<T> x;
  int64_t count;
  channel_pieces<T> pieces;
  taps t;
  typedef window<T> line_type;
  __device__ line_type line(int64_t i) const { return window_of(x, i, count); }
  template <int V>
  __device__ void get(const line_type &w, int64_t, int piece, int64_t k, int64_t end, float *to) const {
    place at = place_of(pieces, t, piece, k < end ? k : 0);
#pragma unroll
    for (int v = 0; v < V; v++) {
      to[v] = k + v < end && at.channel < x.C ? pixel_of(x, w, at.row, at.column, at.channel) : 0;
      advance(pieces, t, piece, at);
    }
  }
};
/* Element (filter, k) of conv2d: filters [n, taps, C]. */
template <class T>
struct filters_by_tap {
  static constexpr bool ALONG_K = true, PLAIN = false;
  const T *w;
  int64_t n;
  int C;
  channel_pieces<T> pieces;
  taps t;
  typedef const T *line_type;
  __device__ line_type line(int64_t i) const { return i < n ? w + i * pieces.taps * C : NULL; }
  template <int V>
  __device__ void get(line_type line, int64_t, int piece, int64_t k, int64_t end, float *to) const {
    place at = place_of(pieces, t, piece, k < end ? k : 0);
#pragma unroll
    for (int v = 0; v < V; v++) {
      to[v] = line && k + v < end && at.channel < C ? sl_get(line + (int64_t)at.tap * C + at.channel) : 0;
      advance(pieces, t, piece, at);
    }
  }
};
/* Element (channel, k) of conv2d_dx: the pieces' channels are filters [O, positions, C]. */
template <class T>
struct channels_by_tap {
  static constexpr bool ALONG_K = false, PLAIN = false;
  const T *w;
  int O, C, positions;
  channel_pieces<T> pieces;
  taps t;
  typedef const T *line_type;
  __device__ line_type line(int64_t i) const { return w + i; }
  template <int V>
  __device__ void get(line_type line, int64_t i, int piece, int64_t k, int64_t end, float *to) const {
    const place at = place_of(pieces, t, piece, k < end ? k : 0);
    const int position = t.first + at.row * t.row_step + at.column * t.column_step;
    const T *from = line + ((int64_t)at.channel * positions + position) * C;
#pragma unroll
    for (int v = 0; v < V; v++) to[v] = k < end && at.channel < O && i + v < C ? sl_get(from + v) : 0;
  }
};

/* Blocks of consecutive output pixels: some columns of a row, or whole rows of `width` pixels. In pairs, k also counts
 * the zero that completes an odd row. */
template <class T>
struct pixel_blocks {
  static constexpr bool PAIRS = sl_cuda_narrow<T>;
  sl_cuda_even_pieces<false> images, rows, columns;
  int count;
  __device__ int64_t first(int i) const {
    if (i == count) return images.n * rows.n * columns.n;
    const int column = i % columns.count, row = i / columns.count % rows.count, image = i / columns.count / rows.count;
    return (images.first(image) * rows.n + rows.first(row)) * columns.n + columns.first(column);
  }
  __device__ int64_t width(int i) const { return columns.length(i % columns.count); }
  __device__ int64_t pixels(int i) const { return first(i + 1) - first(i); }
  __device__ int64_t length(int i) const {
    const int64_t n = width(i);
    return PAIRS ? pixels(i) / n * ((n + 1) / 2 * 2) : pixels(i);
  }
  __device__ int64_t numbers(int i) const { return PAIRS ? length(i) : pixels(i); }
  /* Returns pixel k; -1: a zero. */
  __device__ int64_t pixel(int i, int64_t k) const {
    if (!PAIRS) return first(i) + k;
    const int64_t n = width(i), each = (n + 1) / 2 * 2, line = k / each, column = k - line * each;
    return column < n ? first(i) + line * n + column : -1;
  }
};
/* Element (filter, pixel) of conv2d_dw: dy [pixels, O]. */
template <bool WIDE, class T>
struct filters_by_pixel {
  static constexpr bool ALONG_K = false, PLAIN = false;
  const T *p;
  int64_t ld, count;
  pixel_blocks<T> pieces;
  typedef const T *line_type;
  __device__ line_type line(int64_t i) const { return p + i; }
  template <int V>
  __device__ void get(line_type line, int64_t i, int piece, int64_t k, int64_t end, float *to) const {
    const int64_t pixel = k < end ? pieces.pixel(piece, k) : -1;
    const T *at = line + pixel * ld;
    if (WIDE && V == 4 && pixel >= 0 && i + 4 <= count) {
      *(float4 *)to = sl_get4(at);
      return;
    }
#pragma unroll
    for (int v = 0; v < V; v++) to[v] = pixel >= 0 && i + v < count ? sl_get(at + v) : 0;
  }
};
/* Element (tap and channel, pixel) of conv2d_dw. */
template <class T>
struct taps_by_pixel {
  static constexpr bool ALONG_K = false, PLAIN = false;
  images<T> x;
  int64_t count, pixels; /* kernel^2 C; of the result */
  int kernel;
  pixel_blocks<T> pieces;
  struct line_type {
    int row, column, channel;
  };
  __device__ line_type line(int64_t i) const {
    const int tap = (int)(i / x.C), row = tap / kernel;
    return {row, tap - row * kernel, (int)(i - (int64_t)tap * x.C)};
  }
  template <int V>
  __device__ void get(line_type at, int64_t i, int piece, int64_t k, int64_t end, float *to) const {
    const int64_t pixel = k < end ? pieces.pixel(piece, k) : -1;
    const window<T> w = window_of(x, pixel >= 0 ? pixel : pixels, pixels);
#pragma unroll
    for (int v = 0; v < V; v++) {
      to[v] = i + v < count ? pixel_of(x, w, at.row, at.column, at.channel) : 0;
      if (++at.channel < x.C) continue;
      at.channel = 0;
      if (++at.column == kernel) at.column = 0, at.row++;
    }
  }
};

/* The pixels of dx that belong to one phase of the stride: every `stride`-th row and column of [B, H, W, C], from `row`
 * and `column` on. */
struct phase_pixels {
  float *dx; /* sums */
  int64_t H, W, C, OH, OW;
  int row, column, stride;
  __device__ float *line(int64_t m) const {
    const int64_t line = m / OW, b = line / OH;
    return dx + ((b * H + (line - b * OH) * stride + row) * W + (m - line * OW) * stride + column) * C;
  }
};

/* For a phase: the largest kernel position whose window begins on the grid, the offset of this window from the window
 * of the phase, and the number of such positions. */
struct phase_taps {
  int position, offset, count;
};
phase_taps taps_of_phase(const sl_conv2d_attr *a, int phase) {
  phase_taps t = {0, 0, 0};
  for (int r = a->kernel - 1; r >= 0; r--) {
    if ((phase + a->pad - r) % a->stride) continue;
    if (t.count++ == 0) t.position = r, t.offset = (phase + a->pad - r) / a->stride;
  }
  return t;
}

/* Returns an input of one or several parts as one array; several parts are copied together to the scratch memory at
 * *offset. */
template <class T>
sl_status whole(const sl_array *a, sl_cuda *cuda, const char *operation, size_t *offset, const T **data) {
  *data = (const T *)a->data;
  if (a->parts == 1) {
    *data = (const T *)a->part[0].data;
    return SL_OK;
  }
  const size_t bytes = ((size_t)sl_shape_count(&a->shape) * sizeof(T) + 63) / 64 * 64;
  SL_TRY(sl_cuda_scratch(cuda, *offset + bytes, operation));
  char *to = (char *)cuda->scratch + *offset;
  const size_t row = (size_t)sl_shape_row(&a->shape) * sizeof(T);
  for (int part = 0; part < a->parts; part++) {
    const sl_array *p = &a->part[part];
    SL_TRY(sl_cuda_check(cudaMemcpyAsync(to + (size_t)p->row0 * row, p->data, (size_t)p->shape.dim[0] * row,
                                         cudaMemcpyDeviceToDevice, cuda->stream),
                         operation));
  }
  *data = (const T *)to;
  *offset += bytes;
  return SL_OK;
}

/* The scratch memory holds, in this order: the sums of a result in bf16, filters and bias copied together, the parts of
 * products. */

/* x [B, H, W, C], filters [O, kernel, kernel, C], maybe bias [O] -> y [B, OH, OW, O] */
template <class T>
sl_status conv2d(const sl_call *c, sl_cuda *cuda) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
  const int64_t pixels = y->dim[0] * y->dim[1] * y->dim[2], O = y->dim[3];
  const int C = (int)x->dim[3], kernel = a->kernel;
  const channel_pieces<T> pieces = pieces_of<T>((int64_t)kernel * kernel, C);
  size_t scratch = sl_cuda_sums_bytes<T>(c);
  SL_TRY(sl_cuda_scratch(cuda, scratch, "conv2d"));
  const T *w;
  const float *bias = NULL;
  SL_TRY(whole(&c->in[1], cuda, "conv2d", &scratch, &w));
  if (c->n_in > 2) SL_TRY(whole(&c->in[2], cuda, "conv2d", &scratch, &bias));
  const images<T> from = {(const T *)c->in[0].data, (int)x->dim[1], (int)x->dim[2], C,     (int)y->dim[1],
                          (int)y->dim[2],           a->stride,      a->pad,         a->pad};
  const taps t = {kernel, 0, kernel, 1};
  float *to = sl_cuda_sums_at<T>(c, cuda);
  SL_TRY(sl_cuda_product(cuda, "conv2d", scratch, pixels, O, pixels_by_tap<T>{from, pixels, pieces, t},
                         filters_by_tap<T>{w, O, C, pieces, t}, pieces, sl_cuda_matrix{to, O},
                         O % 4 == 0 && sl_cuda_aligned(to), bias, SL_CUDA_OVERWRITE));
  return sl_cuda_round_sums<T>(c, cuda, "conv2d");
}

/* dy [B, OH, OW, O], filters -> dx [B, H, W, C] */
template <class T>
sl_status conv2d_dx(const sl_call *c, sl_cuda *cuda) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *dy = &c->in[0].shape, *dx = &c->out[0].shape;
  const int C = (int)dx->dim[3], O = (int)dy->dim[3], kernel = a->kernel;
  size_t scratch = sl_cuda_sums_bytes<T>(c);
  SL_TRY(sl_cuda_scratch(cuda, scratch, "conv2d_dx"));
  const T *w;
  float *to = sl_cuda_sums_at<T>(c, cuda);
  SL_TRY(whole(&c->in[1], cuda, "conv2d_dx", &scratch, &w));
  for (int row = 0; row < least(a->stride, dx->dim[1]); row++)
    for (int column = 0; column < least(a->stride, dx->dim[2]); column++) {
      const phase_taps down = taps_of_phase(a, row), across = taps_of_phase(a, column);
      const phase_pixels pixels = {to,
                                   dx->dim[1],
                                   dx->dim[2],
                                   C,
                                   (dx->dim[1] - row + a->stride - 1) / a->stride,
                                   (dx->dim[2] - column + a->stride - 1) / a->stride,
                                   row,
                                   column,
                                   a->stride};
      const int64_t count = dx->dim[0] * pixels.OH * pixels.OW;
      /* A pixel's window over dy begins at its own place in the phase plus the first tap's offset. */
      const images<T> from = {(const T *)c->in[0].data,
                              (int)dy->dim[1],
                              (int)dy->dim[2],
                              O,
                              (int)pixels.OH,
                              (int)pixels.OW,
                              1,
                              -down.offset,
                              -across.offset};
      const channel_pieces<T> pieces = pieces_of<T>((int64_t)down.count * across.count, O);
      const taps t = {across.count ? across.count : 1, down.position * kernel + across.position, -a->stride * kernel,
                      -a->stride};
      SL_TRY(sl_cuda_product(cuda, "conv2d_dx", scratch, count, (int64_t)C, pixels_by_tap<T>{from, count, pieces, t},
                             channels_by_tap<T>{w, O, C, kernel * kernel, pieces, t}, pieces, pixels,
                             C % 4 == 0 && sl_cuda_aligned(to), NULL, SL_CUDA_OVERWRITE));
    }
  return sl_cuda_round_sums<T>(c, cuda, "conv2d_dx");
}

/* dy [B, OH, OW, O], x [B, H, W, C] -> dfilters [n, K] and maybe dbias [n], of the filters from out[0].row0 */
template <class T>
sl_status conv2d_dw(const sl_call *c, sl_cuda *cuda) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *dy = &c->in[0].shape, *x = &c->in[1].shape;
  const int64_t n = c->out[0].shape.dim[0], O = dy->dim[3], K = (int64_t)a->kernel * a->kernel * x->dim[3];
  const T *from = (const T *)c->in[0].data + c->out[0].row0;
  float *dw = (float *)c->out[0].data;
  int64_t B = dy->dim[0], OH = dy->dim[1], OW = dy->dim[2];
  if (a->kernel == 1 && a->stride == 1 && a->pad == 0) OW = B * OH * OW, B = OH = 1; /* a product of matrices */
  const sl_conv2d_blocks g = sl_conv2d_blocks_of(B, OH, OW, (int64_t)a->kernel * a->kernel);
  const pixel_blocks<float> blocks = {
      {B, (int)g.images}, {OH, (int)g.rows}, {OW, (int)g.columns}, (int)sl_conv2d_blocks_count(&g)};
  const pixel_blocks<T> pieces = {blocks.images, blocks.rows, blocks.columns, blocks.count};
  const images<T> image = {(const T *)c->in[1].data, (int)x->dim[1], (int)x->dim[2], (int)x->dim[3], (int)dy->dim[1],
                           (int)dy->dim[2],          a->stride,      a->pad,         a->pad};
  const bool wide = sl_cuda_aligned(from) && O % 4 == 0, wide_dw = sl_cuda_aligned(dw) && K % 4 == 0;
  const taps_by_pixel<T> right = {image, K, dy->dim[0] * dy->dim[1] * dy->dim[2], a->kernel, pieces};
  const sl_cuda_adding adding = c->accumulate & 1 ? SL_CUDA_ADD_AFTER : SL_CUDA_OVERWRITE;
  SL_TRY(sl_cuda_either(wide, [&](auto is_wide) {
    using filters = filters_by_pixel<decltype(is_wide)::value, T>;
    return sl_cuda_product(cuda, "conv2d_dw", 0, n, K, filters{from, O, n, pieces}, right, pieces,
                           sl_cuda_matrix{dw, K}, wide_dw, NULL, adding);
  }));
  if (c->n_out < 2) return SL_OK; /* the sums come after the products on the stream, so they may use the same memory */
  return sl_cuda_column_sums(cuda, "conv2d_dw", 0, blocks, n, O, from,
                             c->accumulate & 2 ? SL_CUDA_ADD_AFTER : SL_CUDA_OVERWRITE, (float *)c->out[1].data);
}

bool in_bf16(const sl_call *c) { return c->in[0].dtype == SL_BF16; }
}  // namespace

extern "C" sl_status sl__conv2d_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d<sl_bf16> : conv2d<float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d_dx<sl_bf16> : conv2d_dx<float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_dw_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d_dw<sl_bf16> : conv2d_dw<float>)(c, cuda);
}
