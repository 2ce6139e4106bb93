/* Judges four ways of dividing a network, from outside: it never runs in a process that contains ways.c.
 *
 *   judge questions [SEED] >FILE    draws a seed, from which all questions follow, unless it is given
 *   judge verdict FILE <ANSWERS     trains the same networks on one rank, and compares byte for byte
 *
 * The verdict has a line "wrong: ..." for each check that fails, then "points: N of M", then "ok" or "not ok". */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "answers.h"

enum { RESULTS, SENT, FORMULA, CHECKS, ALL = WAYS * CHECKS + 2, MOST_RESULTS = 1 << 22 };
static const double CLEAR = 1.02; /* only questions whose second fastest way takes this many times as long count */

static questions q;                   /* with its networks trained on one rank */
static char wrong[WAYS][CHECKS][400]; /* the first fault of each check */
static int points, checks;

__attribute__((format(printf, 3, 4))) static void fault(int way, int check, const char *what, ...) {
  va_list values;
  char *to = wrong[way][check];
  if (*to) return;
  va_start(values, what);
  vsnprintf(to, sizeof *wrong[way], what, values);
  va_end(values);
}

static const char *ending(int ranks) { return ranks > 1 ? "s" : ""; }

static void judge(const char *what) {
  checks++, points += !*what;
  if (*what) printf("wrong: %s\n", what);
}

/* ---- what is right ----------------------------------------------------------------------------------------------- */

/* Formulas may round. */
static int is_near(double a, double b) { return fabs(a - b) <= 1e-9 * b; }

static double levels(int ranks) { return log2(ranks); }

static shares right_shares(const job *j, int way) {
  shares s = {.rows = {0, j->samples}, .units = {0, j->hidden}};
  const int N = j->ranks, weights = j->hidden * (j->inputs + j->outputs);
  const int part = way == LAYERS ? j->rank / 2 : j->rank, parts = way == LAYERS ? N / 2 : N;
  if (way != TENSOR) s.rows = (share){part * (j->samples / parts), j->samples / parts};
  if (way == TENSOR) s.units = (share){part * (j->hidden / N), j->hidden / N};
  if (way == OWNER) s.weights = (share){part * (weights / N), weights / N};
  if (way == LAYERS) s.stage = j->rank % 2;
  return s;
}

static double right_bytes(const job *j, int way) {
  const double B = j->samples, P = j->inputs, H = j->hidden, K = j->outputs, N = j->ranks;
  if (way == SAMPLES) return 8 * levels(j->ranks) * H * (P + K);
  if (way == TENSOR) return 8 * levels(j->ranks) * B * (P + K);
  if (way == OWNER) return 8 * 3 * (N - 1) * (H * (P + K) / N);
  return 8 * (B / (N / 2) * H + levels(j->ranks / 2) * H * (j->rank % 2 ? K : P));
}

/* Seconds of a step on the rank that computes or sends most; INFINITY: it has not enough memory. */
static double step_seconds(job j, const machine *m, int way) {
  const double B = j.samples, P = j.inputs, H = j.hidden, K = j.outputs, N = j.ranks;
  double flops = 6 * B * H * (P + K) / N, bytes = 0, kept = 16 * H * (P + K) / (way == SAMPLES ? 1 : N);
  if (way == LAYERS) {
    const double micro_batches = j.leaves / (N / 2);
    flops = 6 * B / (N / 2) * H * fmax(P, K) * (micro_batches + 1) / micro_batches, kept = 16 * H * fmax(P, K);
  }
  for (j.rank = 0; j.rank < 2; j.rank++) bytes = fmax(bytes, right_bytes(&j, way));
  return kept <= m->memory ? flops / m->flops_per_s + bytes / m->bytes_per_s : INFINITY;
}

/* ---- training runs ----------------------------------------------------------------------------------------------- */

static void describe(int way, share is, share should, const char *of, const job *j) {
  if (is.first != should.first || is.n != should.n)
    fault(way, RESULTS, "%s on %d rank%s: rank %d has %d %s from number %d on, not %d from %d on", way_names[way],
          j->ranks, ending(j->ranks), j->rank, is.n, of, is.first, should.n, should.first);
}

