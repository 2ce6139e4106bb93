/* Fuzz target: the readers of a checkpoint's manifest and of all that it describes: parts, model, sizes, progress. The
 * input is sealed with a valid checksum, since any other one ends before they read it. */
#include "runtime/files/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/models.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"
#include "tools/files/model_file.h"
#include "tools/train/resume.h"

#define STEP "checkpoints/step-00000002"

/* One part, with tensors a [2, 1] and b []. Puts its checksum into text. */
static void write_part(char text[17]) {
  static const char part[] =
      "\x6d\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}123456789012";
  char path[FUZZ_PATH];
  uint64_t bytes;
  fuzz_write(fuzz_path(STEP "/part-00000.safetensors", path), part, sizeof part - 1);
  if (sl_checkpoint_hash(path, 0, &bytes, text) != SL_OK || bytes != sizeof part - 1) abort();
}

static void prepare(void) {
  char path[FUZZ_PATH], text[17];
  static int done;
  if (done++) return;
  if (mkdir(fuzz_path("checkpoints", path), 0777) != 0 || mkdir(fuzz_path(STEP, path), 0777) != 0) abort();
  write_part(text);
}

static void write_manifest(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH];
  json_t *json = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL);
  fuzz_path(STEP "/" SL_CHECKPOINT_MANIFEST, path);
  char *text = json_is_object(json) && sl_checkpoint_seal(json) == SL_OK ? sl_json_text(json, 0) : NULL;
  fuzz_write(path, text ? text : (const char *)data, text ? strlen(text) : n);
  free(text);
  json_decref(json);
}

/* As --resume does, with the very options that the checkpoint has. */
static void resume(const sl__model_file *file) {
  sl__progress progress;
  sl_rate rate;
  json_t *schedule;
  sl__ranks alone = {.n = 1, .comm = MPI_COMM_NULL};
  sl_store *store;
  if (sl_store_create(&store) != SL_OK) abort();
  sl__resume_options o = {
      .run = fuzz_folder(), .ranks = &alone, .facts = sl__model_facts_of(file), .rate = &rate, .store = store};
  if (sl__model_member(file, "schedule", &schedule) == SL_OK) {
    if (sl_rate_from_json(schedule, &rate) == SL_OK && sl__resume(&o, &progress) == SL_OK &&
        (progress.step < 0 || progress.best_step < 0 || progress.best_step > progress.step))
      abort();
    json_decref(schedule);
  }
  sl_store_destroy(store);
}

static void use(const sl__model_file *file) {
  const sl__model_facts *f = sl__model_facts_of(file);
  sl_network network = {0};
  if (sl_network_evaluation(f->model, &f->data, &f->training, f->plan.batch, &network) == SL_OK) {
    for (int i = 0; i < network.graph->n_values; i++)
      if (sl_shape_count(&sl_graph_value(network.graph, i)->shape) < 1) abort();
    sl_network_destroy(&network);
  }
  resume(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH];
  sl_checkpoint *c;
  sl__model_file *file;
  float room[3];
  prepare();
  write_manifest(data, n);
  if (sl_checkpoint_open(fuzz_path(STEP, path), &c) != SL_OK) {
    if (c || !strstr(sl_error(), path)) abort();
    return -1;
  }
  for (int i = 0; i < sl_checkpoint_count(c); i++)
    if (sl_checkpoint_find(c, sl_checkpoint_get(c, i)->name) != i || sl_checkpoint_read(c, i, room) != SL_OK) abort();
  sl_checkpoint_close(c);
  if (sl__model_open(path, &file) == SL_OK) {
    use(file);
    sl__model_close(file);
  } else if (file || !strstr(sl_error(), path)) {
    abort();
  }
  return 0;
}

#define HEAD "{\"format\": \"starling-checkpoint-1\", \"step\": 2, \"header\": {"
#define PLAN                                                                                          \
  "\"plan\": {\"batch\": 4, \"leaves\": 2, \"shards\": 2, \"row_blocks\": 1, \"tile_columns\": 256, " \
  "\"tile_elements\": 16384, \"seed\": 1, \"kernels\": \"base\"}"
#define TRAINING                                                                                            \
  "\"training\": {\"optimizer\": \"adamw\", \"learning_rate\": 0.001, \"momentum\": 0.9, \"beta1\": 0.9, "  \
  "\"beta2\": 0.999, \"eps\": 1e-8, \"decay\": 0.01, \"clip\": 0.0, \"smoothing\": 0.0, \"dropout\": 0.0, " \
  "\"batchnorm\": \"leaf\"}"
#define MODEL(name, size, data, names)                                                   \
  "\"format\": \"starling-1\", \"starling\": {\"model\": \"" name "\", \"size\": {" size \
  "}, \"step\": 2, "                                                                     \
  "\"data\": {" data "}, " TRAINING ", " PLAN                                            \
  ", \"val_fraction\": 0.1, \"augment\": {\"pad\": 0, \"flip\": 0}, "                    \
  "\"class_names\": [" names "]}, "
#define PROGRESS                                                                                                  \
  "\"schedule\": {\"kind\": \"constant\", \"warmup\": 0, \"steps\": 2, \"every\": 1, \"gamma\": 0.1, \"floor\": " \
  "0.0}, "                                                                                                        \
  "\"progress\": {\"step\": 2, \"cursor\": 8, \"data\": \"0\", \"best_step\": 2, \"best_accuracy\": 0.1, "        \
  "\"best_loss\": 2.3, \"best_samples\": 60, \"metrics\": {\"steps\": 0, \"loss\": 0.0, \"correct\": 0.0, "       \
  "\"count\": 0.0}, \"shown\": {\"steps\": 2, \"loss\": 4.7, \"correct\": 14.0, \"count\": 12.0}, "               \
  "\"losses\": [1.5, 2], \"skipped\": [1]}, \"configuration\": \"model: mlp\\n\""
#define PARTS(list) \
  "}, \"parts\": [{\"file\": \"part-00000.safetensors\", \"bytes\": 129, \"xxh3\": \"%s\", \"tensors\": [" list "]}]}"
#define IMAGES "\"height\": 5, \"width\": 4, \"channels\": 1, \"classes\": 2, \"mean\": [0.25], \"deviation\": [0.5]"

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const forms[] = {
      HEAD PARTS("{\"name\": \"a\", \"shape\": [2, 1], \"first\": 0}, {\"name\": \"b\", \"shape\": [], \"first\": 0}"),
      HEAD MODEL("mlp", "\"layers\": 2, \"hidden\": 3", IMAGES, "\"x\", \"y\"") PROGRESS PARTS(
          "{\"name\": \"a\", \"shape\": [2, 1], \"first\": 0}, {\"name\": \"b\", \"shape\": [], \"first\": 0}"),
      HEAD MODEL("gpt2", "\"layers\": 1, \"width\": 4, \"heads\": 2, \"positions\": 8, \"vocabulary\": 9",
                 "\"length\": 8, \"vocabulary\": 9", "")
          PROGRESS PARTS(
              "{\"name\": \"a\", \"shape\": [2, 1], \"first\": 0}, {\"name\": \"b\", \"shape\": [], \"first\": 0}")};
  char text[17], seed[4096];
  prepare();
  write_part(text);
  if (number >= (int)(sizeof forms / sizeof *forms)) return 0;
  const int n = snprintf(seed, sizeof seed, forms[number], text);
  if (n < 0 || (size_t)n >= sizeof seed || (size_t)n > room) abort();
  memcpy(data, seed, (size_t)n);
  return (size_t)n;
}
