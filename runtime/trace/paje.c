/* Timelines in Paje's format, as ViTE and other viewers read it: definitions first, then events sorted by time
 * (Kergommeaux, Stein, Bernard, "Paje, an interactive visualization tool", 2000; file format by Schnorr). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/numbers/hash.h"
#include "runtime/trace/parts.h"

enum { CONTAINER_TYPE, STATE_TYPE, VALUE, CREATE, DESTROY, STATE };
static const char definitions[] =
    "%EventDef PajeDefineContainerType 0\n% Alias string\n% Type string\n% Name string\n%EndEventDef\n"
    "%EventDef PajeDefineStateType 1\n% Alias string\n% Type string\n% Name string\n%EndEventDef\n"
    "%EventDef PajeDefineEntityValue 2\n% Alias string\n% Type string\n% Name string\n% Color color\n%EndEventDef\n"
    "%EventDef PajeCreateContainer 3\n% Time date\n% Alias string\n% Type string\n% Container string\n% Name "
    "string\n%EndEventDef\n"
    "%EventDef PajeDestroyContainer 4\n% Time date\n% Type string\n% Name string\n%EndEventDef\n"
    "%EventDef PajeSetState 5\n% Time date\n% Type string\n% Container string\n% Value string\n% Step int\n% Node "
    "int\n% Layer string\n%EndEventDef\n";

/* Strings have no escapes in this format: a character that would end one is replaced. */
static void put_string(sl__writer *w, const char *text) {
  sl__put(w, "\"");
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = sl_utf8(s);
    if (*s == '"')
      sl__put(w, "'");
    else if (n && *s >= 0x20)
      sl__put(w, "%.*s", n, (const char *)s);
    else
      sl__put(w, "?");
    s += n ? n : 1;
  }
  sl__put(w, "\"");
}

/* State of a worker or lane from `time` on: an operation, a cause of idle time, or (lanes) nothing. */
typedef struct change {
  int64_t time;
  int rank;  /* index in the list of ranks */
  char what; /* 'W', 'L' lane, 'I' loader's thread */
  int number;
  const char *value, *layer;
  int64_t step;
  int node;
  size_t order; /* decides between changes at the same time */
} change;

static int by_time(const void *a, const void *b) {
  const change *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

static int by_start(const void *a, const void *b) {
  const sl_record *x = *(const sl_record *const *)a, *y = *(const sl_record *const *)b;
  return (x->start > y->start) - (x->start < y->start);
}

/* Exchanges may overlap, and so may reads of batches, but states of one container may not: each goes into the first
 * free row. `end` has room for n ends of rows; returns the number of rows. */
static int rows_of(const sl__trace_rank *rank, int kind, const sl_record **order, int64_t *end, int *row, size_t *n) {
  int rows = 0;
  *n = 0;
  for (size_t i = 0; i < rank->t->n_records; i++)
    if (rank->t->record[i].kind == kind && sl__trace_shows(rank, &rank->t->record[i]))
      order[(*n)++] = &rank->t->record[i];
  qsort(order, *n, sizeof *order, by_start);
  for (size_t i = 0; i < *n; i++) {
    int k = 0;
    while (k < rows && end[k] > order[i]->start) k++;
    end[k] = order[i]->end;
    row[i] = k;
    if (k == rows) rows++;
  }
  return rows;
}

static const char *value_of(const sl_timeline *t, const sl_record *r) {
  const sl_timeline_node *node = sl__trace_node(t, r);
  return node ? node->operation : sl__record_names[r->kind];
}

static const char *layer_of(const sl_timeline *t, const sl_record *r) {
  const sl_timeline_node *node = sl__trace_node(t, r);
  return node ? node->layer : "";
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* One colour per value, the same in every trace: greys for causes, for operations a hue from a hash of the name. */
static void put_value(sl__writer *w, const char *value) {
  for (int c = 0; c < SL_IDLE_CAUSES; c++)
    if (strcmp(value, sl_idle_cause_name((sl_idle_cause)c)) == 0) {
      const double grey = 0.5 + 0.08 * c;
      sl__put(w, "%d ", VALUE), put_string(w, value), sl__put(w, " S "), put_string(w, value);
      sl__put(w, " \"%.2f %.2f %.2f\"\n", grey, grey, grey);
      return;
    }
  const uint32_t hash = sl_hash32_text(value);
  sl__put(w, "%d ", VALUE), put_string(w, value), sl__put(w, " S "), put_string(w, value);
  sl__put(w, " \"%.2f %.2f %.2f\"\n", 0.2 + 0.7 * (hash & 255) / 255, 0.2 + 0.7 * (hash >> 8 & 255) / 255,
          0.2 + 0.7 * (hash >> 16 & 255) / 255);
}

static void put_values(sl__writer *w, const change *changes, size_t n) {
  const char **value = malloc((n + 1) * sizeof *value);
  if (!value) {
    w->status = sl_no_memory("for a trace of %zu states", n);
    return;
  }
  for (size_t i = 0; i < n; i++) value[i] = changes[i].value;
  qsort(value, n, sizeof *value, by_text);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || strcmp(value[i], value[i - 1]) != 0) put_value(w, value[i]);
  free(value);
}

static double seconds(int64_t ns, int64_t origin) { return 1e-9 * (double)(ns - origin); }

static void put_rank(sl__writer *w, const sl__trace_rank *rank, const int rows[SL_RECORD_KINDS], int64_t origin,
                     int64_t end, int create) {
  const sl_timeline *t = rank->t;
  static const struct {
    int kind;
    char letter;
    const char *name;
  } rest[] = {{SL_RECORD_EXCHANGE, 'L', "exchanges"}, {SL_RECORD_INPUT, 'I', "loader"}};
  const double at = create ? 0 : seconds(end, origin);
  if (create) sl__put(w, "%d %.9f r%d R p \"rank %d\"\n", CREATE, at, t->rank, t->rank);
  for (int i = 0; i < t->n_workers; i++)
    if (create) {
      sl__put(w, "%d %.9f r%dW%d W r%d ", CREATE, at, t->rank, i, t->rank);
      put_string(w, t->worker[i].name), sl__put(w, "\n");
    } else {
      sl__put(w, "%d %.9f W r%dW%d\n", DESTROY, at, t->rank, i);
    }
  for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
    for (int i = 0; i < rows[rest[k].kind]; i++)
      if (create)
        sl__put(w, "%d %.9f r%d%c%d W r%d \"%s %d\"\n", CREATE, at, t->rank, rest[k].letter, i, t->rank, rest[k].name,
                i);
      else
        sl__put(w, "%d %.9f W r%d%c%d\n", DESTROY, at, t->rank, rest[k].letter, i);
  if (!create) sl__put(w, "%d %.9f R r%d\n", DESTROY, at, t->rank);
}

/* Collects the changes of one rank; *rows: the number of rows of each kind. */
static size_t collect(const sl__trace_rank *rank, int place, change *to, const sl_record **order, int64_t *end,
                      int *row, int rows[SL_RECORD_KINDS]) {
  const sl_timeline *t = rank->t;
  size_t n = 0;
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->kind == SL_RECORD_TASK && sl__trace_shows(rank, r))
      to[n++] = (change){r->start, place, 'W', r->worker, value_of(t, r), layer_of(t, r), r->step, r->node, 0};
  }
  for (size_t i = 0; i < rank->n_idle; i++) {
    const sl_idle *idle = &rank->idle[i];
    to[n++] =
        (change){idle->from, place, 'W', idle->worker, sl_idle_cause_name(idle->cause), "", idle->step, idle->node, 0};
  }
  for (int i = 0; i < t->n_workers; i++) to[n++] = (change){rank->to, place, 'W', i, "none", "", -1, -1, 0};
  for (int kind = SL_RECORD_EXCHANGE; kind < SL_RECORD_KINDS; kind++) {
    size_t m;
    const char letter = kind == SL_RECORD_EXCHANGE ? 'L' : 'I';
    rows[kind] = rows_of(rank, kind, order, end, row, &m);
    for (size_t i = 0; i < m; i++) {
      const sl_record *r = order[i];
      to[n++] = (change){r->start, place, letter, row[i], value_of(t, r), layer_of(t, r), r->step, r->node, 0};
      to[n++] = (change){r->end, place, letter, row[i], "none", "", r->step, -1, 0};
    }
  }
  return n;
}

