/* starling grade: puts each submission into a copy of a lesson, builds it, runs it under limits (trial.c) and judges
 * it by the lesson's own check. It takes only files that the lesson's skeleton names, so a submission cannot replace
 * the check. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "tools/commands/commands.h"
#include "tools/grade/trial.h"
#include "tools/run/meter.h"

enum { MOST_BYTES = 1 << 20 /* of a source file */, MOST_PROCESSES = 64, BUILD_SECONDS = 60, MOST_NAMES = 4096 };

/* Names of a folder's entries, sorted by bytes, without those that begin with '.'. */
typedef struct names {
  char *name[MOST_NAMES];
  int n;
} names;

typedef struct grade {
  const sl__options *o;
  char *lesson;        /* its folder */
  const char *program; /* program that it builds: the folder's name without its number */
  names skeleton;      /* the files that students write */
  char folder[64];     /* temporary: the lesson's copy, and a home for StarPU */
  sl__trial *trial;
  json_t *rows;
  sl__meter meter;
} grade;

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void names_free(names *list) {
  while (list->n > 0) free(list->name[--list->n]);
}

static sl_status names_of(const char *folder, names *list) {
  DIR *d = opendir(folder);
  list->n = 0;
  if (!d) return sl_fail(SL_ENOTFOUND, "cannot read the folder %s: %s", folder, strerror(errno));
  for (struct dirent *entry; (entry = readdir(d)) && list->n < MOST_NAMES;)
    if (entry->d_name[0] != '.' && (list->name[list->n] = strdup(entry->d_name))) list->n++;
  closedir(d);
  qsort(list->name, (size_t)list->n, sizeof *list->name, by_bytes);
  return SL_OK;
}

static char *joined(const char *folder, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* Whether path is a folder, a regular file, or neither (0). Links are not followed: a submission is what its folder
 * holds. */
static mode_t kind_of(const char *path) {
  struct stat s;
  return path && lstat(path, &s) == 0 && (S_ISDIR(s.st_mode) || S_ISREG(s.st_mode)) ? s.st_mode & S_IFMT : 0;
}

static sl_status copy_file(const char *from, const char *to) {
  char *bytes;
  size_t n;
  if (kind_of(from) != S_IFREG) return sl_fail(SL_ENOTFOUND, "there is no file %s", from);
  SL_TRY(sl_file_read(from, MOST_BYTES, &bytes, &n));
  const sl_status status = sl_file_replace(to, bytes, n);
  free(bytes);
  return status;
}

/* ---- the lesson -------------------------------------------------------------------------------------------------- */

/* Puts the pkg-config files of this build or installation first, for the lessons' makefiles and for us. */
static sl_status set_search_path(void) {
  char self[4096], *path;
  const char *given = getenv("PKG_CONFIG_PATH");
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  if (asprintf(&path, "%s:%s/../lib/pkgconfig%s%s", self, self, given ? ":" : "", given ? given : "") < 0)
    return sl_no_memory("for a path");
  setenv("PKG_CONFIG_PATH", path, 1);
  free(path);
  return SL_OK;
}

/* LESSON if it names a folder, else the lesson of that name that pkg-config knows. */
static sl_status find_lesson(grade *g) {
  char known[4096] = "";
  names there;
  g->lesson = strdup(g->o->model);
  if (!g->lesson) return sl_no_memory("for a path");
  if (kind_of(g->lesson) != S_IFDIR) {
    FILE *answer = popen("pkg-config --variable=examples starling 2>/dev/null", "r");
    if (answer && !fgets(known, sizeof known, answer)) known[0] = 0;
    if (answer) pclose(answer);
    known[strcspn(known, "\n")] = 0;
    free(g->lesson);
    g->lesson = joined(known[0] ? known : ".", g->o->model);
  }
  if (kind_of(g->lesson) != S_IFDIR)
    return sl_fail(SL_EINVAL, "there is no lesson '%s', neither as a folder nor in %s", g->o->model,
                   known[0] ? known : "the examples, which pkg-config does not find (PKG_CONFIG_PATH)");
  for (char *end = g->lesson + strlen(g->lesson); end > g->lesson + 1 && end[-1] == '/';) *--end = 0;
  const char *slash = strrchr(g->lesson, '/');
  g->program = slash ? slash + 1 : g->lesson;
  g->program += strspn(g->program, "0123456789");
  g->program += *g->program == '-';
  char *skeleton = joined(g->lesson, "skeleton"), *makefile = joined(g->lesson, "Makefile");
  sl_status status = SL_OK;
  if (kind_of(makefile) != S_IFREG)
    status = sl_fail(SL_EINVAL, "%s is no lesson: it has no Makefile", g->lesson);
  else if (kind_of(skeleton) != S_IFDIR)
    status = sl_fail(SL_EINVAL, "%s cannot be graded: it has no folder skeleton/ with the files that students write",
                     g->lesson);
  if (status == SL_OK) status = names_of(skeleton, &there);
  if (status == SL_OK) g->skeleton = there;
  free(skeleton), free(makefile);
  return status;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
  (void)s, (void)at;
  if (kind == FTW_DP)
    rmdir(path);
  else
    unlink(path);
  return 0;
}

static void remove_all(const char *folder) { nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS); }

