/* Why a plan beats another, in words: first the ratio of the steps, then what differs between the plans, then where the
 * time went. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/plan/parts.h"
#include "tools/settings/workers.h"

static const char *const who[] = {"only GPUs compute", "CPUs compute too", "only CPUs compute"};

static const char *recomputed(const sl__candidate *c) {
  return c->v[SL__RECOMPUTE] ? sl_recompute_names[c->v[SL__RECOMPUTE]] : "nothing";
}

/* Up to two settings of a that b lacks, the most important first. */
static void differences(const sl__planning *s, const sl__candidate *a, const sl__candidate *b, char *text, size_t n) {
  static const struct {
    sl__axis axis;
    const char *format; /* of both values */
  } rows[] = {
      {SL__PIPE, "stages: %lld, not %lld"},
      {SL__CHUNKS, "chunks of layers a stage: %lld, not %lld"},
      {SL__PARTS, "messages a shard: %lld, not %lld"},
      {SL__TENSOR, "ranks that divide products: %lld, not %lld"},
      {SL__LOCAL, "%lld ranks a node, not %lld"},
      {SL__MICRO, "%lld micro-batches, not %lld"},
      {SL__GROUPS, "%lld leaves a rank, not %lld"},
      {SL__EACH, "%lld shards a leaf, not %lld"},
      {SL__BLOCKS, "%lld row blocks, not %lld"},
      {SL__BATCH, "a batch of %lld, not %lld"},
      {SL__ZERO, "ZeRO %lld, not %lld"},
  };
  int used = 0, found = 0;
  *text = 0;
  if (s->machine.gpu.count > 0 && !s->o->workers && a->v[SL__WORKERS] != b->v[SL__WORKERS])
    used += snprintf(text, n, "%s", who[a->v[SL__WORKERS]]), found++;
  if (a->v[SL__RECOMPUTE] != b->v[SL__RECOMPUTE] && used < (int)n)
    used += snprintf(text + used, n - (size_t)used, "%srecomputes %s, not %s", found++ ? ", " : "", recomputed(a),
                     recomputed(b));
  if (a->v[SL__ORDER] != b->v[SL__ORDER] && a->v[SL__PIPE] > 1 && b->v[SL__PIPE] > 1 && used < (int)n)
    used += snprintf(text + used, n - (size_t)used, "%s%s, not %s", found++ ? ", " : "",
                     sl__pipe_orders[a->v[SL__ORDER]], sl__pipe_orders[b->v[SL__ORDER]]);
  for (size_t i = 0; i < sizeof rows / sizeof *rows && found < 2; i++) {
    const long long x = (long long)a->v[rows[i].axis], y = (long long)b->v[rows[i].axis];
    char one[64];
    if (x == y || used >= (int)n) continue;
    snprintf(one, sizeof one, rows[i].format, x, y);
    used += snprintf(text + used, n - (size_t)used, "%s%s", found++ ? ", " : "", one);
  }
  const char *p = a->sched ? a->sched : "the default policy", *q = b->sched ? b->sched : "the default policy";
  if (found < 2 && strcmp(p, q) != 0 && used < (int)n)
    snprintf(text + used, n - (size_t)used, "%s%s, not %s", found ? ", " : "", p, q);
}

static double real(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

/* The part of a sample's time in which a saves most over b: kernels, or idle time by one cause. */
static void saving(const sl__candidate *a, const sl__candidate *b, char *text, size_t n) {
  const json_t *ia = json_object_get(a->simulated, "idle_percent"), *value;
  const double sa = sl__seconds(a) / (double)a->v[SL__BATCH], sb = sl__seconds(b) / (double)b->v[SL__BATCH];
  double best = 0.01 * sb;
  const char *key;
  *text = 0;
  if (!a->simulated || !b->simulated) {
    const double busy = 100 * (a->p.busy - b->p.busy);
    if (a->p.tasks < b->p.tasks)
      snprintf(text, n, "%d tasks in place of %d", a->p.tasks, b->p.tasks);
    else if (busy > 1)
      snprintf(text, n, "workers are in kernels for %.0f%% of the step, not %.0f%%", 100 * a->p.busy, 100 * b->p.busy);
    return;
  }
  const double kernels = (real(b->simulated, "kernel_percent") * sb - real(a->simulated, "kernel_percent") * sa) / 100;
  if (kernels > best)
    best = kernels, snprintf(text, n, "workers spend %.3g ms less of a sample in kernels", 1e3 * best);
  json_object_foreach((json_t *)ia, key, value) {
    const double less =
        (real(json_object_get(b->simulated, "idle_percent"), key) * sb - json_number_value(value) * sa) / 100;
    if (less > best)
      best = less, snprintf(text, n, "workers are idle for %.3g ms less of a sample (cause: %s)", 1e3 * best, key);
  }
}

char *sl__reason(const sl__planning *s, const sl__candidate *a, const sl__candidate *b, const char *name, char *text,
                 size_t n) {
  char differs[192], saves[160];
  const double ratio = sl__seconds(b) / (double)b->v[SL__BATCH] / (sl__seconds(a) / (double)a->v[SL__BATCH]);
  differences(s, a, b, differs, sizeof differs);
  saving(a, b, saves, sizeof saves);
  const char *between = *saves ? "; " : "";
  if (ratio > 1.002)
    snprintf(text, n,
             ratio < 1.01 ? "%.3f times as many samples/s as %s: %s%s%s" : "%.2f times as many samples/s as %s: %s%s%s",
             ratio, name, differs, between, saves);
  else if (ratio >= 0.998 || a->v[SL__BATCH] == b->v[SL__BATCH])
    snprintf(text, n, "as fast as %s within 0.2%%: %s", name, differs);
  else
    snprintf(text, n, "%.2f times as many samples/s as %s, and a batch of %lld, not %lld, which learns more from each",
             ratio, name, (long long)a->v[SL__BATCH], (long long)b->v[SL__BATCH]);
  return text;
}
