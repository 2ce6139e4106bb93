/* starling convert: converts a model between Starling's file and the layouts of other libraries. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "tools/commands/commands.h"
#include "tools/files/published.h"
#include "tools/run/session.h"

/* The folder must be empty: leftovers of an older model would be taken for parts of the new one. Hidden files do not
 * count: a killed process may have left some. */
static sl_status check_output(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return SL_OK;
  if (!S_ISDIR(info.st_mode)) return sl_fail(SL_EEXIST, "%s exists already: remove it, or choose another --out", path);
  DIR *folder = sl_folder_open(path);
  int entries = 0, error = folder ? 0 : errno;
  for (struct dirent *d; folder && (d = sl_folder_next(folder, path, &error));) entries += d->d_name[0] != '.';
  if (folder) closedir(folder);
  if (error) return sl_fail(SL_EIO, "cannot read the folder %s: %s", path, strerror(error));
  return entries > 0 ? sl_fail(SL_EEXIST, "the folder %s is not empty: choose another --out", path) : SL_OK;
}

/* After a failure: removes the files in a folder that was empty before, and the folder if it was not there. */
static void clear(const char *path, int was_there) {
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *d; (d = readdir(folder));) {
    const char *end = strrchr(d->d_name, '.');
    if (end && d->d_name[0] != '.' && (strcmp(end, ".safetensors") == 0 || strcmp(end, ".json") == 0))
      unlinkat(dirfd(folder), d->d_name, 0);
  }
  closedir(folder);
  if (!was_there) rmdir(path);
}

static sl_status save(const sl__options *o, const sl__model_file *file, const sl_network *network, sl_store *store) {
  const sl__model_facts *f = sl__model_facts_of(file);
  static const sl_dtype types[] = {
      [SL_PRECISION_FP32] = SL_F32, [SL_PRECISION_BF16] = SL_BF16, [SL_PRECISION_FP16] = SL_F16};
  if (o->shard_size > 0 && strcmp(o->to, "hf") != 0)
    return sl_fail(SL_EINVAL, "--shard-size divides the files of --to hf; with --to %s leave it out", o->to);
  if (strcmp(o->to, "starling") == 0) return sl__model_save(o->out, store, network->graph, f);
  const sl_format *format;
  SL_TRY(sl_format_of_model(f->model, o->to, &format));
  const int was_there = access(o->out, F_OK) == 0;
  const sl_status status = sl__published_save(o->out, format, network, store, f, types[o->dtype],
                                              o->shard_size > 0 ? o->shard_size * 1000000 : 0);
  if (status == SL_OK) return SL_OK;
  const sl_failure why = sl_failure_keep(status);
  clear(o->out, was_there);
  return sl_failure_again(&why);
}

static sl_status tell(const sl__options *o, const char *model, int64_t parameters, int tensors) {
  if (!o->json) {
    if (!o->quiet)
      sl_text_print("%s: %lld parameters in %d tensors, to %s\n", model, (long long)parameters, tensors, o->out);
    return SL_OK;
  }
  json_t *all = json_pack("{s:s, s:I, s:i, s:s, s:s}", "model", model, "parameters", (json_int_t)parameters, "tensors",
                          tensors, "to", o->to, "out", o->out);
  const sl_status status = sl_json_print(stdout, all, 9);
  json_decref(all);
  return status;
}

sl_status sl__convert(sl__options *o, int *exit_code) {
  sl_store *store = NULL;
  sl__model_file *file = NULL;
  sl_network network = {0};
  sl_model *model = NULL;
  char name[SL_SIZES_TEXT], wanted[SL_SIZES_TEXT];
  sl_status status = SL_OK;
  (void)exit_code;
  if (!o->to) return sl_fail(SL_EINVAL, "--to is missing: hf, torchvision or starling");
  if (!o->out)
    return sl_fail(SL_EINVAL, "--out is missing: the %s to write", strcmp(o->to, "hf") == 0 ? "folder" : "file");
  if (o->dtype != SL_PRECISION_FP32 && strcmp(o->to, "starling") == 0)
    return sl_fail(SL_EINVAL, "--dtype is for published weights: Starling's model files hold fp32 parameters");
  SL_TRY(check_output(o->out));
  if (o->model_name) SL_TRY(sl__find_model(o->model_name, o->size, &model));
  const sl__model_wish wish = {.model = model, .sizes = model ? NULL : o->size, .exactly = model != NULL};
  SL_TRY_OUT(sl__model_open_as(o->model, &wish, &file));
  const sl__model_facts *f = sl__model_facts_of(file);
  if (o->size && !sl__model_format(file))
    SL_TRY_OUT(sl_fail(SL_EINVAL, "%s states its sizes: --size is for weights of other libraries", o->model));
  sl_model_text(f->model, name, sizeof name);
  if (model && strcmp(name, sl_model_text(model, wanted, sizeof wanted)) != 0)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "%s is a model %s, not %s", o->model, name, wanted));
  sl_training whole = f->training; /* published weights have no folds */
  whole.folds = 0;
  SL_TRY_OUT(sl_network_evaluation(f->model, &f->data, &whole, 1, &network));
  SL_TRY_OUT(sl_store_create(&store));
  SL_TRY_OUT(sl_interchange_store(network.graph, store));
  SL_TRY_OUT(sl__model_fill(file, store, &network, f->model, &f->data, 0));
  SL_TRY_OUT(save(o, file, &network, store));
  SL_TRY_OUT(tell(o, name, network.parameter_count, sl_store_count(store)));
out:
  if (network.graph) sl_network_destroy(&network);
  sl_store_destroy(store);
  sl__model_close(file);
  free(model);
  return status;
}
