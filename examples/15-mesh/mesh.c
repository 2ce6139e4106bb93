/* Lesson 15: starts ranks and passes their messages on. Each rank is a process of its own (rank.c), which gets only the
 * part of a network that it asks for. This process holds no code of a submission: it counts the bytes, and where ranks
 * wait for messages that nobody will send, it says so. It reads a seed from standard input and writes to descriptor 3
 * what the ranks asked for, what they sent and what they computed (answers.h); judge.c judges it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answers.h"

enum { ANSWERS = 3, RANK_SECONDS = 2, MOST_NUMBERS = 1 << 22, MOST_WAITING = 1 << 23 };

typedef struct message {
  struct message *next;
  size_t n;
  double number[];
} message;

typedef struct rank {
  pid_t pid;
  int socket, ended;
  int waits_for; /* the rank whose message it waits for; -1: it does not wait */
  size_t wants;  /* numbers of that message */
  message *from[MOST_RANKS];
  double *results;
  rank_outcome outcome;
} rank;

typedef struct ranks {
  int n;
  rank rank[MOST_RANKS];
  size_t waiting; /* numbers of messages that were sent and not yet received */
  outcome outcome;
} ranks;

/* Notes the first fault of a run, which ends it. */
__attribute__((format(printf, 2, 3))) static void fail(ranks *all, const char *what, ...) {
  va_list values;
  if (*all->outcome.fault) return;
  va_start(values, what);
  vsnprintf(all->outcome.fault, sizeof all->outcome.fault, what, values);
  va_end(values);
}

/* ---- bytes to and from a rank ------------------------------------------------------------------------------------ */

