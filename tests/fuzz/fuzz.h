/* A fuzz target: libFuzzer's entry point, and a few valid inputs to start from. With clang,
 *   clang -fsanitize=fuzzer,address -I. tests/fuzz/idx.c libstarling.a ...
 * makes a fuzzer of it; in make check, driver.c feeds it a bounded number of mutated inputs. */
#ifndef SL_TESTS_FUZZ_H
#define SL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* 0 when the input was accepted, -1 when it was rejected; aborts when something that must hold does not. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
/* Writes valid input `number` into data and returns its length, at most room; 0 when there are no more. */
size_t fuzz_seed(int number, uint8_t *data, size_t room);

#endif
