/* Starts mpiexec in its own process group, so that this process alone passes on a Ctrl-C: if mpiexec also got the
 * terminal's Ctrl-C, it would count two and kill the ranks. */
#include "tools/launch/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/machine/runtime.h"
#include "tools/watch/heartbeat.h"

enum { LINE = 4096, TICK_MS = 20, PATIENCE_S = 10, RANKS = 256, HEARD = 4096 };

static volatile sig_atomic_t child, signalled;

/* The process's output: the line so far, and whether it belongs to mpiexec's report of a dead rank. */
static struct relay {
  int fd; /* -1: none */
  char line[LINE];
  size_t n;
  int ruled;  /* the previous line was a rule of '=' and is still held back */
  int banner; /* inside the report */
  sl__obituary said;
} relay = {.fd = -1};

/* The ranks that have announced themselves, by lines "SIGN N". */
static struct { char sign[192], rank[HEARD]; } heard;

/* The ranks of this host, watched until one has ended. */
static struct {
  char host[128];
  struct pollfd end[RANKS]; /* ready once the rank has ended */
  long pid[RANKS];
  int n;
  long first; /* process of the first rank to end; 0: none yet, or several at once */
} ranks;

static void on_signal(int number) {
  signalled = number;
  if (child > 0) kill((pid_t)child, number);
}

void sl__process_catch(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
}

int sl__process_signalled(void) { return signalled; }

static void sign_of(const char *launch, char *sign, size_t n) { snprintf(sign, n, "%s has started rank ", launch); }

void sl__process_announce(int rank) {
  const char *launch = getenv(SL__HEARTBEAT_LAUNCH);
  char sign[sizeof heard.sign];
  if (!launch || !(sl_runtime_promised_ranks() > 1 || getenv("PMI_RANK"))) return;
  sign_of(launch, sign, sizeof sign);
  printf("%s%d\n", sign, rank);
  fflush(stdout);
}

int sl__process_heard(int rank) { return rank < HEARD && heard.rank[rank]; }

/* Other text may precede the sign: mpiexec can mark lines with the rank. */
static int is_announcement(const char *line) {
  const char *at = strstr(line, heard.sign);
  if (!at) return 0;
  const long rank = strtol(at + strlen(heard.sign), NULL, 10);
  if (rank >= 0 && rank < HEARD) heard.rank[rank] = 1;
  return 1;
}

static void become(char *const *argv, const char *launch, const int *out) {
  const int nothing = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  dup2(nothing, STDIN_FILENO);
  if (out) dup2(out[1], STDOUT_FILENO);
  setenv(SL__HEARTBEAT_LAUNCH, launch, 1);
  execvp(argv[0], argv);
  fprintf(stderr, "starling: cannot start %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

sl_status sl__process_start(char *const *argv, const char *launch, int relays) {
  int out[2] = {-1, -1};
  sigset_t all, before;
  if (relays && pipe2(out, O_CLOEXEC) != 0) return sl_fail(SL_EIO, "cannot make a pipe: %s", strerror(errno));
  relay = (struct relay){.fd = out[0]};
  ranks.first = 0;
  memset(&heard, 0, sizeof heard);
  sign_of(launch, heard.sign, sizeof heard.sign);
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before); /* delays signals until `child` is known */
  const pid_t pid = fork();
  if (pid == 0) {
    for (int number = 1; number < 32; number++) signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    become(argv, launch, relays ? out : NULL);
  }
  const int error = errno;
  if (pid > 0) child = pid;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (relays) close(out[1]);
  if (pid > 0) return SL_OK;
  if (relays) close(out[0]);
  relay.fd = -1;
  return sl_fail(SL_EIO, "cannot start a process: %s", strerror(error));
}

/* Whether a line belongs to the report of MPICH's mpiexec on a dead rank: lines between two rules of '=', and two or
 * three more. */
static int is_banner(const char *line) {
  const size_t n = strcspn(line, "\n"), rule = strspn(line, "=");
  const int ruled = relay.ruled;
  long pid;
  relay.ruled = !relay.banner && rule == n && n > 40;
  if (relay.ruled) return 1;
  if (!relay.banner && ruled && strstr(line, "BAD TERMINATION")) return relay.banner = 1;
  if (ruled && !relay.banner)
    puts("===================================================================================");
  if (!relay.banner) return 0;
  if (sscanf(line, "= PID %ld RUNNING AT %127s", &pid, relay.said.host) == 2) relay.said.pid = pid;
  const char *number = strstr(line, "(signal ");
  if (number) relay.said.signal = atoi(number + strlen("(signal "));
  if (line[0] == '=' || strncmp(line, "YOUR APPLICATION TERMINATED", 27) == 0 ||
      strncmp(line, "This typically refers", 21) == 0)
    return 1;
  relay.banner = 0;
  return strncmp(line, "Please see the FAQ", 18) == 0;
}

static void pass_on(const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (relay.n < LINE - 1) relay.line[relay.n++] = bytes[i];
    if (bytes[i] != '\n' && relay.n < LINE - 1) continue;
    relay.line[relay.n] = '\0';
    relay.n = 0;
    if (!is_announcement(relay.line) && !is_banner(relay.line)) fputs(relay.line, stdout);
  }
  fflush(stdout);
}

