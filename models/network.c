/* Builds the graph of a training step or of an evaluation around a model's layers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/attributes.h"
#include "models/models.h"
#include "tasks/graph/fold_sums.h"
#include "tasks/graph/folds.h"
#include "tasks/graph/gradient.h"

/* Adds the layers; the model's sizes may be open. */
static sl_value build(const sl_model *model, sl_graph *g, sl_value x, const sl_model_data *data,
                      const sl_training *options, int training) {
  sl_model *whole;
  const sl_status status = sl_model_complete(model, &whole);
  if (status != SL_OK) return sl_graph_fail(g, status, model->name), SL_NONE;
  x = model->family->build(g, x, data, whole->sizes, options, training);
  free(whole);
  return x;
}

/* Divides the layers into folds. In a language model, also divides the classes. */
static sl_status fold(const sl_training *options, int classifies, sl_network *n) {
  sl_value *const kept[] = {&n->logits, &n->loss, &n->correct, &n->count, &n->top5, &n->probabilities};
  enum { KEPT = sizeof kept / sizeof *kept };
  sl_value values[KEPT];
  const sl_optimizer_rule *rule = sl_optimizer_rules[options->optimizer];
  if (options->folds > 1 && rule->whole)
    return sl_blame(sl_fail(SL_EINVAL, "%s takes norms of whole parameters, which %lld folds divide", rule->name,
                            (long long)options->folds),
                    "folds");
  for (int i = 0; i < KEPT; i++) values[i] = *kept[i];
  const sl_fold_options how = {.folds = options->folds,
                               .logits = classifies ? SL_NONE : n->logits,
                               .by_sequence = options->sequence_parallel == SL_SEQUENCE_PARALLEL_ON};
  SL_TRY(sl_fold(&n->graph, &how, values, KEPT));
  for (int i = 0; i < KEPT; i++) *kept[i] = values[i];
  return SL_OK;
}

/* Adds the nodes that both graphs have: input, layers, loss and measures. */
static sl_status forward(const sl_model *model, const sl_model_data *data, const sl_training *options, int64_t batch,
                         int training, sl_network *n) {
  memset(n, 0, sizeof *n);
  n->clip = n->scale = SL_NONE;
  n->graph = sl_graph_new(batch);
  if (!n->graph) return sl_no_memory("for a graph");
  sl_graph *g = n->graph;
  const sl_data_kind *kind = model->family->data;
  if (!kind) return sl_fail(SL_EINVAL, "family %s names no kind of data", model->family->name);
  sl_value labels = sl_input(g, "labels", SL_SLOT_LABELS, SL_I32, sl_shape_make(NULL, 0)), x;
  x = sl_input(g, kind->samples, SL_SLOT_SAMPLES, kind->dtype, kind->shape(data));
  SL_TRY(kind->prepare(g, model, data, x, labels, &x, &labels));
  n->sample_bytes = sl_data_sample_bytes(kind, data);
  n->logits = build(model, g, x, data, options, training);
  n->count = sl_count_targets(g, "count", labels);
  n->loss = training && options->smoothing > 0
                ? sl_cross_entropy_smoothed(g, "loss", n->logits, labels, n->count, options->smoothing)
                : sl_cross_entropy(g, "loss", n->logits, labels, n->count);
  n->correct = sl_accuracy(g, "accuracy", n->logits, labels);
  n->top5 = training ? SL_NONE : sl_accuracy_top(g, "top5", n->logits, labels, 5);
  n->probabilities = training || !kind->classifies ? SL_NONE : sl_softmax(g, "softmax", n->logits);
  SL_TRY(sl_graph_status(g));
  return fold(options, kind->classifies, n);
}

/* Sums over folds are divided among the tensor ranks if a sample has at least this many elements; 0: no sum is divided.
 * Auto: from where the saved bytes outweigh the additional messages and tasks (docs/performance.md, "Tensor ranks"). */
static int64_t least_divided(const sl_training *o) {
  switch (o->fold_sums) {
    case SL_FOLD_SUMS_WHOLE:
      return 0;
    case SL_FOLD_SUMS_PARTS:
      return 1;
    default:
      break;
  }
  if (o->fold_gpus) return 1 << 19;
  return o->fold_ranks > 4 ? 1 << 17 : 0;
}

/* The passes over the whole graph. */
static sl_status finish(const sl_training *options, sl_graph *g) {
  const int64_t least = least_divided(options);
  if (least > 0) SL_TRY(sl_fold_sums_divide(g, options->fold_ranks, least));
  return sl_precision_apply(g, options->precision);
}

