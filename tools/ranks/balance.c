/* Divides leaves among ranks: as listed, or by measured task times. Step times are no use: on every rank a step takes
 * as long as on the slowest rank. Task times show which rank is slow. */
#include "tools/ranks/balance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/exchange/leaves.h"

enum { WARM = 3, LEAST = 5, MOST = 500 }; /* steps that are not measured; least and most that are measured */
static const double seconds_measured = 1; /* several periods of a control group's quota */
static const double gain = 0.03;          /* share of a step that a new division must save */

static sl_status parse(const sl__balance *b, const char *text) {
  const char *at = text;
  const int n = b->ranks->n;
  long sum = 0;
  for (int r = 0; r < n; r++) {
    char *end;
    const long leaves = strtol(at, &end, 10);
    if (end == at || *end != (r + 1 < n ? ',' : 0) || leaves < b->plan->micro_batches || leaves > b->plan->leaves)
      break;
    b->count[r] = (int)leaves;
    sum += leaves;
    at = end + 1;
    if (r + 1 == n && sum == b->plan->leaves) return SL_OK;
  }
  return sl_fail(
      SL_EINVAL,
      "--balance %s: %d ranks take even, auto, or %d numbers with commas between, each at least %d, that add "
      "up to the %d leaves",
      text, n, n, b->plan->micro_batches, b->plan->leaves);
}

/* "8, 4" or, scaled, "3.21, 6.4"; with very many ranks only the first ones. */
static const char *list(char *text, size_t size, int n, const int *count, const double *seconds) {
  size_t at = 0;
  text[0] = 0;
  for (int r = 0; r < n; r++) {
    if (at + 32 > size) {
      snprintf(text + at, size - at, ", ...");
      break;
    }
    const char *between = r ? ", " : "";
    if (count)
      at += (size_t)snprintf(text + at, size - at, "%s%d", between, count[r]);
    else
      at += (size_t)snprintf(text + at, size - at, "%s%.3g", between, 1e3 * seconds[r]);
  }
  return text;
}

sl_status sl__balance_open(sl_runtime *runtime, const char *text, sl__ranks *ranks, const sl_plan *plan,
                           sl__balance *b) {
  const size_t n = (size_t)ranks->n;
  char counts[128];
  *b = (sl__balance){.ranks = ranks,
                     .plan = plan,
                     .runtime = runtime,
                     .last = WARM + 1,
                     .leaf = calloc(n, sizeof *b->leaf),
                     .rest = calloc(n, sizeof *b->rest),
                     .count = calloc(n, sizeof *b->count)};
  if (!b->leaf || !b->rest || !b->count) return sl_no_memory("for %d ranks", ranks->n);
  SL_TRY(sl__ranks_divide(ranks, plan, NULL));
  if (sl__mesh_model_ranks(&ranks->mesh) > 1 && strcmp(text, "even") != 0)
    return sl_blame(sl_fail(SL_EINVAL,
                            "--balance %s divides leaves among ranks, and with --mesh pipe=%d,tensor=%d %d ranks share "
                            "them: leave --balance out",
                            text, ranks->mesh.pipe, ranks->mesh.tensor, sl__mesh_model_ranks(&ranks->mesh)),
                    "balance");
  const int automatic = strcmp(text, "auto") == 0;
  b->listed = !automatic && strcmp(text, "even") != 0;
  if (b->listed) {
    SL_TRY(parse(b, text));
    SL_TRY(sl__ranks_divide(ranks, plan, b->count));
    snprintf(b->said, sizeof b->said, "%s leaves, as listed", list(counts, sizeof counts, ranks->n, b->count, NULL));
  }
  for (int r = 0; r < ranks->n; r++)
    b->count[r] = ranks->first_leaf ? ranks->first_leaf[r + 1] - ranks->first_leaf[r] : plan->leaves;
  b->measuring = automatic && ranks->n > 1;
  return SL_OK;
}

void sl__balance_close(sl__balance *b) {
  free(b->leaf), free(b->rest), free(b->count);
  memset(b, 0, sizeof *b);
}

/* Computes this rank's seconds for a leaf and for the rest of a step from the mean time of each node's records, so it
 * does not matter how many steps the recorder still has. */
static sl_status measure(const sl__balance *b, const sl_program *program, const sl_recorder *recorder,
                         double seconds[2]) {
  const sl_graph *graph = sl_program_graph(program);
  struct {
    double seconds;
    int64_t n;
  } *node = calloc((size_t)graph->n_nodes + 1, sizeof *node);
  sl_record *records = NULL;
  size_t n = 0;
  sl_status status = node ? SL_OK : sl_no_memory("for the times of %d tasks", graph->n_nodes);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl_recorder_snapshot(recorder, &records, &n));
  for (size_t i = 0; i < n; i++) {
    const sl_record *r = &records[i];
    if (r->kind != SL_RECORD_TASK || r->start < b->from || r->node < 0 || r->node >= graph->n_nodes) continue;
    node[r->node].seconds += 1e-9 * (double)(r->end - r->start);
    node[r->node].n++;
  }
  seconds[0] = seconds[1] = 0;
  for (int i = 0; i < graph->n_nodes; i++)
    if (node[i].n > 0) seconds[graph->node[i]->leaf < 0] += node[i].seconds / (double)node[i].n;
  const double workers = sl_runtime_workers(b->runtime);
  seconds[0] /= workers * b->count[b->ranks->rank];
  seconds[1] /= workers;
