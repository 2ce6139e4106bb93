/* Training steps of a model for those who measure them: a program over synthetic data, or over a data set, and its
 * loader, run step by step with a constant learning rate. */
#ifndef SL_TOOLS_STEPS_H
#define SL_TOOLS_STEPS_H

#include "models/models.h"
#include "runtime/data/loader.h"
#include "tasks/starpu/program.h"
#include "tools/run/data.h"
#include "tools/run/ranks.h"
#include "tools/run/watch.h"
#include "tools/settings/options.h"

/* Images, or windows of tokens, made up once and handed out in turn; reading one costs a copy, as it does from a data
 * set. */
typedef struct sl__synthetic {
  int64_t n;
  size_t bytes;
  int32_t classes;
  uint8_t *samples; /* [n, bytes] */
} sl__synthetic;

typedef struct sl__steps {
  const sl__options *o;
  const sl_model *model;
  sl_model_data data;
  sl_training training;
  sl_plan plan;
  sl__synthetic synthetic;
  sl_sample_source source;
  sl__data opened;
  sl_runtime *runtime;
  sl__ranks ranks;
  sl_recorder *recorder; /* NULL with --no-record */
  sl_store *store;
  sl_network network;
  sl_program *program;
  sl__watch *watch;
  sl_loader *loader;
  int64_t step;      /* the last one run; 0: none */
  int64_t predicted; /* bytes of the process */
} sl__steps;

/* Starts the machine: model, training, runtime, ranks, plan. what: the command's name; several ranks are refused unless
 * `ranks`. Zeroed before; sl__steps_close also after a failure. */
sl_status sl__steps_start(sl__steps *steps, const sl__options *options, const char *what, int ranks);
/* Opens data, makes network and program, with the leaves that this rank has now. */
sl_status sl__steps_build(sl__steps *steps);
/* Makes the program and its loader again over the same store, for other leaves. */
sl_status sl__steps_rebuild(sl__steps *steps);
sl_status sl__steps_one(sl__steps *steps);
void sl__steps_close(sl__steps *steps);

#endif
