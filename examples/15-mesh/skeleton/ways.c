/* Lesson 15: a two-layer perceptron to be divided by hand in four ways. ways.h says what each function gets and leaves.
 * At present every rank has everything, computes everything and sends nothing. */
#include "ways.h"

#include <stdlib.h>

/* ---- by samples -------------------------------------------------------------------------------------------------- */

/* To do: rank 0 has the first samples, rank 1 the next, and so on. */
share rows_of(const job *j) { return (share){0, j->samples}; }

/* To do: which of these results are sums over all samples? Add up the ranks' partial sums, by the tree
 * (0 + 1) + (2 + 3): exchange them with the rank whose number differs in the lowest bit, then in the next bit. */
void by_samples(const job *j, part *p) {
  const int rows = p->rows, H = j->hidden, K = j->outputs;
  const size_t n1 = (size_t)H * j->inputs, n2 = (size_t)K * H;
  double *h = numbers((size_t)rows * H), *dh = numbers((size_t)rows * H), *y = numbers((size_t)rows * K);
  double *g1 = numbers(n1), *g2 = numbers(n2);
  for (int s = 0; s < j->steps; s++) {
    hidden(j, rows, H, p->x, p->w1, h);
    output(j, rows, H, h, p->w2, y);
    output_gradient(j, rows, y, p->t, y); /* y is dy from here on */
    last_gradient(j, rows, H, y, h, g2);
    hidden_gradient(j, rows, H, y, p->w2, h, dh);
    first_gradient(j, rows, H, dh, p->x, g1);
    input_gradient(j, rows, H, dh, p->w1, p->dx);
    update(j, n1, g1, p->v1, p->w1);
    update(j, n2, g2, p->v2, p->w2);
  }
  free(h), free(dh), free(y), free(g1), free(g2);
}

/* To do. */
double sent_by_samples(const job *j) {
  (void)j;
  return 0;
}

/* ---- by tensor --------------------------------------------------------------------------------------------------- */

/* To do: rank 0 has the first hidden units, rank 1 the next, and so on. */
share units_of(const job *j) { return (share){0, j->hidden}; }

/* To do: the same kernels on p->units in place of all hidden units. Two results are now sums over the ranks. */
void by_tensor(const job *j, part *p) { (void)j, (void)p; }

/* To do. */
double sent_by_tensor(const job *j) {
  (void)j;
  return 0;
}

/* ---- by layers --------------------------------------------------------------------------------------------------- */

/* To do: ranks 0 and 1 are the stages of the first pipeline, ranks 2 and 3 those of the second. */
int stage_of(const job *j) {
  (void)j;
  return 0;
}

/* To do: the first pipeline has the first samples, the second the next. */
share rows_of_pipeline(const job *j) { return (share){0, j->samples}; }

/* To do: stage 0 computes h of one micro-batch after the other, and sends each to stage 1. Stage 1 computes y, dy and
 * dh of each, and sends dh back. Each stage keeps the gradients of its micro-batches apart, adds them up by add_tree()
 * in the end, and then exchanges the sum with the same stage of the other pipeline, if there is one. A micro-batch has
 * j->samples / j->leaves samples. */
void by_layers(const job *j, part *p) { (void)j, (void)p; }

/* To do. */
double sent_by_layers(const job *j) {
  (void)j;
  return 0;
}

/* To do. */
double idle_share(int stages, int micro_batches) {
  (void)stages, (void)micro_batches;
  return 0;
}

/* ---- by owner ---------------------------------------------------------------------------------------------------- */

/* To do: rank 0 owns the first of all weights, rank 1 the next, and so on. */
share weights_of(const job *j) { return (share){0, (j->inputs + j->outputs) * j->hidden}; }

/* To do: gather all weights, each rank's from their owner, before the forward pass and again before the backward pass
 * (output_gradient is the end of the forward pass). Send each rank's gradients directly to the owner of the weights,
 * who adds them up by add_tree() and updates. */
void by_owner(const job *j, part *p) { (void)j, (void)p; }

/* To do. */
double sent_by_owner(const job *j) {
  (void)j;
  return 0;
}

/* ---- which one? -------------------------------------------------------------------------------------------------- */

/* To do: the page says how long a way takes, and what a rank keeps. */
int fastest_way(const job *j, const machine *m) {
  (void)j, (void)m;
  return SAMPLES;
}
