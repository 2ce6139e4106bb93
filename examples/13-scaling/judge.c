/* Judges predictions of how training scales, by simulations of the same jobs.
 *
 *   judge questions >FILE          draws jobs, and simulates each on one node, and on two with a perfect network
 *   judge verdict FILE <ANSWERS    simulates them on up to 32 nodes
 *
 * The verdict has a line "wrong: ..." for each check that fails, then "points: N of M", then "ok" or "not ok". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { JOBS = 2, ROWS = 6, LEAVES = 64 };
static const double PERFECT_RATE = 1250, PERFECT_LATENCY = 0.001, /* GB/s, us */
    TOLERANCE = 0.1, DOUBTFUL = 0.05; /* an efficiency this near the requested one counts as reached and as missed */

typedef struct job {
  int hidden, batch;
  double rate, latency, efficiency; /* GB/s, us */
  double one, two;                  /* ms */
} job;

typedef struct answer {
  double undivided, ideal[ROWS], strong[ROWS], weak[ROWS];
  int most;
} answer;

static int points, checks;

static void judge(int fine, const char *what) {
  checks++, points += fine;
  if (!fine) printf("wrong: %s\n", what);
}

/* Times of a step in ms on the numbers of nodes that the options list. Returns how many there are. */
static int simulate(const job *j, double rate, double latency, const char *options, double *ms) {
  char command[256], line[512];
  int n = 0;
  snprintf(command, sizeof command, "sh ./simulate.sh %d %d %d %g %g %s", j->hidden, j->batch, LEAVES, rate, latency,
           options);
  FILE *output = popen(command, "r");
  while (output && fgets(line, sizeof line, output)) {
    const char *at = strstr(line, "\"step_s\":");
    if (at && n < ROWS && sscanf(at, "\"step_s\": %lf", &ms[n]) == 1) ms[n++] *= 1e3;
  }
  return output && pclose(output) == 0 ? n : 0;
}

/* Weights and biases of three hidden layers and the last, as floats. */
static double megabytes(const job *j) {
  const double h = j->hidden;
  return 4e-6 * (784 * h + h + 2 * (h * h + h) + 10 * h + 10);
}

/* --- the questions ---------------------------------------------------------------------------------------------------
 */

static int ask(void) {
  static const int hidden[] = {512, 1024, 1536}, batch[] = {2048, 4096, 8192};
  static const double rate[] = {0.625, 1.25, 2.5}, latency[] = {5, 20, 50}, efficiency[] = {0.4, 0.5, 0.6, 0.7};
  unsigned char drawn[8 + 8 * JOBS];
  if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn) return 2;
  for (int i = 0; i < 8; i++) printf("%02x", drawn[i]);
  for (int i = 0; i < JOBS; i++) {
    const unsigned char *d = drawn + 8 + 8 * i;
    job j = {hidden[d[0] % 3], batch[d[1] % 3], rate[d[2] % 3], latency[d[3] % 3], efficiency[d[4] % 4], 0, 0};
    if (i == 0)
      j.batch = batch[0], j.rate = rate[d[2] % 2]; /* here neither the network nor the undivided part is small */
    double ms[ROWS];
    if (simulate(&j, PERFECT_RATE, PERFECT_LATENCY, "--nodes 1,2", ms) != 2) return 2;
    printf("\n%.9g %.9g %.9g %g %g %g", ms[0], ms[1], megabytes(&j), j.rate, j.latency, j.efficiency);
    printf(" hidden %d batch %d", j.hidden, j.batch);
  }
  return printf("\n") > 0 && fflush(stdout) == 0 ? 0 : 2;
}

/* --- the verdict -----------------------------------------------------------------------------------------------------
 */

static int read_job(FILE *file, job *j) {
  char line[256];
  return fgets(line, sizeof line, file) && sscanf(line, "%lf %lf %*f %lf %lf %lf hidden %d batch %d", &j->one, &j->two,
                                                  &j->rate, &j->latency, &j->efficiency, &j->hidden, &j->batch) == 7;
}

static int read_answer(answer *a) {
  int fine = scanf("%lf", &a->undivided) == 1;
  double *const rows[] = {a->ideal, a->strong, a->weak};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < ROWS; i++) fine = fine && scanf("%lf", &rows[k][i]) == 1;
  return fine && scanf("%d", &a->most) == 1;
}

