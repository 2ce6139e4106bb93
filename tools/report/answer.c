/* Answers "why was this step as slow as it was?" in sentences, from the shares of the workers' time, the bound and
 * the operations. A report opens with this answer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/report/parts.h"

/* For the cause with the most idle time: what happened, and what helps (docs/reference/timeline.md has the same
 * list). */
static const struct {
  const char *because, *helps;
} causes[SL_IDLE_CAUSES] = {
    [SL_IDLE_RUNTIME] = {"the next task had not been submitted yet",
                         "Fewer, larger tasks help, and batches that are there in time."},
    [SL_IDLE_DEPENDENCY] = {"a task had to wait for another to end",
                            "More shards or row blocks help, so that there is other work meanwhile."},
    [SL_IDLE_DATA] = {"a task\xE2\x80\x99s inputs were still on their way to the worker",
                      "Larger tasks help, or another placement."},
    [SL_IDLE_EXCHANGE] = {"an exchange between ranks was under way", "A larger batch helps, or a faster network."},
    [SL_IDLE_POLICY] = {"a task was ready, but placed elsewhere or held back",
                        "Another scheduling policy (--sched) may help."},
};

/* "8.33 s", "12.5 ms" */
static const char *duration(double seconds, char text[32]) {
  if (seconds >= 99.95)
    snprintf(text, 32, "%.0f s", seconds);
  else if (seconds >= 0.9995)
    snprintf(text, 32, "%.3g s", seconds);
  else
    snprintf(text, 32, "%.3g ms", 1e3 * seconds);
  return text;
}

/* Means over all ranks' workers, the slowest rank's step, the largest bound, and the ranks that waited longest and
 * shortest in exchanges, as a share of their time; uneven if these two differ much. */
typedef struct mean {
  double step, kernels, idle[SL_IDLE_CAUSES];
  const sl__sums *most, *least;
  int uneven;
  sl_bound bound;
  int bounded, workers;
  int64_t steps;
} mean;

static mean mean_of(const sl__report_run *r) {
  mean m = {.bounded = 1};
  double weight = 0;
  for (int i = 0; i < r->n; i++) {
    const sl__sums *s = &r->sums[i];
    const double w = s->usage.seconds * s->t->n_workers;
    if (s->steps == 0) continue;
    weight += w;
    m.workers += s->t->n_workers;
    m.kernels += w * s->usage.kernels;
    for (int c = 0; c < SL_IDLE_CAUSES; c++) m.idle[c] += w * s->usage.idle[c];
    const double waited = s->usage.idle[SL_IDLE_EXCHANGE];
    if (!m.most || waited > m.most->usage.idle[SL_IDLE_EXCHANGE]) m.most = s;
    if (!m.least || waited < m.least->usage.idle[SL_IDLE_EXCHANGE]) m.least = s;
    m.step = fmax(m.step, s->step);
    if (s->steps > m.steps) m.steps = s->steps;
    m.bounded &= s->bounded;
    /* A rank that is ready early waits in each exchange, and its bound contains this wait: the least one is a bound. */
    if (s->bounded && (!(m.bound.mixed > 0) || s->bound.mixed < m.bound.mixed)) m.bound = s->bound;
  }
  if (m.most && r->sums[0].t->pipe * r->sums[0].t->tensor <= 1) /* the ranks of a mesh wait for one another anyway */
    m.uneven = m.most->usage.idle[SL_IDLE_EXCHANGE] > 0.1 &&
               m.least->usage.idle[SL_IDLE_EXCHANGE] < m.most->usage.idle[SL_IDLE_EXCHANGE] / 3;
  if (weight > 0) m.kernels /= weight;
  for (int c = 0; c < SL_IDLE_CAUSES && weight > 0; c++) m.idle[c] /= weight;
  return m;
}

static void put(json_t *sentences, json_t *text) { json_array_append_new(sentences, text); }

