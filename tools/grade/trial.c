/* Running a program under limits. setrlimit bounds each process; twenty times a second a look at /proc adds up all
 * descendants, whatever sessions or PID namespaces they made. */
#include "tools/grade/trial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/time.h"

enum { LOOK_MS = 50, REAP_SECONDS = 10, CHANNEL = 3 };

typedef struct process {
  pid_t pid, parent;
  size_t bytes;
  double seconds; /* of processor time, its ended children's included */
  int ours;
} process;

typedef struct processes {
  process *process;
  int n, room;
} processes;

/* What all descendants of this process use together. */
typedef struct use {
  int processes, awake; /* awake: a thread runs, waits for a processor, or waits for the disk */
  size_t bytes;
  double seconds;
} use;

static int read_line(const char *path, char *line, int room) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, line, (size_t)room - 1);
  close(fd);
  line[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* pid (name) state parent ..., processor times as fields 14 to 17, resident pages as field 24; the name may hold blanks
 * and brackets. */
static int read_process(const char *pid, process *p) {
  char path[64], line[1024];
  long pages = 0;
  unsigned long user, system;
  long children_user, children_system;
  int parent;
  snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
  if (!read_line(path, line, sizeof line)) return 0;
  const char *at = strrchr(line, ')');
  if (!at || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %*d %*d %*u %*u %ld",
                    &parent, &user, &system, &children_user, &children_system, &pages) != 6)
    return 0;
  *p = (process){.pid = (pid_t)atol(pid), .parent = parent, .bytes = (size_t)pages * (size_t)sysconf(_SC_PAGESIZE)};
  p->seconds =
      ((double)user + (double)system + (double)children_user + (double)children_system) / (double)sysconf(_SC_CLK_TCK);
  return 1;
}

/* Whether one of its threads runs or waits for a processor or the disk. */
static int is_awake(pid_t pid) {
  char path[64], line[1024];
  int awake = 0;
  snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
  DIR *folder = opendir(path);
  for (struct dirent *entry; !awake && folder && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%ld/task/%.16s/stat", (long)pid, entry->d_name);
    const char *at = read_line(path, line, sizeof line) ? strrchr(line, ')') : NULL;
    awake = at && (at[2] == 'R' || at[2] == 'D');
  }
  if (folder) closedir(folder);
  return awake;
}

/* All descendants of this process. Orphans become its children (it is their subreaper). */
static use look(processes *all) {
  use total = {0};
  DIR *folder = opendir("/proc");
  all->n = 0;
  if (!folder) return total;
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
      total.processes++;
      total.bytes += p->bytes, total.seconds += p->seconds;
      if (!total.awake) total.awake = is_awake(p->pid);
    }
  }
  return total;
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
    kill(-group, SIGKILL);
    const int n = look(all).processes;
    for (int i = 0; i < all->n; i++)
      if (all->process[i].ours) kill(all->process[i].pid, SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    if (n == 0) return SL_OK;
    if (sl_now() - from > REAP_SECONDS * INT64_C(1000000000))
      return sl_fail(SL_EIO, "%d processes of the submission do not end", n);
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

static _Noreturn void child(const sl__attempt *run, const sl__limits *limits, int out, int channel) {
  const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), GB = 1 << 30;
  setsid();
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, ceil(limits->seconds) + 5);
  limit(RLIMIT_FSIZE, GB / 4);
  signal(SIGXFSZ, SIG_DFL);
  /* Address space is reserved by stacks, thread heaps and libraries, and mostly never used. */
  limit(RLIMIT_AS, (double)limits->bytes + (4 + cores / 4) * GB);
  const int in = run->in < 0 ? open("/dev/null", O_RDONLY) : run->in;
  const int high_out = fcntl(out, F_DUPFD, 16), high_channel = fcntl(channel, F_DUPFD, 16);
  dup2(in, 0), dup2(high_out, 1), dup2(high_out, 2), dup2(high_channel, CHANNEL);
  close_range(CHANNEL + 1, ~0U, 0);
  umask(077);
  const int found = chdir(run->folder);
  if (run->uid && (setgroups(0, NULL) != 0 || setresgid(run->uid, run->uid, run->uid) != 0 ||
                   setresuid(run->uid, run->uid, run->uid) != 0)) {
    dprintf(2, "cannot become user %u: %s\n", run->uid, strerror(errno));
    _exit(127);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (found == 0) execvpe(run->argv[0], run->argv, run->environment);
  dprintf(2, "cannot run %s in %s: %s\n", run->argv[0], run->folder, strerror(errno));
  _exit(127);
}

