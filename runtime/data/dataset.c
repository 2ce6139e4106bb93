/* Opens a labelled image set: finds, reads and checks the IDX files of a directory. */
#include "runtime/data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/data/idx.h"
#include "runtime/numbers/permutation.h"

enum { MOST_CLASSES = 1 << 20, NAMES_LIMIT_BYTES = 16 << 20, MAP_BYTES = 256 << 20 };

/* Sample i of a split is number i of its file or, if part of the file is set aside, number permutation(first + i). */
struct sl_split_order {
  const sl_image_set *set;
  int64_t sample_bytes, first;
  int permuted;
  sl_permutation permutation;
};

/* The four files. */
enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES };
static const char *const usual_names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                               "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
static const char *const file_texts[FILES] = {"training images", "training labels", "test images", "test labels"};

/* The file that a name stands for; -1: none of the four. */
static int file_of_name(const char *name) {
  if (name[0] == '.' || !strcasestr(name, "idx")) return -1;
  const int images = strcasestr(name, "images") != NULL, labels = strcasestr(name, "labels") != NULL;
  const int train =
      strcasestr(name, "train") != NULL; /* tried before "test", because "latest-train" contains "test" too */
  if (images == labels || (!train && !strcasestr(name, "t10k") && !strcasestr(name, "test"))) return -1;
  return (train ? TRAIN_IMAGES : TEST_IMAGES) + labels;
}

static size_t stem(const char *name) {
  const size_t n = strlen(name);
  return n > 3 && strcmp(name + n - 3, ".gz") == 0 ? n - 3 : n;
}

/* Order of candidates for a file, the least first: usual names before others, unpacked files before packed ones. */
static int rank_of_name(const char *name, int file) {
  const size_t n = stem(name);
  const int usual = n == strlen(usual_names[file]) && memcmp(name, usual_names[file], n) == 0;
  return 2 * !usual + (name[n] != '\0');
}

static sl_status no_such_folder(const char *directory, int error) {
  if (strcmp(directory, SL_DATASET_DEFAULT) == 0)
    return sl_blame(sl_fail(SL_ENOTFOUND,
                            "no data set in %s: install Debian's package dataset-fashion-mnist (apt-get install "
                            "dataset-fashion-mnist), or name a folder of IDX files",
                            directory),
                    "directory");
  return sl_fail(error == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read the data folder %s: %s", directory,
                 strerror(error));
}

/* Fills paths with malloc'ed strings; the test pair stays NULL if it is missing. */
static sl_status find_files(const char *directory, char *paths[FILES]) {
  sl_status status = SL_OK;
  char *best[FILES] = {0}, *rival[FILES] = {0};
  DIR *folder = sl_folder_open(directory);
  if (!folder) return no_such_folder(directory, errno);
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(folder, directory, &error));) {
    const int f = file_of_name(entry->d_name);
    if (f < 0) continue;
    char *name = strdup(entry->d_name);
    if (!name) SL_TRY_OUT(sl_no_memory("for the names in %s", directory));
    if (!best[f]) {
      best[f] = name;
      continue;
    }
    const int before = rank_of_name(name, f) - rank_of_name(best[f], f);
    const int same_stem = stem(name) == stem(best[f]) && memcmp(name, best[f], stem(name)) == 0;
    char *worse = before < 0 ? best[f] : name;
    if (before < 0) best[f] = name;
    if (same_stem || rank_of_name(best[f], f) < 2) {
      free(worse);
    } else {
      free(rival[f]);
      rival[f] = worse;
    }
  }
  if (error) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read the data folder %s: %s", directory, strerror(error)));
  for (int f = 0; f < FILES; f++) {
    if (rival[f] && rank_of_name(best[f], f) >= 2)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s has more than one file of %s: %s and %s; keep one set in a folder", directory,
                         file_texts[f], best[f], rival[f]));
    if (!best[f] && (f == TRAIN_IMAGES || f == TRAIN_LABELS || best[f ^ 1]))
      SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "%s has no %s (%s or %s.gz)", directory, file_texts[f], usual_names[f],
                         usual_names[f]));
  }
  for (int f = 0; f < FILES; f++)
    if (best[f] && asprintf(&paths[f], "%s/%s", directory, best[f]) < 0) {
      paths[f] = NULL;
      SL_TRY_OUT(sl_no_memory("for the names in %s", directory));
    }
