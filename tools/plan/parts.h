/* The parts of `starling plan`: what a plan is, its prediction, the search, simulations, answers in words. Private to
 * this folder and tools/commands/plan.c. */
#ifndef SL_TOOLS_PLAN_PARTS_H
#define SL_TOOLS_PLAN_PARTS_H

#include <jansson.h>

#include "models/models.h"
#include "tasks/schedule/times.h"
#include "tools/machines/description.h"
#include "tools/run/meter.h"
#include "tools/settings/options.h"

/* The axes on which plans differ. If an option sets an axis, the axis has only that value. */
typedef enum sl__axis {
  SL__BATCH,     /* samples of a step, over all ranks */
  SL__LOCAL,     /* ranks of a node */
  SL__WORKERS,   /* an sl__kinds */
  SL__EACH,      /* shards of a leaf */
  SL__GROUPS,    /* leaves of a rank and micro-batch */
  SL__MICRO,     /* micro-batches */
  SL__RECOMPUTE, /* an sl_recompute */
  SL__ZERO,      /* ZeRO stage */
  SL__BLOCKS,    /* row blocks */
  SL__PIPE,      /* stages of a pipeline */
  SL__TENSOR,    /* ranks that divide products */
  SL__ORDER,     /* an sl_pipe_order */
  SL__CHUNKS,    /* runs of layers on a stage */
  SL__PARTS,     /* messages in which a stage sends a shard */
  SL__AXES
} sl__axis;

typedef enum sl__kinds { SL__ONLY_GPU, SL__BOTH, SL__ONLY_CPU } sl__kinds;

/* The prediction of a step, from its predicted schedule and its memory plan. */
typedef struct sl__prediction {
  int valid;         /* 0: the machine or the batch cannot be divided so */
  int rough;         /* 1: the bytes are a lower bound, and nothing else is known: the plan cannot fit anyhow */
  double seconds;    /* of a step */
  double node, gpu;  /* bytes: peak of a node; what one GPU must hold at once */
  double over;       /* bytes by which the node's memory or a GPU's is exceeded, whichever is more; 0: it fits */
  int of_gpu;        /* 1: `over` is of a GPU's memory */
  double replicated; /* bytes of parameters and, if all must be there at once, gradients, which every rank has */
  double state;      /* bytes of the optimizer's state, over all ranks with ZeRO 1 */
  int tasks;         /* of a rank */
  double busy;       /* share of the workers' time in kernels, 0 to 1 */
  double exchanging; /* seconds in which the lane of exchanges is busy */
} sl__prediction;

enum { SL__POLICIES = 3, SL__TURNS = 8 };

typedef struct sl__candidate {
  int64_t v[SL__AXES];
  int nodes;
  char mesh[64];     /* set by sl__screen, in the form of --mesh; "": all ranks divide the samples */
  const char *sched; /* policy; NULL: the default one */
  int standard;      /* 1: the plan of the options alone, without a search */
  sl__prediction p;
  json_t *simulated;      /* what `starling simulate --json` said; NULL: not simulated */
  char *reason;           /* why there is no simulation */
  int chosen;             /* 1: to be measured */
  int turns;              /* processes that measured it */
  double turn[SL__TURNS]; /* seconds of a step in each of them */
  double measured;        /* seconds of a step here, median; 0: not measured */
  double spread;          /* slowest over fastest of the measured steps */
} sl__candidate;

enum { SL__VALUES = 32 };
typedef struct sl__values {
  int n;
  int64_t value[SL__VALUES];
} sl__values;

typedef struct sl__planning {
  sl__options *o;
  char described[64]; /* file with this machine's description; "": --machine named one */
  sl_model *model;
  sl_model_data data;
  sl_training training;
  sl__machine_description machine;
  sl_times *times; /* measured; NULL: none */
  double memory;   /* bytes of a node */
  double gpu_memory;
  int64_t first_batch; /* the model's, or --batch */
  sl__values axis[SL__AXES];
  sl_network network; /* the last network built, and the values for which it was built */
  int64_t built_batch, built_recompute, built_tensor, built_workers;
  sl__candidate *seen; /* all candidates predicted so far */
  int n_seen, room;
  double work; /* tasks predicted so far: bounds the search, so that the same command gives the same answer */
  sl__meter meter;
} sl__planning;

/* ---- plans as options (candidate.c) */

/* The options that make this plan, for sl__options_words and the parts of the command that read options. A shallow
 * copy: it owns nothing. */
