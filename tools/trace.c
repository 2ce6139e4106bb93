/* starling trace: what a run's timeline says, in figures or as a file for other tools. */
#include "runtime/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/idle.h"
#include "runtime/json.h"
#include "tasks/bound.h"
#include "tools/commands.h"

/* What a rank did in the whole steps that are kept. */
typedef struct rank_sums {
  const sl_timeline *t;
  int64_t steps, tasks, exchanges;
  double step; /* seconds: the window over its steps */
  double exchanging;
  sl_usage usage;
  sl_bound bound;
  int bounded; /* 0: not every task was recorded */
} rank_sums;

static sl_status sum(const sl_timeline *t, rank_sums *s) {
  int64_t from, to, first, last = 0;
  *s = (rank_sums){.t = t};
  sl_timeline_window(t, &from, &to, &first);
  last = first - 1;
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->step < first) continue;
    if (r->step > last) last = r->step;
    s->tasks += r->kind == SL_RECORD_TASK;
    s->exchanges += r->kind == SL_RECORD_EXCHANGE;
    if (r->kind == SL_RECORD_EXCHANGE) s->exchanging += 1e-9 * (double)(r->end - r->start);
  }
  s->steps = t->n_records ? last - first + 1 : 0;
  s->step = s->steps ? 1e-9 * (double)(to - from) / (double)s->steps : 0;
  const sl_dependencies graph = {t->n_nodes, t->from, t->before};
  SL_TRY(sl_usage_of(t->record, t->n_records, t->n_workers, &graph, from, to, &s->usage));
  if (s->steps == 0) return SL_OK;
  const sl_status status = sl_bound_recorded(t, &s->bound);
  s->bounded = status == SL_OK;
  return status == SL_EINVAL ? SL_OK : status; /* a step that failed was not recorded whole */
}

static void print_text(const rank_sums *s) {
  printf("rank %d of %d: %s, policy %s, %d workers; %lld whole steps, %lld tasks, %lld exchanges", s->t->rank,
         s->t->ranks, s->t->model, s->t->sched, s->t->n_workers, (long long)s->steps, (long long)s->tasks,
         (long long)s->exchanges);
  printf(s->t->lost ? "; %llu earlier records are gone\n" : "\n", (unsigned long long)s->t->lost);
  if (s->steps == 0) return;
  printf("  %-14s %10.3f ms\n", "a step", 1e3 * s->step);
  if (s->bounded)
    printf("  %-14s %10.3f ms   %.1f %% of the step; critical path %.3f, area %.3f\n", "bound", 1e3 * s->bound.mixed,
           100 * s->bound.mixed / s->step, 1e3 * s->bound.critical_path, 1e3 * s->bound.area);
  printf("  %-14s %10.2f %%    of worker time\n", "kernels", 100 * s->usage.kernels);
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    printf("  %-14s %10.2f %%    idle\n", sl_idle_cause_name((sl_idle_cause)c), 100 * s->usage.idle[c]);
}

static json_t *to_json(const rank_sums *s) {
  json_t *idle = json_object(), *workers = json_array();
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)c), json_real(100 * s->usage.idle[c]));
  for (int w = 0; w < s->t->n_workers; w++)
    json_array_append_new(
        workers, json_pack("{s:s, s:I, s:f}", "name", s->t->worker[w].name, "tasks", (json_int_t)s->t->worker[w].tasks,
                           "busy_s", 1e-9 * (double)s->t->worker[w].busy));
  json_t *all =
      json_pack("{s:i, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o}", "rank", s->t->rank, "ranks",
                s->t->ranks, "model", s->t->model, "sched", s->t->sched, "steps", (json_int_t)s->steps, "tasks",
                (json_int_t)s->tasks, "exchanges", (json_int_t)s->exchanges, "lost", (json_int_t)s->t->lost, "window_s",
                s->usage.seconds, "step_s", s->step, "exchange_s", s->exchanging, "kernel_percent",
                100 * s->usage.kernels, "idle_percent", idle, "workers", workers);
  if (all && s->bounded)
    json_object_set_new(all, "bound",
                        json_pack("{s:f, s:f, s:f}", "critical_path_s", s->bound.critical_path, "area_s", s->bound.area,
                                  "mixed_s", s->bound.mixed));
  return all;
}

static sl_status summarise(const sl__options *o, sl_timeline *const *timelines, int n) {
  json_t *ranks = json_array();
  sl_status status = SL_OK;
  for (int i = 0; i < n; i++) {
    rank_sums s;
    SL_TRY_OUT(sum(timelines[i], &s));
    if (!o->json)
      print_text(&s);
    else if (json_array_append_new(ranks, to_json(&s)) != 0)
      SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for the figures as JSON"));
  }
  if (o->json) {
    json_dumpf(ranks, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
  }
out:
  json_decref(ranks);
  return status;
}

sl_status sl__trace(sl__options *o, int *exit_code) {
  sl_timeline **timelines;
  int n, format = 0;
  (void)exit_code;
  if (!o->out != !o->format)
    return sl_fail(SL_EINVAL, "--format and --out go together: which format, and the file to write");
  SL_TRY(sl_timeline_read_all(o->model, &timelines, &n));
  while (o->format && strcmp(o->format, sl_trace_format_name((sl_trace_format)format)) != 0) format++;
  const sl_status status =
      o->out ? sl_trace_write(o->out, (sl_trace_format)format, timelines, n) : summarise(o, timelines, n);
  for (int i = 0; i < n; i++) sl_timeline_destroy(timelines[i]);
  free(timelines);
  return status;
}