/* ---- one submission ---------------------------------------------------------------------------------------------- */

/* Copies the lesson's files, without those that students write and without build products. */
static sl_status copy_lesson(const grade *g, const char *to) {
  names files;
  sl_status status = SL_OK;
  SL_TRY(names_of(g->lesson, &files));
  status = sl_folder_make(to);
  for (int i = 0; i < files.n && status == SL_OK; i++) {
    int theirs = strcmp(files.name[i], g->program) == 0;
    for (int k = 0; k < g->skeleton.n; k++) theirs |= strcmp(files.name[i], g->skeleton.name[k]) == 0;
    char *from = joined(g->lesson, files.name[i]), *copy = joined(to, files.name[i]);
    if (!theirs && kind_of(from) == S_IFREG) status = copy_file(from, copy);
    free(from), free(copy);
  }
  names_free(&files);
  return status;
}

/* Copies the submission's files; SL_ENOTFOUND and the like are the student's failures. */
static sl_status copy_submission(const grade *g, const char *path, const char *to) {
  const int one = kind_of(path) == S_IFREG;
  sl_status status = SL_OK;
  if (one && g->skeleton.n != 1)
    return sl_fail(SL_EINVAL, "one file is handed in where the lesson asks for %d", g->skeleton.n);
  for (int k = 0; k < g->skeleton.n && status == SL_OK; k++) {
    char *from = one ? strdup(path) : joined(path, g->skeleton.name[k]), *copy = joined(to, g->skeleton.name[k]);
    if (kind_of(from) != S_IFREG)
      status = sl_fail(SL_ENOTFOUND, "there is no file %s", g->skeleton.name[k]);
    else
      status = copy_file(from, copy);
    free(from), free(copy);
  }
  return status;
}

/* Removes the next line from *text; NULL at its end. */
static char *next_line(char **text) {
  char *line = *text;
  if (!line || !*line) return NULL;
  line = strsep(text, "\n");
  return line;
}

/* The line of an output to show: the first with one of the marks, else the last that is not the verdict; "" if there
 * is none. */
static const char *telling(char *output, const char *const marks[2]) {
  const char *last = "";
  for (char *line; (line = next_line(&output));) {
    if (strstr(line, marks[0]) || strstr(line, marks[1])) return line;
    if (*line && strcmp(line, "ok") != 0 && strcmp(line, "not ok") != 0) last = line;
  }
  return last;
}

/* Whether the last line is "ok". */
static int says_ok(const char *output) {
  size_t n = strlen(output);
  while (n > 0 && output[n - 1] == '\n') n--;
  return n >= 2 && strncmp(output + n - 2, "ok", 2) == 0 && (n == 2 || output[n - 3] == '\n');
}

