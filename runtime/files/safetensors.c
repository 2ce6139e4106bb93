/* Reads and writes safetensors files. Layout: 8 bytes with the header's length N (little-endian); N bytes of JSON,
 * padded with spaces; the data. data_offsets count from the data's first byte. */
#include "runtime/files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"

/* MOST_BYTES: limit on one read. Reads stay short, so that a disk that hangs can be told from a slow one. */
enum {
  MOST_BYTES = 1 << 26,
  LENGTH_BYTES = 8,
  HEADER_LIMIT_BYTES = 100 * 1000 * 1000 /* the format's own */,
  ALIGNMENT = 8
};
#define METADATA "__metadata__"

typedef struct entry {
  sl_named_array array; /* first member: sl_safetensors_get returns its address */
  int64_t begin, end;   /* within the data */
} entry;

struct sl_safetensors {
  char *path;
  int fd;
  json_t *header;        /* owns the names */
  entry *entries;        /* [count], by begin */
  const entry **by_name; /* [count] */
  int count;
  int64_t data_start, data_bytes; /* in the file */
};

/* Reads n bytes at offset; *got < n only at the end of the file. */
static sl_status read_at(int fd, const char *path, void *bytes, size_t n, int64_t offset, size_t *got) {
  for (*got = 0; *got < n;) {
    const size_t want = n - *got < MOST_BYTES ? n - *got : MOST_BYTES;
    const ssize_t gave = SL_CALL_OF_FILE("read", path, pread(fd, (char *)bytes + *got, want, offset + (int64_t)*got));
    if (gave < 0 && errno == EINTR) continue;
    if (gave < 0) return sl_fail(SL_EIO, "cannot read %s: %s", path, strerror(errno));
    if (gave == 0) break;
    *got += (size_t)gave;
  }
  return SL_OK;
}

static sl_status read_header(sl_safetensors *st) {
  struct stat info;
  uint8_t length[LENGTH_BYTES];
  size_t got;
  if (fstat(st->fd, &info) != 0) return sl_fail(SL_EIO, "cannot read %s: %s", st->path, strerror(errno));
  SL_TRY(read_at(st->fd, st->path, length, sizeof length, 0, &got));
  if (got < sizeof length)
    return sl_fail(SL_EFORMAT, "%s: truncated, %zu of the 8 bytes of the header's length at offset 0", st->path, got);
  uint64_t n = 0;
  for (int b = 0; b < LENGTH_BYTES; b++) n |= (uint64_t)length[b] << 8 * b;
  if (n > HEADER_LIMIT_BYTES)
    return sl_fail(SL_EFORMAT, "%s: a header of %" PRIu64 " bytes (offset 0) is beyond the format's limit of %d",
                   st->path, n, HEADER_LIMIT_BYTES);
  if (n > (uint64_t)info.st_size - LENGTH_BYTES)
    return sl_fail(SL_EFORMAT, "%s: truncated, a header of %" PRIu64 " bytes in a file of %lld", st->path, n,
                   (long long)info.st_size);
  char *text = malloc((size_t)n + 1);
  if (!text) return sl_no_memory("for the header of %s", st->path);
  json_error_t error = {0};
  sl_status status = read_at(st->fd, st->path, text, (size_t)n, LENGTH_BYTES, &got);
  if (status == SL_OK && got == n && n > 0 && text[0] == '{')
    status = sl_json_parse(text, (size_t)n, 0, &st->header, &error);
  free(text);
  if (status != SL_OK && status != SL_EFORMAT) return status;
  if (!st->header && error.text[0])
    return sl_fail(SL_EFORMAT, "%s: malformed header near offset %d: %s", st->path, LENGTH_BYTES + error.position,
                   error.text);
  if (!json_is_object(st->header))
    return sl_fail(SL_EFORMAT, "%s: the header does not begin with '{' at offset %d", st->path, LENGTH_BYTES);
  st->data_start = LENGTH_BYTES + (int64_t)n;
  st->data_bytes = info.st_size - st->data_start;
  return SL_OK;
}

static sl_status read_dtype(const sl_safetensors *st, const char *name, const json_t *value, sl_dtype *dtype) {
  static const char *const others[] = {"I8", "U16", "I16", "U32", "U64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "C64"};
  const char *text = json_string_value(value);
  if (!text) return sl_fail(SL_EFORMAT, "%s: tensor %.200s has no dtype", st->path, name);
  if (strcmp(text, "BOOL") == 0) text = sl_dtype_name(SL_U8); /* masks of other libraries: a byte each */
  for (int d = 0; d < SL_DTYPE_COUNT; d++)
    if (strcmp(text, sl_dtype_name((sl_dtype)d)) == 0) {
      *dtype = (sl_dtype)d;
      return SL_OK;
    }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(text, others[i]) == 0)
      return sl_fail(SL_EUNSUPPORTED, "%s: tensor %.200s has dtype %s, which Starling lacks", st->path, name, text);
  return sl_fail(SL_EFORMAT, "%s: tensor %.200s has the unknown dtype %.40s", st->path, name, text);
}