out:
  closedir(folder);
  for (int f = 0; f < FILES; f++) free(best[f]), free(rival[f]);
  return status;
}

/* Reads the labels as 32-bit integers, whatever integer type the file has. */
static sl_status read_labels(const char *path, sl_image_set *set) {
  sl_idx labels;
  char shape[SL_SHAPE_TEXT];
  sl_status status = SL_OK;
  SL_TRY(sl_idx_read(path, &labels));
  if (labels.shape.ndim != 1 || (labels.dtype != SL_U8 && labels.dtype != SL_I32))
    SL_TRY_OUT(sl_fail(SL_EFORMAT,
                       "%s: has %s of shape %s, not labels (one integer a sample); is it another of the files?", path,
                       sl_dtype_name(labels.dtype), sl_shape_text(&labels.shape, shape, sizeof shape)));
  if (labels.shape.dim[0] != set->n)
    SL_TRY_OUT(sl_fail(SL_EFORMAT,
                       "%s: has %" PRId64 " labels for %" PRId64 " images; the two files belong to different sets",
                       path, labels.shape.dim[0], set->n));
  if (labels.dtype == SL_I32) {
    set->labels = labels.data;
    return SL_OK;
  }
  set->labels = malloc((size_t)(set->n ? set->n : 1) * sizeof *set->labels);
  if (!set->labels) SL_TRY_OUT(sl_no_memory("for %s", path));
  for (int64_t i = 0; i < set->n; i++) set->labels[i] = ((const uint8_t *)labels.data)[i];
out:
  sl_idx_clear(&labels);
  return status;
}

/* Sets dtype, shape and pixels; `set` owns the memory or the mapping. A mapped set that fits into memory stays in the
 * system's page cache, shared by all processes; a larger one is read from its file again in each epoch. */
static sl_status read_images(const char *path, sl_image_set *set, sl_idx *images) {
  struct stat info;
  if (SL_CALL_OF_FILE("stat", path, stat(path, &info)) == 0 && info.st_size >= MAP_BYTES) {
    const sl_status status = sl_idx_map(path, &set->map);
    set->pixels = set->map.data;
    *images = (sl_idx){.dtype = SL_U8, .shape = set->map.shape};
    if (status != SL_EUNSUPPORTED) return status;
  }
  SL_TRY(sl_idx_read(path, images));
  set->pixels = set->memory = images->data;
  return SL_OK;
}

static void set_clear(sl_image_set *set) {
  free(set->memory), free(set->labels);
  sl_idx_unmap(&set->map);
}

/* Reads a pair of files and sets *sample to [H, W, C]. */
static sl_status read_pair(const char *images_path, const char *labels_path, sl_image_set *set, sl_shape *sample) {
  sl_idx images = {0};
  char shape[SL_SHAPE_TEXT];
  SL_TRY(read_images(images_path, set, &images));
  const int64_t *d = images.shape.dim;
  set->n = d[0];
  if (images.dtype != SL_U8 || images.shape.ndim < 3 || sl_shape_row(&images.shape) < 1)
    return sl_fail(
        SL_EFORMAT,
        "%s: has %s of shape %s, not images (bytes, [n, height, width] or [n, height, width, channels]); is it "
        "another of the files?",
        images_path, sl_dtype_name(images.dtype), sl_shape_text(&images.shape, shape, sizeof shape));
  if (set->n < 1) return sl_fail(SL_EFORMAT, "%s: has no images", images_path);
  *sample = SL_SHAPE(d[1], d[2], images.shape.ndim == 4 ? d[3] : 1);
  return read_labels(labels_path, set);
}

