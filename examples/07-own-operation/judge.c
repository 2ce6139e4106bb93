/* Judges softsign from outside: it never runs in the process that contains operation.c.
 *
 *   judge questions >FILE          writes random weights and data
 *   judge verdict FILE <ANSWERS    computes the whole network in double precision and compares element by element
 *
 * The verdict has a line "wrong: ..." for each check that fails, then "points: N of M", then "ok" or "not ok". */
#define _GNU_SOURCE /* CPU_COUNT */
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "answers.h"

static questions q;
static answers a;
static double w1[H * P], b1[H], w2[K * H], b2[K];       /* the parameters, in training */
static double x[B * H], y[B * H], dy[B * H], dz[B * K]; /* of one step */
static double true_x[B * H], true_y[B * H], true_dx[B * H], true_dw1[H * P];
static int points, checks, values_right, gradient_right;

/* Counts one check's points; if it failed, prints a line that says what is wrong. */
__attribute__((format(printf, 2, 3))) static void judge(int fine, const char *what, ...) {
  va_list values;
  checks++, points += fine;
  if (fine) return;
  va_start(values, what);
  printf("wrong: "), vprintf(what, values), putchar('\n');
  va_end(values);
}

/* A random multiple of 1 / 64 in [-width, width). */
static float fraction(int width) {
  uint32_t word;
  if (getrandom(&word, sizeof word, 0) != sizeof word) abort();
  return (float)(word % (128u * (unsigned)width)) / 64 - (float)width;
}

static int ask(void) {
  if (getrandom(&q.nonce, sizeof q.nonce, 0) != sizeof q.nonce) return 2;
  for (int i = 0; i < B * P; i++) q.data[i] = fraction(2);
  for (int i = 0; i < H * P; i++) q.w1[i] = fraction(1);
  for (int i = 0; i < H; i++) q.b1[i] = fraction(1);
  for (int i = 0; i < K * H; i++) q.w2[i] = fraction(1) / 4;
  for (int r = 0; r < B; r++) { /* the label: which of the first three numbers is the largest */
    const float *d = q.data + r * P;
    q.labels[r] = d[0] > d[1] ? (d[0] > d[2] ? 0 : 2) : (d[1] > d[2] ? 1 : 2);
  }
  return fwrite(&q, sizeof q, 1, stdout) == 1 && fflush(stdout) == 0 ? 0 : 2;
}

/* One step of the network in double precision: loss, gradients and, if the rate is not 0, the update. */
static double step(double rate) {
  double loss = 0;
  for (int r = 0; r < B; r++) {
    double z[K], sum = 0;
    for (int h = 0; h < H; h++) {
      double s = b1[h];
      for (int p = 0; p < P; p++) s += w1[h * P + p] * (double)q.data[r * P + p];
      x[r * H + h] = s, y[r * H + h] = s / (1 + fabs(s));
    }
    for (int k = 0; k < K; k++) {
      z[k] = b2[k];
      for (int h = 0; h < H; h++) z[k] += w2[k * H + h] * y[r * H + h];
      sum += exp(z[k]);
    }
    for (int k = 0; k < K; k++) dz[r * K + k] = (exp(z[k]) / sum - (k == q.labels[r])) / B;
    loss += (log(sum) - z[q.labels[r]]) / B;
    for (int h = 0; h < H; h++) {
      dy[r * H + h] = 0;
      for (int k = 0; k < K; k++) dy[r * H + h] += dz[r * K + k] * w2[k * H + h];
    }
  }
  if (rate == 0) return loss;
  for (int r = 0; r < B; r++) {
    for (int k = 0; k < K; k++) {
      b2[k] -= rate * dz[r * K + k];
      for (int h = 0; h < H; h++) w2[k * H + h] -= rate * dz[r * K + k] * y[r * H + h];
    }
    for (int h = 0; h < H; h++) {
      const double dx = dy[r * H + h] / pow(1 + fabs(x[r * H + h]), 2);
      b1[h] -= rate * dx;
      for (int p = 0; p < P; p++) w1[h * P + p] -= rate * dx * (double)q.data[r * P + p];
    }
  }
  return loss;
}

/* Largest error of n elements, relative to the tolerance: `part` of the element plus `least` of the largest element.
 * *at: the first element with an error of 1 or more, or NaN; -1: none. */
static double error(const float *is, const double *truth, int n, double part, double least, int *at) {
  double most = 0, worst = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(truth[i]));
  *at = -1;
  for (int i = 0; i < n; i++) {
    const double e = fabs((double)is[i] - truth[i]) / (part * fabs(truth[i]) + least * most);
    if (!(e < 1) && *at < 0) *at = i;
    if (!(e <= worst)) worst = e;
  }
  return worst;
}

static void check_values(void) {
  int at;
  const double ulp = 0x1p-23, worst = 4 * error(a.y[ONE], true_y, B * H, 4 * ulp, 1e-12, &at);
  printf("values: largest error %.2f units in the last place\n", worst);
  values_right = a.has[ONE] && at < 0;
  const int i = at < 0 ? 0 : at;
  if (a.has[ONE])
    judge(values_right, "the values are not softsign's: element %d: x = %.4f; y is %.4e but should be %.4e", i, x[i],
          (double)a.y[ONE][i], true_y[i]);
  else
    judge(0, "there are no values: the network did not run");
}

