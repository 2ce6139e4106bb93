/* Finds, verifies, reads and removes checkpoints. */
#include "runtime/files/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

static const char STEP[] = "step-", PARTIAL[] = ".partial", REFUSED[] = "refused-", PART[] = "part-",
                  CHECKSUM[] = "xxh3";

/* The rows of a tensor in one part. */
typedef struct stretch {
  int tensor, part, index; /* index: of the tensor in the part's file */
  int64_t first, rows;
} stretch;

typedef struct part {
  char *path;
  sl_safetensors *file;
  uint64_t bytes; /* as the manifest states them */
  const char *checksum;
  int verified;
} part;

struct sl_checkpoint {
  char *folder;
  json_t *manifest;
  json_t *texts;   /* values that sl_checkpoint_metadata returned, as strings */
  json_t *numbers; /* numbers of the tensors, by name */
  int64_t step;
  int share, shares; /* parts share, share + shares, ... are verified */
  part *parts;
  int n_parts;
  sl_named_array *tensors;
  int n_tensors;
  stretch *stretches; /* by tensor, then by row */
  int n_stretches;
};

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* The step in "step-00001200"; -1 for any other name. */
static int64_t step_of(const char *name) {
  const size_t n = strlen(STEP);
  char *end, again[64];
  if (strncmp(name, STEP, n) != 0 || name[n] < '0' || name[n] > '9') return -1;
  errno = 0;
  const long long step = strtoll(name + n, &end, 10);
  snprintf(again, sizeof again, "%s%08lld", STEP, step);
  return !*end && !errno && strcmp(again, name) == 0 ? step : -1;
}

static int is_partial(const char *name) {
  char inner[64];
  const size_t n = strlen(name), tail = strlen(PARTIAL);
  if (name[0] != '.' || n <= tail + 1 || n - tail > sizeof inner || strcmp(name + n - tail, PARTIAL) != 0) return 0;
  snprintf(inner, sizeof inner, "%.*s", (int)(n - tail - 1), name + 1);
  return step_of(inner) >= 0;
}

/* "refused-step-00001200", or "refused-step-00001200-2" if that exists, and so on. */
static int is_refused(const char *name) {
  char inner[64];
  if (strncmp(name, REFUSED, strlen(REFUSED)) != 0) return 0;
  snprintf(inner, sizeof inner, "%s", name + strlen(REFUSED));
  char *dash = strlen(inner) > strlen(STEP) ? strchr(inner + strlen(STEP), '-') : NULL;
  if (dash) *dash = '\0';
  return step_of(inner) >= 0;
}

static int is_temporary(const char *name) {
  const size_t n = strlen(name);
  return name[0] == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

static int is_ours(const char *name) { /* within a checkpoint */
  return strcmp(name, SL_CHECKPOINT_MANIFEST) == 0 || strncmp(name, PART, strlen(PART)) == 0 || is_temporary(name);
}

char *sl_checkpoint_path(const char *folder, int64_t step) {
  char *path;
  return asprintf(&path, "%s/%s%08lld", folder, STEP, (long long)step) < 0 ? NULL : path;
}

char *sl_checkpoint_partial(const char *folder, int64_t step) {
  char *path;
  return asprintf(&path, "%s/.%s%08lld%s", folder, STEP, (long long)step, PARTIAL) < 0 ? NULL : path;
}

int sl_checkpoint_is(const char *path) {
  char *manifest;
  if (asprintf(&manifest, "%s/%s", path, SL_CHECKPOINT_MANIFEST) < 0) return 0;
  const int is = access(manifest, F_OK) == 0;
  free(manifest);
  return is;
}

static int newer_first(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

sl_status sl_checkpoint_newest(const char *folder, int64_t **steps, int *n) {
  sl_status status = SL_OK;
  *steps = NULL, *n = 0;
  DIR *directory = sl_folder_open(folder);
  if (!directory)
    return errno == ENOENT ? SL_OK : sl_fail(SL_EIO, "cannot read the checkpoints in %s: %s", folder, strerror(errno));
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(directory, folder, &error));) {
    const int64_t step = step_of(entry->d_name);
    if (step < 0) continue;
    int64_t *more = realloc(*steps, (size_t)(*n + 1) * sizeof *more);
    if (!more) SL_TRY_OUT(sl_no_memory("for checkpoint %s", folder));
    *steps = more;
    more[(*n)++] = step;
  }
  if (error) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read the checkpoints in %s: %s", folder, strerror(error)));
  if (*n) qsort(*steps, (size_t)*n, sizeof **steps, newer_first);
out:
  closedir(directory);
  if (status != SL_OK) free(*steps), *steps = NULL, *n = 0;
  return status;
}

