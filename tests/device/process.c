/* The process in which a device's kernels run. It is a fork of the program, so code and constants are at the same
 * addresses. It sees its device's memory, and waits for launches in a shared page. After a fault it reports the place
 * and ends. It is forked again after the program has loaded another library, because it would not have that library's
 * kernels. */
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

static control *own; /* in the device's process */
static device *own_device;
static pid_t own_program;
static struct {
  uintptr_t from;
  size_t bytes;
} libm; /* address range of libm's code */

static void futex_wait(_Atomic uint32_t *word, uint32_t value, double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0); }

/* ---- in the device's process ------------------------------------------------------------------------------------- */

void emulated_process_fault(const fault *f) {
  own->fault = *f;
  own->answered++;
  futex_wake(&own->answered);
  _exit(1);
}

static void caught(int signal, siginfo_t *info, void *context) {
  (void)context;
  const bool in_libm = signal == SIGSEGV && (uintptr_t)info->si_addr - libm.from < libm.bytes;
  fault f = emulated_where(in_libm ? FAULT_LIBM : FAULT_SIGNAL);
  f.signal = signal;
  f.address = (uintptr_t)info->si_addr;
  emulated_process_fault(&f);
}

/* Ends the process when the program has ended, even in the middle of a kernel. */
static void look(int signal) {
  (void)signal;
  if (getppid() != own_program) _exit(0);
}

/* Begins with all signals blocked. Those that end a job reach its whole process group, so this process too: it ignores
 * them, for the program to decide. */
static void live(device *d, pid_t program) {
  static const int of_jobs[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  static char stack[32 << 10];
  const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK},
                   plain = {.sa_handler = SIG_DFL}, deaf = {.sa_handler = SIG_IGN},
                   often = {.sa_handler = look, .sa_flags = SA_ONSTACK | SA_RESTART};
  const struct itimerval every = {{0, 200000}, {0, 200000}};
  sigset_t none;
  own = d->control;
  own_device = d;
  own_program = program;
  for (int fd = 0; fd < 3; fd++)
    if (fd != 2) close(fd);
  syscall(SYS_close_range, 3, ~0u, 0);
  sigaltstack(&alternate, NULL);
  for (int i = 1; i < NSIG; i++) sigaction(i, &plain, NULL);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGILL, &action, NULL);
  sigaction(SIGFPE, &action, NULL);
  sigaction(SIGABRT, &action, NULL);
  for (size_t i = 0; i < sizeof of_jobs / sizeof *of_jobs; i++) sigaction(of_jobs[i], &deaf, NULL);
  sigaction(SIGALRM, &often, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  mprotect((void *)d->base, d->span, PROT_READ | PROT_WRITE);
  /* A GPU has no libm: nvcc takes the functions of such names from a library of its own, with other bits. Only a
   * processor without fused multiply-adds needs it, for fma() itself. */
  if (libm.bytes && __builtin_cpu_supports("fma")) mprotect((void *)libm.from, libm.bytes, PROT_NONE);
  emulated_access_begin(d);
  uint32_t done = own->answered;
  for (;;) {
    while (own->asked == done) futex_wait(&own->asked, done, 60);
    const uint64_t accesses = emulated_accesses;
    emulated_grid(&own->launch, own->arguments, own->seed);
    own->accesses = emulated_accesses - accesses;
    done++;
    own->answered = done;
    futex_wake(&own->answered);
  }
}

/* ---- in the program ---------------------------------------------------------------------------------------------- */

static int count_modules(struct dl_phdr_info *info, size_t size, void *to) {
  (void)size;
  *(unsigned long long *)to = info->dlpi_adds;
  if (!info->dlpi_name || !strstr(info->dlpi_name, "/libm.so.")) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    libm.from = (info->dlpi_addr + part->p_vaddr) / PAGE * PAGE;
    libm.bytes = (info->dlpi_addr + part->p_vaddr + part->p_memsz - libm.from + PAGE - 1) / PAGE * PAGE;
  }
  return 0;
}
static unsigned long long modules(void) {
  unsigned long long n = 0;
  dl_iterate_phdr(count_modules, &n);
  return n;
}

