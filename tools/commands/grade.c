/* starling grade: puts each submission into a copy of a lesson, builds it and runs it in a sandbox (sandbox.c), and
 * lets the lesson's judge compare its answers. The judge runs outside the sandbox, on questions drawn anew for each
 * submission, so a submission's own claims count for nothing. Only files that the skeleton names are taken. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/temporary.h"
#include "runtime/base/text.h"
#include "tools/commands/commands.h"
#include "tools/grade/lesson.h"
#include "tools/grade/sandbox.h"
#include "tools/run/meter.h"

enum { MOST_PROCESSES = 64, BUILD_SECONDS = 60 };

/* A student's submission, read before the first submission runs. */
typedef struct submission {
  const char *name;
  sl__texts files;
  char *failure; /* why it cannot be graded */
} submission;

/* A line of the table. */
typedef struct row {
  int built, passed, points, of, exit;
  double seconds;
  size_t peak;
  char *failure;
} row;

typedef struct grade {
  const sl__options *o;
  sl__lesson lesson;
  sl__sandbox sandbox;
  char folder[64];                                 /* temporary */
  char *judge, *copy, *home, *questions, *answers; /* inside it */
  void *asked;                                     /* the contents of `questions` */
  size_t n_asked;
  sl__trial *trial;
  json_t *rows;
  FILE *table; /* collected in memory, for --out */
  char *table_text;
  size_t table_bytes;
  sl__meter meter;
} grade;

/* ---- one submission --------------------------------------------------------------------------------------------- */

/* Removes the next line from *text; NULL at its end. */
static char *next_line(char **text) { return *text && **text ? strsep(text, "\n") : NULL; }

/* The first error of compiler or linker, else the last line. */
static const char *build_error(char *output) {
  const char *last = "";
  for (char *line; (line = next_line(&output));) {
    if (strstr(line, "error: ") || strstr(line, "undefined reference")) return line;
    if (*line) last = line;
  }
  return last;
}

/* Why a trial was ended, in words; NULL: it ended by itself. */
static char *forced_end(const grade *g, const sl__trial *t, double seconds) {
  char *text = NULL;
  int n = 0;
  if (t->end == SL__TRIAL_TIME)
    n = asprintf(&text, "did not end within %.0f s", seconds);
  else if (t->end == SL__TRIAL_MEMORY)
    n = asprintf(&text, "used more than %lld MB of memory", (long long)g->o->memory);
  else if (t->end == SL__TRIAL_PROCESSES)
    n = asprintf(&text, "started more than %d processes", MOST_PROCESSES);
  else if (t->exit > 128 && t->exit <= 128 + 64)
    n = asprintf(&text, "signal %d (%s)", t->exit - 128, strsignal(t->exit - 128));
  return n < 0 ? NULL : text;
}

/* Reads the judge's verdict: the points, all lines that begin with "wrong: ", and whether the last one is "ok". */
static int read_verdict(char *output, row *r) {
  char *wrong = strdup("");
  const char *last = "";
  for (char *line, *longer; (line = next_line(&output));) {
    if (*line) last = line;
    sscanf(line, "points: %d of %d", &r->points, &r->of);
    if (strncmp(line, "wrong: ", 7) != 0 || !wrong) continue;
    if (asprintf(&longer, "%s%s%s", wrong, *wrong ? "; " : "", line) < 0) continue;
    free(wrong);
    wrong = longer;
  }
  if (!r->failure && wrong && *wrong)
    r->failure = wrong;
  else
    free(wrong);
  return strcmp(last, "ok") == 0;
}

static sl_status try_judge(grade *g, const char *command, int in) {
  char *const argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command, NULL};
  const sl__limits limits = {fmax(g->o->timeout, BUILD_SECONDS), (size_t)g->o->memory << 20, MOST_PROCESSES};
  g->sandbox.simulates = 1;
  SL_TRY(sl__sandbox_try(&g->sandbox, g->judge, 0, in, argv, &limits, g->trial));
  char *end = forced_end(g, g->trial, limits.seconds);
  const sl_status status = end ? sl_fail(SL_EIO, "the lesson's judge: %s", end) : SL_OK;
  free(end);
  return status;
}

/* Writes the questions into a new file beside the judge. */
static sl_status put_questions(grade *g) {
  SL_TRY(sl_file_replace(g->questions, g->asked, g->n_asked));
  return sl__sandbox_give(&g->sandbox, g->judge);
}

/* Draws questions, into a file beside the judge. */
static sl_status ask(grade *g) {
  SL_TRY(try_judge(g, "exec ./judge questions >&3", -1));
  if (g->trial->exit != 0 || g->trial->n_channel == 0)
    return sl_fail(SL_EIO, "the lesson's judge makes no questions: %s", g->trial->output);
  free(g->asked);
  g->n_asked = g->trial->n_channel;
  if (!(g->asked = malloc(g->n_asked))) return sl_no_memory("for the questions");
  memcpy(g->asked, g->trial->channel, g->n_asked);
  return put_questions(g);
}

