/* linear, linear_dx and linear_dw by OpenBLAS. */
#include <cblas.h>
#include <string.h>

#include "codelets/attributes.h"
#include "codelets/products/blas.h"
#include "runtime/processors/team.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- what linear layers and convolutions share ------------------------------------------------------------------- */

void sl__blas_product(int64_t m, int64_t n, int64_t k, sl_matrix a, sl_matrix b, int add, float *y, int64_t y_row) {
  if (m == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
              (blasint)m, (blasint)n, (blasint)k, 1, a.data, (blasint)most(1, a.row), b.data, (blasint)most(1, b.row),
              add ? 1 : 0, y, (blasint)most(1, y_row));
}

void sl__blas_columns(int64_t rows, int64_t n, const float *from, int64_t from_row, int add, float *to) {
  if (!add) memset(to, 0, (size_t)n * sizeof *to);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < n; k++) to[k] += from[i * from_row + k];
}

void sl__blas_bias(const sl_array *bias, int64_t first, int64_t n, int64_t rows, float *y, int64_t y_row) {
  for (int part = 0; part < bias->parts; part++) {
    const sl_array *p = &bias->part[part];
    const int64_t from = most(first, p->row0), to = least(first + n, p->row0 + p->shape.dim[0]);
    const float *b = p->data;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t k = from; k < to; k++) y[i * y_row + k - first] += b[k - p->row0];
  }
}

/* ---- the layer --------------------------------------------------------------------------------------------------- */

static int64_t last(const sl_array *a) { return a->shape.dim[a->shape.ndim - 1]; }
static int64_t rows_of(const sl_array *a) { return last(a) ? sl_shape_count(&a->shape) / last(a) : 0; }
static int64_t tiles_of(const sl_call *c, int64_t n) { return (n + c->tiles.columns - 1) / c->tiles.columns; }

/* A tile of features. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_linear_attr *attr = c->attr;
  const int64_t R = rows_of(&c->out[0]), K = last(&c->in[0]), N = last(&c->out[0]);
  const int64_t first = tile * c->tiles.columns, n = least(c->tiles.columns, N - first);
  float *y = (float *)c->out[0].data + first;
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    const int64_t from = most(first, w->row0), to = least(first + n, w->row0 + w->shape.dim[0]);
    if (from < to)
      sl__blas_product(R, to - from, K, (sl_matrix){c->in[0].data, K, 0},
                       (sl_matrix){(const float *)w->data + (from - w->row0) * K, K, 1}, 0, y + from - first, N);
  }
  if (c->n_in > 2) sl__blas_bias(&c->in[2], first, n, R, y, N);
  if (attr->activation == SL_ACTIVATION_RELU)
    for (int64_t i = 0; i < R; i++)
      for (int64_t k = 0; k < n; k++) y[i * N + k] = y[i * N + k] < 0 ? 0 : y[i * N + k];
}

sl_status sl__linear_blas(const sl_call *c) {
  sl_team_for(c->team, tiles_of(c, last(&c->out[0])), forward, (void *)c);
  return SL_OK;
}

/* A tile of inputs. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t R = rows_of(&c->out[0]), K = last(&c->out[0]), N = last(&c->in[0]);
  const int64_t first = tile * c->tiles.columns, n = least(c->tiles.columns, K - first);
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    sl__blas_product(R, n, w->shape.dim[0], (sl_matrix){(const float *)c->in[0].data + w->row0, N, 0},
                     (sl_matrix){(const float *)w->data + first, K, 0}, part > 0, (float *)c->out[0].data + first, K);
  }
}

sl_status sl__linear_dx_blas(const sl_call *c) {
  sl_team_for(c->team, tiles_of(c, last(&c->out[0])), backward, (void *)c);
  return SL_OK;
}

/* A tile of features. The output may be a row block. */
static void weight_gradient(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t R = rows_of(&c->in[0]), K = last(&c->in[1]), features = last(&c->in[0]);
  const int64_t first = tile * c->tiles.columns, n = least(c->tiles.columns, c->out[0].shape.dim[0] - first);
  const float *dy = (const float *)c->in[0].data + c->out[0].row0 + first;
  sl__blas_product(n, K, R, (sl_matrix){dy, features, 1}, (sl_matrix){c->in[1].data, K, 0}, c->accumulate & 1,
                   (float *)c->out[0].data + first * K, K);
  if (c->n_out > 1) sl__blas_columns(R, n, dy, features, (c->accumulate & 2) != 0, (float *)c->out[1].data + first);
}

sl_status sl__linear_dw_blas(const sl_call *c) {
  sl_team_for(c->team, tiles_of(c, c->out[0].shape.dim[0]), weight_gradient, (void *)c);
  return SL_OK;
}
