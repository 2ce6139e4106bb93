/* resnet: residual networks (He et al. 2015). The larger models have torchvision's layers, names and initialisation. As
 * in torchvision, the 3x3 convolution of a bottleneck has the stride (unless the size early_stride is 1). resnet8 is
 * for small images of about 28 x 28. */
#include <math.h>
#include <stdio.h>

#include "models/networks/activation.h"

static const sl_size table[] = {
    {"bottleneck", "1: blocks of a 1x1, a 3x3 and a 1x1 convolution; 0: of two 3x3",
     offsetof(sl_resnet_size, bottleneck), .least = 0, .most = 1},
    {"small", "1: begins with a 3x3 convolution, for small images; 0: with a 7x7 convolution and max-pooling",
     offsetof(sl_resnet_size, small), .least = 0, .most = 1},
    {"width", "channels of the first stage; each stage doubles them", offsetof(sl_resnet_size, width), .least = 1,
     .most = 65536},
    {"blocks", "blocks of each stage", offsetof(sl_resnet_size, blocks), SL_SIZE_LIST, 1, 1024, .derived = NULL},
    {"stem", "channels before the first stage", offsetof(sl_resnet_size, stem), .least = 1, .most = 65536,
     .derived = "width"},
    {"channels", "channels of each stage's output", offsetof(sl_resnet_size, channels), SL_SIZE_LIST, 1, 1 << 20,
     .derived = "width, doubled by each stage; 4 times as many with bottlenecks"},
    {"inner", "channels inside each stage's bottlenecks", offsetof(sl_resnet_size, inner), SL_SIZE_LIST, 1, 1 << 20,
     .derived = "a quarter of channels"},
    {"first_stride", "stride of the first stage's first block", offsetof(sl_resnet_size, first_stride), .least = 1,
     .most = 2, .derived = "1"},
    {"early_stride", "1: a bottleneck's stride belongs to its first 1x1 convolution; 0: to its 3x3",
     offsetof(sl_resnet_size, early_stride), .least = 0, .most = 1},
    SL__ACTIVATION_SIZE(sl_resnet_size,
                        "function behind the stem and at the end of each block; inside blocks it is relu", "relu"),
    {0},
};

static int stages(const int64_t list[SL_SIZE_LIST_MOST]) {
  int n = 0;
  while (n < SL_SIZE_LIST_MOST && list[n] > 0) n++;
  return n;
}

static sl_status check_list(const char *name, const int64_t *list, int n) {
  return stages(list) == n
             ? SL_OK
             : sl_fail(SL_EINVAL, "size %s of resnet has %d stages, but blocks has %d", name, stages(list), n);
}

static sl_status complete(void *sizes) {
  sl_resnet_size *s = sizes;
  const int n = stages(s->blocks);
  if (n < 1 || s->width < 1) return sl_fail(SL_EINVAL, "resnet has no blocks or no width");
  if (!s->stem) s->stem = s->width;
  if (!s->first_stride) s->first_stride = 1;
  if (!s->activation) s->activation = SL_ACTIVATION_RELU;
  for (int i = 0; i < n && !(i == 0 && s->channels[0]); i++) s->channels[i] = (s->bottleneck ? 4 : 1) * s->width << i;
  SL_TRY(check_list("channels", s->channels, n));
  if (!s->bottleneck) return s->inner[0] ? sl_fail(SL_EINVAL, "size inner of resnet is for bottleneck=1") : SL_OK;
  for (int i = 0; i < n && !(i == 0 && s->inner[0]); i++) s->inner[i] = s->channels[i] / 4;
  return check_list("inner", s->inner, n);
}

typedef struct builder {
  sl_graph *graph;
  int64_t activation; /* behind the stem and at the end of each block */
  int early_stride;
  sl_batchnorm_over over;
  int training;
} builder;

static const char *in(const char *name, const char *part, char *text) {
  snprintf(text, 64, "%s%s%s", name, *name ? "." : "", part);
  return text;
}

/* A convolution without bias, whose weights are drawn from normal(0, sqrt(2 / fan out)) (He et al. 2015b). */
static sl_value conv(const builder *b, const char *name, const char *part, sl_value x, int64_t channels, int kernel,
                     int stride) {
  char text[64];
  const sl_layer_init init = {.weight = {SL_INIT_NORMAL, sqrt(2 / (double)(channels * kernel * kernel))}};
  return sl_conv2d_init(b->graph, in(name, part, text), x, channels, kernel, stride, kernel / 2, 0, &init);
}

/* relu(batchnorm(x) + shortcut). */
static sl_value bn_relu(const builder *b, const char *name, const char *part, sl_value x, sl_value shortcut) {
  char text[64];
  return sl_batchnorm_relu(b->graph, in(name, part, text), x, shortcut, b->over, b->training);
}

/* activation(batchnorm(x) + shortcut). shortcut SL_NONE: no shortcut. name: the name of the block; "": the stem. */
static sl_value bn_activate(const builder *b, const char *name, const char *part, sl_value x, sl_value shortcut) {
  char text[64];
  if (b->activation == SL_ACTIVATION_RELU) return bn_relu(b, name, part, x, shortcut);
  x = sl_batchnorm(b->graph, in(name, part, text), x, b->over, b->training);
  if (shortcut != SL_NONE) x = sl_add(b->graph, in(name, "residual", text), x, shortcut);
  return sl__activate(b->graph, in(name, "activation", text), x, b->activation);
}

