/* The launcher: starts the job, finds out how it ended, and starts it again if a rank was lost. */
#include "tools/launch/launch.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "runtime/machine/runtime.h"
#include "tools/files/rundir.h"
#include "tools/launch/hosts.h"
#include "tools/launch/mpiexec.h"
#include "tools/launch/process.h"
#include "tools/settings/exit_codes.h"
#include "tools/watch/heartbeat.h"

enum {
  KNOCK_S = 20, /* how long a host may take to answer after a loss */
  START_S = 5,  /* added to --stall-timeout for the start of ranks, so that the watch of the started ranks ends the job
                   first */
  ENDED_S = 60  /* how long mpiexec may take to exit after the heartbeat has reported the job's end */
};

typedef struct launcher {
  const sl__options *o;
  char program[4096], mpiexec[4096];
  sl__hosts hosts;            /* none: mpiexec finds them */
  int ranks, restarts, start; /* start: number of the job, from 0 */
  int was_there;              /* the run directory existed before the first start */
  int taken;                  /* a job of this launcher has opened the run directory */
  char id[96], launch[128];   /* names of this launcher and of the current job */
  int seen;                   /* the job's processes are known */
  int begun;                  /* the job has written its heartbeat: all ranks have started */
  int missing, warned;        /* ranks not heard from yet; whether a warning has said so */
  double moved;               /* when the start began, or a rank was heard from last */
  time_t since;               /* when the job was started */
  double lost_at;             /* 0: no rank was lost since the last step */
  char lost[1024];            /* message: what was lost, and how many ranks continue */
  long long from;             /* step that the job continues from */
} launcher;

/* How a job ended. */
typedef struct end {
  int code, lost;
  char what[512]; /* message to print; "": none */
} end;

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int given(int64_t value) { return value >= 0; }

int sl__launch_wanted(const sl__options *o) { return given(o->ranks) || given(o->restarts) || o->hosts || o->mpiexec; }

static sl_status open_launcher(launcher *l) {
  const sl__options *o = l->o;
  char host[64] = "", path[4200];
  if (sl_runtime_promised_ranks() > 1 || getenv("PMI_RANK"))
    return sl_fail(SL_EINVAL,
                   "--ranks, --restarts, --hosts and --mpiexec start mpiexec, but mpiexec already started this "
                   "process: use one or the other");
  l->restarts = given(o->restarts) ? (int)o->restarts : 0;
  if (l->restarts > 0 && !o->out)
    return sl_fail(SL_EINVAL, "--restarts continues from a run's checkpoints, so it needs --out DIR");
  SL_TRY(sl__hosts_parse(o->hosts, &l->hosts));
  l->ranks = given(o->ranks) ? (int)o->ranks : l->hosts.n > 0 ? sl__hosts_ranks(&l->hosts) : 1;
  if (l->hosts.n > 0 && l->ranks > sl__hosts_ranks(&l->hosts))
    return sl_fail(SL_EINVAL, "--ranks %d, but --hosts %s has room for only %d; NAME:RANKS gives a host more", l->ranks,
                   o->hosts, sl__hosts_ranks(&l->hosts));
  if (l->hosts.n > 0) sl__hosts_limit(&l->hosts, l->ranks);
  if (l->ranks > 1 || l->hosts.n > 0 || o->mpiexec) SL_TRY(sl__mpiexec_find(o->mpiexec, l->mpiexec, sizeof l->mpiexec));
  const ssize_t n = readlink("/proc/self/exe", l->program, sizeof l->program - 1);
  if (n <= 0) return sl_fail(SL_EIO, "cannot find this program's own file: %s", strerror(errno));
  gethostname(host, sizeof host - 1);
  snprintf(l->id, sizeof l->id, "%.48s-%ld-%ld", host, (long)getpid(), (long)time(NULL));
  if (o->out) {
    snprintf(path, sizeof path, "%.4000s/%s", o->out, sl__rundir_file_name(SL__RUNDIR_MARKER));
    l->was_there = access(path, F_OK) == 0;
  }
  return SL_OK;
}

/* ---- a job ------------------------------------------------------------------------------------------------------ */

static int beat_of(const launcher *l, sl__heartbeat *h) {
  return l->o->out && sl__heartbeat_read(l->o->out, h) == SL_OK && strcmp(h->launch, l->launch) == 0;
}