/* Why a trial failed, in words. */
static char *reason(const grade *g, int built) {
  static const char *const marks[2][2] = {{"error: ", "undefined reference"}, {"wrong: ", "wrong: "}};
  sl__trial *t = g->trial;
  char *text = NULL;
  int n = 0;
  if (t->end == SL__TRIAL_TIME)
    n = asprintf(&text, "no end after %.0f s", t->seconds);
  else if (t->end == SL__TRIAL_MEMORY)
    n = asprintf(&text, "more than %lld MB of memory", (long long)g->o->memory);
  else if (t->end == SL__TRIAL_PROCESSES)
    n = asprintf(&text, "more than %d processes", MOST_PROCESSES);
  else if (t->signal)
    n = asprintf(&text, "signal %d (%s)", t->signal, strsignal(t->signal));
  else if (!t->output[0])
    n = asprintf(&text, "it printed nothing");
  else if (t->exit == 0)
    n = asprintf(&text, "its last line is not ok: %s", telling(t->output, marks[built]));
  else
    n = asprintf(&text, "%s", telling(t->output, marks[built]));
  return n < 0 ? NULL : text;
}

static sl_status judge(grade *g, const char *path, const char *copy, int *built, int *passed, char **failure) {
  char *program = joined(".", g->program);
  char *const make[] = {(char *)"make", (char *)"-s", (char *)"-B", NULL}, *const run[] = {program, NULL};
  const sl__limits limits = {g->o->timeout, (size_t)g->o->memory << 20, MOST_PROCESSES};
  sl__limits building = limits;
  building.seconds = fmax(building.seconds, BUILD_SECONDS);
  sl_status status = SL_OK;
  memset(g->trial, 0, sizeof *g->trial);
  if (!program) return sl_no_memory("for a path");
  SL_TRY_OUT(copy_lesson(g, copy));
  if (copy_submission(g, path, copy) != SL_OK) {
    *failure = strdup(sl_error());
    goto out;
  }
  SL_TRY_OUT(sl__try(copy, make, &building, g->trial));
  *built = g->trial->end == SL__TRIAL_EXITED && g->trial->exit == 0;
  if (*built) SL_TRY_OUT(sl__try(copy, run, &limits, g->trial));
  *passed = *built && g->trial->end == SL__TRIAL_EXITED && g->trial->exit == 0 && says_ok(g->trial->output);
  if (!*passed) *failure = reason(g, *built);
out:
  free(program);
  return status;
}

/* Text from a submission, for the table: it may not be valid UTF-8. */
static void printable(char *text) {
  for (; text && *text; text++)
    if ((unsigned char)*text < ' ' || (unsigned char)*text > '~') *text = *text == '\t' ? ' ' : '?';
}

