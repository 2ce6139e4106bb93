/* starling import images: makes a data set of IDX files from folders of image files. Each thread decodes one
 * image at a time and writes it in the order of the list, so memory holds as many images as there are threads,
 * however large the set is. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/data/idx.h"
#include "runtime/numbers/permutation.h"
#include "tools/commands/commands.h"
#include "tools/images/resize.h"
#include "tools/run/meter.h"
#include "tools/settings/phrases.h"

enum { DEEPEST = 16, MOST_LABELS_OF_A_BYTE = 256, ENDINGS = 128 /* bytes of sl__picture_endings */ };

/* Strings, grown by doubling. */
typedef struct names {
  char **name;
  int64_t n, room;
} names;

static void names_free(names *list) {
  for (int64_t i = 0; i < list->n; i++) free(list->name[i]);
  free(list->name);
  *list = (names){0};
}

/* Takes ownership of name, also on failure; a NULL name counts as a failed allocation. */
static sl_status names_take(names *list, char *name) {
  if (name && list->n == list->room) {
    const int64_t room = list->room ? 2 * list->room : 64;
    char **larger = realloc(list->name, (size_t)room * sizeof *larger);
    if (larger) list->name = larger, list->room = room;
  }
  if (!name || list->n == list->room) {
    free(name);
    return sl_no_memory("for %" PRId64 " names", list->n + 1);
  }
  list->name[list->n++] = name;
  return SL_OK;
}

static char *joined(const char *folder, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

typedef struct part { /* a part of the set, for training or for testing */
  char *folder;       /* NULL: taken from the training part */
  names paths;
  int32_t *labels; /* [paths.n]; later only of the images written */
  int64_t written;
} part;

typedef struct job {
  const sl__options *options;
  sl__fit fit;
  int64_t channels, height, width; /* size of every image; height is 0 until the first is read */
  int threads;
  names classes;
  part train, test;
  int64_t others; /* files without an image's extension */
  names bad;      /* "path: why" */
  sl__meter meter;
  int64_t read; /* images, written or left out */
} job;

/* ---- finding the images ----------------------------------------------------------------------------------------- */

static int is_folder(const struct dirent *entry, const char *path) {
  struct stat info;

  if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return entry->d_type == DT_DIR;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Lists the entries of a folder, sorted, without hidden ones: names of folders, and paths of images (with `deep`, also
 * of those in subfolders). Either list may be NULL. */
static sl_status list_folder(const char *folder, int deep, names *folders, names *images, int64_t *others) {
  DIR *open = sl_folder_open(folder);
  sl_status status = SL_OK;
  names inner = {0};
  const int64_t before = images ? images->n : 0;
  if (!open)
    return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read the folder %s: %s", folder, strerror(errno));
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(open, folder, &error));) {
    if (entry->d_name[0] == '.') continue;
    char *path = joined(folder, entry->d_name);
    if (!path) SL_TRY_OUT(names_take(&inner, NULL));
    if (is_folder(entry, path)) {
      free(path);
      SL_TRY_OUT(names_take(&inner, strdup(entry->d_name)));
    } else if (images && sl__is_picture_name(entry->d_name)) {
      SL_TRY_OUT(names_take(images, path));
    } else {
      if (images) ++*others;
      free(path);
    }
  }
  if (error) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read the folder %s: %s", folder, strerror(error)));
  if (images && images->n > before)
    qsort(images->name + before, (size_t)(images->n - before), sizeof *images->name, by_bytes);
  if (inner.n > 0) qsort(inner.name, (size_t)inner.n, sizeof *inner.name, by_bytes);
  for (int64_t i = 0; deep && images && i < inner.n; i++) {
    if (deep > DEEPEST) SL_TRY_OUT(sl_fail(SL_EINVAL, "%s: folders more than %d deep", folder, DEEPEST));
    char *path = joined(folder, inner.name[i]);
    status = path ? list_folder(path, deep + 1, NULL, images, others) : names_take(&inner, NULL);
    free(path);
    if (status != SL_OK) goto out;
  }
  if (folders) *folders = inner, inner = (names){0};
out:
  closedir(open);
  names_free(&inner);
  return status;
}

static sl_status label_of(const job *j, const char *folder, const char *class, int32_t *label) {
  char **found = bsearch(&class, j->classes.name, (size_t)j->classes.n, sizeof *j->classes.name, by_bytes);
  if (!found)
    return sl_fail(SL_EFORMAT, "%s/%s: not a class, because the training part has no folder of that name", folder,
                   class);
  *label = (int32_t)(found - j->classes.name);
  return SL_OK;
}

