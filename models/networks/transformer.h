/* The block that all transformers here are stacked from. */
#ifndef SL_MODELS_TRANSFORMER_H
#define SL_MODELS_TRANSFORMER_H

#include "models/models.h"

typedef struct sl__block {
  int heads;
  int64_t width, hidden; /* C, a multiple of heads; features inside the perceptron */
  int causal;
  int post_norm; /* 1: layernorm(x + f(x)), Vaswani et al. 2017; 0: x + f(layernorm(x)), Radford et al. 2019 */
  double eps;    /* of the layernorms */
  sl_activation activation;
  double deviation,
      proj;         /* of the normal distribution that matrices start from; of attn.proj and mlp.proj; biases: 0 */
  int first;        /* pre-norm only: the result is that of the first token alone, [B, C] */
  double dropout;   /* of what attention and perceptron add; 0 in an evaluation */
  sl_value lengths; /* I32 [B] tokens of a sample that count, or SL_NONE: all */
} sl__block;

/* x + attention, then x + perceptron: F32 [B, T, C] to the same. Parameters NAME.ln_1, NAME.attn.qkv, NAME.attn.proj,
 * NAME.ln_2, NAME.mlp.fc, NAME.mlp.proj, each .weight and .bias. */
sl_value sl__transformer_block(sl_graph *graph, const char *name, sl_value x, const sl__block *block);

/* A linear layer, weights normal(deviation), biases 0. */
sl_value sl__linear_normal(sl_graph *graph, const char *layer, sl_value x, int64_t features, double deviation);
/* An activation as a node of its own. */
sl_value sl__activate(sl_graph *graph, const char *layer, sl_value x, sl_activation activation);

/* The rows that tables of transformers begin with; `type` is the family's struct of sizes. */
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
/* And those that they end with; `usual` is the activation that is not named, `usual_eps` the eps. */
#define SL__TRANSFORMER_FORMS(type, usual, usual_eps)                                                \
  {.name = "activation",                                                                             \
   .help = "function inside the perceptrons",                                                        \
   .offset = offsetof(type, activation),                                                             \
   .kind = SL_SIZE_CHOICE,                                                                           \
   .derived = usual,                                                                                 \
   .choices = sl__activations},                                                                      \
  {                                                                                                  \
    .name = "eps", .help = "what the layernorms add to the variance", .offset = offsetof(type, eps), \
    .kind = SL_SIZE_REAL, .least = 1e-30, .most = 1, .derived = usual_eps                            \
  }
extern const char *const sl__activations[]; /* by sl_activation: "", "relu", "gelu", "gelu-tanh" */

/* Derives the open members, and checks that heads divide width. */
sl_status sl__transformer_complete(const char *family, int64_t heads, int64_t width, int64_t *hidden,
                                   int64_t *activation, sl_activation usual, double *eps, double usual_eps);

#endif