/* A pipe's end that is read, and where its bytes go: what does not fit is dropped. */
typedef struct sink {
  int fd, is_text;
  char *to;
  size_t n, room;
} sink;

/* Reads what is available. Returns 1; -1: nothing available now; 0: end of output. */
static int drain(sink *s) {
  char bytes[65536];
  const ssize_t got = read(s->fd, bytes, sizeof bytes);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? -1 : 0;
  for (ssize_t i = 0; i < got && s->n < s->room; i++) s->to[s->n++] = bytes[i] || !s->is_text ? bytes[i] : '?';
  return got > 0;
}

static double seconds_of_children(void) {
  struct rusage r;
  getrusage(RUSAGE_CHILDREN, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* Waits until the first process has ended; *status is what wait reports. */
static void watch(pid_t pid, sink *sinks, const sl__limits *limits, processes *all, sl__trial *t, int *status) {
  const double before = seconds_of_children();
  const int64_t from = sl_now();
  int64_t looked = from;
  struct rusage usage = {0};
  struct pollfd wait[2];
  int killed = 0;
  double asleep = 0;
  for (int i = 0; i < 2; i++) wait[i] = (struct pollfd){.fd = sinks[i].fd, .events = POLLIN};
  for (;;) {
    poll(wait, 2, 5);
    for (int i = 0; i < 2; i++)
      if (wait[i].fd >= 0 && wait[i].revents && drain(&sinks[i]) == 0) wait[i].fd = -1; /* which poll passes over */
    const int64_t now = sl_now();
    t->seconds = 1e-9 * (double)(now - from);
    if (wait4(pid, status, WNOHANG, &usage) != 0) break;
    if (killed) continue;
    if (now - looked > LOOK_MS * INT64_C(1000000)) {
      use u = look(all);
      if (!u.awake) asleep += 1e-9 * (double)(now - looked);
      looked = now;
      if (u.processes > limits->processes) t->end = SL__TRIAL_PROCESSES;
      /* Pages that several processes share were counted once for each process: count them once. */
      if (u.processes > 1 && u.processes <= limits->processes && u.bytes > limits->bytes) {
        const size_t shared_once = proportional(all);
        if (shared_once) u.bytes = shared_once;
      }
      if (u.bytes > t->peak) t->peak = u.bytes;
      if (u.bytes > limits->bytes && t->end == SL__TRIAL_EXITED) t->end = SL__TRIAL_MEMORY;
      const double used = u.seconds + seconds_of_children() - before + asleep;
      if ((used > limits->seconds || t->seconds > 20 * limits->seconds + 60) && t->end == SL__TRIAL_EXITED)
        t->end = SL__TRIAL_TIME;
    }
    if (t->end != SL__TRIAL_EXITED) killed = kill(-pid, SIGKILL) == 0;
  }
  /* The kernel knows the peak of a process that ended between two looks. */
  if ((size_t)usage.ru_maxrss * 1024 > t->peak) t->peak = (size_t)usage.ru_maxrss * 1024;
}

sl_status sl__try(const sl__attempt *run, const sl__limits *limits, sl__trial *t) {
  processes all = {0};
  int out[2] = {-1, -1}, channel[2] = {-1, -1}, status = 0;
  memset(t, 0, offsetof(sl__trial, channel));
  fflush(NULL);
  pid_t pid = -1;
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(channel, O_CLOEXEC) == 0)
    pid = fork();
  if (pid == 0) child(run, limits, out[1], channel[1]);
  const int error = errno;
  close(out[1]), close(channel[1]);
  if (pid < 0) {
    close(out[0]), close(channel[0]);
    return sl_fail(SL_EIO, "cannot run %s: %s", run->argv[0], strerror(error));
  }
  sink sinks[2] = {{.fd = out[0], .is_text = 1, .to = t->output, .room = SL__TRIAL_OUTPUT},
                   {.fd = channel[0], .to = t->channel, .room = SL__TRIAL_CHANNEL}};
  for (int i = 0; i < 2; i++) fcntl(sinks[i].fd, F_SETFL, O_NONBLOCK);
  watch(pid, sinks, limits, &all, t, &status);
  const sl_status cleared = clear(&all, pid);
  for (int i = 0; i < 2; i++) {
    while (drain(&sinks[i]) == 1) {
    }
    close(sinks[i].fd);
  }
  t->output[sinks[0].n] = 0, t->n_channel = sinks[1].n;
  free(all.process);
  t->exit = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return cleared;
}
