/* vit: vision transformers (Dosovitskiy et al. 2021). Square patches of an image are a transformer's tokens; the
 * classifier reads a class token in front of them. The list's sizes are the paper's, the layers those of Hugging Face's
 * ViTForImageClassification. vit-tiny trains on small images in minutes. In vit-tiny two convolutions make the patches,
 * because from little data a transformer learns only slowly which pixels are neighbours.
 *
 * The last block's perceptron processes the class token alone, because nothing reads its results for the other tokens.
 */
#include <math.h>
#include <stdio.h>

#include "models/networks/transformer.h"

#define DEVIATION 0.02
#define STEM_DEVIATION 0.3 /* about sqrt(2 / inputs), for one channel (He et al. 2015) */

static const sl_size table[] = {
    SL__TRANSFORMER_SIZES(sl_vit_size),
    {"patch", "pixels of a patch's side", offsetof(sl_vit_size, patch), .least = 1, .most = 65536},
    {"stem", "channels of the first of two convolutions that make patches of 4 (0: patches are cut out)",
     offsetof(sl_vit_size, stem), .least = 0, .most = 65536},
    {"distilled", "1: a distillation token follows the class token, as in DeiT", offsetof(sl_vit_size, distilled),
     .least = 0, .most = 1},
    SL__TRANSFORMER_FORMS(sl_vit_size, "gelu", "1e-12"),
    {"unbiased", "1: the layers that make queries, keys and values have no biases", offsetof(sl_vit_size, unbiased),
     .least = 0, .most = 1},
    {0},
};

static sl_status complete(void *sizes) {
  sl_vit_size *s = sizes;
  if (s->stem > 0 && s->patch != 4)
    return sl_fail(SL_EINVAL, "size patch=%lld of vit needs stem=0; a stem makes patches of 4", (long long)s->patch);
  return sl__transformer_complete("vit", s->heads, s->width, &s->hidden, &s->activation, SL_ACTIVATION_GELU_ERF,
                                  &s->eps, 1e-12);
}

static sl_value convolution(sl_graph *g, const char *layer, sl_value x, int64_t channels, int kernel, int stride,
                            int pad, double deviation) {
  return sl_conv2d_init(g, layer, x, channels, kernel, stride, pad, 1,
                        &(sl_layer_init){{SL_INIT_NORMAL, deviation}, {SL_INIT_CONSTANT, 0}});
}

/* Turns images [B, H, W, channels] into tokens, one for each patch. */
static sl_value patches(sl_graph *g, sl_value x, const sl_vit_size *s, double deviation) {
  if (s->stem > 0) {
    x = sl_relu(g, "stem", convolution(g, "stem", x, s->stem, 3, 2, 1, STEM_DEVIATION));
    x = convolution(g, "patch", x, s->width, 3, 2, 1, deviation);
  } else {
    x = convolution(g, "patch", x, s->width, (int)s->patch, (int)s->patch, 0, deviation);
  }
  const sl_value_info *info = sl_graph_value(g, x);
  if (!info) return SL_NONE;
  return sl_reshape(g, "tokens", x, SL_SHAPE(info->shape.dim[1] * info->shape.dim[2], s->width));
}

sl_value sl_vit(sl_graph *g, sl_value x, const sl_model_data *data, const sl_vit_size *size, double dropout) {
  sl_vit_size s = *size;
  const sl_status status = complete(&s);
  if (status != SL_OK) return sl_graph_fail(g, status, "h"), SL_NONE;
  /* The deviation 0.02 of the paper is for 768 inputs. Narrower layers need a larger deviation, or they hardly learn at
   * first. */
  const double deviation = s.width < 768 ? DEVIATION * sqrt(768.0 / (double)s.width) : DEVIATION;
  sl__block block = {.heads = (int)s.heads,
                     .width = s.width,
                     .hidden = s.hidden,
                     .eps = s.eps,
                     .activation = s.activation,
                     .unbiased = (int)s.unbiased,
                     .deviation = deviation,
                     .proj = deviation,
                     .dropout = dropout,
                     .lengths = SL_NONE};
  x = patches(g, x, &s, deviation);
  if (s.distilled) x = sl_class_token(g, "distill", x, DEVIATION);
  x = sl_class_token(g, "cls", x, DEVIATION);
  const sl_value_info *info = sl_graph_value(g, x);
  if (!info) return SL_NONE;
  x = sl_positional(g, "wpe", x, info->shape.dim[1], deviation);
  if (dropout > 0) x = sl_dropout(g, "dropout", x, (float)dropout);
  for (int l = 0; l < s.layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    block.first = l == s.layers - 1;
    x = sl__transformer_block(g, name, x, &block);
  }
  x = sl_layernorm(g, "ln_f", x, s.eps);
  return sl__linear_normal(g, "head", x, data->classes, deviation);
}

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  return sl_vit(g, x, data, sizes, training ? o->dropout : 0);
}

#define VIT(text, what, B, E, WARMUP, RATE, DECAY, H, W, CHANNELS, CLASSES, ...)                                     \
  {                                                                                                                  \
    .name = text, .summary = what, .family = &sl_family_vit, .sizes = &(const sl_vit_size){__VA_ARGS__}, .batch = B, \
    .epochs = E, .rate = SL_RATE_COSINE, .warmup = WARMUP,                                                           \
    .usual = {.height = H, .width = W, .channels = CHANNELS, .classes = CLASSES},                                    \
    .training = {                                                                                                    \
        .optimizer = SL_OPTIMIZER_ADAMW, .learning_rate = RATE, SL_TRAINING_USUAL, .decay = DECAY, .clip = 1},       \
  }
static const sl_model models[] = {
    VIT("vit-b16", "ViT-B/16, 87 million parameters", 8, 300, 0.03, 3e-4, 0.1, 224, 224, 3, 1000, .layers = 12,
        .heads = 12, .width = 768, .patch = 16),
    VIT("vit-l16", "ViT-L/16, 304 million parameters", 8, 300, 0.03, 3e-4, 0.1, 224, 224, 3, 1000, .layers = 24,
        .heads = 16, .width = 1024, .patch = 16),
    VIT("vit-tiny", "vision transformer of 6 layers, 64 wide, 4 heads, convolutions for patches of 4", 128, 10, 0.05,
        2e-3, 0.05, 28, 28, 1, 10, .layers = 6, .heads = 4, .width = 64, .patch = 4, .stem = 32),
    {0},
};

const sl_family sl_family_vit = {
    .name = "vit",
    .summary = "vision transformers over patches of an image (Dosovitskiy et al. 2021)",
    .data = &sl_data_images,
    .sizes = table,
    .size_bytes = sizeof(sl_vit_size),
    .complete = complete,
    .build = build,
    .models = models,
};
