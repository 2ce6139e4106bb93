/* gpt2: decoder-only transformers (Radford et al. 2019), pre-norm blocks and a head tied to the token embedding. The
 * sizes are the paper's; gpt2-nano is one that trains on bytes in minutes. */
#include <math.h>
#include <stdio.h>

#include "models/networks/transformer.h"

#define DEVIATION 0.02

sl_value sl_gpt(sl_graph *g, sl_value tokens, const sl_model_data *data, const sl_gpt_size *s, double dropout) {
  const sl__block block = {.heads = s->heads,
                           .width = s->width,
                           .hidden = 4 * s->width,
                           .causal = 1,
                           .eps = 1e-5,
                           .gelu = SL_GELU_TANH,
                           .dropout = dropout,
                           .lengths = SL_NONE};
  sl_value x = sl_embedding(g, "wte", tokens, data->classes, s->width, DEVIATION);
  x = sl_positional(g, "wpe", x, s->positions, DEVIATION);
  if (dropout > 0) x = sl_dropout(g, "dropout", x, (float)dropout);
  for (int l = 0; l < s->layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    x = sl__transformer_block(g, name, x, &block);
  }
  x = sl_layernorm(g, "ln_f", x, 1e-5);
  x = sl_linear_with(g, "head", x, sl_graph_find(g, "wte.weight"), SL_NONE);
  /* projections into the residual start smaller by sqrt(2 layers) */
  sl__transformer_initialise(g, DEVIATION, DEVIATION / sqrt(2.0 * s->layers));
  return x;
}

#define GPT(symbol, text, what, B, T, V, ...)                                                              \
  static sl_value build_##symbol(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *o, \
                                 int training) {                                                           \
    return sl_gpt(g, x, data, &(sl_gpt_size){__VA_ARGS__}, training ? o->dropout : 0);                     \
  }                                                                                                        \
  const sl_model sl_model_##symbol = {                                                                     \
      .name = text,                                                                                        \
      .summary = what,                                                                                     \
      .task = SL_TASK_NEXT_TOKEN,                                                                          \
      .batch = B,                                                                                          \
      .epochs = 1,                                                                                         \
      .rate = SL_RATE_COSINE,                                                                              \
      .warmup = 0.05,                                                                                      \
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
GPT(gpt2_large, "gpt2-large", "GPT-2, 774 million parameters", 4, 64, 50257, .layers = 36, .heads = 20, .width = 1280,
    .positions = 1024);
GPT(gpt2_xl, "gpt2-xl", "GPT-2, 1,558 million parameters", 4, 64, 50257, .layers = 48, .heads = 25, .width = 1600,
    .positions = 1024);
