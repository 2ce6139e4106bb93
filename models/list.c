/* The list of models, and finding one by name. */
#include <stdio.h>
#include <string.h>

#include "models/models.h"

#define MODELS(X)                                                                                                     \
  X(bert_base)                                                                                                        \
  X(bert_large) X(bert_nano) X(gpt2) X(gpt2_large) X(gpt2_medium) X(gpt2_nano) X(gpt2_xl) X(lenet) X(mlp) X(resnet18) \
      X(resnet34) X(resnet50) X(resnet8) X(uneven) X(vit_b16) X(vit_l16) X(vit_tiny)
#define DECLARE(name) extern const sl_model sl_model_##name;
#define ADDRESS(name) &sl_model_##name,
MODELS(DECLARE)
const sl_model *const sl_models[] = {MODELS(ADDRESS) NULL};

sl_status sl_model_find(const char *name, const sl_model **model) {
  char names[512] = "";
  for (int i = 0; sl_models[i]; i++) {
    if (strcmp(sl_models[i]->name, name) == 0) {
      *model = sl_models[i];
      return SL_OK;
    }
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", sl_models[i]->name);
  }
  *model = NULL;
  return sl_fail(SL_ENOTFOUND, "no model '%s': there are %s", name, names);
}
