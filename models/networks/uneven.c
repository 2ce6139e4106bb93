/* uneven: a deep path of short tasks beside wide ones of long tasks, for images of ten classes. It is there to tell
 * schedulers apart. The deep path normalises and bends the same features again and again: a chain that nothing
 * shortens, in the forward pass as in the backward pass, and hardly any parameters. The wide paths are independent of
 * it and of one another, and ready at once. Whoever takes tasks in the order in which they became ready computes the
 * wide ones first, and then the chain, with one worker. */
#include <stdio.h>

#include "models/models.h"

enum { DEPTH = 28, NARROW = 4096, TOWERS = 4, WIDE = 4096, FEATURES = 64 };

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *options, int training) {
  char layer[32];
  (void)options, (void)training;
  x = sl_flatten(g, "flatten", x);
  sl_value deep = sl_linear(g, "deep.in", x, NARROW, SL_ACTIVATION_NONE);
  for (int d = 0; d < DEPTH; d++) {
    snprintf(layer, sizeof layer, "deep.norm%d", d);
    deep = sl_layernorm(g, layer, deep, 1e-5);
    snprintf(layer, sizeof layer, "deep.gelu%d", d);
    deep = sl_gelu(g, layer, deep, SL_GELU_TANH);
  }
  sl_value sum = sl_linear(g, "deep.out", deep, FEATURES, SL_ACTIVATION_NONE);
  for (int t = 0; t < TOWERS; t++) {
    snprintf(layer, sizeof layer, "wide%d.up", t);
    sl_value y = sl_linear(g, layer, x, WIDE, SL_ACTIVATION_RELU);
    snprintf(layer, sizeof layer, "wide%d.down", t);
    y = sl_linear(g, layer, y, FEATURES, SL_ACTIVATION_NONE);
    snprintf(layer, sizeof layer, "add%d", t);
    sum = sl_add(g, layer, sum, y);
  }
  return sl_linear(g, "head", sl_relu(g, "relu", sum), data->classes, SL_ACTIVATION_NONE);
}

const sl_model sl_model_uneven = {
    .name = "uneven",
    .summary = "a deep path of short tasks beside wide ones of long tasks, to tell schedulers apart",
    .batch = 64,
    .epochs = 5,
    .training = {.optimizer = SL_OPTIMIZER_SGD,
                 .learning_rate = 0.05,
                 .momentum = 0.9,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8},
    .build = build,
};