/* Lists the images of every class of a part; the folders of the training part are the classes. */
static sl_status list_part(job *j, part *p, const char *folder) {
  names folders = {0};
  sl_status status = SL_OK;
  SL_TRY_OUT(list_folder(folder, 0, &folders, NULL, NULL));
  if (p == &j->train) {
    if (folders.n == 0)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s has no folders, one for each class, with images in them", folder));
    if (folders.n > 1 << 20)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s has %" PRId64 " folders, more than the classes allowed", folder, folders.n));
    for (int64_t c = 0; c < folders.n; c++) {
      if (!sl_text_is_plain(folders.name[c]))
        SL_TRY_OUT(
            sl_fail(SL_EINVAL,
                    "%s/%s: a folder's name becomes the name of a class, and this one is not UTF-8 or has control "
                    "characters: rename it",
                    folder, folders.name[c]));
      SL_TRY_OUT(names_take(&j->classes, strdup(folders.name[c])));
    }
  }
  for (int64_t c = 0; c < folders.n; c++) {
    int32_t label = 0;
    const int64_t before = p->paths.n;
    SL_TRY_OUT(label_of(j, folder, folders.name[c], &label));
    char *path = joined(folder, folders.name[c]);
    status = path ? list_folder(path, 1, NULL, &p->paths, &j->others) : sl_no_memory("for a path");
    free(path);
    if (status != SL_OK) goto out;
    if (p->paths.n == before && p == &j->train) {
      char endings[ENDINGS];
      sl__picture_endings(endings, sizeof endings);
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s/%s has no images (%s)", folder, folders.name[c], endings));
    }
    if (p->paths.n > UINT32_MAX) SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s has more than 2^32 images", folder));
    int32_t *labels = realloc(p->labels, (size_t)(p->paths.n + 1) * sizeof *labels);
    if (!labels) SL_TRY_OUT(sl_no_memory("for %" PRId64 " labels", p->paths.n));
    p->labels = labels;
    for (int64_t i = before; i < p->paths.n; i++) labels[i] = label;
  }
out:
  names_free(&folders);
  return status;
}

/* Sets round(fraction n) of each class's n images aside for testing: the last ones of a permutation keyed by seed
 * and class. */
static sl_status set_aside(job *j, double fraction) {
  part *p = &j->train, *q = &j->test;
  int64_t kept = 0;
  q->labels = malloc((size_t)p->paths.n * sizeof *q->labels);
  uint8_t *aside = calloc((size_t)p->paths.n, 1);
  sl_status status = SL_OK;
  if (!q->labels || !aside) SL_TRY_OUT(sl_no_memory("for %" PRId64 " labels", p->paths.n));
  for (int64_t first = 0, end; first < p->paths.n; first = end) {
    for (end = first; end < p->paths.n && p->labels[end] == p->labels[first];) end++;
    const int64_t n = end - first;
    const sl_permutation order = sl_permutation_make(n, (uint64_t)j->options->seed, (uint64_t)p->labels[first]);
    for (int64_t k = n - (int64_t)floor(fraction * (double)n + 0.5); k < n; k++)
      aside[first + sl_permutation_at(&order, k)] = 1;
  }
  for (int64_t i = 0; i < p->paths.n; i++) {
    if (aside[i]) {
      q->labels[q->paths.n] = p->labels[i];
      char *path = p->paths.name[i];
      p->paths.name[i] = NULL;
      SL_TRY_OUT(names_take(&q->paths, path));
    } else {
      if (kept < i) p->paths.name[kept] = p->paths.name[i], p->paths.name[i] = NULL;
      p->labels[kept++] = p->labels[i];
    }
  }
  p->paths.n = kept;
  if (kept == 0 || q->paths.n == 0)
    SL_TRY_OUT(sl_fail(SL_EINVAL,
                       "--test-fraction %g sets %" PRId64 " of %" PRId64 " images aside; both parts need some",
                       fraction, q->paths.n, kept + q->paths.n));
out:
  free(aside);
  return status;
}

