/* Helpers for tests of files: a temporary folder, files with given bytes, a full disk, a read-only folder, and asserts
 * that show the library's error text. Includes cmocka.h and the headers that it needs. */
#ifndef SL_TESTS_SCRATCH_H
#define SL_TESTS_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <string.h>

#include "runtime/base/status.h"

/* cmocka setup and teardown of a fresh folder, whose path is *state. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* "folder/name"; one of a few buffers that take turns. */
const char *scratch_path(const char *folder, const char *name);
void scratch_write(const char *path, const void *bytes, size_t n);
char *scratch_read(const char *path, size_t *n); /* the caller frees it; NULL: no such file */
int scratch_entries(const char *folder);         /* number of entries, hidden ones included */
/* Mounts a file system of this size in bytes at folder, visible to this process only; 0 if that is not allowed. */
int scratch_small_disk(const char *folder, size_t bytes);
void scratch_small_disk_end(const char *folder);
/* Gives up root's right to write everywhere until _end; 0: this process can still write. */
int scratch_unprivileged(const char *folder);
void scratch_unprivileged_end(void);

#define assert_ok(expression)                                                                                      \
  do {                                                                                                             \
    sl_status scratch_status = (expression);                                                                       \
    if (scratch_status != SL_OK) fail_msg("%s: %s (%s)", #expression, sl_status_name(scratch_status), sl_error()); \
  } while (0)

/* Asserts that the call failed with this code, and with an error text that contains the given words. */
#define assert_fails(code, words, expression)                                                                          \
  do {                                                                                                                 \
    sl_status scratch_status = (expression);                                                                           \
    if (scratch_status != (code))                                                                                      \
      fail_msg("%s: %s where %s was expected (%s)", #expression, sl_status_name(scratch_status), sl_status_name(code), \
               scratch_status ? sl_error() : "");                                                                      \
    if (!strstr(sl_error(), words)) fail_msg("%s: \"%s\" does not say \"%s\"", #expression, sl_error(), words);        \
  } while (0)

/* Fails showing both values. */
#define assert_near(a, b, tolerance)                                         \
  do {                                                                       \
    const double near_a = (a), near_b = (b);                                 \
    if (!(near_a >= near_b - (tolerance) && near_a <= near_b + (tolerance))) \
      fail_msg("%s is %.17g and not %.17g", #a, near_a, near_b);             \
  } while (0)

#endif
