/* The operations: functions that add them to a graph, for models to call, and their descriptors.
 *
 * Shapes: B is the batch (samples); images are NHWC. Each function returns the value of its result, or SL_NONE once
 * the graph has failed (sl_graph_status). `layer` names the node and prefixes its parameters ("conv1.weight"). */
#ifndef SL_CODELETS_H
#define SL_CODELETS_H

/* The build makes this header from the lists of files in Makefile.am. It defines SL_OPERATIONS(X), with X(name) for
 * each descriptor sl_op_name, and SL_OPTIMIZERS(X), with X(name, NAME) for each descriptor sl_optimizer_name
 * (training.h). */
#include "codelets/lists.h"
#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_DECLARE_OPERATION(name) extern const sl_operation sl_op_##name;
SL_OPERATIONS(SL_DECLARE_OPERATION)
#undef SL_DECLARE_OPERATION

/* All operations, ended by NULL. Tests loop over this list, so an operation without a test case makes them fail. */
extern const sl_operation *const sl_operations[];
const sl_operation *sl_operation_find(const char *name);

/* Makes an empty graph. It knows the operations that the passes add. */
sl_graph *sl_graph_new(int64_t batch);

/* --- input and elementwise -------------------------------------------------------------------------------------- */

/* The array in host memory that the step has in this slot (sl_step.input): [B, sample...] of dtype. */
sl_value sl_input(sl_graph *graph, const char *layer, int slot, sl_dtype dtype, sl_shape sample);
/* Pixels U8 [..., C] -> F32: (x / 255 - mean) / deviation. mean, deviation: [channels]. channels is C, at most
 * SL_MAX_CHANNELS, or 1, for one number that applies to all channels. */
enum { SL_MAX_CHANNELS = 4 };
sl_value sl_normalize(sl_graph *graph, const char *layer, sl_value x, int64_t channels, const double *mean,
                      const double *deviation);
/* max(x, 0). */
sl_value sl_relu(sl_graph *graph, const char *layer, sl_value x);
/* Gaussian error linear unit (Hendrycks and Gimpel 2016): exact x Phi(x), or the tanh approximation (eq. 2 there). */
typedef enum sl_gelu_form { SL_GELU_ERF, SL_GELU_TANH } sl_gelu_form;
sl_value sl_gelu(sl_graph *graph, const char *layer, sl_value x, sl_gelu_form form);
/* x in another type: F32 to BF16, or BF16 to F32. */
sl_value sl_convert(sl_graph *graph, const char *layer, sl_value x, sl_dtype dtype);
/* a + b, same shapes. */
sl_value sl_add(sl_graph *graph, const char *layer, sl_value a, sl_value b);
/* Inverted dropout (Srivastava et al. 2014): each element is zero with probability p, else scaled by 1 / (1 - p).
 * The mask is Philox of seed, step, layer and the element's index in the global batch; the backward pass computes it
 * again. */
sl_value sl_dropout(sl_graph *graph, const char *layer, sl_value x, float p);
/* Input and targets of a language model: windows I32 [B, T + 1] -> tokens 0 to T - 1; *targets: tokens 1 to T; both
 * I32 [B, T]. Targets are -1 where the sample's label I32 [B] is negative (padding). */
sl_value sl_next_tokens(sl_graph *graph, const char *layer, sl_value windows, sl_value labels, sl_value *targets);
/* Input and targets of a masked language model (Devlin et al. 2019, section 3.1): windows I32 [B, T] -> tokens;
 * *targets: the original of each chosen token, -1 elsewhere; both I32 [B, T]. 15% of the tokens in [from, to), except
 * for the mask token, are chosen. Of the chosen tokens 80% become `mask`, 10% become a random token of [from, to), and
 * 10% stay. A sample whose label I32 [B] is negative (padding) has no targets. Random numbers are Philox of seed, step,
 * layer and the token's index in the global batch. */
