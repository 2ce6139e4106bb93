/* Lesson 15: the products of the two layers. Each sum has one order, whoever computes which part of it: that is why all
 * divisions of the network give the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ways.h"

double *numbers(size_t n) {
  double *a = calloc(n ? n : 1, sizeof *a);
  if (!a) fprintf(stderr, "no memory for %zu numbers\n", n), exit(2);
  return a;
}

void add_tree(double *a, int parts, size_t n) {
  for (int d = 1; d < parts; d *= 2)
    for (int k = 0; k + d < parts; k += 2 * d)
      for (size_t i = 0; i < n; i++) a[k * n + i] += a[(k + d) * n + i];
}

void hidden(const job *j, int rows, int units, const double *x, const double *w1, double *h) {
  const int P = j->inputs;
  for (int r = 0; r < rows; r++)
    for (int u = 0; u < units; u++) {
      double sum = 0;
      for (int i = 0; i < P; i++) sum += x[r * P + i] * w1[u * P + i];
      h[r * units + u] = sum > 0 ? sum : 0;
    }
}

/* out [rows][n] = a [rows][units] b, where b has element (u, i) at b[u * over_u + i * over_i]: a sum over units. */
static void over_units(const job *j, int rows, int units, int n, const double *a, const double *b, int over_u,
                       int over_i, double *out) {
  const int of_fold = j->hidden / j->folds, folds = units / of_fold;
  double *addend = numbers((size_t)folds * rows * n), *to = addend;
  for (int f = 0; f < folds; f++)
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < n; i++, to++)
        for (int u = f * of_fold; u < (f + 1) * of_fold; u++) *to += a[r * units + u] * b[u * over_u + i * over_i];
  add_tree(addend, folds, (size_t)rows * n);
  memcpy(out, addend, (size_t)rows * n * sizeof *out);
  free(addend);
}

/* out [m][n] = a' b, with a [rows][m] and b [rows][n]: a sum over rows. */
static void over_rows(const job *j, int rows, int m, int n, const double *a, const double *b, double *out) {
  const int of_leaf = j->samples / j->leaves, leaves = rows / of_leaf;
  double *addend = numbers((size_t)leaves * m * n), *to = addend;
  for (int l = 0; l < leaves; l++)
    for (int k = 0; k < m; k++)
      for (int i = 0; i < n; i++, to++)
        for (int r = l * of_leaf; r < (l + 1) * of_leaf; r++) *to += a[r * m + k] * b[r * n + i];
  add_tree(addend, leaves, (size_t)m * n);
  memcpy(out, addend, (size_t)m * n * sizeof *out);
  free(addend);
}

void output(const job *j, int rows, int units, const double *h, const double *w2, double *y) {
  over_units(j, rows, units, j->outputs, h, w2, 1, units, y);
}

void output_gradient(const job *j, int rows, const double *y, const double *t, double *dy) {
  for (int i = 0; i < rows * j->outputs; i++) dy[i] = y[i] - t[i];
}

void hidden_gradient(const job *j, int rows, int units, const double *dy, const double *w2, const double *h,
                     double *dh) {
  const int K = j->outputs;
  for (int r = 0; r < rows; r++)
    for (int u = 0; u < units; u++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += dy[r * K + k] * w2[k * units + u];
      dh[r * units + u] = h[r * units + u] > 0 ? sum : 0;
    }
}

void input_gradient(const job *j, int rows, int units, const double *dh, const double *w1, double *dx) {
  over_units(j, rows, units, j->inputs, dh, w1, j->inputs, 1, dx);
}

void first_gradient(const job *j, int rows, int units, const double *dh, const double *x, double *g1) {
  over_rows(j, rows, units, j->inputs, dh, x, g1);
}

void last_gradient(const job *j, int rows, int units, const double *dy, const double *h, double *g2) {
  over_rows(j, rows, j->outputs, units, dy, h, g2);
}

void update(const job *j, size_t n, const double *g, double *v, double *w) {
  for (size_t i = 0; i < n; i++) {
    v[i] = v[i] / 2 + g[i];
    w[i] -= j->rate * v[i];
  }
}
