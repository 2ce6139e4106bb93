/* A case's gradients against finite differences of its double-precision reference. */
#ifndef TESTS_DIFFERENCES_H
#define TESTS_DIFFERENCES_H

#include "tests/codelets/setting.h"

/* The seed of the directions: the environment's TEST_SEED, or 1. */
uint64_t differences_seed(void);

/* Checks the gradient of every input that the case calls differentiable. root: output 0 is itself the loss; else the
 * loss is a random linear function of output 0. */
void differences_check(const test_case *c, sl_isa isa, sl_team *team, sl_tiles tiles, int root);

#endif