static int exists(const launcher *l, sl__rundir_file file) {
  char path[4200];
  snprintf(path, sizeof path, "%.4000s/%s", l->o->out ? l->o->out : "", sl__rundir_file_name(file));
  return l->o->out && access(path, F_OK) == 0;
}

static sl_status start(launcher *l) {
  static const sl__command train = {.name = "train", .bit = SL__TRAIN};
  static const char *const ours[] = {"ranks", "restarts", "hosts",    "mpiexec", "resume",
                                     "force", "init",     "new-head", NULL};
  static const char *const at_first[] = {"ranks", "restarts", "hosts", "mpiexec", NULL};
  char **words = NULL, **argv = NULL, *hosts = NULL, number[16];
  int n = 0, k = 0;
  sl_status status = SL_OK;
  l->since = time(NULL);
  /* A job that was lost early may have left a new folder without a configuration. */
  const int new_folder = l->start > 0 && !l->was_there && exists(l, SL__RUNDIR_MARKER);
  const int resumes = l->start > 0 && (l->taken || (new_folder && exists(l, SL__RUNDIR_CONFIG)));
  SL_TRY_OUT(sl__options_words(l->o, &train, resumes ? ours : at_first, &words, &n));
  if (!(argv = calloc((size_t)n + 12, sizeof *argv))) SL_TRY_OUT(sl_no_memory("for %d words", n));
  if (l->hosts.n > 0 && !(hosts = sl__hosts_text(&l->hosts))) SL_TRY_OUT(sl_no_memory("for the hosts"));
  snprintf(number, sizeof number, "%d", l->ranks);
  if (*l->mpiexec) {
    argv[k++] = l->mpiexec;
    if (hosts) argv[k++] = (char *)"-hosts", argv[k++] = hosts;
    argv[k++] = (char *)"-n", argv[k++] = number;
  }
  argv[k++] = l->program, argv[k++] = (char *)"train";
  if (l->o->model) argv[k++] = l->o->model;
  for (int i = 0; i < n; i++) argv[k++] = words[i];
  if (resumes)
    argv[k++] = (char *)"--resume";
  else if (new_folder && !l->o->force)
    argv[k++] = (char *)"--force";
  snprintf(l->launch, sizeof l->launch, "%s-%d", l->id, l->start);
  l->seen = l->begun = l->warned = 0;
  l->missing = l->ranks, l->moved = sl_seconds();
  SL_TRY_OUT(sl__process_start(argv, l->launch, *l->mpiexec != '\0'));
out:
  sl__options_words_free(words, n);
  free(argv), free(hosts);
  return status;
}

/* Prints one line about a restart, after the job's first step or its end. */
static void tell_restart(launcher *l, const char *then) {
  if (l->lost_at == 0) return;
  fprintf(stderr, "starling: restart %d of %d: %s from step %lld; %s\n", l->start, l->restarts, l->lost, l->from, then);
  l->lost_at = 0;
}

static void look_for_step(launcher *l) {
  sl__heartbeat h;
  char text[80];
  if (!beat_of(l, &h)) return;
  l->taken = 1, l->from = h.from;
  if (h.step == h.from) return;
  snprintf(text, sizeof text, "the next step ended %.1f s after the rank was lost", sl_seconds() - l->lost_at);
  tell_restart(l, text);
}

static void see_processes(launcher *l) {
  enum { MOST = 256 };
  char host[128] = "";
  long pid[MOST];
  gethostname(host, sizeof host - 1);
  const int n = sl__heartbeat_processes(l->o->out, host, pid, MOST);
  sl__process_ranks(host, pid, n);
  l->seen = n > 0;
}

/* Ranks that have not started yet, as far as is known. */
static int unheard(const launcher *l) {
  int n = 0;
  if (l->begun || !*l->mpiexec) return 0;
  for (int r = 0; r < l->ranks; r++) n += !sl__process_heard(r);
  return n;
}

/* Writes "1 of 2 ranks has not started, on b (does 'ssh b true' work?)". */
static void name_unheard(const launcher *l, char *text, size_t n) {
  const int missing = unheard(l);
  size_t at =
      (size_t)snprintf(text, n, "%d of %d ranks %s not started", missing, l->ranks, missing > 1 ? "have" : "has");
  const char *first = NULL;
  for (int i = 0, rank = 0; i < l->hosts.n; i++) {
    const int end = rank + l->hosts.host[i].ranks;
    int here = 0;
    for (; rank < end; rank++) here += !sl__process_heard(rank);
    if (!here || at >= n) continue;
    at += (size_t)snprintf(text + at, n - at, "%s%s", first ? ", " : ", on ", l->hosts.host[i].name);
    if (!first) first = l->hosts.host[i].name;
  }
  if (first && at < n) snprintf(text + at, n - at, " (does 'ssh %s true' work?)", first);
}

