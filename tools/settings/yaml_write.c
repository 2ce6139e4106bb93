/* Writes options as a YAML mapping: a run's configuration, which --config reads. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "runtime/base/text.h"
#include "tools/settings/table.h"

static int grow(void *data, unsigned char *bytes, size_t n) {
  char **text = data;
  size_t old = strlen(*text);
  char *more = realloc(*text, old + n + 1);
  if (!more) return 0;
  memcpy(more + old, bytes, n);
  more[old + n] = 0;
  *text = more;
  return 1;
}

static int emit_scalar(yaml_emitter_t *emitter, const char *text) {
  yaml_event_t event;
  return yaml_scalar_event_initialize(&event, NULL, NULL, (yaml_char_t *)text, (int)strlen(text), 1, 1,
                                      YAML_ANY_SCALAR_STYLE) &&
         yaml_emitter_emit(emitter, &event);
}

/* Chooses the rows to write. */
typedef struct filter {
  const sl__command *command; /* options of this command without `except`; NULL: options chosen by their use */
  const char *const *except;
  int local; /* chosen by use: also options that may differ between ranks */
} filter;

static int passes(const filter *f, const sl__setting *s) {
  if (!f->command) return s->use == SL__USE_RUN || (s->use == SL__USE_LOCAL && f->local);
  return (s->commands & sl__bits(f->command)) && !sl__is(s, config) && !sl__is(s, help) &&
         !sl__listed(f->except, s->s.option);
}

static sl_status to_yaml(const sl__options *options, const filter *f, char **text) {
  yaml_emitter_t emitter;
  yaml_event_t event;
  char number[SL_SETTING_BYTES];
  sl_status status = SL_OK;
  *text = calloc(1, 1);
  if (!*text || !yaml_emitter_initialize(&emitter)) return sl_no_memory("for the configuration");
  yaml_emitter_set_output(&emitter, grow, text);
  yaml_emitter_set_width(&emitter, -1);
  int fine = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) && yaml_emitter_emit(&emitter, &event) &&
             yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) && yaml_emitter_emit(&emitter, &event) &&
             yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) &&
             yaml_emitter_emit(&emitter, &event) && emit_scalar(&emitter, "model") &&
             emit_scalar(&emitter, options->model);
  for (const sl__setting *s = sl__settings; s < sl__settings + sl__settings_count && fine; s++) {
    const char *value = passes(f, s) ? sl_setting_text(&s->s, options, number) : NULL;
    if (value && !sl_text_is_utf8(value)) { /* the working folder's path: arguments are UTF-8 */
      status = sl_fail(SL_EINVAL, "config.yaml cannot have the path %s (--%s), which is not UTF-8: rename the folder",
                       value, s->s.option);
      break;
    }
    if (value) fine = emit_scalar(&emitter, s->s.option) && emit_scalar(&emitter, value);
  }
  fine = fine && yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event) &&
         yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(&emitter, &event) &&
         yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event);
  yaml_emitter_delete(&emitter);
  SL_TRY(status);
  return fine ? SL_OK : sl_fail(SL_ENOMEM, "the configuration cannot be written as YAML");
}

sl_status sl__options_to_yaml(const sl__options *options, char **text) {
  return to_yaml(options, &(filter){.local = 1}, text);
}

sl_status sl__options_of_ranks(const sl__options *options, char **text) {
  return to_yaml(options, &(filter){.local = 0}, text);
}

sl_status sl__options_effective(const sl__options *options, const sl__command *command, const char *const *except,
                                char **text) {
  return to_yaml(options, &(filter){.command = command, .except = except}, text);
}
