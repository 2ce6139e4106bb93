/* starling report: a run's timeline, figures and curves as one self-contained HTML file. The build joins
 * tools/report's HTML, CSS and scripts into one array of bytes, in which @data@ is replaced by the data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report_page.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "tools/commands/commands.h"
#include "tools/files/rundir.h"
#include "tools/report/parts.h"

/* Writes the data into a <script> element. All text is in JSON strings, where \u003c means <; without < no text can
 * end the element or begin a comment. */
static sl_status write_data(sl_file *file, const char *text) {
  for (const char *at = text; *at;) {
    const size_t n = strcspn(at, "<");
    SL_TRY(sl_file_write(file, at, n));
    at += n;
    if (!*at) break;
    SL_TRY(sl_file_write(file, "\\u003c", 6));
    at++;
  }
  return SL_OK;
}

static sl_status write_page(const char *path, const char *text) {
  static const char mark[] = "@data@";
  const char *page = (const char *)report_page;
  const char *place = memmem(page, sizeof report_page, mark, sizeof mark - 1), *rest = place + sizeof mark - 1;
  sl_file *file;
  SL_TRY(sl_file_create(path, &file));
  sl_status status = sl_file_write(file, page, (size_t)(place - page));
  if (status == SL_OK) status = write_data(file, text);
  if (status == SL_OK) status = sl_file_write(file, rest, (size_t)(page + sizeof report_page - rest));
  if (status == SL_OK) return sl_file_commit(file);
  sl_file_discard(file);
  return status;
}

/* --json prints the data, or writes them to --out. */
static sl_status write_all(const sl__options *o, const json_t *data) {
  char *text = sl_json_text(data, JSON_COMPACT | JSON_REAL_PRECISION(9)), *path = NULL;
  sl_status status = SL_OK;
  if (!text || asprintf(&path, "%s/%s", o->model, sl__rundir_file_name(SL__RUNDIR_REPORT)) < 0) {
    path = NULL;
    status = sl_no_memory("for the report of %s", o->model);
    goto out;
  }
  const char *to = o->out ? o->out : path;
  if (o->json && o->out)
    status = sl_file_replace(to, text, strlen(text));
  else if (o->json)
    puts(text);
  else
    status = write_page(to, text);
  if (status == SL_OK && !o->quiet && (!o->json || o->out)) sl_text_print("%s\n", to);
out:
  free(text), free(path);
  return status;
}

static sl_status read_run(const char *folder, sl_timeline ***timelines, int *n, sl__report_run *report) {
  sl_status status = sl_timeline_read_all(folder, timelines, n);
  if (status == SL_ENOTFOUND)
    status = sl_fail(status, "%s; 'starling train MODEL --out DIR' and 'starling bench MODEL --out DIR' leave one",
                     sl_error());
  SL_TRY(status);
  return sl__report_of(folder, *timelines, *n, report);
}

sl_status sl__report(sl__options *o, int *exit_code) {
  enum { RUN, BESIDE, RUNS };
  sl_timeline **timelines[RUNS] = {NULL, NULL};
  int n[RUNS] = {0, 0};
  sl__report_run report[RUNS] = {0};
  sl__report_beside both = {0};
  json_t *data = NULL;
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(read_run(o->model, &timelines[RUN], &n[RUN], &report[RUN]));
  if (o->beside) {
    SL_TRY_OUT(read_run(o->beside, &timelines[BESIDE], &n[BESIDE], &report[BESIDE]));
    SL_TRY_OUT(sl__report_beside_of(&report[RUN], &report[BESIDE], &both));
  }
  SL_TRY_OUT(sl__report_data(&report[RUN], o->beside ? &both : NULL, &data));
  SL_TRY_OUT(write_all(o, data));
  if (o->beside && !o->json) SL_TRY_OUT(sl__report_beside_print(stdout, &both));
  if (o->svg) SL_TRY_OUT(sl__report_svg(&report[RUN], data, o->svg, o->quiet || o->json));
out:
  json_decref(data);
  sl__report_beside_free(&both);
  for (int k = 0; k < RUNS; k++) {
    sl__report_free(&report[k]);
    for (int i = 0; i < n[k]; i++) sl_timeline_destroy(timelines[k][i]);
    free(timelines[k]);
  }
  return status;
}
