/* Converts progress to JSON and back, compares a checkpoint with the training to resume, and reads it. */
#include "tools/train/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/comm.h"
#include "tools/files/rundir.h"

/* ---- the header ------------------------------------------------------------------------------------------------- */

/* "overflows" only in fp16. */
static json_t *sums_to_json(const sl__sums *s) {
  json_t *json = json_pack("{s:I, s:f, s:f, s:f}", "steps", (json_int_t)s->steps, "loss", s->loss, "correct",
                           s->correct, "count", s->count);
  if (json && s->overflows > 0 && json_object_set_new(json, "overflows", json_integer(s->overflows)) != 0) {
    json_decref(json);
    return NULL;
  }
  return json;
}

static int sums_from_json(const json_t *json, sl__sums *s) {
  json_int_t steps, overflows = 0;
  if (json_unpack((json_t *)json, "{s:I, s:F, s:F, s:F, s?I}", "steps", &steps, "loss", &s->loss, "correct",
                  &s->correct, "count", &s->count, "overflows", &overflows) != 0 ||
      steps < 0 || overflows < 0)
    return 0;
  s->steps = steps, s->overflows = overflows;
  return 1;
}

static int spikes_to_json(const sl__progress *p, json_t *progress) {
  json_t *losses = json_array(), *skipped = json_array();
  int fine = losses && skipped;
  for (int i = 0; i < p->losses.n && fine; i++) fine = json_array_append_new(losses, json_real(p->losses.last[i])) == 0;
  for (int i = 0; i < p->n_skipped && fine; i++)
    fine = json_array_append_new(skipped, json_integer((json_int_t)p->skipped[i])) == 0;
  fine = json_object_set_new(progress, "losses", losses) == 0 && fine;
  return json_object_set_new(progress, "skipped", skipped) == 0 && fine;
}

/* The last validation may have reached the bound of --until and not be the best. */
static int validation_to_json(const sl__score *score, json_t *progress) {
  if (score->samples == 0) return 1;
  return json_object_set_new(progress, "validation",
                             json_pack("{s:f, s:f, s:I}", "accuracy", score->accuracy, "loss", score->loss, "samples",
                                       (json_int_t)score->samples)) == 0;
}

static int validation_from_json(const json_t *json, sl__score *score) {
  json_int_t samples;
  json_t *validation = json_object_get(json, "validation");
  if (!validation) return 1;
  if (json_unpack(validation, "{s:F, s:F, s:I}", "accuracy", &score->accuracy, "loss", &score->loss, "samples",
                  &samples) != 0 ||
      samples < 1)
    return 0;
  score->samples = samples;
  return 1;
}

/* Runs without --on-spike have neither field. */
static int spikes_from_json(const json_t *json, sl__progress *p) {
  const json_t *losses = json_object_get(json, "losses"), *skipped = json_object_get(json, "skipped");
  if (json_array_size(losses) > SL__LOSSES || json_array_size(skipped) > SL__SKIPPED) return 0;
  for (size_t i = 0; i < json_array_size(losses); i++)
    p->losses.last[p->losses.n++] = json_number_value(json_array_get(losses, i));
  for (size_t i = 0; i < json_array_size(skipped); i++)
    p->skipped[p->n_skipped++] = json_integer_value(json_array_get(skipped, i));
  return 1;
}

json_t *sl__checkpoint_header(const sl__model_facts *facts, const sl_rate *r, const sl__progress *p,
                              const char *configuration) {
  char digest[24];
  snprintf(digest, sizeof digest, "%016" PRIx64, p->data);
  json_t *header = sl__model_metadata(facts);
  json_t *schedule = sl_rate_to_json(r);
  json_t *progress =
      json_pack("{s:I, s:I, s:s, s:I, s:f, s:f, s:I, s:o, s:o}", "step", (json_int_t)p->step, "cursor",
                (json_int_t)(p->step * facts->plan.batch), "data", digest, "best_step", (json_int_t)p->best_step,
                "best_accuracy", p->best.accuracy, "best_loss", p->best.loss, "best_samples",
                (json_int_t)p->best.samples, "metrics", sums_to_json(&p->metrics), "shown", sums_to_json(&p->shown));
  if (progress && (!validation_to_json(&p->validation, progress) || (p->spikes && !spikes_to_json(p, progress)) ||
                   (p->fast[0] && json_object_set_new(progress, "fast", json_string(p->fast)) != 0))) {
    json_decref(progress);
    progress = NULL;
  }
  if (header && schedule && progress && json_object_set_new(header, "schedule", schedule) == 0 &&
      json_object_set_new(header, "progress", progress) == 0 &&
      json_object_set_new(header, "configuration", json_string(configuration)) == 0)
    return header;
  json_decref(header);
  return NULL;
}

