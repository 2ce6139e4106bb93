/* Images: a set of IDX files, for models that tell classes apart. */
#include <stdlib.h>
#include <string.h>

#include "tools/run/data.h"

static sl_status open_images(const sl__data_options *o, sl__data *d) {
  const sl_dataset_options options = {.directory = o->path, .validation_fraction = o->val_fraction, .seed = o->seed};
  SL_TRY(sl_dataset_open(&options, &d->images));
  const sl_dataset *s = d->images;
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

static sl_sample_source source(const sl__data *d, sl_split split) { return sl_dataset_source(d->images, split); }

static void text(const sl_model_data *d, char *text, size_t n) {
  snprintf(text, n, "images of %lldx%lldx%lld", (long long)d->height, (long long)d->width, (long long)d->channels);
}

static int64_t units(const sl_model_data *d) {
  (void)d;
  return 1;
}

static size_t sample_bytes(const sl_model *model, const sl_model_data *d) {
  (void)model;
  return (size_t)(d->height * d->width * d->channels);
}

static void make_up(const sl_model *model, const sl_model_data *d, uint64_t (*random)(uint64_t *), uint64_t *state,
                    void *sample) {
  uint8_t *pixel = sample;
  for (size_t i = 0; i < sample_bytes(model, d); i++) pixel[i] = (uint8_t)(random(state) >> 32);
}

static void compare(const sl__data *d, FILE *to) {
  for (int c = 0; c < SL_MAX_CHANNELS; c++)
    fprintf(to, "mean and deviation of the images: %.17g %.17g\n", d->model.mean[c], d->model.deviation[c]);
}

const sl__data_kind sl__data_images = {.samples = "images",
                                       .counted = "images",
                                       .classes = "classes",
                                       .rate = "samples/s",
                                       .augments = 1,
                                       .open = open_images,
                                       .source = source,
                                       .text = text,
                                       .units = units,
                                       .sample_bytes = sample_bytes,
                                       .make_up = make_up,
                                       .compare = compare};
