/* starling train: steps, validation, the best model kept, checkpoints to resume from. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/time.h"
#include "runtime/machine/environment.h"
#include "runtime/trace/idle.h"
#include "tasks/starpu/program.h"
#include "tools/commands/commands.h"
#include "tools/files/model_file.h"
#include "tools/files/rundir.h"
#include "tools/run/balance.h"
#include "tools/run/data.h"
#include "tools/run/digest.h"
#include "tools/run/evaluate.h"
#include "tools/run/meter.h"
#include "tools/run/ranks.h"
#include "tools/run/session.h"
#include "tools/run/timeline.h"
#include "tools/run/watch.h"
#include "tools/settings/phrases.h"
#include "tools/train/checkpoints.h"
#include "tools/train/resume.h"

/* What has been added up since some step. */
typedef struct interval {
  int64_t from; /* ns */
  int64_t steps;
  int64_t before; /* those of an earlier start of the run, or of another division of its leaves: in the sums, not in the
                     times */
  double loss, correct, count;
  double input;   /* loader's seconds of waiting at its start */
  double stood;   /* seconds that checkpoints took, at its start */
  double seconds; /* that its steps took, known at its end */
} interval;

typedef struct run {
  sl__options *o;
  json_t *environment; /* as it was before the runtime changed it */
  sl_runtime *runtime;
  sl__ranks ranks;
  sl__balance balance;
  uint64_t sent; /* by programs that are no more */
  sl__data data;
  sl_rundir *dir;
  sl__checkpoints *checkpoints;
  char *configuration; /* as config.yaml has it */
  sl_recorder *recorder;
  sl_store *store;
  sl_network network;
  sl_program *program;
  sl__evaluator evaluator;
  sl__watch *watch;
  sl__model_file *init; /* --init's, until the weights are taken */
  sl_loader *loader;
  sl__model_facts facts;
  sl_rate rate;
  sl__until until;
  int64_t first, step, total; /* steps done before this start, done, to do */
  int64_t eval_every, log_every;
  int64_t predicted;    /* peak memory of this rank, bytes */
  double flops;         /* of a step, over all ranks */
  int64_t began;        /* ns */
  interval now, line;   /* since the last line of metrics, since the last line printed */
  sl__score validation; /* of this step, if validated */
  sl__score best;
  int64_t best_step; /* 0: none yet */
  int reached;       /* --until's bound */
  sl__meter meter;
  sl__clocks clocks;
  char *folder;    /* the run directory's path, on all ranks */
  double stepping; /* seconds that steps took, without validation */
} run;

static int validates(const run *r) { return r->data.n[SL_SPLIT_VALIDATION] > 0; }
static double epochs_done(const run *r) {
  return (double)(r->step * r->facts.plan.batch) / (double)r->data.n[SL_SPLIT_TRAIN];
}

/* ---- preparation ------------------------------------------------------------------------------------------------ */

/* How long, and how often to look; after the data set is known. Fills the options in, so that config.yaml shows all of
 * it. */
static sl_status set_length(run *r) {
  sl__options *o = r->o;
  const sl_model *m = r->facts.model;
  const int64_t n = r->data.n[SL_SPLIT_TRAIN], batch = r->facts.plan.batch;
  if (n < 1) return sl_fail(SL_EINVAL, "no %s are left to train on: lower --val-fraction", sl__samples(m));
  if (r->until.measure != SL__UNTIL_NONE && !validates(r))
    return sl_fail(SL_EINVAL, "--until looks at validation, and --val-fraction %g sets no %s aside", o->val_fraction,
                   sl__samples(m));
  if (o->steps < 0 && o->epochs < 0) o->epochs = r->until.measure == SL__UNTIL_NONE ? m->epochs : 5 * m->epochs;
  r->total = o->epochs > 0 ? (int64_t)ceil((double)o->epochs * (double)n / (double)batch) : INT64_MAX;
  if (o->steps > 0 && o->steps < r->total) r->total = o->steps;
  r->eval_every = o->eval_every;
  r->log_every = o->log_every > 0 ? o->log_every : n / batch / 10 > 0 ? n / batch / 10 : 1;
  SL_TRY(sl__option_default_text(&o->rate_schedule, sl_rate_name(m->rate)));
  sl__option_default_integer(&o->warmup, (int64_t)(m->warmup * (double)r->total));
  sl__option_default_integer(&o->rate_step, r->total / 3 > 0 ? r->total / 3 : 1);
  r->rate = (sl_rate){.peak = r->facts.training.learning_rate,
                      .warmup = o->warmup,
                      .steps = r->total,
                      .every = o->rate_step,
                      .gamma = o->rate_gamma,
                      .floor = o->rate_floor};
  SL_TRY(sl_rate_parse(o->rate_schedule, &r->rate.kind));
  r->ranks.compression.warmup = o->warmup;
  return SL_OK;
}

