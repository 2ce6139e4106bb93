/* A report's data as one JSON value, which `starling report --json` prints and the page shows. Tasks are columns of
 * whole numbers, with times as short differences, since there are a hundred thousand of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/trace/live.h"
#include "tools/files/rundir.h"
#include "tools/report/parts.h"

/* Number of records that a page draws at most, over all ranks: those of the last whole steps. Sums and tables cover
 * all records. */
enum { SHOWN = 200000 };

/* --- columns ---------------------------------------------------------------------------------------------------------
 */

/* A JSON object of arrays that are filled in parallel; the first failure sticks. */
enum { MOST_COLUMNS = 12 };
typedef struct columns {
  json_t *all, *column[MOST_COLUMNS];
  int failed;
} columns;

static columns columns_create(const char *const *names) {
  columns c = {.all = json_object()};
  for (int i = 0; names[i]; i++) {
    c.column[i] = json_array();
    c.failed |= json_object_set_new(c.all, names[i], c.column[i]) != 0;
  }
  return c;
}

static void put(columns *c, int column, json_t *value) {
  c->failed |= json_array_append_new(c->column[column], value) != 0;
}
static void put_integer(columns *c, int column, int64_t value) { put(c, column, json_integer(value)); }

/* Returns the object, or NULL after a failure. */
static json_t *columns_end(columns *c) {
  if (c->failed) json_decref(c->all), c->all = NULL;
  return c->all;
}

/* A list of distinct texts, each known by its index. */
typedef struct texts {
  json_t *list, *place; /* index of each text */
} texts;

static json_t *text(texts *x, const char *word) {
  json_t *known = json_object_get(x->place, word);
  if (known) return json_incref(known);
  json_t *number = json_integer((json_int_t)json_array_size(x->list));
  if (json_object_set(x->place, word, number) != 0 || json_array_append_new(x->list, json_string(word)) != 0) {
    json_decref(number);
    return NULL;
  }
  return number;
}

/* --- timelines -------------------------------------------------------------------------------------------------------
 */

static json_t *nodes_of(const sl_timeline *t, texts *x) {
  static const char *const names[] = {"layer", "operation", "phase", "shapes",   "shard",       "leaf", "priority",
                                      "flops", "bytes",     "from",  "critical", "micro_batch", NULL};
  columns c = columns_create(names);
  unsigned char *critical = calloc((size_t)t->n_nodes + 1, 1);
  c.failed |= !critical;
  /* A step that was not recorded completely has no critical path. */
  const sl_status found = critical ? sl_bound_critical(t, critical) : SL_ENOMEM;
  const int known = found == SL_OK;
  c.failed |= found == SL_ENOMEM;
  for (int i = 0; i < t->n_nodes && !c.failed; i++) {
    const sl_timeline_node *n = &t->node[i];
    put(&c, 0, text(x, n->layer)), put(&c, 1, text(x, n->operation)), put(&c, 2, text(x, n->phase));
    put(&c, 3, text(x, n->shapes)), put_integer(&c, 4, n->shard), put_integer(&c, 5, n->leaf);
    put_integer(&c, 6, n->priority), put(&c, 7, json_real(n->flops)), put(&c, 8, json_real(n->bytes));
    put_integer(&c, 9, t->from[i]), put(&c, 10, known ? json_integer(critical[i]) : json_null());
    put_integer(&c, 11, n->micro_batch);
  }
  put_integer(&c, 9, t->from[t->n_nodes]);
  free(critical);
  json_t *all = columns_end(&c), *before = json_array();
  for (int i = 0; i < t->from[t->n_nodes]; i++) json_array_append_new(before, json_integer(t->before[i]));
  if (all)
    json_object_set_new(all, "before", before);
  else
    json_decref(before);
  return all;
}

/* Copies between memories are drawn as records of a kind of their own: `worker` is the link, `node` is -1 minus the
 * size in KiB, which is no node's number. */
enum { COPY = SL_RECORD_KINDS };

static sl_status copies_of(const sl_timeline *t, int64_t first, sl_record **copies, size_t *n) {
  *n = 0;
  *copies = malloc(((size_t)t->n_transfers + 1) * sizeof **copies);
  if (!*copies) return sl_no_memory("for %d copies", t->n_transfers);
  for (int i = 0; i < t->n_transfers; i++) {
    const sl_timeline_transfer *x = &t->transfer[i];
    const int64_t kib = (x->bytes + 1023) / 1024;
    if (x->step < first) continue;
    (*copies)[(*n)++] = (sl_record){.step = x->step,
                                    .submit = x->start,
                                    .ready = x->start,
                                    .taken = x->start,
                                    .start = x->start,
                                    .end = x->end,
                                    .node = -1 - (int32_t)(kib < INT32_MAX ? kib : INT32_MAX - 1),
                                    .worker = (int16_t)(x->from * SL_TIMELINE_MEMORIES + x->to),
                                    .kind = COPY};
  }
  return SL_OK;
}

