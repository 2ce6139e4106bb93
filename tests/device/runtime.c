/* Devices, errors and settings of the emulated CUDA runtime. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "device.h"

settings emulated_settings;
static device devices[MOST_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread int current;
static __thread cudaError_t last;

static const char *text_of(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}
static double number_of(const char *name, double otherwise, double least, double most) {
  const char *value = text_of(name);
  if (!value) return otherwise;
  char *end;
  const double number = strtod(value, &end);
  if (*end == 0 && number >= least && number <= most) return number;
  fprintf(stderr, "emulated GPU: %s=%s: not a number from %g to %g\n", name, value, least, most);
  exit(2);
}

static void open_devices(void) {
  settings *s = &emulated_settings;
  s->devices = (int)number_of("EMULATED_DEVICES", 1, 0, MOST_DEVICES);
  s->memory = (size_t)(number_of("EMULATED_MEMORY", 1024, 1, 1 << 18) * (1 << 20));
  s->seed = (uint64_t)number_of("EMULATED_SEED", 0, 0, 1e15);
  s->delay = number_of("EMULATED_DELAY", 1000, 0, 1e7);
  s->lazy = number_of("EMULATED_LAZY", 0, 0, 1) != 0;
  s->peers = number_of("EMULATED_PEERS", 1, 0, 1) != 0;
  s->patience = number_of("EMULATED_PATIENCE", 600, 0.01, 1e6);
  s->copy_rate = number_of("EMULATED_GBPS", 0, 0, 1e6) * 1e9;
  s->access_rate = number_of("EMULATED_TIMED", 0, 0, 1e6) * 1e9;
  s->computed = getenv("EMULATED_COMPUTED") ? getenv("EMULATED_COMPUTED") : "tokens";
  s->report = number_of("EMULATED_REPORT", 0, 0, 1) != 0;
  s->fail_device = -1;
  const char *fail = text_of("EMULATED_FAIL");
  if (fail && sscanf(fail, "%d:%ld", &s->fail_device, &s->fail_at) != 2) {
    fprintf(stderr, "emulated GPU: EMULATED_FAIL=%s: not DEVICE:NUMBER\n", fail);
    exit(2);
  }
  for (int i = 0; i < s->devices; i++) {
    device *d = &devices[i];
    d->number = i;
    pthread_mutex_init(&d->memory, NULL);
    pthread_mutex_init(&d->kernel, NULL);
    pthread_mutex_init(&d->stream_list, NULL);
    if (!emulated_memory_open(d)) {
      fprintf(stderr, "emulated GPU %d: no address space for its memory\n", i);
      exit(2);
    }
  }
}

device *emulated_device(int number) {
  pthread_once(&once, open_devices);
  return number >= 0 && number < emulated_settings.devices ? &devices[number] : NULL;
}

int emulated_current(void) { return current; }

cudaError_t emulated_fail(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

void emulated_say(int number, const char *format, ...) {
  char text[4096];
  int n = snprintf(text, sizeof text, "emulated GPU %d: ", number);
  va_list arguments;
  va_start(arguments, format);
  n += vsnprintf(text + n, sizeof text - (size_t)n - 1, format, arguments);
  va_end(arguments);
  if (n > (int)sizeof text - 2) n = (int)sizeof text - 2;
  text[n++] = '\n';
  ssize_t written = write(2, text, (size_t)n);
  (void)written;
}

__attribute__((destructor)) static void close_devices(void) {
  static const char *const kind[4] = {"host to host", "host to device", "device to host", "device to device"};
  for (int i = 0; i < emulated_settings.devices; i++) {
    emulated_stop(&devices[i]);
    if (!emulated_settings.report) continue;
    char text[512];
    int n = 0;
    text[0] = 0;
    for (int k = 0; k < 4; k++)
      if (devices[i].copies[k])
        n += snprintf(text + n, sizeof text - (size_t)n, "; %s %lu bytes in %lu copies", kind[k], devices[i].copied[k],
                      devices[i].copies[k]);
    if (devices[i].unpinned)
      n += snprintf(text + n, sizeof text - (size_t)n, "; %lu bytes from or to memory that is not pinned",
                    devices[i].unpinned);
    emulated_say(i, "%lu kernels%s", devices[i].kernels, text);
  }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last;
  last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError(void) { return last; }

static const struct {
  cudaError_t error;
  const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"}};

const char *cudaGetErrorString(cudaError_t error) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].error == error) return errors[i].text;
  return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t error) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].error == error) return errors[i].name;
  return "unrecognized error code";
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* The first number of the compute capability. */
static int generation(void) {
  const char *text = getenv("EMULATED_GENERATION");
  return text ? atoi(text) : 9;
}

cudaError_t cudaGetDeviceCount(int *count) {
  emulated_device(0);
  *count = emulated_settings.devices;
  return *count ? cudaSuccess : emulated_fail(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int number) {
  device *d = emulated_device(number);
  if (!d) return emulated_fail(cudaErrorInvalidDevice);
  current = number;
  emulated_guard_host();
  return emulated_fail((cudaError_t)d->error);
}
cudaError_t cudaGetDevice(int *number) {
  if (!emulated_device(0)) return emulated_fail(cudaErrorNoDevice);
  *number = current;
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned flags) {
  (void)flags;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int number) {
  if (!emulated_device(number)) return emulated_fail(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  const char *name = getenv("EMULATED_NAME");
  snprintf(p->name, sizeof p->name, "%s", name ? name : "Emulated GPU");
  p->totalGlobalMem = emulated_settings.memory;
  p->sharedMemPerBlock = SHARED_DEFAULT;
  p->warpSize = 32, p->maxThreadsPerBlock = 1024;
  p->major = generation(), p->multiProcessorCount = 1, p->concurrentKernels = 1;
  p->pciBusID = 0xe0 + number;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number) {
  if (!emulated_device(number)) return emulated_fail(cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrMultiProcessorCount      ? 1
           : attribute == cudaDevAttrComputeCapabilityMajor ? generation()
                                                            : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int number) {
  if (!emulated_device(number)) return emulated_fail(cudaErrorInvalidDevice);
  snprintf(text, (size_t)length, "0000:%02x:00.0", 0xe0 + number);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  device *d = emulated_device(current);
  if (!d) return emulated_fail(cudaErrorNoDevice);
  emulated_wait_device(d);
  return emulated_fail((cudaError_t)d->error);
}
cudaError_t cudaDeviceReset(void) { return cudaDeviceSynchronize(); }
cudaError_t cudaThreadExit(void) { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceCanAccessPeer(int *can, int number, int peer) {
  if (!emulated_device(number) || !emulated_device(peer)) return emulated_fail(cudaErrorInvalidDevice);
  *can = number != peer && emulated_settings.peers;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  (void)flags;
  if (!emulated_device(peer) || peer == current) return emulated_fail(cudaErrorInvalidDevice);
  return emulated_settings.peers ? cudaSuccess : emulated_fail(cudaErrorNotSupported);
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

CUresult cuInit(unsigned flags) {
  (void)flags;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice number) {
  if (!emulated_device(number)) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? 0xe0 + number : 0;
  return CUDA_SUCCESS;
}
