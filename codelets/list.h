/* The optimizers, X(NAME, name): SL_OPTIMIZER_NAME, and the descriptor sl_optimizer_name (training.h). */
#define SL_OPTIMIZERS(X) \
  X(SGD, sgd)            \
  X(ADAM, adam)          \
  X(ADAMW, adamw)        \
  X(LAMB, lamb)

/* The list of all operations: X(name) stands for the descriptor sl_op_name. Tests loop over it, so that an operation
 * without a case fails. */
#define SL_OPERATIONS(X) \
  X(accuracy)            \
  X(adamw)               \
  X(add)                 \
  X(add_row)             \
  X(add_row_grad)        \
  X(attention)           \
  X(attention_grad)      \
  X(avgpool)             \
  X(avgpool_grad)        \
  X(bn_dparam)           \
  X(bn_dx)               \
  X(bn_grad_stats)       \
  X(bn_infer)            \
  X(bn_normalize)        \
  X(bn_running)          \
  X(bn_stats)            \
  X(bn_total)            \
  X(class_token)         \
  X(class_token_grad)    \
  X(clip_factor)         \
  X(conv2d)              \
  X(conv2d_dw)           \
  X(conv2d_dx)           \
  X(copy)                \
  X(count_targets)       \
  X(cross_entropy)       \
  X(cross_entropy_grad)  \
  X(dropout)             \
  X(embedding)           \
  X(embedding_grad)      \
  X(first_token)         \
  X(first_token_grad)    \
  X(flatten)             \
  X(gelu)                \
  X(gelu_grad)           \
  X(input)               \
  X(lamb)                \
  X(lamb_moments)        \
  X(layernorm)           \
  X(layernorm_dparam)    \
  X(layernorm_dx)        \
  X(linear)              \
  X(linear_dw)           \
  X(linear_dx)           \
  X(mask_tokens)         \
  X(maxpool)             \
  X(maxpool_grad)        \
  X(meanpool)            \
  X(meanpool_grad)       \
  X(next_tokens)         \
  X(normalize)           \
  X(positional)          \
  X(positional_grad)     \
  X(relu)                \
  X(relu_grad)           \
  X(row_norms)           \
  X(sgd)                 \
  X(softmax)             \
  X(softmax_grad)