static sl_status check_labels(const char *path, const sl_image_set *set, int32_t classes, const char *why) {
  for (int64_t i = 0; i < set->n; i++)
    if (set->labels[i] < 0 || set->labels[i] >= classes)
      return sl_fail(SL_EFORMAT, "%s: label %" PRId64 " is %" PRId32 ", out of the range 0 to %" PRId32 " (%s)", path,
                     i, set->labels[i], classes - 1, why);
  return SL_OK;
}

static void free_names(char **names, int32_t n) {
  for (int32_t i = 0; names && i < n; i++) free(names[i]);
  free(names);
}

#define BYTE_ORDER_MARK "\xEF\xBB\xBF" /* some editors put it before UTF-8 text */

/* Reads labels.txt, one name a line. *n is 0 if there is no such file. */
static sl_status read_names(const char *directory, char ***names, int32_t *n) {
  char *path = NULL, *text = NULL;
  size_t bytes;
  *names = NULL, *n = 0;
  if (asprintf(&path, "%s/labels.txt", directory) < 0) return sl_no_memory("for %s", directory);
  sl_status status = sl_file_read(path, NAMES_LIMIT_BYTES, &text, &bytes);
  if (status == SL_ENOTFOUND) {
    free(path);
    return SL_OK;
  }
  if (status != SL_OK) goto out;
  if (memchr(text, 0, bytes)) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: has a zero byte, so it is no text", path));
  int64_t lines = 0;
  for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
  lines += bytes > 0 && text[bytes - 1] != '\n';
  if (lines < 1 || lines > MOST_CLASSES)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: names %" PRId64 " classes; 1 to %d are supported", path, lines, MOST_CLASSES));
  char **list = calloc((size_t)lines, sizeof *list);
  if (!list) SL_TRY_OUT(sl_no_memory("for %s", path));
  char *line = text + (strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0 ? strlen(BYTE_ORDER_MARK) : 0);
  for (int64_t i = 0; i < lines && status == SL_OK; i++) {
    const size_t length = strcspn(line, "\n");
    list[i] = strndup(line, length > 0 && line[length - 1] == '\r' ? length - 1 : length);
    line += length + 1;
    if (!list[i])
      status = sl_no_memory("for %s", path);
    else if (!sl_text_is_plain(list[i]))
      status = sl_fail(SL_EFORMAT,
                       "%s: line %" PRId64
                       " is not UTF-8 text or has control characters; 'iconv -f latin1 -t utf-8' "
                       "makes UTF-8 of Latin 1",
                       path, i + 1);
  }
  if (status != SL_OK) {
    free_names(list, (int32_t)lines);
    goto out;
  }
  *names = list, *n = (int32_t)lines;
out:
  free(path), free(text);
  return status;
}

/* Makes names for a set without labels.txt: Fashion-MNIST's names for that set, else numbers. */
static sl_status make_names(sl_dataset *d) {
  static const char *const fashion[10] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                          "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  const int known = d->classes == 10 && strstr(d->directory, "fashion-mnist") != NULL;
  d->class_names = calloc((size_t)d->classes, sizeof *d->class_names);
  for (int32_t i = 0; d->class_names && i < d->classes; i++) {
    char number[16];
    snprintf(number, sizeof number, "%" PRId32, i);
    if (!(d->class_names[i] = strdup(known ? fashion[i] : number))) return sl_no_memory("for names");
  }
  return d->class_names ? SL_OK : sl_no_memory("for the names of %" PRId32 " classes", d->classes);
}

/* The number of classes is the largest label + 1. Most classes must have a sample: a broken label file would make the
 * number absurd. */
static sl_status count_classes(const char *path, sl_dataset *d) {
  int64_t largest_at = 0;
  SL_TRY(check_labels(path, &d->train, MOST_CLASSES, "the most classes supported"));
  for (int64_t i = 0; i < d->train.n; i++)
    if (d->train.labels[i] > d->train.labels[largest_at]) largest_at = i;
  d->classes = d->train.labels[largest_at] + 1;
  uint8_t *seen = calloc((size_t)d->classes, 1);
  if (!seen) return sl_no_memory("for %" PRId32 " classes", d->classes);
  int32_t empty = d->classes;
  for (int64_t i = 0; i < d->train.n; i++) {
    empty -= !seen[d->train.labels[i]];
    seen[d->train.labels[i]] = 1;
  }
  free(seen);
  if (empty > d->classes / 2)
    return sl_fail(SL_EFORMAT,
                   "%s: label %" PRId64 " is %" PRId32 ", which would leave %" PRId32 " of %" PRId32
                   " classes without a sample; if that is meant, name the classes in %s/labels.txt",
                   path, largest_at, d->classes - 1, empty, d->classes, d->directory);
  if (empty) sl_log(SL_LOG_WARNING, "%s: %" PRId32 " of %" PRId32 " classes have no sample", path, empty, d->classes);
  return SL_OK;
}

