/* Images: a set of IDX files, for models that classify images. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/data/dataset.h"

/* ---- data sets -------------------------------------------------------------------------------------------------- */

static sl_status open_set(const sl_data_options *o, sl_data *d) {
  const sl_dataset_options options = {
      .directory = o->path, .validation_fraction = o->validation_fraction, .seed = o->seed};
  sl_dataset *s;
  SL_TRY(sl_dataset_open(&options, &s));
  d->set = s;
  d->model = (sl_model_data){.height = s->height, .width = s->width, .channels = s->channels, .classes = s->classes};
  _Static_assert((int)SL_DATASET_CHANNELS == (int)SL_MAX_CHANNELS, "means of as many channels");
  memcpy(d->model.mean, s->mean, sizeof s->mean);
  memcpy(d->model.deviation, s->std, sizeof s->std);
  d->class_names = s->class_names;
  memcpy(d->n, s->n, sizeof d->n);
  d->path = realpath(s->directory, NULL);
  if (!d->path) d->path = strdup(s->directory);
  return d->path ? SL_OK : sl_no_memory("for a path");
}

static void close_set(void *set) { sl_dataset_close(set); }

static sl_sample_source source(const sl_data *d, sl_split split) { return sl_dataset_source(d->set, split); }

static void compare(const sl_data *d, FILE *to) {
  for (int c = 0; c < SL_MAX_CHANNELS; c++)
    fprintf(to, "mean and deviation of the images: %.17g %.17g\n", d->model.mean[c], d->model.deviation[c]);
}

static void make_up(const sl_model_data *d, uint64_t (*random)(uint64_t *), uint64_t *state, size_t bytes,
                    void *sample) {
  uint8_t *pixel = sample;
  (void)d;
  for (size_t i = 0; i < bytes; i++) pixel[i] = (uint8_t)(random(state) >> 32);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

static void usual(const sl_model *model, const sl_model_data *wanted, sl_model_data *d) {
  const sl_model_data small = {.height = 28, .width = 28, .channels = 1},
                      *image = model->usual.height > 0 ? &model->usual : &small;
  *d = (sl_model_data){.height = wanted->height > 0 ? wanted->height : image->height,
                       .width = wanted->width > 0 ? wanted->width : image->width,
                       .channels = wanted->channels > 0 ? wanted->channels : image->channels,
                       .classes = wanted->classes > 0        ? wanted->classes
                                  : model->usual.classes > 0 ? model->usual.classes
                                                             : 10,
                       .mean = {0.5, 0.5, 0.5, 0.5},
                       .deviation = {0.29, 0.29, 0.29, 0.29}};
}

static char *size(const sl_model_data *d, char *text, size_t n) {
  snprintf(text, n, "%lldx%lldx%lld", (long long)d->height, (long long)d->width, (long long)d->channels);
  return text;
}

static int64_t units(const sl_model_data *d) {
  (void)d;
  return 1;
}

static int64_t shards(const sl_model *model, const sl_model_data *d, int64_t samples) {
  enum { PIXELS = 224 * 224 };
  return model->usual.height > 0 ? samples * d->height * d->width / PIXELS : -1;
}

static void resize(const sl_model_data *from, sl_model_data *d) { d->height = from->height, d->width = from->width; }

/* ---- the graph -------------------------------------------------------------------------------------------------- */

/* Number of means and of deviations: one for each channel, or one for all. */
static int64_t means(int64_t channels) { return channels > SL_MAX_CHANNELS ? 1 : channels; }

static sl_shape shape(const sl_model_data *d) { return SL_SHAPE(d->height, d->width, d->channels); }

static sl_status prepare(sl_graph *g, const sl_model *model, const sl_model_data *d, sl_value samples, sl_value labels,
                         sl_value *input, sl_value *targets) {
  (void)model;
  *input = sl_normalize(g, "normalize", samples, means(d->channels), d->mean, d->deviation);
  *targets = labels;
  return SL_OK;
}

/* ---- model files ------------------------------------------------------------------------------------------------ */

static json_t *reals(const double *x, int64_t n) {
  json_t *array = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(array, json_real(x[i]));
  return array;
}

static json_t *to_json(const sl_model_data *d) {
  return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "height", (json_int_t)d->height, "width", (json_int_t)d->width,
                   "channels", (json_int_t)d->channels, "classes", (json_int_t)d->classes, "mean",
                   reals(d->mean, means(d->channels)), "deviation", reals(d->deviation, means(d->channels)));
}

/* n numbers, or one number that applies to all channels, as in older files. */
static int read_reals(const json_t *json, int64_t n, double *x) {
  if (json_is_array(json) && (int64_t)json_array_size(json) != n) return 0;
  for (int64_t i = 0; i < n; i++) {
    const json_t *one = json_is_array(json) ? json_array_get(json, (size_t)i) : json;
    if (!json_is_number(one)) return 0;
    x[i] = json_number_value(one);
  }
  return 1;
}

