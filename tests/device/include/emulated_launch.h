/* How a kernel reaches the emulated device: what a launch carries, and where a running thread stands. The C++ side of
 * it, which kernels see, is cuda_runtime.h. */
#ifndef EMULATED_LAUNCH_H
#define EMULATED_LAUNCH_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_ARGUMENT_BYTES = 4096, EMULATED_CALLERS = 12 };

typedef struct emulated_triple {
  unsigned x, y, z;
} emulated_triple;

/* run(arguments) is what one thread of the grid does. Without threads (grid.x == 0) it is called once and checks its
 * own accesses. arguments: a copy of the launch's, byte by byte. */
typedef struct emulated_launch {
  void (*run)(void *arguments);
  emulated_triple grid, block;
  size_t shared_bytes;
  size_t argument_bytes;
  const char *kernel, *file;
  int line;
  int callers;
  void *caller[EMULATED_CALLERS]; /* return addresses on the host, the innermost first */
} emulated_launch;

/* Queues a kernel. cudaGetLastError then has the error of a launch that could not be queued. */
void emulated_queue_kernel(emulated_launch *launch, const void *arguments, cudaStream_t stream);
/* Allows kernels up to so much dynamic shared memory. */
cudaError_t emulated_allow_shared(int bytes);

/* ---- for the code of kernels, in the process of their device ----------------------------------------------------- */

typedef struct emulated_position {
  emulated_triple thread, block, block_size, grid_size;
} emulated_position;

/* Where the running thread stands. A thread's own never changes, hence const: the device sets it whenever another
 * thread goes on. */
#ifdef EMULATED_DEVICE
extern emulated_position emulated_at;
#else
extern const emulated_position emulated_at;
#endif

/* A barrier of the block; the result is whether any thread gave a nonzero value. file and line name the place, which
 * must be the same for all threads. */
int emulated_barrier(int predicate, const char *file, int line);
/* A barrier of the lanes of a warp that the mask names; each gives 16 bytes or less, and gets those of lane `from`. */
void emulated_exchange(unsigned mask, void *value, size_t bytes, int from, const char *file, int line);
/* The lane of the running thread. */
int emulated_lane(void);
/* Memory that the block's threads share: one piece for each place in the code (site), or the dynamic one (site NULL).
 */
void *emulated_shared(const void *site, size_t bytes);
/* For code that has no hooks in it: an access to device memory, as a check. */
void emulated_check(const void *address, size_t bytes, int write);

#ifdef __cplusplus
}
#endif
#endif