/* What was left open and is settled now. */
static sl_status complete_options(run *r) {
  sl__options *o = r->o;
  const sl_plan *p = &r->facts.plan;
  sl__option_default_integer(&o->batch, p->batch);
  sl__option_default_integer(&o->leaves, p->leaves);
  sl__option_default_integer(&o->micro_batches, p->micro_batches);
  sl__option_default_integer(&o->shards, p->shards);
  sl__option_default_integer(&o->row_blocks, p->row_blocks);
  sl__training_default(o, &r->facts.training);
  SL_TRY(sl__option_default_text(&o->kernels, p->kernels));
  SL_TRY(sl__option_default_text(&o->sched, sl_runtime_sched(r->runtime)));
  if (r->facts.data.length > 0) sl__option_default_integer(&o->length, r->facts.data.length);
  char *path = strdup(r->data.path);
  if (!path) return sl_fail(SL_ENOMEM, "no memory for a path");
  free(o->data);
  o->data = path;
  return SL_OK;
}

/* The programs over the store, for the leaves that this rank has now. */
static sl_status make_programs(run *r) {
  const sl__model_facts *f = &r->facts;
  const sl_value keep[] = {r->network.loss, r->network.correct, r->network.count, r->network.clip};
  const sl_program_options options = {.recorder = r->recorder,
                                      .keep = keep,
                                      .n_keep = r->network.clip == SL_NONE ? 3 : 4,
                                      .first_leaf = r->ranks.first_leaf,
                                      .exchange = r->ranks.exchange,
                                      .compression = r->ranks.compression,
                                      .zero = (int)r->o->zero};
  SL_TRY(sl_program_create(r->runtime, r->store, r->network.graph, &f->plan, &options, &r->program));
  SL_TRY(
      sl__evaluator_create(r->runtime, r->store, f->model, &f->data, &f->training, &f->plan, &r->ranks, &r->evaluator));
  SL_TRY(sl__watch_start(&r->ranks, (sl_program *[]){r->program, r->evaluator.program}, 2, r->o->stall_timeout,
                         &r->watch));
  r->flops = sl__ranks_sum(&r->ranks, sl_program_flops(r->program));
  return SL_OK;
}

static void release_programs(run *r) {
  if (r->program) r->sent += sl_program_sent(r->program);
  sl__watch_stop(r->watch);
  sl_loader_destroy(r->loader);
  sl__evaluator_destroy(&r->evaluator);
  sl_program_destroy(r->program);
  r->watch = NULL, r->loader = NULL, r->program = NULL;
}

static sl_status build(run *r) {
  const sl__model_facts *f = &r->facts;
  SL_TRY(sl_recorder_create(0, &r->recorder));
  SL_TRY(sl_store_create(&r->store));
  SL_TRY(sl_network_training(f->model, &f->data, &f->training, f->plan.batch, &r->network));
  const int64_t resident = sl__resident_memory();
  SL_TRY(make_programs(r));
  enum { RINGS = 2, DEPTH = 3 }; /* of batches read ahead, to train and to validate */
  r->predicted = resident + (int64_t)sl_program_bytes(r->program, 0) +
                 (int64_t)sl_program_bytes(r->evaluator.program, 1) +
                 RINGS * DEPTH * r->ranks.rows * (int64_t)(r->network.sample_bytes + sizeof(int32_t));
  return SL_OK;
}

/* Opens the run directory last, when nothing but the run itself can fail. */
static sl_status open_directory(run *r) {
  const sl__options *o = r->o;
  if (r->ranks.rank > 0) return SL_OK; /* r->dir stays NULL */
  enum { TOKENIZER_BYTES = 256 << 20 };
  char *tokenizer = NULL;
  size_t bytes;
  json_t *plan = NULL;
  sl_status status = SL_OK;
  SL_TRY(sl_rundir_open(o->out, r->facts.model->name,
                        o->resume  ? SL_RUNDIR_RESUME
                        : o->force ? SL_RUNDIR_FORCE
                                   : SL_RUNDIR_NEW,
                        &r->dir));
  SL_TRY_OUT(sl__options_to_yaml(o, &r->configuration));
  SL_TRY_OUT(sl_rundir_write_text(r->dir, SL_RUNDIR_CONFIG, r->configuration));
  if (r->data.tokenizer) {
    SL_TRY_OUT(sl_file_read(r->data.tokenizer, TOKENIZER_BYTES, &tokenizer, &bytes));
    SL_TRY_OUT(sl_rundir_write_text(r->dir, SL_RUNDIR_TOKENIZER, tokenizer));
  }
  SL_TRY_OUT(sl__environment_complete(r->environment, r->runtime));
  if (r->ranks.n > 1)
    json_object_set_new(json_object_get(r->environment, "machine"), "balance", sl__balance_json(&r->balance));
  SL_TRY_OUT(sl_rundir_write_json(r->dir, SL_RUNDIR_ENVIRONMENT, r->environment));
  plan = sl_plan_to_json(&r->facts.plan);
  SL_TRY_OUT(sl_rundir_write_json(r->dir, SL_RUNDIR_PLAN, plan));
out:
  free(tokenizer);
  json_decref(plan);
  return status;
}