/* ---- checksums -------------------------------------------------------------------------------------------------- */

static sl_status hash_manifest(const json_t *manifest, char text[17]) {
  json_t *copy = json_copy((json_t *)manifest);
  const int whole = json_object_size(copy) == json_object_size(manifest); /* json_copy does not report lost members */
  json_object_del(copy, CHECKSUM);
  char *dump = copy && whole ? sl_json_text(copy, JSON_COMPACT) : NULL;
  if (dump) snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(dump, strlen(dump)));
  json_decref(copy);
  const int fine = dump != NULL;
  free(dump);
  return fine ? SL_OK : sl_no_memory("for a checkpoint's manifest");
}

sl_status sl_checkpoint_seal(json_t *manifest) {
  char text[17];
  SL_TRY(hash_manifest(manifest, text));
  return json_object_set_new(manifest, CHECKSUM, json_string(text)) == 0 ? SL_OK
                                                                         : sl_no_memory("for a checkpoint's manifest");
}

sl_status sl_checkpoint_hash(const char *path, int fresh, uint64_t *bytes, char text[17]) {
  enum { CHUNK = 4 << 20 };
  sl_status status = SL_OK;
  char *buffer = malloc(CHUNK);
  XXH3_state_t *state = XXH3_createState();
  int fd;
  *bytes = 0;
  status = sl_file_open_regular(path, O_RDONLY | O_CLOEXEC, 0, &fd);
  if (status == SL_ENOTFOUND) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s", sl_error()));
  SL_TRY_OUT(status);
  if (!buffer || !state) SL_TRY_OUT(sl_no_memory("for checkpoint %s", path));
  if (fresh) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  XXH3_64bits_reset(state);
  for (;;) {
    const ssize_t got = sl_file_get(fd, path, buffer, CHUNK);
    if (got < 0) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read %s: %s", path, strerror(errno)));
    if (got == 0) break;
    XXH3_64bits_update(state, buffer, (size_t)got);
    *bytes += (uint64_t)got;
  }
  snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
out:
  if (fd >= 0) close(fd);
  XXH3_freeState(state);
  free(buffer);
  return status;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static sl_status malformed(const sl_checkpoint *c, const char *what) {
  return sl_fail(SL_EFORMAT, "%s/%s: %s", c->folder, SL_CHECKPOINT_MANIFEST, what);
}

static sl_status load_manifest(const char *folder, json_t **manifest) {
  char *path;
  if (asprintf(&path, "%s/%s", folder, SL_CHECKPOINT_MANIFEST) < 0) return sl_no_memory("for checkpoint %s", folder);
  const sl_status status = sl_json_read_regular(path, manifest);
  free(path);
  return status == SL_ENOTFOUND ? sl_fail(SL_EFORMAT, "%s", sl_error()) : status;
}

sl_status sl_checkpoint_checksum(const char *path, char text[17]) {
  json_t *manifest = NULL;
  SL_TRY(load_manifest(path, &manifest));
  const char *checksum = json_string_value(json_object_get(manifest, CHECKSUM));
  const int fine = checksum && strlen(checksum) == 16;
  if (fine) strcpy(text, checksum);
  json_decref(manifest);
  return fine ? SL_OK : sl_fail(SL_EFORMAT, "%s/%s: its checksum is missing", path, SL_CHECKPOINT_MANIFEST);
}

static sl_status read_manifest(sl_checkpoint *c) {
  char text[17];
  SL_TRY(load_manifest(c->folder, &c->manifest));
  const char *format = json_string_value(json_object_get(c->manifest, "format"));
  const char *checksum = json_string_value(json_object_get(c->manifest, CHECKSUM));
  const json_t *step = json_object_get(c->manifest, "step");
  if (!format) return malformed(c, "not the manifest of a checkpoint: 'format' is missing");
  if (strcmp(format, SL_CHECKPOINT_FORMAT) != 0)
    return sl_fail(SL_EFORMAT, "%s/%s is of format %.60s; this version reads %s", c->folder, SL_CHECKPOINT_MANIFEST,
                   format, SL_CHECKPOINT_FORMAT);
  SL_TRY(hash_manifest(c->manifest, text));
  if (!checksum || strcmp(checksum, text) != 0)
    return malformed(c, "changed since it was written: its checksum differs");
  if (!json_is_integer(step) || json_integer_value(step) < 0) return malformed(c, "'step' is missing");
  if (!json_is_object(json_object_get(c->manifest, "header"))) return malformed(c, "'header' is missing");
  c->step = json_integer_value(step);
  return SL_OK;
}

static sl_status read_texts(sl_checkpoint *c) {
  const char *key;
  json_t *value;
  if (!(c->texts = json_object())) return sl_no_memory("for checkpoint %s", c->folder);
  json_object_foreach((json_t *)sl_checkpoint_header(c), key, value) {
    char *text = json_is_string(value) ? NULL : sl_json_text(value, JSON_COMPACT);
    const int failed =
        json_object_set_new(c->texts, key, json_is_string(value) ? json_incref(value) : json_string(text));
    free(text);
    if (failed) return sl_no_memory("for checkpoint %s", c->folder);
  }
  return SL_OK;
}

/* Finds or adds the tensor to which a part's entry belongs. */
static sl_status take_tensor(sl_checkpoint *c, const json_t *entry, sl_dtype dtype, int *number) {
  const json_t *dims = json_object_get(entry, "shape");
  const char *name = json_string_value(json_object_get(entry, "name"));
  sl_shape shape = {.ndim = (int)json_array_size(dims)};
  if (!name || !json_is_array(dims) || json_array_size(dims) > SL_MAX_DIMS)
    return malformed(c, "a tensor without a name or a valid shape");
  for (int d = 0; d < shape.ndim; d++) {
    const json_t *dim = json_array_get(dims, (size_t)d);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0) return malformed(c, "a tensor with an invalid shape");
    shape.dim[d] = json_integer_value(dim);
  }
  const json_t *known = json_object_get(c->numbers, name);
  if (known) {
    const sl_named_array *a = &c->tensors[ *number = (int)json_integer_value(known)];
    return a->dtype == dtype && sl_shape_equal(&a->shape, &shape)
               ? SL_OK
               : malformed(c, "a tensor has different shapes in two parts");
  }
  sl_named_array *more = realloc(c->tensors, (size_t)(c->n_tensors + 1) * sizeof *more);
  if (!more) return sl_no_memory("for checkpoint %s", c->folder);
  c->tensors = more;
  more[c->n_tensors] = (sl_named_array){.name = name, .dtype = dtype, .shape = shape};
  *number = c->n_tensors++;
  return json_object_set_new(c->numbers, name, json_integer(*number)) == 0
             ? SL_OK
             : sl_no_memory("for checkpoint %s", c->folder);
}

