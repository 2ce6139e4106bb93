/* JSON files by jansson, and its memory.
 *
 * jansson 2.14 does not withstand a failed allocation: its constructors leave out values that they could not make, and
 * its parser ends the process. So an allocation that fails is served from a reserve. If the reserve is used up too, the
 * thread remembers this, and the next function of this file that reads or writes JSON on this thread fails. */
#include "runtime/base/json.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"

enum { JSON_LIMIT_BYTES = 256 << 20 };

/* ---- memory ----------------------------------------------------------------------------------------------------- */

enum { RESERVE_BYTES = 1 << 18, ALIGNMENT = _Alignof(max_align_t) };
static _Alignas(max_align_t) char reserve[RESERVE_BYTES];
static struct {
  pthread_mutex_t lock;
  size_t used;   /* bytes from the beginning; 0 again when no block is left */
  size_t blocks; /* in use */
} in_reserve = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local int ran_out;

static void *allocate_from_reserve(size_t bytes) {
  void *block = NULL;
  const size_t n = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  pthread_mutex_lock(&in_reserve.lock);
  if (n >= bytes && n <= RESERVE_BYTES - in_reserve.used) {
    block = reserve + in_reserve.used;
    in_reserve.used += n, in_reserve.blocks++;
  }
  pthread_mutex_unlock(&in_reserve.lock);
  return block;
}

static void *allocate(size_t bytes) {
  void *block = malloc(bytes ? bytes : 1);
  if (!block && !(block = allocate_from_reserve(bytes))) ran_out = 1;
  return block;
}

static int is_in_reserve(const void *block) {
  return (uintptr_t)block >= (uintptr_t)reserve && (uintptr_t)block < (uintptr_t)reserve + RESERVE_BYTES;
}

static void release(void *block) {
  if (!is_in_reserve(block)) {
    free(block);
    return;
  }
  pthread_mutex_lock(&in_reserve.lock);
  if (--in_reserve.blocks == 0) in_reserve.used = 0;
  pthread_mutex_unlock(&in_reserve.lock);
}

__attribute__((constructor)) static void use_reserve(void) { json_set_alloc_funcs(allocate, release); }

/* Whether memory ran out on this thread since the last call. */
static int take_ran_out(void) {
  const int was = ran_out;
  ran_out = 0;
  return was;
}

/* ---- reading and writing ---------------------------------------------------------------------------------------- */

sl_status sl_json_parse(const char *text, size_t n, size_t flags, json_t **value, json_error_t *error) {
  json_error_t unseen;
  const int before = take_ran_out();
  if (!error) error = &unseen;
  memset(error, 0, sizeof *error);
  *value = json_loadb(text, n, flags | JSON_REJECT_DUPLICATES, error);
  const int now = take_ran_out();
  ran_out = before;
  if (!now) return *value ? SL_OK : sl_fail(SL_EFORMAT, "%s", error->text);
  json_decref(*value);
  *value = NULL;
  return sl_no_memory("for %zu bytes of JSON", n);
}

/* Parses a file's text, and frees it. */
static sl_status parse_file(const char *path, char *text, size_t n, json_t **value) {
  json_error_t error;
  const sl_status status = sl_json_parse(text, n, 0, value, &error);
  free(text);
  if (status != SL_EFORMAT) return status;
  return sl_fail(SL_EFORMAT, "%s, line %d, column %d: %s", path, error.line, error.column, error.text);
}

sl_status sl_json_read(const char *path, json_t **value) {
  char *text;
  size_t n;
  *value = NULL;
  SL_TRY(sl_file_read(path, JSON_LIMIT_BYTES, &text, &n));
  return parse_file(path, text, n, value);
}

sl_status sl_json_read_regular(const char *path, json_t **value) {
  char *text;
  size_t n;
  *value = NULL;
  SL_TRY(sl_file_read_regular(path, JSON_LIMIT_BYTES, &text, &n));
  return parse_file(path, text, n, value);
}

char *sl_json_text(const json_t *value, size_t flags) {
  char *text = value ? json_dumps(value, flags | JSON_ENCODE_ANY) : NULL;
  const int whole = !take_ran_out();
  if (text && whole && !is_in_reserve(text)) return text;
  char *own = text && whole ? strdup(text) : NULL; /* which the caller can free() */
  release(text);
  return own;
}

sl_status sl_json_print(FILE *to, const json_t *value, int digits) {
  char *text = sl_json_text(value, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
  if (!text) return sl_no_memory("for the figures as JSON");
  fprintf(to, "%s\n", text);
  free(text);
  return SL_OK;
}

sl_status sl_json_write(const char *path, const json_t *value) {
  if (!value) return sl_fail(SL_EINVAL, "nothing to write to %s: a value could not be made JSON", path);
  char *text = sl_json_text(value, JSON_INDENT(2));
  if (!text) return sl_no_memory("for writing %s", path);
  sl_file *file;
  sl_status status = sl_file_create(path, &file);
  if (status == SL_OK) {
    status = sl_file_write(file, text, strlen(text));
    if (status == SL_OK) status = sl_file_write(file, "\n", 1);
    if (status == SL_OK)
      status = sl_file_commit(file);
    else
      sl_file_discard(file);
  }
  free(text);
  return status;
}
