/* mlp: a multilayer perceptron, 784-1024-1024-10 for 28x28 images of ten classes. */
#include <stdio.h>

#include "models/models.h"

typedef struct mlp_size {
  int64_t layers, hidden;
} mlp_size;

static const sl_size table[] = {
    {"layers", "hidden layers", offsetof(mlp_size, layers), .least = 0, .most = 1024},
    {"hidden", "features of a hidden layer", offsetof(mlp_size, hidden), .least = 1, .most = 1 << 20},
    {0},
};

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  const mlp_size *s = sizes;
  char layer[32];
  (void)o, (void)training;
  x = sl_flatten(g, "flatten", x);
  for (int l = 1; l <= s->layers; l++) {
    snprintf(layer, sizeof layer, "fc%d", l);
    x = sl_linear(g, layer, x, s->hidden, SL_ACTIVATION_RELU);
  }
  snprintf(layer, sizeof layer, "fc%lld", (long long)s->layers + 1);
  return sl_linear(g, layer, x, data->classes, SL_ACTIVATION_NONE);
}

extern const sl_family sl_family_mlp;
static const sl_model models[] = {
    {.name = "mlp",
     .summary = "perceptron with two hidden layers of 1024",
     .family = &sl_family_mlp,
     .sizes = &(const mlp_size){.layers = 2, .hidden = 1024},
     .batch = 256,
     .epochs = 10,
     .training = {.optimizer = SL_OPTIMIZER_ADAMW, .learning_rate = 1e-3, SL_TRAINING_USUAL, .decay = 0.01}},
    {0},
};

const sl_family sl_family_mlp = {
    .name = "mlp",
    .summary = "perceptrons with rectifiers",
    .data = &sl_data_images,
    .sizes = table,
    .size_bytes = sizeof(mlp_size),
    .build = build,
    .models = models,
};
