/* What environment.json says of where a run took place, as far as it can be known without StarPU and MPI. */
#ifndef SL_ENVIRONMENT_H
#define SL_ENVIRONMENT_H

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A new object: command (array of strings), directory, version, commit, compiler, date (UTC, ISO 8601), host, system,
 * cpu {model, logical, usable, flags}, memory_bytes, libraries {...}, variables {STARPU_*, OMP_*, ...}. NULL when out
 * of memory. */
json_t *sl_environment(int argc, char *const argv[]);

#ifdef __cplusplus
}
#endif
#endif
