/* Timelines as comma-separated values: one line per record and per idle interval. */
#include <inttypes.h>
#include <string.h>

#include "runtime/trace/parts.h"

/* Writes the text in quotes, with quotes doubled (RFC 4180). */
static void put_text(sl__writer *w, const char *text) {
  sl__put(w, "\"");
  for (const char *at = text; *at;) {
    const size_t n = strcspn(at, "\"");
    sl__put_bytes(w, at, n);
    at += n;
    if (*at) sl__put(w, "\"\""), at++;
  }
  sl__put(w, "\"");
}

void sl__trace_csv(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin) {
  sl__put(w,
          "rank,what,cause,worker,step,node,layer,operation,phase,shard,leaf,flops,bytes,submit_ns,ready_ns,taken_ns,"
          "start_ns,end_ns\n");
  for (int k = 0; k < n; k++) {
    const sl_timeline *t = rank[k].t;
    for (size_t i = 0; i < t->n_records; i++) {
      const sl_record *r = &t->record[i];
      const sl_timeline_node *node = sl__trace_node(t, r);
      if (!sl__trace_shows(&rank[k], r)) continue;
      sl__put(w, "%d,%s,,%d,%" PRId64 ",%d,", t->rank, sl__record_names[r->kind], r->worker, r->step, r->node);
      if (node) {
        put_text(w, node->layer), sl__put(w, ",");
        put_text(w, node->operation), sl__put(w, ",");
        put_text(w, node->phase);
        sl__put(w, ",%d,%d,%.17g,%.17g", node->shard, node->leaf, node->flops, node->bytes);
      } else {
        sl__put(w, ",,,,,,");
      }
      sl__put(w, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", r->submit - origin,
              r->ready - origin, r->taken - origin, r->start - origin, r->end - origin);
    }
    for (size_t i = 0; i < rank[k].n_idle; i++) {
      const sl_idle *idle = &rank[k].idle[i];
      sl__put(w, "%d,idle,%s,%d,%" PRId64 ",%d,,,,,,,,,,,%" PRId64 ",%" PRId64 "\n", t->rank,
              sl_idle_cause_name(idle->cause), idle->worker, idle->step, idle->node, idle->from - origin,
              idle->to - origin);
    }
  }
}
