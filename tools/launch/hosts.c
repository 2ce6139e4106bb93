/* Reads lists of hosts from the command line and from Slurm, and removes dead hosts. */
#include "tools/launch/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/time.h"

enum { MOST_RANKS = 4096 };

static sl_status append(sl__hosts *h, const char *name, size_t n, int ranks) {
  sl__host *more = realloc(h->host, (size_t)(h->n + 1) * sizeof *more);
  if (!more) return sl_no_memory("for %d hosts", h->n + 1);
  h->host = more;
  snprintf(h->host[h->n].name, sizeof h->host->name, "%.*s", (int)n, name);
  h->host[h->n++].ranks = ranks;
  return SL_OK;
}

/* Refuses names that mpiexec or ssh would not take for a host: "-oProxyCommand=..." is an option of ssh. */
static sl_status check_name(const char *name, size_t n) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
  if (name[0] == '-')
    return sl_fail(SL_EINVAL, "--hosts: '%.*s' begins with '-', which ssh takes for an option: give the host's name",
                   (int)n, name);
  if (strspn(name, plain) < n)
    return sl_fail(SL_EINVAL,
                   "--hosts: '%.*s' is no name of a host, which has letters, digits and any of ._-@ only: give the "
                   "name that ssh knows",
                   (int)n, name);
  return SL_OK;
}

sl_status sl__hosts_parse(const char *list, sl__hosts *h) {
  *h = (sl__hosts){0};
  if (!list) return SL_OK;
  for (const char *at = list;; at++) {
    const size_t n = strcspn(at, ","), name = strcspn(at, ":,");
    char *end = (char *)at + name;
    long ranks = 1;
    errno = 0;
    if (name < n) ranks = strtol(at + name + 1, &end, 10);
    if (name == 0 || name >= sizeof h->host->name || (name < n && (end != at + n || end == at + name + 1)) ||
        ranks < 1 || ranks > MOST_RANKS || errno != 0)
      return sl_fail(SL_EINVAL, "--hosts: '%.*s' is not NAME or NAME:RANKS; several are separated by commas", (int)n,
                     at);
    SL_TRY(check_name(at, name));
    for (int i = 0; i < h->n; i++)
      if (strlen(h->host[i].name) == name && strncmp(h->host[i].name, at, name) == 0)
        return sl_fail(SL_EINVAL, "--hosts: '%s' is named twice: NAME:N gives it N ranks", h->host[i].name);
    SL_TRY(append(h, at, name, (int)ranks));
    at += n;
    if (!*at) return SL_OK;
  }
}

sl_status sl__hosts_of_slurm(int ranks, sl__hosts *h) {
  char line[256];
  *h = (sl__hosts){0};
  if (!getenv("SLURM_JOB_NODELIST")) return SL_OK;
  FILE *names = popen("scontrol show hostnames 2>/dev/null", "re");
  sl_status status = SL_OK;
  while (names && status == SL_OK && fgets(line, sizeof line, names)) {
    const size_t n = strcspn(line, "\n");
    if (n > 0) status = append(h, line, n, 0);
  }
  if (names) pclose(names);
  for (int i = 0; i < ranks && h->n > 0; i++) h->host[i % h->n].ranks++;
  return status;
}

int sl__hosts_ranks(const sl__hosts *h) {
  int ranks = 0;
  for (int i = 0; i < h->n; i++) ranks += h->host[i].ranks;
  return ranks;
}

sl_status sl__hosts_first(const sl__hosts *h, int ranks, sl__hosts *first) {
  *first = (sl__hosts){.host = calloc((size_t)h->n, sizeof *first->host), .n = h->n};
  if (!first->host) return sl_no_memory("for %d hosts", h->n);
  memcpy(first->host, h->host, (size_t)h->n * sizeof *h->host);
  sl__hosts_limit(first, ranks);
  return SL_OK;
}

void sl__hosts_limit(sl__hosts *h, int ranks) {
  int more = sl__hosts_ranks(h) - ranks;
  for (int i = h->n - 1; i >= 0 && more > 0; i--) {
    const int fewer = h->host[i].ranks < more ? h->host[i].ranks : more;
    h->host[i].ranks -= fewer, more -= fewer;
    if (h->host[i].ranks == 0) h->n--;
  }
}

void sl__hosts_fill(sl__hosts *h, int ranks) {
  int missing = ranks - sl__hosts_ranks(h), most = 1;
  for (int i = 0; i < h->n; i++)
    if (h->host[i].ranks > most) most = h->host[i].ranks;
  for (int i = 0; i < h->n && missing > 0; i++) {
    if (h->host[i].ranks > 0) continue;
    h->host[i].ranks = missing < most ? missing : most;
    missing -= h->host[i].ranks;
  }
}

char *sl__hosts_text(const sl__hosts *h) {
  char *text = NULL;
  size_t n;
  FILE *to = open_memstream(&text, &n);
  if (!to) return NULL;
  for (int i = 0, named = 0; i < h->n; i++)
    if (h->host[i].ranks > 0) fprintf(to, "%s%s:%d", named++ ? "," : "", h->host[i].name, h->host[i].ranks);
  return fclose(to) == 0 ? text : NULL;
}

static pid_t knock(const char *mpiexec, const char *host) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int nowhere = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++) dup2(nowhere, fd);
  setpgid(0, 0);
  execlp(mpiexec, mpiexec, "-hosts", host, "-n", "1", "true", (char *)NULL);
  _exit(127);
}

int sl__hosts_drop_dead(sl__hosts *h, const char *mpiexec, double seconds, char *gone, size_t n) {
  enum { TRIES = 3 }; /* on a busy machine mpiexec has failed once where nothing was wrong */
  pid_t *pid = calloc((size_t)h->n + 1, sizeof *pid);
  int left = 0, dropped = 0, *tries = calloc((size_t)h->n + 1, sizeof *tries);
  size_t at = 0;
  gone[0] = '\0';
  if (!pid || !tries) {
    free(pid), free(tries);
    return 0;
  }
  for (int i = 0; i < h->n; i++) pid[i] = knock(mpiexec, h->host[i].name);
  const double from = sl_seconds();
  for (int waiting = 1; waiting;) {
    const int late = sl_seconds() - from > seconds;
    waiting = 0;
    for (int i = 0; i < h->n; i++) {
      int state = 0;
      if (pid[i] <= 0) continue;
      if (late) kill(-pid[i], SIGKILL);
      if (waitpid(pid[i], &state, late ? 0 : WNOHANG) == 0) {
        waiting = 1;
        continue;
      }
      pid[i] = WIFEXITED(state) && WEXITSTATUS(state) == 0 ? 0 : -1;
      if (pid[i] == 0 || late || ++tries[i] == TRIES) continue;
      pid[i] = knock(mpiexec, h->host[i].name);
      waiting |= pid[i] > 0;
    }
    if (waiting) usleep(20000);
  }
  for (int i = 0; i < h->n; i++) {
    if (pid[i] == 0) {
      h->host[left++] = h->host[i];
      continue;
    }
    if (at < n) at += (size_t)snprintf(gone + at, n - at, "%s%s", dropped ? ", " : "", h->host[i].name);
    dropped++;
  }
  h->n = left;
  free(pid), free(tries);
  return dropped;
}

void sl__hosts_free(sl__hosts *h) {
  free(h->host);
  *h = (sl__hosts){0};
}
