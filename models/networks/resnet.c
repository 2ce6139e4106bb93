/* resnet: residual networks (He et al. 2015). The larger ones have torchvision's layers, names and initialisation; in a
 * bottleneck the 3x3 convolution has the stride, as there. resnet8 is a small one for images of about 28 x 28. */
#include <math.h>
#include <stdio.h>

#include "models/models.h"

typedef struct builder {
  sl_graph *graph;
  sl_batchnorm_over over;
  int training;
} builder;

static const char *in(const char *name, const char *part, char *text) {
  snprintf(text, 64, "%s%s%s", name, *name ? "." : "", part);
  return text;
}

/* A convolution without bias, normal(sqrt(2 / fan out)) (He et al. 2015b), and its batch normalisation. */
static sl_value conv(const builder *b, const char *name, const char *part, sl_value x, int64_t channels, int kernel,
                     int stride) {
  char text[64], weight[72];
  x = sl_conv2d(b->graph, in(name, part, text), x, channels, kernel, stride, kernel / 2, 0);
  snprintf(weight, sizeof weight, "%s.weight", text);
  const sl_value w = sl_graph_find(b->graph, weight);
  if (w != SL_NONE)
    b->graph->value[w]->init = (sl_init){SL_INIT_NORMAL, sqrt(2 / (double)(channels * kernel * kernel))};
  return x;
}

/* relu(batchnorm(x) + shortcut). */
static sl_value bn_relu(const builder *b, const char *name, const char *part, sl_value x, sl_value shortcut) {
  char text[64];
  return sl_batchnorm_relu(b->graph, in(name, part, text), x, shortcut, b->over, b->training);
}

/* relu(x + F(x)), x projected where F changes its shape. */
static sl_value block(const builder *b, const char *name, sl_value x, int bottleneck, int64_t width, int stride) {
  char text[64];
  const sl_value_info *info = sl_graph_value(b->graph, x);
  const int64_t out = bottleneck ? 4 * width : width;
  if (!info) return SL_NONE;
  const int projected = stride > 1 || info->shape.dim[3] != out;
  sl_value y, shortcut = x;
  sl_graph_segment(b->graph, SL_RECOMPUTE_BLOCK, 1);
  if (bottleneck) {
    y = bn_relu(b, name, "bn1", conv(b, name, "conv1", x, width, 1, 1), SL_NONE);
    y = bn_relu(b, name, "bn2", conv(b, name, "conv2", y, width, 3, stride), SL_NONE);
    y = conv(b, name, "conv3", y, out, 1, 1);
  } else {
    y = bn_relu(b, name, "bn1", conv(b, name, "conv1", x, width, 3, stride), SL_NONE);
    y = conv(b, name, "conv2", y, width, 3, 1);
  }
  if (projected) {
    shortcut = conv(b, name, "downsample.0", x, out, 1, stride);
    shortcut = sl_batchnorm(b->graph, in(name, "downsample.1", text), shortcut, b->over, b->training);
  }
  y = bn_relu(b, name, bottleneck ? "bn3" : "bn2", y, shortcut);
  sl_graph_segment(b->graph, SL_RECOMPUTE_BLOCK, 0);
  return y;
}

sl_value sl_resnet(sl_graph *g, sl_value x, const sl_model_data *data, const sl_resnet_size *s,
                   sl_batchnorm_over batchnorm, int training) {
  const builder b = {g, batchnorm, training};
  x = conv(&b, "", "conv1", x, s->width, s->small ? 3 : 7, s->small ? 1 : 2);
  x = bn_relu(&b, "", "bn1", x, SL_NONE);
  if (!s->small) x = sl_maxpool(g, "maxpool", x, 3, 2, 1);
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < s->blocks[stage]; i++) {
      char name[32];
      snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
      x = block(&b, name, x, s->bottleneck, s->width << stage, stage > 0 && i == 0 ? 2 : 1);
    }
  x = sl_meanpool(g, "avgpool", x);
  return sl_linear(g, "fc", x, data->classes, SL_ACTIVATION_NONE);
}

#define RESNET(symbol, text, what, B, E, SIZE, CLASSES, RATE, DECAY, ...)                                  \
  static sl_value build_##symbol(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *o, \
                                 int training) {                                                           \
    return sl_resnet(g, x, data, &(sl_resnet_size){__VA_ARGS__}, o->batchnorm, training);                  \
  }                                                                                                        \
  const sl_model sl_model_##symbol = {                                                                     \
      .name = text,                                                                                        \
      .summary = what,                                                                                     \
      .batch = B,                                                                                          \
      .epochs = E,                                                                                         \
      .rate = SL_RATE_COSINE,                                                                              \
      .warmup = 0.05,                                                                                      \
      .image = {SIZE},                                                                                     \
      .classes = CLASSES,                                                                                  \
      .training = {.optimizer = SL_OPTIMIZER_SGD,                                                          \
                   .learning_rate = RATE,                                                                  \
                   .momentum = 0.9,                                                                        \
                   .beta1 = 0.9,                                                                           \
                   .beta2 = 0.999,                                                                         \
                   .eps = 1e-8,                                                                            \
                   .decay = DECAY},                                                                        \
      .build = build_##symbol,                                                                             \
  }
#define SMALL_IMAGES 28, 28, 1
#define IMAGENET 224, 224, 3

RESNET(resnet8, "resnet8", "residual network of three basic blocks, 32 to 128 channels", 128, 10, SMALL_IMAGES, 10, 0.1,
       5e-4, .small = 1, .width = 32, .blocks = {1, 1, 1});
RESNET(resnet18, "resnet18", "residual network of 18 layers, 12 million parameters", 32, 90, IMAGENET, 1000, 0.1, 1e-4,
       .width = 64, .blocks = {2, 2, 2, 2});
RESNET(resnet34, "resnet34", "residual network of 34 layers, 22 million parameters", 32, 90, IMAGENET, 1000, 0.1, 1e-4,
       .width = 64, .blocks = {3, 4, 6, 3});
RESNET(resnet50, "resnet50", "residual network of 50 layers with bottlenecks, 26 million parameters", 16, 90, IMAGENET,
       1000, 0.1, 1e-4, .bottleneck = 1, .width = 64, .blocks = {3, 4, 6, 3});
