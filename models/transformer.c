/* gpt2: decoder-only transformers (Radford et al. 2019), pre-norm blocks and a head tied to the token embedding. The
 * sizes are the paper's; gpt2-nano is one that trains on bytes in minutes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/models.h"

#define DEVIATION 0.02

/* x + f(x) of attention, then of the perceptron; projections into the residual start smaller by sqrt(2 layers). */
static sl_value block(sl_graph *g, const char *name, sl_value x, const sl_gpt_size *s) {
  char layer[8][64];
  static const char *const part[] = {"ln_1", "attn.qkv", "attn", "attn.proj", "ln_2", "mlp.fc", "mlp.gelu", "mlp.proj"};
  for (int i = 0; i < 8; i++) snprintf(layer[i], sizeof layer[i], "%s.%s", name, part[i]);
  char sum[2][64];
  for (int i = 0; i < 2; i++) snprintf(sum[i], sizeof sum[i], "%s.residual_%d", name, i + 1);
  sl_value y = sl_layernorm(g, layer[0], x, 1e-5);
  y = sl_linear(g, layer[1], y, 3 * s->width, SL_ACTIVATION_NONE);
  y = sl_attention(g, layer[2], y, s->heads, 1, SL_NONE);
  x = sl_add(g, sum[0], x, sl_linear(g, layer[3], y, s->width, SL_ACTIVATION_NONE));
  y = sl_linear(g, layer[5], sl_layernorm(g, layer[4], x, 1e-5), 4 * s->width, SL_ACTIVATION_NONE);
  y = sl_gelu(g, layer[6], y, SL_GELU_TANH);
  return sl_add(g, sum[1], x, sl_linear(g, layer[7], y, s->width, SL_ACTIVATION_NONE));
}

/* GPT-2's initialisation: normal(0.02) for matrices (over sqrt(2 layers) into the residual), zero biases. */
static void initialise(sl_graph *g, const sl_gpt_size *s) {
  for (sl_value v = 0; v < g->n_values; v++) {
    sl_value_info *info = g->value[v];
    if (info->role != SL_ROLE_PARAMETER || strstr(info->name, "ln_")) continue;
    const double scale = strstr(info->name, ".proj.") ? DEVIATION / sqrt(2.0 * s->layers) : DEVIATION;
    info->init = info->shape.ndim > 1 ? (sl_init){SL_INIT_NORMAL, scale} : (sl_init){SL_INIT_CONSTANT, 0};
  }
}

sl_value sl_gpt(sl_graph *g, sl_value tokens, const sl_model_data *data, const sl_gpt_size *s) {
  sl_value x = sl_embedding(g, "wte", tokens, data->classes, s->width, DEVIATION);
  x = sl_positional(g, "wpe", x, s->positions, DEVIATION);
  for (int l = 0; l < s->layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    x = block(g, name, x, s);
  }
  x = sl_layernorm(g, "ln_f", x, 1e-5);
  x = sl_linear_with(g, "head", x, sl_graph_find(g, "wte.weight"), SL_NONE);
  initialise(g, s);
  return x;
}

#define GPT(symbol, text, what, B, T, V, ...)                                                              \
  static sl_value build_##symbol(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *o, \
                                 int training) {                                                           \
    (void)o, (void)training;                                                                               \
    return sl_gpt(g, x, data, &(sl_gpt_size){__VA_ARGS__});                                                \
  }                                                                                                        \
  const sl_model sl_model_##symbol = {                                                                     \
      .name = text,                                                                                        \
      .summary = what,                                                                                     \
      .batch = B,                                                                                          \
      .epochs = 1,                                                                                         \
      .length = T,                                                                                         \
      .vocabulary = V,                                                                                     \
      .training = {.optimizer = SL_OPTIMIZER_ADAMW,                                                        \
                   .learning_rate = 6e-4,                                                                  \
                   .momentum = 0.9,                                                                        \
                   .beta1 = 0.9,                                                                           \
                   .beta2 = 0.95,                                                                          \
                   .eps = 1e-8,                                                                            \
                   .decay = 0.1,                                                                           \
                   .clip = 1},                                                                             \
      .build = build_##symbol,                                                                             \
  }

GPT(gpt2_nano, "gpt2-nano", "GPT-2 of 6 layers, 384 wide, 6 heads, over bytes", 8, 256, 256, .layers = 6, .heads = 6,
    .width = 384, .positions = 256);
GPT(gpt2, "gpt2", "GPT-2, 124 million parameters", 4, 64, 50257, .layers = 12, .heads = 12, .width = 768,
    .positions = 1024);
GPT(gpt2_medium, "gpt2-medium", "GPT-2, 355 million parameters", 4, 64, 50257, .layers = 24, .heads = 16, .width = 1024,
    .positions = 1024);
