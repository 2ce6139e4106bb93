/* The program that starts the ranks of a job. */
#ifndef SL_TOOLS_MPIEXEC_H
#define SL_TOOLS_MPIEXEC_H

#include <stddef.h>

#include "runtime/base/status.h"

/* given: --mpiexec; NULL: mpiexec.mpich if it is in the path, else mpiexec. SL_EINVAL: there is no such program. */
sl_status sl__mpiexec_find(const char *given, char *path, size_t n);

#endif
