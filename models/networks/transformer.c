/* The transformer's block: attention and a perceptron, each added to what it read. */
#include "models/networks/transformer.h"

#include <stdio.h>
#include <string.h>

static const char *in(const char *name, const char *part, char *text) {
  snprintf(text, 64, "%s.%s", name, part);
  return text;
}

/* y without some of its elements, in training. */
static sl_value drop(sl_graph *g, const char *name, const char *part, sl_value y, const sl__block *b) {
  char text[64];
  return b->dropout > 0 ? sl_dropout(g, in(name, part, text), y, (float)b->dropout) : y;
}

/* Ends the segment of attention that the caller has begun. */
static sl_value attention(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  char text[64];
  sl_value y = sl_linear(g, in(name, "attn.qkv", text), x, 3 * b->width, SL_ACTIVATION_NONE);
  y = sl_attention(g, in(name, "attn", text), y, b->heads, b->causal, b->lengths);
  sl_graph_segment(g, SL_RECOMPUTE_ATTENTION, 0);
  if (b->first) y = sl_first_token(g, in(name, "attn.first", text), y);
  y = sl_linear(g, in(name, "attn.proj", text), y, b->width, SL_ACTIVATION_NONE);
  return drop(g, name, "attn.dropout", y, b);
}

static sl_value perceptron(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  char text[64];
  sl_value y = sl_linear(g, in(name, "mlp.fc", text), x, b->hidden, SL_ACTIVATION_NONE);
  y = sl_gelu(g, in(name, "mlp.gelu", text), y, b->gelu);
  y = sl_linear(g, in(name, "mlp.proj", text), y, b->width, SL_ACTIVATION_NONE);
  return drop(g, name, "mlp.dropout", y, b);
}

static sl_value pre_norm(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  char text[64];
  sl_graph_segment(g, SL_RECOMPUTE_ATTENTION, 1);
  sl_value y = sl_layernorm(g, in(name, "ln_1", text), x, b->eps);
  y = attention(g, name, y, b);
  if (b->first) x = sl_first_token(g, in(name, "first", text), x);
  x = sl_add(g, in(name, "residual_1", text), x, y);
  y = sl_layernorm(g, in(name, "ln_2", text), x, b->eps);
  y = perceptron(g, name, y, b);
  return sl_add(g, in(name, "residual_2", text), x, y);
}

static sl_value post_norm(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  char text[64];
  sl_graph_segment(g, SL_RECOMPUTE_ATTENTION, 1);
  x = sl_add(g, in(name, "residual_1", text), x, attention(g, name, x, b));
  x = sl_layernorm(g, in(name, "ln_1", text), x, b->eps);
  x = sl_add(g, in(name, "residual_2", text), x, perceptron(g, name, x, b));
  return sl_layernorm(g, in(name, "ln_2", text), x, b->eps);
}

sl_value sl__transformer_block(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  sl_graph_segment(g, SL_RECOMPUTE_BLOCK, 1);
  x = b->post_norm ? post_norm(g, name, x, b) : pre_norm(g, name, x, b);
  sl_graph_segment(g, SL_RECOMPUTE_BLOCK, 0);
  return x;
}

void sl__transformer_initialise(sl_graph *g, double deviation, double proj) {
  for (sl_value v = 0; v < g->n_values; v++) {
    sl_value_info *info = g->value[v];
    if (info->role != SL_ROLE_PARAMETER || strstr(info->name, "ln_")) continue;
    const double scale = strstr(info->name, ".proj.") ? proj : deviation;
    info->init = info->shape.ndim > 1 ? (sl_init){SL_INIT_NORMAL, scale} : (sl_init){SL_INIT_CONSTANT, 0};
  }
}