static sl_status read_progress(const sl__model_file *file, const sl_plan *plan, sl__progress *p) {
  json_t *json = NULL;
  const char *digest;
  json_int_t step, cursor, best_step, best_samples;
  int64_t at;
  const json_t *metrics, *shown;
  *p = (sl__progress){0};
  SL_TRY(sl__model_member(file, "progress", &json));
  const int fine =
      json_unpack(json, "{s:I, s:I, s:s, s:I, s:F, s:F, s:I, s:o, s:o}", "step", &step, "cursor", &cursor, "data",
                  &digest, "best_step", &best_step, "best_accuracy", &p->best.accuracy, "best_loss", &p->best.loss,
                  "best_samples", &best_samples, "metrics", &metrics, "shown", &shown) == 0 &&
      step >= 0 && !__builtin_mul_overflow(step, plan->batch, &at) && cursor == at && best_step >= 0 &&
      best_step <= step && best_samples >= 0 && sums_from_json(metrics, &p->metrics) &&
      sums_from_json(shown, &p->shown) && validation_from_json(json, &p->validation) && spikes_from_json(json, p);
  if (fine) {
    p->data = strtoull(digest, NULL, 16);
    const char *fast = json_string_value(json_object_get(json, "fast"));
    if (fast) snprintf(p->fast, sizeof p->fast, "%s", fast);
    p->step = step, p->best_step = best_step, p->best.samples = best_samples;
  }
  json_decref(json);
  return fine ? SL_OK : sl_fail(SL_EFORMAT, "%s: its training progress cannot be read", sl__model_path(file));
}

static sl_status read_schedule(const sl__model_file *file, sl_rate *r) {
  json_t *json = NULL;
  SL_TRY(sl__model_member(file, "schedule", &json));
  const sl_status status = sl_rate_from_json(json, r);
  json_decref(json);
  return status == SL_OK ? SL_OK : sl_fail(SL_EFORMAT, "%s: its schedule cannot be read", sl__model_path(file));
}

/* ---- comparing a checkpoint with the training ------------------------------------------------------------------- */

static sl_status differs(const sl_setting *s, const void *mine, const void *theirs, const char *path) {
  char a[SL_SETTING_BYTES], b[SL_SETTING_BYTES];
  return sl_fail(SL_EPLAN, "--%s is %s here and %s in %s", s->option, sl_setting_text(s, mine, a),
                 sl_setting_text(s, theirs, b), path);
}

/* A checkpoint holds fp32 parameters and state, so a training can go on in another precision. */
static sl_status compare_training(const sl_training *mine, const sl_training *theirs, const char *path) {
  sl_training likewise = *theirs;
  likewise.precision = mine->precision;
  const sl_setting *s = sl_training_differs(mine, &likewise);
  return s ? differs(s, mine, theirs, path) : SL_OK;
}

static sl_status compare_schedules(const sl_rate *a, const sl_rate *b, const char *path) {
  const sl_setting *s = sl_rate_differs(a, b);
  if (!s || s->option) return s ? differs(s, a, b, path) : SL_OK;
  return sl_fail(SL_EPLAN,
                 "the %s schedule has %lld steps here (--steps, --epochs) but %lld in %s; to train longer, "
                 "begin a new run with --init",
                 sl_rate_names[a->kind], (long long)a->steps, (long long)b->steps, path);
}