/* Warns of ranks that do not start, and ends mpiexec, which would wait for them for ever. */
static void look_at_start(launcher *l) {
  enum { WARN_S = 60 };
  const double patience = l->o->stall_timeout, now = sl_seconds();
  const int missing = unheard(l);
  char what[512];
  if (missing != l->missing) l->missing = missing, l->moved = now;
  const double still = now - l->moved;
  if (missing == 0) return;
  if (!l->warned && still > (patience > 0 ? patience / 2 : WARN_S)) {
    name_unheard(l, what, sizeof what);
    fprintf(stderr, "starling: warning: after %.0f s %s\n", still, what);
    l->warned = 1;
  }
  if (patience > 0 && still > patience + START_S) sl__process_kill();
}

static void wait_for_end(launcher *l, int *state, sl__obituary *said) {
  double ended = 0;
  sl__heartbeat h;
  while (!sl__process_ended(state, said)) {
    if (l->lost_at > 0) look_for_step(l);
    const double now = sl_seconds();
    static double looked;
    if (now - looked < 1) continue;
    looked = now;
    look_at_start(l);
    if (ended == 0 && beat_of(l, &h)) {
      l->begun = 1;
      if (!l->seen) see_processes(l);
      if (h.exit_code >= 0) ended = now;
    }
    if (ended > 0 && now - ended > ENDED_S) sl__process_kill();
  }
}

/* ---- the end of a job ------------------------------------------------------------------------------------------- */

/* Writes "rank 1 stood still", from the newest stall file. */
static void name_late(const launcher *l, char *text, size_t n) {
  char pattern[4200];
  glob_t files = {0};
  json_t *stall = NULL, *rank;
  size_t i, at = 0;
  struct stat info;
  snprintf(pattern, sizeof pattern, "%.4000s/stall-*.json", l->o->out ? l->o->out : "");
  if (l->o->out && glob(pattern, 0, NULL, &files) == 0) {
    const char *newest = files.gl_pathv[files.gl_pathc - 1];
    if (stat(newest, &info) == 0 && info.st_mtime >= l->since) sl_json_read_regular(newest, &stall);
  }
  globfree(&files);
  json_array_foreach(json_object_get(stall, "late"), i, rank) {
    if (at < n) at += (size_t)snprintf(text + at, n - at, "%s%lld", i ? ", " : "rank ", json_integer_value(rank));
  }
  snprintf(text + (at < n ? at : 0), n - (at < n ? at : 0), "%s stood still", at ? "" : "a rank");
  json_decref(stall);
}

static void name_dead(const launcher *l, const sl__obituary *said, int signal, char *text, size_t n) {
  const int rank = said->pid && l->o->out ? sl__heartbeat_rank(l->o->out, said->host, said->pid) : -1;
  char who[64] = "a rank";
  if (l->ranks == 1) snprintf(who, sizeof who, "rank 0");
  if (rank >= 0) snprintf(who, sizeof who, "rank %d", rank);
  if (said->pid)
    snprintf(text, n, "%s (process %ld of %s) was killed by signal %d", who, said->pid, said->host, signal);
  else if (signal > 0)
    snprintf(text, n, "%s was killed by signal %d", who, signal);
  else
    snprintf(text, n, "%s was lost", who);
}