/* Compares a rank's results with the part of the network that one rank trained. */
static void compare(const job *j, int way, const shares *s, const double *results, const part *truth) {
  static const char *const names[ARRAYS] = {
      "x", "t", "W1", "the momentum of W1", "W2", "the momentum of W2", "its weights", "its momentum", "dx"};
  size_t n[ARRAYS];
  sizes_of(j, way, s, n);
  for (int a = W1; a < ARRAYS; results += n[a++]) {
    const double *should = *array_of((part *)(uintptr_t)truth, a);
    if (!n[a] || memcmp(results, should, n[a] * sizeof *results) == 0) continue;
    size_t i = 0;
    while (memcmp(&results[i], &should[i], sizeof *results) == 0) i++;
    const int near = fabs(results[i] - should[i]) <= 1e-9 * (fabs(should[i]) + 1e-3);
    fault(way, RESULTS, "%s on %d rank%s: rank %d: number %zu of %s is %.17g, but on one rank %.17g%s", way_names[way],
          j->ranks, ending(j->ranks), j->rank, i, names[a], results[i], should[i],
          near ? ": only the last digits differ, so a sum has another order" : "");
  }
}

static void judge_rank(const job *j, int way, const whole *truth, const rank_outcome *o, const double *results) {
  const shares right = right_shares(j, way);
  const double bytes = right_bytes(j, way);
  part p;
  size_t n[ARRAYS], wanted = 0;
  describe(way, o->shares.rows, right.rows, "samples", j);
  describe(way, o->shares.units, right.units, "hidden units", j);
  describe(way, o->shares.weights, right.weights, "weights", j);
  if (way == LAYERS && o->shares.stage != right.stage)
    fault(way, RESULTS, "by layers on %d ranks: rank %d is in stage %d, not %d", j->ranks, j->rank, o->shares.stage,
          right.stage);
  sizes_of(j, way, &right, n);
  for (int a = W1; a < ARRAYS; a++) wanted += n[a];
  if (o->n != wanted)
    fault(way, RESULTS, "%s on %d ranks: rank %d has another part", way_names[way], j->ranks, j->rank);
  if (!*wrong[way][RESULTS]) {
    cut(truth, j, way, &right, &p);
    compare(j, way, &right, results, &p);
    part_free(&p);
  }
  if (o->sent != bytes * j->steps)
    fault(way, SENT, "%s on %d rank%s: rank %d sends %.0f bytes in a step, but %.0f are needed", way_names[way],
          j->ranks, ending(j->ranks), j->rank, o->sent / j->steps, bytes);
  if (!is_near(o->formula * j->steps, o->sent))
    fault(way, FORMULA, "%s on %d rank%s: by its formula rank %d sends %g bytes in a step, but it sent %.0f",
          way_names[way], j->ranks, ending(j->ranks), j->rank, o->formula, o->sent / j->steps);
}

/* Reads the outcome of a run, and judges it. 0: there is none. */
static int judge_run(const whole *truth, int way, int n) {
  outcome whole_run;
  job j = truth->job;
  j.ranks = n;
  if (fread(&whole_run, sizeof whole_run, 1, stdin) != 1) return 0;
  whole_run.fault[sizeof whole_run.fault - 1] = 0;
  if (*whole_run.fault) {
    fault(way, RESULTS, "%s on %d rank%s: %s", way_names[way], n, ending(n), whole_run.fault);
    fault(way, SENT, "%s on %d rank%s: no point for the bytes, because the run did not come to an end", way_names[way],
          n, ending(n));
  }
  for (j.rank = 0; j.rank < n; j.rank++) {
    rank_outcome o;
    if (fread(&o, sizeof o, 1, stdin) != 1 || o.n > MOST_RESULTS) return 0;
    double *results = numbers(o.n);
    const int whole_rank = fread(results, sizeof *results, o.n, stdin) == o.n;
    if (whole_rank && !*whole_run.fault) judge_rank(&j, way, truth, &o, results);
    free(results);
    if (!whole_rank) return 0;
  }
  return 1;
}

