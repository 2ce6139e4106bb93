/* The learning rate of a step: a rise from 0 over the first steps, then constant, or down to 0 at the last step. */
#ifndef SL_TOOLS_LEARNING_RATE_H
#define SL_TOOLS_LEARNING_RATE_H

#include <stdint.h>

typedef enum sl__rate_kind { SL__RATE_CONSTANT, SL__RATE_LINEAR, SL__RATE_COSINE } sl__rate_kind;

typedef struct sl__rate {
  sl__rate_kind kind;
  double peak;
  int64_t warmup; /* steps */
  int64_t steps;  /* in all */
} sl__rate;

sl__rate_kind sl__rate_parse(const char *name); /* of --rate-schedule, checked there */
/* step counts from 1. Linear warm-up; cosine as Loshchilov and Hutter 2017 (eq. 5) without restarts. */
double sl__rate_at(const sl__rate *rate, int64_t step);

#endif