/* Runs the program, and gives its answers to the judge. */
static sl_status run(grade *g, int built, row *r) {
  const sl__limits limits = {g->o->timeout, (size_t)g->o->memory << 20, MOST_PROCESSES};
  char *program = sl__joined(".", g->lesson.program);
  char *const argv[] = {program, NULL};
  sl_status status = program ? SL_OK : sl_no_memory("for a path");
  int fd = -1;
  if (built && status == SL_OK) {
    fd = sl_file_open(g->questions, O_RDONLY | O_CLOEXEC, 0);
    g->sandbox.simulates = sl__lesson_simulates(&g->lesson);
    status = sl__sandbox_try(&g->sandbox, g->copy, 0, fd, argv, &limits, g->trial);
    close(fd);
    r->exit = g->trial->exit, r->seconds = g->trial->seconds, r->peak = g->trial->peak;
    r->failure = forced_end(g, g->trial, limits.seconds);
    if (status != SL_OK) goto out;
  }
  const int whole = built && r->exit == 0 && g->trial->end == SL__TRIAL_EXITED;
  SL_TRY_OUT(sl_file_replace(g->answers, g->trial->channel, built ? g->trial->n_channel : 0));
  SL_TRY_OUT(put_questions(g)); /* the program could open and change the file that it read */
  fd = sl_file_open(g->answers, O_RDONLY | O_CLOEXEC, 0);
  status = try_judge(g, "exec ./judge verdict questions", fd);
  close(fd);
  if (status != SL_OK) goto out;
  char *said = g->trial->exit > 1 ? strdup(g->trial->output) : NULL; /* read_verdict cuts it into lines */
  const int verdict = read_verdict(g->trial->output, r);
  if (said && !r->failure && r->of == 0 &&
      asprintf(&r->failure, "the lesson's judge gives no verdict (exit code %d): %s", g->trial->exit, said) < 0)
    r->failure = NULL;
  free(said);
  r->passed = verdict && g->trial->exit == 0 && whole;
  if (!r->passed && !r->failure && asprintf(&r->failure, "exit code %d", r->exit) < 0) r->failure = NULL;
  if (!r->passed && r->points == r->of) r->points = 0; /* right answers, but the program failed */
out:
  free(program);
  return status;
}

static sl_status judge(grade *g, const submission *s, row *r) {
  char *const make[] = {(char *)"make", (char *)"-s", (char *)"-B", NULL};
  const sl__limits building = {fmax(g->o->timeout, BUILD_SECONDS), (size_t)g->o->memory << 20, MOST_PROCESSES};
  if (s->failure) r->failure = strdup(s->failure);
  SL_TRY(sl_folder_make(g->copy));
  SL_TRY(ask(g));
  if (!r->failure) {
    SL_TRY(sl__texts_write(&g->lesson.own, g->copy));
    SL_TRY(sl__texts_write(&s->files, g->copy));
    SL_TRY(sl__sandbox_give(&g->sandbox, g->copy));
    g->sandbox.simulates = sl__lesson_simulates(&g->lesson);
    SL_TRY(sl__sandbox_try(&g->sandbox, g->copy, 1, -1, make, &building, g->trial));
    r->exit = g->trial->exit, r->seconds = g->trial->seconds, r->peak = g->trial->peak;
    r->built = g->trial->end == SL__TRIAL_EXITED && g->trial->exit == 0;
    if (!r->built) r->failure = forced_end(g, g->trial, building.seconds);
    if (!r->built && !r->failure) r->failure = strdup(build_error(g->trial->output));
  }
  return run(g, r->built, r);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* Text from a submission for the table; the text may be invalid UTF-8. */
static void printable(char *text) {
  if (!text) return;
  for (char *tab; (tab = strchr(text, '\t'));) *tab = ' ';
  sl_text_make_plain(text);
}

/* A field of a CSV table (RFC 4180), followed by a comma or the line's end. Spreadsheets take text that begins with one
 * of these marks for a formula, unless an apostrophe precedes it. */
static void put_text(FILE *file, const char *text, char end) {
  putc('"', file);
  if (*text && strchr("=+-@\t\r ", *text)) putc('\'', file);
  for (; *text; text++) {
    if (*text == '"') putc('"', file);
    putc(*text, file);
  }
  putc('"', file), putc(end, file);
}

static void put_head(FILE *file) { fputs("submission,built,passed,points,of,exit,seconds,peak_mb,failure\n", file); }

static void put_row(FILE *file, const char *name, const row *r) {
  put_text(file, name, ',');
  fprintf(file, "%s,%s,%d,%d,%d,%.2f,%.0f,", r->built ? "yes" : "no", r->passed ? "yes" : "no", r->points, r->of,
          r->exit, r->seconds, (double)r->peak / (1 << 20));
  put_text(file, r->failure ? r->failure : "", '\n');
}

/* Adds a row to the tables; they are complete after each submission. */
static sl_status add_row(grade *g, const char *name, row *r) {
  char *shown = strdup(name);
  if (!shown) return sl_no_memory("for a row");
  printable(shown), printable(r->failure);
  const char *failure = r->failure ? r->failure : "";
  json_t *object = json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:f, s:f, s:s}", "submission", shown, "built", r->built,
                             "passed", r->passed, "points", r->points, "of", r->of, "exit", r->exit, "seconds",
                             r->seconds, "peak_mb", (double)r->peak / (1 << 20), "failure", failure);
  sl_status status = SL_OK;
  if (!object || json_array_append_new(g->rows, object) != 0) status = sl_no_memory("for a row");
  sl__meter_clear(&g->meter);
  if (!g->o->json && !g->o->out) put_row(stdout, shown, r), fflush(stdout);
  put_row(g->table, shown, r);
  if (fflush(g->table) != 0) status = sl_no_memory("for the table");
  if (status == SL_OK && g->o->out) status = sl_file_replace(g->o->out, g->table_text, g->table_bytes);
  if (!g->o->quiet)
    fprintf(stderr, "%s: %s, %d of %d points%s%s\n", shown,
            r->passed  ? "passed"
            : r->built ? "failed"
                       : "not built",
            r->points, r->of, *failure ? ": " : "", failure);
  free(shown);
  return status;
}