out:
  free(node), free(records);
  return status;
}

/* The smallest multiple of the plan's leaves with which a step takes at most 5% longer than with an ideal division of
 * the batch. 0: the plan's leaves are enough, or no multiple is. */
static int better_leaves(const sl__balance *b, double best, double *at_will) {
  enum { TIMES = 32 };
  const int n = b->ranks->n;
  double speed = 0, work = b->plan->leaves;
  for (int r = 0; r < n; r++) speed += 1 / b->leaf[r], work += b->rest[r] / b->leaf[r];
  *at_will = work / speed;
  if (best < 1.1 * *at_will) return 0;
  double *leaf = malloc((size_t)n * sizeof *leaf);
  int *count = malloc((size_t)n * sizeof *count), found = 0;
  for (int times = 2; leaf && count && times <= TIMES && times * b->plan->leaves <= b->plan->batch && !found; times++) {
    for (int r = 0; r < n; r++) leaf[r] = b->leaf[r] / times;
    if (sl_leaves_divide(times * b->plan->leaves, n, b->plan->micro_batches, b->rest, leaf, count) < 1.05 * *at_will)
      found = times * b->plan->leaves;
  }
  free(leaf), free(count);
  return found;
}

/* All ranks have the same numbers, so they choose the same division. */
static sl_status decide(sl__balance *b, int *changed) {
  const int n = b->ranks->n;
  char times[256], counts[128], before[128];
  double now = 0, at_will;
  int *count = malloc((size_t)n * sizeof *count);
  if (!count) return sl_no_memory("for %d ranks", n);
  const double best = sl_leaves_divide(b->plan->leaves, n, b->plan->micro_batches, b->rest, b->leaf, count);
  for (int r = 0; r < n; r++)
    if (b->rest[r] + b->count[r] * b->leaf[r] > now) now = b->rest[r] + b->count[r] * b->leaf[r];
  *changed = best < (1 - gain) * now;
  list(times, sizeof times, n, NULL, b->leaf);
  list(before, sizeof before, n, b->count, NULL);
  size_t at = (size_t)snprintf(b->said, sizeof b->said, "a leaf takes %s ms on ranks 0 to %d (%lld steps); ", times,
                               n - 1, (long long)b->counted);
  if (*changed)
    at += (size_t)snprintf(b->said + at, sizeof b->said - at,
                           "%s leaves in place of %s: the slowest rank computes for about %.3g ms a step, not %.3g",
                           list(counts, sizeof counts, n, count, NULL), before, 1e3 * best, 1e3 * now);
  else
    at += (size_t)snprintf(b->said + at, sizeof b->said - at, "%s leaves stay", before);
  const int more = better_leaves(b, *changed ? best : now, &at_will);
  if (more)
    snprintf(b->said + at, sizeof b->said - at,
             "; the plan has too few leaves to come nearer to %.3g ms: a new run with --leaves %d can", 1e3 * at_will,
             more);
  sl_status status = SL_OK;
  if (*changed) {
    memcpy(b->count, count, (size_t)n * sizeof *count);
    status = sl__ranks_divide(b->ranks, b->plan, b->count);
  }
  free(count);
  return status;
}

sl_status sl__balance_step(sl__balance *b, const sl_program *program, const sl_recorder *recorder, int *changed) {
  const int n = b->ranks->n;
  *changed = 0;
  b->steps++;
  if (b->steps == WARM) b->from = sl_now();
  if (b->steps < b->last) return SL_OK;
  double mine[3] = {1e-9 * (double)(sl_now() - b->from)}, passed = 0;
  double *all = malloc(3 * (size_t)n * sizeof *all);
  sl_status status = all ? SL_OK : sl_no_memory("for %d ranks", n);
  SL_TRY_OUT(status);
  SL_TRY_OUT(measure(b, program, recorder, mine + 1));
  SL_TRY_OUT(sl__ranks_gather(b->ranks, mine, 3, all));
  b->counted = b->steps - WARM;
  for (int r = 0; r < n; r++) {
    if (all[3 * r] > passed) passed = all[3 * r];
    b->leaf[r] = all[3 * r + 1], b->rest[r] = all[3 * r + 2];
  }
  if (b->counted < LEAST || (passed < seconds_measured && b->counted < MOST)) { /* the same on all ranks */
    const double wanted = (double)b->counted * seconds_measured / passed;
    b->last = WARM + (wanted > MOST ? MOST : wanted < LEAST ? LEAST : (int64_t)wanted);
    if (b->last <= b->steps) b->last = b->steps + 1;
    goto out;
  }
  b->measuring = 0;
  SL_TRY_OUT(decide(b, changed));
out:
  free(all);
  return status;
}

json_t *sl__balance_json(const sl__balance *b) {
  json_t *leaves = json_array(), *leaf = json_array(), *rest = json_array();
  for (int r = 0; r < b->ranks->n; r++) {
    json_array_append_new(leaves, json_integer(b->count[r]));
    json_array_append_new(leaf, json_real(b->leaf[r]));
    json_array_append_new(rest, json_real(b->rest[r]));
  }
  json_t *all = json_pack("{s:o}", "leaves", leaves);
  if (all && b->counted && !b->measuring)
    json_object_update_new(
        all, json_pack("{s:O, s:O, s:I}", "leaf_s", leaf, "rest_s", rest, "steps", (json_int_t)b->counted));
  json_decref(leaf), json_decref(rest);
  return all;
}

const char *sl__balance_text(const sl__balance *b) { return b->said; }
