/* Reads and writes weights in one or more safetensors files. */
#include "runtime/files/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/json.h"
#include "runtime/files/checkpoint.h"
#include "runtime/numbers/half.h"

enum { MOST_FILES = 4096 };

typedef struct part {
  char *path;
  sl_safetensors *file;
  int first; /* number of its first tensor among all parts' tensors */
} part;

struct sl_weights {
  char *path;
  part *parts;
  int n_parts, count;
  sl_checkpoint *checkpoint; /* in place of parts */
};

static sl_status add_part(sl_weights *w, const char *path) {
  part *parts = realloc(w->parts, (size_t)(w->n_parts + 1) * sizeof *parts);
  if (!parts) return sl_no_memory("for reading %s", path);
  w->parts = parts;
  part *p = &parts[w->n_parts];
  *p = (part){.path = strdup(path), .first = w->count};
  if (!p->path) return sl_no_memory("for reading %s", path);
  const sl_status status = sl_safetensors_open(path, &p->file);
  if (status != SL_OK) {
    free(p->path);
    return status;
  }
  w->n_parts++;
  w->count += sl_safetensors_count(p->file);
  return SL_OK;
}

static sl_status begin(const char *path, sl_weights **weights) {
  *weights = calloc(1, sizeof **weights);
  if (!*weights || !((*weights)->path = strdup(path))) {
    free(*weights);
    *weights = NULL;
    return sl_no_memory("for reading %s", path);
  }
  return SL_OK;
}

/* The part with tensor i: the last one whose first tensor is at most i, as parts may be empty. */
static const part *part_of(const sl_weights *w, int i) {
  int low = 0, high = w->n_parts;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (w->parts[middle].first <= i)
      low = middle;
    else
      high = middle;
  }
  return &w->parts[low];
}

/* ---- the index -------------------------------------------------------------------------------------------------- */

/* Whether a file of this name lies beside the index; paths to other folders are refused. */
static int plain_name(const char *name) {
  return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/');
}

/* Finds the number of the part with this file name, and opens the part at its first mention. numbers: numbers of the
 * parts so far, by file name. */
static sl_status part_named(sl_weights *w, json_t *numbers, const char *name, const char *tensor, int *number) {
  const json_t *known = json_object_get(numbers, name);
  const char *slash = strrchr(w->path, '/');
  char *path;
  *number = known ? (int)json_integer_value(known) : w->n_parts;
  if (known) return SL_OK;
  if (w->n_parts == MOST_FILES) return sl_fail(SL_EFORMAT, "%s: more than %d files", w->path, MOST_FILES);
  if (asprintf(&path, "%.*s%s", slash ? (int)(slash + 1 - w->path) : 0, w->path, name) < 0)
    return sl_no_memory("for reading %s", w->path);
  const sl_status status = add_part(w, path);
  free(path);
  if (status != SL_OK) return sl_context(status, "%s, tensor %.200s", w->path, tensor);
  return json_object_set_new(numbers, name, json_integer(*number)) == 0 ? SL_OK
                                                                        : sl_no_memory("for reading %s", w->path);
}

static sl_status add_named(sl_weights *w, json_t *numbers, const char *tensor, const json_t *value) {
  const char *name = json_string_value(value);
  int number;
  if (!name || !plain_name(name))
    return sl_fail(SL_EFORMAT, "%s: weight_map.%.200s is not the name of a file beside the index", w->path, tensor);
  SL_TRY(part_named(w, numbers, name, tensor, &number));
  return sl_safetensors_find(w->parts[number].file, tensor) < 0
             ? sl_fail(SL_EFORMAT, "%s: tensor %.200s is not in %s, which the weight_map names for it", w->path, tensor,
                       w->parts[number].path)
             : SL_OK;
}

