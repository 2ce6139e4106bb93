/* The watch. Every rank reports its state once a second to ranks 0 and 1 (the listeners). In a job of one rank it only
 * looks at calls on files.
 *
 * A slow disk is no hang: while a call on a file keeps some rank waiting, no rank judges the others. That rank warns
 * after the patience of other stalls, and ends the job only if nothing moves in it for as long as a disk may take. */
#include "tools/watch/watch.h"

#include <math.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "runtime/machine/comm.h"
#include "runtime/machine/runtime.h"
#include "tools/watch/heartbeat.h"
#include "tools/watch/siblings.h"
#include "tools/watch/stacks.h"
#include "tools/watch/stall.h"

enum {
  LISTENERS = 2,
  MOST_PROGRAMS = 4,
  TAG = 0x5717,
  TEXT = 160,
  MESSAGE = 4096,
  FOLDER = 4000,
  MORE_PATIENCE = 10,
  PARTS_MS = 700,   /* how long the rank that ends the job waits for the others' parts of the stall file */
  COLLECT_S = 5,    /* longest time for the stall file: its disk may be what hangs */
  KEEPS_MS = 10000, /* how long a connection to mpiexec is kept: ranks that have not exited by then are killed */
  HOLD_S = 10,      /* how long a rank leaves it to another rank to end the job */
  USUAL_S = 60,     /* the patience of commands without --stall-timeout */
  DISK_S = 600,     /* least default for a call on a file; a cold tape or a full array may take minutes */
  NEWS_S = 2,       /* age up to which news of a slow disk are passed on: two reports */
  SILENT_S = 3      /* a rank is not called silent sooner: it reports once a second */
};

/* What a rank says. */
typedef struct word {
  char host[64], place[TEXT];
  int waits, works, works_long, waits_long;
  int ends;    /* it is ending the job */
  int left;    /* its last report */
  int behind;  /* a rank that its exchange has been waiting for; -1: none */
  double disk; /* seconds that a call on a file has kept the rank waiting */
  unsigned long moves;
} word;

typedef struct heard {
  word last;
  double when, moved; /* times; when 0: nothing heard yet */
} heard;

/* ALONE: MPI has not started or has ended. TALKS: all ranks send and receive reports. QUIET: no more; MPI is about to
 * end. */
typedef enum phase { ALONE, TALKS, QUIET } phase;

static struct watch {
  int rank, ranks; /* of the launcher; in TALKS MPI's */
  double patience, disk;
  int exit_code;
  int launcher; /* the descriptor of this rank's connection to mpiexec; 0: none */
  pthread_t thread;
  pthread_mutex_t lock;    /* of programs */
  pthread_mutex_t meeting; /* of the next two, and held while MPI is asked for its ranks */
  int started, closed;     /* MPI_Init_thread has returned; MPI is about to end */
  sl_program *program[MOST_PROGRAMS];
  int n;
  atomic_int phase, leave, drop; /* leave: the thread shall go from TALKS to QUIET; drop: without a last report */
  heard *heard;                  /* [ranks]; of this rank on all */
  word mine, *coming;            /* [ranks] */
  MPI_Request send[LISTENERS], *receive;
  MPI_Request *pass;   /* [ranks]: a listener's news of a slow disk for the ranks that hear of no other */
  char *late;          /* [ranks] */
  char *asks, *silent; /* [ranks] the ranks that this rank's exchange waits for; ranks that have not been heard from */
  char folder[FOLDER]; /* of the run, for the stall file; "": not known yet. Set once, before has_folder */
  atomic_int has_folder;
  double began;          /* when the thread began to look around */
  double hold, asked;    /* until when this rank does not end the job; when it last asked its own threads */
  char message[MESSAGE]; /* of the end of the job */
  const char *option;    /* the option that says how long to wait; NULL: the command has none */
  atomic_int said;
  sl_activity_call warned;   /* the call of the last warning; seconds 0: it has returned */
  int warned_of_wait;        /* that warning says that the job waits for the call */
  unsigned long moves;       /* moves of this rank when last looked at */
  double moved;              /* when these moves last grew */
  _Atomic(double) disk_slow; /* when a slow disk was last known to keep a rank waiting */
} w = {.lock = PTHREAD_MUTEX_INITIALIZER,
       .meeting = PTHREAD_MUTEX_INITIALIZER,
       .option = "--stall-timeout",
       .send = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};

static int listens(void) { return w.rank < LISTENERS; }
/* Notes a disk that has been slow for a quarter of the patience, so that all ranks know of it before the patience of
 * any rank ends. */
