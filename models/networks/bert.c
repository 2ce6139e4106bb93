/* bert: encoder transformers that restore masked tokens (Devlin et al. 2019), with post-norm blocks and attention in
 * both directions. The decoder of the prediction head is the token embedding plus a bias of its own, unless the size
 * untied is 1. The layers are those of Hugging Face's BertForMaskedLM; the list's sizes are the paper's. bert-nano
 * trains on bytes in minutes. */
#include <stdio.h>

#include "models/networks/transformer.h"

#define DEVIATION 0.02

/* Vocabularies of more than LARGE tokens are taken for published ones: there [MASK] is 103, the last special token. */
enum { MASK = 103, LARGE = 999 };

static const sl_size table[] = {
    SL__TRANSFORMER_SIZES(sl_bert_size),
    {"positions", "most tokens of a window", offsetof(sl_bert_size, positions), .least = 1, .most = 1 << 20},
    {"vocabulary", "tokens of the vocabulary (if not given, those of a tokenizer beside the tokens)",
     offsetof(sl_bert_size, vocabulary), .least = 2, .most = 1 << 24},
    {"types", "rows of the table of token types", offsetof(sl_bert_size, types), .least = 1, .most = 1 << 20,
     .derived = "2"},
    {"mask", "token that replaces a masked one", offsetof(sl_bert_size, mask), .least = 1, .most = 1 << 24,
     .derived = "103, or the last token if there are 999 or fewer"},
    {"specials", "number of first tokens that are never masked", offsetof(sl_bert_size, specials), .least = 1,
     .most = 1 << 24, .derived = "up to the mask, if it is among the first 999 of a larger vocabulary; else none"},
    SL__TRANSFORMER_FORMS(sl_bert_size, "gelu", "1e-12"),
    SL__TRANSFORMER_UNTIED(sl_bert_size),
    {0},
};

static sl_status complete(void *sizes) {
  sl_bert_size *s = sizes;
  const int published = s->vocabulary > LARGE;
  if (!s->types) s->types = 2;
  if (!s->mask) s->mask = published ? MASK : s->vocabulary - 1;
  if (!s->specials && published && s->mask < LARGE && s->mask < s->vocabulary - 1) s->specials = s->mask + 1;
  if (s->mask >= s->vocabulary || s->specials >= s->vocabulary)
    return sl_fail(SL_EINVAL, "size %s=%lld of bert is beyond the vocabulary of %lld tokens",
                   s->mask >= s->vocabulary ? "mask" : "specials",
                   (long long)(s->mask >= s->vocabulary ? s->mask : s->specials), (long long)s->vocabulary);
  return sl__transformer_complete("bert", s->heads, s->width, &s->hidden, &s->activation, SL_ACTIVATION_GELU_ERF,
                                  &s->eps, 1e-12);
}

/* If the mask token is the last token, random replacements are never the mask token. */
static sl_masking masking(const void *sizes) {
  const sl_bert_size *s = sizes;
  return (sl_masking){.mask = (int32_t)s->mask,
                      .from = (int32_t)s->specials,
                      .to = (int32_t)(s->mask == s->vocabulary - 1 ? s->mask : s->vocabulary)};
}

sl_value sl_bert(sl_graph *g, sl_value tokens, sl_value lengths, const sl_model_data *data, const sl_bert_size *size,
                 double dropout) {
  sl_bert_size s = *size;
  s.vocabulary = data->classes, s.mask = s.specials = 0; /* the graph has no use for these two */
  const sl_status status = complete(&s);
  if (status != SL_OK) return sl_graph_fail(g, status, "h"), SL_NONE;
  const sl__block block = {.heads = (int)s.heads,
                           .width = s.width,
                           .hidden = s.hidden,
                           .post_norm = 1,
                           .eps = s.eps,
                           .activation = s.activation,
                           .deviation = DEVIATION,
                           .proj = DEVIATION,
                           .dropout = dropout,
                           .lengths = lengths};
  sl_value x = sl_embedding(g, "wte", tokens, data->classes, s.width, DEVIATION);
  x = sl_positional(g, "wpe", x, s.positions, DEVIATION);
  x = sl_add_row(g, "token_type", x, s.types, s.type, DEVIATION);
  x = sl_layernorm(g, "ln_e", x, s.eps);
  if (dropout > 0) x = sl_dropout(g, "dropout", x, (float)dropout);
  for (int l = 0; l < s.layers; l++) {
    char name[16];
    snprintf(name, sizeof name, "h.%d", l);
    x = sl__transformer_block(g, name, x, &block);
  }
  x = sl__linear_normal(g, "head.dense", x, s.width, DEVIATION);
  x = sl__activate(g, "head.gelu", x, block.activation);
  x = sl_layernorm(g, "head.ln_f", x, s.eps);
  if (s.untied) return sl__linear_normal(g, "head.decoder", x, data->classes, DEVIATION);
  const sl_value bias = sl_graph_tensor(g, SL_ROLE_PARAMETER, "decoder", "bias", SL_F32, SL_SHAPE(data->classes),
                                        (sl_init){SL_INIT_CONSTANT, 0});
  return sl_linear_with(g, "decoder", x, sl_graph_find(g, "wte.weight"), bias);
}

static sl_value build(sl_graph *g, sl_value x, const sl_model_data *data, const void *sizes, const sl_training *o,
                      int training) {
  return sl_bert(g, x, SL_NONE, data, sizes, training ? o->dropout : 0);
}

#define BERT(text, what, T, rate_, ...)                                                                                \
  {                                                                                                                    \
    .name = text, .summary = what, .family = &sl_family_bert, .sizes = &(const sl_bert_size){__VA_ARGS__}, .batch = 8, \
    .epochs = 1, .rate = SL_RATE_LINEAR, .warmup = 0.05, .usual = {.length = T},                                       \
    .training = {.optimizer = SL_OPTIMIZER_ADAMW,                                                                      \
                 .learning_rate = rate_,                                                                               \
                 .momentum = 0.9,                                                                                      \
                 .beta1 = 0.9,                                                                                         \
                 .beta2 = 0.999,                                                                                       \
                 .eps = 1e-6,                                                                                          \
                 .decay = 0.01,                                                                                        \
                 .clip = 1},                                                                                           \
  }
static const sl_model models[] = {
    BERT("bert-base", "BERT, 110 million parameters", 128, 1e-4, .layers = 12, .heads = 12, .width = 768,
         .positions = 512, .vocabulary = 30522),
    BERT("bert-large", "BERT, 335 million parameters", 128, 1e-4, .layers = 24, .heads = 16, .width = 1024,
         .positions = 512, .vocabulary = 30522),
    BERT("bert-nano", "BERT of 6 layers, 384 wide, 6 heads, over bytes and a mask", 256, 6e-4, .layers = 6, .heads = 6,
         .width = 384, .positions = 256, .vocabulary = 257),
    {0},
};

const sl_family sl_family_bert = {
    .name = "bert",
    .summary = "encoder transformers that restore masked tokens (Devlin et al. 2019)",
    .data = &sl_data_masked_tokens,
    .sizes = table,
    .size_bytes = sizeof(sl_bert_size),
    .complete = complete,
    .build = build,
    .masking = masking,
    .models = models,
};