/* Grades one submission. If that fails, the next one is graded all the same. */
static sl_status grade_one(grade *g, const submission *s) {
  row r = {0};
  if (judge(g, s, &r) != SL_OK) {
    free(r.failure);
    r.passed = 0;
    if (asprintf(&r.failure, "not graded: %s", sl_error()) < 0) r.failure = NULL;
  }
  const sl_status status = add_row(g, s->name, &r);
  sl__folder_remove(g->copy);
  sl__folder_remove(g->home);
  if (sl_folder_make(g->home) == SL_OK) sl__sandbox_give(&g->sandbox, g->home);
  free(r.failure);
  return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* The kind of an entry that is neither a folder nor a file, in words; NULL: it is one of them. Such an entry is not
 * opened: a link can lead to any of the teacher's files, and reading a pipe may never end. */
static const char *odd_kind(const char *path) {
  struct stat info;
  if (lstat(path, &info) != 0) return NULL;
  switch (info.st_mode & S_IFMT) {
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a named pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return NULL;
  }
}

/* Reads the files of a submission; faults count as the student's failure. */
static void read_submission(const grade *g, const char *path, submission *s) {
  const sl__names *wanted = &g->lesson.skeleton;
  const int one = sl__kind_of(path) == S_IFREG;
  const char *odd = odd_kind(path);
  sl_status status = odd ? sl_fail(SL_EINVAL, "not graded: %s", odd) : SL_OK;
  if (one && wanted->n != 1)
    status = sl_fail(SL_EINVAL, "one file was handed in, but the lesson asks for %d", wanted->n);
  for (int k = 0; k < wanted->n && status == SL_OK; k++) {
    char *from = one ? strdup(path) : sl__joined(path, wanted->name[k]);
    status = sl__texts_read(&s->files, from, wanted->name[k]);
    free(from);
  }
  if (status != SL_OK) s->failure = strdup(sl_error());
}

/* Whether another account may reach what is in the folder. */
static int others_may_pass(const char *folder) {
  char path[PATH_MAX];
  struct stat info;
  if (!realpath(folder, path)) return 0;
  for (char *end = path + strlen(path);; end = strrchr(path, '/')) {
    *end = '\0';
    if (stat(*path ? path : "/", &info) != 0 || !(info.st_mode & S_IXOTH)) return 0;
    if (!*path) return 1;
  }
}

/* The folder in which the temporary folder is made. If root grades, submissions run under another account, which must
 * be able to reach it. */
static const char *base_of(void) {
  const char *const bases[] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};
  for (int i = 0; i < 3; i++)
    if (bases[i] && strlen(bases[i]) < 40 && (geteuid() != 0 || others_may_pass(bases[i]))) return bases[i];
  return "/tmp";
}

