/* mlp: a perceptron with two hidden layers, 784-1024-1024-10 on 28x28 images of ten classes. */
#include "models/models.h"

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *options, int training) {
  (void)options, (void)training;
  x = sl_flatten(g, "flatten", x);
  x = sl_linear(g, "fc1", x, 1024, SL_ACTIVATION_RELU);
  x = sl_linear(g, "fc2", x, 1024, SL_ACTIVATION_RELU);
  return sl_linear(g, "fc3", x, data->classes, SL_ACTIVATION_NONE);
}

const sl_model sl_model_mlp = {
    .name = "mlp",
    .summary = "perceptron with two hidden layers of 1024",
    .batch = 256,
    .epochs = 10,
    .training = {.optimizer = SL_OPTIMIZER_ADAMW,
                 .learning_rate = 1e-3,
                 .momentum = 0.9,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .decay = 0.01},
    .build = build,
};
