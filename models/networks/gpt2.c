/* gpt2: decoder-only transformers (Radford et al. 2019), with pre-norm blocks and a head that is tied to the token
 * embedding unless the size untied is 1. The list's sizes are the paper's; gpt2-nano trains on bytes in minutes. */
#include <math.h>
#include <stdio.h>

#include "models/networks/transformer.h"

#define DEVIATION 0.02

static const sl_size table[] = {
    SL__TRANSFORMER_SIZES(sl_gpt_size),
    {"positions", "most tokens of a window", offsetof(sl_gpt_size, positions), .least = 1, .most = 1 << 20},
    {"vocabulary", "tokens of the vocabulary (if not given, those of a tokenizer beside the tokens)",
     offsetof(sl_gpt_size, vocabulary), .least = 2, .most = 1 << 24},
    SL__TRANSFORMER_FORMS(sl_gpt_size, "gelu-tanh", "1e-05"),
    SL__TRANSFORMER_UNTIED(sl_gpt_size),
    {0},
};

static sl_status complete(void *sizes) {
  sl_gpt_size *s = sizes;
  return sl__transformer_complete("gpt2", s->heads, s->width, &s->hidden, &s->activation, SL_ACTIVATION_GELU_TANH,
                                  &s->eps, 1e-5);
}

sl_value sl_gpt(sl_graph *g, sl_value tokens, const sl_model_data *data, const sl_gpt_size *size, double dropout) {
  sl_gpt_size s = *size;
  const sl_status status = complete(&s);
  if (status != SL_OK) return sl_graph_fail(g, status, "h"), SL_NONE;
  const sl__block block = {.heads = (int)s.heads,
                           .width = s.width,
                           .hidden = s.hidden,
                           .causal = 1,
                           .eps = s.eps,
                           .activation = s.activation,
                           .deviation = DEVIATION,
                           /* projections into the residual start smaller, by 1 / sqrt(2 layers) */
                           .proj = DEVIATION / sqrt(2.0 * (double)s.layers),
                           .dropout = dropout,
                           .lengths = SL_NONE};
  sl_value x = sl_embedding(g, "wte", tokens, data->classes, s.width, DEVIATION);
  x = sl_positional(g, "wpe", x, s.positions, DEVIATION);
  if (dropout > 0) x = sl_dropout(g, "dropout", x, (float)dropout);
  for (int l = 0; l < s.layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    x = sl__transformer_block(g, name, x, &block);
  }
  x = sl_layernorm(g, "ln_f", x, s.eps);
  if (s.untied) return sl__linear_unbiased(g, "head", x, data->classes, DEVIATION);
  return sl_linear_with(g, "head", x, sl_graph_find(g, "wte.weight"), SL_NONE);
}

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  return sl_gpt(g, x, data, sizes, training ? o->dropout : 0);
}

#define GPT(text, what, B, T, ...)                                                                                    \
  {                                                                                                                   \
    .name = text, .summary = what, .family = &sl_family_gpt2, .sizes = &(const sl_gpt_size){__VA_ARGS__}, .batch = B, \
    .epochs = 1, .rate = SL_RATE_COSINE, .warmup = 0.05, .usual = {.length = T},                                      \
    .training = {.optimizer = SL_OPTIMIZER_ADAMW,                                                                     \
                 .learning_rate = 6e-4,                                                                               \
                 .momentum = 0.9,                                                                                     \
                 .beta1 = 0.9,                                                                                        \
                 .beta2 = 0.95,                                                                                       \
                 .eps = 1e-8,                                                                                         \
                 .decay = 0.1,                                                                                        \
                 .clip = 1},                                                                                          \
  }
static const sl_model models[] = {
    GPT("gpt2", "GPT-2, 124 million parameters", 4, 64, .layers = 12, .heads = 12, .width = 768, .positions = 1024,
        .vocabulary = 50257),
    GPT("gpt2-large", "GPT-2, 774 million parameters", 4, 64, .layers = 36, .heads = 20, .width = 1280,
        .positions = 1024, .vocabulary = 50257),
    GPT("gpt2-medium", "GPT-2, 355 million parameters", 4, 64, .layers = 24, .heads = 16, .width = 1024,
        .positions = 1024, .vocabulary = 50257),
    GPT("gpt2-nano", "GPT-2 of 6 layers, 384 wide, 6 heads, over bytes", 8, 256, .layers = 6, .heads = 6, .width = 384,
        .positions = 256, .vocabulary = 256),
    GPT("gpt2-xl", "GPT-2, 1,558 million parameters", 4, 64, .layers = 48, .heads = 25, .width = 1600,
        .positions = 1024, .vocabulary = 50257),
    {0},
};

const sl_family sl_family_gpt2 = {
    .name = "gpt2",
    .summary = "decoder-only transformers with a head tied to the token embedding (Radford et al. 2019)",
    .data = &sl_data_tokens,
    .sizes = table,
    .size_bytes = sizeof(sl_gpt_size),
    .complete = complete,
    .build = build,
    .models = models,
};
