/* The main figures of a rank's timeline. */
#include "tools/report/sums.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine/transfers.h"
#include "tasks/schedule/print.h"

static sl_status overlap_of(const sl_timeline *t, const sl_dependencies *graph, sl__sums *s) {
  unsigned char *backward = malloc((size_t)t->n_nodes + 1);
  if (!backward) return sl_no_memory("for the phases of %d tasks", t->n_nodes);
  for (int i = 0; i < t->n_nodes; i++) backward[i] = strcmp(t->node[i].phase, sl_phase_name(SL_PHASE_BACKWARD)) == 0;
  const sl_status status =
      sl_overlap_of(t->record, t->n_records, t->n_workers, graph, backward, s->from, s->to, &s->overlap);
  free(backward);
  return status;
}

static void scale(const sl__sums *s, int64_t *sum) { *sum = llround((double)*sum * s->copied); }

/* Once the ring of copies is full, the oldest step in it may have lost some. */
static void find_first_copy(const sl_timeline *t, sl__sums *s, int64_t last) {
  s->first_copy = s->first, s->copied = 1;
  if (t->n_transfers < SL_TRANSFERS_KEPT) return;
  int64_t oldest = INT64_MAX;
  for (int i = 0; i < t->n_transfers; i++)
    if (t->transfer[i].step < oldest) oldest = t->transfer[i].step;
  if (oldest < s->first) return;
  s->first_copy = oldest < last ? oldest + 1 : last;
  s->copied = (double)(last - s->first + 1) / (double)(last - s->first_copy + 1);
}

static void add_links(const sl_timeline *t, sl__sums *s) {
  for (int i = 0; i < t->n_transfers; i++) {
    const sl_timeline_transfer *x = &t->transfer[i];
    int k = 0;
    if (x->step < s->first_copy) continue;
    while (k < s->n_links && (s->link[k].from != x->from || s->link[k].to != x->to)) k++;
    if (k == SL__LINKS) continue;
    if (k == s->n_links) s->link[s->n_links++] = (sl__link){.from = x->from, .to = x->to};
    s->link[k].copies++, s->link[k].bytes += x->bytes;
  }
  for (int k = 0; k < s->n_links; k++) scale(s, &s->link[k].copies), scale(s, &s->link[k].bytes);
}

static int by_bytes(const void *a, const void *b) {
  const sl__moved *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return strcmp(x->operation, y->operation);
}

static void add_moved(const sl_timeline *t, sl__sums *s) {
  for (int i = 0; i < t->n_transfers; i++) {
    const sl_timeline_transfer *x = &t->transfer[i];
    const char *operation = x->node < 0 ? "" : t->node[x->node].operation;
    int k = 0;
    if (x->step < s->first_copy) continue;
    while (k < s->n_moved && strcmp(s->moved[k].operation, operation) != 0) k++;
    if (k == SL__MOVED) k--;
    if (k == s->n_moved) s->moved[s->n_moved++] = (sl__moved){.operation = operation};
    s->moved[k].copies++, s->moved[k].bytes += x->bytes;
  }
  for (int k = 0; k < s->n_moved; k++) scale(s, &s->moved[k].copies), scale(s, &s->moved[k].bytes);
  qsort(s->moved, (size_t)s->n_moved, sizeof *s->moved, by_bytes);
}