static sl_status add_row(grade *g, const char *path, const char *name) {
  int built = 0, passed = 0;
  char *failure = NULL, *shown = strdup(name), *copy = joined(g->folder, "lesson");
  sl_status status = shown && copy ? SL_OK : sl_no_memory("for a submission");
  if (status == SL_OK) status = judge(g, path, copy, &built, &passed, &failure);
  const sl__trial *t = g->trial;
  printable(shown), printable(failure);
  json_t *row = json_pack("{s:s, s:b, s:b, s:i, s:f, s:f, s:s}", "submission", shown ? shown : "", "built", built,
                          "passed", passed, "exit", t->exit, "seconds", t->seconds, "peak_mb",
                          (double)t->peak / (1 << 20), "failure", failure ? failure : "");
  if (status == SL_OK && (!row || json_array_append_new(g->rows, row) != 0)) status = sl_no_memory("for a row");
  sl__meter_clear(&g->meter);
  if (status == SL_OK && !g->o->quiet)
    fprintf(stderr, "%s: %s%s%s\n", shown,
            passed  ? "passed"
            : built ? "failed"
                    : "not built",
            failure ? ": " : "", failure ? failure : "");
  if (copy) remove_all(copy);
  free(failure), free(shown), free(copy);
  return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* A field of a CSV table (RFC 4180), followed by a comma or the line's end. */
static void put_text(FILE *file, const char *text, char end) {
  putc('"', file);
  for (; *text; text++) {
    if (*text == '"') putc('"', file);
    putc(*text, file);
  }
  putc('"', file), putc(end, file);
}

static const char *yes(const json_t *row, const char *field) {
  return json_is_true(json_object_get(row, field)) ? "yes" : "no";
}

static void print_csv(const json_t *rows, FILE *file) {
  size_t i;
  json_t *row;
  fputs("submission,built,passed,exit,seconds,peak_mb,failure\n", file);
  json_array_foreach(rows, i, row) {
    put_text(file, json_string_value(json_object_get(row, "submission")), ',');
    fprintf(file, "%s,%s,%d,%.2f,%.0f,", yes(row, "built"), yes(row, "passed"),
            (int)json_integer_value(json_object_get(row, "exit")), json_real_value(json_object_get(row, "seconds")),
            json_real_value(json_object_get(row, "peak_mb")));
    put_text(file, json_string_value(json_object_get(row, "failure")), '\n');
  }
}

static sl_status write_table(const grade *g) {
  char *text = NULL;
  size_t n = 0;
  if (g->o->json) {
    json_dumpf(g->rows, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
  } else if (!g->o->out)
    print_csv(g->rows, stdout);
  if (!g->o->out) return SL_OK;
  FILE *file = open_memstream(&text, &n);
  if (!file) return sl_no_memory("for the table");
  print_csv(g->rows, file);
  sl_status status = fclose(file) == 0 ? sl_file_replace(g->o->out, text, n) : sl_no_memory("for the table");
  free(text);
  return status;
}

static sl_status prepare(grade *g, char *home) {
  const char *base = getenv("TMPDIR");
  SL_TRY(set_search_path());
  SL_TRY(find_lesson(g));
  snprintf(g->folder, sizeof g->folder, "%s/grade.XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(g->folder)) {
    g->folder[0] = 0;
    return sl_fail(SL_EIO, "cannot make a folder in %s: %s", base ? base : "/tmp", strerror(errno));
  }
  /* Submissions get a StarPU home of their own, since they may do anything to it. */
  snprintf(home, 128, "%s/home", g->folder);
  SL_TRY(sl_folder_make(home));
  setenv("STARPU_HOME", home, 1);
  setenv("STARPU_SILENT", "1", 1);
  setenv("LC_ALL", "C", 1); /* so that compiler messages are in a language that all can read and that we can search */
  return SL_OK;
}

sl_status sl__grade(sl__options *o, int *exit_code) {
  grade g = {.o = o, .rows = json_array(), .trial = malloc(sizeof *g.trial)};
  names submissions = {.n = 0};
  char home[128];
  sl_status status = SL_OK;
  (void)exit_code;
  if (!g.rows || !g.trial) SL_TRY_OUT(sl_no_memory("for a table"));
  SL_TRY_OUT(names_of(o->files[0], &submissions));
  SL_TRY_OUT(prepare(&g, home));
  sl__meter_start(&g.meter, o->quiet, 0);
  for (int i = 0; i < submissions.n; i++) {
    sl__meter_show(&g.meter, i, submissions.n, "submission %d of %d", i + 1, submissions.n);
    char *path = joined(o->files[0], submissions.name[i]);
    const size_t n = strlen(submissions.name[i]);
    const mode_t kind = kind_of(path);
    if (kind == S_IFDIR || (kind == S_IFREG && n > 2 && strcmp(submissions.name[i] + n - 2, ".c") == 0))
      status = add_row(&g, path, submissions.name[i]);
    free(path);
    if (status != SL_OK) goto out;
  }
  if (json_array_size(g.rows) == 0)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "%s has no submissions: a folder for each, or a C file", o->files[0]));
  status = write_table(&g);
out:
  sl__meter_clear(&g.meter);
  if (g.folder[0]) remove_all(g.folder);
  names_free(&submissions);
  names_free(&g.skeleton);
  json_decref(g.rows);
  free(g.lesson);
  free(g.trial);
  return status;
}