/* The manifest's entry of a tensor in a part must agree with the part's own header. */
static sl_status take_stretch(sl_checkpoint *c, const json_t *entry) {
  const part *p = &c->parts[c->n_parts - 1];
  const char *name = json_string_value(json_object_get(entry, "name"));
  const int index = name ? sl_safetensors_find(p->file, name) : -1;
  const json_t *first = json_object_get(entry, "first");
  if (index < 0) return sl_fail(SL_EFORMAT, "%s: tensor %.200s is missing in it", p->path, name ? name : "?");
  const sl_named_array *a = sl_safetensors_get(p->file, index);
  stretch s = {.part = c->n_parts - 1,
               .index = index,
               .first = json_is_integer(first) ? json_integer_value(first) : -1,
               .rows = a->shape.ndim ? a->shape.dim[0] : 1};
  SL_TRY(take_tensor(c, entry, a->dtype, &s.tensor));
  sl_shape mine = c->tensors[s.tensor].shape;
  if (mine.ndim) mine.dim[0] = s.rows;
  if (s.first < 0 || !sl_shape_equal(&mine, &a->shape))
    return sl_fail(SL_EFORMAT, "%s: tensor %.200s is not what the manifest says", p->path, name);
  stretch *more = realloc(c->stretches, (size_t)(c->n_stretches + 1) * sizeof *more);
  if (!more) return sl_no_memory("for checkpoint %s", c->folder);
  c->stretches = more;
  more[c->n_stretches++] = s;
  return SL_OK;
}

