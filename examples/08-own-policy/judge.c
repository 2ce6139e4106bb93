/* Judges a scheduling policy from outside: it never runs in the process that contains policy.so.
 *
 *   judge questions >FILE          writes random graphs of tasks
 *   judge verdict FILE <ANSWERS    follows the games by the simulated clock: who got which task, and when?
 *
 * The verdict has a line "wrong: ..." for each check that fails, then "points: N of M", then "ok" or "not ok". The time
 * of steps is printed but not judged, because it depends on the machine's other work. */
#define _GNU_SOURCE /* CPU_COUNT */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "answers.h"
#include "steps.h"

static questions q;
static answers a;
static int points, checks;

static void judge(int fine, const char *what) {
  checks++, points += fine;
  if (!fine) printf("wrong: %s\n", what);
}

static uint32_t draw(uint32_t below) {
  uint32_t word;
  if (getrandom(&word, sizeof word, 0) != sizeof word) abort();
  return word % below;
}

/* Makes a graph in which every fourth task belongs to one long chain; half of the others are ready at once. */
static void make_game(task *game) {
  for (int t = 0; t < TASKS; t++) {
    const int in_chain = t % 4 == 3;
    game[t].length = in_chain ? 8 + (int32_t)draw(8) : 1 + (int32_t)draw(20);
    for (int b = 0; b < BEFORE; b++) game[t].before[b] = in_chain || t < 8 || draw(4) ? -1 : (int32_t)draw((uint32_t)t);
    if (in_chain && t >= 4) game[t].before[0] = t - 4;
  }
  for (int t = TASKS; t-- > 0;) {
    game[t].priority += game[t].length; /* until now: the longest path after the task */
    for (int b = 0; b < BEFORE; b++) {
      const int before = game[t].before[b];
      if (before >= 0 && game[before].priority < game[t].priority) game[before].priority = game[t].priority;
    }
  }
}

static int ask(void) {
  if (getrandom(&q.nonce, sizeof q.nonce, 0) != sizeof q.nonce) return 2;
  for (int g = 0; g < GAMES; g++) make_game(q.game[g]);
  q.seed = draw(1 << 30);
  return fwrite(&q, sizeof q, 1, stdout) == 1 && fflush(stdout) == 0 ? 0 : 2;
}

/* A game, by the simulated clock. */
typedef struct game {
  const task *task;
  int until[TASKS]; /* tick at which the task ends; -1: not started */
  int tick, running, workers;
} game;

static int is_ready(const game *g, int t) {
  int ready = g->until[t] < 0;
  for (int b = 0; b < BEFORE; b++) {
    const int before = g->task[t].before[b];
    ready &= before < 0 || (g->until[before] >= 0 && g->until[before] <= g->tick);
  }
  return ready;
}

/* The tick at which a ready task became ready. */
static int arrival(const game *g, int t) {
  int tick = 0;
  for (int b = 0; b < BEFORE; b++) {
    const int before = g->task[t].before[b];
    if (before >= 0 && g->until[before] > tick) tick = g->until[before];
  }
  return tick;
}

/* The ready task of the highest priority; with `eager` the one that became ready first. -1: none. */
static int best_ready(const game *g, int eager) {
  int best = -1;
  for (int t = 0; t < TASKS; t++)
    if (is_ready(g, t) &&
        (best < 0 || (eager ? arrival(g, t) < arrival(g, best) : g->task[t].priority > g->task[best].priority)))
      best = t;
  return best;
}

static void begin(game *g, const task *tasks, int workers) {
  *g = (game){.task = tasks, .workers = workers};
  for (int t = 0; t < TASKS; t++) g->until[t] = -1;
}

static void start_task(game *g, int t) { g->until[t] = g->tick + g->task[t].length, g->running++; }

/* Advances to the next end of a task; 0: no task runs. */
static int advance(game *g) {
  int next = -1;
  for (int t = 0; t < TASKS; t++)
    if (g->until[t] > g->tick && (next < 0 || g->until[t] < next)) next = g->until[t];
  if (next < 0) return 0;
  g->tick = next;
  for (int t = 0; t < TASKS; t++) g->running -= g->until[t] == next;
  return 1;
}