/* Reads one value of the header: {"dtype": "F32", "shape": [64, 10], "data_offsets": [0, 2560]}. */
static sl_status read_entry(const sl_safetensors *st, const char *name, const json_t *value, entry *e) {
  const json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
  e->array.name = name;
  SL_TRY(read_dtype(st, name, json_object_get(value, "dtype"), &e->array.dtype));
  if (!json_is_array(shape)) return sl_fail(SL_EFORMAT, "%s: tensor %.200s has no shape", st->path, name);
  if (json_array_size(shape) > SL_MAX_DIMS)
    return sl_fail(SL_EUNSUPPORTED, "%s: tensor %.200s has %zu dimensions; at most %d are supported", st->path, name,
                   json_array_size(shape), SL_MAX_DIMS);
  e->array.shape.ndim = (int)json_array_size(shape);
  int64_t bytes = (int64_t)sl_dtype_bytes(e->array.dtype);
  int empty = 0, overflow = 0;
  for (int d = 0; d < e->array.shape.ndim; d++) {
    const json_t *item = json_array_get(shape, (size_t)d);
    const int64_t dim = json_is_integer(item) ? json_integer_value(item) : -1;
    if (dim < 0)
      return sl_fail(SL_EFORMAT, "%s: dimension %d of tensor %.200s is not a whole number from 0", st->path, d, name);
    e->array.shape.dim[d] = dim;
    empty |= dim == 0;
    overflow |= dim && __builtin_mul_overflow(bytes, dim, &bytes);
  }
  if (overflow) return sl_fail(SL_EFORMAT, "%s: the shape of tensor %.200s overflows", st->path, name);
  if (empty) bytes = 0;
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
    return sl_fail(SL_EFORMAT, "%s: tensor %.200s has no data_offsets of two whole numbers", st->path, name);
  e->begin = json_integer_value(begin), e->end = json_integer_value(end);
  if (e->begin < 0 || e->begin > e->end)
    return sl_fail(SL_EFORMAT, "%s: tensor %.200s has data_offsets [%" PRId64 ", %" PRId64 "] that do not ascend",
                   st->path, name, e->begin, e->end);
  if (e->end > st->data_bytes)
    return sl_fail(SL_EFORMAT,
                   "%s: tensor %.200s ends at data offset %" PRId64 " but the data, from file offset %" PRId64
                   ", have %" PRId64 " bytes (truncated?)",
                   st->path, name, e->end, st->data_start, st->data_bytes);
  if (e->end - e->begin != bytes) {
    char text[SL_SHAPE_TEXT];
    return sl_fail(SL_EFORMAT,
                   "%s: tensor %.200s at data offset %" PRId64 " has %" PRId64
                   " bytes where %s of shape %s takes %" PRId64,
                   st->path, name, e->begin, e->end - e->begin, sl_dtype_name(e->array.dtype),
                   sl_shape_text(&e->array.shape, text, sizeof text), bytes);
  }
  return SL_OK;
}

static int by_begin(const void *left, const void *right) {
  const entry *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return (a->end > b->end) - (a->end < b->end); /* empty tensors before a tensor that begins at the same offset */
}

static int by_name(const void *left, const void *right) {
  return strcmp((*(const entry *const *)left)->array.name, (*(const entry *const *)right)->array.name);
}

/* Checks that the tensors' data fills the rest of the file without gaps or overlaps. */
static sl_status check_tiling(const sl_safetensors *st) {
  int64_t at = 0;
  for (int i = 0; i < st->count; i++) {
    const entry *e = &st->entries[i];
    if (e->begin < at)
      return sl_fail(SL_EFORMAT,
                     "%s: tensor %.200s at data offset %" PRId64 " overlaps tensor %.200s, which ends at %" PRId64,
                     st->path, e->array.name, e->begin, st->entries[i - 1].array.name, at);
    if (e->begin > at)
      return sl_fail(SL_EFORMAT, "%s: a hole in the data from offset %" PRId64 " to tensor %.200s at %" PRId64,
                     st->path, at, e->array.name, e->begin);
    at = e->end;
  }
  if (at != st->data_bytes)
    return sl_fail(SL_EFORMAT,
                   "%s: %" PRId64 " bytes after the last tensor, from data offset %" PRId64 " (file offset %" PRId64
                   ")",
                   st->path, st->data_bytes - at, at, st->data_start + at);
  return SL_OK;
}

