/* From options to a model, its training and its plan. */
#ifndef SL_TOOLS_MODEL_H
#define SL_TOOLS_MODEL_H

#include <jansson.h>
#include <stdio.h>

#include "models/models.h"
#include "tools/settings/options.h"
#include "tools/settings/workers.h"

/* A model of the list with sizes changed by --size (NULL: unchanged); the caller frees it. An unknown name or size is a
 * usage error that names the nearest known one. */
sl_status sl__find_model(const char *name, const char *sizes, sl_model **model);
/* Whether --size (NULL: none) gives this size. */
int sl__size_is_given(const char *sizes, const char *name);
/* The models and their families' sizes, as text, as JSON (NULL: no memory), and as a part of the manual. */
void sl__print_models(FILE *file);
json_t *sl__models_to_json(void);
void sl__models_manual(FILE *file);
/* The model's usual training options, overridden by the given options. */
void sl__training_of(const sl__options *options, const sl_model *model, sl_training *training);
/* A complete plan for this number of ranks. Defaults: the model's batch, and as many leaves per rank as micro-batches.
 */
sl_status sl__plan_of(const sl__options *options, const sl_model *model, int ranks, sl_plan *plan);
/* The data description without a data set: from --image and --classes, or from --length and the model's vocabulary. */
sl_status sl__synthetic_data(const sl__options *options, const sl_model *model, sl_model_data *data);

/* Whether tasks run where the predicted schedule puts them (--placement), on a rank with so many GPUs. A policy that is
 * named by --sched or --sched-lib decides by itself; heteroprio always does. */
int sl__placed_by_plan(const sl__options *options, int gpus);

/* Sets the number of folds that no option gives, and the ranks that divide them. gpus: all these ranks have GPUs.
 * SL_EINVAL: fewer folds than ranks that divide products. */
sl_status sl__settle_folds(const sl__mesh *mesh, int gpus, sl_training *training);

#endif
