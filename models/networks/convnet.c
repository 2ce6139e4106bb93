/* lenet: two 3x3 convolutions of 32 and 64 channels, each max-pooled by 2, and two linear layers (after LeCun et al.
 * 1998).
 *
 * The rectifier stands behind the pooling: max(relu(x)) = relu(max(x)), and there it works on a quarter of the
 * elements. */
#include "models/models.h"

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *options, int training) {
  (void)options, (void)training;
  x = sl_conv2d(g, "conv1", x, 32, 3, 1, 1, 1);
  x = sl_relu(g, "relu1", sl_maxpool(g, "pool1", x, 2, 2, 0));
  x = sl_conv2d(g, "conv2", x, 64, 3, 1, 1, 1);
  x = sl_relu(g, "relu2", sl_maxpool(g, "pool2", x, 2, 2, 0));
  x = sl_flatten(g, "flatten", x);
  x = sl_linear(g, "fc1", x, 128, SL_ACTIVATION_RELU);
  return sl_linear(g, "fc2", x, data->classes, SL_ACTIVATION_NONE);
}

const sl_model sl_model_lenet = {
    .name = "lenet",
    .summary = "two convolutions (32, 64), two linear layers",
    .batch = 256,
    .epochs = 5,
    .training = {.optimizer = SL_OPTIMIZER_SGD,
                 .learning_rate = 0.1,
                 .momentum = 0.9,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .decay = 1e-4},
    .build = build,
};