/* ---- resuming --------------------------------------------------------------------------------------------------- */

static uint64_t digest(const run *r) { return r->data.tokens ? r->data.tokens->digest : 0; }

static void take_sums(interval *i, const sl__sums *sums) {
  *i = (interval){
      .steps = sums->steps, .before = sums->steps, .loss = sums->loss, .correct = sums->correct, .count = sums->count};
}

static sl__sums sums_of(const interval *i) {
  return (sl__sums){.steps = i->steps, .loss = i->loss, .correct = i->correct, .count = i->count};
}

/* Before the directory is opened, so that a wrong plan changes nothing in it. */
static sl_status resume(run *r) {
  sl__progress p;
  const sl__resume_options options = {
      .run = r->o->out, .ranks = &r->ranks, .facts = &r->facts, .rate = &r->rate, .data = digest(r), .store = r->store};
  SL_TRY(sl__resume(&options, &p));
  r->first = r->step = p.step;
  r->best_step = p.best_step;
  r->best = p.best;
  take_sums(&r->now, &p.metrics);
  take_sums(&r->line, &p.shown);
  return SL_OK;
}

static sl_status save(run *r) {
  const sl__progress p = {.step = r->step,
                          .best_step = r->best_step,
                          .best = r->best,
                          .data = digest(r),
                          .metrics = sums_of(&r->now),
                          .shown = sums_of(&r->line)};
  r->facts.step = r->step;
  json_t *header = r->ranks.rank == 0 ? sl__checkpoint_header(&r->facts, &r->rate, &p, r->configuration) : NULL;
  return sl__checkpoints_save(r->checkpoints, r->step, header);
}

/* When nothing but the run itself can fail; the memory for a copy of this rank's share is taken now. */
static sl_status open_checkpoints(run *r) {
  const sl__checkpoints_options options = {.folder = r->dir ? sl_rundir_file_path(r->dir, SL_RUNDIR_CHECKPOINTS) : NULL,
                                           .comm = r->ranks.comm,
                                           .store = r->store,
                                           .from = r->step,
                                           .every = r->o->checkpoint_every,
                                           .minutes = r->o->checkpoint_minutes,
                                           .keep = (int)r->o->keep};
  SL_TRY(sl__checkpoints_create(&options, &r->checkpoints));
  r->predicted += (int64_t)sl__checkpoints_bytes(r->checkpoints);
  return SL_OK;
}

static sl_status save_model(run *r) {
  if (r->ranks.rank > 0) return SL_OK;
  r->facts.step = r->step;
  return sl__model_save(sl_rundir_file_path(r->dir, SL_RUNDIR_MODEL), r->store, r->evaluator.network.graph, &r->facts);
}

/* ---- beginning with weights ------------------------------------------------------------------------------------- */

static int on_command_line(const sl__options *o, const char *flag) {
  for (int i = 1; i < o->argc; i++)
    if (strncmp(o->argv[i], flag, strlen(flag)) == 0) return 1;
  return 0;
}

/* Opens --init and takes its normalisation of images, which its weights were made for. A run that is resumed has both
 * in its checkpoints already. */
static sl_status open_init(run *r) {
  sl__options *o = r->o;
  sl__model_facts *f = &r->facts;
  if (o->new_head && !o->init) return sl_fail(SL_EINVAL, "--new-head goes with --init");
  if (!o->init) return SL_OK;
  if (o->resume && (on_command_line(o, "--init") || on_command_line(o, "--new-head")))
    return sl_fail(SL_EINVAL, "--resume goes on with a run; --init and --new-head begin one");
  if (o->resume) SL_TRY(sl__open_newest(o->out, &r->init));
  const int goes_on = r->init != NULL;
  if (!goes_on) SL_TRY(sl__model_open_as(o->init, f->model, &r->init));
  const sl_model_data *theirs = &sl__model_facts_of(r->init)->data;
  if (f->model->task == SL_TASK_CLASSIFY) {
    memcpy(f->data.mean, theirs->mean, sizeof f->data.mean);
    memcpy(f->data.deviation, theirs->deviation, sizeof f->data.deviation);
  }
  if (goes_on) {
    sl__model_close(r->init);
    r->init = NULL;
  } else {
    char *real = realpath(o->init, NULL);
    if (real) free(o->init), o->init = real;
  }
  return SL_OK;
}

/* Parameters in common memory are filled in by one rank; the others wait for it. */
static sl_status take_init(run *r) {
  if (!r->init) return SL_OK;
  const int common = sl_store_has_common(r->store);
  sl_status status = SL_OK;
  if (r->ranks.rank == 0 || !common)
    status = sl__model_fill(r->init, r->store, &r->evaluator.network, r->facts.model->name, r->o->new_head);
  sl__model_close(r->init);
  r->init = NULL;
  if (!common) return status;
  SL_TRY(sl__ranks_agree(&r->ranks, status));
  return sl__ranks_broadcast(&r->ranks, r->store);
}

