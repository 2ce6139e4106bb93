/* The block that all transformers here consist of, and their common sizes. */
#ifndef SL_MODELS_TRANSFORMER_H
#define SL_MODELS_TRANSFORMER_H

#include "models/networks/activation.h"

typedef struct sl__block {
  int heads;
  int64_t width, hidden; /* C, a multiple of heads; the perceptron's inner features */
  int causal;
  int post_norm; /* 1: layernorm(x + f(x)), Vaswani et al. 2017; 0: x + f(layernorm(x)), Radford et al. 2019 */
  double eps;    /* of the layernorms */
  int64_t activation;
  int unbiased; /* 1: the layer that makes queries, keys and values has no bias */
  double deviation,
      proj;       /* standard deviation of initial matrices; proj: that of attn.proj and mlp.proj; biases start at 0 */
  int first;      /* pre-norm only; 1: returns the first token's row alone, [B, C] */
  double dropout; /* rate for the outputs of attention and perceptron; 0 in an evaluation */
  sl_value lengths; /* I32 [B], tokens of each sample before its padding; SL_NONE: no padding */
} sl__block;

/* x + attention, then x + perceptron: F32 [B, T, C] to F32 [B, T, C]. Parameters NAME.ln_1, NAME.attn.qkv,
 * NAME.attn.proj, NAME.ln_2, NAME.mlp.fc, NAME.mlp.proj, each .weight and .bias (but attn.qkv.bias with unbiased =
 * 1). */
sl_value sl__transformer_block(sl_graph *graph, const char *name, sl_value x, const sl__block *block);

/* A linear layer with weights from normal(0, deviation) and biases 0. */
sl_value sl__linear_normal(sl_graph *graph, const char *layer, sl_value x, int64_t features, double deviation);
/* The same without biases. */
sl_value sl__linear_unbiased(sl_graph *graph, const char *layer, sl_value x, int64_t features, double deviation);

/* The first rows of a transformer's table; `type` is the family's struct of sizes. */
#define SL__TRANSFORMER_SIZES(type)                                                                                 \
  {.name = "layers", .help = "blocks", .offset = offsetof(type, layers), .least = 1, .most = 1024},                 \
      {.name = "width",                                                                                             \
       .help = "columns of an embedding, a multiple of heads",                                                      \
       .offset = offsetof(type, width),                                                                             \
       .least = 1,                                                                                                  \
       .most = 65536},                                                                                              \
      {.name = "heads", .help = "heads of attention", .offset = offsetof(type, heads), .least = 1, .most = 4096}, { \
    .name = "hidden", .help = "features inside the perceptrons", .offset = offsetof(type, hidden), .least = 1,      \
    .most = 1 << 20, .derived = "4 x width"                                                                         \
  }
/* The last rows of a transformer's table; `usual` and `usual_eps`: the values of an open activation and eps, in words.
 */
#define SL__TRANSFORMER_FORMS(type, usual, usual_eps)                                                       \
  SL__ACTIVATION_SIZE(type, "function inside the perceptrons", usual), {                                    \
    .name = "eps", .help = "number that the layernorms add to the variance", .offset = offsetof(type, eps), \
    .kind = SL_SIZE_REAL, .least = 1e-30, .most = 1, .derived = usual_eps                                   \
  }
/* A head for tokens that may be tied to the token embedding. */
#define SL__TRANSFORMER_UNTIED(type)                                                                      \
  {                                                                                                       \
    .name = "untied", .help = "1: the head has weights of its own; 0: its matrix is the token embedding", \
    .offset = offsetof(type, untied), .least = 0, .most = 1                                               \
  }

/* Derives the open sizes and checks that heads divides width. */
sl_status sl__transformer_complete(const char *family, int64_t heads, int64_t width, int64_t *hidden,
                                   int64_t *activation, sl_activation usual, double *eps, double usual_eps);

#endif
