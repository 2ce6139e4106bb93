/* uneven: a deep path of short tasks beside wide paths of long tasks, for images of ten classes. It shows differences
 * between schedulers. The deep path applies layernorm and gelu in turn. It is a chain, forward and backward, so
 * parallelism cannot shorten it; it has hardly any parameters. The wide paths are independent of the chain and of one
 * another, and all are ready at the beginning. A scheduler that takes tasks in the order in which they became ready
 * computes the wide paths first, and then the chain with one worker. */
#include <stdio.h>

#include "models/models.h"

enum { FEATURES = 64 };

typedef struct uneven_size {
  int64_t depth, narrow, towers, wide;
} uneven_size;

static const sl_size table[] = {
    {"depth", "layernorms of the deep path, each with a gelu", offsetof(uneven_size, depth), .least = 1, .most = 1024},
    {"narrow", "features of the deep path", offsetof(uneven_size, narrow), .least = 1, .most = 1 << 20},
    {"towers", "wide paths", offsetof(uneven_size, towers), .least = 1, .most = 1024},
    {"wide", "features of a wide path", offsetof(uneven_size, wide), .least = 1, .most = 1 << 20},
    {0},
};

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  const uneven_size *s = sizes;
  char layer[32];
  (void)o, (void)training;
  x = sl_flatten(g, "flatten", x);
  sl_value deep = sl_linear(g, "deep.in", x, s->narrow, SL_ACTIVATION_NONE);
  for (int d = 0; d < s->depth; d++) {
    snprintf(layer, sizeof layer, "deep.norm%d", d);
    deep = sl_layernorm(g, layer, deep, 1e-5);
    snprintf(layer, sizeof layer, "deep.gelu%d", d);
    deep = sl_gelu(g, layer, deep, SL_GELU_TANH);
  }
  sl_value sum = sl_linear(g, "deep.out", deep, FEATURES, SL_ACTIVATION_NONE);
  for (int t = 0; t < s->towers; t++) {
    snprintf(layer, sizeof layer, "wide%d.up", t);
    sl_value y = sl_linear(g, layer, x, s->wide, SL_ACTIVATION_RELU);
    snprintf(layer, sizeof layer, "wide%d.down", t);
    y = sl_linear(g, layer, y, FEATURES, SL_ACTIVATION_NONE);
    snprintf(layer, sizeof layer, "add%d", t);
    sum = sl_add(g, layer, sum, y);
  }
  return sl_linear(g, "head", sl_relu(g, "relu", sum), data->classes, SL_ACTIVATION_NONE);
}

extern const sl_family sl_family_uneven;
static const sl_model models[] = {
    {.name = "uneven",
     .summary = "a deep path of short tasks beside wide paths of long tasks; shows differences between schedulers",
     .family = &sl_family_uneven,
     .sizes = &(const uneven_size){.depth = 28, .narrow = 4096, .towers = 4, .wide = 4096},
     .batch = 64,
     .epochs = 5,
     .training = {.optimizer = SL_OPTIMIZER_SGD, .learning_rate = 0.05, SL_TRAINING_USUAL}},
    {0},
};

const sl_family sl_family_uneven = {
    .name = "uneven",
    .summary = "a chain of short tasks beside independent long tasks; shows differences between schedulers",
    .data = &sl_data_images,
    .sizes = table,
    .size_bytes = sizeof(uneven_size),
    .build = build,
    .models = models,
};
