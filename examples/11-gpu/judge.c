/* Judges the codelet from outside: it never runs in the process that contains linear.c and linear_gpu.cu.
 *
 *   judge questions >FILE          draws random weights and data
 *   judge verdict FILE <ANSWERS    computes the networks and compares bit by bit
 *
 * The verdict has a line "wrong: ..." for each check that fails, then "points: N of M", then "ok" or "not ok". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "answers.h"

static questions q;
static answers a;
static float truth[NETWORKS][MOST_Y];
static int points, checks;

static void judge(int fine, const char *what) {
  checks++, points += fine;
  if (!fine) printf("wrong: %s\n", what);
}

static void draw(void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = getrandom((char *)to + done, bytes - done, 0);
    if (n <= 0) abort();
    done += (size_t)n;
  }
}

/* Numbers in [-1, 1) with 24 random bits: a product of two has more than a float can hold, so roundings show. */
static void draw_floats(float *to, int n) {
  uint32_t *word = malloc(sizeof *word * (size_t)n);
  if (!word) abort();
  draw(word, sizeof *word * (size_t)n);
  for (int i = 0; i < n; i++) to[i] = (float)(word[i] >> 7) * 0x1p-24f - 1;
  free(word);
}

static int ask(void) {
  draw(&q.nonce, sizeof q.nonce);
  draw(&q.seed, sizeof q.seed);
  q.seed = q.seed % 1000000 + 1;
  for (int k = 0; k < NETWORKS; k++) {
    draw_floats(q.x[k], MOST_X);
    draw_floats(q.w1[k], MOST_W), draw_floats(q.b1[k], MOST_W);
    draw_floats(q.w2[k], MOST_W), draw_floats(q.b2[k], MOST_W);
  }
  return fwrite(&q, sizeof q, 1, stdout) == 1 && fflush(stdout) == 0 ? 0 : 2;
}

static void layer(float *y, const float *x, const float *w, const float *b, int rows, int in, int out) {
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      float sum = b[o];
      for (int i = 0; i < in; i++) sum = fmaf(x[r * in + i], w[o * in + i], sum);
      y[r * out + o] = sum;
    }
}

static int tasks_of(const network *n) { return 2 * ((n->rows + n->tile - 1) / n->tile); }

/* Elements that differ from the truth: by more than a few roundings, and in any bit. */
static void compare(int place, int *far, int *bits, int *missing, int *tasks) {
  *far = *bits = *missing = 0, tasks[0] = tasks[1] = 0;
  for (int k = 0; k < NETWORKS; k++) {
    const network *n = &networks[k];
    float most = 0;
    tasks[0] += a.ran[place][k][0], tasks[1] += a.ran[place][k][1];
    *missing += !a.ended[place][k] || a.ran[place][k][0] + a.ran[place][k][1] != tasks_of(n);
    for (int i = 0; i < n->rows * n->out; i++) most = fmaxf(most, fabsf(truth[k][i]));
    for (int i = 0; i < n->rows * n->out; i++) {
      const int same = memcmp(&a.y[place][k][i], &truth[k][i], sizeof(float)) == 0;
      *bits += !same, *far += !(fabsf(a.y[place][k][i] - truth[k][i]) <= 1e-4f * most);
    }
  }
}

static void check_networks(void) {
  static const char *const names[PLACES] = {"on the core", "on the GPU", "in turn"};
  int far[PLACES], bits[PLACES], missing[PLACES], tasks[PLACES][2], all = 0;
  for (int p = 0; p < PLACES; p++) {
    compare(p, &far[p], &bits[p], &missing[p], tasks[p]);
    printf("%-12s tasks that a core ran %3d, a GPU %3d; elements far from right %4d, with other bits %4d%s\n", names[p],
           tasks[p][ON_CPU], tasks[p][ON_GPU], far[p], bits[p], missing[p] ? "; not all networks ended" : "");
  }
  for (int k = 0; k < NETWORKS; k++) all += tasks_of(&networks[k]);
  const int ran = tasks[ON_GPU][ON_GPU] == all && tasks[IN_TURN][ON_GPU] > 0 && tasks[IN_TURN][ON_CPU] > 0;
  /* Each check requires those before it: results that were not computed have no bits to compare. */
  const char *wrong = NULL;
  int passed = 0;
  if (missing[ON_CPU] || bits[ON_CPU])
    wrong = "the core's results are no longer right";
  else if (!ran)
    wrong = "the GPU did not run all tasks that it was given";
  else if (++passed && a.kernels >= 0 && a.kernels < all)
    wrong = "the GPU launched fewer kernels than it ran tasks: who computed?";
  else if (missing[ON_GPU] || far[ON_GPU])
    wrong = "the GPU's results are not x w^T + b";
  else if (++passed && bits[ON_GPU])
    wrong = "the GPU's results do not have the core's bits";
  else if (++passed && (missing[IN_TURN] || bits[IN_TURN]))
    wrong = "results differ when core and GPU work on them in turn";
  else
    passed++;
  checks += 4, points += passed;
  if (wrong) printf("wrong: %s\n", wrong);
}

static void check_schedules(void) {
  static const char *const names[RUNS] = {"dmda, nothing known yet",  "by turns", "dmda, calibrated",
                                          "dmda, x not written anew", "eager",    "the core alone"};
  int known = 1;
  puts("                          64 rows: core, GPU   4 rows: core, GPU   MB to GPU    back        ms");
  for (int r = 0; r < RUNS; r++)
    if (a.scheduled[r])
      printf("%-25s %14d %4d %14d %4d %11.2f %7.2f %9.1f\n", names[r], a.placed[r][LARGE][ON_CPU],
             a.placed[r][LARGE][ON_GPU], a.placed[r][SMALL][ON_CPU], a.placed[r][SMALL][ON_GPU], a.to_gpu[r] / 1e6,
             a.back[r] / 1e6, a.ms[r]);
  for (int s = 0; s < SIZES; s++) {
    known &= a.expected[s][ON_CPU] > 0 && a.expected[s][ON_GPU] > 0;
    printf("a task of %2d rows, by StarPU's samples: %8.0f us on the core, %8.0f us on the GPU\n", rows_of[s],
           a.expected[s][ON_CPU], a.expected[s][ON_GPU]);
  }
  judge(a.scheduled[CALIBRATED] && known, "StarPU cannot predict the times of tasks: it has no samples of both kinds");
}

int main(int argc, char **argv) {
  static float hidden[MOST_Y];
  if (argc == 2 && strcmp(argv[1], "questions") == 0) return ask();
  FILE *file = argc == 3 && strcmp(argv[1], "verdict") == 0 ? fopen(argv[2], "rb") : NULL;
  if (!file || fread(&q, sizeof q, 1, file) != 1)
    return fputs("Usage: judge questions >FILE; judge verdict FILE <ANSWERS\n", stderr), 2;
  fclose(file);
  if (fread(&a, sizeof a, 1, stdin) != 1 || getchar() != EOF || a.nonce != q.nonce) {
    puts("wrong: the program ended without answers\npoints: 0 of 5\nnot ok");
    return 1;
  }
  for (int k = 0; k < NETWORKS; k++) {
    const network *n = &networks[k];
    layer(hidden, q.x[k], q.w1[k], q.b1[k], n->rows, n->in, n->hidden);
    layer(truth[k], hidden, q.w2[k], q.b2[k], n->rows, n->hidden, n->out);
  }
  check_networks();
  check_schedules();
  const int ok = points == checks;
  printf("points: %d of %d\n%s\n", points, checks, ok ? "ok" : "not ok");
  return !ok;
}
