/* starling compare: writes a self-contained page: verdict, plots, table, machine, and the command that repeats the
 * comparison. The page has the style of `starling report`, and no script. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare/page.h"
#include "tools/compare/parts.h"
#include "tools/report/svg.h"

static void put(FILE *to, const char *text) { sl__svg_escape(to, text); }

static void put_table(const sl__comparison *c, FILE *to) {
  char interval[64], moved[32], energy[32];
  fputs(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"All figures\"><table><thead><tr><th>policy</th>"
      "<th>priorities</th><th>runs</th><th>step, ms</th><th>ratio</th><th>95% interval</th><th>of bound, "
      "%</th><th>kernels, %</th>"
      "<th>inflation</th>",
      to);
  for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, "<th>%s, %%</th>", sl_idle_cause_name((sl_idle_cause)k));
  fputs("<th>moved, MB</th><th>energy, J</th></tr></thead>\n<tbody>\n", to);
  for (int i = 0; i < c->n; i++) {
    const sl__variant *v = &c->variant[i];
    const sl__figures *f = &v->figures;
    if (sl__compare_absent(v)) continue;
    fputs("<tr><td>", to), put(to, v->policy);
    fprintf(to,
            "</td><td>%s</td><td>%d</td><td>%.3f</td><td>%.3f</td><td>%s</td><td>%.1f</td><td>%.1f</td><td>%.3f</td>",
            v->priorities ? "on" : "off", f->n, 1e3 * f->step, f->ratio, sl__compare_interval(f, interval),
            100 * f->of_bound, f->kernels, f->inflation);
    for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, "<td>%.1f</td>", f->idle[k]);
    fprintf(to, "<td>%s</td><td>%s</td></tr>\n", sl__compare_moved(c, v, moved), sl__compare_energy(c, v, energy));
  }
  fputs("</tbody></table></div>\n", to);
  if (c->no_energy || c->part_energy)
    fputs("<p class=\"note\">Energy: ", to), put(to, c->no_energy ? c->no_energy : c->part_energy), fputs("</p>\n", to);
}

static void put_others(const sl__comparison *c, FILE *to) {
  int any = 0;
  for (int i = 0; i < c->n; i++) {
    const sl__variant *v = &c->variant[i];
    char name[96];
    if (!sl__compare_absent(v)) continue;
    if (!any++) fputs("<h2>No figures</h2>\n<ul>\n", to);
    fputs("<li>", to), put(to, sl__compare_name(v, name, sizeof name)), fputs(": ", to), put(to, sl__compare_absent(v)),
        fputs("</li>\n", to);
  }
  if (any) fputs("</ul>\n", to);
}

/* Table rows for the members of a JSON object. Members of nested objects are named by their path; lists take one line.
 */
static void put_facts(FILE *to, const char *path, const json_t *json) {
  const char *key;
  json_t *value;
  size_t i;
  if (json_is_object(json)) {
    json_object_foreach((json_t *)json, key, value) {
      char inner[256];
      snprintf(inner, sizeof inner, "%s%s%s", path, *path ? " " : "", key);
      if (strcmp(inner, "command") != 0) put_facts(to, inner, value);
    }
    return;
  }
  if (json_is_null(json)) return;
  fputs("<tr><td>", to), put(to, path), fputs("</td><td class=\"meaning\">", to);
  if (json_is_array(json)) {
    json_array_foreach((json_t *)json, i, value) {
      if (i) fputs("; ", to);
      put(to, json_is_string(value) ? json_string_value(value) : "");
    }
  } else if (json_is_string(json)) {
    put(to, json_string_value(json));
  } else {
    fprintf(to, "%.15g", json_number_value(json));
  }
  fputs("</td></tr>\n", to);
}

static sl_status put_page(const sl__comparison *c, char *const plot[SL__COMPARE_PLOTS], FILE *to) {
  char text[512];
  sl__page_begin(to, "Scheduling policies: ", c->o->model);
  fprintf(to,
          "<p id=\"subtitle\">%d repetitions in turn of %lld steps, %d workers of %d threads. Ratios are to %s, "
          "paired by "
          "repetition, with 95%% intervals of their bootstrap.</p>\n<main>\n<div id=\"answer\"><p>",
          c->repetitions, (long long)c->steps, c->workers, c->threads, c->variant[c->base].policy);
  put(to, sl__compare_verdict(c, text, sizeof text));
  if (c->stopped)
    fputs("</p>\n<p><strong>", to), put(to, sl__compare_partial(c, text, sizeof text)), fputs("</strong>", to);
  if (sl__compare_uncalibrated(c))
    fputs("</p>\n<p><strong>", to), put(to, sl__compare_mark(c, text, sizeof text)), fputs("</strong>", to);
  fprintf(
      to,
      "</p>\n<p>%s</p>\n<p>No schedule of this step takes less than %.3f ms: the bound, from the times of its tasks "
      "when they run alone.</p></div>\n",
      sl__compare_same_bits(c)
          ? "All policies ended with bit-identical parameters and optimizer state."
          : "Policies ended with different parameters or optimizer state: that is a defect; please report it.",
      1e3 * c->bound);
  for (int k = 0; k < SL__COMPARE_PLOTS; k++) fprintf(to, "<figure>\n%s</figure>\n", plot[k]);
  fputs("<h2>All figures</h2>\n", to);
  put_table(c, to);
  fputs(
      "<p class=\"note\">Step: median of the processes’ medians. Of bound: the bound over the step. Inflation: time in "
      "kernels over that of the same kernels run alone. The rest are parts of worker time, means of the processes: in "
      "kernels, and idle by "
      "cause. docs/reference/timeline.md has the rules.</p>\n",
      to);
  put_others(c, to);
  SL_TRY(sl__page_repeat(to, c->o));
  fputs(
      "<h2>Machine and versions</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Machine "
      "and versions\"><table>\n",
      to);
  put_facts(to, "", c->environment);
  fputs("</table></div>\n", to);
  sl__page_end(to);
  return SL_OK;
}

sl_status sl__compare_html(const sl__comparison *c, char *const plot[SL__COMPARE_PLOTS], char **text) {
  size_t bytes;
  *text = NULL;
  FILE *to = open_memstream(text, &bytes);
  if (!to) return sl_no_memory("for the page");
  sl_status status = put_page(c, plot, to);
  if (fclose(to) != 0 && status == SL_OK) status = sl_no_memory("for the page");
  if (status != SL_OK) free(*text), *text = NULL;
  return status;
}
