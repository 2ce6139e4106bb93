/* lenet: two 3x3 convolutions, each max-pooled by 2, and two linear layers (after LeCun et al. 1998).
 *
 * The rectifier comes after the pooling, where it processes a quarter of the elements. The result is the same:
 * max(relu(x)) = relu(max(x)). */
#include "models/models.h"

typedef struct lenet_size {
  int64_t channels, hidden;
} lenet_size;

static const sl_size table[] = {
    {"channels", "channels of the first convolution; the second has twice as many", offsetof(lenet_size, channels),
     .least = 1, .most = 4096},
    {"hidden", "features of the first linear layer", offsetof(lenet_size, hidden), .least = 1, .most = 1 << 20},
    {0},
};

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  const lenet_size *s = sizes;
  (void)o, (void)training;
  x = sl_conv2d(g, "conv1", x, s->channels, 3, 1, 1, 1);
  x = sl_relu(g, "relu1", sl_maxpool(g, "pool1", x, 2, 2, 0));
  x = sl_conv2d(g, "conv2", x, 2 * s->channels, 3, 1, 1, 1);
  x = sl_relu(g, "relu2", sl_maxpool(g, "pool2", x, 2, 2, 0));
  x = sl_flatten(g, "flatten", x);
  x = sl_linear(g, "fc1", x, s->hidden, SL_ACTIVATION_RELU);
  return sl_linear(g, "fc2", x, data->classes, SL_ACTIVATION_NONE);
}

extern const sl_family sl_family_lenet;
static const sl_model models[] = {
    {.name = "lenet",
     .summary = "two convolutions (32, 64), two linear layers",
     .family = &sl_family_lenet,
     .sizes = &(const lenet_size){.channels = 32, .hidden = 128},
     .batch = 256,
     .epochs = 5,
     .training = {.optimizer = SL_OPTIMIZER_SGD, .learning_rate = 0.1, SL_TRAINING_USUAL, .decay = 1e-4}},
    {0},
};

const sl_family sl_family_lenet = {
    .name = "lenet",
    .summary = "two convolutions and two linear layers (after LeCun et al. 1998)",
    .data = &sl_data_images,
    .sizes = table,
    .size_bytes = sizeof(lenet_size),
    .build = build,
    .models = models,
};
