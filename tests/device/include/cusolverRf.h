/* StarPU's headers name these types; the emulated device has no cuSOLVER. */
#ifndef EMULATED_CUSOLVER_RF_H
#define EMULATED_CUSOLVER_RF_H

typedef struct emulated_cusolver_rf *cusolverRfHandle_t;
typedef int cusolverStatus_t;

#endif