static sl_status read_entries(sl_safetensors *st) {
  const char *name, *key;
  json_t *value, *text;
  st->entries = calloc(json_object_size(st->header) + 1, sizeof *st->entries);
  if (!st->entries) return sl_no_memory("for the header of %s", st->path);
  json_object_foreach(st->header, name, value) {
    if (!json_is_object(value))
      return sl_fail(SL_EFORMAT, "%s: the header's value of %.200s is not an object", st->path, name);
    if (!sl_text_is_plain(name))
      return sl_fail(SL_EFORMAT, "%s: the name %.200s has control characters", st->path, name);
    if (strcmp(name, METADATA) == 0) {
      json_object_foreach(value, key, text) {
        if (!json_is_string(text)) return sl_fail(SL_EFORMAT, "%s: %s.%.200s is not a string", st->path, METADATA, key);
      }
    } else {
      SL_TRY(read_entry(st, name, value, &st->entries[st->count]));
      st->count++;
    }
  }
  qsort(st->entries, (size_t)st->count, sizeof *st->entries, by_begin);
  st->by_name = malloc(((size_t)st->count + 1) * sizeof *st->by_name);
  if (!st->by_name) return sl_no_memory("for the header of %s", st->path);
  for (int i = 0; i < st->count; i++) st->by_name[i] = &st->entries[i];
  qsort(st->by_name, (size_t)st->count, sizeof *st->by_name, by_name);
  return check_tiling(st);
}

sl_status sl_safetensors_open(const char *path, sl_safetensors **result) {
  sl_status status = SL_OK;
  *result = NULL;
  sl_safetensors *st = calloc(1, sizeof *st);
  if (!st) return sl_no_memory("for reading %s", path);
  st->fd = -1;
  if (!(st->path = strdup(path))) SL_TRY_OUT(sl_no_memory("for reading %s", path));
  SL_TRY_OUT(sl_file_open_regular(path, O_RDONLY | O_CLOEXEC, 0, &st->fd));
  SL_TRY_OUT(read_header(st));
  SL_TRY_OUT(read_entries(st));
  *result = st;
  st = NULL;
out:
  sl_safetensors_close(st);
  return status;
}

void sl_safetensors_close(sl_safetensors *st) {
  if (!st) return;
  if (st->fd >= 0) close(st->fd);
  json_decref(st->header);
  free(st->entries), free(st->by_name), free(st->path), free(st);
}

int sl_safetensors_count(const sl_safetensors *st) { return st->count; }
const sl_named_array *sl_safetensors_get(const sl_safetensors *st, int i) { return &st->entries[i].array; }

int sl_safetensors_find(const sl_safetensors *st, const char *name) {
  const entry key = {.array = {.name = name}}, *wanted = &key;
  if (st->count == 0) return -1;
  const entry **found = bsearch(&wanted, st->by_name, (size_t)st->count, sizeof *st->by_name, by_name);
  return found ? (int)(*found - st->entries) : -1;
}

const char *sl_safetensors_metadata(const sl_safetensors *st, const char *key) {
  return json_string_value(json_object_get(json_object_get(st->header, METADATA), key));
}

sl_status sl_safetensors_read(const sl_safetensors *st, int i, void *data) {
  const entry *e = &st->entries[i];
  size_t got;
  SL_TRY(read_at(st->fd, st->path, data, (size_t)(e->end - e->begin), st->data_start + e->begin, &got));
  if ((int64_t)got < e->end - e->begin)
    return sl_fail(SL_EFORMAT, "%s: cut short while being read, in tensor %.200s at data offset %" PRId64, st->path,
                   e->array.name, e->begin + (int64_t)got);
  return SL_OK;
}

/* The error for a name or text that jansson refused: it is not UTF-8, or memory ran out. */
static sl_status refused(const char *path, const char *what, const char *name, const char *text) {
  json_t *probe = json_string(text); /* fails if the text is not UTF-8 */
  const sl_status status = probe ? sl_no_memory("for the header of %s", path)
                                 : sl_fail(SL_EINVAL, "cannot write %s: %s %.200s is not UTF-8", path, what, name);
  json_decref(probe);
  return status;
}

