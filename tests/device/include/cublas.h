/* The header of the first interface: the emulated device has both in one. */
#include "cublas_v2.h"