static void check_gradient(void) {
  int at, at_w;
  if (!a.has_gradient) {
    judge(0, "there is no gradient: the gradient rule adds no node");
    return;
  }
  const double worst = error(a.dx[ONE], true_dx, B * H, 1e-4, 1e-6, &at);
  error(a.dw1, true_dw1, H * P, 1e-4, 1e-5, &at_w);
  printf("gradient: largest error %.2f of the tolerance (1e-4)\n", worst);
  gradient_right = at < 0 && at_w < 0;
  const int i = at < 0 ? 0 : at, w = at_w < 0 ? 0 : at_w;
  if (at < 0)
    judge(gradient_right, "the gradient of the weights below is wrong: element %d is %.4e but should be %.4e", w,
          (double)a.dw1[w], true_dw1[w]);
  else
    judge(0, "the gradient is not softsign's: element %d: x = %.4f, dy = %.4e; dx is %.4e but should be %.4e", i, x[i],
          dy[i], (double)a.dx[ONE][i], true_dx[i]);
}

static void check_division(void) {
  cpu_set_t cores;
  const int one_core = sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) == 1;
  int same = 1;
  for (int c = FOUR; c < CONFIGURATIONS; c++) {
    if (c == TEAM && one_core && !a.has[c]) continue;
    same &= a.has[c] && memcmp(a.y[ONE], a.y[c], sizeof a.y[c]) == 0;
    same &= !a.has_gradient || memcmp(a.dx[ONE], a.dx[c], sizeof a.dx[c]) == 0;
  }
  printf("one shard, four, and a team of two: %s\n", same ? "the same bytes" : "other bytes");
  if (same)
    judge(values_right, "no point for equal bytes, because they are those of wrong values");
  else
    judge(0, "the result depends on how the batch is cut, or on the number of threads");
}

/* Checks the kernels alone. A kernel that computes more than its tile overwrites elements that other tiles still read.
 */
static void check_tiles(void) {
  static double truth[B * H];
  int at, at_dx = -1;
  for (int i = 0; i < B * H; i++) truth[i] = true_x[i] / (1 + fabs(true_x[i]));
  error(a.y_alone, truth, B * H, 4 * 0x1p-23, 1e-12, &at);
  for (int i = 0; i < B * H; i++) truth[i] = true_x[i] / pow(1 + fabs(true_x[i]), 2);
  if (a.has_gradient) error(a.dx_alone, truth, B * H, 1e-4, 1e-6, &at_dx);
  if (values_right) printf("tiles: %s\n", at < 0 && at_dx < 0 ? "each computes its part" : "they interfere");
  if (values_right && (gradient_right || !a.has_gradient))
    judge(at < 0 && at_dx < 0, "a kernel computes elements outside its tile");
  else
    judge(0, "no point for the tiles, because the %s wrong", values_right ? "gradient is" : "values are");
}

static void check_training(void) {
  const double first = step(0);
  for (int s = 0; s < STEPS; s++) step(RATE);
  const double last = step(0);
  printf("training: loss %.4f before, %.4f after %d steps (%.4f and %.4f in double precision)\n", a.first, a.last,
         STEPS, first, last);
  judge(fabs(a.first - first) < 1e-4 && fabs(a.last - last) < 0.02 * last,
        "the network does not learn as it should: its loss is %.4f, then %.4f, but should be %.4f, then %.4f", a.first,
        a.last, first, last);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "questions") == 0) return ask();
  FILE *file = argc == 3 && strcmp(argv[1], "verdict") == 0 ? fopen(argv[2], "rb") : NULL;
  if (!file || fread(&q, sizeof q, 1, file) != 1)
    return fputs("Usage: judge questions >FILE; judge verdict FILE <ANSWERS\n", stderr), 2;
  fclose(file);
  if (fread(&a, sizeof a, 1, stdin) != 1 || getchar() != EOF || a.nonce != q.nonce) {
    puts("wrong: the program ended without answers\npoints: 0 of 6\nnot ok");
    return 1;
  }
  for (int i = 0; i < H * P; i++) w1[i] = (double)q.w1[i];
  for (int i = 0; i < H; i++) b1[i] = (double)q.b1[i];
  for (int i = 0; i < K * H; i++) w2[i] = (double)q.w2[i];
  step(0);
  for (int i = 0; i < B * H; i++) true_x[i] = x[i], true_y[i] = y[i], true_dx[i] = dy[i] / pow(1 + fabs(x[i]), 2);
  for (int r = 0; r < B; r++)
    for (int h = 0; h < H; h++)
      for (int p = 0; p < P; p++) true_dw1[h * P + p] += true_dx[r * H + h] * (double)q.data[r * P + p];
  check_gradient();
  check_values();
  check_division();
  check_tiles();
  printf("cost: %.1f FLOPs an element\n", a.flops);
  judge(a.flops >= 1 && a.flops <= 20, "the cost is %.1f FLOPs an element but should be 1 to 20", a.flops);
  check_training();
  const int ok = points == checks;
  printf("points: %d of %d\n%s\n", points, checks, ok ? "ok" : "not ok");
  return !ok;
}
