/* Programs with one mistake each, for tests/device/faults.sh: the emulated device must name the mistake. The first
 * argument says which; "none" is right, and so are the results that it prints. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int global = 7;
static const int table[4] = {1, 2, 3, 4};

__global__ void fill(float *y, int n, float value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = value;
}
__global__ void add(const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += x[i];
}
__global__ void read_int(const int *x, float *y) { y[threadIdx.x] = (float)*x; }
__global__ void write_constant(const int *x) { *(int *)(x + threadIdx.x) = 1; }

/* y = x in reverse within the block, by shared memory; the barrier may be missing. */
template <bool BARRIER>
__global__ void reverse(const float *x, float *y) {
  __shared__ float tile[256];
  tile[threadIdx.x] = 0;
  __syncthreads();
  tile[threadIdx.x] = x[threadIdx.x];
  if (BARRIER) __syncthreads();
  y[threadIdx.x] = tile[255 - threadIdx.x];
}
/* Neighbours of a warp exchange values by shared memory. */
template <bool BARRIER>
__global__ void swap(const float *x, float *y) {
  __shared__ float tile[256];
  tile[threadIdx.x] = 0;
  __syncwarp();
  tile[threadIdx.x] = x[threadIdx.x];
  if (BARRIER) __syncwarp();
  y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
__global__ void sum(const float *x, float *y) {
  extern __shared__ float part[];
  float v = x[threadIdx.x];
  for (int lanes = 16; lanes; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  const int any = __syncthreads_or(threadIdx.x == 5);
  float all = any ? 0 : -1;
  for (unsigned i = 0; i < blockDim.x / 32; i++) all += part[i];
  y[threadIdx.x] = all;
}
__global__ void two_barriers(float *y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}
__global__ void early_end(float *y) {
  if (threadIdx.x == 3) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}
__global__ void half_warp(float *y) {
  y[threadIdx.x] = 1;
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
__global__ void wrong_mask(float *y) { y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 1); }
__global__ void beyond_shared(float *y, int at) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 0;
  tile[at] = 1;
  y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void fresh_shared(float *y) {
  __shared__ float tile[32];
  y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void dynamic(float *y) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = 1;
  y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void libm(float *y) { y[threadIdx.x] = expf(y[threadIdx.x]); }
__global__ void endless(volatile float *y) {
  while (y[0] == 0) {
  }
}

static void say(const char *what) { printf("%s: %s\n", what, cudaGetErrorString(cudaGetLastError())); }
static float *fresh(int n) {
  float *x;
  if (cudaMalloc(&x, (size_t)n * sizeof *x) != cudaSuccess) say("cudaMalloc");
  return x;
}
static float *filled(int n, float value) {
  float *x = fresh(n);
  fill<<<4, 256>>>(x, n, value);
  cudaDeviceSynchronize();
  return x;
}
static bool all(const float *x, int n, float value) {
  for (int i = 0; i < n; i++)
    if (x[i] != value) return false;
  return true;
}

static void none() {
  const int n = 5000;
  float *x = filled(n, 1), *y = filled(n, 2), host[5000];
  add<<<7, 128>>>(x, y, n);
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  bool right = all(host, n, 3);
  for (int i = 0; i < 256; i++) host[i] = (float)i;
  cudaMemcpy(x, host, 256 * sizeof *x, cudaMemcpyHostToDevice);
  reverse<true><<<1, 256>>>(x, y);
  cudaMemcpy(host, y, 256 * sizeof *x, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 256; i++) right = right && host[i] == (float)(255 - i);
  swap<true><<<1, 256>>>(x, y);
  cudaMemcpy(host, y, 256 * sizeof *x, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 256; i++) right = right && host[i] == (float)(i ^ 1);
  sum<<<1, 256, 8 * sizeof(float)>>>(x, y);
  cudaMemcpy(host, y, 256 * sizeof *x, cudaMemcpyDeviceToHost);
  right = right && all(host, 256, 255 * 128);
  read_int<<<1, 1>>>(table + 2, y);
  cudaMemcpy(host, y, sizeof *y, cudaMemcpyDeviceToHost);
  right = right && host[0] == 3;
  cublasHandle_t blas;
  const float one = 1, zero = 0;
  cublasCreate(&blas);
  fill<<<4, 256>>>(x, n, 2);
  /* [33 x 50] = [33 x 20]^T' [20 x 50] of twos */
  cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, 33, 50, 20, &one, x, 20, x, 20, &zero, y, 33);
  cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 33, 50, 20, &one, x, 33, x, 50, &one, y, 33);
  cudaMemcpy(host, y, 33 * 50 * sizeof *y, cudaMemcpyDeviceToHost);
  right = right && all(host, 33 * 50, 160);
  cublasDestroy(blas);
  cudaEvent_t from, to;
  float ms = -1;
  cudaEventCreate(&from), cudaEventCreate(&to);
  cudaEventRecord(from, 0);
  fill<<<4, 256>>>(x, n, 2);
  cudaEventRecord(to, 0);
  cudaEventSynchronize(to);
  right = right && cudaEventElapsedTime(&ms, from, to) == cudaSuccess && ms > 0;
  cudaEventDestroy(from), cudaEventDestroy(to);
  size_t left, total, more;
  cudaMemGetInfo(&left, &total);
  cudaFree(y);
  cudaMemGetInfo(&more, &total);
  right = right && more - left == (n * sizeof *y + 511) / 512 * 512;
  printf("results are %s\n", right ? "right" : "wrong");
}

/* A kernel in one stream, a copy of its result in another. */
static void order(bool wait) {
  enum { N = 1 << 16 };
  float *y = filled(N, 0), *host = (float *)calloc(N, sizeof *host);
  cudaStream_t a, b;
  cudaEvent_t done;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  int wrong = 0;
  for (int i = 1; i <= 20; i++) {
    fill<<<4, 256, 0, a>>>(y, N, (float)i);
    cudaEventRecord(done, a);
    if (wait) cudaStreamWaitEvent(b, done, 0);
    cudaMemcpyAsync(host, y, N * sizeof *y, cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    wrong += !all(host, N, (float)i);
    cudaStreamSynchronize(a);
  }
  printf("%s\n", wrong ? "copies overtook kernels" : "all copies came after their kernels");
}

/* The host uses what a copy is to bring. */
static void early_use(bool wait) {
  float *y = filled(256, 5), host[256];
  int wrong = 0;
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  for (int i = 0; i < 20; i++) {
    memset(host, 0, sizeof host);
    cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, s);
    if (wait) cudaStreamSynchronize(s);
    wrong += !all(host, 256, 5);
    cudaStreamSynchronize(s);
  }
  printf("%s\n", wrong ? "the host was too early" : "the host waited");
}

/* Signals to the whole process group end no device. */
static void signals() {
  const int of_jobs[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  float *x = filled(256, 1), host[256];
  setpgid(0, 0);
  for (int number : of_jobs) {
    signal(number, SIG_IGN);
    kill(0, number);
  }
  fill<<<1, 256>>>(x, 256, 2);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  printf("after signals results are %s\n", all(host, 256, 2) ? "right" : "wrong");
}

/* The loader's lock is as if another thread had held it when the devices' processes were forked: who asks for the
 * libraries there waits for ever. */
static pid_t program;
static int asked;
extern "C" int dl_iterate_phdr(int (*call)(struct dl_phdr_info *, size_t, void *), void *data) noexcept {
  while (program && getpid() != program) pause();
  const auto real = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, __func__);
  asked++;
  return real(call, data);
}
static void loader() {
  float host[256];
  bool right = true;
  int devices = 0;
  program = getpid();
  cudaGetDeviceCount(&devices);
  for (int d = 0; d < devices; d++) {
    cudaSetDevice(d);
    cudaMemcpy(host, filled(256, (float)d), sizeof host, cudaMemcpyDeviceToHost);
    right = right && all(host, 256, (float)d);
  }
  right = right && asked > 0;
  printf("%d devices: results are %s\n", devices, right ? "right" : "wrong");
}

int main(int argc, char **argv) {
  const char *fault = argc > 1 ? argv[1] : "none";
  const auto is = [fault](const char *name) { return strcmp(fault, name) == 0; };
  if (is("none")) none();
  if (is("loader")) loader();
  if (is("order") || is("no-wait")) order(is("order"));
  if (is("wait") || is("early-use")) early_use(is("wait"));
  if (is("behind")) fill<<<1, 256>>>(fresh(100), 101, 1);
  if (is("before")) fill<<<1, 1>>>(fresh(100) - 1, 1, 1);
  if (is("fresh")) add<<<1, 32>>>(fresh(100), filled(100, 1), 100);
  if (is("freed")) {
    float *x = filled(100, 1);
    cudaFree(x);
    fill<<<1, 32>>>(x, 100, 1);
  }
  if (is("null")) fill<<<1, 32>>>((float *)nullptr, 100, 1);
  if (is("host-heap")) fill<<<1, 32>>>((float *)malloc(400), 100, 1);
  if (is("host-stack")) {
    int local = 3;
    read_int<<<1, 1>>>(&local, fresh(1));
    cudaDeviceSynchronize();
  }
  if (is("host-global")) read_int<<<1, 1>>>(&global, fresh(1));
  if (is("constant")) write_constant<<<1, 1>>>(table);
  if (is("peer")) {
    float *there = fresh(100);
    cudaSetDevice(1);
    fill<<<1, 32>>>(there, 100, 1);
  }
  if (is("on-host")) {
    float *x = filled(100, 1);
    printf("%g\n", (double)x[3]);
  }
  if (is("barriers")) two_barriers<<<1, 64>>>(fresh(64));
  if (is("ended")) early_end<<<1, 64>>>(fresh(64));
  if (is("half-warp")) half_warp<<<1, 64>>>(fresh(64));
  if (is("mask")) wrong_mask<<<1, 64>>>(fresh(64));
  if (is("race")) reverse<false><<<1, 256>>>(filled(256, 1), fresh(256));
  if (is("warp-race")) swap<false><<<1, 256>>>(filled(256, 1), fresh(256));
  if (is("shared-end")) beyond_shared<<<1, 32>>>(fresh(32), 32);
  if (is("shared-fresh")) fresh_shared<<<1, 32>>>(fresh(32));
  if (is("shared-limit")) dynamic<<<1, 32, 60000>>>(fresh(32));
  if (is("threads")) fill<<<1, 1025>>>(fresh(32), 32, 1);
  if (is("grid")) fill<<<dim3(1, 70000), 32>>>(fresh(32), 32, 1);
  if (is("memory"))
    for (int i = 0; i < 3; i++) filled(6 << 20, 1);
  if (is("copy-end")) {
    float host[200];
    cudaMemcpy(host, filled(100, 1), sizeof host, cudaMemcpyDeviceToHost);
  }
  if (is("copy-way")) {
    float host[100];
    cudaMemcpy(host, filled(100, 1), sizeof host, cudaMemcpyHostToDevice);
  }
  if (is("double-free")) {
    float *x = fresh(100);
    cudaFree(x);
    cudaFree(x);
  }
  if (is("endless")) endless<<<1, 1>>>(filled(1, 0));
  if (is("libm")) libm<<<1, 32>>>(filled(32, 1));
  if (is("signals")) signals();
  if (is("third")) {
    for (int i = 0; i < 4; i++) filled(100, (float)i);
  }
  if (is("matrix")) {
    cublasHandle_t blas;
    const float one = 1, zero = 0;
    float *x = filled(100, 1);
    cublasCreate(&blas);
    cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 10, 10, 11, &one, x, 10, x, 11, &zero, x, 10);
  }
  cudaDeviceSynchronize();
  say("end");
  return 0;
}