static void note_disk(double seconds) {
  if (seconds > w.patience / 4) atomic_store(&w.disk_slow, sl_seconds());
}
static double since_slow_disk(void) { return sl_seconds() - atomic_load(&w.disk_slow); }

void sl__watch_abort(int exit_code) {
  fflush(stderr);
  usleep(300000);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

/* ---- what ranks tell each other --------------------------------------------------------------------------------- */

static void hear_word(int r, const word *said) {
  heard *h = &w.heard[r];
  h->when = sl_seconds();
  if (h->moved == 0 || said->moves != h->last.moves || strcmp(said->place, h->last.place) != 0) h->moved = h->when;
  h->last = *said;
  if (said->ends && r != w.rank) w.hold = sl_seconds() + HOLD_S;
  note_disk(said->disk);
}

/* A rank for which this rank's exchange has waited longer than a quarter of the patience; -1: none. So all ranks know
 * of it before the patience of any rank ends. */
static int rank_waited_for(void) {
  char what[256];
  double seconds = 0;
  pthread_mutex_lock(&w.lock);
  for (int i = 0; i < w.n && seconds == 0; i++) seconds = sl_program_stalled(w.program[i], what, sizeof what, w.asks);
  pthread_mutex_unlock(&w.lock);
  for (int r = 0; r < w.ranks && seconds > w.patience / 4; r++)
    if (w.asks[r] && r != w.rank) return r;
  return -1;
}

static void look_at_myself(void) {
  char doing[TEXT] = "";
  const sl_activities a = sl_activity_read(doing, sizeof doing);
  const int idle = a.waits + a.works + a.works_long == 0;
  long long step = 0;
  int in_step = 0; /* the place is a position within a step: one is in flight, or no activity is known */
  w.mine.waits = a.waits, w.mine.works = a.works, w.mine.works_long = a.works_long;
  w.mine.waits_long = a.waits_long, w.mine.moves = a.moves;
  pthread_mutex_lock(&w.lock);
  for (int i = 0; i < w.n; i++) {
    const long long number = sl_program_step_number(w.program[i]);
    if (number > step) step = number;
    if (!(i == 0 && idle) && !sl_program_running(w.program[i])) continue;
    sl_program_position(w.program[i], w.mine.place, sizeof w.mine.place);
    in_step = 1;
  }
  pthread_mutex_unlock(&w.lock);
  if (!in_step && step > 0 && *doing)
    snprintf(w.mine.place, sizeof w.mine.place, "step %lld, %.*s", step, TEXT - 32, doing);
  else if (!in_step)
    memcpy(w.mine.place, doing, sizeof doing);
  w.mine.behind = rank_waited_for();
  hear_word(w.rank, &w.mine);
}

static void tell(void) {
  for (int k = 0; k < LISTENERS && k < w.ranks; k++) {
    int done = 1;
    if (w.send[k] != MPI_REQUEST_NULL) MPI_Test(&w.send[k], &done, MPI_STATUS_IGNORE);
    if (!done) return; /* the last report is still under way: send no newer one */
  }
  static word said; /* stays while it is sent */
  said = w.mine;
  for (int k = 0; k < LISTENERS && k < w.ranks; k++)
    if (k != w.rank) MPI_Isend(&said, sizeof said, MPI_BYTE, k, TAG, MPI_COMM_WORLD, &w.send[k]);
}

/* Tells the ranks that are no listeners that a disk is slow, for as long as it is slow. Any message to them means this.
 */
static void pass_on(void) {
  static const word news;
  for (int r = LISTENERS; listens() && r < w.ranks && since_slow_disk() < NEWS_S; r++) {
    int done = 1;
    if (w.pass[r] != MPI_REQUEST_NULL) MPI_Test(&w.pass[r], &done, MPI_STATUS_IGNORE);
    if (done) MPI_Isend(&news, sizeof news, MPI_BYTE, r, TAG, MPI_COMM_WORLD, &w.pass[r]);
  }
}

static void hear(void) {
  for (int r = 0; r < (listens() ? w.ranks : LISTENERS); r++)
    for (int done = r != w.rank; done;) {
      if (w.receive[r] != MPI_REQUEST_NULL) {
        MPI_Test(&w.receive[r], &done, MPI_STATUS_IGNORE);
        if (!done) break;
        if (listens())
          hear_word(r, &w.coming[r]);
        else
          atomic_store(&w.disk_slow, sl_seconds());
      }
      MPI_Irecv(&w.coming[r], sizeof *w.coming, MPI_BYTE, r, TAG, MPI_COMM_WORLD, &w.receive[r]);
    }
}

/* ---- the end of the job ------------------------------------------------------------------------------------------ */

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...) {
  const size_t n = strlen(w.message);
  va_list list;
  va_start(list, format);
  vsnprintf(w.message + n, sizeof w.message - n, format, list);
  va_end(list);
}

