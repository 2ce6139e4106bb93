/* Training steps of the network `uneven` under a policy. */
#ifndef STEPS_H
#define STEPS_H

#include <stdint.h>

#include "runtime/base/status.h"

/* Trains for some steps, each time from the same initial weights, on images made from the seed. library: a file with
 * policies, the first of which is used; NULL: StarPU's policy "eager". *hash: a fingerprint of all parameters; *ms:
 * median time of a step; name[64]: the policy's name. */
sl_status steps_run(const char *library, uint32_t seed, uint64_t *hash, double *ms, char *name);

#endif
