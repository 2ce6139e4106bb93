/* What `starling compare` is made of: what is measured, by whom, and what is told of it. Private to its files. */
#ifndef SL_TOOLS_COMPARE_PARTS_H
#define SL_TOOLS_COMPARE_PARTS_H

#include <jansson.h>
#include <stdio.h>

#include "runtime/trace/idle.h"
#include "runtime/trace/timeline.h"
#include "tools/run/meter.h"
#include "tools/settings/options.h"

/* What one process measured. */
typedef struct sl__measured {
  int there;                            /* 0: it has not run */
  double step;                          /* s, median */
  double kernels, idle[SL_IDLE_CAUSES]; /* %, of worker time */
  double moved, energy;                 /* bytes between memories, joules: of a step; NaN: not known */
  int order;                            /* of all processes, from 0 */
} sl__measured;

/* Of the repetitions in which both this policy and the base ran. */
typedef struct sl__figures {
  int n;                                /* how many those are; 0: there are no figures */
  double step;                          /* s, median */
  double kernels, idle[SL_IDLE_CAUSES]; /* means, which add up to 100% */
  double ratio, low, high;              /* to the base, paired: median, 95% interval (NaN: too few repetitions) */
  double surely;                        /* upper end of the interval that holds for all policies at once; or infinite */
  double moved, energy;                 /* of a step, medians; NaN: not known */
  double of_bound;                      /* the bound over the step */
  double inflation;                     /* of kernels: their time over that of the same kernels run alone; median */
} sl__figures;

/* A policy, with priorities or without. */
typedef struct sl__variant {
  char policy[64];
  int priorities;
  char *reason;           /* why it cannot serve; NULL: it can */
  sl__measured *measured; /* [room] */
  char digest[24];        /* of parameters and state after the first steps; "varies": not one */
  sl__figures figures;
} sl__variant;

typedef struct sl__comparison {
  const sl__options *o;
  char program[4096], folder[64]; /* the command's own file; where the bound's timelines are */
  sl__variant *variant;
  int n, base;
  int repetitions;      /* that were begun */
  int planned, room;    /* that are expected; that there can be */
  int64_t steps;        /* measured by a process */
  double limit;         /* s that the whole may take; infinite where the options say how much is measured */
  int64_t began;        /* ns */
  double expected;      /* s from then to the end; 0: not known yet */
  double step_s;        /* s, as first seen */
  double process_s;     /* s: mean of the processes that measure a policy; before any: what it takes beside its steps */
  double alone_s;       /* s: mean of the processes on one worker */
  int measured, alones; /* how many of each ran */
  sl__meter meter;
  char doing[128]; /* what the meter says */
  int stopped;     /* by a signal, before all was measured */
  int workers, threads, gpus;
  int kinds, calibrated; /* kinds of tasks; those that StarPU's models have enough samples of */
  int models_needed;     /* a policy goes by the models */
  int memories;          /* memory nodes; 1: there is nothing to move */
  char *no_energy;       /* why it is not known; NULL: it is */
  sl_timeline **graph;   /* of the step, as it ran on all workers; n_graph is 1 */
  int n_graph;
  double *alone;         /* s, of each kind of task with nothing beside it */
  double bound, kernels; /* s: of a step; kernels alone, summed over workers, with nothing beside them */
  json_t *plan;          /* as bench tells it */
  json_t *models;        /* paths of the performance models' files */
  char *machine;         /* whose models these are */
  json_t *environment;   /* as a run's environment.json */
  int processes;
} sl__comparison;

/* ---- which policies (choose.c) */

enum { SL__MOST_POLICIES = 64 };
/* Whether a policy is compared by default: on a machine with GPUs also those that only serve there. */
int sl__compare_default(const char *policy, int gpus);
/* SL_EINVAL: --policies names one that StarPU and --sched-lib do not have. */
sl_status sl__compare_check_policies(const sl__options *o);
/* The variants, the base first, with room for c->room repetitions of each. */
sl_status sl__compare_choose(sl__comparison *c);

/* ---- how much is measured (budget.c) */

typedef struct sl__budget {
  double seconds;        /* that are left to measure in; infinite: no limit */
  double process;        /* s that a process takes besides the steps it measures */
  double step;           /* s */
  int variants, workers; /* a process on one worker alone takes `workers` times as long a step */
  int64_t steps;         /* of a process, where the options say so; else -1 */
  int repetitions;       /* likewise */
} sl__budget;
typedef struct sl__amount {
  int64_t steps;
  int repetitions;
  double seconds; /* that measuring so much takes */
} sl__amount;
enum { SL__ALONE = 3 /* how often tasks are timed alone */, SL__LEAST_REPETITIONS = 3, SL__MOST_REPETITIONS = 30 };
/* Steps and repetitions for the time there is: about eight repetitions, where that leaves a process half a second of
 * steps or more, else fewer; three at least, even if they take longer. */