/* Takes the job's exit code from its heartbeat if possible: mpiexec may lose it. */
static end judge(const launcher *l, int state, const sl__obituary *said) {
  enum {
    FIRST_FATAL = 4,
    LAST = 31,
    LAST_SIGNAL = 64
  }; /* exit codes by which mpiexec reports a signal; 1 to 3 are the command's own */
  sl__heartbeat h;
  end e = {0};
  const int ours = beat_of(l, &h);
  if (ours && h.exit_code >= 0) {
    e.code = h.exit_code, e.lost = h.exit_code == SL__EXIT_LOST;
  } else {
    int signal = said->signal;
    e.code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (!signal && WIFSIGNALED(state)) signal = WTERMSIG(state);
    if (!signal && e.code > 128 && e.code <= 128 + LAST_SIGNAL) signal = e.code - 128;
    if (!signal && e.code >= FIRST_FATAL && e.code <= LAST) signal = e.code;
    if (e.code == 0 && !ours && unheard(l) == l->ranks) {
      e.code = SL__EXIT_FAILURE;
      snprintf(e.what, sizeof e.what,
               "%.300s ended and has started no rank: is it the mpiexec of this build's MPI (--mpiexec)?", l->mpiexec);
      return e;
    }
    e.lost = signal > 0 || e.code > 128 || e.code == SL__EXIT_LOST || (ours && e.code == 0);
    if (e.lost && e.code != SL__EXIT_LOST) name_dead(l, said, signal, e.what, sizeof e.what);
  }
  const int stopped = sl__process_signalled();
  if (e.lost && stopped && !l->begun && unheard(l) == 0) {
    e.lost = 0, e.code = 128 + stopped;
    snprintf(e.what, sizeof e.what, "stopped by signal %d (%s) before training began", stopped, strsignal(stopped));
  } else if (e.lost && unheard(l) > 0) {
    size_t at = 0;
    if (stopped) {
      e.lost = 0, e.code = 128 + stopped;
      at = (size_t)snprintf(e.what, sizeof e.what, "stopped by signal %d (%s) during the start: ", stopped,
                            strsignal(stopped));
    }
    name_unheard(l, e.what + at, sizeof e.what - at);
  }
  if (e.lost && !*e.what) name_late(l, e.what, sizeof e.what);
  if (e.lost) e.code = SL__EXIT_LOST;
  return e;
}

/* Keeps the hosts that still answer. */
static sl_status choose_hosts(launcher *l, char *gone, size_t n) {
  gone[0] = '\0';
  if (l->hosts.n == 0 && *l->mpiexec) SL_TRY(sl__hosts_of_slurm(l->ranks, &l->hosts));
  if (l->hosts.n < 2 || sl__hosts_drop_dead(&l->hosts, l->mpiexec, KNOCK_S, gone, n) == 0) return SL_OK;
  if (l->hosts.n == 0) return sl_fail(SL_ENOTFOUND, "no host answers any more: %s", gone);
  sl__hosts_fill(&l->hosts, l->ranks); /* spare nodes of the allocation take over */
  l->ranks = sl__hosts_ranks(&l->hosts);
  return SL_OK;
}

static sl_status prepare_restart(launcher *l, const end *e) {
  char gone[256];
  l->lost_at = sl_seconds();
  SL_TRY(choose_hosts(l, gone, sizeof gone));
  snprintf(l->lost, sizeof l->lost, "%s%s%s%s; %d rank%s go%s on", e->what, *gone ? ", and " : "", gone,
           *gone ? " does not answer" : "", l->ranks, l->ranks > 1 ? "s" : "", l->ranks > 1 ? "" : "es");
  l->start++;
  return SL_OK;
}

static sl_status run(launcher *l, int *exit_code) {
  SL_TRY(open_launcher(l));
  sl__process_catch();
  for (;;) {
    int state = 0;
    sl__obituary said = {0};
    sl__heartbeat h;
    SL_TRY(start(l));
    wait_for_end(l, &state, &said);
    const double at = sl_seconds();
    sl__process_kill_rest(l->launch);
    if (l->lost_at > 0) look_for_step(l);
    tell_restart(l, "it ended before its next step");
    if (beat_of(l, &h)) l->taken = l->begun = 1;
    const end e = judge(l, state, &said);
    *exit_code = e.code;
    if (!e.lost) {
      if (*e.what) fprintf(stderr, "starling: %s\n", e.what);
      return SL_OK;
    }
    if (sl__process_signalled() || l->start == l->restarts) {
      fprintf(stderr, "starling: %s%s\n", e.what,
              unheard(l) > 0            ? ""
              : l->restarts == 0        ? "; --restarts N starts the job again from its last checkpoint"
              : sl__process_signalled() ? ""
                                        : ", and no restart is left");
      return SL_OK;
    }
    SL_TRY(prepare_restart(l, &e));
    if (sl__process_signalled()) { /* while no job ran that could have got the signal */
      fprintf(stderr, "starling: %s; stopped by a signal before the restart\n", e.what);
      return SL_OK;
    }
    l->lost_at = at;
  }
}

sl_status sl__launch(const sl__options *o, int *exit_code) {
  launcher l = {.o = o};
  const sl_status status = run(&l, exit_code);
  sl__hosts_free(&l.hosts);
  return status;
}