static void forget_ranks(void) {
  while (ranks.n > 0) close(ranks.end[--ranks.n].fd);
}

void sl__process_ranks(const char *host, const long *pid, int n) {
  forget_ranks();
  snprintf(ranks.host, sizeof ranks.host, "%s", host);
  for (int i = 0; i < n && i < RANKS; i++) {
    const int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid[i], 0);
    if (fd < 0) continue;
    ranks.end[ranks.n] = (struct pollfd){.fd = fd, .events = POLLIN};
    ranks.pid[ranks.n++] = pid[i];
  }
}

static void see_ranks(int wait_ms) {
  int ended = 0;
  if (ranks.n == 0 || poll(ranks.end, (nfds_t)ranks.n, wait_ms) <= 0) return;
  for (int i = 0; i < ranks.n; i++)
    if (ranks.end[i].revents && ended++ == 0) ranks.first = ranks.pid[i];
  if (ended > 1) ranks.first = 0;
  forget_ranks();
}

/* Returns whether there was any output. */
static int read_output(int wait_ms) {
  char bytes[LINE];
  if (relay.fd < 0) {
    if (wait_ms > 0) usleep((useconds_t)wait_ms * 1000);
    return 0;
  }
  struct pollfd p = {.fd = relay.fd, .events = POLLIN};
  if (poll(&p, 1, wait_ms) <= 0) return 0;
  const ssize_t n = read(relay.fd, bytes, sizeof bytes);
  if (n > 0) {
    pass_on(bytes, (size_t)n);
    return 1;
  }
  if (n == 0 && wait_ms > 0) usleep((useconds_t)wait_ms * 1000);
  return 0;
}

int sl__process_ended(int *state, sl__obituary *obituary) {
  see_ranks(TICK_MS / 2);
  read_output(TICK_MS / 2);
  if (waitpid((pid_t)child, state, WNOHANG) == 0) return 0;
  child = 0;
  while (read_output(0)) continue;
  if (relay.n > 0) pass_on("\n", 1);
  if (relay.fd >= 0) close(relay.fd);
  relay.fd = -1;
  forget_ranks();
  *obituary = relay.said;
  if (ranks.first && strcmp(obituary->host, ranks.host) == 0) obituary->pid = ranks.first;
  return 1;
}

void sl__process_kill(void) {
  if (child > 0) kill((pid_t)child, SIGKILL);
}

/* Whether a process of this user has this line in its environment. */
static int has(const char *pid, const char *line) {
  char path[300];
  struct stat info;
  char *text = NULL;
  size_t room = 0;
  int found = 0;
  snprintf(path, sizeof path, "/proc/%s/environ", pid);
  if (stat(path, &info) != 0 || info.st_uid != geteuid()) return 0;
  FILE *file = fopen(path, "re");
  while (file && !found && getdelim(&text, &room, '\0', file) > 0) found = strcmp(text, line) == 0;
  if (file) fclose(file);
  free(text);
  return found;
}

void sl__process_kill_rest(const char *launch) {
  char line[256];
  const double from = sl_seconds();
  snprintf(line, sizeof line, SL__HEARTBEAT_LAUNCH "=%s", launch);
  for (int left = 1; left && sl_seconds() - from < PATIENCE_S;) {
    left = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *d; all && (d = readdir(all));)
      if (isdigit((unsigned char)d->d_name[0]) && atol(d->d_name) != (long)getpid() && has(d->d_name, line))
        left += kill((pid_t)atol(d->d_name), SIGKILL) == 0;
    if (all) closedir(all);
    if (left) usleep(10000);
  }
}
