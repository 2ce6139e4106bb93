/* StarPU's headers name these types; the emulated device has no cuSOLVER. */
#ifndef EMULATED_CUSOLVER_DN_H
#define EMULATED_CUSOLVER_DN_H

typedef struct emulated_cusolver_dn *cusolverDnHandle_t;
typedef int cusolverStatus_t;

#endif