void emulated_stop(device *d) {
  if (d->process <= 0) return;
  kill(d->process, SIGKILL);
  waitpid(d->process, NULL, __WALL);
  d->process = 0;
}

/* Forks by the system call itself, so that libraries' fork handlers do not run: a BLAS would end its threads. The
 * program gets no signal when the process ends. Nothing that the process calls may take a lock, because another thread
 * may hold it now. */
static bool start(device *d) {
  static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* guards what is noted of libraries, for all devices */
  pthread_mutex_lock(&starting);
  const unsigned long long now = modules();
  if (d->process > 0 && d->modules == now) {
    pthread_mutex_unlock(&starting);
    return true;
  }
  emulated_stop(d);
  emulated_access_libraries();
  d->modules = now;
  d->control->answered = d->control->asked;
  const pid_t program = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
  if (child == 0) {
    live(d, program);
    _exit(0);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_mutex_unlock(&starting);
  d->process = child;
  return child > 0;
}

static bool ended(pid_t process) {
  int status;
  return waitpid(process, &status, WNOHANG | __WALL) == process;
}

/* ---- timed kernels ----------------------------------------------------------------------------------------------- */

/* Accesses of launches that have run, by kernel, grid, and the small integers among their arguments: addresses, rates
 * and random numbers differ from step to step. */
enum { MOST_TIMED = 1 << 14 };
static struct { uint64_t key, accesses; } timed[MOST_TIMED];
static pthread_mutex_t timed_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t key_of(const emulated_launch *l, const char *arguments) {
  uint64_t key = 0;
  for (const char *name = l->kernel; *name; name++) key = emulated_mix(key ^ (uint64_t)(unsigned char)*name);
  const unsigned sizes[] = {
      l->grid.x, l->grid.y, l->grid.z, l->block.x, l->block.y, l->block.z, (unsigned)l->shared_bytes};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) key = emulated_mix(key ^ sizes[i]);
  for (size_t i = 0; i + 4 <= l->argument_bytes; i += 4) {
    uint32_t word;
    uintptr_t address = 0;
    if (i % 8 == 0 && i + 8 <= l->argument_bytes) memcpy(&address, arguments + i, sizeof address);
    if (emulated_owner((void *)address)) { /* a pointer: its lower half may look like a small integer */
      i += 4;
      continue;
    }
    memcpy(&word, arguments + i, 4);
    /* a float, if not tiny, is 2^23 or more; and the upper half of an address that once lay in the padding is this */
    const bool size = word < 1u << 23 && !(word >= 0x7f00 && word < 0x8000) && !(word >= 0x5500 && word < 0x5700);
    key = emulated_mix(key ^ (size ? word : 1));
  }
  return key | 1;
}

/* The key's place in the table, or an empty one; in a full table all further keys share the last place. */
static size_t place_of(uint64_t key) {
  size_t at = key % MOST_TIMED, tries = 0;
  while (timed[at].key && timed[at].key != key && tries++ < MOST_TIMED) at = (at + 1) % MOST_TIMED;
  return at;
}

/* Reads EMULATED_TIMES: a file with a line for each launch that other programs have run. */
static void read_times(void) {
  const char *path = getenv("EMULATED_TIMES");
  FILE *file = path ? fopen(path, "re") : NULL;
  unsigned long long key, accesses;
  while (file && fscanf(file, "%llx %llu %*[^\n]", &key, &accesses) == 2) {
    const size_t at = place_of(key);
    timed[at].key = key, timed[at].accesses = accesses;
  }
  if (file) fclose(file);
}
static void add_time(uint64_t key, uint64_t accesses, const char *kernel) {
  const char *path = getenv("EMULATED_TIMES");
  FILE *file = path ? fopen(path, "ae") : NULL;
  if (!file) return;
  fprintf(file, "%llx %llu %s\n", (unsigned long long)key, (unsigned long long)accesses, kernel);
  fclose(file);
}