/* Prints the message. A second call prints only the stall file's path. */
static void say(const char *file) {
  if (atomic_exchange(&w.said, 1)) {
    if (*file) fprintf(stderr, "starling: the stacks of all ranks are in %s\n", file);
    return;
  }
  char how[64] = "";
  if (w.option) snprintf(how, sizeof how, "; %s says how long to wait", w.option);
  fprintf(stderr, "%s%s%s%s\n", w.message, how, *file ? "; the stacks of all ranks are in " : "", file);
  fflush(stderr);
}

#define ENDS (SIGRTMIN + 8)      /* used by no library of ours */
static const double ASKED_S = 5; /* the most a rank may take to exit; a busy machine needs tenths of a second */

/* When a rank closes its connection to mpiexec before MPI has ended, mpiexec kills the other ranks of the host and
 * returns the signal's number, or 0, instead of the exit code. So a child keeps the connection until mpiexec has seen
 * all ranks exit and closes it. */
void sl__watch_exit(int exit_code) {
  if (w.launcher > 0 && _Fork() == 0) {
    struct pollfd end = {.fd = w.launcher, .events = POLLRDHUP};
    close_range(0, (unsigned)w.launcher - 1, 0), close_range((unsigned)w.launcher + 1, ~0U, 0);
    poll(&end, 1, KEEPS_MS);
  }
  _exit(exit_code);
}
static void end_here(int number) {
  (void)number;
  sl__watch_exit(w.exit_code);
}

/* Asks the other ranks of this host to exit, and kills those that are stopped and do not. */
static void end_siblings(void) {
  static sl__sibling found[SL__SIBLINGS_MOST];
  static pid_t asked[SL__SIBLINGS_MOST];
  const int n = sl__siblings_find(found);
  int left = 0;
  for (int i = 0; i < n; i++) {
    if (found[i].rank < 0 || found[i].pid == getpid()) continue;
    if (!sl__process_catches(found[i].pid, ENDS)) continue;
    /* The main thread of a stopped rank must not go on in MPI_Finalize: mpiexec would call the job failed. A signal to
     * the process alone may be handled by another thread, after the main thread has gone on. */
    syscall(SYS_tgkill, found[i].pid, found[i].pid, ENDS);
    kill(found[i].pid, ENDS), kill(found[i].pid, SIGCONT);
    asked[left++] = found[i].pid;
  }
  for (const double until = sl_seconds() + ASKED_S; left > 0 && sl_seconds() < until; usleep(1000))
    while (left > 0 && strchr("?ZX", sl__process_state(asked[left - 1]))) left--;
  for (int i = 0; i < n; i++)
    if (sl__sibling_stands(&found[i])) kill(found[i].pid, SIGKILL);
}

/* Does not return. */
static void end_now(void) {
  if (atomic_load(&w.phase) == TALKS) sl__watch_abort(w.exit_code);
  usleep(300000); /* mpiexec forwards the message */
  if (w.ranks > 1) end_siblings();
  sl__watch_exit(w.exit_code);
}

static void *end_anyway(void *arg) {
  (void)arg;
  /* The signals that ask for stacks interrupt a sleep. */
  for (const double until = sl_seconds() + COLLECT_S; sl_seconds() < until;) usleep(100000);
  say("");
  end_now();
  return NULL;
}

/* Finds the exchange in which this rank waits, and the ranks that it waits for. what: "" if there is none. late:
 * [ranks]. */
static void look_at_exchange(char *what, size_t n, char *late) {
  double seconds = 0;
  pthread_mutex_lock(&w.lock);
  for (int i = 0; i < w.n && seconds == 0 && atomic_load(&w.phase) == TALKS; i++)
    seconds = sl_program_stalled(w.program[i], what, n, late);
  pthread_mutex_unlock(&w.lock);
  if (seconds == 0) what[0] = '\0';
}

/* Writes this rank's part of the stall file: what it does, for whom its exchange waits, and the stacks that its threads
 * were just asked for. */
