/* Reads and writes IDX files. One stream reads files and memory, and inflates content that begins like gzip. Memory
 * grows with the bytes that arrive, whatever the header promises. */
#include "runtime/data/idx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"

enum { INPUT_BYTES = 256 << 10, FIRST_ROOM = 1 << 20, ALIGNMENT = 64 };

/* type byte, bytes per element in the file, dtype in memory */
static const struct {
  uint8_t code, bytes;
  sl_dtype dtype;
} types[] = {{0x08, 1, SL_U8},  {0x09, 1, SL_I32}, {0x0B, 2, SL_I32},
             {0x0C, 4, SL_I32}, {0x0D, 4, SL_F32}, {0x0E, 8, SL_F64}};
enum { TYPES = sizeof types / sizeof *types };

/* Bytes of a file (fd >= 0, buffered) or of memory (fd < 0), inflated if they are gzip. */
typedef struct stream {
  const char *name;
  int fd;
  uint8_t *buffer;   /* INPUT_BYTES, of a file */
  const uint8_t *at; /* input not yet used ... */
  size_t left;       /* ... and its length */
  int64_t size;      /* bytes of input in all; -1 when unknown (a pipe) */
  int64_t given;     /* bytes of output so far */
  int zipped;
  int member_ended;
  z_stream z;
} stream;

static sl_status refill(stream *s) {
  if (s->left > 0 || s->fd < 0) return SL_OK;
  const ssize_t got = sl_file_get(s->fd, s->name, s->buffer, INPUT_BYTES);
  if (got < 0) return sl_fail(SL_EIO, "cannot read %s: %s", s->name, strerror(errno));
  s->at = s->buffer, s->left = (size_t)got;
  return SL_OK;
}

static sl_status stream_start(stream *s) {
  SL_TRY(refill(s));
  s->zipped = s->left >= 2 && s->at[0] == 0x1f && s->at[1] == 0x8b;
  if (s->zipped && inflateInit2(&s->z, 15 + 16) != Z_OK) {
    s->zipped = 0;
    return sl_no_memory("for reading %s", s->name);
  }
  return SL_OK;
}

static void stream_end(stream *s) {
  if (s->zipped) inflateEnd(&s->z);
  if (s->fd >= 0) close(s->fd);
  free(s->buffer);
}

/* Reads up to n bytes of output; *got < n only at the end of the input. Errors: a gzip file that ends early or fails
 * its checksum, and bytes after its end that are neither zeros nor another gzip member. */
static sl_status stream_read(stream *s, uint8_t *out, size_t n, size_t *got) {
  for (*got = 0; *got < n;) {
    SL_TRY(refill(s));
    size_t want = n - *got < (size_t)1 << 30 ? n - *got : (size_t)1 << 30, gave;
    if (!s->zipped) {
      if (s->left == 0) break;
      gave = want < s->left ? want : s->left;
      memcpy(out + *got, s->at, gave);
      s->at += gave, s->left -= gave;
    } else {
      if (s->member_ended) {
        while (s->left > 0 && s->at[0] == 0) { /* padding, as tapes add it; gzip ignores it too */
          s->at++, s->left--;
          SL_TRY(refill(s));
        }
        if (s->left == 0) break;
        if (s->at[0] != 0x1f)
          return sl_fail(SL_EFORMAT, "%s: bytes after the end of the gzip data; fetch the file again", s->name);
        inflateReset(&s->z);
        s->member_ended = 0;
      }
      if (s->left == 0)
        return sl_fail(SL_EFORMAT, "%s: truncated gzip, ends after %" PRId64 " unpacked bytes; fetch the file again",
                       s->name, s->given);
      s->z.next_in = (Bytef *)s->at, s->z.avail_in = (uInt)(s->left < (size_t)1 << 30 ? s->left : (size_t)1 << 30);
      s->z.next_out = out + *got, s->z.avail_out = (uInt)want;
      const uInt in = s->z.avail_in;
      int result = inflate(&s->z, Z_NO_FLUSH);
      s->at += in - s->z.avail_in, s->left -= in - s->z.avail_in;
      gave = want - s->z.avail_out;
      if (result == Z_STREAM_END)
        s->member_ended = 1;
      else if (result == Z_MEM_ERROR)
        return sl_no_memory("for reading %s", s->name);
      else if (result != Z_OK && result != Z_BUF_ERROR)
        return sl_fail(SL_EFORMAT, "%s: corrupt gzip after %" PRId64 " unpacked bytes (%s); fetch the file again",
                       s->name, s->given + (int64_t)gave, s->z.msg ? s->z.msg : "invalid data");
    }
    *got += gave, s->given += (int64_t)gave;
  }
  return SL_OK;
}

