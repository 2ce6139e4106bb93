/* From options to a model, its training and its plan. */
#ifndef SL_TOOLS_MODEL_H
#define SL_TOOLS_MODEL_H

#include <jansson.h>
#include <stdio.h>

#include "models/models.h"
#include "tools/settings/options.h"

/* The model of the list, with other sizes (--size; NULL: its own); the caller's to free(). An unknown name or size is a
 * usage error with the nearest known one. */
sl_status sl__find_model(const char *name, const char *sizes, sl_model **model);
/* The models, and what sizes their families have: as text, as JSON (NULL: no memory), and as a part of the manual. */
void sl__print_models(FILE *file);
json_t *sl__models_to_json(void);
void sl__models_manual(FILE *file);
/* The model's usual training, with what the options change. */
void sl__training_of(const sl__options *options, const sl_model *model, sl_training *training);
/* A complete plan for so many ranks; the batch is the model's unless given, and each rank has the micro-batches as
 * leaves. */
sl_status sl__plan_of(const sl__options *options, const sl_model *model, int ranks, sl_plan *plan);
/* What a model is built for when no data set is named: --image and --classes, or --length and the model's vocabulary.
 */
sl_status sl__synthetic_data(const sl__options *options, const sl_model *model, sl_model_data *data);

#endif
