/* Lesson 14: what 16 bits round away.
 *
 * First sums of many small numbers, then the perceptron of lesson 1, trained four times from the same weights: in fp32;
 * with weights, activations and their gradients in bf16; with weights in fp32, of which each step rounds a copy (master
 * weights); and with weights in bf16 that are rounded up or down at random. A bf16 is a float whose lower 16 bits are
 * zero. Sums, also the gradients of weights, are in fp32, as in Starling. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { B = 64, P = 784, H = 64, K = 10 }; /* samples of a step, pixels, hidden units, classes */
enum { STEPS = 900, TEST = 10000, TERMS = 16384 };
#define RATE 0.01f /* learning rate */

enum { FP32, BF16, MASTER, RANDOM, WAYS }; /* how values are stored */
static const char *const ways[WAYS] = {"fp32", "bf16", "bf16, master weights in fp32", "bf16, rounded at random"};

typedef struct network {
  float w1[H * P], b1[H], w2[K * H], b2[K];
} network;
enum { N = sizeof(network) / sizeof(float) };

static uint8_t images[STEPS * B * P], labels[STEPS * B], test_images[TEST * P], test_labels[TEST];

/* Reads an IDX file: a header (16 bytes of images, 8 of labels), then bytes. gzread reads plain files too. */
static void read_idx(const char *folder, const char *name, int header, uint8_t *to, unsigned bytes) {
  char path[4096], skipped[16];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  gzFile file = gzopen(path, "rb");
  if (!file || gzread(file, skipped, (unsigned)header) != header || gzread(file, to, bytes) != (int)bytes) {
    fprintf(stderr, "cannot read %s (Debian: apt-get install dataset-fashion-mnist)\n", path);
    exit(2);
  }
  gzclose(file);
}

/* Number i of a fixed pseudorandom sequence, the same on every machine. */
static uint32_t hash(uint32_t i) {
  i = (i ^ i >> 16) * 0x7feb352d, i = (i ^ i >> 15) * 0x846ca68b;
  return i ^ i >> 16;
}

/* --- rounding --------------------------------------------------------------------------------------------------------
 */

/* Adds to the bits of x, then drops the lower 16. */
static float dropped(float x, uint32_t added) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + added) & 0xffff0000;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The nearest bf16; of two that are equally near, the one whose last bit is 0. */
static float nearest(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return dropped(x, 0x7fff + (bits >> 16 & 1));
}

/* One of the two neighbouring bf16, the nearer one more often: right in the mean. */
static float at_random(float x, uint32_t number) { return dropped(x, hash(number) & 0xffff); }

static void round_all(float *x, int n, int way) {
  for (int i = 0; i < n && way != FP32; i++) x[i] = nearest(x[i]);
}

/* --- sums ------------------------------------------------------------------------------------------------------------
 */

/* The sum of n equal terms, one after another. */
static float one_by_one(float term, int n, int way) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += term, round_all(&sum, 1, way);
  return sum;
}

/* The same by halves, halves of halves, and so on: a binary tree. */
static float by_tree(float term, int n, int way) {
  float sum = n == 1 ? term : by_tree(term, n / 2, way) + by_tree(term, n - n / 2, way);
  round_all(&sum, 1, way);
  return sum;
}

/* --- the network of lesson 1 -----------------------------------------------------------------------------------------
 */

static void begin(network *net) {
  for (int i = 0; i < H * P; i++) net->w1[i] = ((float)(hash(i) >> 8) * 0x1p-23f - 1) / sqrtf(P);
  for (int i = 0; i < K * H; i++) net->w2[i] = ((float)(hash(H * P + i) >> 8) * 0x1p-23f - 1) / sqrtf(H);
  memset(net->b1, 0, sizeof net->b1), memset(net->b2, 0, sizeof net->b2);
}

/* y[rows][out] = x[rows][in] w^T + b */
static void linear(float *y, const float *x, const float *w, const float *b, int rows, int in, int out) {
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      float sum[16] = {0}; /* in 16 lanes, which vectors can compute */
      for (int i = 0; i < in; i += 16)
        for (int k = 0; k < 16; k++) sum[k] += x[r * in + i + k] * w[o * in + i + k];
      y[r * out + o] = b[o];
      for (int k = 0; k < 16; k++) y[r * out + o] += sum[k];
    }
}

/* dw[out][in] = dy^T x, db[out] = the sum of dy's rows. */
static void linear_dw(float *dw, float *db, const float *dy, const float *x, int rows, int in, int out) {
  memset(dw, 0, sizeof(float) * out * in), memset(db, 0, sizeof(float) * out);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      db[o] += dy[r * out + o];
      for (int i = 0; i < in; i++) dw[o * in + i] += dy[r * out + o] * x[r * in + i];
    }
}

/* dx[rows][in] = dy w */
static void linear_dx(float *dx, const float *dy, const float *w, int rows, int in, int out) {
  memset(dx, 0, sizeof(float) * rows * in);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++)
      for (int i = 0; i < in; i++) dx[r * in + i] += dy[r * out + o] * w[o * in + i];
}

