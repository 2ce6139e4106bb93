/* Makes one allocation fail: malloc, calloc and realloc here override glibc's. The command does not call failing_at; it
 * is controlled by environment variables: FAILING_RANK (MPICH's number of the process), FAILING_AT, and FAILING_LOG, a
 * file to which that rank writes its count of allocations at the end. FAILING_TRACE: shows where the allocation failed.
 */
#include "tests/support/failing.h"

#include <limits.h> /* __GLIBC__ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define FAILING_OFF 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define FAILING_OFF 1
#endif
#endif

#ifdef FAILING_OFF

int failing_possible(void) { return 0; }
void failing_at(long number) { (void)number; }
void failing_from(long number) { (void)number; }
long failing_end(void) { return 0; }

#else

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

enum { FRAMES = 24, RANGES = 32 };
typedef struct range {
  uintptr_t from, to;
} range;

static range program, passed[RANGES]; /* addresses of the program, and of libraries whose callers count */
static int passed_n;
static atomic_int counting;
static atomic_long count, chosen;
static atomic_int all_later;
static _Thread_local int inside;

static int in(range r, uintptr_t address) { return address >= r.from && address < r.to; }
static int in_passed(uintptr_t address) {
  for (int i = 0; i < passed_n; i++)
    if (in(passed[i], address)) return 1;
  return 0;
}

static int note_object(struct dl_phdr_info *object, size_t size, void *first) {
  range r = {UINTPTR_MAX, 0};
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &object->dlpi_phdr[i];
    if (h->p_type != PT_LOAD) continue;
    const uintptr_t from = object->dlpi_addr + h->p_vaddr, to = from + h->p_memsz;
    if (from < r.from) r.from = from;
    if (to > r.to) r.to = to;
  }
  if (*(int *)first)
    program = r, *(int *)first = 0;
  else if ((strstr(object->dlpi_name, "/libc.so") || strstr(object->dlpi_name, "/libjansson")) && passed_n < RANGES)
    passed[passed_n++] = r;
  return 0;
}

/* Whether the allocation requested at this address is Starling's: the nearest caller outside libc and jansson is the
 * program. */
static int ours(uintptr_t asked) {
  void *frame[FRAMES];
  int i = 0;
  if (in(program, asked)) return 1;
  if (!in_passed(asked)) return 0;
  const int n = backtrace(frame, FRAMES);
  while (i < n && (uintptr_t)frame[i] != asked) i++;
  while (i < n && in_passed((uintptr_t)frame[i])) i++;
  return i < n && in(program, (uintptr_t)frame[i]);
}

static int fails(uintptr_t asked) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed) || inside) return 0;
  inside = 1;
  const long n = ours(asked) ? atomic_fetch_add(&count, 1) + 1 : 0, first = atomic_load(&chosen);
  const int is_chosen = n > 0 && first > 0 && (n == first || (n > first && atomic_load(&all_later)));
  if (is_chosen && getenv("FAILING_TRACE")) {
    void *frame[FRAMES];
    backtrace_symbols_fd(frame, backtrace(frame, FRAMES), 2);
  }
  inside = 0;
  if (is_chosen) errno = ENOMEM;
  return is_chosen;
}

#define ASKED ((uintptr_t)__builtin_return_address(0))
void *malloc(size_t n) { return fails(ASKED) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return fails(ASKED) ? NULL : __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return fails(ASKED) ? NULL : __libc_realloc(p, n); }

int failing_possible(void) { return 1; }

void failing_at(long number) {
  atomic_store(&count, 0), atomic_store(&chosen, number), atomic_store(&all_later, 0);
  atomic_store(&counting, 1);
}

void failing_from(long number) {
  failing_at(number);
  atomic_store(&all_later, 1);
}

long failing_end(void) {
  atomic_store(&counting, 0);
  return atomic_load(&count);
}

__attribute__((constructor)) static void begin(void) {
  void *frame[1];
  int first = 1;
  backtrace(frame, 1); /* the first call loads a library */
  dl_iterate_phdr(note_object, &first);
  const char *rank = getenv("FAILING_RANK"), *mine = getenv("PMI_RANK"), *number = getenv("FAILING_AT");
  if (rank && mine && number && strcmp(rank, mine) == 0) failing_at(atol(number));
}

__attribute__((destructor)) static void end(void) {
  const char *log = getenv("FAILING_LOG");
  if (!atomic_load(&counting) || !log) return;
  const long n = failing_end();
  FILE *file = fopen(log, "w");
  if (file) fprintf(file, "%ld\n", n), fclose(file);
}

#endif