/* A record and its row in the drawing; rows of one kind and track (worker, lane, thread) are adjacent. */
typedef struct drawn {
  const sl_record *record;
  int row; /* row within the track: exchanges that overlap need several */
} drawn;

static int by_track(const void *a, const void *b) {
  const drawn *x = a, *y = b;
  const sl_record *p = x->record, *q = y->record;
  if (p->kind != q->kind) return p->kind - q->kind;
  if (p->worker != q->worker) return p->worker - q->worker;
  if (x->row != y->row) return x->row - y->row;
  return (p->start > q->start) - (p->start < q->start);
}

/* Assigns rows to the records of a track: each goes into the first free row. d is sorted by_track. */
static sl_status stack(drawn *d, size_t n) {
  int64_t *end = NULL; /* end of each row of the track */
  int rows = 0;
  for (size_t i = 0; i < n; i++) {
    const sl_record *r = d[i].record, *before = i ? d[i - 1].record : NULL;
    if (r->kind == SL_RECORD_TASK) continue;
    if (!before || before->kind != r->kind || before->worker != r->worker) rows = 0;
    int row = 0;
    while (row < rows && end[row] > r->start) row++;
    if (row == rows) {
      int64_t *more = realloc(end, ((size_t)rows + 1) * sizeof *more);
      if (!more) {
        free(end);
        return sl_no_memory("for the rows of %zu exchanges", n);
      }
      end = more;
      rows++;
    }
    end[row] = r->end;
    d[i].row = row;
  }
  free(end);
  return SL_OK;
}

static int shows(const sl_timeline *t, const sl_record *r, int64_t first) {
  return r->step >= first && r->kind >= 0 && r->kind < SL_RECORD_KINDS &&
         (r->kind == SL_RECORD_INPUT || (r->node >= 0 && r->node < t->n_nodes)) &&
         (r->kind != SL_RECORD_TASK || (r->worker >= 0 && r->worker < t->n_workers));
}

/* Adds the rows from record i on: begin, end and name. Returns the first record after them. */
static size_t add_row(columns *rows, const sl_timeline *t, const drawn *d, size_t n, size_t i, int kind, int track) {
  const size_t first = i;
  const int row = i < n ? d[i].row : 0;
  while (i < n && d[i].record->kind == kind && d[i].record->worker == track && d[i].row == row) i++;
  put(rows, 0,
      kind == SL_RECORD_TASK ? json_string(t->worker[track].name)
      : kind == COPY
          ? json_sprintf("copies, memory %d to %d", track / SL_TIMELINE_MEMORIES, track % SL_TIMELINE_MEMORIES)
          : json_sprintf("%s %d", kind == SL_RECORD_EXCHANGE ? "exchange, lane" : "loader, thread", track));
  put_integer(rows, 1, kind), put_integer(rows, 2, (int64_t)first), put_integer(rows, 3, (int64_t)i);
  return i;
}

static json_t *rows_of(const sl_timeline *t, const drawn *d, size_t n) {
  static const char *const names[] = {"name", "kind", "first", "last", NULL};
  columns c = columns_create(names);
  size_t i = 0;
  for (int w = 0; w < t->n_workers; w++) i = add_row(&c, t, d, n, i, SL_RECORD_TASK, w); /* also idle workers */
  while (i < n && !c.failed) i = add_row(&c, t, d, n, i, d[i].record->kind, d[i].record->worker);
  return columns_end(&c);
}

static json_t *records_of(const drawn *d, size_t n, int64_t origin) {
  static const char *const names[] = {"step", "node", "start", "time", "taken", "ready", "submit", NULL};
  columns c = columns_create(names);
  int64_t step = 0, start = origin;
  for (size_t i = 0; i < n && !c.failed; i++) {
    const sl_record *r = d[i].record;
    put_integer(&c, 0, r->step - step), put_integer(&c, 1, r->node), put_integer(&c, 2, r->start - start);
    put_integer(&c, 3, r->end - r->start), put_integer(&c, 4, r->start - r->taken);
    put_integer(&c, 5, r->taken - r->ready), put_integer(&c, 6, r->ready - r->submit);
    step = r->step, start = r->start;
  }
  return columns_end(&c);
}