/* Checks that the input ends here. stream_read returns a member's last bytes before it has read the checksum, so this
 * reads on. */
static sl_status stream_expect_end(stream *s, const char *promise) {
  uint8_t byte;
  size_t got;
  SL_TRY(stream_read(s, &byte, 1, &got));
  if (got)
    return sl_fail(SL_EFORMAT, "%s: oversized, has bytes after the %s that its header promises", s->name, promise);
  return SL_OK;
}

static uint32_t big32(const uint8_t *b) {
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

typedef struct header {
  int type; /* in types[] */
  sl_shape shape;
  int64_t count, bytes; /* number of elements, and their bytes in the file */
  char text[160];       /* "60000 x 28 x 28 elements of 1 byte" */
} header;

static sl_status read_header(stream *s, header *h) {
  uint8_t magic[4], dims[4 * SL_IDX_MAX_DIMS];
  size_t got;
  SL_TRY(stream_read(s, magic, sizeof magic, &got));
  if (got < sizeof magic)
    return sl_fail(SL_EFORMAT, "%s: truncated, has %zu of the 4 bytes that an IDX file begins with", s->name, got);
  if (magic[0] || magic[1])
    return sl_fail(SL_EFORMAT, "%s: not an IDX file, begins with bytes %02x %02x instead of 00 00", s->name, magic[0],
                   magic[1]);
  for (h->type = 0; h->type < TYPES && types[h->type].code != magic[2];) h->type++;
  if (h->type == TYPES)
    return sl_fail(SL_EFORMAT, "%s: unknown IDX element type 0x%02x (known: 08 09 0b 0c 0d 0e)", s->name, magic[2]);
  if (magic[3] < 1 || magic[3] > SL_IDX_MAX_DIMS)
    return sl_fail(SL_EFORMAT, "%s: %d dimensions; 1 to %d are supported", s->name, magic[3], SL_IDX_MAX_DIMS);
  h->shape.ndim = magic[3];
  SL_TRY(stream_read(s, dims, 4 * (size_t)h->shape.ndim, &got));
  if (got < 4 * (size_t)h->shape.ndim)
    return sl_fail(SL_EFORMAT, "%s: truncated in the header, after %zu of %d dimensions", s->name, got / 4,
                   h->shape.ndim);
  h->count = 1;
  int overflow = 0, used = 0;
  for (int d = 0; d < h->shape.ndim; d++) {
    h->shape.dim[d] = big32(dims + 4 * d);
    overflow |= __builtin_mul_overflow(h->count, h->shape.dim[d], &h->count);
    used += snprintf(h->text + used, sizeof h->text - (size_t)used, "%s%" PRId64, d ? " x " : "", h->shape.dim[d]);
  }
  const int bytes = types[h->type].bytes;
  snprintf(h->text + used, sizeof h->text - (size_t)used, " elements of %d byte%s", bytes, bytes > 1 ? "s" : "");
  overflow |= h->count > INT64_MAX / 64; /* room for widening to any type */
  if (overflow) return sl_fail(SL_EFORMAT, "%s: the header's %s overflow", s->name, h->text);
  h->bytes = h->count * bytes;
  return SL_OK;
}

static void *aligned(size_t bytes) { return aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT); }

static sl_status out_of_memory(const stream *s, int64_t bytes) {
  return sl_no_memory("for %s (%" PRId64 " bytes)", s->name, bytes);
}

/* Bytes of output that remain; -1: unknown before they are read. */
static int64_t length_behind(const stream *s) { return s->zipped || s->size < 0 ? -1 : s->size - s->given; }

static sl_status check_length(const stream *s, const header *h) {
  const int64_t behind = length_behind(s);
  if (behind >= 0 && behind < h->bytes)
    return sl_fail(SL_EFORMAT,
                   "%s: truncated, the header promises %s but only %" PRId64 " of %" PRId64 " bytes are there", s->name,
                   h->text, behind, h->bytes);
  if (behind > h->bytes)
    return sl_fail(SL_EFORMAT, "%s: oversized, has %" PRId64 " bytes after the %s that its header promises", s->name,
                   behind - h->bytes, h->text);
  return SL_OK;
}