static void forward(const network *net, const uint8_t *image, int rows, float *x, float *h, float *z, int way) {
  for (int i = 0; i < rows * P; i++) x[i] = image[i] / 255.0f;
  round_all(x, rows * P, way);
  linear(h, x, net->w1, net->b1, rows, P, H);
  for (int i = 0; i < rows * H; i++) h[i] = h[i] > 0 ? h[i] : 0; /* relu */
  round_all(h, rows * H, way);
  linear(z, h, net->w2, net->b2, rows, H, K);
  round_all(z, rows * K, way);
}

/* Mean cross-entropy of softmax(z), and its gradient: (softmax(z) - 1 at the label) / rows. */
static double cross_entropy(const float *z, const uint8_t *label, int rows, float *dz) {
  double loss = 0;
  for (int r = 0; r < rows; r++) {
    float sum = 0, most = z[r * K];
    for (int k = 1; k < K; k++) most = fmaxf(most, z[r * K + k]);
    for (int k = 0; k < K; k++) sum += expf(z[r * K + k] - most);
    for (int k = 0; k < K; k++) dz[r * K + k] = (expf(z[r * K + k] - most) / sum - (k == label[r])) / rows;
    loss += logf(sum) + most - z[r * K + label[r]];
  }
  return loss / rows;
}

/* Updates the weights; returns how many kept their value although their gradient is not 0. */
static int update(float *w, const float *gradient, int way, int step) {
  int kept = 0;
  for (int i = 0; i < N; i++) {
    const float before = w[i];
    w[i] -= RATE * gradient[i];
    if (way == BF16) w[i] = nearest(w[i]);
    if (way == RANDOM) w[i] = at_random(w[i], (uint32_t)step * N + (uint32_t)i);
    kept += gradient[i] != 0 && w[i] == before;
  }
  return kept;
}

/* Returns the loss before the step. */
static double train(network *net, const uint8_t *image, const uint8_t *label, int way, int step, int *kept, int *of) {
  static float x[B * P], h[B * H], z[B * K], dz[B * K], dh[B * H];
  static network gradient, copy; /* the weights as the step reads them */
  copy = *net;
  round_all((float *)&copy, N, way);
  forward(&copy, image, B, x, h, z, way);
  const double loss = cross_entropy(z, label, B, dz);
  round_all(dz, B * K, way);
  linear_dw(gradient.w2, gradient.b2, dz, h, B, H, K);
  linear_dx(dh, dz, copy.w2, B, H, K);
  for (int i = 0; i < B * H; i++) dh[i] = h[i] > 0 ? dh[i] : 0;
  round_all(dh, B * H, way);
  linear_dw(gradient.w1, gradient.b1, dh, x, B, P, H);
  const float *g = (const float *)&gradient;
  for (int i = 0; i < N; i++) *of += g[i] != 0;
  *kept += update((float *)net, g, way, step);
  return loss;
}

/* Mean loss on the test images. */
static double test(const network *net, double *accuracy) {
  static float x[P], h[H], z[K], dz[K];
  double loss = 0;
  int right = 0;
  for (int i = 0; i < TEST; i++) {
    int best = 0;
    forward(net, test_images + i * P, 1, x, h, z, FP32);
    for (int k = 1; k < K; k++) best = z[k] > z[best] ? k : best;
    right += best == test_labels[i];
    loss += cross_entropy(z, &test_labels[i], 1, dz);
  }
  *accuracy = right / (double)TEST;
  return loss / TEST;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  static network net;
  double loss[WAYS], accuracy[WAYS], share[WAYS];
  read_idx(folder, "train-images-idx3-ubyte.gz", 16, images, sizeof images);
  read_idx(folder, "train-labels-idx1-ubyte.gz", 8, labels, sizeof labels);
  read_idx(folder, "t10k-images-idx3-ubyte.gz", 16, test_images, sizeof test_images);
  read_idx(folder, "t10k-labels-idx1-ubyte.gz", 8, test_labels, sizeof test_labels);

  const float term = 0x1p-7f, stuck = one_by_one(term, TERMS, BF16), whole = by_tree(term, TERMS, BF16);
  printf("%d times %g: in fp32 %g; in bf16 %g, by a tree %g\n", TERMS, term, one_by_one(term, TERMS, FP32), stuck,
         whole);
  printf("%d times 0.1: in fp32 %.4f, by a tree %.4f\n\n", TERMS, one_by_one(0.1f, TERMS, FP32),
         by_tree(0.1f, TERMS, FP32));

  printf("%-30s %10s %10s %16s\n", "", "test loss", "accuracy", "unchanged");
  for (int way = 0; way < WAYS; way++) {
    int kept = 0, of = 0;
    begin(&net);
    for (int s = 0; s < STEPS; s++) train(&net, images + s * B * P, labels + s * B, way, s, &kept, &of);
    loss[way] = test(&net, &accuracy[way]), share[way] = kept / (double)of;
    printf("%-30s %10.4f %9.1f%% %15.1f%%\n", ways[way], loss[way], 100 * accuracy[way], 100 * share[way]);
  }
  const int sums = stuck == 2 && whole == TERMS * term;
  const int ok = sums && share[BF16] > 0.5 && loss[BF16] > 1.1 * loss[FP32] &&
                 fabs(loss[MASTER] - loss[FP32]) < 0.01 * loss[FP32] &&
                 fabs(loss[RANDOM] - loss[FP32]) < 0.02 * loss[FP32];
  puts(ok ? "ok" : "not ok");
  return !ok;
}