void sl__trace_paje(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin) {
  size_t most = 1, longest = 1, n_changes = 0;
  int64_t end = origin;
  for (int k = 0; k < n; k++) {
    most += 2 * rank[k].t->n_records + rank[k].n_idle + (size_t)rank[k].t->n_workers;
    if (rank[k].t->n_records > longest) longest = rank[k].t->n_records;
    for (size_t i = 0; i < rank[k].t->n_records; i++)
      if (rank[k].t->record[i].end > end) end = rank[k].t->record[i].end;
  }
  change *changes = malloc(most * sizeof *changes);
  const sl_record **order = malloc(longest * sizeof *order);
  int64_t *ends = malloc(longest * sizeof *ends);
  int *row = malloc(longest * sizeof *row), (*rows)[SL_RECORD_KINDS] = calloc((size_t)n + 1, sizeof *rows);
  if (!changes || !order || !ends || !row || !rows) {
    w->status = sl_no_memory("for a trace of %zu states", most);
    goto out;
  }
  for (int k = 0; k < n; k++) n_changes += collect(&rank[k], k, changes + n_changes, order, ends, row, rows[k]);
  for (size_t i = 0; i < n_changes; i++) changes[i].order = i;
  qsort(changes, n_changes, sizeof *changes, by_time);
  sl__put_bytes(w, definitions, sizeof definitions - 1);
  sl__put(w, "%d P 0 \"Run\"\n%d R P \"Rank\"\n%d W R \"Worker\"\n%d S W \"State\"\n", CONTAINER_TYPE, CONTAINER_TYPE,
          CONTAINER_TYPE, STATE_TYPE);
  put_values(w, changes, n_changes);
  sl__put(w, "%d %.9f p P 0 \"run\"\n", CREATE, 0.0);
  for (int k = 0; k < n; k++) put_rank(w, &rank[k], rows[k], origin, end, 1);
  for (size_t i = 0; i < n_changes; i++) {
    const change *c = &changes[i];
    sl__put(w, "%d %.9f S r%d%c%d ", STATE, seconds(c->time, origin), rank[c->rank].t->rank, c->what, c->number);
    put_string(w, c->value);
    sl__put(w, " %" PRId64 " %d ", c->step, c->node);
    put_string(w, c->layer);
    sl__put(w, "\n");
  }
  for (int k = 0; k < n; k++) put_rank(w, &rank[k], rows[k], origin, end, 0);
  sl__put(w, "%d %.9f P p\n", DESTROY, seconds(end, origin));
out:
  free(changes), free(order), free(ends), free(row), free(rows);
}
