/* Sums over the steps since the last line of metrics, and writes the next line. */
#include <math.h>

#include "runtime/base/time.h"
#include "runtime/trace/idle.h"
#include "tools/run/session.h"
#include "tools/train/trainer.h"

static void end_interval(sl__trainer *r, double seconds) {
  r->line.steps += r->now.steps;
  r->line.before += r->now.before;
  r->line.loss += r->now.loss;
  r->line.correct += r->now.correct;
  r->line.count += r->now.count;
  r->line.seconds += seconds;
  r->stepping += seconds;
}

void sl__trainer_begin_times(sl__trainer *r) {
  r->now.from = sl_now();
  r->now.input = sl_loader_waited(r->job.loader);
  r->now.stood = sl__checkpoints_stood(r->checkpoints);
}

void sl__trainer_begin_interval(sl__trainer *r) {
  r->now = (sl__interval){0};
  sl__trainer_begin_times(r);
}

sl_status sl__trainer_metrics(sl__trainer *r, json_t **line) {
  const sl__interval *i = &r->now;
  const int64_t now = sl_now();
  const double seconds = 1e-9 * (double)(now - i->from), steps = (double)i->steps;
  const double ran = steps - (double)i->before;
  const sl_dependencies graph = sl_program_dependencies(r->job.program);
  sl_usage usage;
  SL_TRY(sl_usage_since(r->job.recorder, sl_runtime_workers(r->job.runtime), &graph, i->from, now, &usage));
  end_interval(r, seconds);
  *line = json_pack(
      "{s:I, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "step", (json_int_t)r->job.step,
      "epoch", sl__trainer_epochs_done(r), "time_s", 1e-9 * (double)(now - r->began), "split", "train", "loss",
      i->loss / steps, "accuracy", i->count > 0 ? i->correct / i->count : 0.0, "learning_rate",
      sl_rate_at(&r->rate, r->job.step), "samples_per_s", ran * (double)r->job.facts.plan.batch / seconds, "gflops",
      1e-9 * r->job.flops * ran / seconds, "utilization", usage.kernels, "peak_memory_bytes",
      (json_int_t)sl__peak_memory(), "memory_bytes", (json_int_t)sl__resident_memory(), "input_wait_s",
      sl_loader_waited(r->job.loader) - i->input, "checkpoint_s", sl__checkpoints_stood(r->checkpoints) - i->stood);
  if (*line && r->job.data.kind->perplexity)
    json_object_update_new(*line, json_pack("{s:f, s:f}", "perplexity", exp(i->loss / steps), "tokens_per_s",
                                            sl__trainer_units(r, ran) / seconds));
  if (*line && i->scale > 0)
    json_object_update_new(*line,
                           json_pack("{s:f, s:I}", "loss_scale", i->scale, "overflows", (json_int_t)i->overflows));
  return *line ? SL_OK : sl_no_memory("for a line of metrics");
}