/* Computes each channel's mean and standard deviation exactly: from integer sums of bytes and of their squares, with
 * one division and one root at the end. There are LANES sums, a multiple of every number of channels, so that the loop
 * vectorises for each of them. */
static void measure_pixels(sl_dataset *d) {
  enum { LANES = 48, TURNS = 4096 }; /* 4096 squares fit 32 bits */
  const int C = d->channels > SL_DATASET_CHANNELS ? 1 : (int)d->channels;
  const int64_t bytes = d->train.n * d->height * d->width * d->channels, n = bytes / C;
  uint64_t sum[SL_DATASET_CHANNELS] = {0}, squares[SL_DATASET_CHANNELS] = {0};
  _Static_assert(LANES * TURNS <= SL_MAPPING_PIECE, "a piece of a mapped file");
  for (int64_t i = 0; i < bytes; i += LANES * TURNS) {
    if (d->train.map.file) sl_activity_begin_call("read", sl_mapping_path(d->train.map.file), 0);
    const uint8_t *p = d->train.pixels + i;
    const int64_t m = bytes - i < LANES * TURNS ? bytes - i : LANES * TURNS;
    uint32_t s[LANES] = {0}, q[LANES] = {0};
    int64_t at = 0;
    for (; at + LANES <= m; at += LANES)
      for (int j = 0; j < LANES; j++) s[j] += p[at + j], q[j] += (uint32_t)p[at + j] * p[at + j];
    for (int j = 0; at + j < m; j++) s[j] += p[at + j], q[j] += (uint32_t)p[at + j] * p[at + j];
    for (int j = 0; j < LANES; j++) sum[j % C] += s[j], squares[j % C] += q[j];
    if (d->train.map.file) sl_activity_end_call(0);
  }
  for (int k = 0; k < SL_DATASET_CHANNELS; k++) {
    const unsigned __int128 spread =
        (unsigned __int128)squares[k] * (uint64_t)n - (unsigned __int128)sum[k] * sum[k]; /* n^2 variance */
    d->mean[k] = (double)sum[k] / (255.0 * (double)n);
    d->std[k] = spread ? sqrt((double)spread) / (255.0 * (double)n) : 1.0;
  }
}

static sl_status make_splits(sl_dataset *d, double fraction, uint64_t seed) {
  const int64_t n = d->train.n, aside = (int64_t)floor(fraction * (double)n + 0.5);
  if (fraction > 0 && (aside < 1 || aside >= n))
    return sl_fail(SL_EINVAL,
                   "a validation fraction of %g sets %" PRId64 " of %" PRId64 " samples aside; both parts need some",
                   fraction, aside, n);
  d->n[SL_SPLIT_TRAIN] = n - aside, d->n[SL_SPLIT_VALIDATION] = aside, d->n[SL_SPLIT_TEST] = d->test.n;
  for (int s = 0; s < SL_SPLIT_COUNT; s++) {
    struct sl_split_order *o = d->order[s] = calloc(1, sizeof *o);
    if (!o) return sl_no_memory("for the data set");
    o->set = s == SL_SPLIT_TEST ? &d->test : &d->train;
    o->sample_bytes = d->height * d->width * d->channels;
    o->permuted = aside > 0 && s != SL_SPLIT_TEST;
    if (o->permuted) o->permutation = sl_permutation_make(n, seed, SL_PERMUTATION_SPLIT);
    if (s == SL_SPLIT_VALIDATION) o->first = n - aside;
  }
  return SL_OK;
}