static sl_status read_index(sl_weights *w, json_t *map, json_t *numbers) {
  const char *tensor;
  json_t *value;
  if (!json_is_object(map) || json_object_size(map) == 0)
    return sl_fail(SL_EFORMAT, "%s: no weight_map from tensors to files in it", w->path);
  json_object_foreach(map, tensor, value) SL_TRY(add_named(w, numbers, tensor, value));
  for (int i = 0; i < w->count; i++) {
    const char *name = sl_weights_get(w, i)->name, *file = json_string_value(json_object_get(map, name));
    if (!file || &w->parts[json_integer_value(json_object_get(numbers, file))] != part_of(w, i))
      return sl_fail(SL_EFORMAT, "%s: tensor %.200s lies in %s, but the weight_map says %.200s", w->path, name,
                     sl_weights_file(w, i), file ? file : "nothing of it");
  }
  return SL_OK;
}

sl_status sl_weights_open_index(const char *path, sl_weights **weights) {
  json_t *json = NULL;
  *weights = NULL;
  SL_TRY(sl_json_read(path, &json));
  sl_weights *w = NULL;
  json_t *numbers = json_object();
  sl_status status = begin(path, &w);
  if (status == SL_OK && !numbers) status = sl_no_memory("for reading %s", path);
  if (status == SL_OK) status = read_index(w, json_object_get(json, "weight_map"), numbers);
  json_decref(numbers);
  json_decref(json);
  if (status == SL_OK)
    *weights = w;
  else
    sl_weights_close(w);
  return status;
}

sl_status sl_weights_open(const char *path, sl_weights **weights) {
  struct stat info;
  const size_t length = strlen(path);
  *weights = NULL;
  if (length > 5 && strcmp(path + length - 5, ".json") == 0) return sl_weights_open_index(path, weights);
  if (SL_CALL_OF_FILE("stat", path, stat(path, &info)) == 0 && S_ISDIR(info.st_mode) && !sl_checkpoint_is(path)) {
    char *inside;
    if (asprintf(&inside, "%s/%s", path, SL_WEIGHTS_INDEX) < 0) return sl_no_memory("for reading %s", path);
    const int indexed = access(inside, F_OK) == 0;
    if (!indexed) strcpy(inside + length + 1, SL_WEIGHTS_FILE); /* fits, being shorter than the index's name */
    const sl_status status = indexed                     ? sl_weights_open_index(inside, weights)
                             : access(inside, F_OK) == 0 ? sl_weights_open(inside, weights)
                                                         : sl_fail(SL_ENOTFOUND, "%s has neither %s nor %s", path,
                                                                   SL_WEIGHTS_FILE, SL_WEIGHTS_INDEX);
    free(inside);
    return status;
  }
  if (sl_checkpoint_is(path)) return sl_weights_open_share(path, 0, 1, weights);
  sl_weights *w;
  SL_TRY(begin(path, &w));
  const sl_status status = add_part(w, path);
  if (status == SL_OK)
    *weights = w;
  else
    sl_weights_close(w);
  return status;
}

sl_status sl_weights_open_share(const char *path, int share, int shares, sl_weights **weights) {
  sl_weights *w;
  *weights = NULL;
  SL_TRY(begin(path, &w));
  const sl_status status = sl_checkpoint_open_share(path, share, shares, &w->checkpoint);
  if (w->checkpoint) w->count = sl_checkpoint_count(w->checkpoint);
  if (status == SL_OK)
    *weights = w;
  else
    sl_weights_close(w);
  return status;
}

void sl_weights_close(sl_weights *w) {
  if (!w) return;
  for (int p = 0; p < w->n_parts; p++) {
    sl_safetensors_close(w->parts[p].file);
    free(w->parts[p].path);
  }
  sl_checkpoint_close(w->checkpoint);
  free(w->parts), free(w->path), free(w);
}

/* ---- contents --------------------------------------------------------------------------------------------------- */

const char *sl_weights_path(const sl_weights *w) { return w->path; }
int sl_weights_count(const sl_weights *w) { return w->count; }

const sl_named_array *sl_weights_get(const sl_weights *w, int i) {
  if (w->checkpoint) return sl_checkpoint_get(w->checkpoint, i);
  const part *p = part_of(w, i);
  return sl_safetensors_get(p->file, i - p->first);
}

int sl_weights_find(const sl_weights *w, const char *name) {
  if (w->checkpoint) return sl_checkpoint_find(w->checkpoint, name);
  for (int p = 0; p < w->n_parts; p++) {
    const int i = sl_safetensors_find(w->parts[p].file, name);
    if (i >= 0) return w->parts[p].first + i;
  }
  return -1;
}