static sl_status idle_of(const sl__sums *s, int64_t from, int64_t origin, json_t **all) {
  static const char *const names[] = {"worker", "cause", "start", "time", NULL};
  const sl_dependencies graph = {s->t->n_nodes, s->t->from, s->t->before};
  sl_idle *idle;
  size_t n;
  SL_TRY(sl_idle_find(s->t->record, s->t->n_records, s->t->n_workers, &graph, from, s->to, &idle, &n));
  columns c = columns_create(names);
  int64_t start = origin;
  for (size_t i = 0; i < n && !c.failed; i++) {
    put_integer(&c, 0, idle[i].worker), put_integer(&c, 1, idle[i].cause);
    put_integer(&c, 2, idle[i].from - start), put_integer(&c, 3, idle[i].to - idle[i].from);
    start = idle[i].from;
  }
  free(idle);
  *all = columns_end(&c);
  return *all ? SL_OK : sl_no_memory("for the idle time of a report");
}

/* Temporaries in use during the last step; null if the file has no buffers. */
static sl_status memory_of(const sl_timeline *t, int64_t step, int64_t origin, json_t **all) {
  static const char *const names[] = {"time", "bytes", NULL};
  sl_live *live;
  size_t n;
  int64_t slots;
  *all = json_null();
  SL_TRY(sl_live_slots(t, &slots));
  SL_TRY(sl_live_find(t, step, &live, &n));
  if (n == 0) return SL_OK;
  columns c = columns_create(names);
  for (size_t i = 0; i < n && !c.failed; i++) {
    put_integer(&c, 0, live[i].time - (i ? live[i - 1].time : origin));
    put_integer(&c, 1, live[i].bytes);
  }
  free(live);
  *all = columns_end(&c);
  if (!*all || json_object_set_new(*all, "step", json_integer(step)) != 0 ||
      json_object_set_new(*all, "slots_bytes", json_integer(slots)) != 0) {
    json_decref(*all);
    return sl_no_memory("for the buffers of a report");
  }
  return SL_OK;
}