static void write_part(const char *what, const char *late) {
  const int talks = atomic_load(&w.phase) == TALKS;
  if (!atomic_load(&w.has_folder)) return;
  if (!talks) {
    const sl_activities a = sl_activity_read(w.mine.place, sizeof w.mine.place);
    w.mine.waits = a.waits;
  }
  const sl__stall_rank mine = {
      .rank = w.rank, .host = w.mine.host, .pid = getpid(), .place = w.mine.place, .waits = w.mine.waits > 0 || *what};
  const double still = talks ? sl_seconds() - w.heard[w.rank].moved : 0;
  sl__stall_write_part(w.folder, &mine, still, what, late, w.ranks);
}

/* Writes the stall file, then ends the job. If go_on, stopped ranks continue for a moment, to report where they
 * stopped. */
static void end_job(double seconds, int go_on) {
  char path[FOLDER + 64] = "", what[256] = "", *late = calloc((size_t)w.ranks, 1);
  pthread_t guard;
  sl__stall_rank *all = calloc((size_t)w.ranks, sizeof *all);
  const int talks = atomic_load(&w.phase) == TALKS;
  if (!all || !late || !atomic_load(&w.has_folder) || pthread_create(&guard, NULL, end_anyway, NULL) != 0)
    say(""), end_now();
  if (talks) {
    w.mine.ends = 1;
    sl_comm_enter();
    tell();
    sl_comm_leave();
  }
  for (int r = 0; r < w.ranks; r++) {
    const heard *h = &w.heard[r];
    const int known = talks && h->when > 0;
    all[r] = (sl__stall_rank){.rank = r,
                              .host = known ? h->last.host : "",
                              .place = known ? h->last.place : "",
                              .waits = known && h->last.waits > 0,
                              .late = w.late[r],
                              .heard = known ? sl_seconds() - h->when : -1};
  }
  look_at_exchange(what, sizeof what, late); /* before a rank that stands still continues */
  if (!memchr(late, 1, (size_t)w.ranks)) memcpy(late, w.late, (size_t)w.ranks);
  if (w.ranks > 1)
    sl__stall_ask(all, w.ranks, go_on);
  else
    all[0].pid = getpid(), all[0].state = sl__process_state(getpid()), sl__stacks_ask(getpid());
  usleep(100000);
  write_part(what, late);
  sl__stall_wait(w.folder, all, w.ranks, PARTS_MS);
  if (sl__stall_write(w.folder, w.message, seconds, all, w.ranks, w.rank, path, sizeof path) != SL_OK) path[0] = '\0';
  say(path);
  sl__heartbeat_abort(w.exit_code);
  end_now();
}

/* Ends the job without MPI: names the stopped ranks of this host or, if none is stopped, all other ranks. */
static void end_alone(double seconds) {
  static sl__sibling found[SL__SIBLINGS_MOST];
  static char here[SL__SIBLINGS_MOST];
  char what[TEXT];
  const char *between = " ";
  const int n = sl__siblings_find(found);
  sl_activity_read(what, sizeof what);
  add("starling: rank %d: no progress for %.0f s: %s waits for", w.rank, seconds, what);
  memset(here, 0, sizeof here);
  memset(w.late, 0, (size_t)w.ranks);
  int stopped = 0;
  for (int i = 0; i < n; i++) {
    if (found[i].rank >= 0 && found[i].rank < SL__SIBLINGS_MOST) here[found[i].rank] = 1;
    stopped += sl__sibling_stands(&found[i]);
  }
  for (int i = 0; i < n; i++) {
    if (found[i].rank == w.rank || (stopped && !sl__sibling_stands(&found[i]))) continue;
    if (found[i].rank < 0) continue; /* the launcher's own, or not begun yet */
    add("%srank %d (process %ld of this host%s)", between, found[i].rank, (long)found[i].pid,
        stopped ? ", stopped by a signal" : "");
    if (found[i].rank < w.ranks) w.late[found[i].rank] = 1;
    between = ", ";
  }
  for (int r = 0; r < w.ranks && r < SL__SIBLINGS_MOST && !stopped; r++) {
    if (here[r]) continue;
    add("%srank %d (not on this host)", between, r);
    w.late[r] = 1;
    between = ", ";
  }
  end_job(seconds, 0);
}

static void add_late(void) {
  const char *between = " ";
  for (int r = 0; r < w.ranks; r++) {
    if (!w.late[r]) continue;
    add("%srank %d", between, r);
    if (w.heard[r].when > 0)
      add(" (%s, last heard from %.0f s ago in %s)", w.heard[r].last.host, sl_seconds() - w.heard[r].when,
          *w.heard[r].last.place ? w.heard[r].last.place : "its own computation");
    else
      add(" (not heard from yet)");
    between = ", ";
  }
}

