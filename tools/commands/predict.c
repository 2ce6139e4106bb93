/* starling predict: classifies image files with a trained model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "tools/commands/commands.h"
#include "tools/images/image.h"
#include "tools/run/job.h"

/* Finds the `top` likeliest classes, likeliest first; of equally likely ones the lower number first. */
static void rank_classes(const float *p, int classes, int *order, int top) {
  for (int k = 0; k < top; k++) {
    int best = -1;
    for (int c = 0; c < classes; c++) {
      int taken = 0;
      for (int j = 0; j < k; j++) taken |= order[j] == c;
      if (!taken && (best < 0 || p[c] > p[best])) best = c;
    }
    order[k] = best;
  }
}

static void say(const sl__model_facts *f, const char *file, int64_t index, const float *p, const int *order, int top) {
  sl_text_print("%s", file); /* the name may come from an archive */
  if (index >= 0) printf("[%lld]", (long long)index);
  for (int k = 0; k < top; k++) printf("%s %s %.4f", k ? "," : ":", f->class_names[order[k]], (double)p[order[k]]);
  putchar('\n');
}

static sl_status collect(json_t *all, const sl__model_facts *f, const char *file, int64_t index, const float *p,
                         const int *order, int top) {
  json_t *classes = json_array();
  for (int k = 0; k < top; k++)
    json_array_append_new(classes, json_pack("{s:i, s:s, s:f}", "class", order[k], "name", f->class_names[order[k]],
                                             "probability", (double)p[order[k]]));
  json_t *one =
      json_pack("{s:s, s:I, s:i, s:s, s:f, s:o}", "file", file, "index", (json_int_t)(index < 0 ? 0 : index), "class",
                order[0], "name", f->class_names[order[0]], "probability", (double)p[order[0]], "classes", classes);
  return one && json_array_append_new(all, one) == 0 ? SL_OK
                                                     : sl_no_memory("for the predictions (%s must be UTF-8)", file);
}

static sl_status predict_file(sl__evaluator *e, const sl__model_facts *f, const char *path, int top, int64_t resize,
                              json_t *all) {
  sl__images images;
  const sl_model_data *d = &f->data;
  const int64_t bytes = d->height * d->width * d->channels, batch = e->plan.batch;
  float *p = malloc((size_t)(batch * d->classes) * sizeof *p);
  int *order = malloc((size_t)d->classes * sizeof *order);
  sl_status status = sl__images_read(path, d->height, d->width, d->channels, resize, &images);
  if (status == SL_OK && (!p || !order)) status = sl_no_memory("for the probabilities");
  for (int64_t first = 0; status == SL_OK && first < images.n; first += batch) {
    const int64_t n = images.n - first < batch ? images.n - first : batch;
    status = sl__probabilities(e, images.pixels + first * bytes, n, p);
    for (int64_t i = 0; status == SL_OK && i < n; i++) {
      const float *mine = p + i * d->classes;
      const int64_t index = images.indexed ? first + i : -1;
      rank_classes(mine, (int)d->classes, order, top);
      if (all)
        status = collect(all, f, path, index, mine, order, top);
      else
        say(f, path, index, mine, order, top);
    }
  }
  sl__images_clear(&images);
  free(p), free(order);
  return status;
}

static sl_status run(sl__job *j, const sl__options *o, json_t *all) {
  SL_TRY(sl__job_file(j, o));
  const sl__model_facts *f = &j->facts;
  const sl_data_kind *kind = f->model->family->data;
  if (!kind->pictures)
    return sl_fail(SL_EUNSUPPORTED, "%s holds %s, a model of %s%s", sl__model_path(j->file), f->model->name, kind->name,
                   kind->continues ? ": starling generate writes text with it" : ", and predict is for images");
  SL_TRY(sl__job_start(j, "predict", 0));
  SL_TRY(sl__job_plan(j));
  SL_TRY(sl__job_build_evaluator(j));
  const int top = (int)(o->top < f->data.classes ? o->top : f->data.classes);
  for (int i = 0; i < o->n_files; i++) SL_TRY(predict_file(&j->evaluator, f, o->files[i], top, o->resize, all));
  return SL_OK;
}

sl_status sl__predict(sl__options *o, int *exit_code) {
  sl__job job = {0};
  json_t *all = o->json ? json_array() : NULL;
  (void)exit_code;
  sl_status status = run(&job, o, all);
  if (status == SL_OK && all) status = sl_json_print(stdout, all, 6);
  json_decref(all);
  sl__job_close(&job);
  return status;
}
