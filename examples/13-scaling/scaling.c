/* Lesson 13: the laws of Amdahl and Gustafson, and the time that a network takes. */
#include "scaling.h"

#include <math.h>

/* one_ms = u + d and two_ms = u + d / 2, with the undivided part u and the divided part d. */
double undivided_ms(const job *j) { return 2 * j->two_ms - j->one_ms; }

/* Halves, quarters, ... of the gradients go out, come back summed, and each of these messages has its latency. */
double exchange_ms(const job *j, int n) {
  const double messages = 2 * log2(n), sent = 2 * (1 - 1.0 / n) * j->megabytes;
  return 1e-3 * messages * j->latency_us + sent / j->gigabytes_per_s;
}

double strong_ms(const job *j, int n) {
  const double u = undivided_ms(j);
  return u + (j->one_ms - u) / n + exchange_ms(j, n);
}

double weak_ms(const job *j, int n) { return j->one_ms + exchange_ms(j, n); }

int most_nodes(const job *j, double efficiency) {
  int most = 1;
  for (int n = 1; n <= 32; n *= 2)
    if (j->one_ms / strong_ms(j, n) / n >= efficiency) most = n;
  return most;
}
