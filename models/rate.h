/* The learning rate of a step: it rises from 0 during the warm-up, then stays constant or falls. */
#ifndef SL_RATE_H
#define SL_RATE_H

#include <jansson.h>
#include <stdint.h>

#include "runtime/base/setting.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_rate_kind {
  SL_RATE_CONSTANT,
  SL_RATE_STEP,
  SL_RATE_LINEAR,
  SL_RATE_COSINE,
  SL_RATE_COUNT
} sl_rate_kind;

typedef struct sl_rate {
  sl_rate_kind kind;
  double peak;
  int64_t warmup; /* steps */
  int64_t steps;  /* of the whole training */
  int64_t every;  /* step: after every so many steps since the warm-up ... */
  double gamma;   /* ... the rate is multiplied by this */
  double floor;   /* linear, cosine: share of the peak that remains after the last step, 0 to 1 */
} sl_rate;

extern const char *const sl_rate_names[]; /* of the kinds, ended by NULL */

/* {"kind": "cosine", "warmup": 100, ...}: all fields but the peak, which is a setting of training. NULL: no memory. */
json_t *sl_rate_to_json(const sl_rate *rate);
sl_status sl_rate_from_json(const json_t *json, sl_rate *rate); /* SL_EFORMAT names what is missing or wrong */
/* Compares the fields that a->kind reads. Returns the first field in which a and b differ; NULL: none. The field
 * `steps` has no command-line option, so its setting has option NULL. */
const sl_setting *sl_rate_differs(const sl_rate *a, const sl_rate *b);
/* step counts from 1. Linear warm-up; cosine as Loshchilov and Hutter 2017 (eq. 5) without restarts. */
double sl_rate_at(const sl_rate *rate, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
