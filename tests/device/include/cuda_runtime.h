/* CUDA C++ for the emulated device: a kernel is a C++ function that runs once for each thread. launches.pl has turned
 * KERNEL<<<...>>>(...) and __shared__ arrays into calls of what stands here. */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#ifdef __CUDACC__
#include <math.h>
#include <string.h>

#include <tuple>
#include <type_traits>

#include "emulated_launch.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

typedef emulated_triple uint3;
struct dim3 : emulated_triple {
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) {
    x = a;
    y = b;
    z = c;
  }
};
#define threadIdx (emulated_at.thread)
#define blockIdx (emulated_at.block)
#define blockDim (emulated_at.block_size)
#define gridDim (emulated_at.grid_size)
#define warpSize 32

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(4) uchar4 {
  unsigned char x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

/* ---- threads together -------------------------------------------------------------------------------------------- */

static inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated_barrier(0, file, line);
}
static inline int __syncthreads_or(int predicate, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  return emulated_barrier(predicate, file, line);
}
static inline int __syncthreads_and(int predicate, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  return !emulated_barrier(!predicate, file, line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, const char *file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  emulated_exchange(mask, nullptr, 0, 0, file, line);
}
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, const char *file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable<T>::value, "a shuffle moves 16 bytes at most");
  const int base = emulated_lane() & ~(width - 1);
  emulated_exchange(mask, &value, sizeof value, base + (from & (width - 1)), file, line);
  return value;
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, const char *file = __builtin_FILE(),
                                int line = __builtin_LINE()) {
  const int lane = emulated_lane(), from = lane ^ lanes;
  emulated_exchange(mask, &value, sizeof value, from / width > lane / width ? lane : from, file, line);
  return value;
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32,
                                 const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int lane = emulated_lane(), from = lane + (int)lanes;
  emulated_exchange(mask, &value, sizeof value, from / width != lane / width ? lane : from, file, line);
  return value;
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32,
                               const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int lane = emulated_lane(), from = lane - (int)lanes;
  emulated_exchange(mask, &value, sizeof value, from < lane / width * width ? lane : from, file, line);
  return value;
}

/* The threads of a device take turns, so a plain addition is atomic. */
template <class T>
static inline T atomicAdd(T *address, T value) {
  T before = *address;
  *address = before + value;
  return before;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline float __ldg(const float *address) { return *address; }
static inline float4 __ldg(const float4 *address) { return *address; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
template <class To, class From>
static inline To emulated_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "of one size");
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline int __float_as_int(float x) { return emulated_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulated_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* A function object and its arguments as bytes, which the device's process has a copy of. */
template <class F, class... A>
struct emulated_call {
  F function;
  std::tuple<A...> arguments;
  static void run(void *bytes) {
    emulated_call *self = (emulated_call *)bytes;
    std::apply(self->function, self->arguments);
  }
};

struct emulated_configuration {
  emulated_launch launch;
  cudaStream_t stream;
  template <class F, class... A>
  void operator()(F function, A... arguments) {
    static_assert((std::is_trivially_copyable<A>::value && ...), "a kernel's arguments are copied byte by byte");
    using call = emulated_call<F, A...>;
    static_assert(sizeof(call) <= EMULATED_ARGUMENT_BYTES, "a kernel's arguments are 4096 bytes at most");
    const call bytes = {function, std::tuple<A...>(arguments...)};
    launch.run = call::run;
    launch.argument_bytes = sizeof bytes;
    emulated_queue_kernel(&launch, &bytes, stream);
  }
};
struct emulated_kernel {
  const char *name, *file;
  int line;
  explicit emulated_kernel(const char *kernel, const char *in = __builtin_FILE(), int at = __builtin_LINE())
      : name(kernel), file(in), line(at) {}
  emulated_configuration operator()(dim3 grid, dim3 block, size_t shared_bytes = 0,
                                    cudaStream_t stream = nullptr) const {
    emulated_configuration made = {};
    made.launch.grid = grid, made.launch.block = block, made.launch.shared_bytes = shared_bytes;
    made.launch.kernel = name, made.launch.file = file, made.launch.line = line;
    made.stream = stream;
    return made;
  }
};

template <class F>
static inline cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int value) {
  return emulated_allow_shared(value);
}
template <class T>
static inline cudaError_t cudaMalloc(T **pointer, size_t bytes) {
  return cudaMalloc((void **)pointer, bytes);
}
#endif
#endif
