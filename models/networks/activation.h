/* The activations that a network's sizes can name. */
#ifndef SL_MODELS_ACTIVATION_H
#define SL_MODELS_ACTIVATION_H

#include "models/models.h"

/* The identity, a further choice beside those of sl_activation. SL_ACTIVATION_NONE cannot stand for the identity,
 * because a size of 0 is open. */
enum { SL__ACTIVATION_LINEAR = SL_ACTIVATION_GELU_TANH + 1 };
extern const char *const sl__activations[]; /* by number: "", "relu", "gelu", "gelu-tanh", "linear" */

/* An activation as a node of its own; the identity adds none. */
sl_value sl__activate(sl_graph *graph, const char *layer, sl_value x, int64_t activation);

/* A row of a family's table of sizes. `type`: the family's struct of sizes. `what`: where the activation is used.
 * `usual`: the value of an open activation. */
#define SL__ACTIVATION_SIZE(type, what, usual)                                                        \
  {                                                                                                   \
    .name = "activation", .help = what, .offset = offsetof(type, activation), .kind = SL_SIZE_CHOICE, \
    .derived = usual, .choices = sl__activations                                                      \
  }

#endif