static int by_start(const void *a, const void *b) {
  const sl_record *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

static sl_status find_quiet(const sl_timeline *t, sl__sums *s) {
  sl_record *task = malloc((t->n_records + 1) * sizeof *task);
  size_t n = 0;
  int64_t at = s->from, quiet = 0;
  if (!task) return sl_no_memory("for %zu records", t->n_records);
  for (size_t i = 0; i < t->n_records; i++)
    if (t->record[i].kind == SL_RECORD_TASK && t->record[i].end > s->from && t->record[i].start < s->to)
      task[n++] = t->record[i];
  qsort(task, n, sizeof *task, by_start);
  for (size_t i = 0; i < n; i++) {
    if (task[i].start > at) quiet += task[i].start - at;
    if (task[i].end > at) at = task[i].end;
  }
  if (s->to > at) quiet += s->to - at;
  s->quiet = 1e-9 * (double)quiet;
  free(task);
  return SL_OK;
}

double sl__sums_bubble(const sl__sums *s) {
  if (s->t->pipe <= 1) return 0;
  const double passes = (double)s->t->chunks * s->t->micro_batches * (s->t->pass_kinds == 3 ? 3 : 1);
  return (s->t->pipe - 1.0) / (passes + s->t->pipe - 1.0);
}

const char *sl__sums_place(const sl_timeline *t, char *text) {
  text[0] = '\0';
  if (t->pipe * t->tensor > 1) {
    const int part = t->rank % (t->pipe * t->tensor);
    const int n = t->pipe > 1 ? snprintf(text, SL__PLACE_TEXT, "stage %d", part / t->tensor) : 0;
    if (t->tensor > 1) snprintf(text + n, SL__PLACE_TEXT - (size_t)n, "%spart %d", n ? ", " : "", part % t->tensor);
  }
  return text;
}

sl_status sl__sums_of(const sl_timeline *t, sl__sums *s) {
  *s = (sl__sums){.t = t};
  sl_timeline_window(t, &s->from, &s->to, &s->first);
  int64_t last = s->first - 1;
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->step < s->first) continue;
    if (r->step > last) last = r->step;
    s->tasks += r->kind == SL_RECORD_TASK;
    s->exchanges += r->kind == SL_RECORD_EXCHANGE;
  }
  find_first_copy(t, s, last);
  add_links(t, s);
  add_moved(t, s);
  s->steps = t->n_records ? last - s->first + 1 : 0;
  s->step = s->steps ? 1e-9 * (double)(s->to - s->from) / (double)s->steps : 0;
  const sl_dependencies graph = {t->n_nodes, t->from, t->before};
  SL_TRY(sl_usage_of(t->record, t->n_records, t->n_workers, &graph, s->from, s->to, &s->usage));
  if (s->exchanges) SL_TRY(overlap_of(t, &graph, s));
  SL_TRY(find_quiet(t, s));
  if (s->steps == 0) return SL_OK;
  const sl_status status = sl_bound_recorded(t, &s->bound);
  s->bounded = status == SL_OK;
  return status == SL_EINVAL ? SL_OK : status; /* a step that failed was not recorded completely */
}

json_t *sl__sums_to_json(const sl__sums *s) {
  json_t *idle = json_object(), *workers = json_array();
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)c), json_real(100 * s->usage.idle[c]));
  for (int w = 0; w < s->t->n_workers; w++)
    json_array_append_new(
        workers, json_pack("{s:s, s:I, s:f}", "name", s->t->worker[w].name, "tasks", (json_int_t)s->t->worker[w].tasks,
                           "busy_s", 1e-9 * (double)s->t->worker[w].busy));
  json_t *all = json_pack("{s:i, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:o}", "rank", s->t->rank,
                          "ranks", s->t->ranks, "model", s->t->model, "sched", s->t->sched, "steps",
                          (json_int_t)s->steps, "tasks", (json_int_t)s->tasks, "exchanges", (json_int_t)s->exchanges,
                          "lost", (json_int_t)s->t->lost, "window_s", s->usage.seconds, "step_s", s->step,
                          "kernel_percent", 100 * s->usage.kernels, "idle_percent", idle, "workers", workers);
  if (all && s->exchanges)
    json_object_set_new(all, "exchange",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "under_way_s", s->overlap.under_way, "hidden_s",
                                  s->overlap.hidden, "exposed_s", s->overlap.exposed, "hideable_s", s->overlap.hideable,
                                  "achieved_s", s->overlap.achieved));
  if (all && s->t->pipe * s->t->tensor > 1) {
    const int part = s->t->rank % (s->t->pipe * s->t->tensor);
    json_object_set_new(
        all, "mesh",
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f}", "pipe", s->t->pipe, "tensor", s->t->tensor,
                  "micro_batches", s->t->micro_batches, "chunks", s->t->chunks, "stage", part / s->t->tensor, "part",
                  part % s->t->tensor, "no_task_percent", s->usage.seconds > 0 ? 100 * s->quiet / s->usage.seconds : 0,
                  "bubble_percent", 100 * sl__sums_bubble(s)));
  }
  json_t *copies = s->n_links ? json_array() : NULL;
  for (int k = 0; k < s->n_links; k++)
    json_array_append_new(copies,
                          json_pack("{s:i, s:i, s:I, s:I}", "from", s->link[k].from, "to", s->link[k].to, "copies",
                                    (json_int_t)s->link[k].copies, "bytes", (json_int_t)s->link[k].bytes));
  if (all && copies) json_object_set(all, "copies", copies);
  json_decref(copies);
  json_t *moved = s->n_moved ? json_array() : NULL;
  for (int k = 0; k < s->n_moved; k++)
    json_array_append_new(moved,
                          json_pack("{s:s, s:I, s:I}", "operation", s->moved[k].operation, "copies",
                                    (json_int_t)s->moved[k].copies, "moved_bytes", (json_int_t)s->moved[k].bytes));
  if (all && moved) json_object_set(all, "moved", moved);
  json_decref(moved);
  if (all && s->bounded)
    json_object_set_new(all, "bound",
                        json_pack("{s:f, s:f, s:f}", "critical_path_s", s->bound.critical_path, "area_s", s->bound.area,
                                  "mixed_s", s->bound.mixed));
  return all;
}
