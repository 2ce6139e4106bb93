/* Judges a scheduling policy by the simulated time of a step, from outside: the policy never runs in this process.
 *
 *   judge questions >FILE          draws a number and a batch
 *   judge verdict FILE <ANSWERS    follows the timeline: could this machine have computed so, and how long does it
 * take?
 *
 * A policy runs inside the program that simulates it, so the program's own times are no evidence. The judge simulates
 * the same steps itself, with StarPU's policies. From these simulations it knows the tasks, the data that flow between
 * them, and each task's time on a CPU and on a GPU. From the answer it takes only which worker ran which task when, and
 * checks everything else. The verdict has a line "wrong: ..." for each check that fails, then "points: N of M", then
 * "ok" or "not ok". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/trace/timeline.h"

enum { CPU, GPU, PLACES, STEPS = 5 };
static const double MARGIN = 0.6;    /* of the time under dmdas */
static const int64_t DELAY = 100000; /* ns */
static int points, checks;

static void judge(int fine, const char *what) {
  checks++, points += fine;
  if (!fine) printf("wrong: %s\n", what);
}

static int ask(void) {
  static const int batches[] = {192, 224, 256};
  unsigned long long number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return 2;
  return printf("%016llx %d\n", number, batches[number % 3]) > 0 && fflush(stdout) == 0 ? 0 : 2;
}

/* --- what the machine does -------------------------------------------------------------------------------------------
 */

/* Simulates steps under StarPU's policies. NULL: this failed; the reason is on standard output. */
static sl_timeline *simulate(const char *folder, int batch, const char *name, const char *options) {
  char command[1024], line[512], path[256];
  sl_timeline **all;
  int n;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  mkdir(path, 0700);
  snprintf(command, sizeof command, "sh ./simulate.sh %d %s %s 2>&1", batch, path, options);
  FILE *output = popen(command, "r");
  while (output && fgets(line, sizeof line, output))
    if (strstr(line, "error") || strstr(line, "starling-sim")) fputs(line, stdout);
  if (!output || pclose(output) != 0 || sl_timeline_read_all(path, &all, &n) != SL_OK) return NULL;
  sl_timeline *t = all[0];
  free(all);
  return t;
}

/* Time of each kind of task on a worker of each kind, ns; 0: none ran there. The simulation gives each task of a kind
 * the same time. */
static void add_times(const sl_timeline *t, double (*time)[PLACES]) {
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->kind == SL_RECORD_TASK) time[t->node[r->node].kind][t->worker[r->worker].gpu] = (double)(r->end - r->start);
  }
}

static int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Median time of a step, ms: from the end of the step before, for the first from its first start, to its end. */
static double step_of(const sl_timeline *t) {
  double took[STEPS];
  int64_t end[STEPS] = {0}, first = INT64_MAX, before = INT64_MAX;
  for (size_t i = 0; i < t->n_records; i++)
    if (t->record[i].step < first) first = t->record[i].step;
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->start < before) before = r->start;
    if (r->step - first < STEPS && r->end > end[r->step - first]) end[r->step - first] = r->end;
  }
  for (int s = 0; s < STEPS; before = end[s++]) took[s] = 1e-6 * (double)(end[s] - before);
  qsort(took, STEPS, sizeof *took, ascending);
  return took[STEPS / 2];
}

/* --- the answer ------------------------------------------------------------------------------------------------------
 */

/* Reads the answer, a number and a timeline. NULL: it is not valid. */
static sl_timeline *read_answer(const char *folder, const char *number) {
  char path[256], first[64];
  sl_timeline **all;
  int n, c;
  snprintf(path, sizeof path, "%s/answer", folder);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/answer/timeline-0.safetensors", folder);
  if (!fgets(first, sizeof first, stdin)) return NULL;
  first[strcspn(first, "\n")] = 0;
  FILE *file = strcmp(first, number) == 0 ? fopen(path, "wb") : NULL;
  if (!file) return NULL;
  while ((c = getchar()) != EOF) putc(c, file);
  snprintf(path, sizeof path, "%s/answer", folder);
  if (fclose(file) != 0 || sl_timeline_read_all(path, &all, &n) != SL_OK) return NULL;
  sl_timeline *t = all[0];
  free(all);
  return t;
}