sl__options sl__candidate_options(const sl__planning *s, const sl__candidate *c);
int sl__candidate_ranks(const sl__candidate *c);
int sl__candidate_model_ranks(const sl__candidate *c); /* stages times tensor ranks (placement.h) */
void sl__candidate_name_mesh(sl__candidate *c);        /* sets c->mesh */
/* The plan that the options alone give; SL_EINVAL: they give none. */
sl_status sl__candidate_standard(const sl__planning *s, int nodes, sl__candidate *c);
/* The command line that trains so; the caller frees *text. */
sl_status sl__candidate_command(const sl__planning *s, const sl__candidate *c, char **text);
/* "4 leaves, 16 shards, GPUs only": what the plan sets, for tables. */
char *sl__candidate_text(const sl__planning *s, const sl__candidate *c, char *text, size_t n);
int sl__candidate_same(const sl__candidate *a, const sl__candidate *b); /* but for the policy */

/* ---- predictions (screen.c) */

/* Fills in c->p. exact 0: a plan whose parameters alone exceed the memory gets a rough prediction. */
sl_status sl__screen(sl__planning *s, sl__candidate *c, int exact);

/* ---- the search (search.c) */

/* Fills in the axes from options, model and machine. */
sl_status sl__search_axes(sl__planning *s, int nodes);
/* Predicts plans on this many nodes and leaves them in s->seen. *best: index of the best; its p.over is not 0 if no
 * plan fits. SL_EINVAL: no plan at all divides batch and machine. */
sl_status sl__search(sl__planning *s, int nodes, int *best);
/* Seconds of a sample, plus 5% for each doubling of the batch beyond the first batch: a larger batch needs more samples
 * to learn the same. seconds: of a step. */
double sl__score(const sl__planning *s, const sl__candidate *c, double seconds);
/* The indices of the n best that fit, without two that predict the same. Returns their number. */
int sl__search_best(const sl__planning *s, int *index, int n);

/* ---- simulations (simulated.c) */

/* Simulates the best predicted plans, then the best of these under other policies, and sorts them: list[n] belongs to
 * the caller. standard: the default plan, simulated too if it fits. */
sl_status sl__simulate_best(sl__planning *s, const sl__candidate *standard, sl__candidate **list, int *n);
sl_status sl__simulate_one(sl__planning *s, sl__candidate *c);
/* The policies to try, at most SL__POLICIES, the first of them for every plan. Ends with NULL. */
const char *const *sl__policies(const sl__planning *s, const sl__candidate *c);
int sl__same_policy(const char *a, const char *b); /* NULL: the default policy */
/* Seconds of a step: simulated if it was, else predicted. */
double sl__seconds(const sl__candidate *c);
void sl__candidates_free(sl__candidate *list, int n);

/* ---- what fits, and how many nodes (fit.c, nodes.c) */

/* Says in words which memory is short, by how much, and the least number of nodes that could hold it, or why none
 * could. text: the caller frees it. *nodes: 0: none. */
sl_status sl__fit_explain(sl__planning *s, const sl__candidate *best, char **text, int *nodes);
/* The least number of nodes on which a training of so many samples ends within `limit` seconds, by the predicted time
 * multiplied by `factor`. *nodes 0: none; *why then says why (the caller frees it). *seconds: the time of the training
 * on these nodes. */
sl_status sl__nodes_needed(sl__planning *s, const sl__candidate *from, double samples, double limit, double factor,
                           int *nodes, double *seconds, char **why);

/* ---- words and tables (reasons.c, output.c) */

/* Why plan a beats plan b; returns text. */
char *sl__reason(const sl__planning *s, const sl__candidate *a, const sl__candidate *b, const char *name, char *text,
                 size_t n);

/* The whole answer. */
typedef struct sl__answer {
  const sl__candidate *list; /* best first */
  int n, shown;
  const sl__candidate *standard; /* in the list or apart; NULL: the options alone give no plan that fits */
  const char *no_standard;       /* why */
  int predicted;                 /* 1: no simulator, steps are predicted ones */
  double samples;                /* 0: not asked for */
  double limit;                  /* seconds; 0: not asked for */
  int nodes_needed;              /* 0: not searched, or none */
  double needed_seconds;
  const char *no_nodes; /* why no number of nodes meets the limit */
} sl__answer;
sl_status sl__plan_print(const sl__planning *s, const sl__answer *a);
/* For a model that does not fit. */
sl_status sl__plan_print_unfit(const sl__planning *s, const sl__candidate *best, const char *why, int nodes);

/* ---- this machine (here.c, measure.c) */

/* Writes this machine's description to a file, and names it in the options. */
sl_status sl__plan_here(sl__planning *s);
void sl__plan_here_remove(sl__planning *s);
/* Runs bench for each different plan of the list in turn, then for the fastest of them under the other policies, and
 * for those that are close to the fastest again, and sets their medians. It adds plans to the list, and moves the close
 * ones to the shown ones. */
sl_status sl__plan_measure(sl__planning *s, sl__candidate **list, int *n, int *shown);
/* Measured seconds of a sample. */
double sl__measured_each(const sl__candidate *c);

#endif
