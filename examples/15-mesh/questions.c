/* Lesson 15: questions from a seed, and the parts of a network that a rank gets. */
#include "questions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const way_names[WAYS] = {"by samples", "by tensor", "by layers", "by owner"};

int is_possible(int way, int ranks) { return way != LAYERS || ranks > 1; }

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* splitmix64: Steele, Lea, Flood 2014. */
static uint64_t next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static int below(uint64_t *state, int n) { return (int)(next(state) % (uint64_t)n); }

static double *draw_numbers(uint64_t *state, size_t n, double width) {
  double *a = numbers(n);
  for (size_t i = 0; i < n; i++) a[i] = width * ((double)(next(state) >> 11) * 0x1p-52 - 1);
  return a;
}

static void draw_network(uint64_t *state, whole *n) {
  job *j = &n->job;
  *j = (job){.ranks = 1, .steps = 3, .rate = 0.01};
  j->leaves = 4 << below(state, 2), j->folds = 4 << below(state, 2);
  j->samples = j->leaves * (2 + below(state, 3)), j->hidden = j->folds * (2 + below(state, 4));
  j->inputs = 5 + below(state, 8), j->outputs = 3 + below(state, 5);
  const size_t B = j->samples, P = j->inputs, H = j->hidden, K = j->outputs;
  n->x = draw_numbers(state, B * P, 1), n->t = draw_numbers(state, B * K, 1);
  n->w1 = draw_numbers(state, H * P, 1), n->w2 = draw_numbers(state, K * H, 0.5);
  n->v1 = draw_numbers(state, H * P, 0.125), n->v2 = draw_numbers(state, K * H, 0.125);
  n->dx = numbers(B * P);
}

/* 64 to 64 << doublings, or three halves of that. */
static int draw_size(uint64_t *state, int doublings) {
  const int size = 64 << below(state, doublings + 1);
  return below(state, 2) ? size : size / 2 * 3;
}

static job draw_large(uint64_t *state, int most_doublings) {
  job j = {.ranks = 2 << below(state, most_doublings), .steps = 1, .rate = 0.01};
  j.rank = below(state, j.ranks);
  j.samples = draw_size(state, 8), j.hidden = draw_size(state, 8), j.inputs = draw_size(state, 7);
  j.outputs = below(state, 2) ? j.inputs : draw_size(state, 7);
  j.leaves = 16 << below(state, 2), j.folds = 16;
  return j;
}

void draw(uint64_t seed, questions *q) {
  static const double flops[] = {1e11, 1e12, 1e13}, bytes[] = {1e9, 1e10, 1e11};
  uint64_t state = seed;
  numeric *of = &q->numeric;
  memset(q, 0, sizeof *q);
  for (int i = 0; i < NETWORKS; i++) draw_network(&state, &q->network[i]);
  for (int i = 0; i < COUNTED; i++) of->counted[i] = draw_large(&state, 4);
  for (int i = 0; i < PIPELINES; i++) of->stages[i] = 2 + below(&state, 15), of->batches[i] = 1 + below(&state, 64);
  for (int i = 0; i < CHOICES; i++) {
    const job *j = &of->choice[i];
    machine *m = &of->machine[i];
    of->choice[i] = draw_large(&state, 2);
    m->flops_per_s = flops[below(&state, 3)], m->bytes_per_s = bytes[below(&state, 3)];
    /* All weights and their momentum are 16 bytes a weight: they fit, or not. */
    m->memory = (below(&state, 2) ? 48.0 : 9.0) * j->hidden * (j->inputs + j->outputs);
  }
}

