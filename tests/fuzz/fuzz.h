/* A fuzz target: libFuzzer's entry point, and a few valid inputs to start from. tests/figures/failures/fuzz.sh makes
 * fuzzers of the targets; in make check, driver.c feeds each a bounded number of mutated inputs. */
#ifndef SL_TESTS_FUZZ_H
#define SL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* 0 when the input was accepted, -1 when it was rejected; aborts when something that must hold does not. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
/* Writes valid input `number` into data and returns its length, at most room; 0 when there are no more. */
size_t fuzz_seed(int number, uint8_t *data, size_t room);

/* For targets whose reader wants a file's name. The folder is made once and removed at the end. */
enum { FUZZ_PATH = 128 };
const char *fuzz_folder(void);
const char *fuzz_path(const char *name, char path[FUZZ_PATH]); /* of a file in the folder; returns path */
void fuzz_write(const char *path, const void *bytes, size_t n);
/* A fuzz_seed whose inputs are n texts. */
size_t fuzz_text(const char *const *texts, int n, int number, uint8_t *data, size_t room);

#endif
