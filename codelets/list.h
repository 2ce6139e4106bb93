/* The one list of operations: X(name) stands for the descriptor sl_op_name. Tests loop over it, so that an operation
 * without a case fails. */
#define SL_OPERATIONS(X) \
  X(accuracy)            \
  X(add)                 \
  X(copy)                \
  X(relu)                \
  X(relu_grad)
