/* The command's options. One table (rows.h) defines them; flags, YAML keys, --help, the manual page and a run's
 * configuration are made from it. */
#ifndef SL_TOOLS_OPTIONS_H
#define SL_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "codelets/training.h"
#include "runtime/base/status.h"

/* The text of an option whose argument was left out. */
#define SL__THIS "this"

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
  SL__LESSON = 32768,
  SL__SIMULATE = 65536,
  SL__SCALE = 131072,
  SL__PLAN = 262144,
  SL__ALL = 524287
};

/* The values of all options. A field with neither value nor default holds the marker of runtime/base/setting.h;
 * commands fill it in from the model or the machine. */
typedef struct sl__options {
  char *model; /* train, bench, graph: a model's name; eval, generate, predict: a file or run directory; import:
                  "images" */
#define SL__FIELD_TEXT char *
#define SL__FIELD_CHOICE char *
#define SL__FIELD_INTEGER int64_t
#define SL__FIELD_REAL double
#define SL__FIELD_FLAG int
#define SL__FIELD_NAMED int
#define SETTING(kind, field, ...) SL__FIELD_##kind field;
#define SL_REAL(...)
#define SL_WHOLE(...)
#define SL_NAMED(...)
#include "tools/settings/rows.h"
#undef SETTING
#undef SL_REAL
#undef SL_WHOLE
#undef SL_NAMED
  sl_training training; /* the given settings of training */
  char **files;         /* the arguments after the model: predict's images, import's folder */
  int n_files;
  int argc; /* the whole command line, for environment.json */
  const char **argv;
} sl__options;

typedef struct sl__command {
  const char *name;
  unsigned bit;
  unsigned also;         /* bits of other commands whose options it takes and passes on */
  const char *arguments; /* "MODEL ", "RUN|FILE IMAGE... ": ends in a space */
  int least, most;       /* how many arguments; most -1: any number */
  const char *summary;
  const char *description; /* paragraphs for the manual */
  sl_status (*run)(sl__options *options, int *exit_code);
} sl__command;

/* The configuration in a run directory, which --resume reads. */
#define SL__CONFIG_NAME "config.yaml"

/* Reads flags, the YAML file of --config, and with --resume that run's configuration. Flags override the file, the file
 * overrides the resumed run, and all override defaults. SL_EINVAL names the wrong option and the nearest known name.
 * argv[0] is the subcommand. The caller must call sl__options_free, also after a failure. */
sl_status sl__options_parse(const sl__command *command, int argc, const char **argv, sl__options *options);
void sl__options_free(sl__options *options);
/* The options that determine a run, as a YAML mapping; the caller must free(*text). */
sl_status sl__options_to_yaml(const sl__options *options, char **text);
/* The same without options that may differ between ranks: paths and the use of the machine. */
sl_status sl__options_of_ranks(const sl__options *options, char **text);
/* All options that a command takes except those in `except` (ended by NULL), in the format of --config. */
sl_status sl__options_effective(const sl__options *options, const sl__command *command, const char *const *except,
                                char **text);
/* Reads the data set's name from the configuration of a training run at path; *data stays if there is none. */
sl_status sl__options_data_of(const char *path, char **data);
/* Sets an option that the user did not give, so that the effective configuration shows its value. */
void sl__option_default_integer(int64_t *option, int64_t value);
void sl__option_default_real(double *option, double value);
sl_status sl__option_default_text(char **option, const char *value);

/* Copies the training settings that the user gave into *training. */
void sl__training_given(const sl__options *options, sl_training *training);
/* Copies the training settings in effect into options that were not given. */
void sl__training_default(sl__options *options, const sl_training *training);

/* The given options that another command also takes, as words of its command line ("--batch=64", "--grey"). Leaves out
 * those in `except` (ended by NULL) and --config, whose keys count as given. The caller must call
 * sl__options_words_free(*words). */
sl_status sl__options_words(const sl__options *options, const sl__command *command, const char *const *except,
                            char ***words, int *n);
void sl__options_words_free(char **words, int n);
/* Joins words with blanks, quoted for a shell if necessary. */
void sl__options_quote(FILE *file, const char *const *words, int n);

void sl__options_help(const sl__command *command, FILE *file);
/* The options as paragraphs of a manual page (man macros). */
void sl__options_manual(const sl__command *const *commands, FILE *file);

#endif