/* One rank, from step `first` on. */
static sl_status timeline_of(const sl__sums *s, int64_t first, int64_t origin, texts *x, json_t **all) {
  const sl_timeline *t = s->t;
  drawn *d = malloc((t->n_records + (size_t)t->n_transfers + 1) * sizeof *d);
  sl_record *copies = NULL;
  size_t n = 0, n_copies = 0;
  int64_t from = s->to, last = first;
  json_t *idle = NULL, *memory = NULL;
  sl_status status = d ? SL_OK : sl_no_memory("for %zu records", t->n_records);
  SL_TRY_OUT(status);
  if (first < s->first) first = s->first; /* this rank's ring may have lost parts of earlier steps */
  for (size_t i = 0; i < t->n_records; i++) {
    if (!shows(t, &t->record[i], first)) continue;
    d[n++] = (drawn){&t->record[i], 0};
    if (t->record[i].submit < from) from = t->record[i].submit;
    if (t->record[i].kind != SL_RECORD_INPUT && t->record[i].step > last) last = t->record[i].step;
  }
  SL_TRY_OUT(copies_of(t, first, &copies, &n_copies));
  for (size_t i = 0; i < n_copies; i++) d[n++] = (drawn){&copies[i], 0};
  qsort(d, n, sizeof *d, by_track);
  SL_TRY_OUT(stack(d, n));
  qsort(d, n, sizeof *d, by_track);
  SL_TRY_OUT(idle_of(s, from, origin, &idle));
  SL_TRY_OUT(memory_of(t, last, origin, &memory));
  json_t *nodes = nodes_of(t, x), *rows = rows_of(t, d, n), *records = records_of(d, n, origin);
  /* Takes ownership of the parts, also after a failure; fails if one is missing. */
  *all = json_pack("{s:i, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "rank", t->rank, "place",
                   sl__sums_place(t, (char[SL__PLACE_TEXT]){0}), "from", (json_int_t)(from - origin), "to",
                   (json_int_t)(s->to - origin), "rows", rows, "nodes", nodes, "records", records, "idle", idle,
                   "memory", memory);
  idle = memory = NULL;
  if (!*all) status = sl_no_memory("for the timeline of rank %d", t->rank);
out:
  free(d), free(copies);
  json_decref(idle), json_decref(memory);
  return status;
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The first step shown: whole steps of all ranks, at most `most` records, at most `steps` steps, at least one step. */
static sl_status first_shown(const sl__report_run *r, size_t most, int64_t steps, int64_t *first) {
  size_t room = 1, n = 0;
  for (int k = 0; k < r->n; k++) room += r->sums[k].t->n_records;
  int64_t *step = malloc(room * sizeof *step);
  if (!step) return sl_no_memory("for the steps of %zu records", room);
  *first = 0;
  for (int k = 0; k < r->n; k++)
    for (size_t i = 0; i < r->sums[k].t->n_records; i++)
      if (r->sums[k].t->record[i].step >= r->sums[k].first) step[n++] = r->sums[k].t->record[i].step;
  qsort(step, n, sizeof *step, by_number);
  if (n > 0) *first = step[0];
  if (n > most) *first = step[n - most - 1] < step[n - 1] ? step[n - most - 1] + 1 : step[n - 1];
  if (n > 0 && step[n - 1] - *first >= steps) *first = step[n - 1] - steps + 1;
  free(step);
  return SL_OK;
}

/* The path, with bytes that are not UTF-8 replaced. */
static json_t *path_text(const char *path) {
  json_t *exact = json_string(path);
  char *copy = exact ? NULL : strdup(path);
  if (!copy) return exact;
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  json_t *plain = json_string(copy);
  free(copy);
  return plain;
}

/* The timelines of a run's last steps, from its first submission that is shown. */
static sl_status timelines_of(const sl__report_run *r, int64_t first, texts *x, json_t **timelines) {
  int64_t origin = INT64_MAX;
  json_t *all = *timelines = json_array();
  for (int k = 0; k < r->n; k++)
    for (size_t i = 0; i < r->sums[k].t->n_records; i++) {
      const sl_record *a = &r->sums[k].t->record[i];
      if (shows(r->sums[k].t, a, first) && a->submit < origin) origin = a->submit;
    }
  if (origin == INT64_MAX) origin = 0;
  for (int k = 0; k < r->n; k++) {
    json_t *one = NULL;
    SL_TRY(timeline_of(&r->sums[k], first, origin, x, &one));
    json_array_append_new(all, one);
  }
  return SL_OK;
}

/* Shows the same number of steps of two runs, so that equal steps lie below one another while their times agree. */
static sl_status all_timelines(const sl__report_run *r, const sl__report_beside *both, json_t *data) {
  const sl__report_run *runs[] = {r, both ? both->beside : NULL};
  const int n = both ? 2 : 1;
  json_t *all[2] = {NULL, NULL}, *beside = NULL;
  int64_t first[2] = {0, 0}, steps = INT64_MAX;
  texts x = {json_array(), json_object()};
  sl_status status = SL_OK;
  for (int i = 0; i < n; i++) {
    SL_TRY_OUT(first_shown(runs[i], SHOWN / (size_t)n, INT64_MAX, &first[i]));
    for (int k = 0; both && k < runs[i]->n; k++) {
      const int64_t shown = runs[i]->sums[k].first + runs[i]->sums[k].steps - first[i];
      if (runs[i]->sums[k].steps > 0 && shown > 0 && shown < steps) steps = shown;
    }
  }
  for (int i = 0; i < n; i++) {
    SL_TRY_OUT(first_shown(runs[i], SHOWN / (size_t)n, steps, &first[i]));
    SL_TRY_OUT(timelines_of(runs[i], first[i], &x, &all[i]));
  }
  if (both) {
    beside = sl__report_beside_to_json(both);
    if (!beside || json_object_set_new(beside, "run", path_text(both->beside->run)) != 0 ||
        json_object_set(beside, "timelines", all[1]) != 0 ||
        json_object_set_new(beside, "first_step_shown", json_integer(first[1])) != 0 ||
        json_object_set(data, "beside", beside) != 0)
      SL_TRY_OUT(sl_no_memory("for the run beside another"));
  }
  if (json_object_set(data, "timelines", all[0]) != 0 || json_object_set(data, "texts", x.list) != 0 ||
      json_object_set_new(data, "first_step_shown", json_integer(first[0])) != 0)
    status = sl_no_memory("for the timelines of a report");
out:
  json_decref(all[0]), json_decref(all[1]), json_decref(beside), json_decref(x.list), json_decref(x.place);
  return status;
}

/* --- metrics ---------------------------------------------------------------------------------------------------------
 */

static const char *const curves[] = {
    "step", "time_s", "loss", "samples_per_s", "tokens_per_s", "gflops", "peak_memory_bytes", "memory_bytes", NULL};

static sl_status add_line(const char *path, int number, const char *line, size_t n, int last, columns *train,
                          columns *validation) {
  json_t *all;
  if (sl_json_parse(line, n, 0, &all, NULL) == SL_ENOMEM) return SL_ENOMEM;
  if (!json_is_object(all)) {
    json_decref(all);
    /* Only the last line may be incomplete, in a run that was killed. */
    return last ? SL_OK : sl_fail(SL_EFORMAT, "%s, line %d, is no JSON object", path, number);
  }
  const char *split = json_string_value(json_object_get(all, "split"));
  columns *to = split && strcmp(split, "validation") == 0 ? validation : train;
  for (int i = 0; curves[i]; i++) {
    json_t *value = json_object_get(all, curves[i]);
    put(to, i, json_is_number(value) ? json_incref(value) : json_null());
  }
  json_decref(all);
  return SL_OK;
}

/* The run's metrics.jsonl as columns; nothing if the folder has none (bench's). */
static sl_status metrics_of(const sl__report_run *r, json_t *data) {
  enum { LIMIT = 256 << 20 };
  char *path = NULL, *bytes = NULL;
  size_t n;
  columns train = columns_create(curves), validation = columns_create(curves);
  sl_status status = SL_OK;
  if (asprintf(&path, "%s/%s", r->run, sl__rundir_file_name(SL__RUNDIR_METRICS)) < 0) {
    path = NULL;
    status = sl_no_memory("for a path");
    goto out;
  }
  status = sl_file_read_regular(path, LIMIT, &bytes, &n);
  if (status == SL_ENOTFOUND) {
    status = SL_OK;
    goto out;
  }
  SL_TRY_OUT(status);
  int number = 1;
  for (const char *line = bytes; line < bytes + n; number++) {
    const char *end = memchr(line, '\n', (size_t)(bytes + n - line));
    SL_TRY_OUT(add_line(path, number, line, (size_t)((end ? end : bytes + n) - line), !end, &train, &validation));
    line = end ? end + 1 : bytes + n;
  }
  if (train.failed || validation.failed || json_object_set(data, "train", train.all) != 0 ||
      json_object_set(data, "validation", validation.all) != 0)
    status = sl_no_memory("for the metrics of %s", r->run);
out:
  json_decref(train.all), json_decref(validation.all);
  free(path), free(bytes);
  return status;
}

/* --- the whole -------------------------------------------------------------------------------------------------------
 */

static json_t *lines_of(const sl__report_run *r) {
  json_t *all = json_array();
  for (int i = 0; i < r->n_lines; i++) {
    const sl__report_line *l = &r->line[i];
    json_array_append_new(
        all, json_pack("{s:s, s:s, s:b, s:I, s:f, s:f, s:f, s:f, s:f}", "operation", l->operation, "phase", l->phase,
                       "exchange", l->exchange, "count", (json_int_t)l->count, "seconds", l->seconds, "flops", l->flops,
                       "bytes", l->bytes, "roof_seconds", l->at_roof, "moved_bytes", l->moved));
  }
  return all;
}

sl_status sl__report_data(const sl__report_run *r, const sl__report_beside *beside, json_t **data) {
  const sl_timeline *t = r->timelines[0];
  json_t *ranks = json_array(), *names = json_array();
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    json_array_append_new(names, json_string(sl_idle_cause_name((sl_idle_cause)c)));
  for (int i = 0; i < r->n; i++) json_array_append_new(ranks, sl__sums_to_json(&r->sums[i]));
  sl_status status = SL_OK;
  *data = json_pack("{s:s, s:o, s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "format", "starling-report-1", "run",
                    path_text(r->run), "model", t->model, "sched", t->sched, "ranks", t->ranks, "answer",
                    sl__report_answer(r), "totals", ranks, "causes", names, "operations", lines_of(r));
  if (*data)
    json_object_set_new(*data, "roofline",
                        json_pack("{s:f, s:f, s:s}", "peak_gflops", r->peak_gflops, "peak_gigabytes_per_s",
                                  r->peak_gigabytes, "note", sl__report_roof_note(r)));
  if (!*data) return sl_no_memory("for the report of %s", r->run);
  SL_TRY_OUT(metrics_of(r, *data));
  SL_TRY_OUT(all_timelines(r, beside, *data));
out:
  if (status != SL_OK) json_decref(*data), *data = NULL;
  return status;
}
