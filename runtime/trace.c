/* Task records as Chrome trace JSON. A file of its own, since the recorder knows no formats. Written straight, not
 * through a tree of JSON values: a trace has hundreds of thousands of them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/file.h"
#include "runtime/recorder.h"

typedef struct writer {
  sl_file *file;
  sl_status status; /* of the first failure; nothing is written after it */
  size_t used;
  char buffer[1 << 16];
} writer;

static void flush(writer *w) {
  if (w->status == SL_OK && w->used) w->status = sl_file_write(w->file, w->buffer, w->used);
  w->used = 0;
}

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) { /* pieces are far shorter than the buffer */
  if (sizeof w->buffer - w->used < 1024) flush(w);
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(w->buffer + w->used, sizeof w->buffer - w->used, format, args);
  va_end(args);
  if (n > 0) w->used += (size_t)n;
}

/* The bytes of the UTF-8 character at s; 0 when it is not one (RFC 3629), so that any text makes a readable file. */
static int utf8(const unsigned char *s) {
  const int n = s[0] < 0x80                   ? 1
                : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                              : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
      (s[0] == 0xF4 && s[1] > 0x8F))
    return 0;
  return n;
}

static void put_string(writer *w, const char *text) {
  put(w, "\"");
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = utf8(s);
    if (*s == '"' || *s == '\\')
      put(w, "\\%c", *s);
    else if (*s < 0x20)
      put(w, "\\u%04x", *s);
    else if (n)
      put(w, "%.*s", n, (const char *)s);
    else
      put(w, "?");
    s += n ? n : 1;
  }
  put(w, "\"");
}

/* Microseconds with three places, as the format wants, without a double's rounding. */
static void put_time(writer *w, const char *key, int64_t ns) {
  put(w, ",\"%s\":%s%" PRId64 ".%03d", key, ns < 0 ? "-" : "", (ns < 0 ? -ns : ns) / 1000,
      (int)((ns < 0 ? -ns : ns) % 1000));
}

/* The trace's thread number: workers first, then loader threads, then lanes. */
static int track(const sl_record *r) {
  return r->worker + (r->kind == SL_RECORD_INPUT ? 1000 : r->kind == SL_RECORD_EXCHANGE ? 2000 : 0);
}

static const char *const kind_names[SL_RECORD_KINDS] = {"task", "exchange", "input"};
static const char *const track_names[SL_RECORD_KINDS] = {"worker", "lane", "loader"};

static int known_kind(const sl_record *r) {
  return r->kind >= 0 && r->kind < SL_RECORD_KINDS ? r->kind : SL_RECORD_TASK;
}

static void put_label(writer *w, const sl_record *r, const sl_trace_names *names, sl_trace_label *label) {
  memset(label, 0, sizeof *label);
  snprintf(label->category, sizeof label->category, "%s", kind_names[known_kind(r)]);
  snprintf(label->name, sizeof label->name, "%s %d", kind_names[known_kind(r)], r->node);
  if (names && names->label) {
    memset(label, 0, sizeof *label);
    names->label(names->arg, r, label);
  }
  put(w, "\"name\":");
  put_string(w, label->name);
  put(w, ",\"cat\":");
  put_string(w, label->category);
}

static void put_args(writer *w, const sl_record *r, const sl_trace_label *label) {
  put(w, ",\"args\":{\"step\":%" PRId64 ",\"node\":%d,\"queued_us\":%.3f,\"blocked_us\":%.3f", r->step, r->node,
      1e-3 * (double)(r->start - r->ready), 1e-3 * (double)(r->ready - r->submit));
  for (int i = 0; i < label->nargs && i < SL_TRACE_ARGS; i++) {
    put(w, ",");
    put_string(w, label->arg[i].key);
    put(w, ":");
    if (label->arg[i].number)
      put(w, "%s", label->arg[i].value);
    else
      put_string(w, label->arg[i].value);
  }
  put(w, "}");
}

static int by_track(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* One metadata event for each track that occurs. */
static sl_status put_tracks(writer *w, const sl_record *records, size_t n, int rank, const sl_trace_names *names) {
  if (n == 0) return SL_OK;
  int(*seen)[3] = malloc(n * sizeof *seen); /* track, kind, worker */
  if (!seen) return sl_fail(SL_ENOMEM, "no memory for the tracks of a trace");
  for (size_t i = 0; i < n; i++)
    seen[i][0] = track(&records[i]), seen[i][1] = known_kind(&records[i]), seen[i][2] = records[i].worker;
  qsort(seen, n, sizeof *seen, by_track);
  for (size_t i = 0; i < n; i++) {
    if (i && seen[i][0] == seen[i - 1][0]) continue;
    char name[128];
    snprintf(name, sizeof name, "%s %d", track_names[seen[i][1]], seen[i][2]);
    if (names && names->worker) names->worker(names->arg, seen[i][1], seen[i][2], name, sizeof name);
    put(w, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", rank, seen[i][0]);
    put_string(w, name);
    put(w, "}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
        rank, seen[i][0], seen[i][0]);
  }
  free(seen);
  return SL_OK;
}

sl_status sl_trace_write(const char *path, const sl_record *records, size_t n, int rank, const sl_trace_names *names) {
  writer *w = malloc(sizeof *w);
  if (!w) return sl_fail(SL_ENOMEM, "no memory for writing %s", path);
  w->used = 0;
  w->file = NULL;
  w->status = sl_file_create(path, &w->file);
  if (w->status != SL_OK) goto out;

  put(w,
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
      "\"args\":{\"name\":\"rank %d\"}}",
      rank, rank);
  if (w->status == SL_OK) w->status = put_tracks(w, records, n, rank, names);
  int64_t origin = n ? records[0].start : 0;
  for (size_t i = 0; i < n; i++)
    if (records[i].start < origin) origin = records[i].start;
  for (size_t i = 0; i < n && w->status == SL_OK; i++) {
    const sl_record *r = &records[i];
    const int async = r->kind == SL_RECORD_EXCHANGE; /* they overlap, which complete events of one thread may not */
    sl_trace_label label;
    put(w, ",\n{\"ph\":\"%s\",", async ? "b" : "X");
    put_label(w, r, names, &label);
    if (async) put(w, ",\"id\":%zu", i);
    put(w, ",\"pid\":%d,\"tid\":%d", rank, track(r));
    put_time(w, "ts", r->start - origin);
    if (!async) put_time(w, "dur", r->end - r->start);
    put_args(w, r, &label);
    put(w, "}");
    if (!async) continue;
    put(w, ",\n{\"ph\":\"e\",\"name\":");
    put_string(w, label.name);
    put(w, ",\"cat\":");
    put_string(w, label.category);
    put(w, ",\"id\":%zu,\"pid\":%d,\"tid\":%d", i, rank, track(r));
    put_time(w, "ts", r->end - origin);
    put(w, "}");
  }
  put(w, "\n]}\n");
  flush(w);
  if (w->status == SL_OK) {
    w->status = sl_file_commit(w->file);
    w->file = NULL;
  }
out:;
  const sl_status status = w->status;
  if (w->file) sl_file_discard(w->file);
  free(w);
  return status;
}

sl_status sl_recorder_export(const sl_recorder *recorder, const char *path, int rank, const sl_trace_names *names) {
  sl_record *records;
  size_t n;
  SL_TRY(sl_recorder_snapshot(recorder, &records, &n));
  const sl_status status = sl_trace_write(path, records, n, rank, names);
  free(records);
  return status;
}
