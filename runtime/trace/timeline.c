/* Making, writing and reading timelines. Columns of numbers are arrays of a safetensors file, so that any tool that
 * reads safetensors can read them; names and single values are a JSON text in its header. */
#include "runtime/trace/timeline.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/files/safetensors.h"

static const char FORMAT[] = "starling-timeline-1", PREFIX[] = "timeline-", SUFFIX[] = ".safetensors";
enum { MOST_RANKS = 1 << 20 };

sl_status sl_timeline_create(int n_workers, int n_nodes, int n_dependencies, sl_timeline **timeline) {
  *timeline = NULL;
  sl_timeline *t = calloc(1, sizeof *t);
  if (t) {
    t->n_workers = n_workers;
    t->n_nodes = n_nodes;
    t->ranks = 1;
    t->model = t->sched = "";
    t->worker = calloc((size_t)n_workers + 1, sizeof *t->worker);
    t->node = calloc((size_t)n_nodes + 1, sizeof *t->node);
    t->from = calloc((size_t)n_nodes + 1, sizeof *t->from);
    t->before = calloc((size_t)n_dependencies + 1, sizeof *t->before);
  }
  if (!t || !t->worker || !t->node || !t->from || !t->before) {
    sl_timeline_destroy(t);
    return sl_no_memory("for the timeline of %d tasks", n_nodes);
  }
  for (int w = 0; w < n_workers; w++) t->worker[w].name = "";
  for (int i = 0; i < n_nodes; i++) t->node[i].layer = t->node[i].operation = t->node[i].phase = t->node[i].shapes = "";
  *timeline = t;
  return SL_OK;
}

void sl_timeline_destroy(sl_timeline *t) {
  if (!t) return;
  for (int i = 0; i < t->n_texts; i++) free(t->text[i]);
  free(t->text), free(t->worker), free(t->node), free(t->from), free(t->before), free(t->record);
  free(t->buffer), free(t->use), free(t->transfer), free(t->flow);
  free(t);
}

sl_status sl_timeline_reserve_buffers(sl_timeline *t, int n_buffers, int n_uses) {
  free(t->buffer), free(t->use);
  t->n_buffers = t->n_uses = 0;
  t->buffer = calloc((size_t)n_buffers + 1, sizeof *t->buffer);
  t->use = calloc((size_t)n_uses + 1, sizeof *t->use);
  if (!t->buffer || !t->use) return sl_no_memory("for the %d buffers of a timeline", n_buffers);
  t->n_buffers = n_buffers, t->n_uses = n_uses;
  return SL_OK;
}

sl_status sl_timeline_reserve_transfers(sl_timeline *t, int n) {
  free(t->transfer);
  t->n_transfers = 0;
  t->transfer = calloc((size_t)n + 1, sizeof *t->transfer);
  if (!t->transfer) return sl_no_memory("for the %d transfers of a timeline", n);
  t->n_transfers = n;
  for (int i = 0; i < n; i++) t->transfer[i].node = -1;
  return SL_OK;
}

sl_status sl_timeline_reserve_flows(sl_timeline *t, int n) {
  free(t->flow);
  t->n_flows = 0;
  t->flow = calloc((size_t)n + 1, sizeof *t->flow);
  if (!t->flow) return sl_no_memory("for the %d flows of a timeline", n);
  t->n_flows = n;
  return SL_OK;
}

const char *sl_timeline_text(sl_timeline *t, const char *text) {
  for (int i = t->n_texts - 1; i >= 0; i--) /* neighbours often have equal texts, so look at the last ones first */
    if (strcmp(t->text[i], text) == 0) return t->text[i];
  if ((t->n_texts & (t->n_texts - 1)) == 0) { /* grows when the count is a power of two */
    char **more = realloc(t->text, (t->n_texts ? 2 * (size_t)t->n_texts : 1) * sizeof *more);
    if (!more) return NULL;
    t->text = more;
  }
  char *copy = strdup(text);
  if (copy) t->text[t->n_texts++] = copy;
  return copy;
}

sl_status sl_timeline_take(sl_timeline *t, const sl_recorder *recorder) {
  free(t->record);
  t->record = NULL;
  SL_TRY(sl_recorder_snapshot(recorder, &t->record, &t->n_records));
  t->lost = sl_recorder_lost(recorder);
  return SL_OK;
}

