/* The models and the sizes of their families, made from the families' tables: for `starling info --models` and the
 * manual page. */
#include <stdio.h>
#include <string.h>

#include "tools/settings/model.h"

/* The range of a size: "1 to 1024", "relu, gelu or gelu-tanh"; of a list: a range for each number. */
static char *range_of(const sl_size *s, char *text, size_t n) {
  *text = 0;
  if (s->kind == SL_SIZE_CHOICE)
    for (int i = 0; s->choices[i]; i++)
      snprintf(text + strlen(text), n - strlen(text), "%s%s", *text && *s->choices[i] ? "|" : "", s->choices[i]);
  else
    snprintf(text, n, "%s%.15g to %.15g", s->kind == SL_SIZE_LIST ? "N-N-..., each " : "", s->least, s->most);
  return text;
}

void sl__print_models(FILE *file) {
  for (int f = 0; sl_families[f]; f++) {
    const sl_family *family = sl_families[f];
    char text[SL_SIZES_TEXT];
    fprintf(file, "%s%s: %s\n", f ? "\n" : "", family->name, family->summary);
    for (const sl_model *m = family->models; m->name; m++)
      fprintf(file, "  %-12s %s\n  %-12s --size %s\n", m->name, m->summary, "",
              sl_sizes_text(family->sizes, m->sizes, text, sizeof text));
    for (const sl_size *s = family->sizes; s && s->name; s++)
      fprintf(file, "    %-12s %s; %s%s%s\n", s->name, s->help, range_of(s, text, sizeof text),
              s->derived ? "; by default " : "", s->derived ? s->derived : "");
  }
}

static json_t *size_to_json(const sl_size *s) {
  static const char *const kinds[] = {"whole", "list", "real", "choice"};
  json_t *json = json_pack("{s:s, s:s, s:s}", "name", s->name, "kind", kinds[s->kind], "help", s->help);
  if (s->derived) json_object_set_new(json, "default", json_string(s->derived));
  if (s->kind != SL_SIZE_CHOICE) {
    json_object_update_new(json, json_pack("{s:f, s:f}", "least", s->least, "most", s->most));
    return json;
  }
  json_t *choices = json_array();
  for (int i = 0; s->choices[i]; i++)
    if (*s->choices[i]) json_array_append_new(choices, json_string(s->choices[i]));
  json_object_set_new(json, "choices", choices);
  return json;
}

json_t *sl__models_to_json(void) {
  json_t *all = json_array();
  for (int f = 0; sl_families[f]; f++) {
    const sl_family *family = sl_families[f];
    json_t *sizes = json_array(), *models = json_array();
    for (const sl_size *s = family->sizes; s && s->name; s++) json_array_append_new(sizes, size_to_json(s));
    for (const sl_model *m = family->models; m->name; m++)
      json_array_append_new(models, json_pack("{s:s, s:s, s:o}", "name", m->name, "summary", m->summary, "size",
                                              sl_model_sizes_to_json(m)));
    json_array_append_new(all, json_pack("{s:s, s:s, s:o, s:o}", "family", family->name, "summary", family->summary,
                                         "models", models, "sizes", sizes));
  }
  return all;
}

/* Writes text to a manual page, where '-' must be written \-. */
static void put(FILE *file, const char *text) {
  for (; *text; text++) fprintf(file, *text == '-' ? "\\%c" : "%c", *text);
}

void sl__models_manual(FILE *file) {
  for (int f = 0; sl_families[f]; f++) {
    const sl_family *family = sl_families[f];
    char text[SL_SIZES_TEXT];
    for (const sl_model *m = family->models; m->name; m++) {
      fputs(m == family->models ? ".TP\n.B " : ".br\n.B ", file);
      put(file, m->name);
      fputc('\n', file);
      put(file, m->summary);
      fputs(".\n.IR ", file);
      put(file, sl_sizes_text(family->sizes, m->sizes, text, sizeof text));
      fputc('\n', file);
    }
    for (const sl_size *s = family->sizes; s && s->name; s++) {
      fputs(".br\n.B ", file);
      put(file, s->name);
      fputc('\n', file);
      put(file, s->help);
      fputs("; ", file);
      put(file, range_of(s, text, sizeof text));
      if (s->derived) fputs("; by default ", file), put(file, s->derived);
      fputs(".\n", file);
    }
  }
}
