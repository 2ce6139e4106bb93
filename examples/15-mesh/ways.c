/* Lesson 15: a two-layer perceptron, divided by hand in four ways. ways.h says what each function gets and leaves. */
#include "ways.h"

#include <stdlib.h>
#include <string.h>

/* The number of doublings from 1 to n. */
static int doublings(int n) {
  int d = 0;
  while (1 << d < n) d++;
  return d;
}

/* Adds up partial sums of all ranks whose numbers differ from this rank's in bits of value `from` and above: first the
 * partner that differs in the lowest of these bits. So the sums form the tree (0 + 1) + (2 + 3). */
static void sum_over_ranks(const job *j, int from, double *a, size_t n) {
  double *other = numbers(n);
  for (int d = from; d < j->ranks; d *= 2) {
    send_to(j->rank ^ d, a, n);
    receive_from(j->rank ^ d, other, n);
    for (size_t i = 0; i < n; i++) a[i] += other[i];
  }
  free(other);
}

/* ---- by samples -------------------------------------------------------------------------------------------------- */

share rows_of(const job *j) {
  const int n = j->samples / j->ranks;
  return (share){j->rank * n, n};
}

void by_samples(const job *j, part *p) {
  const int rows = p->rows, H = j->hidden, K = j->outputs;
  const size_t n1 = (size_t)H * j->inputs, n2 = (size_t)K * H;
  double *h = numbers((size_t)rows * H), *dh = numbers((size_t)rows * H), *y = numbers((size_t)rows * K);
  double *g1 = numbers(n1), *g2 = numbers(n2);
  for (int s = 0; s < j->steps; s++) {
    hidden(j, rows, H, p->x, p->w1, h);
    output(j, rows, H, h, p->w2, y);
    output_gradient(j, rows, y, p->t, y);
    last_gradient(j, rows, H, y, h, g2);
    hidden_gradient(j, rows, H, y, p->w2, h, dh);
    first_gradient(j, rows, H, dh, p->x, g1);
    input_gradient(j, rows, H, dh, p->w1, p->dx);
    sum_over_ranks(j, 1, g1, n1);
    sum_over_ranks(j, 1, g2, n2);
    update(j, n1, g1, p->v1, p->w1);
    update(j, n2, g2, p->v2, p->w2);
  }
  free(h), free(dh), free(y), free(g1), free(g2);
}

double sent_by_samples(const job *j) {
  return 8.0 * doublings(j->ranks) * (j->inputs + j->outputs) * (double)j->hidden;
}

/* ---- by tensor --------------------------------------------------------------------------------------------------- */

share units_of(const job *j) {
  const int n = j->hidden / j->ranks;
  return (share){j->rank * n, n};
}

void by_tensor(const job *j, part *p) {
  const int B = p->rows, units = p->units, P = j->inputs, K = j->outputs;
  double *h = numbers((size_t)B * units), *dh = numbers((size_t)B * units), *y = numbers((size_t)B * K);
  double *g1 = numbers((size_t)units * P), *g2 = numbers((size_t)K * units);
  for (int s = 0; s < j->steps; s++) {
    hidden(j, B, units, p->x, p->w1, h);
    output(j, B, units, h, p->w2, y);
    sum_over_ranks(j, 1, y, (size_t)B * K);
    output_gradient(j, B, y, p->t, y);
    last_gradient(j, B, units, y, h, g2);
    hidden_gradient(j, B, units, y, p->w2, h, dh);
    first_gradient(j, B, units, dh, p->x, g1);
    input_gradient(j, B, units, dh, p->w1, p->dx);
    sum_over_ranks(j, 1, p->dx, (size_t)B * P);
    update(j, (size_t)units * P, g1, p->v1, p->w1);
    update(j, (size_t)K * units, g2, p->v2, p->w2);
  }
  free(h), free(dh), free(y), free(g1), free(g2);
}

double sent_by_tensor(const job *j) {
  return 8.0 * doublings(j->ranks) * (j->inputs + j->outputs) * (double)j->samples;
}

/* ---- by layers --------------------------------------------------------------------------------------------------- */

int stage_of(const job *j) { return j->rank % 2; }

share rows_of_pipeline(const job *j) {
  const int n = j->samples / (j->ranks / 2);
  return (share){j->rank / 2 * n, n};
}

void by_layers(const job *j, part *p) {
  const int stage = stage_of(j), other = j->rank ^ 1, H = j->hidden, P = j->inputs, K = j->outputs;
  const int rows = j->samples / j->leaves, micro_batches = p->rows / rows;
  const size_t n = (size_t)H * (stage ? K : P), passed = (size_t)rows * H;
  double *h = numbers(passed * micro_batches), *dh = numbers(passed), *y = numbers((size_t)rows * K);
  double *g = numbers(n * micro_batches);
  for (int s = 0; s < j->steps; s++) {
    for (int m = 0; m < micro_batches && stage == 0; m++) {
      hidden(j, rows, H, p->x + m * rows * P, p->w1, h + m * passed);
      send_to(other, h + m * passed, passed);
    }
    for (int m = 0; m < micro_batches && stage == 1; m++) {
      receive_from(other, h, passed);
      output(j, rows, H, h, p->w2, y);
      output_gradient(j, rows, y, p->t + m * rows * K, y);
      hidden_gradient(j, rows, H, y, p->w2, h, dh);
      send_to(other, dh, passed);
      last_gradient(j, rows, H, y, h, g + m * n);
    }
    for (int m = 0; m < micro_batches && stage == 0; m++) {
      receive_from(other, dh, passed);
      input_gradient(j, rows, H, dh, p->w1, p->dx + m * rows * P);
      first_gradient(j, rows, H, dh, p->x + m * rows * P, g + m * n);
    }
    add_tree(g, micro_batches, n);
    sum_over_ranks(j, 2, g, n);
    update(j, n, g, stage ? p->v2 : p->v1, stage ? p->w2 : p->w1);
  }
  free(h), free(dh), free(y), free(g);
}