/* Reads the h->bytes bytes of the elements, big-endian as in the file. */
static sl_status read_elements(stream *s, const header *h, uint8_t **elements) {
  sl_status status = SL_OK;
  SL_TRY(check_length(s, h));
  const int64_t behind = length_behind(s);
  int64_t room = behind >= 0 || h->bytes < FIRST_ROOM ? h->bytes : FIRST_ROOM, used = 0;
  uint8_t *bytes = aligned((size_t)room);
  if (!bytes) SL_TRY_OUT(out_of_memory(s, room));
  for (;;) {
    size_t got;
    SL_TRY_OUT(stream_read(s, bytes + used, (size_t)(room - used), &got));
    used += (int64_t)got;
    if (used == h->bytes) break;
    if (used < room)
      SL_TRY_OUT(sl_fail(SL_EFORMAT,
                         "%s: truncated, the header promises %s but only %" PRId64 " of %" PRId64 " bytes are there",
                         s->name, h->text, used, h->bytes));
    room = room < h->bytes / 2 ? 2 * room : h->bytes;
    uint8_t *larger = aligned((size_t)room);
    if (!larger) SL_TRY_OUT(out_of_memory(s, room));
    memcpy(larger, bytes, (size_t)used);
    free(bytes);
    bytes = larger;
  }
  SL_TRY_OUT(stream_expect_end(s, h->text));
  *elements = bytes;
  return SL_OK;
out:
  free(bytes);
  return status;
}

static void swap_elements(uint8_t *data, int64_t count, int bytes) {
  if (bytes == 4)
    for (int64_t i = 0; i < count; i++) {
      uint32_t x = big32(data + 4 * i);
      memcpy(data + 4 * i, &x, 4);
    }
  if (bytes == 8)
    for (int64_t i = 0; i < count; i++) {
      uint64_t x = (uint64_t)big32(data + 8 * i) << 32 | big32(data + 8 * i + 4);
      memcpy(data + 8 * i, &x, 8);
    }
}

static sl_status read_stream(stream *s, sl_idx *idx) {
  header h = {0};
  uint8_t *elements = NULL;
  SL_TRY(stream_start(s));
  SL_TRY(read_header(s, &h));
  SL_TRY(read_elements(s, &h, &elements));
  const int bytes = types[h.type].bytes;
  if (types[h.type].dtype == SL_I32 && bytes < 4) { /* signed byte or short */
    int32_t *wide = aligned((size_t)h.count * 4);
    if (!wide) {
      free(elements);
      return out_of_memory(s, h.count * 4);
    }
    for (int64_t i = 0; i < h.count; i++)
      wide[i] = bytes == 1 ? (int8_t)elements[i] : (int16_t)(elements[2 * i] << 8 | elements[2 * i + 1]);
    free(elements);
    elements = (uint8_t *)wide;
  } else {
    swap_elements(elements, h.count, bytes);
  }
  *idx = (sl_idx){.dtype = types[h.type].dtype, .shape = h.shape, .data = elements};
  return SL_OK;
}

sl_status sl_idx_read(const char *path, sl_idx *idx) {
  memset(idx, 0, sizeof *idx);
  stream s = {.name = path, .size = -1};
  s.fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (s.fd < 0) return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(errno));
  struct stat info;
  if (fstat(s.fd, &info) == 0 && S_ISREG(info.st_mode)) s.size = info.st_size;
  s.buffer = malloc(INPUT_BYTES);
  sl_status status = s.buffer ? read_stream(&s, idx) : out_of_memory(&s, INPUT_BYTES);
  stream_end(&s);
  return status;
}

sl_status sl_idx_read_bytes(const char *name, const void *bytes, size_t n, sl_idx *idx) {
  memset(idx, 0, sizeof *idx);
  stream s = {.name = name, .fd = -1, .at = bytes, .left = n, .size = (int64_t)n};
  sl_status status = read_stream(&s, idx);
  stream_end(&s);
  return status;
}