static int by_worker(const void *a, const void *b) {
  const sl_record *x = *(const sl_record *const *)a, *y = *(const sl_record *const *)b;
  if (x->worker != y->worker) return x->worker - y->worker;
  return (x->start > y->start) - (x->start < y->start);
}

/* The records of the answer by step and node; with the machine's own steps m. */
typedef struct course {
  const sl_timeline *m;
  double (*time)[PLACES];
  const sl_record **at; /* [STEPS * nodes] */
  int64_t first;
  int nodes, missing;
} course;

static int on_gpu(const course *c, const sl_record *r) { return c->m->worker[r->worker].gpu; }

/* Sorts the records into *c. 0: some record is no task of these steps. */
static int sort_records(const sl_timeline *a, course *c) {
  c->first = INT64_MAX;
  for (size_t i = 0; i < a->n_records; i++)
    if (a->record[i].step < c->first) c->first = a->record[i].step;
  for (size_t i = 0; i < a->n_records; i++) {
    const sl_record *r = &a->record[i];
    if (r->kind != SL_RECORD_TASK || r->step - c->first >= STEPS || r->node < 0 || r->node >= c->nodes ||
        r->worker < 0 || r->worker >= c->m->n_workers)
      return 0;
    const sl_record **at = &c->at[(r->step - c->first) * c->nodes + r->node];
    if (*at) return 0; /* ran twice */
    *at = r;
  }
  for (int64_t i = 0; i < STEPS * c->nodes; i++) c->missing += !c->at[i];
  return 1;
}

/* Whether task r started late enough after its predecessor p. bytes: those that r reads from p; 0: order only. */
static int in_order(const course *c, const sl_record *p, const sl_record *r, int64_t bytes) {
  const int apart = on_gpu(c, p) || on_gpu(c, r) ? p->worker != r->worker : 0;
  const double copy = apart && bytes > 0 ? 0.98e9 * (double)bytes / c->m->link : 0;
  return (double)(r->start - p->end) >= copy;
}

/* Writes what this machine could not have done first; "": there is nothing. */
static void find_fault(const course *c, char *words, size_t n) {
  const sl_timeline *m = c->m;
  const size_t all = (size_t)(STEPS * c->nodes);
  int64_t done = 0;
  *words = 0;
  for (size_t i = 0; i < all; i++) {
    const sl_record *r = c->at[i];
    const sl_timeline_node *node = &m->node[r->node];
    const double wanted = c->time[node->kind][on_gpu(c, r)], took = (double)(r->end - r->start);
    if (wanted > 0 && fabs(took - wanted) <= 0.01 * wanted + 100) continue;
    snprintf(words, n, "task %s of %s took %.1f us on a %s, where it takes %.1f", node->operation, node->layer,
             1e-3 * took, on_gpu(c, r) ? "GPU" : "CPU", 1e-3 * wanted);
    return;
  }
  for (int64_t s = 0; s < STEPS; s++) {
    const sl_record **at = &c->at[s * c->nodes];
    for (int i = 0; i < c->nodes; i++)
      for (int k = m->from[i]; k < m->from[i + 1]; k++)
        if (!in_order(c, at[m->before[k]], at[i], 0))
          snprintf(words, n, "task %s of %s started before %s of %s had ended", m->node[i].operation, m->node[i].layer,
                   m->node[m->before[k]].operation, m->node[m->before[k]].layer);
    for (int k = 0; k < m->n_flows; k++) {
      const sl_timeline_flow *f = &m->flow[k];
      if (f->from >= 0 && f->to >= 0 && !in_order(c, at[f->from], at[f->to], f->bytes))
        snprintf(words, n, "task %s of %s started before its %.1f MB from another memory were there",
                 m->node[f->to].operation, m->node[f->to].layer, 1e-6 * (double)f->bytes);
    }
    for (int i = 0; s > 0 && i < c->nodes; i++) /* a step is submitted after the one before has ended */
      for (int k = 0; k < c->nodes; k++)
        if (at[i]->start < (at - c->nodes)[k]->end)
          snprintf(words, n, "a step started before the one before had ended");
  }
  /* A GPU's records may overlap a little, because its next kernel is queued before the last one's end is seen. So a
   * worker's work must be done one after another, up to this delay, which must not grow. */
  qsort(c->at, all, sizeof *c->at, by_worker);
  for (size_t i = 0, first = 0; i < all; i++) {
    const sl_record *r = c->at[i];
    if (i == 0 || r->worker != c->at[i - 1]->worker) first = i, done = 0;
    if (first == i || r->start > done) done = r->start;
    done += r->end - r->start;
    if (done > r->end + DELAY) snprintf(words, n, "worker %s ran two tasks at once", m->worker[r->worker].name);
  }
}

