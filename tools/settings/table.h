/* The table of settings, private to this folder; options.h declares its uses. */
#ifndef SL_TOOLS_TABLE_H
#define SL_TOOLS_TABLE_H

#include "runtime/base/file.h"
#include "runtime/base/setting.h"
#include "tools/settings/options.h"

typedef enum sl__use { SL__USE_NONE, SL__USE_RUN, SL__USE_LOCAL } sl__use; /* as rows.h has them */

enum { SL__HELPS = 10 };

typedef struct sl__setting {
  sl_setting s;
  unsigned commands; /* that take the option */
  sl__use use;
  unsigned training;    /* flags of a setting of training; else 0 */
  const char *standard; /* default, as text; NULL: none, or found by the command */
  struct {
    unsigned commands; /* 0: all */
    const char *text;  /* NULL ends them */
  } help[SL__HELPS];
} sl__setting;

extern const sl__setting sl__settings[];
extern const int sl__settings_count;
enum { SL__SETTINGS_MOST = 160 }; /* the most option names */

/* Whether a row is that of a field: sl__is(row, config). */
#define sl__is(row, field) ((row)->s.offset == offsetof(sl__options, field))

/* Whether the option's argument may be left out; the text is then SL__THIS. */
static inline int sl__optional(const sl__setting *s) { return s->s.kind == SL_SETTING_TEXT && s->s.argument[0] == '['; }

/* Bits of the commands whose options a command takes. */
static inline unsigned sl__bits(const sl__command *command) { return command->bit | command->also; }
/* Whether key is the option's name, spelt with '-' or '_'. */
int sl__same_name(const char *name, const char *key);
/* Option names that a command accepts; with key, the keys that a YAML file may have, which may serve several commands.
 */
int sl__names_of(unsigned commands, const char *names[SL__SETTINGS_MOST], int key);
int sl__listed(const char *const *names, const char *name); /* names: ended by NULL */
sl_status sl__set_text(char **field, const char *text);

/* Sets the defaults. After an error, too, sl__options_free frees the options. */
sl_status sl__set_defaults(unsigned commands, sl__options *options);
/* Reads the keys of a YAML file by `read`, and ignores those of other commands. */
sl_status sl__read_yaml(unsigned commands, sl__options *options, const char *path, sl_file_reader *read);

#endif