/* ---- stalls ----------------------------------------------------------------------------------------------------- */

/* Marks the ranks that have been silent for half of `seconds`. Returns how many there are. */
static int find_silent(double seconds) {
  int n = 0;
  for (int r = 0; r < w.ranks; r++)
    n += w.late[r] = w.heard[r].when > 0 && sl_seconds() - w.heard[r].when > seconds / 2;
  return n;
}

/* Marks the late ranks: the silent ones; if none, those that do not wait; if all wait, all others. */
static void find_late(double seconds) {
  int n = find_silent(seconds);
  for (int r = 0; r < w.ranks && listens() && n == 0; r++) {
    const word *said = &w.heard[r].last;
    w.late[r] = w.heard[r].when == 0 || said->waits == 0 || said->works > 0;
  }
  if (memchr(w.late, 1, (size_t)w.ranks)) return;
  memset(w.late, 1, (size_t)w.ranks);
  w.late[w.rank] = 0;
}

/* The end of the chain of ranks that wait for one another, from rank r on; r if it has none. */
static int end_of_chain(int r) {
  int last = r;
  for (int i = 0; i <= w.ranks; i++) {
    if (w.heard[last].when == 0 || w.heard[last].last.behind < 0) return last;
    last = w.heard[last].last.behind;
  }
  return r;
}

/* This rank's exchange waits for the ranks in w.late. Some of them may wait themselves, such as the stages of a
 * pipeline between this rank and the rank that stands still. Marks the ranks at the ends of these chains instead or, if
 * some of those are silent, only the silent ones. If only other ranks are silent, these are the cause and are marked.
 * w.asks: the ranks that were marked before. */
static void follow_chains(double seconds) {
  int n = 0, both = 0;
  memcpy(w.asks, w.late, (size_t)w.ranks);
  if (!listens()) return;
  memset(w.late, 0, (size_t)w.ranks);
  for (int r = 0; r < w.ranks; r++)
    if (w.asks[r]) w.late[end_of_chain(r)] = 1;
  const double limit = seconds / 2 > SILENT_S ? seconds / 2 : SILENT_S;
  for (int r = 0; r < w.ranks; r++) {
    n += w.silent[r] = w.heard[r].when > 0 && !w.heard[r].last.left && sl_seconds() - w.heard[r].when > limit;
    both += w.late[r] && w.silent[r];
  }
  for (int r = 0; r < w.ranks && n > 0; r++) w.late[r] = w.silent[r] && (both == 0 || w.late[r]);
}

/* Adds the ranks in between to the message, if the exchange does not wait for the late ranks directly. */
static void add_between(void) {
  const char *between = ", by way of";
  for (int r = 0; r < w.ranks; r++) {
    if (!w.asks[r] || w.late[r]) continue;
    add("%s rank %d", between, r);
    between = ",";
  }
}

/* Asks the programs' exchanges. Returns for how many seconds one has waited (0: none does), and marks the ranks that it
 * waits for. */
static double exchange_stalled(char *what, size_t n) {
  double seconds = 0;
  pthread_mutex_lock(&w.lock);
  for (int i = 0; i < w.n && seconds == 0; i++) seconds = sl_program_stalled(w.program[i], what, n, w.late);
  pthread_mutex_unlock(&w.lock);
  if (seconds == 0) return 0;
  if (memchr(w.late, 1, (size_t)w.ranks)) {
    follow_chains(seconds);
  } else {
    memset(w.asks, 0, (size_t)w.ranks);
    find_late(seconds);
  }
  return seconds;
}

/* Seconds since any known rank last moved; 0 if no rank waits. Raises *patience if a rank does work that may take long.
 * A busy machine delays reports, so a rank's last report counts until the rank is silent. A rank that hears of no other
 * rank cannot know what the others do: if it waits inside work that may take long, the others may be in that work, too.
 */
static double all_stalled(char *what, size_t n, double *patience) {
  double moved = 0;
  int waiting = -1;
  for (int r = w.ranks - 1; r >= 0; r--) {
    const heard *h = &w.heard[r];
    if (h->moved > moved) moved = h->moved;
    if (h->when == 0) continue;
    const int unknown = r == w.rank && !listens() && h->last.waits_long > 0;
    if (unknown || (h->last.works_long > 0 && sl_seconds() - h->when <= w.patience))
      *patience = MORE_PATIENCE * w.patience;
    if (h->last.waits > 0) waiting = r;
  }
  if (waiting < 0) return 0;
  const double seconds = sl_seconds() - moved;
  snprintf(what, n, "%s of rank %d", w.heard[waiting].last.place, waiting);
  find_late(seconds);
  return seconds;
}

