/* Whether the loss of a step leaps above its recent course (--on-spike). */
#ifndef SL_TOOLS_SPIKES_H
#define SL_TOOLS_SPIKES_H

enum { SL__LOSSES = 100 };
typedef struct sl__losses {
  int n;
  double last[SL__LOSSES]; /* of the last n steps, the oldest first */
} sl__losses;

void sl__losses_add(sl__losses *losses, double loss);
/* Whether a loss leaps, and what it is compared with: mean and standard deviation of the steps before. Before the 20th
 * step only a loss that is not finite does. */
int sl__loss_leaps(const sl__losses *losses, double loss, double *mean, double *deviation);

#endif
