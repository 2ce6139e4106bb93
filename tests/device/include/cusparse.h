/* StarPU's headers name this type; the emulated device has no cuSPARSE. */
#ifndef EMULATED_CUSPARSE_H
#define EMULATED_CUSPARSE_H

typedef struct emulated_cusparse *cusparseHandle_t;
typedef int cusparseStatus_t;

#endif