/* ---- what is printed -------------------------------------------------------------------------------------------- */

static void print_init(const run *r) {
  const sl_model_data *d = &r->facts.data;
  if (!r->o->init) return;
  printf("begins with %s%s", r->o->init, r->o->new_head ? " and a new classifier" : "");
  if (r->facts.model->task == SL_TASK_CLASSIFY)
    printf("; images are normalised as there: mean %g, deviation %g in the first channel", d->mean[0], d->deviation[0]);
  putchar('\n');
}

static void print_start(const run *r) {
  const sl__data *d = &r->data;
  char samples[96];
  const sl_plan *p = &r->facts.plan;
  const sl_share *share = sl_runtime_share(r->runtime);
  if (r->o->quiet) return;
  printf("%s: %lld parameters, %s; %s of %lld %s: %lld to train on, %lld to validate, %lld to test\n",
         r->facts.model->name, (long long)r->network.parameter_count, sl_optimizer_names[r->facts.training.optimizer],
         sl__data_text(&d->model, samples, sizeof samples), (long long)d->model.classes,
         d->tokens ? "kinds" : "classes", (long long)d->n[SL_SPLIT_TRAIN], (long long)d->n[SL_SPLIT_VALIDATION],
         (long long)d->n[SL_SPLIT_TEST]);
  printf(
      "batch %lld in %d leaves, %d shards, %d tasks a step, peak memory predicted %.1f MB; %d ranks of %d workers "
      "(threads per "
      "worker %d), %d "
      "GPUs, policy %s, %s "
      "kernels\n",
      (long long)p->batch, p->leaves, p->shards, sl_program_graph(r->program)->n_nodes, 1e-6 * (double)r->predicted,
      r->ranks.n, share->nworkers, share->threads_per_worker, sl_runtime_gpus(r->runtime), sl_runtime_sched(r->runtime),
      p->kernels);
  print_init(r);
  if (r->balance.listed) printf("balance: %s\n", sl__balance_text(&r->balance));
  if (r->first)
    printf("resumed after step %lld\n", (long long)r->first);
  else if (r->o->resume)
    printf("the run ended before its first checkpoint: from the first step again\n");
  printf("run directory %s\n", sl_rundir_path(r->dir));
  fflush(stdout);
}

/* A model of tokens is told by its tokens. */
static const char *unit(const run *r) { return r->data.tokens ? "tokens/s" : "samples/s"; }
static double units(const run *r, double steps) {
  return steps * (double)(r->facts.plan.batch * (r->data.tokens ? r->facts.data.length : 1));
}

/* "  loss 1.2345  perplexity 3.437  accuracy 0.6543" */
static void print_scores(const run *r, double loss, double accuracy) {
  printf(" loss %.4f ", loss);
  if (r->data.tokens) printf("perplexity %.3f ", exp(loss));
  printf("accuracy %.4f", accuracy);
}

static void show_progress(run *r) {
  const double seconds = 1e-9 * (double)(sl_now() - r->now.from), steps = (double)r->now.steps;
  const double ran = steps - (double)r->now.before, loss = r->now.loss / steps;
  char perplexity[48] = "";
  if (r->data.tokens) snprintf(perplexity, sizeof perplexity, " perplexity %.3f ", exp(loss));
  sl__meter_show(&r->meter, (double)r->step, (double)r->total,
                 "step %lld of %s%lld  epoch %.2f  loss %.4f %s accuracy %.4f  %.0f %s", (long long)r->step,
                 r->until.measure == SL__UNTIL_NONE ? "" : "at most ", (long long)r->total, epochs_done(r), loss,
                 perplexity, r->now.correct / r->now.count, units(r, ran) / seconds, unit(r));
}

