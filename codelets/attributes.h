/* Attributes of operations that have a CPU kernel (.c) and a CUDA kernel (.cu): both read them through call->attr. A
 * task's footprint is a hash of its attribute's bytes. So attributes must have no padding, because padding bytes have
 * no defined value. */
#ifndef SL_ATTRIBUTES_H
#define SL_ATTRIBUTES_H

#include "codelets/codelets.h"
#include "runtime/numbers/philox.h"

#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#endif

typedef struct sl_input_attr {
  int slot;
  sl_dtype dtype;
  sl_shape shape; /* samples of the global batch */
} sl_input_attr;

/* channels = 1: mean[0] and deviation[0] apply to all channels of the pixels. */
typedef struct sl_normalize_attr {
  int channels;
  float mean[SL_MAX_CHANNELS], deviation[SL_MAX_CHANNELS];
} sl_normalize_attr;

typedef struct sl_gelu_attr {
  sl_gelu_form form;
} sl_gelu_attr;

/* Dropout keeps element i if word i of the random stream is at least p 2^32. The gradient is the same operation on dy,
 * with the stream of the forward node. */
typedef struct sl_dropout_attr {
  float p;
  int fixed; /* 1: the stream is `key`, not the call's */
  uint32_t key;
} sl_dropout_attr;

typedef struct sl_flatten_attr {
  sl_shape shape; /* features of the output */
} sl_flatten_attr;

/* sequence_part: part `part` of `parts` equal parts of the positions, which are dimension 1 of the samples. */
typedef struct sl_sequence_attr {
  int part, parts;
} sl_sequence_attr;
/* Its first position, and the one behind its last, of T positions. */
static inline int64_t sl_sequence_from(const sl_sequence_attr *a, int64_t T) { return T * a->part / a->parts; }
static inline int64_t sl_sequence_to(const sl_sequence_attr *a, int64_t T) { return T * (a->part + 1) / a->parts; }

typedef struct sl_linear_attr {
  sl_activation activation; /* SL_ACTIVATION_NONE or _RELU: the activations that the kernels fuse */
} sl_linear_attr;

/* conv2d, conv2d_dx, conv2d_dw: filters [O, kernel, kernel, C] over images [B, height, width, C]. */
typedef struct sl_conv2d_attr {
  int kernel, stride, pad;
  int height, width; /* sizes of the input image */
} sl_conv2d_attr;
/* Pooling of x [B, height, width, C]; used by both the forward operation and its gradient. */
typedef struct sl_pool_attr {
  int kernel, stride, pad;
  int height, width;
} sl_pool_attr;

/* meanpool_grad: shape [B, ..., C] of the pooled value. */
typedef struct sl_meanpool_attr {
  sl_shape shape;
} sl_meanpool_attr;

/* Statistics over the samples of `scope` (LEAF or WHOLE), with `spatial` positions each. relu: max(y (+ residual),
 * 0). */
typedef struct sl_batchnorm_attr {
  int64_t scope, spatial, relu;
} sl_batchnorm_attr;
/* Number of elements of a channel that the statistics cover. */
static inline double sl_batchnorm_count(const sl_call *c) {
  const sl_batchnorm_attr *attr = (const sl_batchnorm_attr *)c->attr;
  return (double)(attr->scope == SL_SCOPE_LEAF ? c->leaf_rows : c->batch_rows) * (double)attr->spatial;
}
/* CUDA: bytes of the mask's constants, before the partial sums. */
static inline size_t sl_batchnorm_mask_bytes(int64_t C) { return ((size_t)(3 * C) * sizeof(float) + 255) / 256 * 256; }
/* Number of positions in a tile, when x has M positions of C channels. There are at most 64 tiles, so that the partial
 * sums stay small. elements: the plan's number of elements for a tile. */
static inline int64_t sl_batchnorm_sum_tile(int64_t elements, int64_t M, int64_t C) {
  int64_t tile = elements / (C > 1 ? C : 1);
  if (tile < 1) tile = 1;
  return tile > (M + 63) / 64 ? tile : (M + 63) / 64;
}
#define SL_BATCHNORM_EPS 1e-5
#define SL_BATCHNORM_MOMENTUM 0.1

typedef struct sl_layernorm_attr {
  double eps;
} sl_layernorm_attr;

/* positional_grad: rows of the table. */
typedef struct sl_positional_attr {
  int64_t rows;
} sl_positional_attr;

/* embedding and its gradient: `rows` is the number of rows of the table. For a fold, it is the number of rows of the
 * fold, `all` that of the whole table, and `from` the fold's first token. */
typedef struct sl_embedding_attr {
  int64_t rows, from, all;
} sl_embedding_attr;

/* first_token_grad: tokens per sequence. */
typedef struct sl_first_token_attr {
  int64_t tokens;
} sl_first_token_attr;

/* add_row and its gradient: index of the row, and number of rows. */
typedef struct sl_add_row_attr {
  int64_t rows, row;
} sl_add_row_attr;

/* mask_tokens: sl_masking. sl_masked_token returns the new value of token `id`, from the token's four random words: the
 * first word decides whether the token is chosen (15%), the second whether it becomes the mask, becomes a random token
 * or stays, the third which random token it becomes. */
SL_HOST_DEVICE int sl_masking_chosen(const sl_masking *m, int32_t id, const uint32_t word[4]) {
  return id >= m->from && id < m->to && id != m->mask && word[0] < 644245094u;
}
SL_HOST_DEVICE int32_t sl_masked_token(const sl_masking *m, int32_t id, const uint32_t word[4]) {
  if (!sl_masking_chosen(m, id, word) || word[1] >= 3865470566u) return id;
  if (word[1] < 3435973836u) return m->mask;
  return m->from + (int32_t)((uint64_t)word[2] * (uint64_t)(m->to - m->from) >> 32);
}

/* cross_entropy and its gradient. */
typedef struct sl_cross_entropy_attr {
  double smoothing;
} sl_cross_entropy_attr;

typedef struct sl_accuracy_attr {
  int k; /* number of largest logits that count */
} sl_accuracy_attr;

/* class_sums, target_rank: the logits belong to a fold of the classes that begins with class `from`; `all` is the
 * number of all classes. */
enum { SL_CLASS_SUMS = 3 };
typedef struct sl_classes_attr {
  int64_t from, all;
} sl_classes_attr;

/* class_loss and its gradient: the number of all classes. */
typedef struct sl_class_loss_attr {
  double smoothing;
  int64_t classes;
} sl_class_loss_attr;

typedef struct sl_attention_attr {
  int heads, causal;
} sl_attention_attr;

typedef struct sl_clip_attr {
  double bound;
  int64_t scaled; /* 1: the last input is the loss scale, by which gradients are too large */
} sl_clip_attr;

/* Binary logarithms of the loss scale: its usual first, its largest and its least value. The scale doubles after
 * SL_LOSS_SCALE_GROWS steps without an overflow. An overflow at the least scale ends the training. */
enum { SL_LOSS_SCALE_FIRST = 16, SL_LOSS_SCALE_MOST = 24, SL_LOSS_SCALE_LEAST = -14, SL_LOSS_SCALE_GROWS = 2000 };
/* loss_scale, loss_scale_update */
typedef struct sl_loss_scale_attr {
  int64_t first; /* binary logarithm of the first step's scale */
} sl_loss_scale_attr;

/* sgd: sl_sgd_options; lamb, lamb_moments: sl_lamb_options; decay is 0 for parameters without decay. */
typedef struct sl_adamw_attr {
  sl_adamw_options options;
  int64_t l2; /* 1: decay is added to the gradient, as in Adam */
} sl_adamw_attr;

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#endif
