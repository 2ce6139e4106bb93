/* vit: vision transformers (Dosovitskiy et al. 2021), images cut into square patches that are a transformer's tokens,
 * and a class token in front, which the classifier reads. The sizes are the paper's, layers as in Hugging Face's
 * ViTForImageClassification; vit-tiny is one that trains on small images in minutes, for which its patches come from
 * two convolutions: a transformer that has to learn from little data what neighbours are learns it slowly.
 *
 * The last block's perceptron works on the class token alone: nothing reads what it would make of the others. */
#include <math.h>
#include <stdio.h>

#include "models/networks/transformer.h"

#define DEVIATION 0.02
#define STEM_DEVIATION 0.3 /* about sqrt(2 / inputs), for one channel (He et al. 2015) */

/* [B, H, W, channels] to a token a patch. */
static sl_value patches(sl_graph *g, sl_value x, const sl_vit_size *s) {
  if (s->stem > 0) {
    x = sl_relu(g, "stem", sl_conv2d(g, "stem", x, s->stem, 3, 2, 1, 1));
    x = sl_conv2d(g, "patch", x, s->width, 3, 2, 1, 1);
  } else {
    x = sl_conv2d(g, "patch", x, s->width, s->patch, s->patch, 0, 1);
  }
  const sl_value_info *info = sl_graph_value(g, x);
  if (!info) return SL_NONE;
  return sl_reshape(g, "tokens", x, SL_SHAPE(info->shape.dim[1] * info->shape.dim[2], s->width));
}

sl_value sl_vit(sl_graph *g, sl_value x, const sl_model_data *data, const sl_vit_size *s, double dropout) {
  sl__block block = {.heads = s->heads,
                     .width = s->width,
                     .hidden = 4 * s->width,
                     .eps = 1e-12,
                     .gelu = SL_GELU_ERF,
                     .dropout = dropout,
                     .lengths = SL_NONE};
  x = sl_class_token(g, "cls", patches(g, x, s), DEVIATION);
  const sl_value_info *info = sl_graph_value(g, x);
  if (!info) return SL_NONE;
  x = sl_positional(g, "wpe", x, info->shape.dim[1], DEVIATION);
  if (dropout > 0) x = sl_dropout(g, "dropout", x, (float)dropout);
  for (int l = 0; l < s->layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    block.first = l == s->layers - 1;
    x = sl__transformer_block(g, name, x, &block);
  }
  x = sl_layernorm(g, "ln_f", x, block.eps);
  x = sl_linear(g, "head", x, data->classes, SL_ACTIVATION_NONE);
  /* The paper's 0.02 is for 768 inputs; narrower layers need more, or they hardly begin to learn. */
  const double deviation = s->width < 768 ? DEVIATION * sqrt(768.0 / (double)s->width) : DEVIATION;
  sl__transformer_initialise(g, deviation, deviation);
  const sl_value token = sl_graph_find(g, "cls.weight"), stem = sl_graph_find(g, "stem.weight");
  if (token != SL_NONE) g->value[token]->init = (sl_init){SL_INIT_NORMAL, DEVIATION};
  if (stem != SL_NONE) g->value[stem]->init = (sl_init){SL_INIT_NORMAL, STEM_DEVIATION};
  return x;
}

#define VIT(symbol, text, what, B, E, WARMUP, RATE, DECAY, H, W, CHANNELS, CLASSES, ...)                   \
  static sl_value build_##symbol(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *o, \
                                 int training) {                                                           \
    return sl_vit(g, x, data, &(sl_vit_size){__VA_ARGS__}, training ? o->dropout : 0);                     \
  }                                                                                                        \
  const sl_model sl_model_##symbol = {                                                                     \
      .name = text,                                                                                        \
      .summary = what,                                                                                     \
      .batch = B,                                                                                          \
      .epochs = E,                                                                                         \
      .rate = SL_RATE_COSINE,                                                                              \
      .warmup = WARMUP,                                                                                    \
      .image = {H, W, CHANNELS},                                                                           \
      .classes = CLASSES,                                                                                  \
      .training = {.optimizer = SL_OPTIMIZER_ADAMW,                                                        \
                   .learning_rate = RATE,                                                                  \
                   .momentum = 0.9,                                                                        \
                   .beta1 = 0.9,                                                                           \
                   .beta2 = 0.999,                                                                         \
                   .eps = 1e-8,                                                                            \
                   .decay = DECAY,                                                                         \
                   .clip = 1},                                                                             \
      .build = build_##symbol,                                                                             \
  }

VIT(vit_tiny, "vit-tiny", "vision transformer of 6 layers, 64 wide, 4 heads, convolutions for patches of 4", 128, 10,
    0.05, 2e-3, 0.05, 28, 28, 1, 10, .layers = 6, .heads = 4, .width = 64, .patch = 4, .stem = 32);
VIT(vit_b16, "vit-b16", "ViT-B/16, 87 million parameters", 8, 300, 0.03, 3e-4, 0.1, 224, 224, 3, 1000, .layers = 12,
    .heads = 12, .width = 768, .patch = 16);
VIT(vit_l16, "vit-l16", "ViT-L/16, 304 million parameters", 8, 300, 0.03, 3e-4, 0.1, 224, 224, 3, 1000, .layers = 24,
    .heads = 16, .width = 1024, .patch = 16);
