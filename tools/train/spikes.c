/* A loss leaps if it exceeds the mean of the previous steps by six standard deviations and by half a nat. The first
 * bound excludes noise; the second excludes small changes of a loss that hardly moves. Checkpoints hold the last
 * losses, so a resumed run judges like one that never stopped. */
#include "tools/train/spikes.h"

#include <math.h>
#include <string.h>

#include "runtime/numbers/statistics.h"

enum { LEAST = 20 };
static const double DEVIATIONS = 6, NATS = 0.5;

void sl__losses_add(sl__losses *l, double loss) {
  if (l->n == SL__LOSSES) memmove(l->last, l->last + 1, sizeof *l->last * (size_t)--l->n);
  l->last[l->n++] = loss;
}

int sl__loss_leaps(const sl__losses *l, double loss, double *mean, double *deviation) {
  *mean = l->n > 0 ? sl_mean(l->last, (size_t)l->n) : 0;
  *deviation = l->n > 0 ? sl_deviation(l->last, (size_t)l->n, *mean) : 0;
  if (!isfinite(loss)) return 1;
  return l->n >= LEAST && loss > *mean + DEVIATIONS * *deviation && loss > *mean + NATS;
}