static sl_status compare_facts(const sl__model_facts *mine, const sl__model_facts *f, const char *path) {
  sl_plan theirs = f->plan;
  /* Another precision has other products, so their order of sums may differ. */
  if (mine->training.precision != f->training.precision) theirs.tiles.blocks = mine->plan.tiles.blocks;
  SL_TRY(sl_plan_compare(&mine->plan, &theirs, path));
  char here[SL_SIZES_TEXT], there[SL_SIZES_TEXT];
  if (strcmp(sl_model_text(mine->model, here, sizeof here), sl_model_text(f->model, there, sizeof there)) != 0)
    return sl_fail(SL_EPLAN, "model is %s here and %s in %s", here, there, path);
  if (!sl_data_equal(mine->model->family->data, &mine->data, &f->data) || mine->val_fraction != f->val_fraction)
    return sl_fail(SL_EPLAN, "the data set, or its validation part, differs from that of %s", path);
  SL_TRY(compare_training(&mine->training, &f->training, path));
  if (mine->augment.pad != f->augment.pad || mine->augment.flip != f->augment.flip)
    return sl_fail(SL_EPLAN, "--augment is crop=%d, flip %s here and crop=%d, flip %s in %s", mine->augment.pad,
                   mine->augment.flip ? "yes" : "no", f->augment.pad, f->augment.flip ? "yes" : "no", path);
  return SL_OK;
}

static sl_status check_same(const sl__resume_options *o, const sl__model_file *file, sl__progress *p) {
  const char *path = sl__model_path(file);
  sl_rate rate = {0};
  SL_TRY(compare_facts(o->facts, sl__model_facts_of(file), path));
  SL_TRY(read_schedule(file, &rate));
  SL_TRY(compare_schedules(o->rate, &rate, path));
  SL_TRY(read_progress(file, &o->facts->plan, p));
  if (o->data != p->data)
    return sl_fail(SL_EPLAN, "the tokens of --data differ from those of the training in %s", path);
  return SL_OK;
}

/* ---- finding the newest usable checkpoint ----------------------------------------------------------------------- */

/* Reports one of several failures: a differing option or, if no option differs, the newest checkpoint's failure. */
static sl_status tell(const sl_failure *refused, int n) {
  int i = 0;
  while (i < n && refused[i].code != SL_EPLAN) i++;
  if (i < n) return sl_failure_again(&refused[i]);
  if (refused->code == SL_EIO || refused->code == SL_ENOMEM) return sl_failure_again(refused); /* may pass next time */
  return sl_fail(refused->code, "%s; %s: --force starts the run afresh", refused->text,
                 n > 1 ? "nor can a checkpoint before it be used" : "there is no checkpoint before it");
}

/* The checkpoints of a run, newest first. */
static sl_status list_checkpoints(const char *run, int64_t **steps, int *n) {
  char *folder;
  *steps = NULL, *n = 0;
  if (asprintf(&folder, "%s/%s", run, sl__rundir_file_name(SL__RUNDIR_CHECKPOINTS)) < 0)
    return sl_no_memory("for a path");
  const sl_status status = sl_checkpoint_newest(folder, steps, n);
  free(folder);
  return status;
}

/* The path of a step's checkpoint; the caller must free() it. SL_EFORMAT: it has no manifest. */
static sl_status path_of(const char *run, int64_t step, char **path) {
  char *folder;
  *path = NULL;
  if (asprintf(&folder, "%s/%s", run, sl__rundir_file_name(SL__RUNDIR_CHECKPOINTS)) < 0)
    return sl_no_memory("for a path");
  *path = sl_checkpoint_path(folder, step);
  free(folder);
  if (!*path) return sl_no_memory("for a path");
  return sl_checkpoint_is(*path) ? SL_OK : sl_fail(SL_EFORMAT, "%s has no %s", *path, SL_CHECKPOINT_MANIFEST);
}

sl_status sl__open_newest(const char *run, sl__model_file **file) {
  int64_t *steps;
  int n;
  *file = NULL;
  SL_TRY(list_checkpoints(run, &steps, &n));
  sl_failure *refused = calloc((size_t)n + 1, sizeof *refused);
  sl_status status = refused ? SL_OK : sl_no_memory("for the checkpoints of %s", run);
  for (int i = 0; i < n && refused && !*file; i++) {
    char *path;
    status = path_of(run, steps[i], &path);
    if (status == SL_OK) status = sl__model_open_share(path, -1, 1, file); /* verifies no part */
    free(path);
    if (status != SL_OK) refused[i] = sl_failure_keep(status);
  }
  if (refused && n > 0 && !*file) status = tell(refused, n);
  free(steps), free(refused);
  return status;
}

