/* StarPU's headers name these types; the emulated device has no cuSOLVER. */
#ifndef EMULATED_CUSOLVER_SP_H
#define EMULATED_CUSOLVER_SP_H

typedef struct emulated_cusolver_sp *cusolverSpHandle_t;
typedef int cusolverStatus_t;

#endif