typedef struct sl_masking {
  int32_t mask;
  int32_t from, to;
} sl_masking;
sl_value sl_mask_tokens(sl_graph *graph, const char *layer, sl_value windows, sl_value labels,
                        const sl_masking *masking, sl_value *targets);
/* [B, a, b, ...] -> [B, a b ...]; copies nothing if the planner can alias the buffers. */
sl_value sl_flatten(sl_graph *graph, const char *layer, sl_value x);
/* The same elements under another sample shape, as [B, H, W, C] -> [B, H W, C]; copies nothing if the planner can
 * alias. */
sl_value sl_reshape(sl_graph *graph, const char *layer, sl_value x, sl_shape sample);

/* --- layers ----------------------------------------------------------------------------------------------------- */

typedef enum sl_activation {
  SL_ACTIVATION_NONE,
  SL_ACTIVATION_RELU,
  SL_ACTIVATION_GELU_ERF,
  SL_ACTIVATION_GELU_TANH
} sl_activation;
/* Initial values of a layer's weight and bias. */
typedef struct sl_layer_init {
  sl_init weight, bias;
} sl_layer_init;
/* y = activation(x W^T + b): x [B, ..., K], W [N, K], b [N]. Parameters layer.weight, layer.bias; He's uniform
 * initialisation (bound 1 / sqrt(K), as torch.nn.Linear does). */
sl_value sl_linear(sl_graph *graph, const char *layer, sl_value x, int64_t features, sl_activation activation);
/* The same layer with another initialisation. */
sl_value sl_linear_init(sl_graph *graph, const char *layer, sl_value x, int64_t features, sl_activation activation,
                        const sl_layer_init *init);
/* A linear layer with a given weight [N, K] and bias [N] (SL_NONE: none), without activation. It is for tied weights:
 * the weight of GPT-2's head, for example, is the token embedding. */
sl_value sl_linear_with(sl_graph *graph, const char *layer, sl_value x, sl_value weight, sl_value bias);
/* Rows of a table: tokens I32 [B, ...] -> [B, ..., features]. Parameter layer.weight [vocabulary, features], normal
 * with the given deviation. A token that is negative or beyond the vocabulary makes the step fail; the error names
 * sample and position. */
sl_value sl_embedding(sl_graph *graph, const char *layer, sl_value tokens, int64_t vocabulary, int64_t features,
                      double deviation);
/* Learned embedding of positions: x [B, T, C] + weight[0 .. T), T <= positions. Parameter layer.weight [positions, C],
 * normal with the given deviation. */
sl_value sl_positional(sl_graph *graph, const char *layer, sl_value x, int64_t positions, double deviation);
/* Prepends a learned token (Dosovitskiy et al. 2021, eq. 1): x [B, N, C] -> [B, N + 1, C]. Parameter layer.weight
 * [C], normal with the given deviation. */
sl_value sl_class_token(sl_graph *graph, const char *layer, sl_value x, double deviation);
/* The first token of each sequence: [B, T, C] -> [B, C]. */
sl_value sl_first_token(sl_graph *graph, const char *layer, sl_value x);
/* x [B, ..., C] + weight[row], one row of a table: BERT's token type. Parameter layer.weight [rows, C], normal with the
 * given deviation. */
sl_value sl_add_row(sl_graph *graph, const char *layer, sl_value x, int64_t rows, int64_t row, double deviation);
/* Layer normalisation (Ba et al. 2016) over the last dimension: (x - mean) / sqrt(variance + eps) weight + bias, with
 * the row's own (biased) variance. Parameters layer.weight (ones), layer.bias (zeros). */
sl_value sl_layernorm(sl_graph *graph, const char *layer, sl_value x, double eps);
/* 2-d convolution, NHWC: x [B, H, W, C], weight [O, kh, kw, C], bias [O] (when bias); y [B, H', W', O],
 * H' = (H + 2 pad - kernel) / stride + 1. Initialised as torch.nn.Conv2d: bound 1 / sqrt(C kernel^2). */
