/* The parts of `starling compare`: choosing policies, measuring, figures, output. Private to this folder and
 * tools/commands/compare.c. */
#ifndef SL_TOOLS_COMPARE_PARTS_H
#define SL_TOOLS_COMPARE_PARTS_H

#include <jansson.h>
#include <stdio.h>

#include "runtime/trace/idle.h"
#include "runtime/trace/timeline.h"
#include "tools/compare/child.h"
#include "tools/run/meter.h"
#include "tools/settings/options.h"

/* The measurements of one process. */
typedef struct sl__measured {
  int there;                            /* 0: the process has not run */
  double step;                          /* s, median */
  double kernels, idle[SL_IDLE_CAUSES]; /* %, of worker time */
  double moved, energy;                 /* per step: bytes moved between memory nodes, joules; NaN: unknown */
  int order;                            /* number among all processes, from 0 */
} sl__measured;

/* Figures over the repetitions in which both this policy and the base ran. */
typedef struct sl__figures {
  int n;                                /* number of these repetitions; 0: there are no figures */
  double step;                          /* s, median */
  double kernels, idle[SL_IDLE_CAUSES]; /* means, which add up to 100% */
  double ratio, low, high; /* ratio of the step's time to the base's in the same repetition: median, 95% interval (NaN:
                              too few repetitions) */
  double surely;           /* upper end of the interval that holds for all policies at once, possibly infinite */
  double moved, energy;    /* per step, medians; NaN: unknown */
  double of_bound;         /* the bound over the step */
  double inflation;        /* median of: time in kernels over the time of the same kernels run alone */
} sl__figures;

/* A policy, with priorities or without. */
typedef struct sl__variant {
  char policy[64];
  int priorities;
  char *reason;           /* why it cannot be used; NULL: it can */
  sl__measured *measured; /* [room] */
  char digest[24];        /* digest of parameters and state after the first steps; "varies" if repetitions differ */
  sl__figures figures;
} sl__variant;

typedef struct sl__comparison {
  const sl__options *o;
  char folder[64]; /* of the timelines for the bound */
  sl__variant *variant;
  int n, base;
  int repetitions;      /* begun so far */
  int planned, room;    /* expected number; most that there is room for */
  int64_t steps;        /* measured in each process */
  double limit;         /* seconds for the whole comparison; infinite if the options give repetitions */
  int64_t began;        /* ns */
  double expected;      /* seconds from `began` to the end; 0: unknown */
  double step_s;        /* seconds of a step, as first measured */
  double process_s;     /* seconds: mean duration of a measuring process; before the first one: its duration without the
                           steps */
  double alone_s;       /* seconds: mean duration of the processes on one worker */
  int measured, alones; /* processes that have run: measuring ones, and those on one worker */
  sl__meter meter;
  char doing[128]; /* text of the progress meter */
  int stopped;     /* 1: a signal ended the measurements early */
  int workers, threads, gpus;
  int kinds, calibrated; /* number of kinds of tasks; number of those with enough samples in StarPU's models */
  int models_needed;     /* 1: a policy uses the models */
  int memories;          /* memory nodes; 1: no data are moved */
  char *no_energy;       /* why energy is unknown; NULL: it is known */
  char *part_energy;     /* names the processors whose energy counts, and why the others' is unknown; NULL: all count */
  sl_timeline **graph;   /* timeline of the step on all workers; n_graph is 1 */
  int n_graph;
  double *alone;         /* [kinds][SL__PLACES] seconds of each kind of task with no other task running */
  double bound, kernels; /* seconds of a step: its bound; its kernels, run alone, where the bound put them */
  json_t *plan;          /* as reported by bench */
  json_t *models;        /* paths of the performance models' files */
  char *machine;         /* machine of these models */
  json_t *environment;   /* like a run's environment.json */
  const char *names;     /* the policies that a simulation has; NULL: those of this program's StarPU */
  int processes;
} sl__comparison;

/* ---- which policies (choose.c) */

enum { SL__MOST_POLICIES = 64 };
/* Whether a policy is compared by default; heteroprio only on machines with GPUs. */
int sl__compare_default(const char *policy, int gpus);
/* SL_EINVAL: --policies names a policy that neither StarPU nor --sched-lib has. told: the names of all policies; NULL:
 * those of this program's StarPU and of --sched-lib. */
sl_status sl__compare_check_policies(const sl__options *o, const char *told);
/* Allocates the variants, the base first, with room for c->room repetitions of each. */
sl_status sl__compare_choose(sl__comparison *c);

/* ---- how much is measured (budget.c) */

