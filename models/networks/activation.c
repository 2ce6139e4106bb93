/* The activations that a network's sizes can name, and their nodes. */
#include "models/networks/activation.h"

const char *const sl__activations[] = {"", "relu", "gelu", "gelu-tanh", "linear", NULL};
_Static_assert(SL_ACTIVATION_RELU == 1 && SL_ACTIVATION_GELU_ERF == 2 && SL_ACTIVATION_GELU_TANH == 3 &&
                   SL__ACTIVATION_LINEAR == 4,
               "names in the order of sl_activation");

sl_value sl__activate(sl_graph *g, const char *layer, sl_value x, int64_t activation) {
  if (activation == SL__ACTIVATION_LINEAR) return x;
  if (activation == SL_ACTIVATION_RELU) return sl_relu(g, layer, x);
  return sl_gelu(g, layer, x, activation == SL_ACTIVATION_GELU_TANH ? SL_GELU_TANH : SL_GELU_ERF);
}
