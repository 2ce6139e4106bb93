/* timelines DIR TASKS [PERCENT]: writes synthetic timelines of two ranks with two workers each, with TASKS tasks or a
 * few more, for tests of their readers. Tasks of gelu, all on the second worker, take PERCENT % of the usual time.
 * Their names contain text that a page must not take for markup. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/trace/timeline.h"

/* A step of a rank: a chain of tasks on each of two workers, 100 us per task with gaps of 10 us, then an exchange. */
enum { RANKS = 2, WORKERS = 2, CHAIN = 250, NODES = WORKERS * CHAIN + 1, EXCHANGE = NODES - 1 };
static const int64_t TASK = 100000, GAP = 10000, HOUR = INT64_C(3600000000000);
static int64_t gelu = 100000; /* ns */

static void name_nodes(sl_timeline *t) {
  static const char *const layers[] = {"</script><script>document.title='taken'</script>",
                                       "<img src=x onerror=alert(1)>", "block0.attention", "\xE2\x80\xA7<!--\"'&amp;"};
  static const char *const operations[] = {"linear", "gelu", "layernorm", "attention_backward"};
  for (int i = 0; i < NODES; i++) {
    const int exchange = i == EXCHANGE, kind = i % 4;
    t->node[i] = (sl_timeline_node){.layer = sl_timeline_text(t, exchange ? "bucket 0" : layers[i / 4 % 4]),
                                    .operation = sl_timeline_text(t, exchange ? "exchange" : operations[kind]),
                                    .phase = sl_timeline_text(t, kind == 3 ? "backward" : "forward"),
                                    .shapes = sl_timeline_text(t, "[64, 784] [128, 784] -> [64, 128]"),
                                    .kind = exchange ? 4 : kind,
                                    .shard = exchange ? -1 : i % WORKERS,
                                    .leaf = exchange ? -1 : 0,
                                    .flops = exchange || kind == 1 ? 0 : 4e6,
                                    .bytes = 1e6};
  }
}

/* Nodes 0, 2, 4, ... are worker 0's, the others worker 1's; the exchange waits for the last two. */
static void link_nodes(sl_timeline *t) {
  int n = 0;
  for (int i = 0; i < NODES; i++) {
    if (i >= WORKERS) t->before[n++] = i - WORKERS;
    if (i == EXCHANGE) t->before[n++] = i - 1;
    t->from[i + 1] = n;
  }
}

static int64_t time_of(int node) { return node % 4 == 1 ? gelu : TASK; }

/* Tasks of one worker end so long after the step's beginning. */
static int64_t chain(int worker) {
  int64_t all = 0;
  for (int i = worker; i < EXCHANGE; i += WORKERS) all += GAP + time_of(i);
  return all;
}

static int64_t tasks_of_step(void) { return chain(1) > chain(0) ? chain(1) : chain(0); }

static void record_step(sl_timeline *t, int64_t step, int64_t at) {
  int64_t end[WORKERS] = {at, at};
  for (int i = 0; i < EXCHANGE; i++) {
    const int64_t start = end[i % WORKERS] + GAP;
    t->record[t->n_records++] = (sl_record){.step = step,
                                            .node = i,
                                            .worker = (int16_t)(i % WORKERS),
                                            .kind = SL_RECORD_TASK,
                                            .submit = at,
                                            .ready = i < WORKERS ? at : start - GAP,
                                            .taken = start - GAP / 2,
                                            .start = start,
                                            .end = start + time_of(i)};
    end[i % WORKERS] = start + time_of(i);
  }
  const int64_t over = at + tasks_of_step();
  t->record[t->n_records++] = (sl_record){.step = step,
                                          .node = EXCHANGE,
                                          .kind = SL_RECORD_EXCHANGE,
                                          .submit = at,
                                          .ready = over,
                                          .taken = over,
                                          .start = over + GAP,
                                          .end = over + 50 * GAP};
}

static sl_status write_rank(const char *folder, int rank, int64_t steps) {
  sl_timeline *t;
  char name[SL_TIMELINE_NAME], path[4096];
  SL_TRY(sl_timeline_create(WORKERS, NODES, NODES, &t));
  t->rank = rank, t->ranks = RANKS, t->n_kinds = 5, t->n_clocks = 1;
  t->model = sl_timeline_text(t, "<b>model</b>"), t->sched = sl_timeline_text(t, "lws");
  for (int w = 0; w < WORKERS; w++) {
    snprintf(name, sizeof name, "CPU %d, core %d", w, WORKERS * rank + w);
    t->worker[w].name = sl_timeline_text(t, name);
    t->worker[w].tasks = steps * CHAIN;
    t->worker[w].busy = steps * (chain(w) - CHAIN * GAP);
  }
  name_nodes(t);
  link_nodes(t);
  t->record = malloc((size_t)steps * NODES * sizeof *t->record);
  if (!t->record) return sl_no_memory("for %lld steps", (long long)steps);
  for (int64_t s = 0; s < steps; s++) record_step(t, s + 1, HOUR + s * (tasks_of_step() + 60 * GAP));
  snprintf(path, sizeof path, "%s/%s", folder, sl_timeline_name(rank, name));
  const sl_status status = sl_timeline_write(path, t);
  sl_timeline_destroy(t);
  return status;
}

int main(int argc, char **argv) {
  const long tasks = argc == 3 || argc == 4 ? atol(argv[2]) : 0, percent = argc == 4 ? atol(argv[3]) : 100;
  if (tasks < 1 || percent < 1) return fprintf(stderr, "usage: timelines DIR TASKS [PERCENT]\n"), 2;
  gelu = TASK * percent / 100;
  const int64_t each = RANKS * WORKERS * CHAIN;
  for (int rank = 0; rank < RANKS; rank++)
    if (write_rank(argv[1], rank, (tasks + each - 1) / each) != SL_OK) return fprintf(stderr, "%s\n", sl_error()), 1;
  return 0;
}
