/* Tasks on GPUs: the contexts of CUDA workers, the function that queues a task's kernel, and its times on the device.
 * Private to tasks/. If StarPU was built without CUDA, only open and close exist. */
#ifndef SL_STARPU_DEVICE_H
#define SL_STARPU_DEVICE_H

#include <config.h>

#include "tasks/starpu/codelet.h"

#if defined SL_HAVE_CUDA && defined STARPU_USE_CUDA
#define SL__GPU_WORKERS 1
#endif

/* Makes a context on each CUDA worker, with device memory for scratch and for the needs of fast kernels. *devices is
 * NULL if there are no CUDA workers. asks: the task with the greatest scratch_cuda; NULL: no scratch memory. copies:
 * the greatest sl_operation_copies_cuda of all tasks. bf16: 1: fast kernels read bf16. A failure names device and task.
 */
sl_status sl__devices_open(sl_runtime *runtime, const sl__task *asks, int copies, int bf16, sl__devices **devices);
/* Bytes that the contexts hold on a GPU. NULL is allowed. */
size_t sl__devices_bytes(const sl__devices *devices);
void sl__devices_close(sl_runtime *runtime, sl__devices *devices);

/* Makes StarPU report the task's end, because the device finishes after the launch returns. The report comes before
 * tasks that wait for this one may start. */
void sl__gpu_task(sl__task *task);
/* StarPU's CUDA function of every codelet. */
void sl__run_on_gpu(void *buffers[], void *task);

#endif