/* activation(x + F(x)); if F changes the shape, x is projected. inner: number of channels inside a bottleneck; 0: a
 * basic block. */
static sl_value block(const builder *b, const char *name, sl_value x, int64_t out, int64_t inner, int stride) {
  char text[64];
  const sl_value_info *info = sl_graph_value(b->graph, x);
  if (!info) return SL_NONE;
  const int projected = stride > 1 || info->shape.dim[3] != out;
  sl_value y, shortcut = x;
  sl_graph_segment(b->graph, SL_RECOMPUTE_BLOCK, 1);
  if (inner) {
    y = bn_relu(b, name, "bn1", conv(b, name, "conv1", x, inner, 1, b->early_stride ? stride : 1), SL_NONE);
    y = bn_relu(b, name, "bn2", conv(b, name, "conv2", y, inner, 3, b->early_stride ? 1 : stride), SL_NONE);
    y = conv(b, name, "conv3", y, out, 1, 1);
  } else {
    y = bn_relu(b, name, "bn1", conv(b, name, "conv1", x, out, 3, stride), SL_NONE);
    y = conv(b, name, "conv2", y, out, 3, 1);
  }
  if (projected) {
    shortcut = conv(b, name, "downsample.0", x, out, 1, stride);
    shortcut = sl_batchnorm(b->graph, in(name, "downsample.1", text), shortcut, b->over, b->training);
  }
  y = bn_activate(b, name, inner ? "bn3" : "bn2", y, shortcut);
  sl_graph_segment(b->graph, SL_RECOMPUTE_BLOCK, 0);
  return y;
}

sl_value sl_resnet(sl_graph *g, sl_value x, const sl_model_data *data, const sl_resnet_size *size,
                   sl_batchnorm_over batchnorm, int training) {
  sl_resnet_size s = *size;
  const sl_status status = complete(&s);
  if (status != SL_OK) return sl_graph_fail(g, status, "conv1"), SL_NONE;
  const builder b = {g, s.activation, (int)s.early_stride, batchnorm, training};
  x = conv(&b, "", "conv1", x, s.stem, s.small ? 3 : 7, s.small ? 1 : 2);
  x = bn_activate(&b, "", "bn1", x, SL_NONE);
  if (!s.small) x = sl_maxpool(g, "maxpool", x, 3, 2, 1);
  for (int stage = 0; stage < stages(s.blocks); stage++)
    for (int i = 0; i < s.blocks[stage]; i++) {
      char name[32];
      snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
      x = block(&b, name, x, s.channels[stage], s.inner[stage], i > 0 ? 1 : stage > 0 ? 2 : (int)s.first_stride);
    }
  x = sl_meanpool(g, "avgpool", x);
  return sl_linear(g, "fc", x, data->classes, SL_ACTIVATION_NONE);
}

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  return sl_resnet(g, x, data, sizes, o->batchnorm, training);
}

#define RESNET(text, what, B, E, SIZE, CLASSES, DECAY, ...)                                                    \
  {                                                                                                            \
    .name = text, .summary = what, .family = &sl_family_resnet, .sizes = &(const sl_resnet_size){__VA_ARGS__}, \
    .batch = B, .epochs = E, .rate = SL_RATE_COSINE, .warmup = 0.05, .usual = {SIZE, .classes = CLASSES},      \
    .training = {.optimizer = SL_OPTIMIZER_SGD, .learning_rate = 0.1, SL_TRAINING_USUAL, .decay = DECAY},      \
  }
#define SMALL_IMAGES .height = 28, .width = 28, .channels = 1
#define IMAGENET .height = 224, .width = 224, .channels = 3

static const sl_model models[] = {
    RESNET("resnet18", "residual network of 18 layers, 12 million parameters", 32, 90, IMAGENET, 1000, 1e-4,
           .width = 64, .blocks = {2, 2, 2, 2}),
    RESNET("resnet34", "residual network of 34 layers, 22 million parameters", 32, 90, IMAGENET, 1000, 1e-4,
           .width = 64, .blocks = {3, 4, 6, 3}),
    RESNET("resnet50", "residual network of 50 layers with bottlenecks, 26 million parameters", 16, 90, IMAGENET, 1000,
           1e-4, .bottleneck = 1, .width = 64, .blocks = {3, 4, 6, 3}),
    RESNET("resnet8", "residual network of three basic blocks, 32 to 128 channels", 128, 10, SMALL_IMAGES, 10, 5e-4,
           .small = 1, .width = 32, .blocks = {1, 1, 1}),
    {0},
};

const sl_family sl_family_resnet = {
    .name = "resnet",
    .summary = "residual networks (He et al. 2015), layers and names as torchvision's",
    .data = &sl_data_images,
    .sizes = table,
    .size_bytes = sizeof(sl_resnet_size),
    .complete = complete,
    .build = build,
    .any_size = 1,
    .models = models,
};