/* Makes the temporary folder and builds the judge in it. */
static sl_status prepare(grade *g) {
  const char *base = base_of();
  SL_TRY(sl__lesson_find(g->o->model, &g->lesson));
  if (g->lesson.skeleton.n == 0)
    return sl_fail(SL_EINVAL, "%s cannot be graded: it has no folder skeleton/ with the files that students write",
                   g->lesson.folder);
  SL_TRY(sl__lesson_can_be_graded(&g->lesson));
  snprintf(g->folder, sizeof g->folder, "%s/grade.XXXXXX", base);
  if (sl_temporary_folder(g->folder) != 0) {
    g->folder[0] = 0;
    return sl_fail(SL_EIO, "cannot make a folder in %s: %s", base, strerror(errno));
  }
  if (geteuid() == 0 && chmod(g->folder, 0711) != 0) return sl_fail(SL_EIO, "cannot open %s to others", g->folder);
  char **const paths[] = {&g->judge, &g->copy, &g->home, &g->answers};
  static const char *const names[] = {"judge", "lesson", "home", "answers"};
  for (int i = 0; i < 4; i++)
    if (!(*paths[i] = sl__joined(g->folder, names[i]))) return sl_no_memory("for a path");
  if (!(g->questions = sl__joined(g->judge, "questions"))) return sl_no_memory("for a path");
  SL_TRY(sl_folder_make(g->home));
  SL_TRY(sl_folder_make(g->judge));
  const char *const hidden[] = {g->lesson.folder, g->o->files[0], NULL}; /* they may lie in /opt */
  SL_TRY(sl__sandbox_create(g->home, hidden, g->o->unprotected, &g->sandbox));
  if (!g->sandbox.on)
    sl_log(SL_LOG_WARNING, "submissions run without a sandbox: they can read and change what this account can");
  char *const make[] = {(char *)"make", (char *)"-s", (char *)"-B", (char *)"judge", NULL};
  const sl__limits building = {BUILD_SECONDS, (size_t)g->o->memory << 20, MOST_PROCESSES};
  SL_TRY(sl__texts_write(&g->lesson.own, g->judge));
  SL_TRY(sl__sandbox_give(&g->sandbox, g->judge));
  SL_TRY(sl__sandbox_try(&g->sandbox, g->judge, 1, -1, make, &building, g->trial));
  if (g->trial->end != SL__TRIAL_EXITED || g->trial->exit != 0)
    return sl_fail(SL_EINVAL, "the judge of %s cannot be built: %s", g->lesson.folder, build_error(g->trial->output));
  return SL_OK;
}

static int is_submission(const char *path) {
  const mode_t kind = sl__kind_of(path);
  const size_t n = strlen(path);
  return kind == S_IFDIR || (kind == S_IFREG && n > 2 && strcmp(path + n - 2, ".c") == 0) || odd_kind(path);
}

sl_status sl__grade(sl__options *o, int *exit_code) {
  grade g = {.o = o, .rows = json_array(), .trial = malloc(sizeof *g.trial)};
  sl__names there = {.n = 0};
  submission *all = NULL;
  sl_status status = SL_OK;
  int n = 0;
  (void)exit_code;
  g.table = open_memstream(&g.table_text, &g.table_bytes);
  if (!g.rows || !g.trial || !g.table) SL_TRY_OUT(sl_no_memory("for a table"));
  SL_TRY_OUT(sl__names_read(o->files[0], &there));
  SL_TRY_OUT(prepare(&g));
  if (!(all = calloc((size_t)there.n + 1, sizeof *all))) SL_TRY_OUT(sl_no_memory("for %d submissions", there.n));
  for (int i = 0; i < there.n; i++) {
    char *path = sl__joined(o->files[0], there.name[i]);
    if (path && is_submission(path)) {
      all[n].name = there.name[i];
      read_submission(&g, path, &all[n++]);
    }
    free(path);
  }
  if (n == 0) SL_TRY_OUT(sl_fail(SL_EINVAL, "%s has no submissions: a folder for each, or a C file", o->files[0]));
  put_head(g.table);
  if (fflush(g.table) == 0 && o->out) SL_TRY_OUT(sl_file_replace(o->out, g.table_text, g.table_bytes));
  if (!o->json && !o->out) put_head(stdout), fflush(stdout);
  sl__meter_start(&g.meter, o->quiet, 0);
  for (int i = 0; i < n; i++) {
    sl__meter_show(&g.meter, i, n, "submission %d of %d", i + 1, n);
    SL_TRY_OUT(grade_one(&g, &all[i]));
  }
  if (o->json) status = sl_json_print(stdout, g.rows, 6);
out:
  sl__meter_clear(&g.meter);
  if (g.folder[0]) sl__folder_remove(g.folder), sl_temporary_remove(g.folder);
  for (int i = 0; i < n; i++) sl__texts_free(&all[i].files), free(all[i].failure);
  free(all);
  sl__names_free(&there);
  sl__lesson_free(&g.lesson);
  sl__sandbox_free(&g.sandbox);
  json_decref(g.rows);
  if (g.table) fclose(g.table);
  free(g.table_text);
  free(g.judge), free(g.copy), free(g.home), free(g.questions), free(g.answers), free(g.asked);
  free(g.trial);
  return status;
}
