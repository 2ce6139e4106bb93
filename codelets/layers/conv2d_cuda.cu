/* Convolution on a GPU; computes the same as conv2d.c. Images are spread into columns (im2col), several at a time
 * depending on shapes alone, and cuBLAS multiplies; 1x1 filters at stride 1 need no columns. The gradient by x gathers:
 * each pixel adds up its copies in the columns, in the order of the windows, so that no two threads write one element.
 *
 * K = kernel^2 C, one filter as it lies in memory; P = pixels of the result of one image. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct convolution {
  int kernel, stride, pad;
  bool pointwise;
  int64_t B, H, W, C, OH, OW, O; /* of the whole layer: O counts all filters, even if a task has a block of them */
  int64_t P, K, images;          /* images: number spread at once */
};
convolution shape_of(const sl_call *c, const sl_shape *x, const sl_shape *y) {
  const sl_conv2d_attr *a = (const sl_conv2d_attr *)c->attr;
  convolution s = {};
  s.kernel = a->kernel, s.stride = a->stride, s.pad = a->pad, s.pointwise = sl_conv2d_pointwise(a) != 0;
  s.B = x->dim[0], s.H = x->dim[1], s.W = x->dim[2], s.C = x->dim[3];
  s.OH = y->dim[1], s.OW = y->dim[2], s.O = y->dim[3];
  s.P = s.OH * s.OW, s.K = a->kernel * a->kernel * s.C;
  s.images = sl_conv2d_images(a, s.B, s.P, s.C);
  return s;
}

/* ---- x -> columns ---------------------------------------------------------------------------------------------- */

/* I is uint32_t if it can count all elements (its divisions are cheaper), else int64_t. V is float4 if the number of
 * channels allows (C then counts float4), else float. */
template <class I, class V>
struct geometry {
  I n, H, W, C, OH, OW, kernel;
  int stride, pad;
};
template <class I, class V>
geometry<I, V> geometry_of(const convolution &s, int64_t n) {
  return {(I)n,        (I)s.H,   (I)s.W, (I)(s.C * (int64_t)sizeof(float) / (int64_t)sizeof(V)), (I)s.OH, (I)s.OW,
          (I)s.kernel, s.stride, s.pad};
}
__device__ inline void add(float &sum, float x) { sum += x; }
__device__ inline void add(float4 &sum, float4 x) { sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w; }

/* x: [images, H, W, C]; columns: [images P, kernel, kernel, C] */
template <class I, class V>
__global__ void spread_kernel(geometry<I, V> s, const V *x, V *columns) {
  for (I e = (I)sl_cuda_index(); e < s.n; e += (I)sl_cuda_stride()) {
    I tap = e / s.C, c = e - tap * s.C, row_tap = tap / s.kernel, j = tap - row_tap * s.kernel;
    I pixel = row_tap / s.kernel, i = row_tap - pixel * s.kernel;
    I line = pixel / s.OW, ow = pixel - line * s.OW, b = line / s.OH, oh = line - b * s.OH;
    int h = (int)oh * s.stride + (int)i - s.pad, w = (int)ow * s.stride + (int)j - s.pad;
    V v = {};
    if (h >= 0 && h < (int)s.H && w >= 0 && w < (int)s.W) v = x[((b * s.H + (I)h) * s.W + (I)w) * s.C + c];
    columns[e] = v;
  }
}

/* The reverse: dx of every pixel is the sum of its copies in the columns. */
template <class I, class V>
__global__ void gather_kernel(geometry<I, V> s, const V *columns, V *dx) {
  for (I e = (I)sl_cuda_index(); e < s.n; e += (I)sl_cuda_stride()) {
    I pixel = e / s.C, c = e - pixel * s.C, line = pixel / s.W, b = line / s.H;
    int h = (int)(line - b * s.H), w = (int)(pixel - line * s.W);
    sl_cuda_range rows = sl_cuda_windows(h, (int)s.kernel, s.stride, s.pad, (int)s.OH);
    sl_cuda_range across = sl_cuda_windows(w, (int)s.kernel, s.stride, s.pad, (int)s.OW);
    V sum = {};
    for (int oh = rows.from; oh < rows.to; oh++)
      for (int ow = across.from; ow < across.to; ow++) {
        I i = (I)(h + s.pad - oh * s.stride), j = (I)(w + s.pad - ow * s.stride);
        add(sum, columns[((((b * s.OH + (I)oh) * s.OW + (I)ow) * s.kernel + i) * s.kernel + j) * s.C + c]);
      }
    dx[e] = sum;
  }
}

template <class I, class V>
void launch(bool gather, const convolution &s, sl_cuda *cuda, int64_t images, const float *from, float *to) {
  int64_t n = images * (gather ? s.H * s.W * s.C : s.P * s.K) * (int64_t)sizeof(float) / (int64_t)sizeof(V);
  geometry<I, V> g = geometry_of<I, V>(s, n);
  if (gather)
    gather_kernel<I, V><<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(g, (const V *)from, (V *)to);
  else
    spread_kernel<I, V><<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(g, (const V *)from, (V *)to);
}

