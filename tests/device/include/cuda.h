/* The part of the CUDA driver's interface that hwloc's and StarPU's headers name, for the emulated device. */
#ifndef EMULATED_CUDA_H
#define EMULATED_CUDA_H

#define CUDA_VERSION 12000

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUdevice;
typedef enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 } CUresult;
typedef enum {
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50
} CUdevice_attribute;

CUresult cuInit(unsigned flags);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);

#ifdef __cplusplus
}
#endif
#endif
