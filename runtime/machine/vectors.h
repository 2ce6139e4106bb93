/* Registers data with StarPU. All data of Starling are StarPU vectors. */
#ifndef SL_VECTORS_H
#define SL_VECTORS_H

#include <starpu.h>

/* Registers n elements at `data`, in host memory, without sequential consistency: dependencies are declared. If there
 * are several memories, copies between them are recorded (transfers.h). One thread at a time. */
void sl_vector_register(starpu_data_handle_t *handle, void *data, size_t n, size_t bytes_each);

#endif