sl_status move(const char *operation, bool gather, const convolution &s, sl_cuda *cuda, int64_t images,
               const float *from, float *to) {
  bool small = images * s.P * s.K < INT32_MAX && images * s.H * s.W * s.C < INT32_MAX;
  bool wide = s.C % 4 == 0 && sl_cuda_aligned(from) && sl_cuda_aligned(to);
  if (images * s.P * s.K == 0 || images * s.H * s.W * s.C == 0) return SL_OK;
  (small  ? wide ? launch<uint32_t, float4> : launch<uint32_t, float>
    : wide ? launch<int64_t, float4>
          : launch<int64_t, float>)(gather, s, cuda, images, from, to);
  return sl_cuda_launched(operation);
}

/* The columns of images [from, from + images): spread into the scratch memory, or the images themselves. */
sl_status columns_of(const char *operation, const convolution &s, sl_cuda *cuda, const float *x, int64_t from,
                     int64_t images, const float **columns) {
  x += from * s.H * s.W * s.C;
  *columns = s.pointwise ? x : (const float *)cuda->scratch;
  return s.pointwise ? SL_OK : move(operation, false, s, cuda, images, x, (float *)cuda->scratch);
}

sl_status check_scratch(const char *operation, const convolution &s, sl_cuda *cuda) {
  return sl_cuda_scratch(cuda, s.pointwise ? 0 : (size_t)(s.images * s.P * s.K) * sizeof(float), operation);
}

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
}  // namespace

/* x [B, H, W, C], filters [O, kernel, kernel, C], maybe bias [O] -> y [B, OH, OW, O] */
extern "C" sl_status sl__conv2d_cuda(const sl_call *c, sl_cuda *cuda) {
  const convolution s = shape_of(c, &c->in[0].shape, &c->out[0].shape);
  float *y = (float *)c->out[0].data;
  SL_TRY(check_scratch("conv2d", s, cuda));
  for (int64_t b = 0; b < s.B; b += s.images) {
    int64_t images = least(s.images, s.B - b);
    const float *columns;
    SL_TRY(columns_of("conv2d", s, cuda, (const float *)c->in[0].data, b, images, &columns));
    for (int part = 0; part < c->in[1].parts; part++) {
      const sl_array *w = &c->in[1].part[part];
      SL_TRY(sl_cuda_gemm(cuda, "conv2d", false, true, images * s.P, w->shape.dim[0], s.K, columns, s.K,
                          (const float *)w->data, s.K, 0, y + b * s.P * s.O + w->row0, s.O));
    }
  }
  for (int part = 0; c->n_in > 2 && part < c->in[2].parts; part++) {
    const sl_array *bias = &c->in[2].part[part];
    SL_TRY(sl_cuda_bias(cuda, "conv2d", false, s.B * s.P, bias->shape.dim[0], s.O, (const float *)bias->data,
                        y + bias->row0));
  }
  return SL_OK;
}

/* dy [B, OH, OW, O], filters -> dx [B, H, W, C] */
extern "C" sl_status sl__conv2d_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  const convolution s = shape_of(c, &c->out[0].shape, &c->in[0].shape);
  SL_TRY(check_scratch("conv2d_dx", s, cuda));
  for (int64_t b = 0; b < s.B; b += s.images) {
    int64_t images = least(s.images, s.B - b);
    const float *dy = (const float *)c->in[0].data + b * s.P * s.O;
    float *dx = (float *)c->out[0].data + b * s.H * s.W * s.C, *columns = s.pointwise ? dx : (float *)cuda->scratch;
    for (int part = 0; part < c->in[1].parts; part++) {
      const sl_array *w = &c->in[1].part[part];
      SL_TRY(sl_cuda_gemm(cuda, "conv2d_dx", false, false, images * s.P, s.K, w->shape.dim[0], dy + w->row0, s.O,
                          (const float *)w->data, s.K, part > 0, columns, s.K));
    }
    if (!s.pointwise) SL_TRY(move("conv2d_dx", true, s, cuda, images, columns, dx));
  }
  return SL_OK;
}

/* dy [B, OH, OW, O], x [B, H, W, C] -> dfilters [n, K] and maybe dbias [n], of the filters from out[0].row0 */
extern "C" sl_status sl__conv2d_dw_cuda(const sl_call *c, sl_cuda *cuda) {
  const convolution s = shape_of(c, &c->in[1].shape, &c->in[0].shape);
  const int64_t n = c->out[0].shape.dim[0];
  const float *dy = (const float *)c->in[0].data + c->out[0].row0;
  SL_TRY(check_scratch("conv2d_dw", s, cuda));
  for (int64_t b = 0; b < s.B; b += s.images) {
    int64_t images = least(s.images, s.B - b);
    const float *columns;
    SL_TRY(columns_of("conv2d_dw", s, cuda, (const float *)c->in[1].data, b, images, &columns));
    SL_TRY(sl_cuda_gemm(cuda, "conv2d_dw", true, false, n, s.K, images * s.P, dy + b * s.P * s.O, s.O, columns, s.K,
                        b > 0 || (c->accumulate & 1), (float *)c->out[0].data, s.K));
  }
  if (c->n_out < 2) return SL_OK; /* the sums come after the columns on the stream, so they may use the same memory */
  return sl_cuda_sum_rows(cuda, "conv2d_dw", s.B * s.P, n, s.O, dy, (c->accumulate & 2) != 0, (float *)c->out[1].data);
}