char *sl_timeline_name(int rank, char name[SL_TIMELINE_NAME]) {
  snprintf(name, SL_TIMELINE_NAME, "%s%d%s", PREFIX, rank, SUFFIX);
  return name;
}

/* The rank in a file's name; -1: not the name of a timeline. */
static int rank_of(const char *name) {
  const size_t prefix = strlen(PREFIX);
  char *end, again[SL_TIMELINE_NAME];
  if (strncmp(name, PREFIX, prefix) != 0 || !isdigit((unsigned char)name[prefix])) return -1;
  const long rank = strtol(name + prefix, &end, 10);
  if (rank >= MOST_RANKS || strcmp(sl_timeline_name((int)rank, again), name) != 0) return -1;
  return (int)rank;
}

int sl_timeline_is_name(const char *name) { return rank_of(name) >= 0; }

/* --- columns -------------------------------------------------------------------------------------------------------
 */

/* A column's numbers in memory: one every `stride` bytes, from base on. Texts are stored as indices into the list of
 * texts. */
typedef enum { LONG, INT, SHORT, REAL, TEXT } column_kind;
typedef struct column {
  const char *name;
  column_kind kind;
  char *base;
  size_t stride, n;
} column;

enum { COLUMNS = 48 };
#define COLUMN(name, kind, array, field, n) \
  (column) { name, kind, (array) ? (char *)&(array)->field : NULL, sizeof *(array), n }

static int columns_of(const sl_timeline *t, column c[COLUMNS]) {
  const size_t N = t->n_records, M = (size_t)t->n_nodes, W = (size_t)t->n_workers, D = (size_t)t->from[M];
  const size_t B = (size_t)t->n_buffers, U = (size_t)t->n_uses, T = (size_t)t->n_transfers, F = (size_t)t->n_flows;
  int n = 0;
  c[n++] = COLUMN("record.step", LONG, t->record, step, N);
  c[n++] = COLUMN("record.submit", LONG, t->record, submit, N);
  c[n++] = COLUMN("record.ready", LONG, t->record, ready, N);
  c[n++] = COLUMN("record.taken", LONG, t->record, taken, N);
  c[n++] = COLUMN("record.start", LONG, t->record, start, N);
  c[n++] = COLUMN("record.end", LONG, t->record, end, N);
  c[n++] = COLUMN("record.node", INT, t->record, node, N);
  c[n++] = COLUMN("record.worker", SHORT, t->record, worker, N);
  c[n++] = COLUMN("record.kind", SHORT, t->record, kind, N);
  c[n++] = COLUMN("node.layer", TEXT, t->node, layer, M);
  c[n++] = COLUMN("node.operation", TEXT, t->node, operation, M);
  c[n++] = COLUMN("node.phase", TEXT, t->node, phase, M);
  c[n++] = COLUMN("node.shapes", TEXT, t->node, shapes, M);
  c[n++] = COLUMN("node.kind", INT, t->node, kind, M);
  c[n++] = COLUMN("node.shard", INT, t->node, shard, M);
  c[n++] = COLUMN("node.leaf", INT, t->node, leaf, M);
  c[n++] = COLUMN("node.micro_batch", INT, t->node, micro_batch, M);
  c[n++] = COLUMN("node.priority", INT, t->node, priority, M);
  c[n++] = COLUMN("node.flops", REAL, t->node, flops, M);
  c[n++] = COLUMN("node.bytes", REAL, t->node, bytes, M);
  c[n++] = (column){"node.before_from", INT, (char *)t->from, sizeof *t->from, M + 1};
  c[n++] = (column){"node.before", INT, (char *)t->before, sizeof *t->before, D};
  c[n++] = COLUMN("worker.name", TEXT, t->worker, name, W);
  c[n++] = COLUMN("worker.gpu", INT, t->worker, gpu, W);
  c[n++] = COLUMN("worker.tasks", LONG, t->worker, tasks, W);
  c[n++] = COLUMN("worker.busy", LONG, t->worker, busy, W);
  c[n++] = COLUMN("buffer.bytes", LONG, t->buffer, bytes, B);
  c[n++] = COLUMN("buffer.slot", INT, t->buffer, slot, B);
  c[n++] = COLUMN("use.node", INT, t->use, node, U);
  c[n++] = COLUMN("use.buffer", INT, t->use, buffer, U);
  c[n++] = COLUMN("transfer.step", LONG, t->transfer, step, T);
  c[n++] = COLUMN("transfer.start", LONG, t->transfer, start, T);
  c[n++] = COLUMN("transfer.end", LONG, t->transfer, end, T);
  c[n++] = COLUMN("transfer.bytes", LONG, t->transfer, bytes, T);
  c[n++] = COLUMN("transfer.from", INT, t->transfer, from, T);
  c[n++] = COLUMN("transfer.to", INT, t->transfer, to, T);
  c[n++] = COLUMN("transfer.node", INT, t->transfer, node, T);
  c[n++] = COLUMN("flow.from", INT, t->flow, from, F);
  c[n++] = COLUMN("flow.to", INT, t->flow, to, F);
  c[n++] = COLUMN("flow.value", INT, t->flow, value, F);
  c[n++] = COLUMN("flow.bytes", LONG, t->flow, bytes, F);
  c[n++] = COLUMN("clock.local", LONG, t->clock, local, (size_t)t->n_clocks);
  c[n++] = COLUMN("clock.offset", LONG, t->clock, offset, (size_t)t->n_clocks);
  c[n++] = COLUMN("clock.error", LONG, t->clock, error, (size_t)t->n_clocks);
  return n;
}

