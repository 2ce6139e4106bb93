/* The one list of operations: X(name) stands for the descriptor sl_op_name. Tests loop over it, so that an operation
 * without a case fails. */
#define SL_OPERATIONS(X) \
  X(accuracy)            \
  X(adamw)               \
  X(add)                 \
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
  X(clip_factor)         \
  X(conv2d)              \
  X(conv2d_dw)           \
  X(conv2d_dx)           \
  X(copy)                \
  X(count_targets)       \
  X(cross_entropy)       \
  X(cross_entropy_grad)  \
  X(dropout)             \
  X(flatten)             \
  X(gelu)                \
  X(gelu_grad)           \
  X(input)               \
  X(linear)              \
  X(linear_dw)           \
  X(linear_dx)           \
  X(maxpool)             \
  X(maxpool_grad)        \
  X(next_tokens)         \
  X(normalize)           \
  X(relu)                \
  X(relu_grad)           \
  X(row_norms)           \
  X(sgd)                 \
  X(softmax)             \
  X(softmax_grad)
