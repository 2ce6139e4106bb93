/* The watch. Every rank reports its state once a second to ranks 0 and 1 (the listeners), so one of them can report a
 * rank that falls silent. */
#include "tools/run/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/machine/comm.h"

enum { LISTENERS = 2, MOST_PROGRAMS = 4 };

typedef struct word {
  char host[64], place[160];
} word;

struct sl__watch {
  const sl__ranks *ranks;
  MPI_Comm comm;
  sl_program *program[MOST_PROGRAMS];
  int n;
  double patience;
  pthread_t thread;
  atomic_int stopping;
  word mine, *coming, *heard; /* [ranks] */
  double *when;               /* [ranks] of what was heard; 0: nothing yet */
  MPI_Request send[LISTENERS], *receive;
  char *late; /* [ranks] */
};

static int listens(const sl__watch *w) { return w->ranks->rank < LISTENERS; }

static void tell(sl__watch *w) {
  for (int k = 0; k < LISTENERS && k < w->ranks->n; k++) {
    int done = 1;
    if (w->send[k] != MPI_REQUEST_NULL) MPI_Test(&w->send[k], &done, MPI_STATUS_IGNORE);
    if (!done) return; /* the last report is still under way: send no newer one */
  }
  for (int i = 0; i < w->n; i++)
    if (i == 0 || sl_program_running(w->program[i]))
      sl_program_position(w->program[i], w->mine.place, sizeof w->mine.place);
  for (int k = 0; k < LISTENERS && k < w->ranks->n; k++)
    MPI_Isend(&w->mine, sizeof w->mine, MPI_BYTE, k, 0, w->comm, &w->send[k]);
}

static void hear(sl__watch *w) {
  for (int r = 0; r < w->ranks->n; r++)
    for (int done = 1; done;) {
      if (w->receive[r] != MPI_REQUEST_NULL) {
        MPI_Test(&w->receive[r], &done, MPI_STATUS_IGNORE);
        if (!done) break;
        w->heard[r] = w->coming[r];
        w->when[r] = sl_seconds();
      }
      MPI_Irecv(&w->coming[r], sizeof *w->coming, MPI_BYTE, r, 0, w->comm, &w->receive[r]);
    }
}

static void end_job(const sl__watch *w, double seconds, const char *what) {
  char text[4096];
  const char *between = " ";
  size_t at = (size_t)snprintf(text, sizeof text, "starling: rank %d: nothing has moved for %.0f s: %s waits for",
                               w->ranks->rank, seconds, what);
  for (int r = 0; r < w->ranks->n && at < sizeof text - 512; r++) {
    if (!w->late[r]) continue;
    at += (size_t)snprintf(text + at, sizeof text - at, "%srank %d", between, r);
    if (w->when[r] > 0)
      at += (size_t)snprintf(text + at, sizeof text - at, " (%s, heard of %.0f s ago in %s)", w->heard[r].host,
                             sl_seconds() - w->when[r], w->heard[r].place);
    between = ", ";
  }
  fprintf(stderr, "%s; --stall-timeout says how long to wait\n", text);
  fflush(stderr);
  sl__ranks_abort(SL_EXIT_FAILURE);
}

/* Lists the ranks that have been silent for half the patience. Returns how many there are. */
static int find_silent(sl__watch *w, double seconds) {
  int n = 0;
  for (int r = 0; r < w->ranks->n; r++) n += w->late[r] = w->when[r] > 0 && sl_seconds() - w->when[r] > seconds / 2;
  return n;
}

/* What this rank waits for: an exchange, or the others to agree on something; then those are late that nothing is heard
 * of. So, too, where an exchange does not know for whom it waits; where all are heard of, it may be any of the others.
 */