/* Makes the header as JSON; the caller must free(*text). */
static sl_status make_header(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                             int nmetadata, char **text) {
  sl_status status = SL_OK;
  int64_t at = 0;
  json_t *header = json_object(), *pairs = nmetadata > 0 ? json_object() : NULL;
  for (int i = 0; i < nmetadata; i++)
    if (json_object_set_new(pairs, metadata[i][0], json_string(metadata[i][1])) != 0)
      SL_TRY_OUT(refused(path, "metadata", metadata[i][0], metadata[i][1]));
  if (pairs && json_object_set(header, METADATA, pairs) != 0) SL_TRY_OUT(sl_no_memory("for the header of %s", path));
  for (int i = 0; i < n; i++) {
    const sl_named_array *a = &arrays[i];
    if (strcmp(a->name, METADATA) == 0 || json_object_get(header, a->name))
      SL_TRY_OUT(sl_fail(SL_EINVAL, "cannot write %s: the name %.200s is %s", path, a->name,
                         strcmp(a->name, METADATA) ? "given to two tensors" : "reserved"));
    const int64_t end = at + sl_shape_count(&a->shape) * (int64_t)sl_dtype_bytes(a->dtype);
    json_t *shape = json_array();
    int whole = shape != NULL;
    for (int d = 0; d < a->shape.ndim && whole; d++)
      whole = json_array_append_new(shape, json_integer(a->shape.dim[d])) == 0;
    json_t *value = json_pack("{s:s, s:o, s:[I, I]}", "dtype", sl_dtype_name(a->dtype), "shape", shape, "data_offsets",
                              (json_int_t)at, (json_int_t)end);
    if (json_object_set_new(header, a->name, value) != 0) SL_TRY_OUT(refused(path, "the name", a->name, a->name));
    if (!whole) SL_TRY_OUT(sl_no_memory("for the header of %s", path));
    at = end;
  }
  *text = sl_json_text(header, JSON_COMPACT);
  if (!*text) SL_TRY_OUT(sl_no_memory("for the header of %s", path));
  if (strlen(*text) > HEADER_LIMIT_BYTES - ALIGNMENT) {
    free(*text);
    SL_TRY_OUT(sl_fail(SL_EINVAL, "cannot write %s: its header is beyond the format's limit", path));
  }
out:
  json_decref(pairs), json_decref(header);
  return status;
}

sl_status sl_safetensors_head(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                              int nmetadata, char **bytes, size_t *size) {
  char *text = NULL;
  *bytes = NULL, *size = 0;
  SL_TRY(make_header(path, arrays, n, metadata, nmetadata, &text));
  const size_t used = strlen(text), padded = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  char *head = malloc(LENGTH_BYTES + padded);
  if (head) {
    for (int b = 0; b < LENGTH_BYTES; b++) head[b] = (char)((uint64_t)padded >> 8 * b & 255);
    memcpy(head + LENGTH_BYTES, text, used);
    memset(head + LENGTH_BYTES + used, ' ', padded - used);
    *bytes = head, *size = LENGTH_BYTES + padded;
  }
  free(text);
  return head ? SL_OK : sl_no_memory("for the header of %s", path);
}

sl_status sl_safetensors_pack(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                              int nmetadata, char **bytes, size_t *size) {
  char *head, *whole;
  size_t used;
  *bytes = NULL, *size = 0;
  SL_TRY(sl_safetensors_head(path, arrays, n, metadata, nmetadata, &head, &used));
  size_t total = used;
  for (int i = 0; i < n; i++) total += (size_t)sl_shape_count(&arrays[i].shape) * sl_dtype_bytes(arrays[i].dtype);
  if ((whole = realloc(head, total))) {
    for (int i = 0; i < n; i++) {
      const size_t each = (size_t)sl_shape_count(&arrays[i].shape) * sl_dtype_bytes(arrays[i].dtype);
      if (each) memcpy(whole + used, arrays[i].data, each);
      used += each;
    }
    *bytes = whole, *size = total;
    return SL_OK;
  }
  free(head);
  return sl_no_memory("for the %zu bytes of %s", total, path);
}

sl_status sl_safetensors_write(const char *path, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                               int nmetadata) {
  char *head = NULL;
  size_t size;
  sl_file *file = NULL;
  sl_status status = SL_OK;
  SL_TRY(sl_safetensors_head(path, arrays, n, metadata, nmetadata, &head, &size));
  SL_TRY_OUT(sl_file_create(path, &file));
  SL_TRY_OUT(sl_file_write(file, head, size));
  for (int i = 0; i < n; i++)
    SL_TRY_OUT(sl_file_write(file, arrays[i].data,
                             (size_t)sl_shape_count(&arrays[i].shape) * sl_dtype_bytes(arrays[i].dtype)));
  status = sl_file_commit(file);
  file = NULL;
out:
  sl_file_discard(file);
  free(head);
  return status;
}
