/* A labelled image set: a directory of IDX files, checked as a whole when opened. Pixels are held in memory as bytes;
 * large uncompressed files are mapped instead.
 *
 * Files: train-images-idx3-ubyte and train-labels-idx1-ubyte, and the same with t10k; .gz or not. A file may also have
 * any other name that contains "images" or "labels", and "idx", and one of "train", "t10k" and "test". idx3 images are
 * [n, H, W], idx4 are [n, H, W, C]. The test pair may be missing. If labels.txt exists, it names the classes, one per
 * line. */
#ifndef SL_DATASET_H
#define SL_DATASET_H

#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/data/idx.h"
#include "runtime/data/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_DATASET_DEFAULT "/usr/share/datasets/fashion-mnist" /* Debian's dataset-fashion-mnist */

enum { SL_DATASET_CHANNELS = 4 };

typedef struct sl_dataset_options {
  const char *directory;      /* NULL: SL_DATASET_DEFAULT */
  double validation_fraction; /* of the training file, set aside; 0 <= f < 1 */
  uint64_t seed;              /* chooses the validation samples; the same seed gives the same split */
} sl_dataset_options;

/* As read from one pair of files. */
typedef struct sl_image_set {
  int64_t n;
  const uint8_t *pixels; /* [n, H, W, C] */
  int32_t *labels;       /* [n], each within [0, classes) */
  void *memory;          /* holds the pixels, or ... */
  sl_idx_mapping map;    /* ... the mapped file that holds them */
} sl_image_set;

typedef struct sl_dataset {
  char *directory;
  int64_t height, width, channels; /* of every image */
  int32_t classes;                 /* largest training label + 1 */
  char **class_names;              /* [classes] */
  sl_image_set train, test;        /* train includes the validation samples; test.n is 0 without a test pair */
  int64_t n[SL_SPLIT_COUNT];       /* samples in each split */
  /* Mean and standard deviation of each channel over the whole training file, scaled to 0 .. 1. Integer sums make them
   * the same on every machine. std is never 0. With more than SL_DATASET_CHANNELS channels, entry 0 covers all of them;
   * entries without a channel are 0 and 1. */
  double mean[SL_DATASET_CHANNELS], std[SL_DATASET_CHANNELS];
  struct sl_split_order *order[SL_SPLIT_COUNT]; /* private */
} sl_dataset;

/* SL_ENOTFOUND (names the package to install if the default set is missing); SL_EFORMAT names file and index: different
 * counts, a label out of range, different shapes of train and test. */
sl_status sl_dataset_open(const sl_dataset_options *options, sl_dataset **dataset);
void sl_dataset_close(sl_dataset *dataset);

/* The samples of one split, H*W*C bytes each, for a loader; valid until the data set is closed. A seeded permutation
 * orders the samples of the training and validation splits. */
sl_sample_source sl_dataset_source(const sl_dataset *dataset, sl_split split);
/* Number of a split's sample i in its file (train or test pair). */
int64_t sl_dataset_index(const sl_dataset *dataset, sl_split split, int64_t i);
/* [H, W, C] */
sl_shape sl_dataset_sample_shape(const sl_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif
