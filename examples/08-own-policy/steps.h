/* Training steps of the network `uneven` under a policy. */
#ifndef STEPS_H
#define STEPS_H

#include <stdint.h>

#include "runtime/base/status.h"

/* Trains for some steps, from the same beginning each time, on images made from the seed. library: a file with
 * policies, whose first is taken; NULL: StarPU's policy "eager". *hash: a fingerprint of all parameters; *ms: median
 * of a step's time; name[64]: the policy's. */
sl_status steps_run(const char *library, uint32_t seed, uint64_t *hash, double *ms, char *name);

#endif
