/* Running a program under limits. setrlimit bounds each process; twenty times a second a look at /proc adds up all
 * descendants, whatever sessions they made. */
#include "tools/grade/trial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/trace/recorder.h"

enum { LOOK_MS = 50, REAP_SECONDS = 10 };

typedef struct process {
  pid_t pid, parent;
  size_t bytes;
  int ours;
} process;

typedef struct processes {
  process *process;
  int n, room;
} processes;

/* pid (name) state parent ..., resident pages as field 24; the name may hold blanks and brackets. */
static int read_process(const char *pid, process *p) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  line[n > 0 ? n : 0] = 0;
  char *at = strrchr(line, ')');
  long pages = 0;
  int parent;
  if (!at || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %ld",
                    &parent, &pages) != 2)
    return 0;
  *p = (process){.pid = (pid_t)atol(pid), .parent = parent, .bytes = (size_t)pages * (size_t)sysconf(_SC_PAGESIZE)};
  return 1;
}

/* All descendants of this process: number and bytes. Orphans become its children (it is their subreaper). */
static void look(processes *all, int *n, size_t *bytes) {
  DIR *folder = opendir("/proc");
  all->n = *n = 0, *bytes = 0;
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (all->n == all->room) {
      const int room = all->room ? 2 * all->room : 1024;
      process *larger = realloc(all->process, (size_t)room * sizeof *larger);
      if (!larger) break;
      all->process = larger, all->room = room;
    }
    all->n += read_process(entry->d_name, &all->process[all->n]);
  }
  closedir(folder);
  for (int more = 1; more;) {
    more = 0;
    for (int i = 0; i < all->n; i++) {
      process *p = &all->process[i];
      int ours = p->parent == getpid();
      for (int j = 0; j < all->n && !p->ours && !ours; j++)
        ours = all->process[j].ours && all->process[j].pid == p->parent;
      if (p->ours || !ours) continue;
      p->ours = more = 1;
      ++*n;
      *bytes += p->bytes;
    }
  }
}

/* Bytes of our processes, with pages that several share counted once (proportional set sizes, in kB). 0 if the
 * kernel does not report them. */
static size_t proportional(const processes *all) {
  size_t bytes = 0;
  for (int i = 0; i < all->n; i++) {
    char path[64], line[256];
    long kilobytes;
    if (!all->process[i].ours) continue;
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", (long)all->process[i].pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
      if (sscanf(line, "Pss: %ld", &kilobytes) == 1) bytes += (size_t)kilobytes * 1024;
    if (file) fclose(file);
  }
  return bytes;
}

/* Kills all descendants until none is left. The first process has been waited for. */
static sl_status clear(processes *all, pid_t group) {
  const int64_t from = sl_now();
  for (;;) {
    int n;
    size_t bytes;
    kill(-group, SIGKILL);
    look(all, &n, &bytes);
    for (int i = 0; i < all->n; i++)
      if (all->process[i].ours) kill(all->process[i].pid, SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    if (n == 0) return SL_OK;
    if (sl_now() - from > REAP_SECONDS * INT64_C(1000000000))
      return sl_fail(SL_EIO, "%d processes of what was run do not end", n);
    usleep(1000);
  }
}

static void limit(int resource, double most) {
  const rlim_t value = (rlim_t)fmin(most, 9e18);
  struct rlimit old;
  if (getrlimit(resource, &old) != 0) return;
  if (old.rlim_max != RLIM_INFINITY && old.rlim_max < value) return;
  setrlimit(resource, &(struct rlimit){value, value});
}

static _Noreturn void child(const char *folder, char *const argv[], const sl__limits *limits, int out) {
  const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), GB = 1 << 30;
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int none = open("/dev/null", O_RDONLY);
  dup2(none, 0);
  dup2(out, 1);
  dup2(out, 2);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, ceil(limits->seconds * cores) + 1);
  limit(RLIMIT_FSIZE, GB);
  /* Address space is reserved by stacks, thread heaps and libraries, and mostly never used. */
  limit(RLIMIT_AS, (double)limits->bytes + (4 + cores / 4) * GB);
  if (chdir(folder) == 0) execvp(argv[0], argv);
  dprintf(2, "cannot run %s in %s: %s\n", argv[0], folder, strerror(errno));
  _exit(127);
}

/* Reads what is available and keeps what fits. Returns 1; -1: nothing available now; 0: end of output. */
static int drain(int fd, sl__trial *t, size_t *n) {
  char bytes[4096];
  const ssize_t got = read(fd, bytes, sizeof bytes);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? -1 : 0;
  for (ssize_t i = 0; i < got && *n < SL__TRIAL_OUTPUT; i++) t->output[(*n)++] = bytes[i] ? bytes[i] : '?';
  t->output[*n] = 0;
  return got > 0;
}

/* Waits until the first process has ended; *status is what wait reports. */
static void watch(pid_t pid, int fd, const sl__limits *limits, processes *all, sl__trial *t, int *status, size_t *n) {
  const int64_t from = sl_now();
  int64_t looked = from;
  struct rusage usage = {0};
  int open = 1, killed = 0;
  for (;;) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (open && poll(&wait, 1, 5) > 0)
      open = drain(fd, t, n) != 0;
    else if (!open)
      usleep(5000);
    const int64_t now = sl_now();
    t->seconds = 1e-9 * (double)(now - from);
    if (wait4(pid, status, WNOHANG, &usage) != 0) break;
    if (killed) continue;
    if (now - looked > LOOK_MS * INT64_C(1000000)) {
      int processes;
      size_t bytes;
      look(all, &processes, &bytes);
      looked = now;
      if (processes > limits->processes) t->end = SL__TRIAL_PROCESSES;
      if (processes > 1 && processes <= limits->processes && bytes > limits->bytes) { /* many that share much? */
        const size_t shared_once = proportional(all);
        if (shared_once) bytes = shared_once;
      }
      if (bytes > t->peak) t->peak = bytes;
      if (bytes > limits->bytes && t->end == SL__TRIAL_EXITED) t->end = SL__TRIAL_MEMORY;
    }
    if (t->end == SL__TRIAL_EXITED && t->seconds > limits->seconds) t->end = SL__TRIAL_TIME;
    if (t->end != SL__TRIAL_EXITED) killed = kill(-pid, SIGKILL) == 0;
  }
  /* The kernel knows the peak of a process that ended between two looks. */
  if ((size_t)usage.ru_maxrss * 1024 > t->peak) t->peak = (size_t)usage.ru_maxrss * 1024;
}

sl_status sl__try(const char *folder, char *const argv[], const sl__limits *limits, sl__trial *t) {
  processes all = {0};
  int ends[2], status = 0;
  size_t n = 0;
  memset(t, 0, sizeof *t);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || pipe2(ends, O_CLOEXEC) != 0)
    return sl_fail(SL_EIO, "cannot run %s: %s", argv[0], strerror(errno));
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) child(folder, argv, limits, ends[1]);
  const int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return sl_fail(SL_EIO, "cannot run %s: %s", argv[0], strerror(error));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  watch(pid, ends[0], limits, &all, t, &status, &n);
  const sl_status cleared = clear(&all, pid);
  while (drain(ends[0], t, &n) == 1) {
  }
  close(ends[0]);
  free(all.process);
  t->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  t->exit = t->signal ? 128 + t->signal : WEXITSTATUS(status);
  return cleared;
}