/* Opens a checkpoint on every rank that sees the folder of the run. If all ranks do, each one verifies a share of its
 * parts, and *everywhere is 1. Otherwise rank 0 verifies all, and *file is NULL on the other ranks. Collective. */
static sl_status open_together(const sl__resume_options *o, int64_t step, sl__progress *p, sl__model_file **file,
                               int *everywhere) {
  const sl__ranks *ranks = o->ranks;
  char *path, sums[2][17] = {""}; /* rank 0's, this rank's */
  int sees = 0;
  *file = NULL, *everywhere = 0;
  sl_status status = path_of(o->run, step, &path);
  if (status == SL_OK) status = sl_checkpoint_checksum(path, sums[1]);
  if (ranks->rank == 0) memcpy(sums[0], sums[1], sizeof *sums);
  if (ranks->n > 1) MPI_Bcast(sums[0], sizeof *sums, MPI_CHAR, 0, ranks->comm);
  if (ranks->rank == 0)
    sees = 1;
  else
    sees = status == SL_OK && strcmp(sums[0], sums[1]) == 0, status = SL_OK;
  const int all = sl__ranks_sum(ranks, sees) == ranks->n;
  if (status == SL_OK && (all || ranks->rank == 0))
    status = all ? sl__model_open_share(path, ranks->rank, ranks->n, file) : sl__model_open(path, file);
  if (status == SL_OK && ranks->rank == 0) status = check_same(o, *file, p);
  free(path);
  status = sl__ranks_agree(ranks, status);
  if (status != SL_OK) sl__model_close(*file), *file = NULL;
  *everywhere = all;
  return status;
}

/* Finds the newest checkpoint that all ranks can use. Collective. */
static sl_status find(const sl__resume_options *o, sl__progress *p, sl__model_file **file, int *everywhere) {
  const sl__ranks *ranks = o->ranks;
  int64_t *steps = NULL;
  int n = 0, n_refused = 0;
  sl_failure *refused = NULL;
  sl_status status = SL_OK;
  *file = NULL, *everywhere = 0;
  if (ranks->rank == 0) status = list_checkpoints(o->run, &steps, &n);
  SL_TRY_OUT(sl__ranks_agree(ranks, status));
  n = (int)sl__ranks_sum(ranks, n); /* of rank 0 */
  if (n > 0 && !(refused = calloc((size_t)n, sizeof *refused))) status = sl_no_memory("to resume");
  SL_TRY_OUT(sl__ranks_agree(ranks, status));
  for (int i = 0; i < n; i++) {
    const int64_t step = (int64_t)sl__ranks_sum(ranks, steps ? (double)steps[i] : 0);
    if (o->most > 0 && step > o->most) continue;
    status = open_together(o, step, p, file, everywhere);
    if (status == SL_OK) {
      for (int k = 0; k < n_refused && ranks->rank == 0; k++)
        sl_log(SL_LOG_WARNING, "%s; the checkpoint of step %lld is used", refused[k].text, (long long)step);
      goto out;
    }
    refused[n_refused++] = sl_failure_keep(status);
  }
  if (n_refused > 0) status = tell(refused, n_refused);
out:
  free(steps), free(refused);
  return status;
}

sl_status sl__newest_step(const char *run, int64_t *step) {
  int64_t *steps;
  int n;
  const sl_status status = list_checkpoints(run, &steps, &n);
  *step = n > 0 ? steps[0] : 0;
  free(steps);
  return status;
}

/* Refuses runs of older versions, which kept one state file; otherwise they would silently start over. */
static sl_status check_older(const char *run) {
  char *path;
  if (asprintf(&path, "%s/%s", run, sl__rundir_file_name(SL__RUNDIR_STATE)) < 0) return sl_no_memory("for a path");
  const sl_status status =
      access(path, F_OK) == 0
          ? sl_fail(SL_EUNSUPPORTED,
                    "%s is the state of a run of an earlier version, which this version cannot resume; --init %s "
                    "begins a new run with its weights",
                    path, path)
          : SL_OK;
  free(path);
  return status;
}