/* One line for each validation (or the last step, when there is none), over the steps since the line before. */
static void print_line(run *r, const json_t *metrics) {
  if (r->o->quiet) return;
  sl__meter_clear(&r->meter);
  const interval *i = &r->line;
  const double steps = (double)i->steps, ran = steps - (double)i->before, seconds = i->seconds;
  printf("step %lld  epoch %.2f ", (long long)r->step, epochs_done(r));
  print_scores(r, i->loss / steps, i->correct / i->count);
  if (validates(r)) {
    printf("  validation");
    print_scores(r, r->validation.loss, r->validation.accuracy);
    if (r->best_step == r->step) printf(" (best)");
  }
  printf("  %.0f %s  %.1f GFLOP/s  %.0f%% in kernels\n", units(r, ran) / seconds, unit(r),
         1e-9 * r->flops * ran / seconds, 100 * json_number_value(json_object_get(metrics, "utilization")));
  fflush(stdout);
  r->line = (interval){0};
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static void end_interval(run *r, double seconds) {
  r->line.steps += r->now.steps;
  r->line.before += r->now.before;
  r->line.loss += r->now.loss;
  r->line.correct += r->now.correct;
  r->line.count += r->now.count;
  r->line.seconds += seconds;
  r->stepping += seconds;
}

/* The sums stay as they are. */
static void begin_times(run *r) {
  r->now.from = sl_now();
  r->now.input = sl_loader_waited(r->loader);
  r->now.stood = sl__checkpoints_stood(r->checkpoints);
}

static void begin_interval(run *r) {
  r->now = (interval){0};
  begin_times(r);
}

static sl_status one_step(run *r) {
  sl_batch *batch;
  double loss, correct, count, clip = 1;
  SL_TRY(sl_loader_next(r->loader, &batch));
  const sl_step step = {.number = r->step + 1,
                        .seed = r->facts.plan.seed,
                        .learning_rate = sl_rate_at(&r->rate, r->step + 1),
                        .input = {[SL_SLOT_IMAGES] = batch->samples, [SL_SLOT_LABELS] = batch->labels},
                        .input_row0 = r->ranks.first_row};
  sl_status status = SL_OK;
  SL_TRY_OUT(sl_program_run(r->program, &step));
  SL_TRY_OUT(sl_program_read(r->program, r->network.loss, &loss));
  SL_TRY_OUT(sl_program_read(r->program, r->network.correct, &correct));
  SL_TRY_OUT(sl_program_read(r->program, r->network.count, &count));
  if (r->network.clip != SL_NONE) SL_TRY_OUT(sl_program_read(r->program, r->network.clip, &clip));
  if (!isfinite(loss) || !isfinite(clip)) { /* the update was held back: the step can be looked at again */
    status = sl__ranks_agree(&r->ranks, sl_program_find_nonfinite(r->program, &step));
    if (status == SL_OK)
      status = sl_fail(SL_ENONFINITE, "step %lld: the loss is %g, the clip factor %g, and a second try finds no cause",
                       (long long)step.number, loss, clip);
    goto out;
  }
  r->step++;
  r->now.steps++;
  r->now.loss += loss;
  r->now.correct += correct;
  r->now.count += count;
out:
  sl_loader_release(r->loader, batch);
  return status;
}

/* The line of metrics for the interval that ends here; docs/reference/formats.md has its fields. */
static sl_status metrics(run *r, json_t **line) {
  const interval *i = &r->now;
  const int64_t now = sl_now();
  const double seconds = 1e-9 * (double)(now - i->from), steps = (double)i->steps;
  const double ran = steps - (double)i->before;
  const sl_dependencies graph = sl_program_dependencies(r->program);
  sl_usage usage;
  SL_TRY(sl_usage_since(r->recorder, sl_runtime_workers(r->runtime), &graph, i->from, now, &usage));
  end_interval(r, seconds);
  *line = json_pack("{s:I, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "step",
                    (json_int_t)r->step, "epoch", epochs_done(r), "time_s", 1e-9 * (double)(now - r->began), "split",
                    "train", "loss", i->loss / steps, "accuracy", i->count > 0 ? i->correct / i->count : 0.0,
                    "learning_rate", sl_rate_at(&r->rate, r->step), "samples_per_s",
                    ran * (double)r->facts.plan.batch / seconds, "gflops", 1e-9 * r->flops * ran / seconds,
                    "utilization", usage.kernels, "peak_memory_bytes", (json_int_t)sl__peak_memory(), "memory_bytes",
                    (json_int_t)sl__resident_memory(), "input_wait_s", sl_loader_waited(r->loader) - i->input,
                    "checkpoint_s", sl__checkpoints_stood(r->checkpoints) - i->stood);
  if (*line && r->data.tokens)
    json_object_update_new(
        *line, json_pack("{s:f, s:f}", "perplexity", exp(i->loss / steps), "tokens_per_s", units(r, ran) / seconds));
  return *line ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a line of metrics");
}

/* Of two models of images the more accurate, then the one of less loss; of tokens the one of less loss. */
static int better(const run *r, const sl__score *a, const sl__score *b) {
  if (r->data.tokens || a->accuracy == b->accuracy) return a->loss < b->loss;
  return a->accuracy > b->accuracy;
}

/* Validates, keeps the model if it is the best, and says so in a line of its own. */
static sl_status validate(run *r) {
  const sl__score *v = &r->validation;
  r->evaluator.step = r->step;
  SL_TRY(sl__evaluate(&r->evaluator, sl__data_source(&r->data, SL_SPLIT_VALIDATION), &r->validation));
  r->reached = (r->until.measure == SL__UNTIL_ACCURACY && v->accuracy >= r->until.bound) ||
               (r->until.measure == SL__UNTIL_LOSS && v->loss <= r->until.bound);
  json_t *line = json_pack("{s:I, s:f, s:f, s:s, s:f, s:f, s:f}", "step", (json_int_t)r->step, "epoch", epochs_done(r),
                           "time_s", 1e-9 * (double)(sl_now() - r->began), "split", "validation", "loss", v->loss,
                           "accuracy", v->accuracy, "top5_accuracy", v->top5);
  if (line && r->data.tokens) json_object_set_new(line, "perplexity", json_real(exp(v->loss)));
  const sl_status status =
      line ? sl_rundir_append_metrics(r->dir, line) : sl_fail(SL_ENOMEM, "no memory for a line of metrics");
  json_decref(line);
  if (status != SL_OK) return status;
  if (r->best_step && !better(r, v, &r->best)) return SL_OK;
  r->best = *v;
  r->best_step = r->step;
  return save_model(r);
}

/* After a step: metrics and validation as they fall due. last: this is the end. */
static sl_status look(run *r, int last, int *validated) {
  const int64_t n = r->data.n[SL_SPLIT_TRAIN], batch = r->facts.plan.batch;
  const int crosses = r->step * batch / n > (r->step - 1) * batch / n;
  *validated = last || (r->eval_every > 0 ? r->step % r->eval_every == 0 : crosses);
  show_progress(r);
  if (!*validated && r->step % r->log_every != 0) return SL_OK;
  json_t *line = NULL;
  sl_status status = SL_OK;
  SL_TRY_OUT(metrics(r, &line));
  SL_TRY_OUT(sl_rundir_append_metrics(r->dir, line));
  if (*validated) {
    SL_TRY_OUT(validates(r) ? validate(r) : save_model(r));
    print_line(r, line);
  }
  begin_interval(r);
out:
  json_decref(line);
  return status;
}

static sl_status open_loader(run *r) {
  const sl_loader_options options = {.source = sl__data_source(&r->data, SL_SPLIT_TRAIN),
                                     .mode = SL_LOADER_TRAIN,
                                     .batch = r->facts.plan.batch,
                                     .first = r->ranks.first_row,
                                     .rows = r->ranks.rows,
                                     .seed = r->facts.plan.seed,
                                     .cursor = r->step * r->facts.plan.batch,
                                     .augment = r->facts.augment,
                                     .height = r->facts.data.height,
                                     .width = r->facts.data.width,
                                     .channels = r->facts.data.channels};
  return sl_loader_create(&options, &r->loader);
}

/* Says and records how the leaves are divided by what was measured. */
static sl_status tell_balance(run *r) {
  if (r->ranks.rank > 0) return SL_OK;
  sl__meter_clear(&r->meter);
  if (!r->o->quiet) printf("balance: %s\n", sl__balance_text(&r->balance)), fflush(stdout);
  json_object_set_new(json_object_get(r->environment, "machine"), "balance", sl__balance_json(&r->balance));
  return sl_rundir_write_json(r->dir, SL_RUNDIR_ENVIRONMENT, r->environment);
}

/* After one of the first steps, with --balance auto. Where the division changes, the programs are made again over the
 * same store; the time for that, and for the steps before it, is not in the interval's rates. */
static sl_status rebalance(run *r) {
  int changed;
  if (!r->balance.measuring) return SL_OK;
  SL_TRY(sl__balance_step(&r->balance, r->program, r->recorder, &changed));
  if (r->balance.measuring) return SL_OK;
  SL_TRY(sl__ranks_agree(&r->ranks, tell_balance(r)));
  if (!changed) return SL_OK;
  r->stepping += 1e-9 * (double)(sl_now() - r->now.from);
  r->now.before = r->now.steps;
  release_programs(r);
  sl_recorder_clear(r->recorder); /* its records are of nodes that are gone */
  SL_TRY(make_programs(r));
  SL_TRY(open_loader(r));
  begin_times(r);
  return SL_OK;
}

static sl_status steps(run *r, int *exit_code) {
  SL_TRY(open_loader(r));
  begin_times(r);
  while (r->step < r->total && !r->reached) {
    int validated;
    sl__ranks_ask(&r->ranks, sl__checkpoints_wish(r->checkpoints));
    SL_TRY(one_step(r));
    const sl__wish wish = (sl__wish)sl__ranks_answer(&r->ranks);
    SL_TRY(look(r, r->step == r->total, &validated));
    const int last = r->step == r->total || r->reached;
    if (sl__checkpoints_due(r->checkpoints, r->step, validated, last, wish)) SL_TRY(save(r));
    if (last) continue;
    if (wish != SL__WISH_STOP) {
      SL_TRY(rebalance(r));
      continue;
    }
    SL_TRY(sl__checkpoints_finish(r->checkpoints));
    *exit_code = SL_EXIT_CHECKPOINTED;
    sl__meter_clear(&r->meter);
    if (!r->o->quiet)
      printf("stopped by a signal after step %lld; starling train --resume --out %s goes on\n", (long long)r->step,
             sl_rundir_path(r->dir));
    return SL_OK;
  }
  return SL_OK;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static sl_status read_best(run *r) {
  sl__model_file *file;
  SL_TRY(sl__model_open(sl_rundir_file_path(r->dir, SL_RUNDIR_MODEL), &file));
  const sl_status status = sl__model_read(file, r->store, r->evaluator.network.graph);
  sl__model_close(file);
  return status;
}

/* Scores the model that is kept on the test images. */
static sl_status test(run *r, sl__score *score) {
  if (r->best_step && r->best_step != r->step) {
    SL_TRY(sl__ranks_agree(&r->ranks, r->ranks.rank == 0 ? read_best(r) : SL_OK));
    SL_TRY(sl__ranks_broadcast(&r->ranks, r->store));
  }
  return sl__evaluate(&r->evaluator, sl__data_source(&r->data, SL_SPLIT_TEST), score);
}

static sl_status finish(run *r) {
  sl__score score = {0};
  sl_status status = SL_OK;
  const int tests = r->data.n[SL_SPLIT_TEST] > 0;
  const double sent = sl__ranks_sum(&r->ranks, (double)(r->sent + sl_program_sent(r->program)));
  if (r->ranks.rank > 0) return tests ? test(r, &score) : SL_OK;
  json_t *summary = json_pack(
      "{s:s, s:s, s:I, s:f, s:f, s:f, s:I}", "model", r->facts.model->name, "directory", sl_rundir_path(r->dir),
      "steps", (json_int_t)r->step, "epochs", epochs_done(r), "time_s", 1e-9 * (double)(sl_now() - r->began),
      "samples_per_s", r->stepping > 0 ? (double)((r->step - r->first) * r->facts.plan.batch) / r->stepping : 0.0,
      "parameters", (json_int_t)r->network.parameter_count);
  if (!summary) return sl_fail(SL_ENOMEM, "no memory for the summary");
  if (r->data.tokens)
    json_object_set_new(summary, "tokens_per_s",
                        json_real(r->stepping > 0 ? units(r, (double)(r->step - r->first)) / r->stepping : 0.0));
  if (r->ranks.n > 1) json_object_set_new(summary, "sent_bytes", json_integer((json_int_t)sent));
  if (r->best_step)
    json_object_update_new(
        summary, json_pack("{s:I, s:f, s:f}", "best_step", (json_int_t)r->best_step, "validation_loss", r->best.loss,
                           "validation_accuracy", r->best.accuracy));
  if (tests) {
    SL_TRY_OUT(test(r, &score));
    json_object_update_new(summary,
                           json_pack("{s:f, s:f, s:f, s:I}", "test_loss", score.loss, "test_accuracy", score.accuracy,
                                     "test_top5_accuracy", score.top5, "test_samples", (json_int_t)score.samples));
  }
  if (r->until.measure != SL__UNTIL_NONE) json_object_set_new(summary, "reached", json_boolean(r->reached));
  SL_TRY_OUT(sl_rundir_write_json(r->dir, SL_RUNDIR_SUMMARY, summary));
  if (r->o->json) {
    json_dumpf(summary, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
  } else if (tests) {
    if (r->data.tokens)
      printf("test loss %.4f perplexity %.3f accuracy %.4f\n", score.loss, exp(score.loss), score.accuracy);
    else
      printf("test accuracy %.4f\n", score.accuracy);
  } else if (r->best_step && r->data.tokens) {
    printf("validation loss %.4f perplexity %.3f accuracy %.4f\n", r->best.loss, exp(r->best.loss), r->best.accuracy);
  }
out:
  json_decref(summary);
  return status;
}

/* Whether an earlier start reached the bound already. */
static int reached_before(const run *r) {
  return r->best_step && ((r->until.measure == SL__UNTIL_ACCURACY && r->best.accuracy >= r->until.bound) ||
                          (r->until.measure == SL__UNTIL_LOSS && r->best.loss <= r->until.bound));
}

/* Before anything is done together: ranks that differ would wait for one another, or train on different things. */
static sl_status compare(const run *r) {
  char *text;
  if (r->ranks.n == 1) return SL_OK;
  SL_TRY(sl__digest(r->o, &r->facts, &r->data, &text));
  const sl_status status = sl__ranks_compare(&r->ranks, text);
  free(text);
  return status;
}

static sl_status prepare(run *r) {
  sl__options *o = r->o;
  sl__model_facts *f = &r->facts;
  SL_TRY(sl__find_model(o->model, &f->model));
  SL_TRY(sl__until_parse(o->until, &r->until));
  SL_TRY(sl__augment_parse(o->augment, &f->augment));
  if ((f->augment.pad || f->augment.flip) && sl__of_tokens(f->model))
    return sl_fail(SL_EINVAL, "--augment %s is for images, and %s is a model of tokens", o->augment, f->model->name);
  sl__training_of(o, f->model, &f->training);
  r->environment = sl_environment(o->argc, o->argv, sl__commit());
  if (!r->environment) return sl_fail(SL_ENOMEM, "no memory for the environment");
  SL_TRY(sl__start(o, "train", 1, &r->runtime));
  SL_TRY(sl__ranks_open(r->runtime, &r->ranks));
  SL_TRY(sl__ranks_exchange(&r->ranks, r->runtime, o->allreduce, o->compress));
  if (r->ranks.rank > 0) o->quiet = 1, o->json = 0; /* rank 0 speaks and writes for all */
  SL_TRY(sl__plan_of(o, f->model, r->ranks.n, &f->plan));
  SL_TRY(sl__balance_open(r->runtime, o->balance, &r->ranks, &f->plan, &r->balance));
  const sl__data_options data = {
      .model = f->model, .path = o->data, .val_fraction = o->val_fraction, .seed = f->plan.seed, .length = o->length};
  SL_TRY(sl__data_open(&data, &r->data));
  f->data = r->data.model;
  f->class_names = r->data.class_names;
  f->val_fraction = o->val_fraction;
  SL_TRY(open_init(r));
  SL_TRY(set_length(r));
  SL_TRY(compare(r));
  SL_TRY(build(r));
  SL_TRY(take_init(r));
  if (o->resume) SL_TRY(resume(r));
  SL_TRY(complete_options(r));
  SL_TRY(sl__ranks_agree(&r->ranks, open_directory(r)));
  if (o->resume) SL_TRY(sl_rundir_rewind_metrics(r->dir, r->step));
  SL_TRY(open_checkpoints(r));
  r->reached = reached_before(r);
  return SL_OK;
}

/* Collective. Where ranks leave their timelines; those of other machines only if they see the folder too. */
static sl_status share_folder(run *r) {
  int n = r->dir ? (int)strlen(sl_rundir_path(r->dir)) + 1 : 0;
  if (r->ranks.n > 1) MPI_Bcast(&n, 1, MPI_INT, 0, r->ranks.comm);
  r->folder = calloc((size_t)n + 1, 1);
  const sl_status status = r->folder ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a path");
  SL_TRY(sl__ranks_agree(&r->ranks, status));
  if (r->dir) memcpy(r->folder, sl_rundir_path(r->dir), (size_t)n);
  if (r->ranks.n > 1) MPI_Bcast(r->folder, n, MPI_CHAR, 0, r->ranks.comm);
  return SL_OK;
}

/* At the end, and after a failure too, whose status and text stay then. */
static sl_status keep_timeline(const run *r, sl_status status) {
  char text[2048];
  if (!r->folder || sl_recorder_added(r->recorder) == 0 || access(r->folder, W_OK) != 0) return status;
  snprintf(text, sizeof text, "%s", sl_error());
  const sl__machine machine = sl__machine_read(r->runtime);
  const sl_status saved = sl__timeline_save(r->program, r->facts.model->name, &r->clocks, &machine, r->folder);
  return status == SL_OK ? saved : sl_fail(status, "%s", text);
}

static void release(run *r) {
  release_programs(r);
  free(r->configuration);
  sl__model_close(r->init);
  if (r->network.graph) sl_network_destroy(&r->network);
  sl_store_destroy(r->store);
  sl_recorder_destroy(r->recorder);
  sl__data_close(&r->data);
  sl__balance_close(&r->balance);
  sl__ranks_close(&r->ranks);
  json_decref(r->environment);
  free(r->folder);
  sl_runtime_stop(r->runtime);
}

sl_status sl__train(sl__options *o, int *exit_code) {
  run r = {.o = o};
  sl_status status = SL_OK;
  if (o->json) o->quiet = 1;
  SL_TRY_OUT(prepare(&r));
  sl__catch_signals();
  print_start(&r);
  r.began = sl_now();
  sl__meter_start(&r.meter, o->quiet, (double)r.step);
  SL_TRY_OUT(share_folder(&r));
  SL_TRY_OUT(sl__clocks_look(r.runtime, &r.clocks));
  SL_TRY_OUT(steps(&r, exit_code));
  SL_TRY_OUT(sl__clocks_look(r.runtime, &r.clocks));
  if (*exit_code != SL_EXIT_DONE) goto out;
  if (sl__checkpoints_finish(r.checkpoints) != SL_OK && r.ranks.rank == 0)
    sl_log(SL_LOG_ERROR, "the last step has no checkpoint, only its model is kept: %s", sl_error());
  SL_TRY_OUT(finish(&r));
  if (r.until.measure != SL__UNTIL_NONE && !r.reached)
    status = sl_fail(SL_ENOTFOUND, "%s was not reached in %lld steps: the best was accuracy %.4f, loss %.4f", o->until,
                     (long long)r.step, r.best.accuracy, r.best.loss);
out:
  sl__meter_clear(&r.meter);
  /* Ends what is being written, while the directory is locked; where one rank of several fails it would wait in vain.
   */
  if (status == SL_OK || r.ranks.n <= 1) sl__checkpoints_destroy(r.checkpoints);
  if (r.dir && status != SL_OK && r.step == r.first && !o->resume) {
    sl_rundir_discard(r.dir);
  } else {
    status = keep_timeline(&r, status);
    const sl_status closed = sl_rundir_close(r.dir);
    if (status == SL_OK) status = closed;
  }
  if (status != SL_OK) sl__ranks_fail(&r.ranks, sl__exit_code(status));
  release(&r);
  return status;
}
