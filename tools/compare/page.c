/* The frame of a self-contained page, and the files beside it. */
#include "tools/compare/page.h"

#include <stdlib.h>
#include <string.h>

#include "report_style.h"
#include "runtime/base/file.h"
#include "tools/report/svg.h"

void sl__page_begin(FILE *to, const char *subject, const char *model) {
  fputs(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
      to);
  fputs(subject, to), sl__svg_escape(to, model);
  fputs("</title>\n<style>\n", to);
  fwrite(report_style, 1, sizeof report_style, to);
  fputs(
      "pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .5rem; background: var(--field); border: 1px "
      "solid var(--line); border-radius: "
      "4px; }\nfigure { margin: 1rem 0; overflow-x: auto; }\nfigure svg { min-width: 34rem; }\nth { vertical-align: "
      "bottom; }\n</style>\n</head>\n<body>\n<h1>",
      to);
  fputs(subject, to), sl__svg_escape(to, model);
  fputs("</h1>\n", to);
}

sl_status sl__page_repeat(FILE *to, const sl__options *o) {
  char *command;
  SL_TRY(sl__page_command(o, &command));
  fputs("<h2>How to repeat it</h2>\n<pre>", to);
  sl__svg_escape(to, command);
  fputs("</pre>\n", to);
  free(command);
  return SL_OK;
}

void sl__page_end(FILE *to) { fputs("</main>\n</body>\n</html>\n", to); }

sl_status sl__page_command(const sl__options *o, char **text) {
  size_t bytes;
  *text = NULL;
  FILE *to = open_memstream(text, &bytes);
  if (!to) return sl_no_memory("for the command");
  fputs("starling ", to);
  sl__options_quote(to, o->argv + 1, o->argc - 1);
  if (fclose(to) == 0) return SL_OK;
  free(*text), *text = NULL;
  return sl_no_memory("for the command");
}

sl_status sl__page_file(const sl__options *o, const char *name, const char *text) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", o->out, name) < 0) return sl_no_memory("for a path");
  const sl_status status = sl_file_replace(path, text, strlen(text));
  free(path);
  return status;
}