sl_status sl_dataset_open(const sl_dataset_options *options, sl_dataset **result) {
  char *paths[FILES] = {0}, why[64];
  sl_shape sample = {0}, test_sample = {0};
  sl_status status = SL_OK;
  *result = NULL;
  if (!(options->validation_fraction >= 0 && options->validation_fraction < 1))
    return sl_fail(SL_EINVAL, "a validation fraction of %g is not within 0 to 1", options->validation_fraction);
  sl_dataset *d = calloc(1, sizeof *d);
  if (!d || !(d->directory = strdup(options->directory ? options->directory : SL_DATASET_DEFAULT)))
    SL_TRY_OUT(sl_no_memory("for the data set"));
  SL_TRY_OUT(find_files(d->directory, paths));
  SL_TRY_OUT(read_names(d->directory, &d->class_names, &d->classes));
  SL_TRY_OUT(read_pair(paths[TRAIN_IMAGES], paths[TRAIN_LABELS], &d->train, &sample));
  d->height = sample.dim[0], d->width = sample.dim[1], d->channels = sample.dim[2];
  if (d->class_names) {
    snprintf(why, sizeof why, "labels.txt names %" PRId32 " classes", d->classes);
    SL_TRY_OUT(check_labels(paths[TRAIN_LABELS], &d->train, d->classes, why));
  } else {
    snprintf(why, sizeof why, "the training labels' range");
    SL_TRY_OUT(count_classes(paths[TRAIN_LABELS], d));
    SL_TRY_OUT(make_names(d));
  }
  if (paths[TEST_IMAGES]) {
    SL_TRY_OUT(read_pair(paths[TEST_IMAGES], paths[TEST_LABELS], &d->test, &test_sample));
    if (!sl_shape_equal(&sample, &test_sample)) {
      char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: has images of shape %s where training has %s", paths[TEST_IMAGES],
                         sl_shape_text(&test_sample, a, sizeof a), sl_shape_text(&sample, b, sizeof b)));
    }
    SL_TRY_OUT(check_labels(paths[TEST_LABELS], &d->test, d->classes, why));
  }
  measure_pixels(d);
  if (d->train.map.file) SL_TRY_OUT(sl_mapping_check(d->train.map.file));
  SL_TRY_OUT(make_splits(d, options->validation_fraction, options->seed));
  *result = d;
  d = NULL;
out:
  for (int f = 0; f < FILES; f++) free(paths[f]);
  sl_dataset_close(d);
  return status;
}

void sl_dataset_close(sl_dataset *d) {
  if (!d) return;
  free_names(d->class_names, d->classes);
  set_clear(&d->train), set_clear(&d->test);
  for (int s = 0; s < SL_SPLIT_COUNT; s++) free(d->order[s]);
  free(d->directory), free(d);
}

static int64_t number_of(const struct sl_split_order *o, int64_t i) {
  return o->permuted ? sl_permutation_at(&o->permutation, o->first + i) : i;
}

static sl_status read_sample(void *arg, int64_t i, void *sample, int32_t *label) {
  const struct sl_split_order *o = arg;
  const int64_t number = number_of(o, i);
  if (o->set->map.file) sl_activity_begin_call("read", sl_mapping_path(o->set->map.file), 0);
  memcpy(sample, o->set->pixels + number * o->sample_bytes, (size_t)o->sample_bytes);
  if (o->set->map.file) sl_activity_end_call(0);
  *label = o->set->labels[number];
  return o->set->map.file ? sl_mapping_check(o->set->map.file) : SL_OK;
}

sl_sample_source sl_dataset_source(const sl_dataset *d, sl_split split) {
  return (sl_sample_source){.n = d->n[split],
                            .sample_bytes = (size_t)d->order[split]->sample_bytes,
                            .read = read_sample,
                            .arg = d->order[split]};
}

int64_t sl_dataset_index(const sl_dataset *d, sl_split split, int64_t i) { return number_of(d->order[split], i); }

sl_shape sl_dataset_sample_shape(const sl_dataset *d) { return SL_SHAPE(d->height, d->width, d->channels); }