sl_value sl_conv2d(sl_graph *graph, const char *layer, sl_value x, int64_t channels, int kernel, int stride, int pad,
                   int bias);
/* The same layer with another initialisation. */
sl_value sl_conv2d_init(sl_graph *graph, const char *layer, sl_value x, int64_t channels, int kernel, int stride,
                        int pad, int bias, const sl_layer_init *init);
sl_value sl_maxpool(sl_graph *graph, const char *layer, sl_value x, int kernel, int stride, int pad);
sl_value sl_avgpool(sl_graph *graph, const char *layer, sl_value x, int kernel, int stride, int pad);
/* Mean over all positions: [B, ..., C] -> [B, C]; for images this is global average pooling. */
sl_value sl_meanpool(sl_graph *graph, const char *layer, sl_value x);
/* Batch normalisation (Ioffe and Szegedy 2015) over all but the last dimension: over the samples of a leaf, or of the
 * global batch. Parameters layer.weight, layer.bias; state layer.running_mean, layer.running_var (momentum 0.1, eps
 * 1e-5; running_var is an average of unbiased variances). With training = 0, the layer normalises by the running
 * statistics. */
typedef enum sl_batchnorm_over { SL_BATCHNORM_LEAF, SL_BATCHNORM_GLOBAL } sl_batchnorm_over;
sl_value sl_batchnorm(sl_graph *graph, const char *layer, sl_value x, sl_batchnorm_over over, int training);
/* Batch normalisation fused with a residual sum and a rectifier, which often follow: max(batchnorm(x) + residual, 0).
 * residual has x's shape, or is SL_NONE. */
sl_value sl_batchnorm_relu(sl_graph *graph, const char *layer, sl_value x, sl_value residual, sl_batchnorm_over over,
                           int training);

/* Scaled dot-product attention with several heads, softmax(q k^T / sqrt(C / heads)) v (Vaswani et al. 2017, eq. 1): qkv
 * [B, T, 3C] -> [B, T, C]. qkv holds q, k and v side by side, each [heads, C / heads], as a linear layer to 3C features
 * makes them. causal: a query sees the keys up to its own position. lengths I32 [B] or SL_NONE: only the first
 * lengths[b] tokens of sample b count, as keys and as queries. The results of the other tokens are zeros, and these
 * tokens get no gradient. A length beyond T makes the step fail; the error names the sample. */
sl_value sl_attention(sl_graph *graph, const char *layer, sl_value qkv, int heads, int causal, sl_value lengths);

/* --- loss and measures ------------------------------------------------------------------------------------------ */

/* Number of targets >= 0: targets I32 [B, ...] -> F64 [1], summed over the batch. */
sl_value sl_count_targets(sl_graph *graph, const char *layer, sl_value targets);
/* Mean cross-entropy (nats) of softmax(logits) over the targets >= 0: logits [B, ..., V], targets I32 [B, ...] (-1:
 * ignored), count F64 [1] -> F64 [1]. A target beyond V makes the step fail; the error names the sample. A logit that
 * is not finite makes the loss not finite, unless the row is ignored. */
sl_value sl_cross_entropy(sl_graph *graph, const char *layer, sl_value logits, sl_value targets, sl_value count);
/* Cross-entropy with label smoothing (Szegedy et al. 2016, section 7; as torch.nn.CrossEntropyLoss): the target
 * distribution is smoothing / V at every class, plus 1 - smoothing at the target; smoothing in [0, 1]. */
sl_value sl_cross_entropy_smoothed(sl_graph *graph, const char *layer, sl_value logits, sl_value targets,
                                   sl_value count, double smoothing);
/* softmax over the last dimension. */
sl_value sl_softmax(sl_graph *graph, const char *layer, sl_value x);
/* Number of targets >= 0 whose logit is the largest of the row (of equal logits, the first): F64 [1]. */
sl_value sl_accuracy(sl_graph *graph, const char *layer, sl_value logits, sl_value targets);

