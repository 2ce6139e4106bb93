/* From options to a model, its training and its plan. */
#ifndef SL_TOOLS_MODEL_H
#define SL_TOOLS_MODEL_H

#include "models/models.h"
#include "tools/settings/options.h"

/* The model that the options name; an unknown one is a usage error with the nearest name. */
sl_status sl__find_model(const char *name, const sl_model **model);
/* The model's usual training, with what the options change. */
void sl__training_of(const sl__options *options, const sl_model *model, sl_training *training);
/* A complete plan for so many ranks; the batch is the model's unless given, and each rank has the micro-batches as
 * leaves. */
sl_status sl__plan_of(const sl__options *options, const sl_model *model, int ranks, sl_plan *plan);
/* What a model is built for when no data set is named: --image and --classes, or --length and the model's vocabulary.
 */
sl_status sl__synthetic_data(const sl__options *options, const sl_model *model, sl_model_data *data);

#endif