static void tell_time(const mean *m, json_t *to) {
  int most = 0;
  for (int c = 1; c < SL_IDLE_CAUSES; c++)
    if (m->idle[c] > m->idle[most]) most = c;
  const double idle = 1 - m->kernels;
  char step[32];
  duration(m->step, step);
  /* If ranks are uneven, another sentence tells what helps. */
  const char *helps = most == SL_IDLE_EXCHANGE && m->uneven ? NULL : causes[most].helps;
  if (idle < 0.01)
    put(to, json_sprintf("A step took %s, and the workers were in kernels for %.1f %% of it: hardly idle.", step,
                         100 * m->kernels));
  else
    put(to, json_sprintf("A step took %s. The workers were in kernels for %.1f %% of it and idle for %.1f %%, most of "
                         "that (%.1f %%) because %s.%s%s",
                         step, 100 * m->kernels, 100 * idle, 100 * m->idle[most], causes[most].because,
                         helps ? " " : "", helps ? helps : ""));
}

static void tell_bound(const mean *m, json_t *to) {
  if (!m->bounded) {
    put(to, json_string("How fast a step could be is not known: not every task of it was recorded."));
    return;
  }
  const int path = m->bound.critical_path > m->bound.area;
  put(to,
      json_sprintf(
          "With kernels as fast as in this run no schedule takes less than %s, which is %.1f %% of the step: %s.",
          duration(m->bound.mixed, (char[32]){0}), m->step > 0 ? 100 * m->bound.mixed / m->step : 0,
          path ? "this is the longest chain of tasks that wait for one another, which more workers would not shorten"
               : "this is the time of all tasks, divided evenly among the workers; only faster kernels or more workers "
                 "would shorten it"));
}

static void tell_exchange(const sl__report_run *r, const mean *m, json_t *to) {
  const sl__sums *longest = &r->sums[0]; /* the rank whose exchanges were under way longest */
  double under_way = 0, hidden = 0;
  for (int i = 0; i < r->n; i++) {
    under_way += r->sums[i].overlap.under_way, hidden += r->sums[i].overlap.hidden;
    if (r->sums[i].overlap.under_way > longest->overlap.under_way) longest = &r->sums[i];
  }
  if (!(under_way > 0)) return;
  put(to, json_sprintf("Exchanges between ranks were under way for %s of a step (rank %d), and over all ranks %.1f %% "
                       "of that time was hidden behind tasks.",
                       duration(longest->overlap.under_way / (double)longest->steps, (char[32]){0}), longest->t->rank,
                       100 * hidden / under_way));
  if (m->uneven)
    put(to, json_sprintf("Rank %d waited in them for %.1f %% of its time, rank %d for %.1f %%: so the ranks are uneven "
                         "rather than the network slow, and --balance auto divides the work by their speed.",
                         m->most->t->rank, 100 * m->most->usage.idle[SL_IDLE_EXCHANGE], m->least->t->rank,
                         100 * m->least->usage.idle[SL_IDLE_EXCHANGE]));
}

/* For a pipeline: tells how long its stages were idle, and compares this with the formula. */
static void tell_pipeline(const sl__report_run *r, json_t *to) {
  const sl__sums *most = NULL;
  double share = 0;
  int n = 0;
  char place[SL__PLACE_TEXT], chunks[32] = "";
  for (int i = 0; i < r->n; i++) {
    const sl__sums *s = &r->sums[i];
    if (s->steps == 0 || s->t->pipe < 2) continue;
    share += s->quiet / s->usage.seconds, n++;
    if (!most || s->quiet / s->usage.seconds > most->quiet / most->usage.seconds) most = s;
  }
  if (!most) return;
  if (most->t->chunks > 1) snprintf(chunks, sizeof chunks, " of %d chunks each", most->t->chunks);
  put(to, json_sprintf(
              "No task ran on a stage of the pipeline for %.1f %% of a step (%s, rank %d: %.1f %%). The bubble "
              "alone, (P - 1) / (%s%sM + P - 1) with P = %d stages%s and M = %d micro-batches, is %.1f %%; the rest is "
              "messages, stages that are slower than others, and other work of the machine.",
              100 * share / n, sl__sums_place(most->t, place), most->t->rank, 100 * most->quiet / most->usage.seconds,
              most->t->pass_kinds == 3 ? "3 " : "", most->t->chunks > 1 ? "V " : "", most->t->pipe, chunks,
              most->t->micro_batches, 100 * sl__sums_bubble(most)));
}