static double stalled(sl__watch *w, char *what, size_t n) {
  const size_t ranks = (size_t)w->ranks->n;
  for (int i = 0; i < w->n; i++) {
    const double seconds = sl_program_stalled(w->program[i], what, n, w->late);
    if (seconds == 0) continue;
    if (!memchr(w->late, 1, ranks) && find_silent(w, seconds) == 0) {
      memset(w->late, 1, ranks);
      w->late[w->ranks->rank] = 0;
    }
    return seconds;
  }
  const double seconds = sl__ranks_waiting();
  snprintf(what, n, "an agreement among the ranks");
  find_silent(w, seconds);
  return seconds;
}

static void *run(void *arg) {
  sl__watch *w = arg;
  /* Exactly one rank prints: the first listener that is not late itself. */
  const double order = 0.5 * w->ranks->rank + (listens(w) ? 0 : 1), if_late = 5;
  for (int tick = 0; !atomic_load(&w->stopping); tick++) {
    usleep(100000);
    sl_comm_enter();
    if (tick % 10 == 0) tell(w);
    if (listens(w)) hear(w);
    sl_comm_leave();
    if (w->patience <= 0 || tick % 5) continue;
    char what[256];
    const double seconds = stalled(w, what, sizeof what);
    if (seconds > w->patience + order + (w->late[w->ranks->rank] ? if_late : 0)) end_job(w, seconds, what);
  }
  return NULL;
}

sl_status sl__watch_start(const sl__ranks *ranks, sl_program *const *programs, int n, double patience,
                          sl__watch **watch) {
  *watch = NULL;
  if (ranks->n <= 1) return SL_OK;
  const size_t all = (size_t)ranks->n;
  sl__watch *w = calloc(1, sizeof *w);
  if (w) {
    *w = (sl__watch){.ranks = ranks,
                     .n = n < MOST_PROGRAMS ? n : MOST_PROGRAMS,
                     .patience = patience,
                     .send = {MPI_REQUEST_NULL, MPI_REQUEST_NULL},
                     .coming = calloc(all, sizeof(word)),
                     .heard = calloc(all, sizeof(word)),
                     .when = calloc(all, sizeof(double)),
                     .receive = malloc(all * sizeof(MPI_Request)),
                     .late = calloc(all, 1)};
    memcpy(w->program, programs, (size_t)w->n * sizeof *programs);
    gethostname(w->mine.host, sizeof w->mine.host - 1);
  }
  sl_status status = w && w->coming && w->heard && w->when && w->receive && w->late
                         ? SL_OK
                         : sl_no_memory("to watch %d ranks", ranks->n);
  for (int r = 0; status == SL_OK && r < ranks->n; r++) w->receive[r] = MPI_REQUEST_NULL;
  if (status == SL_OK && MPI_Comm_dup(ranks->comm, &w->comm) != MPI_SUCCESS)
    status = sl_fail(SL_EMPI, "MPI_Comm_dup failed");
  if (status == SL_OK && pthread_create(&w->thread, NULL, run, w) != 0)
    status = sl_fail(SL_EIO, "no thread to watch the ranks");
  if (status == SL_OK)
    *watch = w;
  else if (w)
    free(w->coming), free(w->heard), free(w->when), free(w->receive), free(w->late), free(w);
  return status;
}

void sl__watch_stop(sl__watch *w) {
  if (!w) return;
  atomic_store(&w->stopping, 1);
  pthread_join(w->thread, NULL);
  /* Receives reports that are still under way: all ranks send their last one before any stops listening. */
  MPI_Request barrier;
  for (int k = 0, sent = 0; k < LISTENERS; k += sent) {
    if (listens(w)) hear(w);
    MPI_Test(&w->send[k], &sent, MPI_STATUS_IGNORE);
  }
  MPI_Ibarrier(w->comm, &barrier);
  for (int done = 0; !done;) {
    if (listens(w)) hear(w);
    MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
  }
  for (int r = 0; r < w->ranks->n; r++)
    if (w->receive[r] != MPI_REQUEST_NULL) MPI_Cancel(&w->receive[r]), MPI_Request_free(&w->receive[r]);
  MPI_Comm_free(&w->comm);
  free(w->coming), free(w->heard), free(w->when), free(w->receive), free(w->late), free(w);
}