/* Ticks of a whole game, in the order of priorities or like eager. */
static int ticks(const task *tasks, int workers, int eager) {
  game g;
  begin(&g, tasks, workers);
  do
    for (int t; g.running < workers && (t = best_ready(&g, eager)) >= 0;) start_task(&g, t);
  while (advance(&g));
  return g.tick;
}

/* Faults found in a game. */
typedef struct faults {
  int missing, idle, order, ticks;
} faults;

static void follow(const task *tasks, const start *record, int n, int workers, faults *f) {
  game g;
  int at = 0, done = 0;
  begin(&g, tasks, workers);
  do {
    for (; at < n && record[at].tick == g.tick; at++) {
      const int t = record[at].task, best = best_ready(&g, 0);
      if (t < 0 || t >= TASKS || !is_ready(&g, t) || g.running >= workers) {
        f->missing++;
        return;
      }
      /* Two workers that ask at the same tick may start in either order; only which tasks they got counts. */
      if (tasks[t].priority < tasks[best].priority) {
        int later = 0;
        for (int k = at + 1; k < n && record[k].tick == g.tick; k++) later |= record[k].task == best;
        if (!later && f->order++ == 0)
          printf("tick %d: task %d of priority %d was taken while task %d of priority %d was ready\n", g.tick, t,
                 tasks[t].priority, best, tasks[best].priority);
      }
      start_task(&g, t);
      done++;
    }
    if (g.running < workers && best_ready(&g, 0) >= 0 && f->idle++ == 0)
      printf("tick %d: %d of %d workers had a task, although task %d was ready\n", g.tick, g.running, workers,
             best_ready(&g, 0));
  } while (advance(&g));
  f->missing += TASKS - done;
  f->ticks += g.tick;
}

int main(int argc, char **argv) {
  cpu_set_t cores;
  faults f = {0};
  uint64_t parameters;
  int by_priority = 0, as_eager = 0;
  double ms;
  char name[64];
  if (argc == 2 && strcmp(argv[1], "questions") == 0) return ask();
  FILE *file = argc == 3 && strcmp(argv[1], "verdict") == 0 ? fopen(argv[2], "rb") : NULL;
  if (!file || fread(&q, sizeof q, 1, file) != 1)
    return fputs("Usage: judge questions >FILE; judge verdict FILE <ANSWERS\n", stderr), 2;
  fclose(file);
  if (fread(&a, sizeof a, 1, stdin) != 1 || getchar() != EOF || a.nonce != q.nonce) {
    puts("wrong: the program ended without answers\npoints: 0 of 4\nnot ok");
    return 1;
  }
  const int workers = sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) < WORKERS ? 1 : WORKERS;
  for (int i = 0; i < GAMES; i++) {
    const int n = a.started[i] < 0 || a.started[i] > TASKS ? 0 : a.started[i];
    follow(q.game[i], a.start[i], n, workers, &f);
    by_priority += ticks(q.game[i], workers, 0), as_eager += ticks(q.game[i], workers, 1);
  }
  if (f.missing == 0)
    printf("simulated time: %d ticks; longest path first %d, eager %d\n", f.ticks, by_priority, as_eager);
  judge(f.missing == 0, "tasks were never given to a worker");
  judge(f.missing == 0 && f.idle == 0, "a worker stayed idle while a task was ready");
  judge(f.missing < GAMES * TASKS && f.order == 0, "a task was taken while one with a longer path was ready");
  if (steps_run(NULL, q.seed, &parameters, &ms, name) != SL_OK) return printf("%s\n", sl_error()), 2;
  judge(a.parameters == parameters, "training under the policy did not end with the parameters of eager");
  if (a.parameters == parameters)
    printf("remark: a step took %.2f ms under the policy, and %.2f ms under %s\n", a.ms, ms, name);
  printf("points: %d of %d\n%s\n", points, checks, points == checks ? "ok" : "not ok");
  return points != checks;
}
