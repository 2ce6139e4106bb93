/* The table of settings: rows, names and default values. */
#include "tools/settings/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/rate.h"
#include "runtime/data/dataset.h"
#include "runtime/exchange/exchange.h"

enum {
  RUNS = SL__TRAIN | SL__EVAL | SL__GENERATE | SL__PREDICT | SL__BENCH,
  MEASURES = SL__BENCH | SL__CALIBRATE,
  BUILDS = SL__TRAIN | MEASURES | SL__GRAPH | SL__SIMULATE | SL__PLAN,
  MACHINE = RUNS | SL__CALIBRATE | SL__GRAPH | SL__INFO | SL__SIMULATE | SL__PLAN
};
#define ANY 1e18

/* Stores the column ARGUMENT in the field for the row's kind. */
#define SHOWN(text) .argument = text
#define SL__ARGUMENT_TEXT SHOWN
#define SL__ARGUMENT_CHOICE SHOWN
#define SL__ARGUMENT_INTEGER SHOWN
#define SL__ARGUMENT_REAL SHOWN
#define SL__ARGUMENT_FLAG SHOWN
#define SL__ARGUMENT_NAMED(list) .names = list

const sl__setting sl__settings[] = {
#define SETTING(kind_, field_, option_, commands_, use_, argument_, standard_, least_, most_, ...) \
  {.s = {.field = #field_,                                                                         \
         .option = option_,                                                                        \
         .kind = SL_SETTING_##kind_,                                                               \
         .offset = offsetof(sl__options, field_),                                                  \
         SL__ARGUMENT_##kind_(argument_),                                                          \
         .least = least_,                                                                          \
         .most = most_},                                                                           \
   .commands = commands_,                                                                          \
   .use = SL__USE_##use_,                                                                          \
   .standard = standard_,                                                                          \
   .help = {__VA_ARGS__}},
/* graph runs no step, so it takes no setting that is read at each step. */
#define TRAINING(flags_, help_)                                                                                      \
  .commands = (flags_)&SL_TRAINING_EACH_STEP ? BUILDS & ~SL__GRAPH : BUILDS, .use = SL__USE_RUN, .training = flags_, \
  .help = {{0, help_}}
#define SL_REAL(field_, option_, flags_, argument_, least_, most_, help_) \
  {.s = {.field = #field_,                                                \
         .option = option_,                                               \
         .kind = SL_SETTING_REAL,                                         \
         .offset = offsetof(sl__options, training.field_),                \
         .argument = argument_,                                           \
         .least = least_,                                                 \
         .most = most_},                                                  \
   TRAINING(flags_, help_)},
#define SL_WHOLE(field_, option_, flags_, argument_, least_, most_, help_) \
  {.s = {.field = #field_,                                                 \
         .option = option_,                                                \
         .kind = SL_SETTING_INTEGER,                                       \
         .offset = offsetof(sl__options, training.field_),                 \
         .argument = argument_,                                            \
         .least = least_,                                                  \
         .most = most_},                                                   \
   TRAINING(flags_, help_)},
#define SL_NAMED(type_, field_, option_, flags_, names_, help_) \
  {.s = {.field = #field_,                                      \
         .option = option_,                                     \
         .kind = SL_SETTING_NAMED,                              \
         .offset = offsetof(sl__options, training.field_),      \
         .names = names_},                                      \
   TRAINING(flags_, help_)},
#include "tools/settings/rows.h"
#undef SETTING
#undef SL_REAL
#undef SL_WHOLE
#undef SL_NAMED
};
enum { ROWS = sizeof sl__settings / sizeof *sl__settings };
const int sl__settings_count = ROWS;
_Static_assert((int)ROWS < (int)SL__SETTINGS_MOST, "more settings than there is room for their names");

int sl__same_name(const char *name, const char *key) {
  for (; *name && *key; name++, key++)
    if (*name != *key && !(*name == '-' && *key == '_')) return 0;
  return *name == *key;
}

int sl__names_of(unsigned commands, const char *names[SL__SETTINGS_MOST], int key) {
  int n = 0;
  if (key) names[n++] = "model";
  for (const sl__setting *s = sl__settings; s < sl__settings + ROWS; s++)
    if (key ? !sl__is(s, help) : (s->commands & commands) != 0) names[n++] = s->s.option;
  return n;
}

int sl__listed(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0) names++;
  return *names != NULL;
}

sl_status sl__set_text(char **field, const char *text) {
  char *copy = strdup(text);
  if (!copy) return sl_no_memory("for an option");
  free(*field);
  *field = copy;
  return SL_OK;
}

sl_status sl__set_defaults(unsigned commands, sl__options *options) {
  memset(options, 0, sizeof *options);
  for (const sl__setting *s = sl__settings; s < sl__settings + ROWS; s++) sl_setting_unset(&s->s, options);
  for (const sl__setting *s = sl__settings; s < sl__settings + ROWS; s++)
    if (s->standard && s->commands & commands) SL_TRY(sl_setting_set(&s->s, options, "", s->standard));
  if (commands == SL__TOKENIZE) options->val_fraction = NAN; /* val.bin only if requested */
  return SL_OK;
}

void sl__options_free(sl__options *options) {
  for (const sl__setting *s = sl__settings; s < sl__settings + ROWS; s++) sl_setting_free(&s->s, options);
  for (int i = 0; i < options->n_files; i++) free(options->files[i]);
  free(options->files), free(options->model);
}

void sl__option_default_integer(int64_t *option, int64_t value) {
  if (*option < 0) *option = value;
}
void sl__option_default_real(double *option, double value) {
  if (isnan(*option)) *option = value;
}
sl_status sl__option_default_text(char **option, const char *value) {
  return *option ? SL_OK : sl__set_text(option, value);
}

void sl__training_given(const sl__options *options, sl_training *training) {
  for (const sl_training_setting *t = sl_training_settings; t->s.field; t++)
    if (sl_setting_given(&t->s, &options->training)) sl_setting_copy(&t->s, training, &options->training);
}

void sl__training_default(sl__options *options, const sl_training *training) {
  for (const sl_training_setting *t = sl_training_settings; t->s.field; t++)
    if (!sl_setting_given(&t->s, &options->training) &&
        (!(t->flags & SL_TRAINING_OPTIMIZER) || sl_optimizer_reads(training->optimizer, t->s.field)))
      sl_setting_copy(&t->s, &options->training, training);
}
