/* The transformer's block: attention and a perceptron, each added to its own input. */
#include "models/networks/transformer.h"

#include <stdio.h>
#include <string.h>

static const char *in(const char *name, const char *part, char *text) {
  snprintf(text, 64, "%s.%s", name, part);
  return text;
}

sl_value sl__linear_normal(sl_graph *g, const char *layer, sl_value x, int64_t features, double deviation) {
  return sl_linear_init(g, layer, x, features, SL_ACTIVATION_NONE,
                        &(sl_layer_init){{SL_INIT_NORMAL, deviation}, {SL_INIT_CONSTANT, 0}});
}

sl_value sl__linear_unbiased(sl_graph *g, const char *layer, sl_value x, int64_t features, double deviation) {
  const sl_value_info *info = sl_graph_value(g, x);
  if (!info) return SL_NONE;
  const sl_shape shape = SL_SHAPE(features, info->shape.dim[info->shape.ndim - 1]);
  const sl_init init = {SL_INIT_NORMAL, deviation};
  return sl_linear_with(g, layer, x, sl_graph_tensor(g, SL_ROLE_PARAMETER, layer, "weight", SL_F32, shape, init),
                        SL_NONE);
}

static sl_value drop(sl_graph *g, const char *name, const char *part, sl_value y, const sl__block *b) {
  char text[64];
  return b->dropout > 0 ? sl_dropout(g, in(name, part, text), y, (float)b->dropout) : y;
}

/* Ends the segment of attention that the caller has begun. */
static sl_value attention(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  char text[64];
  sl_value y = (b->unbiased ? sl__linear_unbiased : sl__linear_normal)(g, in(name, "attn.qkv", text), x, 3 * b->width,
                                                                       b->deviation);
  y = sl_attention(g, in(name, "attn", text), y, b->heads, b->causal, b->lengths);
  sl_graph_segment(g, SL_RECOMPUTE_ATTENTION, 0);
  if (b->first) y = sl_first_token(g, in(name, "attn.first", text), y);
  y = sl__linear_normal(g, in(name, "attn.proj", text), y, b->width, b->proj);
  return drop(g, name, "attn.dropout", y, b);
}

static sl_value perceptron(sl_graph *g, const char *name, sl_value x, const sl__block *b) {
  char text[64];
  sl_value y = sl__linear_normal(g, in(name, "mlp.fc", text), x, b->hidden, b->deviation);
  y = sl__activate(g, in(name, b->activation == SL_ACTIVATION_RELU ? "mlp.relu" : "mlp.gelu", text), y, b->activation);
  y = sl__linear_normal(g, in(name, "mlp.proj", text), y, b->width, b->proj);
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

/* The numbers of heads nearest to `heads` that divide width. */
static void divisors(int64_t heads, int64_t width, int64_t *below, int64_t *above) {
  for (*below = heads < width ? heads : width; width % *below; --*below) {
  }
  for (*above = heads; *above < width && width % *above; ++*above) {
  }
}

sl_status sl__transformer_complete(const char *family, int64_t heads, int64_t width, int64_t *hidden,
                                   int64_t *activation, sl_activation usual, double *eps, double usual_eps) {
  if (heads < 1 || width < 1) return sl_fail(SL_EINVAL, "%s has no heads or no width", family);
  if (width % heads) {
    int64_t below, above;
    divisors(heads, width, &below, &above);
    return sl_fail(
        SL_EINVAL, "size width=%lld of %s is not a multiple of heads=%lld; heads=%lld and heads=%lld divide it",
        (long long)width, family, (long long)heads, (long long)below, (long long)(above < width ? above : width));
  }
  if (!*hidden) *hidden = 4 * width;
  if (!*activation) *activation = usual;
  if (!(*eps > 0)) *eps = usual_eps;
  return SL_OK;
}
