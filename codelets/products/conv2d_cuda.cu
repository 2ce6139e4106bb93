/* Convolution on a GPU; computes the same as conv2d.c and conv2d_dw.c, with the same order of sums. The factors of the
 * exact products (product_cuda.h) read a pixel's taps from the image itself. Zeros around the image are terms of a
 * chain, as on the CPU. The gradient by x is one product for each phase of the stride. The fast kernels use cuBLAS for
 * the products. T is the type of activations and filters, float or sl_bf16. In bf16, exact products take numbers by
 * pairs: pairs of channels within a tap or, in conv2d_dw, pairs of pixels within a row of a block. A zero completes an
 * odd number of them. */
#include "codelets/attributes.h"
#include "codelets/kernels/blas_cuda.h"
#include "codelets/kernels/conv2d_sizes.h"
#include "codelets/kernels/product_cuda.h"
#include "codelets/products/conv2d_blocks.h"

namespace {
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Whether rows of n numbers can be read four numbers at once. */
template <class T>
bool fours(const T *p, int64_t n) {
  return sl_cuda_aligned(p) && n % 4 == 0;
}
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
/* *p = address of a channel of the pixel under a tap. Returns whether there is such a pixel. */
template <class T>
__device__ inline bool pixel_of(const images<T> &x, const window<T> &w, int row, int column, int channel, const T **p) {
  const int h = w.row + row, v = w.column + column;
  *p = w.image + ((int64_t)h * x.W + v) * x.C + channel;
  return w.image && h >= 0 && h < x.H && v >= 0 && v < x.W;
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

/* Position in a walk over a piece's k: a tap, and a channel of the piece, which has channels [first, end). The
 * product's inner loop moves it on, so moving needs no division. even: four numbers are always channels of one tap and
 * can be read at once. Then they lie at `from`, or are zeros if not `valid`. */
template <class T>
struct tap_position {
  int row, column, tap, channel, first, end;
  bool even, valid;
  const T *from;
};
template <class P>
__device__ inline void next_tap(const taps &t, P &at) {
  at.channel -= at.end - at.first, at.tap++;
  if (++at.column == t.across) at.column = 0, at.row++;
}
/* to[0 .. 4) = the four numbers at p, or zeros. */
template <class T>
__device__ inline void four_at(bool valid, const T *p, float *to) {
  *(float4 *)to = valid ? sl_get4(p) : make_float4(0, 0, 0, 0);
}

/* A factor F whose k counts taps and channels. F::place(line, position, &address) finds the number at a position and
 * returns whether there is one. F::address_step(): the distance from its address to the address of the number eight
 * channels on. wide: four channels can be read at once, from a channel that is a multiple of 4 on. */
template <class F, class T, class L>
struct by_tap {
  static constexpr bool PLAIN = false;
  typedef L line_type;
  typedef tap_position<T> position_type;
  channel_pieces<T> pieces;
  taps t;
  bool wide;
  __device__ void find(const L &line, position_type &at) const {
    at.valid = at.tap < pieces.taps && ((const F *)this)->place(line, at, &at.from);
  }
  __device__ position_type start(const L &line, int64_t, int piece, int64_t k) const {
    const int n = (int)pieces.channels.length(piece), first = (int)pieces.channels.first(piece);
    const int tap = (int)k / n, row = tap / t.across;
    position_type at = {row, tap - row * t.across, tap, first + (int)k - tap * n, first, first + n};
    at.even = wide && n % 4 == 0 && first % 4 == 0;
    find(line, at);
    return at;
  }
  __device__ void move(const L &line, position_type &at) const {
    at.channel += SL_CUDA_EIGHT, at.from += ((const F *)this)->address_step();
    if (at.channel < at.end) return;
    do next_tap(t, at);
    while (at.channel >= at.end);
    find(line, at);
  }
  /* Four numbers one by one, of C channels, by k. */
  __device__ void each(const L &line, position_type at, int C, int64_t k, int64_t end, float *to) const {
#pragma unroll
    for (int v = 0; v < 4; v++) {
      const T *from;
      to[v] = k + v < end && at.channel < C && ((const F *)this)->place(line, at, &from) ? sl_get(from) : 0;
      if (++at.channel == at.end) next_tap(t, at);
    }
  }
};

/* Element (pixel, k) of conv2d and conv2d_dx. */
template <class T>
struct pixels_by_tap : by_tap<pixels_by_tap<T>, T, window<T>> {
  static constexpr bool ALONG_K = true;
  images<T> x;
  int64_t count;
  __device__ window<T> line(int64_t i) const { return window_of(x, i, count); }
  __device__ bool place(const window<T> &w, const tap_position<T> &at, const T **from) const {
    return pixel_of(x, w, at.row, at.column, at.channel, from);
  }
  __device__ int64_t address_step() const { return SL_CUDA_EIGHT; }
  __device__ void get(const window<T> &w, int64_t, const tap_position<T> &at, int64_t k, int64_t end, float *to) const {
    if (at.even)
      four_at(at.valid, at.from, to);
    else
      this->each(w, at, x.C, k, end, to);
  }
};
/* Element (filter, k) of conv2d: filters [n, taps, C]. */
template <class T>
struct filters_by_tap : by_tap<filters_by_tap<T>, T, const T *> {
  static constexpr bool ALONG_K = true;
  const T *w;
  int64_t n;
  int C;
  __device__ const T *line(int64_t i) const { return i < n ? w + i * this->pieces.taps * C : NULL; }
  __device__ bool place(const T *line, const tap_position<T> &at, const T **from) const {
    *from = line + (int64_t)at.tap * C + at.channel;
    return line != NULL;
  }
  __device__ int64_t address_step() const { return SL_CUDA_EIGHT; }
  __device__ void get(const T *line, int64_t, const tap_position<T> &at, int64_t k, int64_t end, float *to) const {
    if (at.even)
      four_at(at.valid, at.from, to);
    else
      this->each(line, at, C, k, end, to);
  }
};
/* Element (channel, k) of conv2d_dx: the pieces' channels are filters [O, positions, C]. */
template <class T>
struct channels_by_tap : by_tap<channels_by_tap<T>, T, const T *> {
  static constexpr bool ALONG_K = false;
  const T *w;
  int O, C, positions;
  __device__ const T *line(int64_t i) const { return i < C ? w + i : NULL; }
  __device__ bool place(const T *line, const tap_position<T> &at, const T **from) const {
    const int position = this->t.first + at.row * this->t.row_step + at.column * this->t.column_step;
    *from = line + ((int64_t)at.channel * positions + position) * C;
    return line != NULL;
  }
  __device__ int64_t address_step() const { return (int64_t)SL_CUDA_EIGHT * positions * C; }
  __device__ void get(const T *, int64_t i, const tap_position<T> &at, int64_t, int64_t, float *to) const {
    const bool valid = at.valid && at.channel < O;
    if (this->wide) {
      four_at(valid, at.from, to);
      return;
    }
#pragma unroll
    for (int v = 0; v < 4; v++) to[v] = valid && i + v < C ? sl_get(at.from + v) : 0;
  }
};

/* Blocks of consecutive output pixels: some columns of a row, or whole rows of `width` pixels. In pairs, k also counts
 * the zero that completes an odd row. */
template <class T>
struct pixel_blocks {
  static constexpr bool PAIRS = sl_cuda_narrow<T>;
  sl_cuda_even_pieces<false> images, rows, columns;
  int count;
  struct block {
    int image, row, column; /* numbers of the group of images, of rows and of columns */
  };
  __device__ block block_of(int i) const {
    const int line = i / columns.count, image = line / rows.count;
    return {image, line - image * rows.count, i - line * columns.count};
  }
  __device__ int64_t first(int i) const {
    const block b = block_of(i);
    return (images.first(b.image) * rows.n + rows.first(b.row)) * columns.n + columns.first(b.column);
  }
  /* Numbers of k in a line of the block. */
  __device__ int64_t width(const block &b) const {
    const int64_t n = columns.length(b.column);
    return PAIRS ? (n + 1) / 2 * 2 : n;
  }
  __device__ int64_t length(int i) const {
    const block b = block_of(i);
    return images.length(b.image) * rows.length(b.row) * width(b);
  }
  __device__ int64_t numbers(int i) const { return length(i); }
};
/* Position in a walk over the pixels of a block: an image, and its row and column in the block's [first_row, end_row)
 * and [first_column, end_column). Columns from `zero` on are zeros that complete pairs. `from` is an address in the
 * factor. */
template <class T>
struct pixel_position {
  int64_t image;
  int row, column, first_row, end_row, first_column, zero, end_column;
  bool valid;
  const T *from;
};
/* A factor F whose k counts pixels; L: what it keeps for a line. F has find(line, position), which sets `valid` and
 * `from` for a row, and step(position) for eight columns. */
template <class F, class T, class L>
struct by_pixel {
  static constexpr bool ALONG_K = false, PLAIN = false;
  typedef L line_type;
  typedef pixel_position<T> position_type;
  pixel_blocks<T> pieces;
  __device__ position_type start(const L &l, int64_t, int piece, int64_t k) const {
    const auto b = pieces.block_of(piece);
    const int width = (int)pieces.width(b), line = (int)k / width;
    const int rows = (int)pieces.rows.length(b.row), image = line / rows;
    const int row = (int)pieces.rows.first(b.row), column = (int)pieces.columns.first(b.column);
    position_type at = {pieces.images.first(b.image) + image,
                        row + line - image * rows,
                        column + (int)k - line * width,
                        row,
                        row + rows,
                        column,
                        column + (int)pieces.columns.length(b.column),
                        column + width};
    ((const F *)this)->find(l, at);
    return at;
  }
  __device__ void move(const L &l, position_type &at) const {
    at.column += SL_CUDA_EIGHT;
    if (at.column < at.end_column) {
      ((const F *)this)->step(at);
      return;
    }
    do {
      at.column -= at.end_column - at.first_column;
      if (++at.row == at.end_row) at.row = at.first_row, at.image++;
    } while (at.column >= at.end_column);
    ((const F *)this)->find(l, at);
  }
};
/* Element (filter, pixel) of conv2d_dw: dy [pixels, O]; `from` is the address of the pixel. */
template <bool WIDE, class T>
struct filters_by_pixel : by_pixel<filters_by_pixel<WIDE, T>, T, const T *> {
  const T *p;
  int64_t ld, count;
  __device__ const T *line(int64_t i) const { return p + i; }
  __device__ void find(const T *line, pixel_position<T> &at) const {
    at.from = line + ((at.image * this->pieces.rows.n + at.row) * this->pieces.columns.n + at.column) * ld;
  }
  __device__ void step(pixel_position<T> &at) const { at.from += SL_CUDA_EIGHT * ld; }
  __device__ void get(const T *, int64_t i, const pixel_position<T> &at, int64_t k, int64_t end, float *to) const {
    const bool there = k < end && at.column < at.zero;
    if (WIDE && i + 4 <= count) {
      four_at(there, at.from, to);
      return;
    }
#pragma unroll
    for (int v = 0; v < 4; v++) to[v] = there && i + v < count ? sl_get(at.from + v) : 0;
  }
};
/* Element (tap and channel, pixel) of conv2d_dw; `from` is the first pixel of the image's row, `valid` whether there is
 * such a row. wide: addresses of channels that are multiples of 4 allow four numbers at once. */
struct tap_line {
  int row, column, channel;
};
template <class T>
struct taps_by_pixel : by_pixel<taps_by_pixel<T>, T, tap_line> {
  images<T> x;
  int64_t count; /* kernel^2 C */
  int kernel;
  bool wide;
  __device__ tap_line line(int64_t i) const {
    const int tap = (int)(i / x.C), row = tap / kernel;
    return {row, tap - row * kernel, (int)(i - (int64_t)tap * x.C)};
  }
  __device__ void find(const tap_line &l, pixel_position<T> &at) const {
    const int h = at.row * x.stride - x.top + l.row;
    at.valid = h >= 0 && h < x.H;
    at.from = x.p + (at.image * x.H + h) * x.W * x.C + l.channel;
  }
  __device__ void step(pixel_position<T> &) const {}
  __device__ void get(tap_line l, int64_t i, pixel_position<T> at, int64_t k, int64_t end, float *to) const {
    const bool there = k < end && at.column < at.zero;
    int v = at.column * x.stride - x.left + l.column;
    if (wide && i + 4 <= count) {
      four_at(there && at.valid && v >= 0 && v < x.W, at.from + (int64_t)v * x.C, to);
      return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
      to[e] = there && i + e < count && at.valid && v >= 0 && v < x.W ? sl_get(at.from + (int64_t)v * x.C + e) : 0;
      if (e == 3 || ++l.channel < x.C) continue;
      l.channel = 0, v++;
      if (++l.column == kernel) l.column = 0, l.row++, v -= kernel;
      find(l, at);
      at.from -= e + 1;
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

/* The taps of a phase along one axis: the largest kernel position r for which phase + pad - r is a multiple of the
 * stride, the quotient (phase + pad - r) / stride, and the number of such positions. */
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

/* A phase of conv2d_dx: a grid of windows over dy, one for each pixel of the phase. */
template <class T>
struct phase {
  images<T> dy;
  int64_t count; /* windows */
  int down;      /* rows of taps */
  taps t;
  phase_pixels dx;
};
template <class T>
phase<T> phase_of(const sl_call *c, int row, int column, float *to) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *dy = &c->in[0].shape, *dx = &c->out[0].shape;
  const phase_taps down = taps_of_phase(a, row), across = taps_of_phase(a, column);
  phase<T> p;
  p.dx = {to,
          dx->dim[1],
          dx->dim[2],
          dx->dim[3],
          (dx->dim[1] - row + a->stride - 1) / a->stride,
          (dx->dim[2] - column + a->stride - 1) / a->stride,
          row,
          column,
          a->stride};
  p.count = dx->dim[0] * p.dx.OH * p.dx.OW;
  /* A pixel's window over dy begins at its own place in the phase plus the first tap's offset. */
  p.dy = {(const T *)c->in[0].data,
          (int)dy->dim[1],
          (int)dy->dim[2],
          (int)dy->dim[3],
          (int)p.dx.OH,
          (int)p.dx.OW,
          1,
          -down.offset,
          -across.offset};
  p.down = across.count ? down.count : 0;
  p.t = {across.count ? across.count : 1, down.position * a->kernel + across.position, -a->stride * a->kernel,
         -a->stride};
  return p;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* The products of the three operations. The free scratch memory begins at `scratch`, a multiple of 256. */
template <class T>
struct exact {
  sl_cuda *cuda;
  size_t scratch;

  /* to [windows of x, O] = sums with filters w, and the bias unless it is NULL */
  sl_status y(const sl_conv2d_attr *a, const images<T> &x, int64_t windows, const T *w, int64_t O, const float *bias,
              float *to) const {
    const channel_pieces<T> pieces = pieces_of<T>((int64_t)a->kernel * a->kernel, x.C);
    const taps t = {a->kernel, 0, a->kernel, 1};
    return sl_cuda_product(cuda, "conv2d", scratch, windows, O,
                           pixels_by_tap<T>{{pieces, t, fours(x.p, x.C)}, x, windows},
                           filters_by_tap<T>{{pieces, t, fours(w, x.C)}, w, O, x.C}, pieces, sl_cuda_matrix{to, O},
                           fours(to, O), bias, SL_CUDA_OVERWRITE);
  }
  /* The pixels of a phase = sums with filters w [.., kernel, kernel, C]. */
  sl_status dx(const sl_conv2d_attr *a, const phase<T> &p, const T *w) const {
    const int C = (int)p.dx.C;
    const channel_pieces<T> pieces = pieces_of<T>((int64_t)p.down * p.t.across, p.dy.C);
    return sl_cuda_product(cuda, "conv2d_dx", scratch, p.count, (int64_t)C,
                           pixels_by_tap<T>{{pieces, p.t, fours(p.dy.p, p.dy.C)}, p.dy, p.count},
                           channels_by_tap<T>{{pieces, p.t, fours(w, C)}, w, p.dy.C, C, a->kernel * a->kernel}, pieces,
                           p.dx, fours(p.dx.dx, C), NULL, SL_CUDA_OVERWRITE);
  }
  /* dw [n, kernel^2 C] += or = sums over the windows of x with n columns of dy, whose rows lie O apart. */
  sl_status dw(const sl_conv2d_attr *a, const images<T> &x, const pixel_blocks<T> &pieces, const T *dy, int64_t O,
               int64_t n, bool add, float *dw) const {
    const int64_t K = (int64_t)a->kernel * a->kernel * x.C;
    const taps_by_pixel<T> right = {{pieces}, x, K, a->kernel, fours(x.p, x.C)};
    return sl_cuda_either(fours(dy, O), [&](auto is_wide) {
      using filters = filters_by_pixel<decltype(is_wide)::value, T>;
      return sl_cuda_product(cuda, "conv2d_dw", scratch, n, K, filters{{pieces}, dy, O, n}, right, pieces,
                             sl_cuda_matrix{dw, K}, fours(dw, K), NULL, add ? SL_CUDA_ADD_AFTER : SL_CUDA_OVERWRITE);
    });
  }
};

/* to[i] = the pixels under the taps of window from + i. A thread takes V channels under all taps. */
template <int V, class T>
__global__ void columns_kernel(images<T> x, int down, int across, int64_t from, int64_t count, T *to) {
  const int groups = x.C / V;
  for (int64_t e = sl_cuda_index(); e < count * groups; e += sl_cuda_stride()) {
    const int64_t i = e / groups;
    const int channel = (int)(e - i * groups) * V;
    const window<T> w = window_of(x, from + i, from + count);
    T *at = to + i * down * across * x.C + channel;
    for (int row = 0; row < down; row++)
      for (int column = 0; column < across; column++, at += x.C) {
        const T *pixel;
        const bool there = pixel_of(x, w, row, column, channel, &pixel);
        if constexpr (V == 4)
          sl_put4(at, there ? sl_get4(pixel) : make_float4(0, 0, 0, 0));
        else
          sl_put(at, there ? sl_get(pixel) : 0);
      }
  }
}
/* to[tap][o] = filter o at the tap; filters [O, positions, C]. */
template <class T>
__global__ void turn_kernel(const T *w, taps t, int64_t n_taps, int64_t O, int positions, int64_t C, T *to) {
  for (int64_t e = sl_cuda_index(); e < n_taps * O * C; e += sl_cuda_stride()) {
    const int64_t line = e / C, tap = line / O, o = line - tap * O;
    const int row = (int)tap / t.across, column = (int)tap - row * t.across;
    to[e] = w[(o * positions + t.first + row * t.row_step + column * t.column_step) * C + (e - line * C)];
  }
}
/* The phase's pixels from + i = pixels[i], or 0 if that is NULL. */
__global__ void phase_kernel(phase_pixels to, int64_t from, int64_t count, const float *pixels) {
  for (int64_t e = sl_cuda_index(); e < count * to.C; e += sl_cuda_stride()) {
    const int64_t i = e / to.C;
    to.line(from + i)[e - i * to.C] = pixels ? pixels[e] : 0;
  }
}

/* The same products by cuBLAS, of some windows at a time (conv2d_sizes.h). */
template <class T>
struct fast {
  sl_cuda *cuda;
  size_t scratch;

  sl_conv2d_scratch sizes(const sl_conv2d_attr *a, const images<T> &x, int64_t taps, int64_t windows,
                          int64_t result) const {
    return sl_conv2d_scratch_of(a->kernel, a->stride, a->pad, taps, x.C, windows, sizeof(T), result);
  }
  /* Calls product(first window, number of windows, their matrix) until all windows are done. */
  template <class F>
  sl_status by_stretch(const char *operation, const sl_conv2d_scratch &s, const images<T> &x, int down, int across,
                       int64_t windows, const F &product) const {
    const int64_t k = (int64_t)down * across * x.C;
    SL_TRY(sl_cuda_scratch(cuda, scratch + s.all, operation));
    T *matrix = (T *)((char *)cuda->scratch + scratch);
    const bool wide = fours(x.p, x.C) && fours(matrix, k);
    for (int64_t from = 0; from < windows; from += s.windows) {
      const int64_t n = least(s.windows, windows - from);
      const unsigned grid = sl_cuda_grid(n * x.C / (wide ? 4 : 1));
      if (s.in_place)
        matrix = (T *)x.p + from * k;
      else if (k > 0 && wide)
        columns_kernel<4><<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(x, down, across, from, n, matrix);
      else if (k > 0)
        columns_kernel<1><<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(x, down, across, from, n, matrix);
      SL_TRY(sl_cuda_launched(operation));
      SL_TRY(product(from, n, (const T *)matrix));
    }
    return SL_OK;
  }
  sl_status y(const sl_conv2d_attr *a, const images<T> &x, int64_t windows, const T *w, int64_t O, const float *bias,
              float *to) const {
    const int64_t taps = (int64_t)a->kernel * a->kernel, K = taps * x.C;
    SL_TRY(by_stretch("conv2d", sizes(a, x, taps, windows, 0), x, a->kernel, a->kernel, windows,
                      [&](int64_t from, int64_t n, const T *matrix) {
                        return sl_cuda_blas(cuda, "conv2d", true, false, O, n, K, w, K, matrix, K, false, to + from * O,
                                            O);
                      }));
    return bias ? sl_cuda_bias(cuda, "conv2d", false, windows, O, O, bias, to) : SL_OK;
  }
  sl_status dx(const sl_conv2d_attr *a, const phase<T> &p, const T *w) const {
    const int64_t taps = (int64_t)p.down * p.t.across, O = p.dy.C, C = p.dx.C, K = taps * O;
    const sl_conv2d_scratch s = sizes(a, p.dy, taps, p.count, C);
    SL_TRY(sl_cuda_scratch(cuda, scratch + s.all, "conv2d_dx"));
    char *const memory = (char *)cuda->scratch + scratch;
    float *const pixels = (float *)(memory + s.part);
    const T *filters = w; /* [K, C] */
    if (a->kernel > 1 && K > 0 && C > 0) {
      turn_kernel<<<sl_cuda_grid(K * C), SL_CUDA_THREADS, 0, cuda->stream>>>(w, p.t, taps, O, a->kernel * a->kernel, C,
                                                                             (T *)(memory + s.filters));
      SL_TRY(sl_cuda_launched("conv2d_dx"));
      filters = (const T *)(memory + s.filters);
    }
    return by_stretch("conv2d_dx", s, p.dy, p.down, p.t.across, p.count, [&](int64_t from, int64_t n, const T *matrix) {
      float *to = a->stride > 1 ? pixels : p.dx.dx + from * C;
      if (K > 0) SL_TRY(sl_cuda_blas(cuda, "conv2d_dx", false, false, C, n, K, filters, C, matrix, K, false, to, C));
      if (a->stride == 1 || n * C == 0) return SL_OK;
      phase_kernel<<<sl_cuda_grid(n * C), SL_CUDA_THREADS, 0, cuda->stream>>>(p.dx, from, n, K > 0 ? pixels : NULL);
      return sl_cuda_launched("conv2d_dx");
    });
  }
  sl_status dw(const sl_conv2d_attr *a, const images<T> &x, const pixel_blocks<T> &pieces, const T *dy, int64_t O,
               int64_t n, bool add, float *dw) const {
    const int64_t taps = (int64_t)a->kernel * a->kernel, K = taps * x.C;
    const int64_t windows = pieces.images.n * pieces.rows.n * pieces.columns.n;
    if (windows == 0 && !add)
      return sl_cuda_check(cudaMemsetAsync(dw, 0, (size_t)(n * K) * sizeof *dw, cuda->stream), "conv2d_dw");
    return by_stretch("conv2d_dw", sizes(a, x, taps, windows, 0), x, a->kernel, a->kernel, windows,
                      [&](int64_t from, int64_t m, const T *matrix) {
                        return sl_cuda_blas(cuda, "conv2d_dw", false, true, K, n, m, matrix, K, dy + from * O, O,
                                            add || from > 0, dw, K);
                      });
  }
};

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* The scratch memory holds, in this order: the sums of a result in bf16, filters and bias copied together, what the
 * products need. */
size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* x [B, H, W, C], filters [O, kernel, kernel, C], maybe bias [O] -> y [B, OH, OW, O] */
template <template <class> class PRODUCTS, class T>
sl_status conv2d(const sl_call *c, sl_cuda *cuda) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
  size_t scratch = sl_cuda_sums_bytes<T>(c);
  SL_TRY(sl_cuda_scratch(cuda, scratch, "conv2d"));
  const T *w;
  const float *bias = NULL;
  SL_TRY(whole(&c->in[1], cuda, "conv2d", &scratch, &w));
  if (c->n_in > 2) SL_TRY(whole(&c->in[2], cuda, "conv2d", &scratch, &bias));
  const images<T> from = {(const T *)c->in[0].data, (int)x->dim[1], (int)x->dim[2], (int)x->dim[3], (int)y->dim[1],
                          (int)y->dim[2],           a->stride,      a->pad,         a->pad};
  const PRODUCTS<T> products = {cuda, round_up(scratch)};
  SL_TRY(products.y(a, from, y->dim[0] * y->dim[1] * y->dim[2], w, y->dim[3], bias, sl_cuda_sums_at<T>(c, cuda)));
  return sl_cuda_round_sums<T>(c, cuda, "conv2d");
}

/* dy [B, OH, OW, O], filters -> dx [B, H, W, C] */
template <template <class> class PRODUCTS, class T>
sl_status conv2d_dx(const sl_call *c, sl_cuda *cuda) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *dx = &c->out[0].shape;
  size_t scratch = sl_cuda_sums_bytes<T>(c);
  SL_TRY(sl_cuda_scratch(cuda, scratch, "conv2d_dx"));
  const T *w;
  SL_TRY(whole(&c->in[1], cuda, "conv2d_dx", &scratch, &w));
  const PRODUCTS<T> products = {cuda, round_up(scratch)};
  for (int row = 0; row < least(a->stride, dx->dim[1]); row++)
    for (int column = 0; column < least(a->stride, dx->dim[2]); column++)
      SL_TRY(products.dx(a, phase_of<T>(c, row, column, sl_cuda_sums_at<T>(c, cuda)), w));
  return sl_cuda_round_sums<T>(c, cuda, "conv2d_dx");
}

/* dy [B, OH, OW, O], x [B, H, W, C] -> dfilters [n, K] and maybe dbias [n], of the filters from out[0].row0 */
template <template <class> class PRODUCTS, class T>
sl_status conv2d_dw(const sl_call *c, sl_cuda *cuda) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  const sl_shape *dy = &c->in[0].shape, *x = &c->in[1].shape;
  const int64_t n = c->out[0].shape.dim[0], O = dy->dim[3];
  const T *from = (const T *)c->in[0].data + c->out[0].row0;
  int64_t B = dy->dim[0], H = x->dim[1], W = x->dim[2], OH = dy->dim[1], OW = dy->dim[2];
  if (a->kernel == 1 && a->stride == 1 && a->pad == 0) W = OW = B * OH * OW, B = H = OH = 1; /* product of matrices */
  if (W > INT_MAX) return sl_fail(SL_ETASK, "conv2d_dw on a GPU: more than %d pixels; use more shards", INT_MAX);
  const sl_conv2d_blocks g = sl_conv2d_blocks_of(B, OH, OW, (int64_t)a->kernel * a->kernel);
  const pixel_blocks<float> blocks = {
      {B, (int)g.images}, {OH, (int)g.rows}, {OW, (int)g.columns}, (int)sl_conv2d_blocks_count(&g)};
  const pixel_blocks<T> pieces = {blocks.images, blocks.rows, blocks.columns, blocks.count};
  const images<T> image = {
      (const T *)c->in[1].data, (int)H, (int)W, (int)x->dim[3], (int)OH, (int)OW, a->stride, a->pad, a->pad};
  const PRODUCTS<T> products = {cuda, 0};
  SL_TRY(products.dw(a, image, pieces, from, O, n, (c->accumulate & 1) != 0, (float *)c->out[0].data));
  if (c->n_out < 2) return SL_OK; /* the sums come after the products on the stream, so they may use the same memory */
  return sl_cuda_column_sums(cuda, "conv2d_dw", 0, blocks, n, O, from,
                             c->accumulate & 2 ? SL_CUDA_ADD_AFTER : SL_CUDA_OVERWRITE, (float *)c->out[1].data);
}

bool in_bf16(const sl_call *c) { return c->in[0].dtype == SL_BF16; }
}  // namespace

extern "C" sl_status sl__conv2d_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d<exact, sl_bf16> : conv2d<exact, float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d_dx<exact, sl_bf16> : conv2d_dx<exact, float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_dw_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d_dw<exact, sl_bf16> : conv2d_dw<exact, float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d<fast, sl_bf16> : conv2d<fast, float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_dx_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d_dx<fast, sl_bf16> : conv2d_dx<fast, float>)(c, cuda);
}
extern "C" sl_status sl__conv2d_dw_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? conv2d_dw<fast, sl_bf16> : conv2d_dw<fast, float>)(c, cuda);
}