/* The accesses of a launch, if it has run before. keep: the kernel, to note them; or NULL. */
static bool known(uint64_t key, uint64_t *accesses, const char *keep) {
  static bool read;
  pthread_mutex_lock(&timed_lock);
  if (!read) read_times();
  read = true;
  const size_t at = place_of(key);
  const bool found = timed[at].key == key;
  if (found) {
    *accesses = timed[at].accesses;
  } else if (keep && !timed[at].key) {
    timed[at].key = key, timed[at].accesses = *accesses;
    add_time(key, *accesses, keep);
  }
  pthread_mutex_unlock(&timed_lock);
  return found;
}

/* Waits for the time that this many accesses take: sleeps first, then spins. */
static void last_for(double begin, uint64_t accesses) {
  enum { LAUNCH_US = 3 };
  const double end = begin + LAUNCH_US * 1e-6 + (double)accesses / emulated_settings.access_rate;
  for (double left; (left = end - emulated_now()) > 0;) {
    if (left < 100e-6) continue;
    const double whole = (double)(time_t)(left - 80e-6);
    const struct timespec t = {(time_t)whole, (long)((left - 80e-6 - whole) * 1e9)};
    nanosleep(&t, NULL);
  }
}

/* Whether others would read beyond their arrays if the kernel only waited. */
static bool computed(const char *kernel) {
  char words[256], *rest = NULL;
  snprintf(words, sizeof words, "%s", emulated_settings.computed);
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    if (strstr(kernel, word)) return true;
  return false;
}

cudaError_t emulated_run(device *d, const emulated_launch *launch, const void *arguments, uint64_t seed) {
  control *c = d->control;
  pthread_mutex_lock(&d->kernel);
  fault f = {.kind = FAULT_NONE};
  const unsigned long number = ++d->kernels;
  const bool times = emulated_settings.access_rate > 0 && launch->block.x > 0;
  const uint64_t key = times ? key_of(launch, arguments) : 0;
  uint64_t accesses = 0;
  if (times && !computed(launch->kernel) && known(key, &accesses, NULL)) {
    last_for(emulated_now(), accesses);
  } else if (d->number == emulated_settings.fail_device && number == (unsigned long)emulated_settings.fail_at) {
    f.kind = FAULT_WISHED;
  } else if (!start(d)) {
    f.kind = FAULT_DEAD;
  } else {
    c->fault.kind = FAULT_NONE;
    c->launch = *launch;
    c->seed = seed;
    memcpy(c->arguments, arguments, launch->argument_bytes);
    const uint32_t before = c->answered;
    const double begin = emulated_now();
    c->asked++;
    futex_wake(&c->asked);
    while (c->answered == before && f.kind == FAULT_NONE) {
      futex_wait(&c->answered, before, 0.1);
      if (c->answered != before) break;
      if (ended(d->process)) {
        d->process = 0;
        f.kind = FAULT_DEAD;
      } else if (emulated_now() - begin > emulated_settings.patience) {
        f.kind = FAULT_TIME;
      }
    }
    if (f.kind == FAULT_NONE) f = c->fault;
    if (times) accesses = c->accesses, known(key, &accesses, launch->kernel);
  }
  if (f.kind != FAULT_NONE) {
    /* Print the line first: a thread that sees the error may end the program. */
    emulated_report_fault(d, launch, &f);
    d->error = f.kind == FAULT_TIME ? cudaErrorLaunchTimeout
               : f.kind == FAULT_WISHED || f.kind == FAULT_DEAD || f.kind == FAULT_DIVERGED || f.kind == FAULT_ENDED ||
                       f.kind == FAULT_LANES || f.kind == FAULT_LIBM
                   ? cudaErrorLaunchFailure
                   : cudaErrorIllegalAddress;
    emulated_stop(d);
  }
  pthread_mutex_unlock(&d->kernel);
  return (cudaError_t)d->error;
}
