/* Timelines as Chrome trace JSON. The text is written directly, not as a tree of JSON values, since a trace has
 * hundreds of thousands of events. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/text.h"
#include "runtime/trace/parts.h"

/* Writes a JSON string; replaces bytes that are not UTF-8 by '?', so that any text gives a valid file. */
static void put_string(sl__writer *w, const char *text) {
  sl__put(w, "\"");
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = sl_utf8(s);
    if (*s == '"' || *s == '\\')
      sl__put(w, "\\%c", *s);
    else if (*s < 0x20)
      sl__put(w, "\\u%04x", *s);
    else if (n)
      sl__put(w, "%.*s", n, (const char *)s);
    else
      sl__put(w, "?");
    s += n ? n : 1;
  }
  sl__put(w, "\"");
}

/* Microseconds with three decimals, as the format asks, computed from integers so that nothing is rounded. */
static void put_time(sl__writer *w, const char *key, int64_t ns) {
  sl__put(w, ",\"%s\":%s%" PRId64 ".%03d", key, ns < 0 ? "-" : "", (ns < 0 ? -ns : ns) / 1000,
          (int)((ns < 0 ? -ns : ns) % 1000));
}

/* The trace's thread number: workers first, then loader threads, lanes, and links between memories. */
static int track(const sl_record *r) {
  return r->worker + (r->kind == SL_RECORD_INPUT ? 1000000 : r->kind == SL_RECORD_EXCHANGE ? 2000000 : 0);
}

static void put_name(sl__writer *w, const sl_timeline *t, const sl_record *r) {
  const sl_timeline_node *node = sl__trace_node(t, r);
  char name[256];
  if (node)
    snprintf(name, sizeof name, "%s %s", node->layer, node->operation);
  else
    snprintf(name, sizeof name, "%s %d", sl__record_names[r->kind], r->node);
  sl__put(w, "\"name\":");
  put_string(w, name);
  sl__put(w, ",\"cat\":");
  put_string(w, node && r->kind == SL_RECORD_TASK ? node->phase : sl__record_names[r->kind]);
}

static void put_args(sl__writer *w, const sl_timeline *t, const sl_record *r) {
  const sl_timeline_node *node = sl__trace_node(t, r);
  sl__put(w, ",\"args\":{\"step\":%" PRId64 ",\"node\":%d,\"blocked_us\":%.3f,\"queued_us\":%.3f,\"data_us\":%.3f",
          r->step, r->node, 1e-3 * (double)(r->ready - r->submit), 1e-3 * (double)(r->taken - r->ready),
          1e-3 * (double)(r->start - r->taken));
  if (node) {
    sl__put(w, ",\"shard\":%d,\"leaf\":%d,\"priority\":%d,\"GFLOP\":%g,\"MB\":%g,\"shapes\":", node->shard, node->leaf,
            node->priority, 1e-9 * node->flops, 1e-6 * node->bytes);
    put_string(w, node->shapes);
  }
  sl__put(w, "}");
}

static void put_record(sl__writer *w, const sl_timeline *t, const sl_record *r, size_t id, int64_t origin) {
  const int async = r->kind == SL_RECORD_EXCHANGE; /* exchanges overlap, which complete events of one thread may not */
  sl__put(w, ",\n{\"ph\":\"%s\",", async ? "b" : "X");
  put_name(w, t, r);
  if (async) sl__put(w, ",\"id\":\"%d.%zu\"", t->rank, id);
  sl__put(w, ",\"pid\":%d,\"tid\":%d", t->rank, track(r));
  put_time(w, "ts", r->start - origin);
  if (!async) put_time(w, "dur", r->end - r->start);
  put_args(w, t, r);
  sl__put(w, "}");
  if (!async) return;
  sl__put(w, ",\n{\"ph\":\"e\",");
  put_name(w, t, r);
  sl__put(w, ",\"id\":\"%d.%zu\",\"pid\":%d,\"tid\":%d", t->rank, id, t->rank, track(r));
  put_time(w, "ts", r->end - origin);
  sl__put(w, "}");
}

