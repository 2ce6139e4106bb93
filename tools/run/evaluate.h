/* An evaluator: the forward pass of a model over a whole split, or over images at hand. */
#ifndef SL_TOOLS_EVALUATE_H
#define SL_TOOLS_EVALUATE_H

#include "models/models.h"
#include "runtime/data/loader.h"
#include "tasks/starpu/program.h"
#include "tools/ranks/ranks.h"

typedef struct sl__evaluator {
  sl_network network;
  sl_program *program;
  sl_plan plan;
  const sl__ranks *ranks;
  int64_t step;  /* after which the parameters were saved; for messages */
  int64_t batch; /* step number within the pass, from 1, so that every pass masks the same tokens */
} sl__evaluator;

typedef struct sl__score {
  double loss;           /* mean, nats; perplexity is its exponential */
  double accuracy, top5; /* shares of targets whose logit is the largest, is among the five largest */
  int64_t samples;       /* targets that count: images, or tokens */
} sl__score;

/* Makes an evaluator over the store's parameters; adds missing ones (initialised). plan: the training's, divided among
 * the ranks, which must outlive the evaluator. Collective; each pass is too. */
sl_status sl__evaluator_create(sl_runtime *runtime, sl_store *store, const sl_model *model, const sl_model_data *data,
                               const sl_training *training, const sl_plan *plan, const sl__ranks *ranks,
                               sl__evaluator *evaluator);
void sl__evaluator_destroy(sl__evaluator *evaluator); /* a zeroed one is allowed */
/* Runs a step on the loader's last batch. Meanwhile copies the next batch to the GPUs if the loader has it ready. */
sl_status sl__run_step(sl_program *program, const sl_step *step, sl_loader *loader);
/* One pass over source, read ahead by a loader of its own. If the loss is not finite, fails with SL_ENONFINITE and
 * names the operation. */
sl_status sl__evaluate(sl__evaluator *evaluator, sl_sample_source source, sl__score *score);
/* Computes probabilities [n, classes] of n <= plan.batch images U8 [n, H, W, C]. */
sl_status sl__probabilities(sl__evaluator *evaluator, const void *images, int64_t n, float *probabilities);

#endif