/* The longest silence of a rank, in seconds, if another rank waits; otherwise 0. (After a rank has stopped, the others
 * may continue for a while.) */
static double longest_silence(void) {
  double longest = 0;
  int waits = 0;
  for (int r = 0; r < w.ranks; r++) {
    const heard *h = &w.heard[r];
    const double silent = h->when > 0 ? sl_seconds() - h->when : 0;
    if (silent <= w.patience / 2)
      waits += h->last.waits > 0;
    else if (!h->last.left && silent > longest)
      longest = silent;
  }
  return waits > 0 ? longest : 0;
}

/* Whether this process was suspended since the thread last began to look around: what it has heard from other ranks is
 * then as old as that. */
static int was_suspended(void) { return sl_seconds() - w.began > w.patience / 2; }

static void look_for_stalls(void) {
  /* Exactly one rank prints: the first listener that is not late itself. */
  const double order = 0.3 * w.rank + (listens() ? 0 : 2 + w.patience), if_late = 5;
  char what[256];
  if (sl_seconds() < w.hold) return;
  double patience = w.patience, seconds = exchange_stalled(what, sizeof what);
  const int exchanges = seconds > 0;
  if (!exchanges) seconds = all_stalled(what, sizeof what, &patience);
  if (since_slow_disk() < seconds) seconds = since_slow_disk();
  if (seconds > patience + order + (w.late[w.rank] ? if_late : 0)) {
    add("starling: rank %d: no progress for %.0f s: %s waits for", w.rank, seconds, what);
    add_late();
    if (exchanges) add_between();
    if (was_suspended()) {
      w.message[0] = '\0';
      return;
    }
    end_job(seconds, 1);
  }
  const double silent = longest_silence();
  if (silent <= w.patience + order) return;
  find_silent(w.patience);
  add("starling: rank %d: no message for %.0f s from", w.rank, silent);
  add_late();
  if (seconds > 0) add(", while %s waits", what);
  if (was_suspended())
    w.message[0] = '\0';
  else
    end_job(silent, 1);
}

/* Seconds for which the longest call on a file has kept this rank waiting while nothing else moved in it. (A checkpoint
 * whose parts take long still moves with each part.) */
static double kept_waiting_by(const sl_activity_call *call) {
  const unsigned long moves = sl_activity_read(NULL, 0).moves;
  if (moves != w.moves || w.moved == 0) w.moves = moves, w.moved = sl_seconds();
  const double still = sl_seconds() - w.moved, waited = call->waited < call->seconds ? call->waited : call->seconds;
  return waited < still ? waited : still;
}

/* Warns once of a call on a file that takes long, and once more if the job begins to wait for it later. */
static void warn_of_disk(const char *who, const sl_activity_call *call, double waited) {
  const int again = w.warned.seconds > 0, waits = waited > (again || w.patience < 4 ? w.patience / 2 : 2);
  if (again && (w.warned_of_wait || !waits)) return;
  char until[96] = "the job goes on meanwhile";
  if (waits) snprintf(until, sizeof until, "the job waits for it, and ends after %.0f s (--disk-timeout)", w.disk);
  fprintf(stderr, "starling: warning: %s%s has not returned for %.0f s: the disk or file server is slow or hangs; %s\n",
          who, call->text, call->seconds, until);
  w.warned = *call, w.warned_of_wait = waits;
}