/* Sends other ranks a tensor that not all ranks hold. */
static sl_status hand_over(const sl__ranks *ranks, const sl__model_file *file, const sl_tensor *t) {
  const size_t bytes = (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype);
  char *data = t->data;
  sl_status status = SL_OK;
  if (ranks->rank == 0) {
    data = malloc(bytes + 1);
    status = data ? sl__model_read_tensor(file, t, data) : sl_no_memory("to read '%s'", t->name);
  }
  status = sl__ranks_agree(ranks, status);
  for (int r = 1; r < ranks->n && status == SL_OK; r++)
    if (sl_tensor_is_on(t, r)) status = sl__ranks_send(ranks, 0, r, data, bytes);
  if (ranks->rank == 0) free(data);
  return status;
}

/* Whether ranks other than 0 hold the tensor, but not all ranks do. */
static int is_divided(const sl_tensor *t) { return t->owner > 0 || t->stride || t->width > 1; }

sl_status sl__share_out(const sl__ranks *ranks, sl_store *store, const sl__model_file *file, const sl_graph *graph) {
  SL_TRY(sl__ranks_broadcast(ranks, store));
  SL_TRY(sl_store_acquire(store, 1));
  sl_status status = SL_OK;
  for (int i = 0; i < sl_store_count(store) && status == SL_OK; i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (is_divided(t) && (!graph || sl_graph_find(graph, t->name) != SL_NONE)) status = hand_over(ranks, file, t);
  }
  sl_store_release(store);
  return status;
}

/* Whether the store has velocities of --sync diloco and the checkpoint has none: the run began without that option. */
static int lacks_outer(const sl_store *store, const sl__model_file *file) {
  int mine = 0;
  for (int i = 0; i < sl_store_count(store); i++) {
    const char *name = sl_store_at(store, i)->name, *end = strrchr(name, '.');
    if (!end || strcmp(end, ".outer") != 0) continue;
    if (sl__model_has(file, name)) return 0;
    mine = 1;
  }
  return mine;
}

/* Another precision may have state that the checkpoint lacks: the loss scale of fp16, which begins anew. */
static sl_status read_checkpoint(const sl__resume_options *o, const sl__model_file *file, int64_t step) {
  const sl_precision mine = o->facts->training.precision, theirs = sl__model_facts_of(file)->training.precision;
  if (mine != theirs)
    sl_log(SL_LOG_WARNING,
           "the training goes on in %s; up to step %lld it was in %s, so its bits are those of neither precision alone",
           sl_precision_names[mine], (long long)step, sl_precision_names[theirs]);
  const int outer = lacks_outer(o->store, file);
  if (outer)
    sl_log(SL_LOG_WARNING, "--sync diloco: %s has no outer velocities, which begin at 0", sl__model_path(file));
  return sl__model_read(file, o->store, NULL, mine != theirs || outer);
}

/* Reads the tensors that not all ranks hold into this rank's store. */
static sl_status read_own(const sl__resume_options *o, const sl__model_file *file) {
  SL_TRY(sl_store_acquire(o->store, 1));
  sl_status status = SL_OK;
  for (int i = 0; i < sl_store_count(o->store) && status == SL_OK; i++) {
    const sl_tensor *t = sl_store_at(o->store, i);
    if (is_divided(t) && sl_tensor_is_on(t, o->ranks->rank)) status = sl__model_read_tensor(file, t, t->data);
  }
  sl_store_release(o->store);
  return status;
}

sl_status sl__resume(const sl__resume_options *o, sl__progress *progress) {
  const sl__ranks *ranks = o->ranks;
  sl__model_file *file = NULL;
  int everywhere;
  *progress = (sl__progress){0};
  sl_status status = find(o, progress, &file, &everywhere);
  if (status != SL_OK) goto out; /* on all ranks */
  if (ranks->rank == 0)
    status = file ? read_checkpoint(o, file, progress->step) : check_older(o->run);
  else if (file)
    status = read_own(o, file);
  SL_TRY_OUT(sl__ranks_agree(ranks, status));
  if (ranks->n <= 1) goto out;
  SL_TRY_OUT(sl_comm_status(MPI_Bcast(progress, sizeof *progress, MPI_BYTE, 0, ranks->comm), "MPI_Bcast"));
  if (progress->step > 0)
    status = everywhere ? sl__ranks_broadcast(ranks, o->store) : sl__share_out(ranks, o->store, file, NULL);
out:
  sl__model_close(file);
  return status;
}
