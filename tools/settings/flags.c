/* Reads options from the command line: flags (by popt) and arguments, and the precedence of flags, files and defaults.
 */
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/machine/runtime.h"
#include "runtime/processors/isa.h"
#include "tools/settings/nearest.h"
#include "tools/settings/table.h"

/* Makes popt's table; val is the number of the settings row, plus one. */
static void popt_table(const sl__command *command, struct poptOption flags[SL__SETTINGS_MOST]) {
  int n = 0;
  for (int i = 0; i < sl__settings_count; i++) {
    const sl__setting *s = &sl__settings[i];
    if (s->commands & sl__bits(command))
      flags[n++] = (struct poptOption){.longName = s->s.option,
                                       .shortName = sl__is(s, help) ? 'h' : 0,
                                       .argInfo = s->s.kind == SL_SETTING_FLAG ? POPT_ARG_NONE
                                                  : sl__optional(s)            ? POPT_ARG_STRING | POPT_ARGFLAG_OPTIONAL
                                                                               : POPT_ARG_STRING,
                                       .val = i + 1};
  }
  flags[n] = (struct poptOption)POPT_TABLEEND;
}

static sl_status bad_flag(const sl__command *command, poptContext context, int code) {
  const char *names[SL__SETTINGS_MOST], *word = poptBadOption(context, 0);
  char plain[64], suggestion[128] = "";
  if (code != POPT_ERROR_BADOPT)
    return sl_fail(SL_EINVAL, "%s: %s", word, code == POPT_ERROR_NOARG ? "the value is missing" : poptStrerror(code));
  snprintf(plain, sizeof plain, "%s", word + strspn(word, "-"));
  plain[strcspn(plain, "=")] = 0;
  const char *near = sl__nearest(plain, names, sl__names_of(sl__bits(command), names, 0));
  if (near) snprintf(suggestion, sizeof suggestion, "; did you mean --%s?", near);
  for (int i = 0; i < sl__settings_count && !(near && strcmp(near, plain) == 0); i++)
    if (sl__same_name(sl__settings[i].s.option, plain) && !(sl__settings[i].commands & sl__bits(command)))
      snprintf(suggestion, sizeof suggestion, ", which 'starling %s' does not take", command->name);
  return sl_fail(SL_EINVAL, "unknown option %s%s", word, suggestion);
}

/* Reads the arguments that are not options: the model, and files. */
static sl_status take_arguments(const sl__command *command, poptContext context, sl__options *options) {
  const char **words = poptGetArgs(context);
  int n = 0;
  while (words && words[n]) n++;
  if (command->most >= 0 && n > command->most)
    return sl_fail(SL_EINVAL, "unexpected argument '%s'; usage: starling %s %s[OPTION]...", words[command->most],
                   command->name, command->arguments);
  if (n && command->most != 0) SL_TRY(sl__set_text(&options->model, words[0]));
  if (n < 2) return SL_OK;
  options->files = calloc((size_t)n, sizeof *options->files);
  if (!options->files) return sl_no_memory("for %d arguments", n);
  for (int i = 1; i < n; i++) SL_TRY(sl__set_text(&options->files[options->n_files++], words[i]));
  return SL_OK;
}

/* Reads all flags; with `apply` 0 only those that name sources of other options. */
static sl_status read_flags(const sl__command *command, int argc, const char **argv, int apply, sl__options *options) {
  struct poptOption flags[SL__SETTINGS_MOST];
  popt_table(command, flags);
  poptContext context = poptGetContext("starling", argc, argv, flags, 0);
  if (!context) return sl_no_memory("for the command line");
  sl_status status = SL_OK;
  for (int code; status == SL_OK && (code = poptGetNextOpt(context)) != -1;) {
    if (code < -1) {
      status = bad_flag(command, context, code);
      break;
    }
    const sl__setting *s = &sl__settings[code - 1];
    char *value = s->s.kind == SL_SETTING_FLAG ? NULL : poptGetOptArg(context);
    if (apply || sl__is(s, config) || sl__is(s, out) || sl__is(s, resume) || sl__is(s, help))
      status = sl_setting_set(&s->s, options, "--", value || !sl__optional(s) ? value : SL__THIS);
    free(value);
  }
  if (status == SL_OK && apply) status = take_arguments(command, context, options);
  poptFreeContext(context);
  return status;
}

/* Reads the configuration of the run to resume, except --ranks and --restarts, which this start must give itself: the
 * processes that they launch read the file, too, and would launch further processes. */
static sl_status read_resumed(const sl__command *command, sl__options *options) {
  char *path = NULL;
  if (!options->out) return sl_fail(SL_EINVAL, "--resume: which run? --out DIR names it");
  if (asprintf(&path, "%s/%s", options->out, SL__CONFIG_NAME) < 0) return sl_no_memory("for a path");
  sl_status status = sl__read_yaml(sl__bits(command), options, path, sl_file_read_regular);
  if (status == SL_ENOTFOUND)
    status =
        sl_fail(SL_ENOTFOUND, "--resume: there is no run in %s (no %s)%s", options->out, SL__CONFIG_NAME,
                sl_runtime_promised_ranks() > 1 ? "; on a host that does not share the run directory, copy that file "
                                                  "there"
                                                : "");
  free(path);
  options->ranks = options->restarts = -1;
  if (status == SL_OK && options->kernels) status = sl__set_text(&options->kernels, sl_isa_like(options->kernels));
  return status;
}

sl_status sl__options_parse(const sl__command *command, int argc, const char **argv, sl__options *options) {
  SL_TRY(sl__set_defaults(sl__bits(command), options));
  for (int i = 1; i < argc; i++) /* paths and names go into JSON and YAML files */
    if (!sl_text_is_utf8(argv[i]))
      return sl_fail(SL_EINVAL, "the argument '%s' is not UTF-8: rename the file or folder", argv[i]);
  SL_TRY(read_flags(command, argc, argv, 0, options));
  if (options->help) return SL_OK;
  if (options->resume) SL_TRY(read_resumed(command, options));
  if (options->config) {
    sl_status status = sl__read_yaml(sl__bits(command), options, options->config, sl_file_read);
    if (status != SL_OK) return status == SL_ENOTFOUND ? sl_fail(SL_EINVAL, "--config: %s", sl_error()) : status;
  }
  /* Only the command line may name code to load: a configuration may come from someone else. */
  char *library = options->sched_lib;
  options->sched_lib = NULL;
  sl_status status = read_flags(command, argc, argv, 1, options);
  if (status == SL_OK && library && !options->sched_lib)
    status =
        sl_fail(SL_EINVAL,
                "the configuration names a library to load (sched-lib: %s), which only the command line may do: add "
                "--sched-lib %s if you trust that library",
                library, library);
  free(library);
  SL_TRY(status);
  if (options->resume && options->force) return sl_fail(SL_EINVAL, "--resume and --force exclude each other");
  if ((int)options->training.precision == SL_PRECISION_AUTO) {
    if (!(sl__bits(command) & (SL__TRAIN | SL__BENCH)))
      return sl_fail(SL_EINVAL, "--precision auto measures steps, as only train and bench do: name a precision");
    if (options->resume)
      return sl_fail(SL_EINVAL,
                     "--precision auto is for the start of a run, and --resume keeps the run's: leave it out");
  }
  int n = (options->model != NULL) + options->n_files;
  if (n < command->least)
    return sl_fail(SL_EINVAL, "an argument is missing; usage: starling %s %s[OPTION]...", command->name,
                   command->arguments);
  return SL_OK;
}
