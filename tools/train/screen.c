/* Prints the progress of a run. */
#include <math.h>
#include <stdio.h>

#include "runtime/base/text.h"
#include "runtime/base/time.h"
#include "tools/train/trainer.h"
#include "tools/watch/heartbeat.h"

/* --ranks and --hosts hold for one start only: the run directory does not keep them. */
static void print_fewer_ranks(const sl__trainer *r) {
  sl__heartbeat before;
  if (sl__heartbeat_read(sl__rundir_path(r->dir), &before) == SL_OK && before.ranks > r->job.ranks.n)
    printf("the run had %d ranks before, and has %d now: give --ranks or --hosts again for as many\n", before.ranks,
           r->job.ranks.n);
}

void sl__trainer_print_start(const sl__trainer *r) {
  const sl_data *d = &r->job.data;
  char samples[96];
  const sl_plan *p = &r->job.facts.plan;
  const sl_share *share = sl_runtime_share(r->job.runtime);
  char text[SL__PREDICTION_TEXT];
  if (r->o->quiet) return;
  printf("%s: %lld parameters, %s; %s of %lld %s: %lld to train on, %lld to validate, %lld to test\n", r->job.name,
         (long long)r->job.network.parameter_count, sl_optimizer_names[r->job.facts.training.optimizer],
         sl_data_text(d->kind, &d->model, samples, sizeof samples), (long long)d->model.classes, d->kind->classes,
         (long long)d->n[SL_SPLIT_TRAIN], (long long)d->n[SL_SPLIT_VALIDATION], (long long)d->n[SL_SPLIT_TEST]);
  printf(
      "batch %lld in %d leaves, %d shards, %d tasks a step, peak memory predicted %.1f MB; %d ranks of %d workers "
      "(threads per "
      "worker %d), %d "
      "GPUs, policy %s, %s "
      "kernels\n",
      (long long)p->batch, p->leaves, p->shards, sl_program_graph(r->job.program)->n_nodes,
      1e-6 * (double)r->job.predicted, r->job.ranks.n, share->nworkers, share->threads_per_worker,
      sl_runtime_gpus(r->job.runtime), sl_runtime_sched(r->job.runtime), p->kernels);
  sl__job_print_choices(&r->job);
  sl__trainer_print_init(r);
  if (r->prediction.seconds > 0)
    printf("a step is predicted to take %.3f ms: %s\n", 1e3 * r->prediction.seconds,
           sl__prediction_text(&r->prediction, text, sizeof text));
  if (r->job.balance.listed) printf("balance: %s\n", sl__balance_text(&r->job.balance));
  if (r->first)
    printf("resumed after step %lld\n", (long long)r->first);
  else if (r->o->resume)
    printf("the run ended before its first checkpoint: from the first step again\n");
  if (r->o->resume) print_fewer_ranks(r);
  sl_text_print("run directory %s\n", sl__rundir_path(r->dir));
  fflush(stdout);
}

/* "  loss 1.2345  perplexity 3.437  accuracy 0.6543" */
static void print_scores(const sl__trainer *r, double loss, double accuracy) {
  printf(" loss %.4f ", loss);
  if (r->job.data.kind->perplexity) printf("perplexity %.3f ", exp(loss));
  printf("accuracy %.4f", accuracy);
}

void sl__trainer_show_progress(sl__trainer *r) {
  const double seconds = 1e-9 * (double)(sl_now() - r->now.from), steps = (double)r->now.steps;
  const double ran = steps - (double)r->now.before, loss = r->now.loss / steps;
  char perplexity[48] = "";
  if (r->job.data.kind->perplexity) snprintf(perplexity, sizeof perplexity, " perplexity %.3f ", exp(loss));
  sl__meter_show(&r->meter, (double)r->job.step, (double)r->total,
                 "step %lld of %s%lld  epoch %.2f  loss %.4f %s accuracy %.4f  %.0f %s", (long long)r->job.step,
                 r->until.measure == SL__UNTIL_NONE ? "" : "at most ", (long long)r->total, sl__trainer_epochs_done(r),
                 loss, perplexity, r->now.correct / r->now.count, sl__trainer_units(r, ran) / seconds,
                 r->job.data.kind->rate);
}

void sl__trainer_print_line(sl__trainer *r, const json_t *metrics) {
  if (r->o->quiet) return;
  sl__meter_clear(&r->meter);
  const sl__interval *i = &r->line;
  const double steps = (double)i->steps, ran = steps - (double)i->before, seconds = i->seconds;
  printf("step %lld  epoch %.2f ", (long long)r->job.step, sl__trainer_epochs_done(r));
  print_scores(r, i->loss / steps, i->correct / i->count);
  if (sl__trainer_validates(r)) {
    printf("  validation");
    print_scores(r, r->validation.loss, r->validation.accuracy);
    if (r->best_step == r->job.step) printf(" (best)");
  }
  printf("  %.0f %s  %.1f GFLOP/s  %.0f%% in kernels\n", sl__trainer_units(r, ran) / seconds, r->job.data.kind->rate,
         1e-9 * r->job.flops * ran / seconds, 100 * json_number_value(json_object_get(metrics, "utilization")));
  fflush(stdout);
  r->line = (sl__interval){0};
}