sl_status sl_idx_map(const char *path, sl_idx_mapping *mapping) {
  stream s = {.name = path, .fd = -1};
  header h = {0};
  struct stat info;
  sl_status status = SL_OK;
  memset(mapping, 0, sizeof *mapping);
  const int fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(errno));
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s cannot be mapped: it is empty or not a regular file", path));
  if (sl_mapping_open(fd, path, (size_t)info.st_size, &mapping->file) != SL_OK)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s", sl_error()));
  s.at = sl_mapping_data(mapping->file), s.left = (size_t)info.st_size, s.size = info.st_size;
  sl_activity_begin_call("read", path, 0);
  const int zipped = s.left >= 2 && s.at[0] == 0x1f && s.at[1] == 0x8b;
  status = zipped ? SL_OK : read_header(&s, &h);
  sl_activity_end_call(0);
  if (zipped) SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s cannot be mapped: it is gzip", path));
  SL_TRY_OUT(status);
  if (types[h.type].dtype != SL_U8)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s cannot be mapped: its elements are not bytes", path));
  SL_TRY_OUT(check_length(&s, &h));
  mapping->shape = h.shape, mapping->data = s.at;
out:
  close(fd);
  if (status != SL_OK) sl_idx_unmap(mapping);
  return status;
}

void sl_idx_unmap(sl_idx_mapping *mapping) {
  sl_mapping_close(mapping->file);
  memset(mapping, 0, sizeof *mapping);
}

void sl_idx_clear(sl_idx *idx) {
  free(idx->data);
  memset(idx, 0, sizeof *idx);
}

/* Appends n bytes to file, compressed by z unless z is NULL. last: ends the gzip data. */
static sl_status put(sl_file *file, z_stream *z, const void *bytes, size_t n, int last) {
  if (!z) return sl_file_write(file, bytes, n);
  uint8_t out[16384];
  z->next_in = (Bytef *)bytes, z->avail_in = (uInt)n;
  do {
    z->next_out = out, z->avail_out = sizeof out;
    deflate(z, last ? Z_FINISH : Z_NO_FLUSH);
    SL_TRY(sl_file_write(file, out, sizeof out - z->avail_out));
  } while (z->avail_out == 0);
  return SL_OK;
}

sl_status sl_idx_write(const char *path, sl_dtype dtype, const sl_shape *shape, const void *data) {
  enum { BLOCK = 4096 }; /* elements byte-swapped at a time */
  int type = TYPES - 1;
  while (type >= 0 && (types[type].dtype != dtype || types[type].bytes != sl_dtype_bytes(dtype))) type--;
  if (type < 0) return sl_fail(SL_EINVAL, "cannot write %s: IDX has no element type %s", path, sl_dtype_name(dtype));
  if (shape->ndim < 1 || shape->ndim > SL_IDX_MAX_DIMS)
    return sl_fail(SL_EINVAL, "cannot write %s: %d dimensions", path, shape->ndim);
  uint8_t head[4 + 4 * SL_IDX_MAX_DIMS] = {0, 0, types[type].code, (uint8_t)shape->ndim};
  for (int d = 0; d < shape->ndim; d++) {
    if (shape->dim[d] < 0 || shape->dim[d] > UINT32_MAX)
      return sl_fail(SL_EINVAL, "cannot write %s: dimension %" PRId64, path, shape->dim[d]);
    for (int b = 0; b < 4; b++) head[4 + 4 * d + b] = (uint8_t)(shape->dim[d] >> (24 - 8 * b));
  }
  const size_t length = strlen(path);
  const int zip = length > 3 && strcmp(path + length - 3, ".gz") == 0;
  const int64_t count = sl_shape_count(shape);
  const int bytes = types[type].bytes;
  z_stream z = {0};
  sl_file *file = NULL;
  sl_status status = SL_OK;
  if (zip && deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return sl_no_memory("for writing %s", path);
  SL_TRY_OUT(sl_file_create(path, &file));
  SL_TRY_OUT(put(file, zip ? &z : NULL, head, 4 + 4 * (size_t)shape->ndim, 0));
  for (int64_t i = 0; i < count; i += BLOCK) {
    uint8_t block[BLOCK * 8];
    const int64_t n = count - i < BLOCK ? count - i : BLOCK;
    memcpy(block, (const uint8_t *)data + i * bytes, (size_t)(n * bytes));
    swap_elements(block, n, bytes);
    SL_TRY_OUT(put(file, zip ? &z : NULL, block, (size_t)(n * bytes), 0));
  }
  SL_TRY_OUT(put(file, zip ? &z : NULL, "", 0, 1));
  status = sl_file_commit(file);
  file = NULL;
out:
  if (zip) deflateEnd(&z);
  sl_file_discard(file);
  return status;
}
