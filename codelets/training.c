/* The table of training settings, the functions that use this table, and the list of optimizers. */
#include "codelets/training.h"

#include <string.h>

const sl_optimizer_rule *const sl_optimizer_rules[SL_OPTIMIZER_COUNT] = {
#define RULE(lower, upper) &sl_optimizer_##lower,
    SL_OPTIMIZERS(RULE)
#undef RULE
};
const char *const sl_optimizer_names[] = {
#define NAME(lower, upper) #lower,
    SL_OPTIMIZERS(NAME)
#undef NAME
        NULL,
};
const char *const sl_batchnorm_names[] = {
    [SL_BATCHNORM_LEAF] = "leaf", [SL_BATCHNORM_GLOBAL] = "global", [SL_BATCHNORM_GLOBAL + 1] = NULL};
const char *const sl_sequence_parallel_names[] = {
    [SL_SEQUENCE_PARALLEL_OFF] = "off", [SL_SEQUENCE_PARALLEL_ON] = "on", [SL_SEQUENCE_PARALLEL_ON + 1] = NULL};
const char *const sl_fold_sums_names[] = {[SL_FOLD_SUMS_AUTO] = "auto",
                                          [SL_FOLD_SUMS_WHOLE] = "whole",
                                          [SL_FOLD_SUMS_PARTS] = "parts",
                                          [SL_FOLD_SUMS_PARTS + 1] = NULL};

_Static_assert(sizeof(sl_optimizer) == sizeof(int) && sizeof(sl_batchnorm_over) == sizeof(int) &&
                   sizeof(sl_precision) == sizeof(int) && sizeof(sl_sequence_parallel) == sizeof(int) &&
                   sizeof(sl_recompute) == sizeof(int) && sizeof(sl_fold_sums) == sizeof(int),
               "settings read and write enums as int");

const char *const sl_precision_choices[] = {
#define NAME(kind, name, dtype) [kind] = name,
    SL_PRECISION_LIST(NAME)
#undef NAME
        [SL_PRECISION_AUTO] = "auto",
    NULL};

#define sl_precision_choices sl_precision_names /* a network and a file have one of them */
const sl_training_setting sl_training_settings[] = {
#define SL_REAL(field_, option_, flags_, argument_, least_, most_, help) \
  {.s = {.field = #field_,                                               \
         .option = option_,                                              \
         .kind = SL_SETTING_REAL,                                        \
         .offset = offsetof(sl_training, field_),                        \
         .argument = argument_,                                          \
         .least = least_,                                                \
         .most = most_},                                                 \
   .flags = flags_},
#define SL_WHOLE(field_, option_, flags_, argument_, least_, most_, help) \
  {.s = {.field = #field_,                                                \
         .option = option_,                                               \
         .kind = SL_SETTING_INTEGER,                                      \
         .offset = offsetof(sl_training, field_),                         \
         .argument = argument_,                                           \
         .least = least_,                                                 \
         .most = most_},                                                  \
   .flags = flags_},
#define SL_NAMED(type, field_, option_, flags_, names_, help) \
  {.s = {.field = #field_,                                    \
         .option = option_,                                   \
         .kind = SL_SETTING_NAMED,                            \
         .offset = offsetof(sl_training, field_),             \
         .names = names_},                                    \
   .flags = flags_},
#include "codelets/training_rows.def"
#undef SL_REAL
#undef SL_WHOLE
#undef SL_NAMED
    {.s = {.field = NULL}},
};
#undef sl_precision_choices

int sl_optimizer_reads(sl_optimizer optimizer, const char *field) {
  const char *const *reads = sl_optimizer_rules[optimizer]->reads;
  while (*reads && strcmp(*reads, field) != 0) reads++;
  return *reads != NULL;
}

json_t *sl_training_to_json(const sl_training *training) {
  json_t *json = json_object();
  for (const sl_training_setting *t = sl_training_settings; t->s.field && json; t++)
    if (!(t->flags & SL_TRAINING_NO_BIT) &&
        json_object_set_new(json, t->s.field, sl_setting_to_json(&t->s, training)) != 0) {
      json_decref(json);
      json = NULL;
    }
  return json;
}

sl_status sl_training_from_json(const json_t *json, sl_training *training) {
  memset(training, 0, sizeof *training);
  for (const sl_training_setting *t = sl_training_settings; t->s.field; t++) {
    const json_t *value = json_object_get(json, t->s.field);
    if (t->flags & SL_TRAINING_NO_BIT || (!value && t->flags & SL_TRAINING_LATER)) continue;
    if (!value) return sl_fail(SL_EFORMAT, "the training settings lack '%s'", t->s.field);
    SL_TRY(sl_setting_from_json(&t->s, training, value));
  }
  return SL_OK;
}

const sl_setting *sl_training_differs(const sl_training *a, const sl_training *b) {
  for (const sl_training_setting *t = sl_training_settings; t->s.field; t++)
    if (!(t->flags & SL_TRAINING_NO_BIT) && !sl_setting_equal(&t->s, a, b)) return &t->s;
  return NULL;
}