static sl_status find_images(job *j, const char *folder) {
  static const char *const test_names[] = {"test", "val", "validation"};
  const double fraction = j->options->test_fraction;
  names inner = {0};
  sl_status status = SL_OK;
  char *train = joined(folder, "train");
  struct stat info;
  if (!train) SL_TRY_OUT(sl_no_memory("for a path"));
  if (stat(train, &info) != 0 || !S_ISDIR(info.st_mode)) {
    SL_TRY_OUT(list_part(j, &j->train, folder));
  } else {
    SL_TRY_OUT(list_part(j, &j->train, train));
    for (int i = 0; i < 3 && !j->test.folder;
         i++) { /* takes the first candidate that has folders: ImageNet's test part has no labels */
      j->test.folder = joined(folder, test_names[i]);
      if (!j->test.folder) SL_TRY_OUT(sl_no_memory("for a path"));
      names_free(&inner);
      if (stat(j->test.folder, &info) == 0 && S_ISDIR(info.st_mode))
        SL_TRY_OUT(list_folder(j->test.folder, 0, &inner, NULL, NULL));
      if (inner.n == 0) free(j->test.folder), j->test.folder = NULL;
    }
    if (j->test.folder && fraction > 0)
      SL_TRY_OUT(sl_fail(SL_EINVAL, "--test-fraction: %s has images to test on already: leave the option out",
                         j->test.folder));
    if (j->test.folder) SL_TRY_OUT(list_part(j, &j->test, j->test.folder));
  }
  if (fraction > 0) SL_TRY_OUT(set_aside(j, fraction));
out:
  free(train);
  names_free(&inner);
  return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void big32(uint8_t *b, int64_t x) {
  for (int i = 0; i < 4; i++) b[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* IDX type 08, [n, H, W] or [n, H, W, C]. */
static sl_status write_header(const job *j, int64_t n, sl_file *file) {
  uint8_t head[20] = {0, 0, 8, j->channels == 1 ? 3 : 4};
  big32(head + 4, n), big32(head + 8, j->height), big32(head + 12, j->width), big32(head + 16, j->channels);
  return sl_file_write(file, head, j->channels == 1 ? 16 : 20);
}

static sl_status read_image(const job *j, const char *path, sl__picture *picture) {
  char *bytes;
  size_t n;
  struct stat info; /* reading a pipe without a writer would never end */
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return sl_fail(SL_EFORMAT, "%s: not a file with data", path);
  SL_TRY(sl_file_read(path, SL__PICTURE_BYTES, &bytes, &n));
  sl_status status = sl__decode(path, bytes, n, j->channels, picture);
  free(bytes);
  if (status == SL_OK) status = sl__fit_picture(path, &j->fit, picture);
  return status;
}

static sl_status check_size(const job *j, const char *path, const sl__picture *p) {
  if (p->height == j->height && p->width == j->width) return SL_OK;
  return sl_fail(SL_ESHAPE,
                 "%s is %" PRId64 " high and %" PRId64 " wide, those before it %" PRId64 "x%" PRId64
                 "; give all one size with --size, or with --resize and --crop",
                 path, p->height, p->width, j->height, j->width);
}

/* Writes image i of a part; threads take turns in the order of i. */
static sl_status put(job *j, part *p, int64_t i, sl_status status, sl__picture *picture, sl_file *file) {
  const char *path = p->paths.name[i];
  if (status == SL_OK && j->height == 0) j->height = picture->height, j->width = picture->width;
  if (status == SL_OK) status = check_size(j, path, picture);
  if (status == SL_OK) {
    if (p->written == 0) SL_TRY(write_header(j, p->paths.n, file));
    p->labels[p->written++] = p->labels[i];
    return sl_file_write(file, picture->pixels, (size_t)(j->height * j->width * j->channels));
  }
  /* A file that cannot be read now, because of a disk or a server, is not a bad image. */
  if (status == SL_ENOMEM || status == SL_EIO || status == SL_ENOTFOUND || !j->options->skip_bad) return status;
  return names_take(&j->bad, strdup(sl_error())); /* it begins with the path */
}

static sl_status write_images(job *j, part *p, sl_file *file) {
  sl_status result = SL_OK;
  char *why = NULL;
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(j->threads)
  for (int64_t i = 0; i < p->paths.n; i++) {
    sl_status so_far, status = SL_OK;
    sl__picture picture = {0};
#pragma omp atomic read
    so_far = result;
    if (so_far == SL_OK) status = read_image(j, p->paths.name[i], &picture);
#pragma omp ordered
    {
      if (result == SL_OK) {
        status = put(j, p, i, status, &picture, file);
        j->read++;
        sl__meter_show(&j->meter, (double)j->read, (double)(j->train.paths.n + j->test.paths.n),
                       "image %" PRId64 " of %" PRId64, j->read, j->train.paths.n + j->test.paths.n);
        if (status != SL_OK) {
          why = strdup(sl_error()); /* error texts belong to the thread */
#pragma omp atomic write
          result = status;
        }
      }
    }
    sl__picture_clear(&picture);
  }
  if (result != SL_OK) result = sl_fail(result, "%s", why ? why : "out of memory");
  free(why);
  return result;
}

static sl_status write_labels(const job *j, const char *out, const char *name, const part *p) {
  const sl_shape shape = SL_SHAPE(p->written);
  const int byte = j->classes.n <= MOST_LABELS_OF_A_BYTE;
  char *path;
  uint8_t *bytes = NULL;
  sl_status status = SL_OK;
  if (p->paths.n == 0) return SL_OK;
  if (asprintf(&path, "%s/%s-labels-idx1-%s", out, name, byte ? "ubyte" : "int") < 0) return sl_no_memory("for a path");
  if (byte && !(bytes = malloc((size_t)p->written))) SL_TRY_OUT(sl_no_memory("for %" PRId64 " labels", p->written));
  for (int64_t i = 0; byte && i < p->written; i++) bytes[i] = (uint8_t)p->labels[i];
  status = byte ? sl_idx_write(path, SL_U8, &shape, bytes) : sl_idx_write(path, SL_I32, &shape, p->labels);
out:
  free(bytes), free(path);
  return status;
}

/* Writes name-images-idx3-ubyte (idx4 for colour). */
static sl_status write_pictures(job *j, part *p, const char *out, const char *name) {
  char *path;
  sl_file *file = NULL;
  sl_status status = SL_OK;
  uint8_t n[4];
  if (p->paths.n == 0) return SL_OK;
  if (asprintf(&path, "%s/%s-images-idx%d-ubyte", out, name, j->channels == 1 ? 3 : 4) < 0)
    return sl_no_memory("for a path");
  sl_file_tidy(path); /* of an import that was killed: as large as the set */
  SL_TRY_OUT(sl_file_create(path, &file));
  SL_TRY_OUT(write_images(j, p, file));
  if (p->written == 0)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: none of %" PRId64 " images can be read; the first: %s", path, p->paths.n,
                       j->bad.n ? j->bad.name[0] : ""));
  big32(n, p->written);
  if (p->written < p->paths.n) SL_TRY_OUT(sl_file_overwrite(file, 4, n, sizeof n));
  status = sl_file_commit(file);
  file = NULL;
out:
  sl_file_discard(file);
  free(path);
  return status;
}

static sl_status write_names(const job *j, const char *out) {
  char *path = joined(out, "labels.txt");
  sl_file *file = NULL;
  sl_status status = SL_OK;
  if (!path) return sl_no_memory("for a path");
  SL_TRY_OUT(sl_file_create(path, &file));
  for (int64_t c = 0; c < j->classes.n; c++) {
    SL_TRY_OUT(sl_file_write(file, j->classes.name[c], strlen(j->classes.name[c])));
    SL_TRY_OUT(sl_file_write(file, "\n", 1));
  }
  status = sl_file_commit(file);
  file = NULL;
out:
  sl_file_discard(file);
  free(path);
  return status;
}

/* Requires a new or empty folder, so that files of another set do not mix with these. */
static sl_status make_folder(const char *out) {
  names folders = {0}, images = {0};
  int64_t others = 0;
  SL_TRY(sl_folder_make(out));
  sl_status status = list_folder(out, 0, &folders, &images, &others);
  if (status == SL_OK && folders.n + images.n + others > 0)
    status = sl_fail(SL_EEXIST, "%s is not empty; name a new folder with --out", out);
  names_free(&folders), names_free(&images);
  return status;
}

/* Removes what was written before a failure, and the folder if that leaves it empty. */
static void remove_files(const char *out) {
  static const char *const written[] = {"train-images-idx3-ubyte", "train-images-idx4-ubyte", "train-labels-idx1-ubyte",
                                        "train-labels-idx1-int",   "t10k-images-idx3-ubyte",  "t10k-images-idx4-ubyte",
                                        "t10k-labels-idx1-ubyte",  "t10k-labels-idx1-int",    "labels.txt"};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    char *path = joined(out, written[i]);
    if (path) unlink(path);
    free(path);
  }
  rmdir(out);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static sl_status options_of(job *j, const sl__options *o) {
  int64_t size[2] = {0, 0};
  cpu_set_t cpus;
  if (strcmp(o->model, "images") != 0)
    return sl_fail(SL_EINVAL, "cannot import '%s'; usage: starling import images DIR [OPTION]...", o->model);
  if (!o->out) return sl_fail(SL_EINVAL, "--out DIR is needed: where the data set goes");
  if (o->size) SL_TRY(sl__size_parse(o->size, size));
  if (o->size && o->resize > 0) return sl_fail(SL_EINVAL, "--size and --resize exclude each other");
  j->fit = (sl__fit){.height = size[0], .width = size[1]};
  if (o->resize > 0) j->fit.shorter = o->resize;
  if (o->crop > 0) j->fit.crop_height = j->fit.crop_width = o->crop;
  const int64_t least = o->size ? (size[0] < size[1] ? size[0] : size[1]) : o->resize;
  if (o->crop > 0 && least > 0 && o->crop > least)
    return sl_fail(SL_EINVAL,
                   "--crop %" PRId64 " is more than the %" PRId64 " pixels of the shorter side after resizing", o->crop,
                   least);
  j->options = o;
  j->channels = o->grey ? 1 : 3;
  j->threads = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  if (o->import_threads > 0) j->threads = (int)o->import_threads;
  return SL_OK;
}

static sl_status report_json(const job *j) {
  json_t *classes = json_array(), *bad = json_array();
  for (int64_t c = 0; c < j->classes.n; c++) json_array_append_new(classes, json_string(j->classes.name[c]));
  for (int64_t i = 0; i < j->bad.n; i++) json_array_append_new(bad, json_string(j->bad.name[i]));
  json_t *all = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "folder", j->options->out, "train",
                          (json_int_t)j->train.written, "test", (json_int_t)j->test.written, "height",
                          (json_int_t)j->height, "width", (json_int_t)j->width, "channels", (json_int_t)j->channels,
                          "other_files", (json_int_t)j->others, "classes", classes, "left_out", bad);
  if (!all) return sl_no_memory("for the report (names must be UTF-8)");
  const sl_status status = sl_json_print(stdout, all, 17);
  json_decref(all);
  return status;
}