static void look_for_slow_disk(void) {
  const sl_activity_call call = sl_activity_longest_call();
  const double waited = kept_waiting_by(&call);
  char who[32] = "";
  if (w.ranks > 1) snprintf(who, sizeof who, "rank %d: ", w.rank);
  /* The longest call is the one that began first. If another call is the longest now, the warned call has returned. */
  if (w.warned.seconds > 0 && (call.seconds <= 0 || call.began != w.warned.began)) {
    fprintf(stderr, "starling: %s%s has returned after %.0f s\n", who, w.warned.text, sl_seconds() - w.warned.began);
    w.warned.seconds = 0;
  }
  w.mine.disk = waited;
  note_disk(waited);
  if (sl_seconds() < w.hold) return;
  if (call.seconds > w.patience) warn_of_disk(who, &call, waited);
  if (waited <= w.disk + 0.3 * w.rank) return;
  add("starling: %sno progress for %.0f s: %s does not return: the disk or file server hangs", who, waited, call.text);
  memset(w.late, 0, (size_t)w.ranks);
  w.late[w.rank] = 1;
  w.option = "--disk-timeout";
  say(""); /* the stall file may hang, too */
  end_job(waited, 1);
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static int make_room(int ranks) {
  const size_t n = (size_t)ranks;
  w.heard = calloc(n, sizeof *w.heard), w.coming = calloc(n, sizeof *w.coming);
  w.receive = malloc(n * sizeof *w.receive), w.pass = malloc(n * sizeof *w.pass), w.late = calloc(n, 1);
  w.asks = calloc(n, 1), w.silent = calloc(n, 1);
  for (int r = 0; w.receive && w.pass && r < ranks; r++) w.receive[r] = w.pass[r] = MPI_REQUEST_NULL;
  return w.heard && w.coming && w.receive && w.pass && w.late && w.asks && w.silent;
}

/* Goes from ALONE to TALKS if MPI has started since, with as many ranks as the launcher promised. */
static void meet(void) {
  int level = 0, ranks = 0, rank = 0;
  pthread_mutex_lock(&w.meeting);
  if (w.started && !w.closed && atomic_load(&w.phase) == ALONE) {
    MPI_Query_thread(&level), MPI_Comm_size(MPI_COMM_WORLD, &ranks), MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (level >= MPI_THREAD_MULTIPLE && ranks == w.ranks) {
      w.rank = rank;
      atomic_store(&w.phase, TALKS);
    }
  }
  pthread_mutex_unlock(&w.meeting);
}

void sl__watch_mpi_started(void) {
  pthread_mutex_lock(&w.meeting);
  w.started = 1;
  pthread_mutex_unlock(&w.meeting);
}

/* Keeps the thread from entering TALKS. */
static void stop_meeting(void) {
  pthread_mutex_lock(&w.meeting);
  w.closed = 1;
  pthread_mutex_unlock(&w.meeting);
}

/* Writes this rank's part of the stall file if another rank has asked for it. Also if nothing has moved here for so
 * long that a rank of another host, which cannot ask, may end the job. */
static void answer(phase now) {
  const pid_t by = sl__stacks_asked();
  if (by && by != getpid()) w.hold = sl_seconds() + HOLD_S;
  if (by) {
    char what[256] = "", *late = calloc((size_t)w.ranks, 1);
    if (late) look_at_exchange(what, sizeof what, late);
    usleep(100000);
    if (late) write_part(what, late);
    free(late);
    w.asked = sl_seconds();
  }
  if (sl_seconds() < w.hold) return; /* another rank collects the parts */
  if (now != TALKS || w.patience <= 0 || w.heard[w.rank].when == 0 || !atomic_load(&w.has_folder)) return;
  const double time = sl_seconds();
  if (time - w.heard[w.rank].moved < w.patience || time - w.asked < 5 + w.patience / 2) return;
  if (since_slow_disk() < w.patience) return; /* the part would wait for that disk, and the watch with it */
  w.asked = time;
  sl__stacks_ask(getpid());
}

static void *run(void *arg) {
  double moved = sl_seconds();
  unsigned long moves = 0;
  (void)arg;
  w.began = moved;
  for (int tick = 0;; tick++) {
    usleep(100000);
    /* If the job was suspended, for example by Ctrl-Z, the other ranks first get time to report again. */
    if (was_suspended()) w.hold = sl_seconds() + w.patience;
    w.began = sl_seconds();
    if (w.patience > 0 && tick % 5 == 0) look_for_slow_disk();
    if (w.ranks == 1) continue;
    if (atomic_load(&w.phase) == ALONE) meet();
    phase now = (phase)atomic_load(&w.phase);
    if (now == TALKS && atomic_load(&w.leave)) {
      w.mine.left = 1;
      sl_comm_enter();
      if (!atomic_load(&w.drop)) tell();
      sl_comm_leave();
      atomic_store(&w.phase, now = QUIET);
    }
    answer(now);
    if (now == TALKS) {
      if (tick % 5 == 0) look_at_myself();
      sl_comm_enter();
      if (tick % 10 == 0) tell(), pass_on();
      hear();
      sl_comm_leave();
      if (w.patience > 0 && tick % 5 == 0) look_for_stalls();
      continue;
    }
    char text[TEXT];
    const sl_activities a = sl_activity_read(text, sizeof text);
    if (a.moves != moves || a.waits == 0) moves = a.moves, moved = sl_seconds();
    if (atomic_load(&w.disk_slow) > moved) moved = atomic_load(&w.disk_slow);
    const double still = sl_seconds() - moved;
    if (w.patience > 0 && still > w.patience + 0.3 * w.rank && sl_seconds() > w.hold) end_alone(still);
  }
  return NULL;
}

sl_status sl__watch_open(int rank, double patience, double disk, int exit_code) {
  const char *launcher = getenv("PMI_FD");
  w.launcher = launcher && atoi(launcher) > 2 ? atoi(launcher) : 0;
  if (w.ranks > 0 || patience <= 0) return SL_OK;
  w.ranks = sl_runtime_promised_ranks(), w.rank = rank;
  if (isnan(patience) && w.ranks > 1) patience = USUAL_S, w.option = NULL;
  w.patience = patience;
  if (w.ranks < 1) w.ranks = 1, w.rank = 0;
  w.disk = disk > 0 ? disk : MORE_PATIENCE * patience > DISK_S ? MORE_PATIENCE * patience : DISK_S;
  if (w.disk < patience) w.disk = patience;
  w.exit_code = exit_code;
  gethostname(w.mine.host, sizeof w.mine.host - 1);
  if (!make_room(w.ranks)) return sl_no_memory("to watch %d ranks", w.ranks);
  sl__stacks_open();
  struct sigaction action = {.sa_handler = end_here};
  sigemptyset(&action.sa_mask);
  sigaction(ENDS, &action, NULL);
  if (pthread_create(&w.thread, NULL, run, NULL) != 0) return sl_fail(SL_EIO, "no thread to watch the ranks");
  pthread_setname_np(w.thread, "sl-watch");
  return SL_OK;
}

void sl__watch_folder(const char *folder) {
  if (atomic_load(&w.has_folder) || strlen(folder) >= sizeof w.folder) return;
  snprintf(w.folder, sizeof w.folder, "%s", folder);
  atomic_store(&w.has_folder, 1);
}

void sl__watch_programs(sl_program *const *programs, int n) {
  pthread_mutex_lock(&w.lock);
  w.n = n < MOST_PROGRAMS ? n : MOST_PROGRAMS;
  for (int i = 0; i < w.n; i++) w.program[i] = programs[i];
  pthread_mutex_unlock(&w.lock);
}

void sl__watch_leave(void) {
  if (w.ranks <= 1) return;
  sl_activity_begin(SL_WAITS, "the end of the other ranks");
  while (sl__siblings_standing() > 0) usleep(100000);
  sl_activity_end();
}

static void cancel(void) {
  for (int r = 0; r < w.ranks; r++)
    if (w.receive[r] != MPI_REQUEST_NULL) MPI_Cancel(&w.receive[r]), MPI_Request_free(&w.receive[r]);
}

/* The thread sends nothing more. */
static void leave(int drop) {
  atomic_store(&w.drop, drop);
  atomic_store(&w.leave, 1);
  while (atomic_load(&w.phase) == TALKS) usleep(1000);
}

void sl__watch_close(void) {
  /* In a short job this rank may not have entered TALKS yet. The end needs all ranks in TALKS. */
  if (w.ranks > 1 && atomic_load(&w.phase) == ALONE) meet();
  stop_meeting();
  if (atomic_load(&w.phase) != TALKS) return;
  leave(0);
  /* Receives reports that are still under way: all ranks send their last one before any stops listening. */
  sl_activity_begin(SL_WAITS, "the end of the job");
  MPI_Request barrier;
  int done = 0;
  for (int k = 0; k < LISTENERS; k += done) {
    hear();
    done = 1;
    if (w.send[k] != MPI_REQUEST_NULL) MPI_Test(&w.send[k], &done, MPI_STATUS_IGNORE);
  }
  for (int r = LISTENERS; r < w.ranks; r += done) {
    hear();
    done = 1;
    if (w.pass[r] != MPI_REQUEST_NULL) MPI_Test(&w.pass[r], &done, MPI_STATUS_IGNORE);
  }
  MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
  for (done = 0; !done;) {
    hear();
    MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
  }
  cancel();
  sl_activity_end();
}

void sl__watch_drop(void) {
  stop_meeting();
  if (atomic_load(&w.phase) != TALKS) return;
  leave(1);
  cancel();
}
