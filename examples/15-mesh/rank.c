/* Lesson 15: one rank, a process with the functions of ways.c. Its messages go through mesh.c, which started it, by a
 * socket that is its standard input. It knows only its own part of a network. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "answers.h"
#include "run.h"

enum { SWITCH = 0 };

static void put(const void *bytes, size_t n) {
  for (const char *at = bytes; n > 0;) {
    const ssize_t done = write(SWITCH, at, n);
    if (done <= 0) exit(2);
    at += done, n -= (size_t)done;
  }
}

static void get(void *bytes, size_t n) {
  for (char *at = bytes; n > 0;) {
    const ssize_t done = read(SWITCH, at, n);
    if (done <= 0) exit(2);
    at += done, n -= (size_t)done;
  }
}

static void put_frame(int kind, int peer, size_t n) {
  const frame f = {.kind = kind, .peer = peer, .n = n};
  put(&f, sizeof f);
}

void send_to(int rank, const double *numbers, size_t n) {
  put_frame(SEND, rank, n);
  put(numbers, n * sizeof *numbers);
}

void receive_from(int rank, double *numbers, size_t n) {
  frame f;
  put_frame(RECEIVE, rank, n);
  get(&f, sizeof f);
  get(numbers, n * sizeof *numbers);
}

static void train(const task *t) {
  const shares s = shares_of(&t->job, t->way);
  part p;
  size_t n[ARRAYS], results = 0;
  frame f;
  put_frame(SHARES, 0, sizeof s);
  put(&s, sizeof s);
  get(&f, sizeof f); /* mesh.c answers only if the shares lie within the network */
  part_allocate(&t->job, t->way, &s, &p);
  sizes_of(&t->job, t->way, &s, n);
  for (int a = 0; a < DX; a++)
    if (n[a]) get(*array_of(&p, a), n[a] * sizeof(double));
  run(&t->job, t->way, &p);
  for (int a = W1; a < ARRAYS; a++) results += n[a];
  put_frame(RESULT, 0, 1 + results);
  put(&(double){formula(&t->job, t->way)}, sizeof(double));
  for (int a = W1; a < ARRAYS; a++)
    if (n[a]) put(*array_of(&p, a), n[a] * sizeof(double));
  part_free(&p);
}

static void count(void) {
  numeric q;
  double answer[NUMERIC_ANSWERS], *to = answer;
  get(&q, sizeof q);
  for (int i = 0; i < COUNTED; i++)
    for (int way = 0; way < WAYS; way++) *to++ = formula(&q.counted[i], way);
  for (int i = 0; i < PIPELINES; i++) *to++ = idle_share(q.stages[i], q.batches[i]);
  for (int i = 0; i < CHOICES; i++) *to++ = fastest_way(&q.choice[i], &q.machine[i]);
  put_frame(RESULT, 0, NUMERIC_ANSWERS);
  put(answer, sizeof answer);
}

int main(void) {
  frame f;
  task t;
  get(&f, sizeof f);
  get(&t, sizeof t);
  if (t.way == WAYS)
    count();
  else
    train(&t);
  return fflush(stdout) != 0;
}
