/* A loss leaps if it exceeds the mean of the previous steps by six standard deviations and by half a nat. The first
 * bound excludes noise; the second excludes small changes of a loss that hardly moves. Checkpoints hold the last
 * losses, so a resumed run judges like one that never stopped. */
#include "tools/train/spikes.h"

#include <math.h>
#include <string.h>

enum { LEAST = 20 };
static const double DEVIATIONS = 6, NATS = 0.5;

void sl__losses_add(sl__losses *l, double loss) {
  if (l->n == SL__LOSSES) memmove(l->last, l->last + 1, sizeof *l->last * (size_t)--l->n);
  l->last[l->n++] = loss;
}

int sl__loss_leaps(const sl__losses *l, double loss, double *mean, double *deviation) {
  double sum = 0, squares = 0;
  *mean = *deviation = 0;
  for (int i = 0; i < l->n; i++) sum += l->last[i];
  if (l->n > 0) *mean = sum / l->n;
  for (int i = 0; i < l->n; i++) squares += (l->last[i] - *mean) * (l->last[i] - *mean);
  if (l->n > 0) *deviation = sqrt(squares / l->n);
  if (!isfinite(loss)) return 1;
  return l->n >= LEAST && loss > *mean + DEVIATIONS * *deviation && loss > *mean + NATS;
}