typedef struct sl__budget {
  double seconds;        /* seconds that remain for measuring; infinite: no limit */
  double process;        /* seconds of a process without its measured steps */
  double step;           /* s */
  int variants, workers; /* in a process on one worker, a step takes `workers` times as long */
  int64_t steps;         /* in each process, if the options say so; else -1 */
  int repetitions;       /* likewise */
} sl__budget;
typedef struct sl__amount {
  int64_t steps;
  int repetitions;
  double seconds; /* expected seconds for all measurements */
} sl__amount;
enum {
  SL__ALONE = 3 /* number of times that tasks are timed alone */,
  SL__PLACES = 2, /* kinds of workers: CPU, GPU */
  SL__LEAST_REPETITIONS = 3,
  SL__MOST_REPETITIONS = 30
};
/* Chooses steps and repetitions for the available time: about eight repetitions if each process then runs steps for at
 * least half a second, else fewer; at least three, even if they take longer. */
sl__amount sl__compare_fit(const sl__budget *b);

/* ---- progress (progress.c) */

double sl__compare_elapsed(const sl__comparison *c); /* seconds since it began */
/* Estimates the time for the rest from the time so far. */
void sl__compare_expect_end(sl__comparison *c);
/* Shows the current work and the remaining time. */
void sl__compare_tick(sl__comparison *c);

/* Removes the folder of the bound's timelines and the files in it. */
void sl__compare_remove_folder(void);

/* ---- processes (process.c) */

/* The command's own entry in the list of commands. */
const sl__command *sl__compare_itself(void);
/* The given options that another command also takes, except those that compare sets itself; see sl__options_words. */
sl_status sl__compare_words(const sl__comparison *c, const char *command, char ***words, int *n);
/* Runs `starling COMMAND MODEL --json` with our options that it also takes, and the words in `more` (ended by NULL).
 * *out: its JSON, or NULL after a failure; then *reason says why, and the caller must free(*reason). *code: its exit
 * code. */
sl_status sl__compare_run(sl__comparison *c, const char *command, const char *const *more, json_t **out, char **reason,
                          int *code);
/* ---- figures (figures.c) */

/* Whether policies use performance models that lack samples; the sentence that marks such a comparison. */
int sl__compare_uncalibrated(const sl__comparison *c);
char *sl__compare_mark(const sl__comparison *c, char *text, size_t n);

/* The sentence that marks a comparison ended by a signal. */
char *sl__compare_partial(const sl__comparison *c, char *text, size_t n);
/* Fills in base and figures. SL_ENOTFOUND: no policy was usable. */
sl_status sl__compare_figures(sl__comparison *c);
/* A sentence that names the fastest policy and says whether the difference exceeds the noise. */
char *sl__compare_verdict(const sl__comparison *c, char *text, size_t n);
/* Whether all policies that ran gave the same bytes. */
int sl__compare_same_bits(const sl__comparison *c);

/* ---- on a machine that is not here (simulated.c) */

/* The whole comparison by `starling simulate`, once for each policy, as simulations repeat exactly. */
sl_status sl__compare_simulated(sl__comparison *c);

/* ---- output (output.c, plots.c, html.c, bundle.c) */

/* "0.878 to 0.914", or "-" if too few repetitions ran for an interval. */
char *sl__compare_interval(const sl__figures *f, char text[64]);
/* Why a policy has no figures: it failed or has not run; NULL: it has figures. */
const char *sl__compare_absent(const sl__variant *v);
/* Megabytes moved and joules per step as text for tables, or the text for unknown values. */
char *sl__compare_moved(const sl__comparison *c, const sl__variant *v, char text[32]);
char *sl__compare_energy(const sl__comparison *c, const sl__variant *v, char text[32]);
void sl__compare_table(const sl__comparison *c);
json_t *sl__compare_json(const sl__comparison *c); /* NULL: out of memory */
/* "dmda, no priorities" */
char *sl__compare_name(const sl__variant *v, char *text, size_t n);
/* The CSV of every repetition; the plots as SVG (ratios, shares of worker time); the page. The caller frees the texts,
 * the plots also after a failure. */
enum { SL__COMPARE_PLOTS = 2 };
sl_status sl__compare_csv(const sl__comparison *c, char **text);
sl_status sl__compare_plots(const sl__comparison *c, char *plot[SL__COMPARE_PLOTS]);
sl_status sl__compare_html(const sl__comparison *c, char *const plot[SL__COMPARE_PLOTS], char **text);

typedef struct sl__tables {
  json_t *json;
  char *csv, *html, *plot[SL__COMPARE_PLOTS];
} sl__tables;

/* The archive of --bundle. The check runs before any measurement: the file must be writable, and its name must end in
 * .tar.gz or .tgz (else SL_EINVAL). */
sl_status sl__bundle_check(const char *path);
sl_status sl__bundle_write(const char *path, const sl__comparison *c, const sl__tables *tables);

#endif
