/* Turns options into words of another process's command line, and quotes them for a shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/settings/table.h"

sl_status sl__options_words(const sl__options *options, const sl__command *command, const char *const *except,
                            char ***words, int *n) {
  sl__options defaults;
  char number[SL_SETTING_BYTES], other[SL_SETTING_BYTES];
  sl_status status = SL_OK;
  *n = 0, *words = NULL;
  SL_TRY_OUT(sl__set_defaults(sl__bits(command), &defaults));
  *words = calloc((size_t)sl__settings_count, sizeof **words);
  if (!*words) SL_TRY_OUT(sl_no_memory("for a command"));
  for (const sl__setting *s = sl__settings; s < sl__settings + sl__settings_count; s++) {
    const char *value = sl_setting_text(&s->s, options, number), *usual = sl_setting_text(&s->s, &defaults, other);
    if (!(s->commands & sl__bits(command)) || !value || (usual && strcmp(value, usual) == 0)) continue;
    if (sl__is(s, config) || sl__listed(except, s->s.option)) continue;
    const int flag = s->s.kind == SL_SETTING_FLAG;
    if (asprintf(&(*words)[*n], "--%s%s%s", s->s.option, flag ? "" : "=", flag ? "" : value) < 0)
      SL_TRY_OUT(sl_no_memory("for a command"));
    ++*n;
  }
out:
  sl__options_free(&defaults);
  return status;
}

void sl__options_words_free(char **words, int n) {
  for (int i = 0; i < n; i++) free(words[i]);
  free(words);
}

void sl__options_quote(FILE *file, const char *const *words, int n) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  for (int i = 0; i < n; i++) {
    if (i) fputc(' ', file);
    const int quoted = !*words[i] || words[i][strspn(words[i], plain)];
    if (quoted) fputc('\'', file);
    for (const char *c = words[i]; *c; c++)
      if (*c == '\'')
        fputs("'\\''", file);
      else
        fputc(*c, file);
    if (quoted) fputc('\'', file);
  }
}
