/* Lesson 1: a perceptron learns to tell clothes apart, in plain C.
 *
 * 784 pixels -> 64 hidden units -> 10 classes, trained by stochastic gradient descent on Fashion-MNIST. The later
 * lessons divide, schedule and pin the work of these loops. A step has three matrix products for each layer: the output
 * (y), the gradient of the weights (dw), and the gradient of the layer's input (dx). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { B = 64, P = 784, H = 64, K = 10 }; /* samples of a step, pixels, hidden units, classes */
enum { STEPS = 500, TEST = 10000 };
#define RATE 0.1f /* learning rate */

/* A layer's weights are [outputs][inputs]. The gradient of the loss has the same parts, so it has the same type. */
typedef struct network {
  float w1[H * P], b1[H], w2[K * H], b2[K];
} network;

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

/* Number i of a fixed pseudorandom sequence in [-1, 1), the same on every machine. */
static float noise(uint32_t i) {
  i = (i ^ i >> 16) * 0x7feb352d, i = (i ^ i >> 15) * 0x846ca68b;
  return (float)((i ^ i >> 16) >> 8) * 0x1p-23f - 1;
}

/* Uniform in +-1 / sqrt(inputs), so that sums over the inputs are neither tiny nor huge. */
static void begin(network *net) {
  for (int i = 0; i < H * P; i++) net->w1[i] = noise(i) / sqrtf(P);
  for (int i = 0; i < K * H; i++) net->w2[i] = noise(H * P + i) / sqrtf(H);
  memset(net->b1, 0, sizeof net->b1), memset(net->b2, 0, sizeof net->b2);
}

/* y[rows][out] = x[rows][in] w^T + b */
static void linear(float *y, const float *x, const float *w, const float *b, int rows, int in, int out) {
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      float sum = b[o];
      for (int i = 0; i < in; i++) sum += x[r * in + i] * w[o * in + i];
      y[r * out + o] = sum;
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

/* logits z[rows][K] of images; h[rows][H] and x[rows][P] are kept for the backward pass. */
static void forward(const network *net, const uint8_t *image, int rows, float *x, float *h, float *z) {
  for (int i = 0; i < rows * P; i++) x[i] = image[i] / 255.0f;
  linear(h, x, net->w1, net->b1, rows, P, H);
  for (int i = 0; i < rows * H; i++) h[i] = h[i] > 0 ? h[i] : 0; /* relu */
  linear(z, h, net->w2, net->b2, rows, H, K);
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

static double step(network *net, const uint8_t *image, const uint8_t *label) {
  static float x[B * P], h[B * H], z[B * K], dz[B * K], dh[B * H];
  static network gradient;
  forward(net, image, B, x, h, z);
  const double loss = cross_entropy(z, label, B, dz);
  linear_dw(gradient.w2, gradient.b2, dz, h, B, H, K);
  linear_dx(dh, dz, net->w2, B, H, K);
  for (int i = 0; i < B * H; i++) dh[i] = h[i] > 0 ? dh[i] : 0;
  linear_dw(gradient.w1, gradient.b1, dh, x, B, P, H);
  float *p = (float *)net;
  for (size_t i = 0; i < sizeof *net / sizeof *p; i++) p[i] -= RATE * ((const float *)&gradient)[i];
  return loss;
}

static double accuracy(const network *net) {
  static float x[P], h[H], z[K];
  int right = 0;
  for (int i = 0; i < TEST; i++) {
    int best = 0;
    forward(net, test_images + i * P, 1, x, h, z);
    for (int k = 1; k < K; k++) best = z[k] > z[best] ? k : best;
    right += best == test_labels[i];
  }
  return right / (double)TEST;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  static network net;
  double loss = 0, first = 0;
  read_idx(folder, "train-images-idx3-ubyte.gz", 16, images, sizeof images);
  read_idx(folder, "train-labels-idx1-ubyte.gz", 8, labels, sizeof labels);
  read_idx(folder, "t10k-images-idx3-ubyte.gz", 16, test_images, sizeof test_images);
  read_idx(folder, "t10k-labels-idx1-ubyte.gz", 8, test_labels, sizeof test_labels);
  begin(&net);
  for (int s = 0; s < STEPS; s++) {
    loss = step(&net, images + s * B * P, labels + s * B);
    if (s == 0) first = loss;
    if (s == 0 || s == 9 || s == 99 || s == STEPS - 1) printf("step %3d  loss %.6f\n", s + 1, loss);
  }
  const double right = accuracy(&net);
  printf("accuracy on %d test images: %.1f %%\n", TEST, 100 * right);
  /* An untrained network gives each class about the same probability: a loss of ln 10 and an accuracy of 10%. */
  const int ok = fabs(first - log(K)) < 0.2 && loss < 0.8 && right > 0.75;
  puts(ok ? "ok" : "not ok");
  return !ok;
}