static void fail_ended(ranks *all, int r) {
  rank *at = &all->rank[r];
  int status = 0;
  kill(at->pid, SIGKILL); /* in case it only closed its end of the socket */
  waitpid(at->pid, &status, 0);
  at->pid = 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    fail(all, "rank %d computed for %d s and did not end", r, RANK_SECONDS);
  else if (WIFSIGNALED(status))
    fail(all, "rank %d was ended by signal %d (%s)", r, WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    fail(all, "rank %d ended without results, with exit code %d", r, WEXITSTATUS(status));
}

static int put(ranks *all, int r, const void *bytes, size_t n) {
  for (const char *at = bytes; n > 0;) {
    const ssize_t done = write(all->rank[r].socket, at, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail_ended(all, r), 0;
    at += done, n -= (size_t)done;
  }
  return 1;
}

static int get(ranks *all, int r, void *bytes, size_t n) {
  for (char *at = bytes; n > 0;) {
    const ssize_t done = read(all->rank[r].socket, at, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail_ended(all, r), 0;
    at += done, n -= (size_t)done;
  }
  return 1;
}

static int put_frame(ranks *all, int r, int kind, size_t n) {
  return put(all, r, &(frame){.kind = kind, .n = n}, sizeof(frame));
}

static void start(ranks *all, int r) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) perror("socketpair"), exit(2);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) perror("fork"), exit(2);
  if (pid == 0) {
    const struct rlimit seconds = {RANK_SECONDS, RANK_SECONDS + 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CPU, &seconds);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(ends[1], 0) == 0) execl("./rank", "rank", (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  all->rank[r] = (rank){.pid = pid, .socket = ends[0], .waits_for = -1};
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Gives rank `to` the message that it waits for, if it was sent. */
static void deliver(ranks *all, int to) {
  rank *at = &all->rank[to];
  message **queue = &at->from[at->waits_for], *m = *queue;
  if (!m) return;
  if (m->n != at->wants) {
    fail(all, "rank %d wants %zu numbers of rank %d, but the message has %zu", to, at->wants, at->waits_for, m->n);
    return;
  }
  at->waits_for = -1;
  if (put_frame(all, to, MESSAGE, m->n)) put(all, to, m->number, m->n * sizeof *m->number);
  *queue = m->next, all->waiting -= m->n;
  free(m);
}

static void take_message(ranks *all, int from, int to, size_t n) {
  if (to < 0 || to >= all->n || to == from || n > MOST_NUMBERS || (all->waiting += n) > MOST_WAITING) {
    fail(all, "rank %d sends %zu numbers to rank %d, of ranks 0 to %d", from, n, to, all->n - 1);
    return;
  }
  message *m = malloc(sizeof *m + n * sizeof *m->number), **end = &all->rank[to].from[from];
  if (!m) perror("malloc"), exit(2);
  m->next = NULL, m->n = n;
  while (*end) end = &(*end)->next;
  *end = m;
  if (!get(all, from, m->number, n * sizeof *m->number)) return;
  all->rank[from].outcome.sent += (double)n * sizeof *m->number;
  if (all->rank[to].waits_for == from) deliver(all, to);
}

static void take_result(ranks *all, int r, size_t n, size_t wanted) {
  rank *at = &all->rank[r];
  if (n != wanted) {
    fail(all, "rank %d gives %zu results, not %zu", r, n, wanted);
    return;
  }
  at->results = numbers(n), at->outcome.n = n, at->ended = 1;
  get(all, r, at->results, n * sizeof *at->results);
}

/* Reads the next frame of a rank that trains or counts. */
static void serve(ranks *all, int r, size_t results) {
  frame f;
  rank *at = &all->rank[r];
  if (!get(all, r, &f, sizeof f)) return;
  if (f.kind == SEND) {
    take_message(all, r, f.peer, f.n);
  } else if (f.kind == RECEIVE) {
    if (f.peer < 0 || f.peer >= all->n || f.peer == r) {
      fail(all, "rank %d waits for a message of rank %d, of ranks 0 to %d", r, f.peer, all->n - 1);
      return;
    }
    at->waits_for = f.peer, at->wants = f.n;
    deliver(all, r);
  } else if (f.kind == RESULT) {
    take_result(all, r, f.n, results);
  } else {
    fail(all, "rank %d does not speak as a rank does", r);
  }
}

/* All ranks have ended or wait. Names the first one that waits, for whom, and why in vain. */
static void fail_waiting(ranks *all) {
  for (int r = 0; r < all->n; r++) {
    const rank *at = &all->rank[r];
    if (at->ended) continue;
    const rank *other = &all->rank[at->waits_for];
    if (other->ended)
      fail(all, "rank %d waits for %zu numbers of rank %d, which has ended", r, at->wants, at->waits_for);
    else
      fail(all, "rank %d waits for %zu numbers of rank %d, which itself waits for rank %d", r, at->wants, at->waits_for,
           other->waits_for);
  }
}

/* Passes messages on until all ranks have given results, or a fault ends the run. */
static void pass_on(ranks *all, const size_t *results) {
  struct pollfd poll_of[MOST_RANKS];
  while (!*all->outcome.fault) {
    int busy = 0, ended = 0;
    for (int r = 0; r < all->n; r++) {
      const rank *at = &all->rank[r];
      const int waits = at->ended || at->waits_for >= 0;
      poll_of[r] = (struct pollfd){.fd = waits ? -1 : at->socket, .events = POLLIN};
      busy += !waits, ended += at->ended;
    }
    if (ended == all->n) break;
    if (busy == 0) {
      fail_waiting(all);
      break;
    }
    if (poll(poll_of, (nfds_t)all->n, -1) < 0 && errno != EINTR) perror("poll"), exit(2);
    for (int r = 0; r < all->n && !*all->outcome.fault; r++)
      if (poll_of[r].fd >= 0 && poll_of[r].revents) serve(all, r, results[r]);
  }
  for (int r = 0; r < all->n; r++)
    for (int from = 0; from < all->n; from++)
      if (all->rank[r].from[from])
        fail(all, "a message of %zu numbers from rank %d to rank %d was never received", all->rank[r].from[from]->n,
             from, r);
}

static void end(ranks *all) {
  for (int r = 0; r < all->n; r++) {
    rank *at = &all->rank[r];
    close(at->socket);
    if (at->pid && !at->ended) kill(at->pid, SIGKILL);
    if (at->pid) waitpid(at->pid, NULL, 0);
    for (int from = 0; from < all->n; from++)
      for (message *m = at->from[from], *rest; m; m = rest) rest = m->next, free(m);
    free(at->results);
  }
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Starts rank r, and gives it the part that it asks for. Returns how many results it must give. */
static size_t begin(ranks *all, int r, const whole *network, int way) {
  task t = {.way = way, .job = network->job};
  shares s;
  frame f;
  part p;
  size_t n[ARRAYS], results = 1;
  t.job.rank = r, t.job.ranks = all->n;
  start(all, r);
  if (!put_frame(all, r, START, sizeof t) || !put(all, r, &t, sizeof t)) return 0;
  if (!get(all, r, &f, sizeof f)) return 0;
  if (f.kind != SHARES) return fail(all, "rank %d asks for no part", r), 0;
  if (!get(all, r, &s, sizeof s)) return 0;
  all->rank[r].outcome.shares = s;
  if (!are_within(&t.job, &s)) return fail(all, "rank %d asks for a part that lies outside the network", r), 0;
  sizes_of(&t.job, way, &s, n);
  cut(network, &t.job, way, &s, &p);
  int fine = put_frame(all, r, PART, 0);
  for (int a = 0; a < DX && fine; a++)
    if (n[a]) fine = put(all, r, *array_of(&p, a), n[a] * sizeof(double));
  part_free(&p);
  for (int a = W1; a < ARRAYS; a++) results += n[a];
  return results;
}

static int write_outcome(const ranks *all, FILE *to, int with_ranks) {
  int fine = fwrite(&all->outcome, sizeof all->outcome, 1, to) == 1;
  for (int r = 0; r < all->n && with_ranks; r++) {
    rank_outcome o = all->rank[r].outcome;
    const double *results = all->rank[r].results;
    if (results) o.formula = results[0], o.n--;
    fine &= fwrite(&o, sizeof o, 1, to) == 1 && (!results || fwrite(results + 1, 8, o.n, to) == o.n);
  }
  return fine;
}

/* Trains a network. After a fault other runs of the same way would fail, too, and are not made. */
static int train(const whole *network, int way, int n, outcome *before, FILE *to) {
  ranks all = {.n = n, .outcome = *before};
  size_t results[MOST_RANKS] = {0};
  for (int r = 0; r < n; r++) all.rank[r] = (rank){.socket = -1, .waits_for = -1};
  for (int r = 0; r < n && !*all.outcome.fault; r++) results[r] = begin(&all, r, network, way);
  if (!*all.outcome.fault) pass_on(&all, results);
  printf("  %s, %d rank%s ", way_names[way], n, n > 1 ? "s" : " ");
  for (int r = 0; r < n && !*all.outcome.fault; r++) printf(" %7.0f", all.rank[r].outcome.sent / network->job.steps);
  printf("%s\n", all.outcome.fault);
  const int fine = write_outcome(&all, to, 1);
  *before = all.outcome;
  end(&all);
  return fine;
}

static int count(const questions *q, FILE *to) {
  ranks all = {.n = 1};
  const task t = {.way = WAYS};
  start(&all, 0);
  if (put_frame(&all, 0, START, sizeof t) && put(&all, 0, &t, sizeof t) && put(&all, 0, &q->numeric, sizeof q->numeric))
    pass_on(&all, &(size_t){NUMERIC_ANSWERS});
  int fine = write_outcome(&all, to, 0);
  for (int i = 0; i < NUMERIC_ANSWERS; i++) {
    const double answer = all.rank[0].results ? all.rank[0].results[i] : -1;
    fine &= fwrite(&answer, sizeof answer, 1, to) == 1;
  }
  if (*all.outcome.fault) printf("numbers: %s\n", all.outcome.fault);
  end(&all);
  return fine;
}

int main(void) {
  static questions q;
  static outcome so_far[WAYS];
  uint64_t seed;
  if (scanf("%" SCNx64, &seed) != 1) return puts("no seed on standard input: use make run"), 2;
  FILE *to = fdopen(ANSWERS, "wb");
  if (!to) return puts("descriptor 3 is not open for the answers: use make run"), 2;
  /* Ranks cannot reach the answers, nor this process's memory. */
  fcntl(ANSWERS, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_DUMPABLE, 0);
  signal(SIGPIPE, SIG_IGN);
  draw(seed, &q);
  int fine = fwrite(&seed, sizeof seed, 1, to) == 1;
  for (int i = 0; i < NETWORKS; i++) {
    const job *j = &q.network[i].job;
    printf(
        "B = %d samples, P = %d inputs, H = %d hidden units, K = %d outputs; bytes that each rank sends in a step:\n",
        j->samples, j->inputs, j->hidden, j->outputs);
    for (int way = 0; way < WAYS; way++)
      for (int n = 1; n <= MOST_RANKS; n *= 2)
        if (is_possible(way, n)) fine &= train(&q.network[i], way, n, &so_far[way], to);
  }
  fine &= count(&q, to);
  questions_free(&q);
  return fclose(to) == 0 && fine ? 0 : 2;
}
