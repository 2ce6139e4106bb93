/* The activations that a network's sizes can name. */
#ifndef SL_MODELS_ACTIVATION_H
#define SL_MODELS_ACTIVATION_H

#include "models/models.h"

/* The identity, a choice of sizes beside those of sl_activation: a size of 0 (SL_ACTIVATION_NONE) is open. */
enum { SL__ACTIVATION_LINEAR = SL_ACTIVATION_GELU_TANH + 1 };
extern const char *const sl__activations[]; /* by number: "", "relu", "gelu", "gelu-tanh", "linear" */

/* An activation as a node of its own; the identity adds none. */
sl_value sl__activate(sl_graph *graph, const char *layer, sl_value x, int64_t activation);

/* A row of a family's table; `type`: its struct of sizes; `what`: where it is used; `usual`: of an open one. */
#define SL__ACTIVATION_SIZE(type, what, usual)                                                        \
  {                                                                                                   \
    .name = "activation", .help = what, .offset = offsetof(type, activation), .kind = SL_SIZE_CHOICE, \
    .derived = usual, .choices = sl__activations                                                      \
  }

#endif