static sl_status verify(part *p) {
  char text[17];
  uint64_t bytes;
  if (p->verified) return SL_OK;
  SL_TRY(sl_checkpoint_hash(p->path, 0, &bytes, text));
  if (bytes != p->bytes)
    return sl_fail(SL_EFORMAT, "%s has %" PRIu64 " bytes where %" PRIu64 " were written", p->path, bytes, p->bytes);
  if (strcmp(text, p->checksum) != 0)
    return sl_fail(SL_EFORMAT, "%s changed since it was written: its checksum is %s, not %.16s", p->path, text,
                   p->checksum);
  p->verified = 1;
  return SL_OK;
}

static sl_status take_part(sl_checkpoint *c, const json_t *entry) {
  const char *name = json_string_value(json_object_get(entry, "file"));
  const char *checksum = json_string_value(json_object_get(entry, CHECKSUM));
  const json_t *size = json_object_get(entry, "bytes"), *tensors = json_object_get(entry, "tensors");
  if (!name || !checksum || !json_is_integer(size) || !json_is_array(tensors) ||
      strncmp(name, PART, strlen(PART)) != 0 || strchr(name, '/'))
    return malformed(c, "a part without name, size, checksum or tensors");
  part *more = realloc(c->parts, (size_t)(c->n_parts + 1) * sizeof *more);
  if (!more) return sl_no_memory("for checkpoint %s", c->folder);
  c->parts = more;
  part *p = &more[c->n_parts++];
  *p = (part){.bytes = (uint64_t)json_integer_value(size), .checksum = checksum};
  if (asprintf(&p->path, "%s/%s", c->folder, name) < 0) {
    p->path = NULL;
    return sl_no_memory("for checkpoint %s", c->folder);
  }
  if ((c->n_parts - 1) % c->shares == c->share) SL_TRY(verify(p));
  SL_TRY(sl_safetensors_open(p->path, &p->file));
  if ((int)json_array_size(tensors) != sl_safetensors_count(p->file))
    return malformed(c, "a part whose tensors differ from its list");
  size_t i;
  json_t *tensor;
  json_array_foreach(tensors, i, tensor) SL_TRY(take_stretch(c, tensor));
  return SL_OK;
}

static int by_row(const void *left, const void *right) {
  const stretch *a = left, *b = right;
  if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return (a->rows > b->rows) - (a->rows < b->rows);
}

/* Checks that the stretches of each tensor cover each row once. */
static sl_status check_cover(sl_checkpoint *c) {
  if (c->n_stretches) qsort(c->stretches, (size_t)c->n_stretches, sizeof *c->stretches, by_row);
  int k = 0;
  for (int i = 0; i < c->n_tensors; i++) {
    const sl_named_array *a = &c->tensors[i];
    const int64_t rows = a->shape.ndim ? a->shape.dim[0] : 1;
    int64_t next = 0;
    for (; k < c->n_stretches && c->stretches[k].tensor == i; k++) {
      if (c->stretches[k].first != next) break;
      next += c->stretches[k].rows;
    }
    if (next != rows || (k < c->n_stretches && c->stretches[k].tensor == i))
      return sl_fail(SL_EFORMAT, "%s: the parts do not make up tensor %.200s: row %lld", c->folder, a->name,
                     (long long)next);
  }
  return SL_OK;
}