static void report(const job *j) {
  if (!j->options->quiet)
    for (int64_t i = 0; i < j->bad.n; i++) sl_text_print("left out: %s\n", j->bad.name[i]);
  if (j->bad.n > 0) printf("left out %" PRId64 " images\n", j->bad.n);
  if (j->others > 0 && !j->options->quiet) {
    char endings[ENDINGS];
    sl__picture_endings(endings, sizeof endings);
    printf("passed over %" PRId64 " files whose names have none of the endings %s\n", j->others, endings);
  }
  sl_text_print("%s: images of %" PRId64 "x%" PRId64 "x%" PRId64 " in %" PRId64 " classes, %" PRId64
                " to train on, %" PRId64 " to test on\n",
                j->options->out, j->height, j->width, j->channels, j->classes.n, j->train.written, j->test.written);
}

sl_status sl__import(sl__options *o, int *exit_code) {
  job j = {0};
  int made = 0;
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(options_of(&j, o));
  SL_TRY_OUT(find_images(&j, o->files[0]));
  SL_TRY_OUT(make_folder(o->out));
  made = 1;
  sl__meter_start(&j.meter, o->quiet, 0);
  SL_TRY_OUT(write_pictures(&j, &j.train, o->out, "train"));
  SL_TRY_OUT(write_pictures(&j, &j.test, o->out, "t10k"));
  sl__meter_clear(&j.meter);
  SL_TRY_OUT(write_labels(&j, o->out, "t10k", &j.test));
  SL_TRY_OUT(write_names(&j, o->out));
  /* This file comes last. Without it the folder is no data set, so files that a crash leaves are not taken for a whole
   * set. */
  SL_TRY_OUT(write_labels(&j, o->out, "train", &j.train));
  if (o->json)
    SL_TRY_OUT(report_json(&j));
  else
    report(&j);
out:
  sl__meter_clear(&j.meter);
  if (status != SL_OK && made) remove_files(o->out);
  names_free(&j.classes), names_free(&j.bad), names_free(&j.train.paths), names_free(&j.test.paths);
  free(j.train.labels), free(j.test.labels), free(j.test.folder);
  return status;
}
