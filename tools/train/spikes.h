/* Detects leaps of the loss (--on-spike). */
#ifndef SL_TOOLS_SPIKES_H
#define SL_TOOLS_SPIKES_H

enum { SL__LOSSES = 100 };
typedef struct sl__losses {
  int n;
  double last[SL__LOSSES]; /* of the last n steps, the oldest first */
} sl__losses;

void sl__losses_add(sl__losses *losses, double loss);
/* Whether a loss leaps. *mean, *deviation: of the previous steps' losses. In the first 20 steps only a loss that is not
 * finite leaps. */
int sl__loss_leaps(const sl__losses *losses, double loss, double *mean, double *deviation);

#endif