static void count_parameters(sl_network *n, sl_value *parameters) {
  n->n_parameters = 0;
  n->parameter_count = 0;
  for (sl_value v = 0; v < n->graph->n_values; v++)
    if (n->graph->value[v]->role == SL_ROLE_PARAMETER) {
      if (parameters) parameters[n->n_parameters] = v;
      n->n_parameters++;
      n->parameter_count += sl_shape_count(&n->graph->value[v]->shape);
    }
}

/* Binary logarithm of the first loss scale. */
static sl_status first_scale(const sl_training *o, int *first) {
  const double fraction = frexp(o->loss_scale, first);
  if (o->loss_scale == 0) {
    *first = SL_LOSS_SCALE_FIRST;
    return SL_OK;
  }
  *first -= 1;
  if (fraction == 0.5 && *first >= SL_LOSS_SCALE_LEAST && *first <= SL_LOSS_SCALE_MOST) return SL_OK;
  return sl_blame(sl_fail(SL_EINVAL, "a first loss scale of %.9g: expects a power of two from 2^%d to 2^%d",
                          o->loss_scale, SL_LOSS_SCALE_LEAST, SL_LOSS_SCALE_MOST),
                  "loss-scale");
}

static void update(sl_network *n, const sl_training *o, int first, sl_value scaling, const sl_value *parameters,
                   const sl_value *gradients) {
  n->graph->phase = SL_PHASE_UPDATE;
  if (o->clip > 0 || scaling != SL_NONE)
    n->clip = sl_clip_factor(n->graph, "clip", gradients, n->n_parameters, o->clip > 0 ? o->clip : INFINITY, n->scale);
  if (scaling != SL_NONE) sl_loss_scale_update(n->graph, first, scaling, n->loss, n->clip);
  sl_optimizer_rules[o->optimizer]->add(n->graph, o, parameters, gradients, n->n_parameters, n->loss, n->clip);
}

sl_status sl_network_training(const sl_model *model, const sl_model_data *data, const sl_training *options,
                              int64_t batch, sl_network *n) {
  sl_value *parameters = NULL, *gradients = NULL, scaling = SL_NONE;
  sl_status status = SL_OK;
  int first = 0;
  SL_TRY_OUT(forward(model, data, options, batch, 1, n));
  if (options->precision == SL_PRECISION_FP16) SL_TRY_OUT(first_scale(options, &first));
  size_t most = (size_t)n->graph->n_values;
  parameters = malloc(most * sizeof *parameters);
  gradients = malloc(most * sizeof *gradients);
  if (!parameters || !gradients) {
    status = sl_no_memory("for the gradients of %s", model->name);
    goto out;
  }
  count_parameters(n, parameters);
  if (options->precision == SL_PRECISION_FP16) n->scale = sl_loss_scale(n->graph, first, &scaling);
  SL_TRY_OUT(sl_gradient_seeded(n->graph, n->loss, n->scale, parameters, n->n_parameters, gradients));
  SL_TRY_OUT(sl_recompute_segments(n->graph, options->recompute));
  update(n, options, first, scaling, parameters, gradients);
  status = finish(options, n->graph);
out:
  free(parameters);
  free(gradients);
  if (status != SL_OK) sl_network_destroy(n);
  return status;
}

sl_status sl_network_evaluation(const sl_model *model, const sl_model_data *data, const sl_training *options,
                                int64_t batch, sl_network *n) {
  sl_status status = forward(model, data, options, batch, 0, n);
  if (status == SL_OK) status = finish(options, n->graph);
  if (status == SL_OK)
    count_parameters(n, NULL);
  else
    sl_network_destroy(n);
  return status;
}

sl_status sl_network_logits(const sl_model *model, const sl_model_data *data, const sl_training *options, int64_t batch,
                            sl_network *n) {
  *n = (sl_network){.graph = sl_graph_new(batch), .sample_bytes = (size_t)data->length * sizeof(int32_t)};
  if (!n->graph) return sl_no_memory("for a graph");
  n->probabilities = n->loss = n->correct = n->count = n->top5 = n->clip = n->scale = SL_NONE;
  const sl_value tokens = sl_input(n->graph, "tokens", SL_SLOT_SAMPLES, SL_I32, SL_SHAPE(data->length));
  n->logits = build(model, n->graph, tokens, data, options, 0);
  sl_status status = sl_graph_status(n->graph);
  if (status == SL_OK) status = fold(options, 1, n); /* 1: the logits are read whole, so classes stay undivided */
  if (status == SL_OK && options->precision != SL_PRECISION_FP32)
    n->logits = sl_convert(n->graph, "logits", n->logits, SL_F32);
  count_parameters(n, NULL);
  if (status == SL_OK) status = finish(options, n->graph);
  if (status != SL_OK) sl_network_destroy(n);
  return status;
}

void sl_network_destroy(sl_network *n) {
  sl_graph_destroy(n->graph);
  n->graph = NULL;
}
