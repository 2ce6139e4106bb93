/* The parts of `starling scale`: counts of nodes or ranks, runs, figures, output. Private to this folder and
 * tools/commands/scale.c. */
#ifndef SL_TOOLS_SCALE_PARTS_H
#define SL_TOOLS_SCALE_PARTS_H

#include <jansson.h>
#include <stdio.h>

#include "tools/launch/hosts.h"
#include "tools/machines/description.h"
#include "tools/run/meter.h"
#include "tools/settings/model.h"
#include "tools/settings/options.h"

/* Where the time of a step goes: means over a rank's workers, which add up to the step. */
typedef enum sl__scale_part {
  SL__SCALE_KERNELS,
  SL__SCALE_EXCHANGE, /* exposed: workers are idle because an exchange is under way (runtime/trace/idle.h) */
  SL__SCALE_TASKS,    /* no task is ready: its predecessors run on other workers */
  SL__SCALE_RUNTIME,  /* submission, the policy, copies between memories */
  SL__SCALE_SLOWEST,  /* --jitter: the wait for the slowest rank */
  SL__SCALE_PARTS
} sl__scale_part;
extern const char *const sl__scale_part_names[SL__SCALE_PARTS];

/* The job on so many nodes or ranks. */
typedef struct sl__scale_point {
  int count;                    /* nodes if simulated, else ranks */
  int ranks;                    /* of the job */
  int data;                     /* of them, ranks that divide the samples (--mesh) */
  int nodes;                    /* simulated ones, or hosts; 1: this machine */
  int64_t batch;                /* of a step, over all ranks */
  int leaves, shards;           /* shards 0: the plan decides */
  char *reason;                 /* why there are no figures; NULL: there are */
  double step;                  /* seconds */
  double part[SL__SCALE_PARTS]; /* seconds */
  double energy;                /* joules of a step on all nodes; NaN: unknown */
  int workers, gpus;            /* CPU workers and GPUs of a rank */

  /* ---- figures */
  double samples;    /* samples/s */
  double speedup;    /* samples/s over those of the first point with figures */
  double efficiency; /* the speedup over the ratio of the counts */
  double added;      /* speedup gained since the previous point, divided by the ideal gain; NaN: first point */
  double
      loss[SL__SCALE_PARTS]; /* seconds by which a part exceeds that of ideal scaling; their sum is the step's excess */
  double cost;               /* of 1000 samples; NaN: unknown */
  double ratio;              /* of a changed machine: the step over that of the machine as it is; NaN: unknown */

  /* ---- --lost-node, of two nodes or more */
  double left;         /* samples/s on one node less; NaN: unknown */
  char *left_reason;   /* why unknown; NULL: known or not asked for */
  double lost_samples; /* work since the last checkpoint, in the mean */
  double lost_cost;    /* of that work; NaN: unknown */
} sl__scale_point;

typedef struct sl__scale_series {
  char *title; /* of a changed machine: what is changed; NULL: the machine as it is */
  sl__scale_point *point;
  int n;
} sl__scale_series;

typedef struct sl__scaling {
  const sl__options *o;
  sl_model *model;
  sl_model_data data;
  int simulated;
  sl__machine_description machine, what_if; /* simulated: as it is, and with --what-if */
  sl__hosts hosts;                          /* on which ranks are measured; none: this machine */
  sl__scale_series is, changed;             /* changed.n 0: nothing is changed */
  double price; /* of a node and hour: by --price, else by the machine's description; NaN: unknown */
  char program[4096], mpiexec[4096];
  sl__meter meter;
  char doing[128];
  int done, all; /* processes */
} sl__scaling;

/* ---- which counts (counts.c) */

enum { SL__SCALE_COUNTS = 64 };
/* Reads "1,2,4": ascending whole numbers from 1 to `most`. SL_EINVAL begins with the option's name. */
sl_status sl__scale_list(const char *option, const char *text, int most, int counts[SL__SCALE_COUNTS], int *n);
/* Makes the points of s->is, each with its batch, leaves and shards. SL_EINVAL: more ranks than the hosts have, a batch
 * too small for the ranks, or one that does not grow by whole numbers. */
sl_status sl__scale_points(sl__scaling *s);

/* ---- runs (runs.c) */

/* Runs or simulates all points; then each has figures from its process, or a reason. */
sl_status sl__scale_run(sl__scaling *s);

/* ---- figures (figures.c) */

/* Mean of the largest of n independent values of the standard normal distribution. */
double sl__scale_largest(int n);
/* Lengthens the steps by the wait for the slowest rank (--jitter), in which nodes have the power `idle`, in watts. */
void sl__scale_jitter(sl__scale_series *series, double percent, double idle);
/* Fills in the figures. price: of a node and hour; minutes: between checkpoints. */
void sl__scale_figures(sl__scale_series *series, int weak, double price, double minutes);
/* The largest loss at a point; -1: nothing is lost. */
int sl__scale_largest_loss(const sl__scale_point *point);
/* The first point whose added nodes bring less than half of their share; -1: none. */
int sl__scale_stop(const sl__scale_series *series);

/* ---- words (words.c) */

const char *sl__scale_unit(const sl__scaling *s, int n); /* "node", "nodes", "rank", "ranks" */
/* The rate's unit beside samples/s, such as "tokens/s", and units of a sample; NULL: samples are counted alone. */
const char *sl__scale_rate(const sl__scaling *s, double *units);
const char *sl__scale_currency(const sl__scaling *s);
/* The subtitle: model, machine, workers, batch. The caller frees *text. */
sl_status sl__scale_subtitle(const sl__scaling *s, char **text);
/* Where it stops paying and why, in words; what a lost node costs. The caller frees *text. */
sl_status sl__scale_verdict(const sl__scaling *s, const sl__scale_series *series, char **text);
sl_status sl__scale_loss_text(const sl__scaling *s, const sl__scale_series *series, char **text);

/* ---- output (output.c, page.c) */

sl_status sl__scale_table(const sl__scaling *s);
json_t *sl__scale_json(const sl__scaling *s); /* NULL: no memory */
/* The caller frees *text. */
sl_status sl__scale_csv(const sl__scaling *s, char **text);
sl_status sl__scale_html(const sl__scaling *s, char **text);

#endif