/* Number of targets >= 0 whose logit is among the k largest of the row, k > 0. Of equal logits the smaller index comes
 * first. */
sl_value sl_accuracy_top(sl_graph *graph, const char *layer, sl_value logits, sl_value targets, int k);

/* --- update ----------------------------------------------------------------------------------------------------- */

/* Factor min(1, bound / ||g||) of gradient clipping by global norm (Pascanu et al. 2013), F64 [1]. The norm is summed
 * over rows (dimension 0; a vector has rows of one element), then over values, by a fixed tree. NaN if the norm is not
 * finite. scale: SL_NONE, or the value of sl_loss_scale. The gradients are too large by this scale, so the factor
 * divides by it, too. With a scale, a norm that is not finite gives the factor 0: gradients overflowed, and the step
 * must change nothing. bound may be INFINITY. */
sl_value sl_clip_factor(sl_graph *graph, const char *layer, const sl_value *gradients, int n, double bound,
                        sl_value scale);

/* Dynamic loss scaling (loss_scale.c). Returns the scale, F64 [1], from which sl_gradient_seeded starts the backward
 * pass. In the first step it is 2^first, first from SL_LOSS_SCALE_LEAST to SL_LOSS_SCALE_MOST. Sets *state to the state
 * tensor of the scale, loss_scale.state. */
sl_value sl_loss_scale(sl_graph *graph, int first, sl_value *state);
/* Adds the node that updates this state. clip: the value of sl_clip_factor with this scale. */
void sl_loss_scale_update(sl_graph *graph, int first, sl_value state, sl_value guard, sl_value clip);

/* Adds one update node for each parameter. gradients[i] belongs to parameters[i]. guard is F64 [1] (the loss); clip is
 * SL_NONE or a clip factor. If guard or clip is not finite, or if the factor is 0, the step updates nothing. The
 * learning rate is sl_step.learning_rate. Weight decay applies to parameters whose sl_value_info.decay is set. By
 * default these are the parameters with two or more dimensions, so biases and norms do not decay. (torch decays every
 * parameter that it gets; to do the same, set all flags.) sgd: v = momentum v + g + decay p; p = p - lr v (as
 * torch.optim.SGD; state NAME.momentum). adamw: Loshchilov and Hutter 2019, algorithm 2 (as torch.optim.AdamW; state
 * NAME.m, NAME.v). adam: Kingma and Ba 2015, algorithm 1, with decay p added to g (as torch.optim.Adam; state NAME.m,
 * NAME.v). lamb: You et al. 2020, algorithm 2, phi the identity; each parameter has one trust ratio |p| / |u|, which is
 * 1 if one of the norms is 0 (state NAME.m, NAME.v). */
typedef struct sl_sgd_options {
  double momentum, decay;
} sl_sgd_options;
typedef struct sl_adamw_options {
  double beta1, beta2, eps, decay;
} sl_adamw_options;
typedef struct sl_adam_options {
  double beta1, beta2, eps, decay;
} sl_adam_options;
typedef struct sl_lamb_options {
  double beta1, beta2, eps, decay;
} sl_lamb_options;
void sl_sgd(sl_graph *graph, const sl_sgd_options *options, const sl_value *parameters, const sl_value *gradients,
            int n, sl_value guard, sl_value clip);
void sl_adamw(sl_graph *graph, const sl_adamw_options *options, const sl_value *parameters, const sl_value *gradients,
              int n, sl_value guard, sl_value clip);
void sl_adam(sl_graph *graph, const sl_adam_options *options, const sl_value *parameters, const sl_value *gradients,
             int n, sl_value guard, sl_value clip);
void sl_lamb(sl_graph *graph, const sl_lamb_options *options, const sl_value *parameters, const sl_value *gradients,
             int n, sl_value guard, sl_value clip);

#ifdef __cplusplus
}
#endif
#endif