double sent_by_layers(const job *j) {
  const double passed = (double)rows_of_pipeline(j).n * j->hidden;
  const double weights = (double)j->hidden * (stage_of(j) ? j->outputs : j->inputs);
  return 8 * (passed + doublings(j->ranks / 2) * weights);
}

double idle_share(int stages, int micro_batches) { return (stages - 1.0) / (micro_batches + stages - 1.0); }

/* ---- by owner ---------------------------------------------------------------------------------------------------- */

share weights_of(const job *j) {
  const int n = (j->inputs + j->outputs) * j->hidden / j->ranks;
  return (share){j->rank * n, n};
}

/* Gives every rank all weights. */
static void gather(const job *j, const double *own, double *all) {
  const share mine = weights_of(j);
  for (int r = 0; r < j->ranks; r++)
    if (r != j->rank) send_to(r, own, mine.n);
  memcpy(all + mine.first, own, mine.n * sizeof *all);
  for (int r = 0; r < j->ranks; r++)
    if (r != j->rank) receive_from(r, all + (size_t)r * mine.n, mine.n);
}

/* Gives the owner the sum of all ranks' gradients. part: [ranks][its weights]; the sum is in the first of them. */
static void sum_for_owners(const job *j, const double *g, double *part) {
  const share mine = weights_of(j);
  for (int r = 0; r < j->ranks; r++)
    if (r != j->rank) send_to(r, g + (size_t)r * mine.n, mine.n);
  memcpy(part + (size_t)j->rank * mine.n, g + mine.first, mine.n * sizeof *part);
  for (int r = 0; r < j->ranks; r++)
    if (r != j->rank) receive_from(r, part + (size_t)r * mine.n, mine.n);
  add_tree(part, j->ranks, mine.n);
}

void by_owner(const job *j, part *p) {
  const int rows = p->rows, H = j->hidden, K = j->outputs;
  const size_t n1 = (size_t)H * j->inputs, n = n1 + (size_t)K * H;
  double *h = numbers((size_t)rows * H), *dh = numbers((size_t)rows * H), *y = numbers((size_t)rows * K);
  double *w = numbers(n), *g = numbers(n), *sum = numbers(n);
  for (int s = 0; s < j->steps; s++) {
    gather(j, p->w, w);
    hidden(j, rows, H, p->x, w, h);
    output(j, rows, H, h, w + n1, y);
    output_gradient(j, rows, y, p->t, y);
    gather(j, p->w, w);
    last_gradient(j, rows, H, y, h, g + n1);
    hidden_gradient(j, rows, H, y, w + n1, h, dh);
    first_gradient(j, rows, H, dh, p->x, g);
    input_gradient(j, rows, H, dh, w, p->dx);
    sum_for_owners(j, g, sum);
    update(j, weights_of(j).n, sum, p->v, p->w);
  }
  free(h), free(dh), free(y), free(w), free(g), free(sum);
}

double sent_by_owner(const job *j) {
  return 8.0 * 3 * (j->ranks - 1) * ((double)(j->inputs + j->outputs) * j->hidden / j->ranks);
}

/* ---- which one? -------------------------------------------------------------------------------------------------- */

/* Seconds of a step, and the bytes of weights and momentum that the rank keeps. */
static double seconds(const job *j, const machine *m, int way, double *kept) {
  const double B = j->samples, H = j->hidden, P = j->inputs, K = j->outputs, N = j->ranks;
  double flops = 6 * B * H * (P + K) / N, sent = 0;
  *kept = 16 * H * (P + K);
  if (way == SAMPLES) sent = sent_by_samples(j);
  if (way == TENSOR) sent = sent_by_tensor(j), *kept /= N;
  if (way == OWNER) sent = sent_by_owner(j), *kept /= N;
  if (way == LAYERS) {
    const double widest = P > K ? P : K;
    for (int stage = 0; stage < 2; stage++) {
      job at = *j;
      at.rank = stage;
      if (sent_by_layers(&at) > sent) sent = sent_by_layers(&at);
    }
    flops = 6 * (B / (N / 2)) * H * widest / (1 - idle_share(2, j->leaves * 2 / j->ranks));
    *kept = 16 * H * widest;
  }
  return flops / m->flops_per_s + sent / m->bytes_per_s;
}

int fastest_way(const job *j, const machine *m) {
  int best = -1;
  double least = 0;
  for (int way = 0; way < WAYS; way++) {
    double kept;
    const double s = seconds(j, m, way, &kept);
    if (kept <= m->memory && (best < 0 || s < least)) best = way, least = s;
  }
  return best;
}
