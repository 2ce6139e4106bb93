/* Where and how a run took place, for environment.json: the facts that need neither StarPU nor MPI. */
#ifndef SL_ENVIRONMENT_H
#define SL_ENVIRONMENT_H

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A new object: command (array of strings), directory, version, commit (as given), compiler {name, flags}, date (UTC,
 * ISO 8601), host, system, cpu {model, logical, usable}, memory_bytes, libraries {libc, jansson, zlib}, variables
 * {of StarPU, OpenMP, OpenBLAS, CUDA, MPI and the batch system}. Unknown facts are null. Returns NULL when out of
 * memory. */
json_t *sl_environment(int argc, const char *const argv[], const char *commit);

#ifdef __cplusplus
}
#endif
#endif
