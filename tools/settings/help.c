/* Prints the options for --help and as paragraphs of the manual page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/data_kind.h"
#include "tools/settings/table.h"

static void print_wrapped(FILE *file, const char *text, int indent, int width) {
  int column = indent;
  for (const char *word = text; *word;) {
    int n = (int)strcspn(word, " ");
    if (column > indent && column + 1 + n > width) {
      fprintf(file, "\n%*s", indent, "");
      column = indent;
    }
    column += fprintf(file, "%s%.*s", column > indent ? " " : "", n, word);
    word += n + strspn(word + n, " ");
  }
  fputc('\n', file);
}

/* "of adam, adamw, lamb " */
static void put_optimizers(FILE *file, const char *field) {
  const char *between = "of ";
  for (int i = 0; i < SL_OPTIMIZER_COUNT; i++)
    if (sl_optimizer_reads((sl_optimizer)i, field)) {
      fprintf(file, "%s%s", between, sl_optimizer_names[i]);
      between = ", ";
    }
  fputc(' ', file);
}

/* "folder of IDX files ...; for language models a text, ..." */
static void put_files(FILE *file) {
  const char *between = "";
  for (const sl_data_kind *const *k = sl_data_kinds; *k; k++)
    if ((*k)->files) {
      fprintf(file, "%s%s", between, (*k)->files);
      between = "; ";
    }
}

/* Writes the help text, then the default. In the manual (names not NULL), a text for some commands begins with their
 * names. In the help of one command, the command's own text replaces a general text after it, and is added to a general
 * text before it. */
static void put_help(FILE *file, const sl__setting *s, unsigned bits, const sl__command *const *names) {
  const char *between = "";
  int own_default = 0; /* the command's own text says what it does by default */
  for (int i = 0; s->help[i].text; i++) {
    const unsigned of = s->help[i].commands;
    if (of && !(of & bits)) continue;
    own_default |= of && !names && strstr(s->help[i].text, "default");
    if (!of && !names && *between) break;
    fputs(between, file);
    between = "; ";
    const char *comma = "";
    for (int k = 0; names && of && names[k]; k++)
      if (names[k]->bit & of) {
        fprintf(file, "%s%s", comma, names[k]->name);
        comma = ", ";
      }
    if (names && !of && i > 0) fputs("other commands", file), comma = ": ";
    fputs(*comma ? ": " : "", file);
    if (s->training & SL_TRAINING_OPTIMIZER) put_optimizers(file, s->s.field);
    if (sl__is(s, data) && !of) put_files(file);
    fputs(s->help[i].text, file);
  }
  if (s->standard && !own_default) fprintf(file, " (default %s)", s->standard);
}

/* Bits of the command whose help text applies: this command's own or, if it has none, that of the command to which it
 * passes the option. */
static unsigned bits_of(const sl__command *command, const sl__setting *s) {
  for (int i = 0; s->help[i].text; i++)
    if (s->help[i].commands & command->bit) return command->bit;
  return sl__bits(command);
}

static char *help_text(const sl__setting *s, unsigned bits, const sl__command *const *names) {
  char *text = NULL;
  size_t n;
  FILE *to = open_memstream(&text, &n);
  if (!to) return NULL;
  put_help(to, s, bits, names);
  return fclose(to) == 0 ? text : NULL;
}

void sl__options_help(const sl__command *command, FILE *file) {
  enum { INDENT = 30, WIDTH = 110 };
  fprintf(file, "Usage: starling %s %s[OPTION]...\n%s.\n\n", command->name, command->arguments, command->summary);
  for (const sl__setting *s = sl__settings; s < sl__settings + sl__settings_count; s++) {
    if (!(s->commands & sl__bits(command))) continue;
    char list[256], *text = help_text(s, bits_of(command, s), NULL);
    const char *argument = sl_setting_argument(&s->s, list, sizeof list);
    int n = fprintf(file, "  --%s%s%s", s->s.option, argument && *argument != '[' ? "=" : "", argument ? argument : "");
    if (n >= INDENT)
      fprintf(file, "\n%*s", INDENT, "");
    else
      fprintf(file, "%*s", INDENT - n, "");
    print_wrapped(file, text ? text : "", INDENT, WIDTH);
    free(text);
  }
}

static void put_escaped(FILE *file, const char *text) {
  for (; *text; text++) {
    if (*text == '-')
      fputs("\\-", file);
    else if (*text == '\\')
      fputs("\\e", file);
    else
      fputc(*text, file);
  }
}

void sl__options_manual(const sl__command *const *commands, FILE *file) {
  for (const sl__setting *s = sl__settings; s < sl__settings + sl__settings_count; s++) {
    char list[256], *text = help_text(s, SL__ALL, commands);
    const char *argument = sl_setting_argument(&s->s, list, sizeof list);
    fputs(".TP\n.B \\-\\-", file);
    put_escaped(file, s->s.option);
    if (argument) {
      fputs(*argument == '[' ? "\\fI" : "=\\fI", file);
      put_escaped(file, argument);
      fputs("\\fR", file);
    }
    fputc('\n', file);
    put_escaped(file, text ? text : "");
    free(text);
    fputs(".\n", file);
    if (s->commands == SL__ALL) continue;
    fputs("[", file);
    const char *between = "";
    for (int k = 0; commands[k]; k++)
      if (s->commands & sl__bits(commands[k])) {
        fprintf(file, "%s%s", between, commands[k]->name);
        between = ", ";
      }
    fputs("]\n", file);
  }
}