sl_status sl_checkpoint_open(const char *path, sl_checkpoint **result) {
  return sl_checkpoint_open_share(path, 0, 1, result);
}

sl_status sl_checkpoint_open_share(const char *path, int share, int shares, sl_checkpoint **result) {
  sl_status status = SL_OK;
  *result = NULL;
  sl_checkpoint *c = calloc(1, sizeof *c);
  if (!c || !(c->numbers = json_object()) || !(c->folder = strdup(path)))
    SL_TRY_OUT(sl_no_memory("for checkpoint %s", path));
  c->share = share, c->shares = shares;
  SL_TRY_OUT(read_manifest(c));
  SL_TRY_OUT(read_texts(c));
  const json_t *parts = json_object_get(c->manifest, "parts");
  if (!json_is_array(parts)) SL_TRY_OUT(malformed(c, "'parts' is missing"));
  size_t i;
  json_t *entry;
  json_array_foreach(parts, i, entry) SL_TRY_OUT(take_part(c, entry));
  SL_TRY_OUT(check_cover(c));
  *result = c;
  c = NULL;
out:
  sl_checkpoint_close(c);
  return status;
}

void sl_checkpoint_close(sl_checkpoint *c) {
  if (!c) return;
  for (int p = 0; p < c->n_parts; p++) {
    sl_safetensors_close(c->parts[p].file);
    free(c->parts[p].path);
  }
  json_decref(c->texts);
  json_decref(c->numbers);
  json_decref(c->manifest);
  free(c->parts), free(c->tensors), free(c->stretches), free(c->folder), free(c);
}

const char *sl_checkpoint_folder(const sl_checkpoint *c) { return c->folder; }
int64_t sl_checkpoint_step(const sl_checkpoint *c) { return c->step; }
const json_t *sl_checkpoint_header(const sl_checkpoint *c) { return json_object_get(c->manifest, "header"); }
const char *sl_checkpoint_metadata(const sl_checkpoint *c, const char *key) {
  return json_string_value(json_object_get(c->texts, key));
}
int sl_checkpoint_count(const sl_checkpoint *c) { return c->n_tensors; }
const sl_named_array *sl_checkpoint_get(const sl_checkpoint *c, int i) { return &c->tensors[i]; }

int sl_checkpoint_find(const sl_checkpoint *c, const char *name) {
  const json_t *number = json_object_get(c->numbers, name);
  return number ? (int)json_integer_value(number) : -1;
}

static int first_stretch(const sl_checkpoint *c, int i) {
  int low = -1, high = c->n_stretches - 1; /* stretches from `high` on belong to tensor i or later ones */
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (c->stretches[middle].tensor >= i)
      high = middle;
    else
      low = middle;
  }
  return high;
}

const char *sl_checkpoint_file(const sl_checkpoint *c, int i) {
  return c->parts[c->stretches[first_stretch(c, i)].part].path;
}

sl_status sl_checkpoint_read(const sl_checkpoint *c, int i, void *data) {
  const sl_named_array *a = &c->tensors[i];
  const size_t row = (size_t)sl_shape_row(&a->shape) * sl_dtype_bytes(a->dtype);
  for (int k = first_stretch(c, i); k < c->n_stretches && c->stretches[k].tensor == i; k++) {
    const stretch *s = &c->stretches[k];
    SL_TRY(verify(&c->parts[s->part]));
    SL_TRY(sl_safetensors_read(c->parts[s->part].file, s->index, (char *)data + (size_t)s->first * row));
  }
  return SL_OK;
}

/* ---- removing --------------------------------------------------------------------------------------------------- */

