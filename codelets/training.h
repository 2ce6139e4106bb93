/* How a network is trained: the settings of training, and the optimizers. */
#ifndef SL_TRAINING_H
#define SL_TRAINING_H

#include <jansson.h>

#include "codelets/codelets.h"
#include "runtime/base/setting.h"
#include "tasks/graph/precision.h"
#include "tasks/graph/recompute.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_optimizer {
#define SL_ENUM(lower, upper) SL_OPTIMIZER_##upper,
  SL_OPTIMIZERS(SL_ENUM)
#undef SL_ENUM
      SL_OPTIMIZER_COUNT
} sl_optimizer;

/* What tensor ranks do between products: all of them the same, or each its part of the positions (folds.h). */
typedef enum sl_sequence_parallel { SL_SEQUENCE_PARALLEL_OFF, SL_SEQUENCE_PARALLEL_ON } sl_sequence_parallel;

/* How tensor ranks add up a sum over folds: each of them all of it, by exchanging whole addends at each level of the
 * tree, or each a part of the positions (fold_sums.h). */
typedef enum sl_fold_sums { SL_FOLD_SUMS_AUTO, SL_FOLD_SUMS_WHOLE, SL_FOLD_SUMS_PARTS } sl_fold_sums;

/* The settings, one field per row of training_rows.def; a model gives their defaults. */
typedef struct sl_training {
#define SL_REAL(field, ...) double field;
#define SL_WHOLE(field, ...) int64_t field;
#define SL_NAMED(type, field, ...) type field;
#include "codelets/training_rows.def"
#undef SL_REAL
#undef SL_WHOLE
#undef SL_NAMED
  /* Not settings: the number of ranks that divide the folds (0: one), and whether all of them have GPUs. The graph
   * depends on both, the bits on neither. */
  int fold_ranks, fold_gpus;
} sl_training;

enum {
  SL_TRAINING_EACH_STEP = 1, /* read at each step: the graph does not depend on it */
  SL_TRAINING_OPTIMIZER = 2, /* read by some optimizers only */
  SL_TRAINING_NO_BIT = 4,    /* changes no bit: neither saved nor compared */
  SL_TRAINING_LATER = 8      /* newer than the first model files: 0 if a file lacks it. Set it for new saved settings */
};
typedef struct sl_training_setting {
  sl_setting s;
  unsigned flags;
} sl_training_setting;
extern const sl_training_setting sl_training_settings[]; /* ended by a field that is NULL */

/* {"optimizer": "adamw", "learning_rate": 0.001, ...}: the settings that decide bits. NULL: out of memory. */
json_t *sl_training_to_json(const sl_training *training);
/* SL_EFORMAT: the error names the setting that is missing or wrong. */
sl_status sl_training_from_json(const json_t *json, sl_training *training);
/* The first setting that decides bits and differs; NULL: none does. */
const sl_setting *sl_training_differs(const sl_training *a, const sl_training *b);

/* An optimizer adds the nodes that update the parameters. Each optimizer has a file in codelets/optimizers (adam shares
 * adamw's kernel) and a line in OPTIMIZERS of Makefile.am. */
typedef struct sl_optimizer_rule {
  const char *name;
  const char *reads[8]; /* fields of the settings flagged SL_TRAINING_OPTIMIZER that it reads; ends with NULL */
  int whole;            /* 1: takes norms of whole parameters, so folds cannot divide them (tasks/graph/folds.h) */
  const char *state[4]; /* state tensors, F32 in the parameter's shape, such as "m" for NAME.m; ends with NULL */
  /* Adds the nodes for n parameters and their gradients; guard and clip as in sl_sgd. */
  void (*add)(sl_graph *graph, const sl_training *training, const sl_value *parameters, const sl_value *gradients,
              int n, sl_value guard, sl_value clip);
} sl_optimizer_rule;
#define SL_RULE(lower, upper) extern const sl_optimizer_rule sl_optimizer_##lower;
SL_OPTIMIZERS(SL_RULE)
#undef SL_RULE
extern const sl_optimizer_rule *const sl_optimizer_rules[SL_OPTIMIZER_COUNT];
int sl_optimizer_reads(sl_optimizer optimizer, const char *field);

/* The names of the values of each enum; each list ends with NULL. */
extern const char *const sl_optimizer_names[];
/* What --precision takes: sl_precision_names and "auto". A command replaces SL_PRECISION_AUTO before it makes a
 * network. */
extern const char *const sl_precision_choices[];
enum { SL_PRECISION_AUTO = SL_PRECISION_COUNT };
extern const char *const sl_batchnorm_names[];
extern const char *const sl_sequence_parallel_names[];
extern const char *const sl_fold_sums_names[];

#ifdef __cplusplus
}
#endif
#endif