const char *sl_weights_file(const sl_weights *w, int i) {
  return w->checkpoint ? sl_checkpoint_file(w->checkpoint, i) : part_of(w, i)->path;
}
const char *sl_weights_metadata(const sl_weights *w, const char *key) {
  if (w->checkpoint) return sl_checkpoint_metadata(w->checkpoint, key);
  return w->n_parts ? sl_safetensors_metadata(w->parts[0].file, key) : NULL;
}

sl_status sl_weights_read(const sl_weights *w, int i, float *data) {
  const sl_named_array *a = sl_weights_get(w, i);
  if (a->dtype == SL_F32) return sl_weights_read_as_is(w, i, data);
  if (a->dtype != SL_F16 && a->dtype != SL_BF16)
    return sl_fail(SL_EUNSUPPORTED, "%s: tensor %.200s is %s; weights are F32, F16 or BF16", sl_weights_file(w, i),
                   a->name, sl_dtype_name(a->dtype));
  /* Reads into the upper half of data, then widens in place: writing element i overwrites only elements already read.
   */
  const int64_t n = sl_shape_count(&a->shape);
  unsigned char *bytes = (unsigned char *)data, *half = bytes + 2 * n;
  SL_TRY(sl_weights_read_as_is(w, i, half));
  for (int64_t k = 0; k < n; k++) {
    uint16_t value;
    memcpy(&value, half + 2 * k, sizeof value);
    const uint32_t wide = a->dtype == SL_BF16 ? (uint32_t)value << 16 : sl_half_bits(sl_half_wide(value));
    memcpy(bytes + 4 * k, &wide, sizeof wide);
  }
  return SL_OK;
}

sl_status sl_weights_read_as_is(const sl_weights *w, int i, void *data) {
  if (w->checkpoint) return sl_checkpoint_read(w->checkpoint, i, data);
  const part *p = part_of(w, i);
  return sl_safetensors_read(p->file, i - p->first, data);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(const sl_named_array *a) {
  return sl_shape_count(&a->shape) * (int64_t)sl_dtype_bytes(a->dtype);
}

/* Number of arrays from `from` on that fit into one file. */
static int fitting(const sl_named_array *arrays, int n, int from, int64_t shard_bytes) {
  int64_t bytes = bytes_of(&arrays[from]);
  int to = from + 1;
  while (to < n && bytes + bytes_of(&arrays[to]) <= shard_bytes) bytes += bytes_of(&arrays[to++]);
  return to - from;
}

sl_status sl_weights_write(const char *folder, const sl_named_array *arrays, int n, const char *const (*metadata)[2],
                           int nmetadata, int64_t shard_bytes) {
  sl_status status = SL_OK;
  char *path = NULL, name[64];
  json_t *map = NULL, *index = NULL;
  int64_t total = 0;
  int files = 0;
  for (int i = 0; i < n; i++) total += bytes_of(&arrays[i]);
  if (shard_bytes <= 0 || total <= shard_bytes) shard_bytes = INT64_MAX;
  for (int from = 0; from < n; files++) from += fitting(arrays, n, from, shard_bytes);
  map = json_object();
  for (int from = 0, file = 1; from < n; file++) {
    const int these = fitting(arrays, n, from, shard_bytes);
    if (files == 1)
      strcpy(name, SL_WEIGHTS_FILE);
    else
      snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", file, files);
    free(path);
    if (asprintf(&path, "%s/%s", folder, name) < 0) {
      path = NULL;
      SL_TRY_OUT(sl_no_memory("for a path"));
    }
    SL_TRY_OUT(sl_safetensors_write(path, arrays + from, these, metadata, nmetadata));
    for (int i = 0; i < these; i++) json_object_set_new(map, arrays[from + i].name, json_string(name));
    from += these;
  }
  if (files < 2) goto out;
  free(path);
  if (asprintf(&path, "%s/%s", folder, SL_WEIGHTS_INDEX) < 0) {
    path = NULL;
    SL_TRY_OUT(sl_no_memory("for a path"));
  }
  index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
  status = sl_json_write(path, index);
out:
  json_decref(index);
  json_decref(map);
  free(path);
  return status;
}