/* Removes a checkpoint's files, and its folder unless it holds other files. */
static sl_status remove_folder(const char *path) {
  sl_status status = SL_OK;
  DIR *directory = sl_folder_open(path);
  if (!directory) return sl_fail(SL_EIO, "cannot remove the checkpoint %s: %s", path, strerror(errno));
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(directory, path, &error));)
    if (is_ours(entry->d_name) && SL_CALL_OF_FILE("unlink", path, unlinkat(dirfd(directory), entry->d_name, 0)) != 0)
      SL_TRY_OUT(sl_fail(SL_EIO, "cannot remove %s/%s: %s", path, entry->d_name, strerror(errno)));
  if (error) status = sl_fail(SL_EIO, "cannot remove the checkpoint %s: %s", path, strerror(error));
out:
  closedir(directory);
  if (status == SL_OK && SL_CALL_OF_FILE("rmdir", path, rmdir(path)) != 0 && errno != ENOTEMPTY && errno != EEXIST)
    status = sl_fail(SL_EIO, "cannot remove the checkpoint %s: %s", path, strerror(errno));
  return status;
}

sl_status sl_checkpoint_remove(const char *folder, int64_t step) {
  char *path = sl_checkpoint_path(folder, step), *partial = sl_checkpoint_partial(folder, step);
  sl_status status = SL_OK;
  if (!path || !partial) SL_TRY_OUT(sl_no_memory("for checkpoint %s", folder));
  if (SL_CALL_OF_FILE("rename", path, rename(path, partial)) != 0)
    SL_TRY_OUT(sl_fail(SL_EIO, "cannot remove the checkpoint %s: %s", path, strerror(errno)));
  status = remove_folder(partial);
out:
  free(path), free(partial);
  return status;
}

sl_status sl_checkpoint_put_aside(const char *folder, int64_t step) {
  char *path = sl_checkpoint_path(folder, step), *aside = NULL;
  if (!path) return sl_no_memory("for checkpoint %s", folder);
  const char *name = path + strlen(folder) + 1;
  sl_status status = SL_OK;
  for (int i = 1;; i++) {
    char number[16] = "";
    if (i > 1) snprintf(number, sizeof number, "-%d", i);
    free(aside);
    if (asprintf(&aside, "%s/%s%s%s", folder, REFUSED, name, number) < 0) {
      aside = NULL;
      SL_TRY_OUT(sl_no_memory("for checkpoint %s", folder));
    }
    if (SL_CALL_OF_FILE("rename", path, rename(path, aside)) == 0) break;
    if ((errno != ENOTEMPTY && errno != EEXIST) || i > 9999)
      SL_TRY_OUT(sl_fail(SL_EIO, "cannot rename the checkpoint %s: %s", path, strerror(errno)));
  }
out:
  free(path), free(aside);
  return status;
}

sl_status sl_checkpoint_tidy(const char *folder, int all, int *others) {
  sl_status status = SL_OK;
  char *path = NULL;
  DIR *directory = sl_folder_open(folder);
  if (others) *others = 0;
  if (!directory)
    return errno == ENOENT ? SL_OK : sl_fail(SL_EIO, "cannot read the checkpoints in %s: %s", folder, strerror(errno));
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(directory, folder, &error));) {
    const char *name = entry->d_name;
    if (is_temporary(name) && SL_CALL_OF_FILE("unlink", folder, unlinkat(dirfd(directory), name, 0)) != 0)
      SL_TRY_OUT(sl_fail(SL_EIO, "cannot remove %s/%s: %s", folder, name, strerror(errno)));
    if (!is_partial(name) && !(all && (step_of(name) >= 0 || is_refused(name)))) continue;
    if (asprintf(&path, "%s/%s", folder, name) < 0) SL_TRY_OUT(sl_no_memory("for checkpoint %s", folder));
    SL_TRY_OUT(remove_folder(path));
    free(path), path = NULL;
  }
  if (error) status = sl_fail(SL_EIO, "cannot read the checkpoints in %s: %s", folder, strerror(error));
out:
  free(path);
  closedir(directory);
  if (status == SL_OK && all && SL_CALL_OF_FILE("rmdir", folder, rmdir(folder)) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return sl_fail(SL_EIO, "cannot remove %s: %s", folder, strerror(errno));
    if (others) *others = 1;
  }
  return status;
}
