/* Lesson 2: a copy of lesson 1, but the forward product of a layer is a StarPU task.
 *
 * A task names its function (the codelet) and its data (handles), not its processor: StarPU runs it on a worker once
 * all its inputs have been written. Registered arrays belong to StarPU, so main() acquires an array before it uses it.
 */
#include <math.h>
#include <starpu.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { B = 64, P = 784, H = 64, K = 10 }; /* samples of a step, pixels, hidden units, classes */
enum { STEPS = 500 };
#define RATE 0.1f /* learning rate */

/* A layer's weights are [outputs][inputs]. The gradient of the loss has the same parts, so it has the same type. */
typedef struct network {
  float w1[H * P], b1[H], w2[K * H], b2[K];
} network;

static uint8_t images[STEPS * B * P], labels[STEPS * B];
/* Losses that lesson 1 prints. Sums in another order differ in their last bits. Once a hidden unit is above 0 in one
 * program and below 0 in the other, the difference grows. */
static const int shown[] = {1, 10, 100, STEPS};
static const double lesson1[] = {2.298073, 1.973729, 0.754628, 0.322980};
static int agrees(int i, double loss) { return fabs(loss - lesson1[i]) < (shown[i] <= 10 ? 1e-4 : 0.02); }

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

/* The task: buffers are x, w, b and y, wherever StarPU has put them; arguments that are not arrays come packed. */
static void linear_cpu(void *buffers[], void *packed) {
  float *array[4];
  int rows, in, out;
  starpu_codelet_unpack_args(packed, &rows, &in, &out);
  for (int i = 0; i < 4; i++) array[i] = (float *)STARPU_VECTOR_GET_PTR(buffers[i]);
  linear(array[3], array[0], array[1], array[2], rows, in, out);
}
static struct starpu_codelet linear_codelet = {
    .cpu_funcs = {linear_cpu}, .nbuffers = 4, .modes = {STARPU_R, STARPU_R, STARPU_R, STARPU_W}, .name = "linear"};

static starpu_data_handle_t handle(float *array, size_t n) {
  starpu_data_handle_t h;
  starpu_vector_data_register(&h, STARPU_MAIN_RAM, (uintptr_t)array, (uint32_t)n, sizeof *array);
  return h;
}

/* Returns at once; the task runs after all earlier tasks that write x, w or b, or use y. */
static void submit_linear(starpu_data_handle_t y, starpu_data_handle_t x, starpu_data_handle_t w,
                          starpu_data_handle_t b, int rows, int in, int out) {
  const int code = starpu_task_insert(&linear_codelet, STARPU_R, x, STARPU_R, w, STARPU_R, b, STARPU_W, y, STARPU_VALUE,
                                      &rows, sizeof rows, STARPU_VALUE, &in, sizeof in, STARPU_VALUE, &out, sizeof out,
                                      STARPU_NAME, "linear", 0);
  STARPU_CHECK_RETURN_VALUE(code, "starpu_task_insert");
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

static network net;
static float x[B * P], h[B * H], z[B * K], again[B * H];
static starpu_data_handle_t on_x, on_h, on_z, on_w1, on_b1, on_w2, on_b2;

static double step(const uint8_t *image, const uint8_t *label) {
  static float dz[B * K], dh[B * H];
  static network gradient;
  starpu_data_acquire(on_x, STARPU_W); /* until the release x belongs to main(), and tasks that use it wait */
  for (int i = 0; i < B * P; i++) x[i] = image[i] / 255.0f;
  starpu_data_release(on_x);
  submit_linear(on_h, on_x, on_w1, on_b1, B, P, H);
  starpu_data_acquire(on_h, STARPU_RW); /* waits for the task that writes h */
  for (int i = 0; i < B * H; i++) h[i] = h[i] > 0 ? h[i] : 0;
  starpu_data_release(on_h);
  submit_linear(on_z, on_h, on_w2, on_b2, B, H, K);
  starpu_data_handle_t all[] = {on_z, on_h, on_x, on_w1, on_b1, on_w2, on_b2};
  for (int i = 0; i < 7; i++) starpu_data_acquire(all[i], i < 3 ? STARPU_R : STARPU_RW);
  const double loss = cross_entropy(z, label, B, dz);
  linear_dw(gradient.w2, gradient.b2, dz, h, B, H, K);
  linear_dx(dh, dz, net.w2, B, H, K);
  for (int i = 0; i < B * H; i++) dh[i] = h[i] > 0 ? dh[i] : 0;
  linear_dw(gradient.w1, gradient.b1, dh, x, B, P, H);
  float *p = (float *)&net;
  for (size_t i = 0; i < sizeof net / sizeof *p; i++) p[i] -= RATE * ((const float *)&gradient)[i];
  for (int i = 0; i < 7; i++) starpu_data_release(all[i]);
  return loss;
}

/* Measures the first layer's product for so many rows, in microseconds: as a call, and as a task with a wait for its
 * end. */
static void measure(int rows) {
  enum { TIMES = 50 };
  double called = starpu_timing_now();
  for (int i = 0; i < TIMES; i++) linear(again, x, net.w1, net.b1, rows, P, H);
  called = (starpu_timing_now() - called) / TIMES;
  double task = starpu_timing_now();
  for (int i = 0; i < TIMES; i++) {
    submit_linear(on_h, on_x, on_w1, on_b1, rows, P, H);
    starpu_task_wait_for_all();
  }
  task = (starpu_timing_now() - task) / TIMES;
  printf("%4d  %8.1f  %8.1f\n", rows, called, task);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  int ok = 1, next = 0;
  read_idx(folder, "train-images-idx3-ubyte.gz", 16, images, sizeof images);
  read_idx(folder, "train-labels-idx1-ubyte.gz", 8, labels, sizeof labels);
  if (starpu_init(NULL) != 0) return puts("StarPU finds no processor to work on"), 2;
  begin(&net);
  on_x = handle(x, B * P), on_h = handle(h, B * H), on_z = handle(z, B * K);
  on_w1 = handle(net.w1, H * P), on_b1 = handle(net.b1, H), on_w2 = handle(net.w2, K * H), on_b2 = handle(net.b2, K);
  for (int s = 0; s < STEPS; s++) {
    const double loss = step(images + s * B * P, labels + s * B);
    if (s + 1 != shown[next]) continue;
    printf("step %3d  loss %.6f\n", s + 1, loss);
    ok &= agrees(next++, loss);
  }
  puts("rows   call us   task us");
  for (int rows = 1; rows <= B; rows *= 4) measure(rows);
  ok &= memcmp(h, again, sizeof h) == 0; /* same function, same data: the same bytes on any worker */
  starpu_data_handle_t all[] = {on_x, on_h, on_z, on_w1, on_b1, on_w2, on_b2};
  for (int i = 0; i < 7; i++) starpu_data_unregister(all[i]);
  starpu_shutdown();
  puts(ok ? "ok" : "not ok");
  return !ok;
}
