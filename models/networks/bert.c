/* bert: encoder transformers that restore masked tokens (Devlin et al. 2019): post-norm blocks, every token sees every
 * other, and a prediction head whose decoder is the token embedding with a bias of its own. The layers are those of
 * Hugging Face's BertForMaskedLM. The sizes are the paper's; bert-nano is one that trains on bytes in minutes. */
#include <stdio.h>

#include "models/networks/transformer.h"

#define DEVIATION 0.02
#define EPS 1e-12 /* of the layernorms */

sl_value sl_bert(sl_graph *g, sl_value tokens, sl_value lengths, const sl_model_data *data, const sl_bert_size *s,
                 double dropout) {
  enum { TYPES = 2 };
  const sl__block block = {.heads = s->heads,
                           .width = s->width,
                           .hidden = 4 * s->width,
                           .post_norm = 1,
                           .eps = EPS,
                           .gelu = SL_GELU_ERF,
                           .dropout = dropout,
                           .lengths = lengths};
  sl_value x = sl_embedding(g, "wte", tokens, data->classes, s->width, DEVIATION);
  x = sl_positional(g, "wpe", x, s->positions, DEVIATION);
  x = sl_add_row(g, "token_type", x, TYPES, s->type, DEVIATION);
  x = sl_layernorm(g, "ln_e", x, EPS);
  if (dropout > 0) x = sl_dropout(g, "dropout", x, (float)dropout);
  for (int l = 0; l < s->layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    x = sl__transformer_block(g, name, x, &block);
  }
  x = sl_linear(g, "head.dense", x, s->width, SL_ACTIVATION_NONE);
  x = sl_gelu(g, "head.gelu", x, SL_GELU_ERF);
  x = sl_layernorm(g, "head.ln_f", x, EPS);
  const sl_value bias = sl_graph_tensor(g, SL_ROLE_PARAMETER, "decoder", "bias", SL_F32, SL_SHAPE(data->classes),
                                        (sl_init){SL_INIT_CONSTANT, 0});
  x = sl_linear_with(g, "decoder", x, sl_graph_find(g, "wte.weight"), bias);
  sl__transformer_initialise(g, DEVIATION, DEVIATION);
  return x;
}

#define BERT(symbol, text, what, B, T, V, rate_, mask_, from_, to_, ...)                                   \
  static sl_value build_##symbol(sl_graph *g, sl_value x, const sl_model_data *data, const sl_training *o, \
                                 int training) {                                                           \
    return sl_bert(g, x, SL_NONE, data, &(sl_bert_size){__VA_ARGS__}, training ? o->dropout : 0);          \
  }                                                                                                        \
  const sl_model sl_model_##symbol = {                                                                     \
      .name = text,                                                                                        \
      .summary = what,                                                                                     \
      .task = SL_TASK_MASKED_TOKEN,                                                                        \
      .batch = B,                                                                                          \
      .epochs = 1,                                                                                         \
      .rate = SL_RATE_LINEAR,                                                                              \
      .warmup = 0.05,                                                                                      \
      .length = T,                                                                                         \
      .vocabulary = V,                                                                                     \
      .masking = {.mask = mask_, .from = from_, .to = to_},                                                \
      .training = {.optimizer = SL_OPTIMIZER_ADAMW,                                                        \
                   .learning_rate = rate_,                                                                 \
                   .momentum = 0.9,                                                                        \
                   .beta1 = 0.9,                                                                           \
                   .beta2 = 0.999,                                                                         \
                   .eps = 1e-6,                                                                            \
                   .decay = 0.01,                                                                          \
                   .clip = 1},                                                                             \
      .build = build_##symbol,                                                                             \
  }

/* Ids of the published vocabulary: [MASK] is 103; what is below 999 is special or unused. */
BERT(bert_base, "bert-base", "BERT, 110 million parameters", 8, 128, 30522, 1e-4, 103, 999, 30522, .layers = 12,
     .heads = 12, .width = 768, .positions = 512);
BERT(bert_large, "bert-large", "BERT, 335 million parameters", 8, 128, 30522, 1e-4, 103, 999, 30522, .layers = 24,
     .heads = 16, .width = 1024, .positions = 512);
BERT(bert_nano, "bert-nano", "BERT of 6 layers, 384 wide, 6 heads, over bytes and a mask", 8, 256, 257, 6e-4, 256, 0,
     256, .layers = 6, .heads = 6, .width = 384, .positions = 256);
