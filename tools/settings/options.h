/* The command's options: one table that gives the flags, the keys of a YAML file, --help, the manual page and the
 * configuration that a run leaves behind. */
#ifndef SL_TOOLS_OPTIONS_H
#define SL_TOOLS_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "runtime/base/status.h"
#include "runtime/data/augment.h"

/* Which subcommands take an option. */
enum {
  SL__TRAIN = 1,
  SL__EVAL = 2,
  SL__PREDICT = 4,
  SL__BENCH = 8,
  SL__GRAPH = 16,
  SL__INFO = 32,
  SL__GENERATE = 64,
  SL__TOKENIZE = 128,
  SL__CONVERT = 256,
  SL__IMPORT = 512,
  SL__TRACE = 1024,
  SL__COMPARE = 2048,
  SL__REPORT = 4096,
  SL__GRADE = 8192,
  SL__CALIBRATE = 16384,
  SL__ALL = 32767
};

/* Not given and without a default: integers -1, reals NaN, texts NULL. Commands fill these in from the model or the
 * machine. */
typedef struct sl__options {
  char *model; /* train, bench, graph: a model's name; eval, generate, predict: a file or run directory; import:
                  "images" */
  char *data, *sched, *sched_lib, *kernels, *optimizer, *batchnorm, *rate_schedule, *until, *split, *image, *augment;
  char *recompute, *balance, *allreduce, *compress;
  char *out, *format, *config, *prompt, *prompt_file, *tokenizer, *decode, *bits, *size, *svg;
  int64_t workers, threads_per_worker, gpus, batch, leaves, shards, row_blocks, micro_batches;
  int64_t checkpoint_every, keep, zero;
  int64_t steps, epochs, warmup, rate_step, eval_every, log_every, seed, classes, length, top, tokens, top_k,
      vocabulary, resize, crop;
  double checkpoint_minutes;
  double val_fraction, test_fraction, learning_rate, rate_gamma, rate_floor, momentum, beta1, beta2, eps, decay, clip,
      smoothing, dropout, temperature, top_p, stall_timeout;
  char *init, *to, *model_name;
  int64_t shard_size;
  int new_head;
  char *policies, *priorities;
  int64_t repetitions, memory;
  double timeout;
  char *machine, *bundle;
  int64_t samples, most_steps;
  int uncalibrated;
  int resume, force, json, quiet, calibrate, tasks, dot, no_measure, no_record, no_priorities, grey, skip_bad, help;
  char **files; /* what follows it: predict's images, import's folder */
  int n_files;
  int argc; /* of the whole command, for environment.json */
  const char **argv;
} sl__options;

typedef struct sl__command {
  const char *name;
  unsigned bit;
  const char *arguments; /* "MODEL ", "RUN|FILE IMAGE... ": ends in a space */
  int least, most;       /* how many arguments; most -1: any number */
  const char *summary;
  const char *description; /* paragraphs for the manual */
  sl_status (*run)(sl__options *options, int *exit_code);
} sl__command;

/* Reads flags, the YAML file that --config names, and with --resume the configuration of that run; what is nearer wins:
 * flags, then the file, then the run resumed, then defaults. SL_EINVAL names what is wrong, and the nearest known name.
 * argv[0] is the subcommand. The caller ends with sl__options_free, also after a failure. */
sl_status sl__options_parse(const sl__command *command, int argc, const char **argv, sl__options *options);
void sl__options_free(sl__options *options);
/* Those options that decide what a run does, as a YAML mapping; *text is the caller's to free(). */
sl_status sl__options_to_yaml(const sl__options *options, char **text);
/* Likewise all that a command takes, but for those named in `except`, which NULL ends: what --config reads. */
sl_status sl__options_effective(const sl__options *options, const sl__command *command, const char *const *except,
                                char **text);
/* The data set that the configuration of a run (train's, at path) names; *data stays when it names none. */
sl_status sl__options_data_of(const sl__command *train, const char *path, char **data);
/* Puts a value where the user gave none, so that the effective configuration shows it. */
void sl__option_default_integer(int64_t *option, int64_t value);
void sl__option_default_real(double *option, double value);
sl_status sl__option_default_text(char **option, const char *value);

/* What was given of the options that another command takes, as its words ("--batch=64", "--grey"), but for those named
 * in `except`, which NULL ends, and --config, whose keys count as given. *words is the caller's to
 * sl__options_words_free(). */
sl_status sl__options_words(const sl__options *options, const sl__command *command, const char *const *except,
                            char ***words, int *n);
void sl__options_words_free(char **words, int n);
/* Words as a shell takes them, quoted where that is needed, with blanks between. */
void sl__options_quote(FILE *file, const char *const *words, int n);

void sl__options_help(const sl__command *command, FILE *file);
/* The options as paragraphs of a manual page (man macros). */
void sl__options_manual(const sl__command *const *commands, FILE *file);

/* The candidate nearest to word by edit distance, or NULL when none is near. */
const char *sl__nearest(const char *word, const char *const *candidates, int n);
/* ", did you mean 'NAME'?", or "" when none is near; text has room for n bytes. */
char *sl__suggestion(const char *word, const char *const *candidates, int count, char *text, size_t n);

/* --until: a measure of the validation split and the bound that ends training. */
typedef struct sl__until {
  enum { SL__UNTIL_NONE, SL__UNTIL_ACCURACY, SL__UNTIL_LOSS } measure;
  double bound; /* accuracy: reached from below; loss: from above */
} sl__until;
sl_status sl__until_parse(const char *text, sl__until *until);
/* --augment: "none", or "flip" and "crop=PIXELS" (1 to 1024) in any order, a comma between. */
sl_status sl__augment_parse(const char *text, sl_augment *augment);
/* --image: "28x28x1", height, width, channels. */
sl_status sl__image_parse(const char *text, int64_t size[3]);
/* --size: "224x224", height and width. */
sl_status sl__size_parse(const char *text, int64_t size[2]);

#endif