static void put_track(sl__writer *w, int rank, int number, const char *name) {
  sl__put(w, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", rank, number);
  put_string(w, name);
  sl__put(w, "}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
          rank, number, number);
}

/* Names all workers, and the lanes and loader threads that occur. */
static void put_tracks(sl__writer *w, const sl_timeline *t) {
  for (int i = 0; i < t->n_workers; i++) put_track(w, t->rank, i, t->worker[i].name);
  for (int kind = SL_RECORD_EXCHANGE; kind < SL_RECORD_KINDS; kind++)
    for (int number = 0, more = 1; more; number++) {
      sl_record r = {.kind = (int16_t)kind, .worker = (int16_t)number};
      int there = 0;
      more = 0;
      for (size_t i = 0; i < t->n_records; i++)
        if (t->record[i].kind == kind) {
          there |= t->record[i].worker == number;
          more |= t->record[i].worker > number;
        }
      char name[32];
      snprintf(name, sizeof name, "%s %d", kind == SL_RECORD_EXCHANGE ? "lane" : "loader", number);
      if (there) put_track(w, t->rank, track(&r), name);
    }
}

static int link_track(const sl_timeline_transfer *x) { return 3000000 + x->from * SL_TIMELINE_MEMORIES + x->to; }

/* Transfers overlap, like exchanges. */
static void put_transfers(sl__writer *w, const sl__trace_rank *rank, int64_t origin) {
  const sl_timeline *t = rank->t;
  unsigned char named[SL_TIMELINE_MEMORIES][SL_TIMELINE_MEMORIES] = {{0}};
  for (int i = 0; i < t->n_transfers; i++) {
    const sl_timeline_transfer *x = &t->transfer[i];
    if (x->step < rank->first) continue;
    char name[64];
    snprintf(name, sizeof name, "copies, memory %d to %d", x->from, x->to);
    if (!named[x->from][x->to]) put_track(w, t->rank, link_track(x), name);
    named[x->from][x->to] = 1;
    for (int end = 0; end < 2; end++) {
      sl__put(w, ",\n{\"ph\":\"%s\",\"name\":\"copy\",\"cat\":\"copy\",\"id\":\"%d.c%d\",\"pid\":%d,\"tid\":%d",
              end ? "e" : "b", t->rank, i, t->rank, link_track(x));
      put_time(w, "ts", (end ? x->end : x->start) - origin);
      sl__put(w, ",\"args\":{\"step\":%" PRId64 ",\"bytes\":%" PRId64, x->step, x->bytes);
      if (x->node >= 0) {
        sl__put(w, ",\"for\":");
        put_string(w, t->node[x->node].operation);
        sl__put(w, ",\"layer\":");
        put_string(w, t->node[x->node].layer);
      }
      sl__put(w, "}}");
    }
  }
}

void sl__trace_chrome(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin) {
  sl__put(w, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  for (int k = 0; k < n; k++) {
    const sl_timeline *t = rank[k].t;
    sl__put(w, "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d\"}}",
            k ? "," : "", t->rank, t->rank);
    put_tracks(w, t);
    for (size_t i = 0; i < t->n_records; i++)
      if (sl__trace_shows(&rank[k], &t->record[i])) put_record(w, t, &t->record[i], i, origin);
    put_transfers(w, &rank[k], origin);
    for (size_t i = 0; i < rank[k].n_idle; i++) {
      const sl_idle *idle = &rank[k].idle[i];
      sl__put(w, ",\n{\"ph\":\"X\",\"name\":\"(%s)\",\"cat\":\"idle\",\"cname\":\"grey\",\"pid\":%d,\"tid\":%d",
              sl_idle_cause_name(idle->cause), t->rank, idle->worker);
      put_time(w, "ts", idle->from - origin);
      put_time(w, "dur", idle->to - idle->from);
      sl__put(w, ",\"args\":{\"step\":%" PRId64 ",\"node\":%d}}", idle->step, idle->node);
    }
  }
  sl__put(w, "\n]}\n");
}