void questions_free(questions *q) {
  for (int i = 0; i < NETWORKS; i++) {
    whole *n = &q->network[i];
    free(n->x), free(n->t), free(n->w1), free(n->v1), free(n->w2), free(n->v2), free(n->dx);
  }
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

double **array_of(part *p, int array) {
  double **all[ARRAYS] = {&p->x, &p->t, &p->w1, &p->v1, &p->w2, &p->v2, &p->w, &p->v, &p->dx};
  return all[array];
}

static int is_within(share s, int n) { return s.first >= 0 && s.n >= 0 && s.first <= n && s.n <= n - s.first; }

int are_within(const job *j, const shares *s) {
  return is_within(s->rows, j->samples) && is_within(s->units, j->hidden) &&
         is_within(s->weights, (j->inputs + j->outputs) * j->hidden) && (s->stage == 0 || s->stage == 1);
}

void sizes_of(const job *j, int way, const shares *s, size_t n[ARRAYS]) {
  const size_t rows = (size_t)s->rows.n, units = (size_t)s->units.n;
  memset(n, 0, ARRAYS * sizeof *n);
  const int first = way != LAYERS || s->stage == 0, last = way != LAYERS || s->stage == 1;
  if (first) n[X] = n[DX] = rows * j->inputs;
  if (last) n[T] = rows * j->outputs;
  if (way == OWNER) {
    n[W] = n[V] = s->weights.n;
    return;
  }
  if (first) n[W1] = n[V1] = units * j->inputs;
  if (last) n[W2] = n[V2] = units * j->outputs;
}

void part_allocate(const job *j, int way, const shares *s, part *p) {
  size_t n[ARRAYS];
  sizes_of(j, way, s, n);
  *p = (part){.rows = s->rows.n, .units = s->units.n};
  for (int a = 0; a < ARRAYS; a++)
    if (n[a]) *array_of(p, a) = numbers(n[a]);
}

void part_free(part *p) {
  for (int a = 0; a < ARRAYS; a++) free(*array_of(p, a));
}

/* Copies weights s.first to s.first + s.n - 1 of all weights, which are w1 and then w2. */
static void copy_weights(double *to, const double *w1, size_t n1, const double *w2, share s) {
  for (int i = 0; i < s.n; i++) {
    const size_t at = (size_t)s.first + i;
    to[i] = at < n1 ? w1[at] : w2[at - n1];
  }
}

void cut(const whole *n, const job *j, int way, const shares *s, part *p) {
  const size_t P = j->inputs, K = j->outputs, H = j->hidden, rows = s->rows.n, from = s->rows.first;
  const size_t unit = s->units.first, units = s->units.n;
  part_allocate(j, way, s, p);
  if (p->x) memcpy(p->x, n->x + from * P, rows * P * sizeof(double));
  if (p->dx) memcpy(p->dx, n->dx + from * P, rows * P * sizeof(double));
  if (p->t) memcpy(p->t, n->t + from * K, rows * K * sizeof(double));
  if (p->w1) memcpy(p->w1, n->w1 + unit * P, units * P * sizeof(double));
  if (p->v1) memcpy(p->v1, n->v1 + unit * P, units * P * sizeof(double));
  for (size_t k = 0; k < K && p->w2; k++) {
    memcpy(p->w2 + k * units, n->w2 + k * H + unit, units * sizeof(double));
    memcpy(p->v2 + k * units, n->v2 + k * H + unit, units * sizeof(double));
  }
  if (p->w) copy_weights(p->w, n->w1, H * P, n->w2, s->weights);
  if (p->v) copy_weights(p->v, n->v1, H * P, n->v2, s->weights);
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

void train_alone(whole *n) {
  const job *j = &n->job;
  const size_t B = j->samples, P = j->inputs, H = j->hidden, K = j->outputs;
  double *h = numbers(B * H), *dh = numbers(B * H), *y = numbers(B * K), *g1 = numbers(H * P), *g2 = numbers(K * H);
  for (int s = 0; s < j->steps; s++) {
    hidden(j, j->samples, j->hidden, n->x, n->w1, h);
    output(j, j->samples, j->hidden, h, n->w2, y);
    output_gradient(j, j->samples, y, n->t, y);
    last_gradient(j, j->samples, j->hidden, y, h, g2);
    hidden_gradient(j, j->samples, j->hidden, y, n->w2, h, dh);
    first_gradient(j, j->samples, j->hidden, dh, n->x, g1);
    input_gradient(j, j->samples, j->hidden, dh, n->w1, n->dx);
    update(j, H * P, g1, n->v1, n->w1);
    update(j, K * H, g2, n->v2, n->w2);
  }
  free(h), free(dh), free(y), free(g1), free(g2);
}
