/* starling trace: prints a summary of a run's timeline, or exports it for other tools. */
#include "runtime/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "tools/commands/commands.h"
#include "tools/report/sums.h"

static void print_text(const sl__sums *s) {
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
  const sl_overlap *o = &s->overlap;
  const double steps = (double)s->steps;
  if (o->under_way > 0)
    printf("  %-14s %10.3f ms   of a step under way: %.3f hidden (%.1f %%), %.3f exposed\n", "exchange",
           1e3 * o->under_way / steps, 1e3 * o->hidden / steps, 100 * o->hidden / o->under_way,
           1e3 * o->exposed / steps);
  char place[SL__PLACE_TEXT];
  if (*sl__sums_place(s->t, place))
    printf("  %-14s %10.2f %%    of the step (%s)", "no task runs", 100 * s->quiet / s->usage.seconds, place);
  if (s->t->pipe > 1)
    printf(
        "; bubble (P - 1) / (%sV M + P - 1) with P = %d stages, M = %d micro-batches and V = %d chunk%s of layers a "
        "stage: %.2f %%",
        s->t->pass_kinds == 3 ? "3 " : "", s->t->pipe, s->t->micro_batches, s->t->chunks, s->t->chunks > 1 ? "s" : "",
        100 * sl__sums_bubble(s));
  if (*place) printf("\n");
  for (int k = 0; k < s->n_links; k++)
    printf("  %-14s %10.3f MB   a step from memory %d to %d, in %.1f copies\n", "moved",
           1e-6 * (double)s->link[k].bytes / steps, s->link[k].from, s->link[k].to, (double)s->link[k].copies / steps);
  for (int k = 0; k < s->n_moved; k++)
    printf("  %-14s %10.3f MB   a step for %s, in %.1f copies\n", k ? "" : "of these",
           1e-6 * (double)s->moved[k].bytes / steps, s->moved[k].operation[0] ? s->moved[k].operation : "no task",
           (double)s->moved[k].copies / steps);
}

static sl_status summarise(const sl__options *o, sl_timeline *const *timelines, int n) {
  json_t *ranks = json_array();
  sl_status status = SL_OK;
  for (int i = 0; i < n; i++) {
    sl__sums s;
    SL_TRY_OUT(sl__sums_of(timelines[i], &s));
    if (!o->json)
      print_text(&s);
    else if (json_array_append_new(ranks, sl__sums_to_json(&s)) != 0)
      SL_TRY_OUT(sl_no_memory("for the figures as JSON"));
  }
  if (o->json) status = sl_json_print(stdout, ranks, 9);
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
  if (o->format && o->json)
    return sl_fail(SL_EINVAL, "--format writes a file, and --json prints sums: give one of them");
  SL_TRY(sl_timeline_read_all(o->model, &timelines, &n));
  while (o->format && strcmp(o->format, sl_trace_format_name((sl_trace_format)format)) != 0) format++;
  const sl_status status =
      o->out ? sl_trace_write(o->out, (sl_trace_format)format, timelines, n) : summarise(o, timelines, n);
  for (int i = 0; i < n; i++) sl_timeline_destroy(timelines[i]);
  free(timelines);
  return status;
}