sl__amount sl__compare_fit(const sl__budget *b);

/* ---- how far it is (compare.c) */

/* Shows what is being done, and the time left. */
void sl__compare_tick(sl__comparison *c);

/* ---- being stopped (stop.c) */

/* From now on SIGINT and SIGTERM are remembered (sl__compare_stopped); a second one removes the folder, ends the
 * process that measures, and this one. A shell that starts us in the background has us ignore SIGINT: we do. */
void sl__compare_catch(const char *folder);
int sl__compare_stopped(void);
/* Which process measures; 0: none. */
void sl__compare_measuring(int pid);
/* The folder of the bound's timelines, with what is in it. */
void sl__compare_remove_folder(void);

/* ---- processes (process.c) */

/* The command's own entry in the list of commands. */
const sl__command *sl__compare_itself(void);
/* Those of our options that another command takes, and that are not ours to set; see sl__options_words. */
sl_status sl__compare_words(const sl__comparison *c, const char *command, char ***words, int *n);
/* Runs `starling COMMAND MODEL --json` with those of our options that it takes, and the words in `more`, ended by NULL.
 * *out: its JSON; or NULL, and why it failed in *reason, which is the caller's to free(); *code: what it ended with. */
sl_status sl__compare_run(sl__comparison *c, const char *command, const char *const *more, json_t **out, char **reason,
                          int *code);
/* ---- figures (figures.c) */

/* Whether policies go by models that lack samples, and the sentence that marks a comparison with such. */
int sl__compare_uncalibrated(const sl__comparison *c);
char *sl__compare_mark(const sl__comparison *c, char *text, size_t n);

/* The sentence that marks a comparison that was stopped. */
char *sl__compare_partial(const sl__comparison *c, char *text, size_t n);
/* Fills in base and figures. SL_ENOTFOUND: no policy could serve. */
sl_status sl__compare_figures(sl__comparison *c);
/* In words: which one to take, and whether the difference is more than noise. */
char *sl__compare_verdict(const sl__comparison *c, char *text, size_t n);
/* Whether all that ran left the same bytes. */
int sl__compare_same_bits(const sl__comparison *c);

/* ---- output (output.c, plots.c, html.c, bundle.c) */

/* "0.878 to 0.914", or "-" where too few repetitions ran for an interval. */
char *sl__compare_interval(const sl__figures *f, char text[64]);
/* Why a policy is in no table: it failed, or had not run; NULL: it is in them. */
const char *sl__compare_absent(const sl__variant *v);
/* Megabytes moved and joules of a step as they stand in tables; where there are none, what else. */
char *sl__compare_moved(const sl__comparison *c, const sl__variant *v, char text[32]);
char *sl__compare_energy(const sl__comparison *c, const sl__variant *v, char text[32]);
/* The command line as a shell takes it; the caller's to free(). */
sl_status sl__compare_command(const sl__comparison *c, char **text);
void sl__compare_table(const sl__comparison *c);
json_t *sl__compare_json(const sl__comparison *c); /* NULL: out of memory */
/* "dmda, no priorities" */
char *sl__compare_name(const sl__variant *v, char *text, size_t n);
/* Every repetition; the plots as SVG (ratios, shares of worker time); the page. Texts are the caller's to free(), plots
 * also after a failure. */
enum { SL__COMPARE_PLOTS = 2 };
sl_status sl__compare_csv(const sl__comparison *c, char **text);
sl_status sl__compare_plots(const sl__comparison *c, char *plot[SL__COMPARE_PLOTS]);
sl_status sl__compare_html(const sl__comparison *c, char *const plot[SL__COMPARE_PLOTS], char **text);

typedef struct sl__tables {
  json_t *json;
  char *csv, *html, *plot[SL__COMPARE_PLOTS];
} sl__tables;

/* The archive of --bundle. Check, before anything is measured, that one could be written there. SL_EINVAL: another
 * ending than .tar.gz or .tgz. */
sl_status sl__bundle_check(const char *path);
sl_status sl__bundle_write(const char *path, const sl__comparison *c, const sl__tables *tables);

#endif