/* The operation's speed on one worker, compared with the machine's roofline, or without one with the best speed of
 * this run; operations that took hardly any time do not count as best. NULL when out of memory. */
static char *speed_of(const sl__report_run *r, const sl__report_line *l) {
  const double gflops = 1e-9 * l->flops / l->seconds, gigabytes = 1e-9 * l->bytes / l->seconds;
  const double percent = 100 * l->at_roof / l->seconds;
  const sl__report_line *fastest = l;
  char *text = NULL;
  for (int i = 0; i < r->n_lines; i++)
    if (!r->line[i].exchange && r->line[i].seconds > 0.01 * r->kernels &&
        r->line[i].flops / r->line[i].seconds > fastest->flops / fastest->seconds)
      fastest = &r->line[i];
  int n;
  if (r->peak_gflops > 0 && l->flops / r->peak_gflops >= l->bytes / r->peak_gigabytes)
    n = asprintf(&text, "at %.3g GFLOP/s on a worker, which is %.0f %% of the peak there (%.3g)", gflops, percent,
                 r->peak_gflops);
  else if (r->peak_gflops > 0)
    n = asprintf(&text,
                 "moving %.3g GB/s on a worker, which is %.0f %% of what memory gives there (%.3g) and sets its speed",
                 gigabytes, percent, r->peak_gigabytes);
  else if (l->flops <= 0)
    n = asprintf(&text, "moving %.3g GB/s on a worker", gigabytes);
  else if (fastest == l)
    n = asprintf(&text, "at %.3g GFLOP/s on a worker, more than any other operation that counts", gflops);
  else
    n = asprintf(&text, "at %.3g GFLOP/s on a worker, where %s (%s) came to %.3g", gflops, fastest->operation,
                 fastest->phase, 1e-9 * fastest->flops / fastest->seconds);
  return n < 0 ? NULL : text;
}

/* Returns 0 when memory runs out. */
static int tell_operation(const sl__report_run *r, json_t *to) {
  const sl__report_line *most = r->n_lines && !r->line[0].exchange ? &r->line[0] : NULL;
  if (!most || !(most->seconds > 0)) return 1;
  char *speed = speed_of(r, most);
  if (!speed) return 0;
  put(to, json_sprintf("Of the kernels, %s (%s) took most: %.1f %% of their time in %lld tasks, %s.", most->operation,
                       most->phase, 100 * most->seconds / r->kernels, (long long)most->count, speed));
  free(speed);
  double at_roof = 0;
  for (int i = 0; i < r->n_lines; i++) at_roof += r->line[i].at_roof;
  if (at_roof > 0)
    put(to,
        json_sprintf("All kernels together came to %.0f %% of this machine's roofline.", 100 * at_roof / r->kernels));
  return 1;
}

json_t *sl__report_answer(const sl__report_run *r) {
  json_t *sentences = json_array();
  const mean m = mean_of(r);
  if (!sentences) return NULL;
  if (m.steps == 0) {
    put(sentences, json_string("The timeline holds no step, so there is nothing to tell."));
    return sentences;
  }
  tell_time(&m, sentences);
  tell_bound(&m, sentences);
  tell_exchange(r, &m, sentences);
  tell_pipeline(r, sentences);
  if (tell_operation(r, sentences)) return sentences;
  json_decref(sentences);
  return NULL;
}