static sl_status from_json(json_t *json, sl_model_data *d) {
  json_int_t height, width, channels, classes;
  json_t *mean, *deviation;
  json_error_t error;
  if (json_unpack_ex(json, &error, 0, "{s:I, s:I, s:I, s:I, s:o, s:o}", "height", &height, "width", &width, "channels",
                     &channels, "classes", &classes, "mean", &mean, "deviation", &deviation) != 0)
    return sl_fail(SL_EFORMAT, "%s", error.text);
  int64_t pixels;
  if (height < 1 || width < 1 || channels < 1 || channels > INT32_MAX || classes < 1 || classes > INT32_MAX ||
      __builtin_mul_overflow(height, width, &pixels) || pixels > INT32_MAX)
    return sl_fail(SL_EFORMAT, "height, width, channels or classes are out of range");
  *d = (sl_model_data){.height = height, .width = width, .channels = channels, .classes = classes};
  for (int k = 0; k < SL_MAX_CHANNELS; k++) d->deviation[k] = 1; /* as the data set has it */
  const int64_t n = means(channels);
  if (!read_reals(mean, n, d->mean) || !read_reals(deviation, n, d->deviation))
    return sl_fail(SL_EFORMAT, "mean and deviation must each be one number, or a list of one number for each channel");
  for (int64_t k = 0; k < n; k++)
    if (!(d->deviation[k] > 0) || !isfinite(d->mean[k]))
      return sl_fail(SL_EFORMAT, "a mean is not finite, or a deviation is not above 0");
  return SL_OK;
}

/* ---- published weights ------------------------------------------------------------------------------------------ */

static void published(int torchvision, sl_model_data *d) {
  static const double imagenet[2][3] = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}; /* as torchvision's */
  const int each = torchvision && d->channels == 3;
  for (int c = 0; c < SL_MAX_CHANNELS; c++) /* else as ViT's image processor */
    d->mean[c] = each && c < 3 ? imagenet[0][c] : 0.5, d->deviation[c] = each && c < 3 ? imagenet[1][c] : 0.5;
}

/* A number for each channel, or one for all; absent and null change nothing. */
static sl_status read_channels(const json_t *json, const char *key, int64_t channels, double *x) {
  if (!json || json_is_null(json)) return SL_OK;
  if (json_is_number(json)) {
    for (int c = 0; c < SL_MAX_CHANNELS; c++) x[c] = json_number_value(json);
    return SL_OK;
  }
  if ((int64_t)json_array_size(json) != channels || channels > SL_MAX_CHANNELS)
    return sl_fail(SL_EFORMAT, "%s is not of %lld channels", key, (long long)channels);
  for (int64_t c = 0; c < channels; c++) {
    const json_t *one = json_array_get(json, (size_t)c);
    if (!json_is_number(one)) return sl_fail(SL_EFORMAT, "%s is not of numbers", key);
    x[c] = json_number_value(one);
  }
  return SL_OK;
}

static sl_status from_processor(const json_t *json, int sized, sl_model_data *d) {
  json_int_t height, width;
  if (!sized && json_unpack((json_t *)json, "{s:{s:I, s:I}}", "size", "height", &height, "width", &width) == 0 &&
      height > 0 && height <= 65536 && width > 0 && width <= 65536)
    d->height = height, d->width = width;
  const json_t *mean = json_object_get(json, "image_mean"), *deviation = json_object_get(json, "image_std");
  const json_t *factor = json_object_get(json, "rescale_factor");
  if (json_is_false(json_object_get(json, "do_rescale")) ||
      (json_is_number(factor) && fabs(json_number_value(factor) * 255 - 1) > 1e-3))
    return sl_fail(SL_EUNSUPPORTED, "pixels are not divided by 255 (do_rescale, rescale_factor), which Starling lacks");
  if (json_is_false(json_object_get(json, "do_normalize"))) {
    for (int c = 0; c < SL_MAX_CHANNELS; c++) d->mean[c] = 0, d->deviation[c] = 1;
    return SL_OK;
  }
  SL_TRY(read_channels(mean, "image_mean", d->channels, d->mean));
  SL_TRY(read_channels(deviation, "image_std", d->channels, d->deviation));
  for (int64_t c = 0; c < means(d->channels); c++)
    if (!(d->deviation[c] > 0)) return sl_fail(SL_EFORMAT, "image_std has a value that is not above 0");
  return SL_OK;
}

static json_t *to_processor(const sl_model_data *d) {
  json_t *mean = json_array(), *deviation = json_array();
  for (int64_t c = 0; c < d->channels; c++) {
    const int64_t k = d->channels > SL_MAX_CHANNELS ? 0 : c;
    json_array_append_new(mean, json_real(d->mean[k]));
    json_array_append_new(deviation, json_real(d->deviation[k]));
  }
  return json_pack("{s:s, s:b, s:b, s:f, s:b, s:{s:I, s:I}, s:o, s:o}", "image_processor_type", "ViTImageProcessor",
                   "do_resize", 1, "do_rescale", 1, "rescale_factor", 1 / 255.0, "do_normalize", 1, "size", "height",
                   (json_int_t)d->height, "width", (json_int_t)d->width, "image_mean", mean, "image_std", deviation);
}

const sl_data_kind sl_data_images = {.name = "images",
                                     .samples = "images",
                                     .counted = "images",
                                     .classes = "classes",
                                     .rate = "samples/s",
                                     .files = "folder of IDX files, gzip or plain (default " SL_DATASET_DEFAULT ")",
                                     .classifies = 1,
                                     .pictures = 1,
                                     .normalises = 1,
                                     .open = open_set,
                                     .close = close_set,
                                     .source = source,
                                     .compare = compare,
                                     .make_up = make_up,
                                     .usual = usual,
                                     .size = size,
                                     .units = units,
                                     .shards = shards,
                                     .resize = resize,
                                     .dtype = SL_U8,
                                     .shape = shape,
                                     .prepare = prepare,
                                     .to_json = to_json,
                                     .from_json = from_json,
                                     .published = published,
                                     .from_processor = from_processor,
                                     .to_processor = to_processor};