/* --- the verdict -----------------------------------------------------------------------------------------------------
 */

static int verdict(const char *folder, const char *number, int batch) {
  char words[512] = "", text[512];
  sl_timeline *answer = read_answer(folder, number);
  if (!answer) {
    puts("wrong: the simulation under the policy ended without a timeline\npoints: 0 of 4\nnot ok");
    return 1;
  }
  sl_timeline *eager = simulate(folder, batch, "eager", "--sched eager");
  sl_timeline *m = simulate(folder, batch, "dmdas", "--sched dmdas");
  sl_timeline *cpus = simulate(folder, batch, "cpus", "--sched eager --workers 2 --gpus 0");
  sl_timeline *gpus = simulate(folder, batch, "gpus", "--sched eager --workers gpu");
  if (!eager || !m || !cpus || !gpus || !(m->link > 0)) return puts("the judge cannot simulate"), 2;
  course c = {.m = m, .nodes = m->n_nodes};
  c.at = calloc((size_t)(STEPS * c.nodes), sizeof *c.at);
  c.time = calloc((size_t)m->n_nodes, sizeof *c.time);
  if (!c.at || !c.time) return 2;
  add_times(cpus, c.time), add_times(gpus, c.time);

  const int sorted = sort_records(answer, &c);
  snprintf(text, sizeof text, "%d of %d tasks were never run", c.missing, STEPS * c.nodes);
  judge(sorted && c.missing == 0, sorted ? text : "the timeline has records that are no tasks of these steps");
  const int whole = sorted && c.missing == 0;
  if (whole) find_fault(&c, words, sizeof words);
  snprintf(text, sizeof text, "this machine has not computed so: %s", whole ? words : "tasks are missing");
  judge(whole && !*words, text);
  const int real = whole && !*words;
  const double step = real ? step_of(answer) : INFINITY, slow = step_of(eager), fast = step_of(m);
  if (real) printf("a simulated step takes %.2f ms; under eager %.2f, under dmdas %.2f\n", step, slow, fast);
  snprintf(text, sizeof text, "a step takes no less than under eager (%.2f ms): which worker ends a task first?", slow);
  judge(step < 0.99 * slow, text);
  snprintf(text, sizeof text,
           "a step must take %.2f ms or less, 60 %% of that under dmdas: which data are copied between GPUs in every "
           "step?",
           MARGIN * fast);
  judge(step <= MARGIN * fast, text);
  printf("points: %d of %d\n%s\n", points, checks, points == checks ? "ok" : "not ok");
  return points != checks;
}

int main(int argc, char **argv) {
  char number[64], folder[] = "/tmp/judge.XXXXXX", command[64];
  int batch;
  if (argc == 2 && strcmp(argv[1], "questions") == 0) return ask();
  FILE *file = argc == 3 && strcmp(argv[1], "verdict") == 0 ? fopen(argv[2], "r") : NULL;
  if (!file || fscanf(file, "%63s %d", number, &batch) != 2)
    return fputs("Usage: judge questions >FILE; judge verdict FILE <ANSWERS\n", stderr), 2;
  fclose(file);
  if (!mkdtemp(folder)) return perror(folder), 2;
  const int code = verdict(folder, number, batch);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) == 0 ? code : 2;
}
