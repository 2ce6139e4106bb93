/* Versions and limits of the libraries that this build runs with. These functions need no runtime. */
#include <cblas.h>
#include <mpi.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/machine/runtime.h"

#if defined(SL_HAVE_CUDA) && defined(STARPU_USE_CUDA)
#define CAN_USE_CUDA 1
#else
#define CAN_USE_CUDA 0
#endif

const char *sl_runtime_starpu(void) {
  static _Thread_local char text[32];
  int major, minor, release;
  starpu_get_version(&major, &minor, &release);
  snprintf(text, sizeof text, "%d.%d.%d", major, minor, release);
  return text;
}

int sl_runtime_starpu_max_cpus(void) { return STARPU_MAXCPUS; }
int sl_runtime_starpu_max_buffers(void) { return STARPU_NMAXBUFS; }
int sl_runtime_starpu_has_cuda(void) { return CAN_USE_CUDA; }
const char *sl_runtime_blas(void) { return openblas_get_corename(); }

const char *sl_runtime_products(void) {
  static _Thread_local char text[48];
  char version[16] = "?";
  sscanf(openblas_get_config(), "OpenBLAS %15s", version);
  snprintf(text, sizeof text, "openblas %s %.20s", version, sl_runtime_blas());
  return text;
}

const char *sl_runtime_blas_core(const char *core, sl_isa isa) {
  static const char *const vectors[] = {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    if (strcmp(core, vectors[i]) == 0) return NULL;
  return isa == SL_ISA_AVX512_VL ? "SkylakeX" : isa == SL_ISA_AVX2_FMA ? "Haswell" : NULL;
}

void sl_runtime_blas_renew(char *const argv[]) {
  static const char variable[] = "OPENBLAS_CORETYPE";
  const char *core = sl_runtime_blas_core(sl_runtime_blas(), sl_isa_best());
  if (!core || getenv(variable) || setenv(variable, core, 1) != 0) return;
  execv("/proc/self/exe", argv); /* on a failure the program goes on with the slow kernels */
}

/* MPICH and Open MPI have this function; other libraries may lack it. */
#pragma weak MPIX_Query_cuda_support
int MPIX_Query_cuda_support(void);
int sl_runtime_mpi_takes_gpu_memory(void) { return MPIX_Query_cuda_support && MPIX_Query_cuda_support() != 0; }

const char *sl_runtime_mpi(void) {
  static _Thread_local char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  MPI_Get_library_version(text, &n);
  for (char *c = text; *c; c++)
    if (*c == '\t') *c = ' ';
  text[strcspn(text, "\n")] = 0;
  return text;
}