static sl_dtype dtype_of(const column *c) { return c->kind == LONG ? SL_I64 : c->kind == REAL ? SL_F64 : SL_I32; }

static int place_of(const sl_timeline *t, const char *text) {
  for (int i = 0; i < t->n_texts; i++)
    if (t->text[i] == text) return i;
  return -1; /* still "": not replaced */
}

static void gather(const sl_timeline *t, const column *c, void *to) {
  int last = -1;
  for (size_t i = 0; i < c->n; i++) {
    const void *at = c->base + i * c->stride;
    if (c->kind == LONG || c->kind == REAL)
      memcpy((char *)to + 8 * i, at, 8);
    else if (c->kind == INT)
      memcpy((char *)to + 4 * i, at, 4);
    else if (c->kind == SHORT)
      ((int32_t *)to)[i] = *(const int16_t *)at;
    else if (last >= 0 && t->text[last] == *(const char *const *)at)
      ((int32_t *)to)[i] = last;
    else
      ((int32_t *)to)[i] = last = place_of(t, *(const char *const *)at);
  }
}

/* Returns 0 for an invalid number. */
static int scatter(const sl_timeline *t, const column *c, const void *from) {
  for (size_t i = 0; i < c->n; i++) {
    void *at = c->base + i * c->stride;
    if (c->kind == LONG || c->kind == REAL) {
      memcpy(at, (const char *)from + 8 * i, 8);
      continue;
    }
    const int32_t value = ((const int32_t *)from)[i];
    if (c->kind == INT)
      memcpy(at, &value, 4);
    else if (c->kind == SHORT && value >= INT16_MIN && value <= INT16_MAX)
      *(int16_t *)at = (int16_t)value;
    else if (c->kind == TEXT && value >= -1 && value < t->n_texts)
      *(const char **)at = value < 0 ? "" : t->text[value];
    else
      return 0;
  }
  return 1;
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */

sl_status sl_timeline_write(const char *path, const sl_timeline *t) {
  column c[COLUMNS];
  sl_named_array array[COLUMNS];
  const int n = columns_of(t, c);
  size_t total = 0;
  for (int i = 0; i < n; i++) total += 8 * c[i].n;
  char *values = malloc(total + 1), *text = NULL;
  json_t *texts = json_array(), *facts = NULL;
  sl_status status = SL_OK;
  for (int i = 0; texts && i < t->n_texts; i++)
    if (json_array_append_new(texts, json_string(t->text[i])) != 0) json_decref(texts), texts = NULL;
  if (texts)
    facts = json_pack("{s:i, s:i, s:s, s:s, s:i, s:I, s:o}", "rank", t->rank, "ranks", t->ranks, "model", t->model,
                      "sched", t->sched, "kinds", t->n_kinds, "lost", (json_int_t)t->lost, "texts", texts);
  if (facts && t->peak_gflops > 0 && t->peak_gigabytes > 0)
    json_object_set_new(facts, "peak",
                        json_pack("{s:f, s:f}", "gflops", t->peak_gflops, "gigabytes_per_s", t->peak_gigabytes));
  if (facts && t->pipe > 0)
    json_object_set_new(facts, "mesh",
                        json_pack("{s:i, s:i, s:i, s:i, s:i}", "pipe", t->pipe, "tensor", t->tensor, "micro_batches",
                                  t->micro_batches, "chunks", t->chunks, "pass_kinds", t->pass_kinds));
  if (facts && t->link > 0) json_object_set_new(facts, "link_bytes_per_s", json_real(t->link));
  if (facts) text = sl_json_text(facts, JSON_COMPACT);
  if (!values || !text) {
    status = sl_no_memory("for writing %s", path);
    goto out;
  }
  char *at = values;
  for (int i = 0; i < n; i++) {
    gather(t, &c[i], at);
    array[i] = (sl_named_array){c[i].name, dtype_of(&c[i]), SL_SHAPE((int64_t)c[i].n), at};
    at += 8 * c[i].n;
  }
  const char *const metadata[][2] = {{"format", FORMAT}, {"timeline", text}};
  status = sl_safetensors_write(path, array, n, metadata, 2);
out:
  free(values), free(text);
  json_decref(facts);
  return status;
}

static sl_status count_of(const sl_safetensors *st, const char *path, const char *name, int *count) {
  const int i = sl_safetensors_find(st, name);
  const sl_shape *shape = i < 0 ? NULL : &sl_safetensors_get(st, i)->shape;
  if (!shape || shape->ndim != 1 || shape->dim[0] > INT32_MAX)
    return sl_fail(SL_EFORMAT, "%s: no timeline: '%s' is missing or no list", path, name);
  *count = (int)shape->dim[0];
  return SL_OK;
}

static sl_status read_facts(const sl_safetensors *st, const char *path, sl_timeline *t) {
  const char *text = sl_safetensors_metadata(st, "timeline"), *model, *sched, *word;
  json_t *facts = NULL, *texts, *item;
  json_int_t lost;
  size_t i;
  int plain = 1;
  sl_status status = text ? sl_json_parse(text, strlen(text), 0, &facts, NULL) : SL_OK;
  if (status == SL_ENOMEM) return status;
  status = SL_OK;
  if (!facts ||
      json_unpack(facts, "{s:i, s:i, s:s, s:s, s:i, s:I, s:o, s?{s:F, s:F}, s?F, s?{s:i, s:i, s:i, s:i, s?i}}", "rank",
                  &t->rank, "ranks", &t->ranks, "model", &model, "sched", &sched, "kinds", &t->n_kinds, "lost", &lost,
                  "texts", &texts, "peak", "gflops", &t->peak_gflops, "gigabytes_per_s", &t->peak_gigabytes,
                  "link_bytes_per_s", &t->link, "mesh", "pipe", &t->pipe, "tensor", &t->tensor, "micro_batches",
                  &t->micro_batches, "chunks", &t->chunks, "pass_kinds", &t->pass_kinds) != 0) {
    status = sl_fail(SL_EFORMAT, "%s: the facts of the timeline cannot be read", path);
    goto out;
  }
  if (t->pipe && !t->pass_kinds) t->pass_kinds = 2; /* a file of an earlier version: all orders had two kinds then */
  t->lost = (uint64_t)lost;
  size_t room = 1; /* a power of two, as sl_timeline_text expects */
  while (room < json_array_size(texts)) room *= 2;
  t->text = calloc(room, sizeof *t->text);
  json_array_foreach(texts, i, item) {
    word = json_string_value(item);
    if (!t->text || !word || !(t->text[i] = strdup(word))) {
      status = sl_fail(word ? SL_ENOMEM : SL_EFORMAT, "%s: text %zu of the timeline cannot be read", path, i);
      goto out;
    }
    t->n_texts = (int)i + 1;
    if (!sl_text_is_plain(word)) plain = 0;
  }
  if (!plain || !sl_text_is_plain(model) || !sl_text_is_plain(sched)) {
    status = sl_fail(SL_EFORMAT, "%s: a text of the timeline has control characters", path);
    goto out;
  }
  t->model = sl_timeline_text(t, model), t->sched = sl_timeline_text(t, sched);
  if (!t->model || !t->sched) status = sl_no_memory("for %s", path);
out:
  json_decref(facts);
  return status;
}

static sl_status read_column(const sl_safetensors *st, const char *path, const sl_timeline *t, const column *c) {
  const int i = sl_safetensors_find(st, c->name);
  if (i < 0 && (c->n == 0 || strcmp(c->name, "transfer.node") == 0))
    return SL_OK; /* files of earlier versions lack buffers and flows, and those without GPUs have no transfers */
  const sl_named_array *a = i < 0 ? NULL : sl_safetensors_get(st, i);
  if (!a || a->dtype != dtype_of(c) || a->shape.ndim != 1 || a->shape.dim[0] != (int64_t)c->n)
    return sl_fail(SL_EFORMAT, "%s: '%s' is missing, or not %s [%zu]", path, c->name, sl_dtype_name(dtype_of(c)), c->n);
  if (c->n == 0) return SL_OK;
  void *values = malloc(8 * c->n);
  if (!values) return sl_no_memory("for reading %s", path);
  sl_status status = sl_safetensors_read(st, i, values);
  if (status == SL_OK && !scatter(t, c, values))
    status = sl_fail(SL_EFORMAT, "%s: '%s' holds a number that is out of range", path, c->name);
  free(values);
  return status;
}

/* Beyond any step, time and size that a run can have (2^59 ns are 18 years), and small enough that differences and sums
 * of a few of them fit, also after sl_timeline_align. */
static int in_range(int64_t value) { return value > -(INT64_C(1) << 59) && value < INT64_C(1) << 59; }

static int mesh_fits(const sl_timeline *t) {
  if (t->pipe == 0) return t->tensor == 0 && t->micro_batches == 0 && t->chunks == 0 && t->pass_kinds == 0;
  return t->pipe > 0 && t->tensor > 0 && t->micro_batches > 0 && t->chunks > 0 &&
         (t->pass_kinds == 2 || t->pass_kinds == 3) && t->ranks % t->pipe == 0 && t->ranks / t->pipe % t->tensor == 0;
}

static int facts_fit(const sl_timeline *t) {
  int fit = t->peak_gflops >= 0 && t->peak_gigabytes >= 0 && t->link >= 0 && isfinite(t->link) && t->rank >= 0 &&
            t->rank < t->ranks && t->n_kinds >= 0 && mesh_fits(t);
  for (int i = 0; i < t->n_clocks && fit; i++) fit = in_range(t->clock[i].local) && in_range(t->clock[i].offset);
  for (int w = 0; w < t->n_workers && fit; w++) fit = in_range(t->worker[w].tasks) && in_range(t->worker[w].busy);
  return fit;
}

/* Kinds are numbered by their first node, so there are at most as many kinds as nodes. */
static int graph_fits(const sl_timeline *t, int n_before) {
  int fit = t->n_kinds <= t->n_nodes && t->from[0] == 0 && t->from[t->n_nodes] == n_before;
  for (int i = 0; i < t->n_nodes && fit; i++) {
    fit = t->from[i] <= t->from[i + 1] && t->from[i + 1] <= n_before && t->node[i].kind >= 0 &&
          t->node[i].kind < t->n_kinds && isfinite(t->node[i].flops) && isfinite(t->node[i].bytes);
    for (int k = t->from[i]; k < t->from[i + 1] && fit; k++)
      fit = t->before[k] >= 0 && t->before[k] < t->n_nodes && t->before[k] != i;
  }
  int64_t bytes = 0;
  for (int i = 0; i < t->n_buffers && fit; i++)
    fit = t->buffer[i].bytes >= 0 && in_range(t->buffer[i].bytes) && in_range(bytes += t->buffer[i].bytes) &&
          t->buffer[i].slot >= 0 && t->buffer[i].slot < t->n_buffers;
  for (int i = 0; i < t->n_uses && fit; i++)
    fit =
        t->use[i].node >= 0 && t->use[i].node < t->n_nodes && t->use[i].buffer >= 0 && t->use[i].buffer < t->n_buffers;
  for (int i = 0; i < t->n_flows && fit; i++) {
    const sl_timeline_flow *f = &t->flow[i];
    fit = f->from >= -1 && f->from < t->n_nodes && f->to >= -1 && f->to < t->n_nodes && f->bytes >= 0 &&
          in_range(f->bytes);
  }
  return fit;
}

static int records_fit(const sl_timeline *t) {
  int fit = 1;
  for (size_t i = 0; i < t->n_records && fit; i++) {
    const sl_record *r = &t->record[i];
    fit = in_range(r->step) && in_range(r->submit) && in_range(r->ready) && in_range(r->taken) && in_range(r->start) &&
          in_range(r->end);
  }
  for (int i = 0; i < t->n_transfers && fit; i++) {
    const sl_timeline_transfer *x = &t->transfer[i];
    fit = in_range(x->step) && in_range(x->start) && in_range(x->end) && in_range(x->bytes) && x->bytes >= 0 &&
          x->from >= 0 && x->from < SL_TIMELINE_MEMORIES && x->to >= 0 && x->to < SL_TIMELINE_MEMORIES &&
          x->node >= -1 && x->node < t->n_nodes;
  }
  return fit;
}

/* Code that computes with timelines relies on these checks. */
static sl_status check(const char *path, const sl_timeline *t, int n_before) {
  if (!facts_fit(t)) return sl_fail(SL_EFORMAT, "%s: a fact, a worker's sum or a clock is out of range", path);
  if (!graph_fits(t, n_before)) return sl_fail(SL_EFORMAT, "%s: its graph is not valid", path);
  if (!records_fit(t)) return sl_fail(SL_EFORMAT, "%s: a record's step or time is out of range", path);
  return SL_OK;
}

sl_status sl_timeline_read(const char *path, sl_timeline **timeline) {
  *timeline = NULL;
  sl_safetensors *st;
  sl_timeline *t = NULL;
  sl_status status = SL_OK;
  int workers = 0, nodes = 0, before = 0, records = 0, clocks = 0, buffers = 0, uses = 0, transfers = 0, flows = 0;
  SL_TRY(sl_safetensors_open(path, &st));
  const char *format = sl_safetensors_metadata(st, "format");
  if (!format || strcmp(format, FORMAT) != 0) {
    status =
        sl_fail(SL_EFORMAT, "%s is not a timeline (its format is '%s', not '%s')", path, format ? format : "", FORMAT);
    goto out;
  }
  SL_TRY_OUT(count_of(st, path, "worker.name", &workers));
  SL_TRY_OUT(count_of(st, path, "node.layer", &nodes));
  SL_TRY_OUT(count_of(st, path, "node.before", &before));
  SL_TRY_OUT(count_of(st, path, "record.step", &records));
  SL_TRY_OUT(count_of(st, path, "clock.local", &clocks));
  if (sl_safetensors_find(st, "buffer.bytes") >= 0) {
    SL_TRY_OUT(count_of(st, path, "buffer.bytes", &buffers));
    SL_TRY_OUT(count_of(st, path, "use.node", &uses));
  }
  if (sl_safetensors_find(st, "transfer.step") >= 0) SL_TRY_OUT(count_of(st, path, "transfer.step", &transfers));
  if (sl_safetensors_find(st, "flow.from") >= 0) SL_TRY_OUT(count_of(st, path, "flow.from", &flows));
  SL_TRY_OUT(sl_timeline_create(workers, nodes, before, &t));
  SL_TRY_OUT(sl_timeline_reserve_flows(t, flows));
  SL_TRY_OUT(sl_timeline_reserve_transfers(t, transfers));
  SL_TRY_OUT(sl_timeline_reserve_buffers(t, buffers, uses));
  if (clocks > (int)(sizeof t->clock / sizeof *t->clock)) {
    status = sl_fail(SL_EFORMAT, "%s: %d clocks", path, clocks);
    goto out;
  }
  t->n_records = (size_t)records;
  t->n_clocks = clocks;
  t->record = calloc((size_t)records + 1, sizeof *t->record);
  if (!t->record) {
    status = sl_no_memory("for the %d records of %s", records, path);
    goto out;
  }
  SL_TRY_OUT(read_facts(st, path, t));
  column c[COLUMNS];
  t->from[nodes] = before; /* as long as the column; its own value is compared below */
  for (int i = 0, n = columns_of(t, c); i < n; i++) SL_TRY_OUT(read_column(st, path, t, &c[i]));
  SL_TRY_OUT(check(path, t, before));
  *timeline = t;
  t = NULL;
out:
  sl_timeline_destroy(t);
  sl_safetensors_close(st);
  return status;
}

void sl_timeline_align(sl_timeline *t) {
  for (size_t i = 0; i < t->n_records; i++) {
    sl_record *r = &t->record[i];
    int64_t *const times[] = {&r->submit, &r->ready, &r->taken, &r->start, &r->end};
    for (size_t k = 0; k < sizeof times / sizeof *times; k++)
      *times[k] = sl_clock_map(t->clock, t->n_clocks, *times[k]);
  }
  for (int i = 0; i < t->n_transfers; i++) {
    t->transfer[i].start = sl_clock_map(t->clock, t->n_clocks, t->transfer[i].start);
    t->transfer[i].end = sl_clock_map(t->clock, t->n_clocks, t->transfer[i].end);
  }
}

static int by_rank(const void *a, const void *b) {
  return (*(sl_timeline *const *)a)->rank - (*(sl_timeline *const *)b)->rank;
}

sl_status sl_timeline_read_all(const char *folder, sl_timeline ***timelines, int *n) {
  *timelines = NULL;
  *n = 0;
  DIR *entries = sl_folder_open(folder);
  if (!entries) return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", folder, strerror(errno));
  sl_status status = SL_OK;
  char *path = NULL;
  int error;
  for (struct dirent *entry; (entry = sl_folder_next(entries, folder, &error));) {
    if (!sl_timeline_is_name(entry->d_name)) continue;
    sl_timeline **more = realloc(*timelines, ((size_t)*n + 1) * sizeof *more);
    if (more) *timelines = more;
    free(path);
    if (!more || asprintf(&path, "%s/%s", folder, entry->d_name) < 0) {
      path = NULL;
      status = sl_no_memory("for the timelines of %s", folder);
      goto out;
    }
    SL_TRY_OUT(sl_timeline_read(path, &more[*n]));
    sl_timeline *t = more[(*n)++];
    if (t->rank != rank_of(entry->d_name))
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s is the timeline of rank %d", path, t->rank));
    sl_timeline_align(t);
  }
  if (error) SL_TRY_OUT(sl_fail(SL_EIO, "cannot read %s: %s", folder, strerror(error)));
  if (*n == 0)
    SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "there is no timeline in %s: a run writes it when it ends (%s0%s)", folder, PREFIX,
                       SUFFIX));
  qsort(*timelines, (size_t)*n, sizeof **timelines, by_rank);
  /* A run that was resumed on fewer ranks leaves files of the others behind. */
  int kept = 1;
  for (int i = 1; i < *n; i++)
    if ((*timelines)[i]->ranks == (*timelines)[0]->ranks)
      (*timelines)[kept++] = (*timelines)[i];
    else
      sl_timeline_destroy((*timelines)[i]);
  *n = kept;
out:
  closedir(entries);
  free(path);
  if (status != SL_OK) {
    for (int i = 0; i < *n; i++) sl_timeline_destroy((*timelines)[i]);
    free(*timelines);
    *timelines = NULL, *n = 0;
  }
  return status;
}

void sl_timeline_window(const sl_timeline *t, int64_t *from, int64_t *to, int64_t *first) {
  *from = *to = *first = 0;
  if (t->n_records == 0) return;
  int64_t last = INT64_MIN, oldest = INT64_MAX, begin = INT64_MAX;
  for (size_t i = 0; i < t->n_records; i++) {
    if (t->record[i].step < oldest) oldest = t->record[i].step;
    if (t->record[i].step > last) last = t->record[i].step;
  }
  *first = t->lost > 0 && last > oldest ? oldest + 1 : oldest;
  for (size_t i = 0; i < t->n_records; i++) {
    if (t->record[i].step < *first) continue;
    if (t->record[i].submit < begin) begin = t->record[i].submit;
    if (t->record[i].end > *to) *to = t->record[i].end;
  }
  *from = begin;
}