/* Whether the predictions are near the simulated times; otherwise *words says where they first are not. */
static int are_near(const double *predicted, const double *simulated, const char *of, char *words, size_t n) {
  for (int i = 0; i < ROWS; i++) {
    if (fabs(predicted[i] - simulated[i]) <= TOLERANCE * simulated[i]) continue;
    snprintf(words, n, "%s: a step on %d nodes takes %.2f ms, not %.2f", of, 1 << i, simulated[i], predicted[i]);
    return 0;
  }
  return 1;
}

static double efficiency_of(const double *ms, int i) { return ms[0] / ms[i] / (1 << i); }

/* Whether n nodes are the most with that efficiency, by simulated times. */
static int is_most(const double *ms, int n, double efficiency) {
  int i = 0;
  while (i < ROWS - 1 && 1 << i < n) i++;
  return 1 << i == n && efficiency_of(ms, i) >= efficiency - DOUBTFUL &&
         (i == ROWS - 1 || efficiency_of(ms, i + 1) < efficiency + DOUBTFUL);
}

static int verdict(FILE *questions) {
  enum { UNDIVIDED, IDEAL, STRONG, WEAK, MOST, CHECKS };
  char number[64] = "", answered[64] = "", words[CHECKS][256] = {"", "", "", "", ""};
  int fine = fscanf(questions, "%63s ", number) == 1 && scanf("%63s", answered) == 1 && !strcmp(number, answered);
  if (!fine) return puts("wrong: the program gave no answer to these questions\npoints: 0 of 5\nnot ok"), 1;
  for (int i = 0; i < JOBS; i++) {
    static const char all[] = "--nodes 1,2,4,8,16,32";
    char weak_all[64];
    job j;
    answer a = {0};
    double ideal[ROWS], strong[ROWS], weak[ROWS];
    if (!read_job(questions, &j)) return puts("the questions are damaged"), 2;
    snprintf(weak_all, sizeof weak_all, "%s --weak", all);
    if (simulate(&j, PERFECT_RATE, PERFECT_LATENCY, all, ideal) != ROWS ||
        simulate(&j, j.rate, j.latency, all, strong) != ROWS || simulate(&j, j.rate, j.latency, weak_all, weak) != ROWS)
      return puts("the judge cannot simulate"), 2;
    if (!read_answer(&a)) a = (answer){.undivided = NAN};
    printf("job %d: %d hidden units, batch %d, %g GB/s, %g us\n", i + 1, j.hidden, j.batch, j.rate, j.latency);
    const double undivided = 2 * j.two - j.one;
    if (!*words[UNDIVIDED] && !(fabs(a.undivided - undivided) <= 0.02 * undivided + 1e-6))
      snprintf(words[UNDIVIDED], sizeof *words,
               "a step takes %.2f ms on one node and %.2f on two: %.3f ms are not what each node does whole", j.one,
               j.two, a.undivided);
    if (!*words[IDEAL]) are_near(a.ideal, ideal, "on a network that takes no time", words[IDEAL], sizeof *words);
    if (!*words[STRONG]) are_near(a.strong, strong, "strong scaling", words[STRONG], sizeof *words);
    if (!*words[WEAK]) are_near(a.weak, weak, "weak scaling", words[WEAK], sizeof *words);
    if (!*words[MOST] && !is_most(strong, a.most, j.efficiency))
      snprintf(words[MOST], sizeof *words, "%d nodes are not the most with an efficiency of %g or more", a.most,
               j.efficiency);
  }
  for (int k = 0; k < CHECKS; k++) judge(!*words[k], words[k]);
  printf("points: %d of %d\n%s\n", points, checks, points == checks ? "ok" : "not ok");
  return points != checks;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "questions") == 0) return ask();
  FILE *file = argc == 3 && strcmp(argv[1], "verdict") == 0 ? fopen(argv[2], "r") : NULL;
  if (!file) return fputs("Usage: judge questions >FILE; judge verdict FILE <ANSWERS\n", stderr), 2;
  const int code = verdict(file);
  fclose(file);
  return code;
}
