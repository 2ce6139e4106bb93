/* Feeds a fuzz target a bounded number of mutated inputs, so that it runs in make check without libFuzzer. Input N
 * depends on N alone: after a crash, whose last line names N, `PROGRAM N` repeats it under a debugger. `PROGRAM --seeds
 * DIR` writes the inputs to start from as files, for libFuzzer, which has a main of its own (SL_LIBFUZZER). */
#ifndef SL_LIBFUZZER
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { INPUTS = 20000, ROOM = 8192, MOST_SEEDS = 16, MOST_MUTATIONS = 6, SECONDS = 1800 };

static volatile int current;
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell(void) {
  char text[64];
  const int n = snprintf(text, sizeof text, "\nnot ok 1 - input %d\n", current);
  if (write(STDOUT_FILENO, text, (size_t)n) < 0) _exit(98);
}

static void on_signal(int number) {
  tell();
  signal(number, SIG_DFL);
  raise(number);
}

/* splitmix64 */
static uint64_t draw(uint64_t *state, uint64_t below) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) % below;
}

static size_t mutate(uint8_t *data, size_t n, uint64_t *state) {
  static const uint64_t numbers[] = {0,
                                     1,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff};
  static const char *const words[] = {"0",          "9",    "-",           "1e9", "[",
                                      "]",          "{",    "}",           "\"",  ",",
                                      ":",          "null", "\\u0000",     " ",   "18446744073709551615",
                                      "4294967296", "F64",  "__metadata__"};
  const size_t at = n ? draw(state, n) : 0;
  switch (draw(state, 8)) {
    case 0: /* one bit */
      if (n) data[at] ^= (uint8_t)(1 << draw(state, 8));
      break;
    case 1: /* one byte */
      if (n) data[at] = (uint8_t)draw(state, 256);
      break;
    case 2: { /* a number of 1, 2, 4 or 8 bytes, of either order */
      const uint64_t number = numbers[draw(state, sizeof numbers / sizeof *numbers)], big = draw(state, 2);
      const size_t bytes = (size_t)1 << draw(state, 4);
      for (size_t b = 0; b < bytes && at + b < n; b++)
        data[at + b] = (uint8_t)(number >> 8 * (big ? bytes - 1 - b : b));
      break;
    }
    case 3: /* cut */
      n = at;
      break;
    case 4: { /* lengthen */
      const size_t more = draw(state, 32);
      for (size_t b = 0; b < more && n < ROOM; b++) data[n++] = (uint8_t)draw(state, 256);
      break;
    }
    case 5: { /* remove a stretch */
      const size_t less = draw(state, n - at + 1);
      memmove(data + at, data + at + less, n - at - less);
      n -= less;
      break;
    }
    case 6: { /* double a stretch */
      size_t more = n - at ? draw(state, n - at) : 0;
      if (n + more > ROOM) more = ROOM - n;
      memmove(data + at + more, data + at, n - at);
      n += more;
      break;
    }
    default: { /* overwrite a word */
      const char *word = words[draw(state, sizeof words / sizeof *words)];
      for (size_t b = 0; word[b] && at + b < n; b++) data[at + b] = (uint8_t)word[b];
    }
  }
  return n;
}

static int run(int number, uint8_t seeds[][ROOM], const size_t *lengths, int count) {
  uint64_t state = (uint64_t)number;
  const uint64_t seed = draw(&state, (uint64_t)count);
  uint8_t data[ROOM];
  size_t n = lengths[seed];
  memcpy(data, seeds[seed], n);
  for (uint64_t m = draw(&state, MOST_MUTATIONS + 1); m > 0; m--) n = mutate(data, n, &state);
  uint8_t *exact = malloc(n ? n : 1); /* so that a read beyond it is detected */
  if (!exact) abort();
  memcpy(exact, data, n);
  current = number;
  const int result = LLVMFuzzerTestOneInput(exact, n);
  free(exact);
  return result;
}

int main(int argc, char *argv[]) {
  static uint8_t seeds[MOST_SEEDS][ROOM];
  size_t lengths[MOST_SEEDS];
  int count = 0, accepted = 0;
  while (count < MOST_SEEDS && (lengths[count] = fuzz_seed(count, seeds[count], ROOM)) > 0) count++;
  signal(SIGABRT, on_signal), signal(SIGSEGV, on_signal), signal(SIGBUS, on_signal), signal(SIGALRM, on_signal);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(tell);
  if (argc > 2 && strcmp(argv[1], "--seeds") == 0) {
    for (int s = 0; s < count; s++) {
      char path[4096];
      snprintf(path, sizeof path, "%s/seed-%d", argv[2], s);
      fuzz_write(path, seeds[s], lengths[s]);
    }
    return 0;
  }
  if (argc > 1) {
    printf("input %s: %s\n", argv[1], run(atoi(argv[1]), seeds, lengths, count) ? "rejected" : "accepted");
    return 0;
  }
  printf("1..1\n");
  fflush(stdout);
  for (int s = 0; s < count; s++) {
    current = -1 - s; /* the seeds themselves */
    if (LLVMFuzzerTestOneInput(seeds[s], lengths[s]) != 0) abort();
  }
  alarm(SECONDS);
  for (int i = 0; i < INPUTS; i++) accepted += run(i, seeds, lengths, count) == 0;
  const int right = count > 0 && accepted > 0 && accepted < INPUTS; /* else the inputs did not reach both outcomes */
  printf("%sok 1 - %d mutated inputs, %d accepted\n", right ? "" : "not ", INPUTS, accepted);
  return !right;
}
#endif
