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
  sl_gelu_form gelu;
  int first;        /* pre-norm only: the result is that of the first token alone, [B, C] */
  double dropout;   /* of what attention and perceptron add; 0 in an evaluation */
  sl_value lengths; /* I32 [B] tokens of a sample that count, or SL_NONE: all */
} sl__block;

/* x + attention, then x + perceptron: F32 [B, T, C] to the same. Parameters NAME.ln_1, NAME.attn.qkv, NAME.attn.proj,
 * NAME.ln_2, NAME.mlp.fc, NAME.mlp.proj, each .weight and .bias. */
sl_value sl__transformer_block(sl_graph *graph, const char *name, sl_value x, const sl__block *block);

/* Sets the initialisation of all parameters added so far but those of layernorms, convolutions' included: matrices
 * normal(deviation), those named .proj. normal(proj), biases 0. */
void sl__transformer_initialise(sl_graph *graph, double deviation, double proj);

#endif