static int judge_runs(void) {
  for (int i = 0; i < NETWORKS; i++)
    for (int way = 0; way < WAYS; way++)
      for (int n = 1; n <= MOST_RANKS; n *= 2)
        if (is_possible(way, n) && !judge_run(&q.network[i], way, n)) return 0;
  return 1;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void judge_formulas(const double *answer) {
  for (int i = 0; i < COUNTED; i++) {
    const job *j = &q.numeric.counted[i];
    for (int way = 0; way < WAYS; way++, answer++)
      if (!is_near(*answer, right_bytes(j, way)))
        fault(
            way, FORMULA,
            "%s: by its formula rank %d of %d sends %g bytes in a step, but should send %.0f (B = %d, P = %d, H = %d, "
            "K = %d)",
            way_names[way], j->rank, j->ranks, *answer, right_bytes(j, way), j->samples, j->inputs, j->hidden,
            j->outputs);
  }
}

static void judge_pipelines(const double *answer, char *what, size_t n) {
  for (int i = 0; i < PIPELINES; i++) {
    const int stages = q.numeric.stages[i], batches = q.numeric.batches[i];
    const double right = (stages - 1.0) / (batches + stages - 1);
    if (!(fabs(answer[i] - right) < 1e-9) && !*what)
      snprintf(what, n, "with %d stages and %d micro-batches a stage does not wait for %.1f %% of a step", stages,
               batches, 100 * answer[i]);
  }
}

static void judge_choices(const double *answer, char *what, size_t n) {
  int right = 0, clear = 0;
  for (int i = 0; i < CHOICES; i++) {
    const job *j = &q.numeric.choice[i];
    double least = INFINITY, second = INFINITY;
    int best = 0;
    for (int way = 0; way < WAYS; way++) {
      const double s = step_seconds(*j, &q.numeric.machine[i], way);
      if (s < least)
        second = least, least = s, best = way;
      else if (s < second)
        second = s;
    }
    if (second < CLEAR * least) continue;
    clear++, right += answer[i] == best;
    if (answer[i] == best || *what) continue;
    const int is_way = answer[i] >= 0 && answer[i] < WAYS && answer[i] == floor(answer[i]);
    snprintf(what, n, "%s is not the fastest way for B = %d, P = %d, H = %d, K = %d on %d ranks",
             is_way ? way_names[(int)answer[i]] : "that", j->samples, j->inputs, j->hidden, j->outputs, j->ranks);
  }
  printf("the fastest way: %d of %d\n", right, clear);
}

/* ---- questions and verdict --------------------------------------------------------------------------------------- */

static int verdict(FILE *file) {
  uint64_t seed, answered;
  outcome last;
  double answer[NUMERIC_ANSWERS];
  char pipelines[256] = "", choices[256] = "";
  if (fscanf(file, "%" SCNx64, &seed) != 1) return puts("the questions are damaged"), 2;
  printf("seed %016" PRIx64 "; the same questions again: ./judge questions %016" PRIx64 "\n", seed, seed);
  draw(seed, &q);
  for (int i = 0; i < NETWORKS; i++) train_alone(&q.network[i]);
  const int whole_file = fread(&answered, sizeof answered, 1, stdin) == 1 && answered == seed && judge_runs() &&
                         fread(&last, sizeof last, 1, stdin) == 1 && fread(answer, sizeof answer, 1, stdin) == 1 &&
                         getchar() == EOF;
  if (!whole_file)
    return printf("wrong: the program gave no answer to these questions\npoints: 0 of %d\nnot ok\n", ALL), 1;
  judge_formulas(answer);
  judge_pipelines(answer + COUNTED * WAYS, pipelines, sizeof pipelines);
  judge_choices(answer + COUNTED * WAYS + PIPELINES, choices, sizeof choices);
  for (int way = 0; way < WAYS; way++)
    for (int check = 0; check < CHECKS; check++) judge(wrong[way][check]);
  judge(pipelines), judge(choices);
  printf("points: %d of %d\n%s\n", points, checks, points == checks ? "ok" : "not ok");
  return points != checks;
}

int main(int argc, char **argv) {
  uint64_t seed;
  if ((argc == 2 || argc == 3) && strcmp(argv[1], "questions") == 0) {
    if (argc == 3 ? sscanf(argv[2], "%" SCNx64, &seed) != 1 : getrandom(&seed, sizeof seed, 0) != sizeof seed) return 2;
    return printf("%016" PRIx64 "\n", seed) > 0 && fflush(stdout) == 0 ? 0 : 2;
  }
  FILE *file = argc == 3 && strcmp(argv[1], "verdict") == 0 ? fopen(argv[2], "r") : NULL;
  if (!file) return fputs("Usage: judge questions [SEED] >FILE; judge verdict FILE <ANSWERS\n", stderr), 2;
  const int code = verdict(file);
  fclose(file);
  questions_free(&q);
  return code;
}
