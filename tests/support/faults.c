/* Faults of the system, planted in an unchanged program (LD_PRELOAD). One call of a kind, the n-th that concerns a file
 * under a folder, or an allocation that the program itself asks for, goes wrong:
 *
 * FAULT_CALL   open, opendir, read, readdir, write, fsync, ftruncate, close (the file is closed, as Linux does it),
 * rename, link, unlink (rmdir, too), mkdir, flock, mmap, malloc, library (an allocation that a library of file formats
 * does for the program, or strdup, asprintf and the like), step (a call of MPI_Iallreduce, one each step of several
 * ranks), barrier, finalize (the calls of MPI); only slow: page (an access to a page of a mapped file that is not in
 * memory, where only the last eight stay)
 * FAULT_N      which one goes wrong, from 1; 0: none, they are only counted
 * FAULT_HOW    ENOSPC, EIO, EINTR, EFBIG, ENOMEM, ENOLCK; short (half of a write); slow (late); stop (the process, by
 * SIGSTOP); flip (one bit of what is written); memory (one bit of the first data of FAULT_BYTES bytes that StarPU
 * knows)
 * FAULT_ON     1: all later ones go wrong, too
 * FAULT_MS     how late slow is, in milliseconds; 200 if absent
 * FAULT_REACHED  a file that is made when a call begins to be late; it goes on when the file is gone
 * FAULT_UNDER  only calls for paths that hold this text
 * FAULT_RANK   only in the process of this rank
 * FAULT_BIT    of an element of 4 bytes, from 0, for memory; 0 if absent
 * FAULT_LOG    a file that gets a line for each kind: its name and the number of calls counted
 * FAULT_STACK  a file that gets the stack of the call that goes wrong */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

enum { FILES = 4096, LIBRARIES = 8 };
static const char *call, *how, *under;
static _Thread_local int telling; /* this thread writes a stack: what that allocates does not count */
static long chosen, later;
static const char *const kinds[] = {"open",   "opendir", "read", "readdir", "write",   "fsync",   "ftruncate",
                                    "close",  "rename",  "link", "unlink",  "mkdir",   "flock",   "mmap",
                                    "malloc", "library", "step", "page",    "barrier", "finalize"};
enum { KINDS = sizeof kinds / sizeof *kinds };
static atomic_long count[KINDS];
static atomic_char ours[FILES]; /* descriptors of files that are looked at */
typedef struct addresses {
  uintptr_t from, to;
} addresses;
static addresses program, library[LIBRARIES];
static int libraries;
static atomic_uintptr_t planted;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The first object is the program. The libraries are those that nothing but the program calls. */
static int note_object(struct dl_phdr_info *object, size_t size, void *first) {
  static const char *const names[] = {"/libjansson.", "/libyaml", "/libpng", "/libjpeg.", "/libz."};
  (void)size;
  addresses *to = *(int *)first ? &program : NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && libraries < LIBRARIES && !to; i++)
    if (strstr(object->dlpi_name, names[i])) to = &library[libraries++];
  *(int *)first = 0;
  if (!to) return 0;
  to->from = UINTPTR_MAX;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &object->dlpi_phdr[i];
    if (h->p_type != PT_LOAD) continue;
    const uintptr_t begin = object->dlpi_addr + h->p_vaddr, end = begin + h->p_memsz;
    to->from = begin < to->from ? begin : to->from, to->to = end > to->to ? end : to->to;
  }
  return 0;
}

__attribute__((constructor)) static void begin(void) {
  const char *rank = getenv("FAULT_RANK"), *mine = getenv("PMI_RANK");
  if (rank && (!mine || strcmp(rank, mine) != 0)) return;
  if (!(how = getenv("FAULT_HOW"))) how = "EIO";
  if (!(under = getenv("FAULT_UNDER"))) under = "";
  chosen = getenv("FAULT_N") ? atol(getenv("FAULT_N")) : 0;
  later = getenv("FAULT_ON") != NULL;
  int first = 1;
  dl_iterate_phdr(note_object, &first);
  call = getenv("FAULT_CALL"); /* from here on calls are counted */
}

static void tell(void) {
  const char *log = getenv("FAULT_LOG");
  char text[32 * KINDS];
  int n = 0;
  if (!call || !log) return;
  for (int k = 0; k < KINDS; k++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s %ld\n", kinds[k], atomic_load(&count[k]));
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd >= 0 && syscall(SYS_write, fd, text, n) == n) syscall(SYS_close, fd);
}
__attribute__((destructor)) static void end(void) { tell(); }
void _exit(int code) {
  tell();
  for (;;) syscall(SYS_exit_group, code);
}

static void be_late(void) {
  const char *ms = getenv("FAULT_MS"), *reached = getenv("FAULT_REACHED");
  struct timespec left = {ms ? atol(ms) / 1000 : 0, ms ? atol(ms) % 1000 * 1000000 : 200000000};
  if (reached) syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, reached, O_WRONLY | O_CREAT, 0666));
  while (reached && syscall(SYS_faccessat, AT_FDCWD, reached, F_OK) == 0)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  while (!reached && nanosleep(&left, &left) != 0 && errno == EINTR) continue; /* signals end no hang */
}

static void tell_stack(void) {
  const char *path = getenv("FAULT_STACK");
  void *at[64];
  if (!path) return;
  telling = 1;
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  backtrace_symbols_fd(at, backtrace(at, 64), fd);
  syscall(SYS_close, fd);
  telling = 0;
}

/* Whether this call goes wrong. */
static int wrong(const char *kind) {
  int k = 0;
  if (!call || telling) return 0;
  while (k < KINDS - 1 && strcmp(kinds[k], kind) != 0) k++;
  const long n = atomic_fetch_add(&count[k], 1) + 1;
  if (strcmp(call, kind) != 0 || chosen == 0 || (later ? n < chosen : n != chosen)) return 0;
  tell_stack();
  if (strcmp(how, "slow") == 0) be_late();
  if (strcmp(how, "stop") == 0) kill(getpid(), SIGSTOP);
  return strcmp(how, "slow") != 0 && strcmp(how, "stop") != 0;
}

static int is_under(const char *path) { return call && path && strstr(path, under) != NULL; }
static int is_ours(int fd) { return fd >= 0 && fd < FILES && atomic_load(&ours[fd]); }
static int note(int fd, int mine) {
  if (fd >= 0 && fd < FILES) atomic_store(&ours[fd], (char)mine);
  return fd;
}

static int error_of(void) {
  static const struct {
    const char *name;
    int number;
  } known[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EINTR", EINTR},
               {"EFBIG", EFBIG},   {"ENOMEM", ENOMEM}, {"ENOLCK", ENOLCK}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(how, known[i].name) == 0) return known[i].number;
  return EIO;
}
static int fails(const char *kind) {
  if (!wrong(kind)) return 0;
  errno = error_of();
  return 1;
}

static void flip(void) {
  const char *bit = getenv("FAULT_BIT");
  uint32_t *at = (uint32_t *)atomic_load(&planted);
  if (at) *at ^= 1u << (bit ? atoi(bit) : 0);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

int open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
  va_end(args);
  const int mine = is_under(path);
  if (mine && fails("open")) return -1;
  return note((int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode), mine);
}
int open64(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
  va_end(args);
  return open(path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) {
  if (is_under(path) && fails("open")) return NULL;
  return REAL(fopen)(path, mode);
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }
int close(int fd) {
  const int mine = is_ours(fd);
  note(fd, 0);
  const int code = (int)syscall(SYS_close, fd);
  return mine && fails("close") ? -1 : code;
}
int ftruncate(int fd, off_t n) { return is_ours(fd) && fails("ftruncate") ? -1 : (int)syscall(SYS_ftruncate, fd, n); }
int ftruncate64(int fd, off_t n) { return ftruncate(fd, n); }
int flock(int fd, int operation) { return is_ours(fd) && fails("flock") ? -1 : (int)syscall(SYS_flock, fd, operation); }
DIR *opendir(const char *path) {
  const int mine = is_under(path);
  if (mine && fails("opendir")) return NULL;
  DIR *folder = REAL(opendir)(path);
  if (folder) note(dirfd(folder), mine);
  return folder;
}
int closedir(DIR *folder) {
  note(dirfd(folder), 0);
  return REAL(closedir)(folder);
}
struct dirent *readdir(DIR *folder) {
  return is_ours(dirfd(folder)) && fails("readdir") ? NULL : REAL(readdir)(folder);
}
struct dirent64 *readdir64(DIR *folder) {
  return is_ours(dirfd(folder)) && fails("readdir") ? NULL : REAL(readdir64)(folder);
}
ssize_t read(int fd, void *bytes, size_t n) {
  if (is_ours(fd) && fails("read")) return -1;
  return syscall(SYS_read, fd, bytes, n);
}
ssize_t pread(int fd, void *bytes, size_t n, off_t at) {
  if (is_ours(fd) && fails("read")) return -1;
  return syscall(SYS_pread64, fd, bytes, n, at);
}
ssize_t pread64(int fd, void *bytes, size_t n, off_t at) { return pread(fd, bytes, n, at); }
static ssize_t write_wrongly(int fd, const void *bytes, size_t n, off_t at) {
  char *copy = NULL;
  if (strcmp(how, "memory") == 0) {
    flip();
  } else if (strcmp(how, "short") == 0) {
    n = n > 1 ? n / 2 : n;
  } else if (strcmp(how, "flip") == 0) {
    if ((copy = __libc_malloc(n))) memcpy(copy, bytes, n), copy[n / 2] ^= 16;
  } else {
    errno = error_of();
    return -1;
  }
  const ssize_t done =
      at < 0 ? syscall(SYS_write, fd, copy ? copy : bytes, n) : syscall(SYS_pwrite64, fd, copy ? copy : bytes, n, at);
  free(copy);
  return done;
}
ssize_t write(int fd, const void *bytes, size_t n) {
  return is_ours(fd) && wrong("write") ? write_wrongly(fd, bytes, n, -1) : syscall(SYS_write, fd, bytes, n);
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
  return is_ours(fd) && wrong("write") ? write_wrongly(fd, bytes, n, at) : syscall(SYS_pwrite64, fd, bytes, n, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at) { return pwrite(fd, bytes, n, at); }
int fsync(int fd) { return is_ours(fd) && fails("fsync") ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return is_ours(fd) && fails("fsync") ? -1 : (int)syscall(SYS_fdatasync, fd); }
int rename(const char *old, const char *new) {
  return is_under(new) && fails("rename") ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
}
int link(const char *old, const char *new) {
  return is_under(new) && fails("link") ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0);
}
int unlink(const char *path) {
  return is_under(path) && fails("unlink") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int folder, const char *name, int flags) {
  return (is_ours(folder) || is_under(name)) && fails("unlink") ? -1 : (int)syscall(SYS_unlinkat, folder, name, flags);
}
int rmdir(const char *path) {
  return is_under(path) && fails("unlink") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
int mkdir(const char *path, mode_t mode) {
  return is_under(path) && fails("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* ---- pages of mapped files -------------------------------------------------------------------------------------- */

/* No page of a mapped file may be accessed at first: an access raises SIGSEGV, and its handler opens the page, late if
 * this access was chosen. */
enum { MAPPED = 64, STAY = 8 };
static struct {
  _Atomic(char *) from;
  size_t bytes;
} mapped[MAPPED];
static _Atomic(char *) staying[STAY];
static atomic_uint turn;

static void on_access(int number, siginfo_t *info, void *context) {
  char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);
  const int error = errno;
  (void)context;
  for (int i = 0; i < MAPPED; i++) {
    char *at = atomic_load(&mapped[i].from);
    if (!at || page < at || page >= at + mapped[i].bytes) continue;
    wrong("page");
    char *gone = atomic_exchange(&staying[atomic_fetch_add(&turn, 1) % STAY], page);
    if (gone && gone != page) mprotect(gone, 4096, PROT_NONE);
    mprotect(page, 4096, PROT_READ);
    errno = error;
    return;
  }
  signal(number, SIG_DFL);
}
static void *keep_out(void *at, size_t n, int fd) {
  if (!call || strcmp(call, "page") != 0 || at == MAP_FAILED || !is_ours(fd)) return at;
  struct sigaction action = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, NULL);
  for (int i = 0; i < MAPPED; i++) {
    char *none = NULL;
    if (atomic_load(&mapped[i].from)) continue;
    mapped[i].bytes = n;
    if (atomic_compare_exchange_strong(&mapped[i].from, &none, at)) break;
  }
  mprotect(at, n, PROT_NONE);
  return at;
}
int munmap(void *at, size_t n) {
  for (int i = 0; i < STAY; i++) {
    char *page = atomic_load(&staying[i]);
    if (page && page >= (char *)at && page < (char *)at + n) atomic_store(&staying[i], NULL);
  }
  for (int i = 0; i < MAPPED; i++)
    if (at && atomic_load(&mapped[i].from) == at) atomic_store(&mapped[i].from, NULL);
  return (int)syscall(SYS_munmap, at, n);
}
/* An access while SIGSEGV is blocked would end the process, so SIGSEGV is never blocked. */
int pthread_sigmask(int what, const sigset_t *set, sigset_t *old) {
  sigset_t less;
  if (set) less = *set;
  if (set && what != SIG_UNBLOCK) sigdelset(&less, SIGSEGV);
  return REAL(pthread_sigmask)(what, set ? &less : NULL, old);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

#define ASKED ((uintptr_t)__builtin_return_address(0))
static int is_in(const addresses *a, uintptr_t asked) { return asked >= a->from && asked < a->to; }
static int of_program(uintptr_t asked) { return call && is_in(&program, asked); }
static int no_memory_for(uintptr_t asked) {
  if (of_program(asked)) return fails("malloc");
  for (int i = 0; call && i < libraries; i++)
    if (is_in(&library[i], asked)) return fails("library");
  return 0;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (of_program(ASKED) && fails("mmap")) return MAP_FAILED;
  return keep_out((void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset), n, fd);
}
void *mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (of_program(ASKED) && fails("mmap")) return MAP_FAILED;
  return keep_out((void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset), n, fd);
}
void *malloc(size_t n) { return no_memory_for(ASKED) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return no_memory_for(ASKED) ? NULL : __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return no_memory_for(ASKED) ? NULL : __libc_realloc(p, n); }
char *strdup(const char *text) { return of_program(ASKED) && fails("library") ? NULL : REAL(strdup)(text); }
char *strndup(const char *text, size_t n) {
  return of_program(ASKED) && fails("library") ? NULL : REAL(strndup)(text, n);
}
int vasprintf(char **text, const char *format, va_list args) {
  return of_program(ASKED) && fails("library") ? -1 : REAL(vasprintf)(text, format, args);
}
int asprintf(char **text, const char *format, ...) {
  if (of_program(ASKED) && fails("library")) return -1;
  va_list args;
  va_start(args, format);
  const int n = REAL(vasprintf)(text, format, args);
  va_end(args);
  return n;
}
FILE *open_memstream(char **text, size_t *n) {
  return of_program(ASKED) && fails("library") ? NULL : REAL(open_memstream)(text, n);
}

/* ---- silent faults ---------------------------------------------------------------------------------------------- */

/* As StarPU declares it; the types matter here only by their sizes. */
void starpu_vector_data_register(void **handle, int node, uintptr_t data, uint32_t n, size_t each);
void starpu_vector_data_register(void **handle, int node, uintptr_t data, uint32_t n, size_t each) {
  const char *bytes = getenv("FAULT_BYTES");
  if (call && bytes && (size_t)atol(bytes) == n * each && !atomic_load(&planted)) atomic_store(&planted, data);
  REAL(starpu_vector_data_register)(handle, node, data, n, each);
}
int MPI_Iallreduce(const void *send, void *receive, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
  if (wrong("step")) flip();
  return PMPI_Iallreduce(send, receive, n, type, op, comm, request);
}

/* ---- the end of MPI: the command has its own MPI_Barrier and MPI_Finalize, which call these -------------------------
 */

int PMPI_Barrier(MPI_Comm comm) {
  wrong("barrier");
  return REAL(PMPI_Barrier)(comm);
}
int PMPI_Finalize(void) {
  wrong("finalize");
  return REAL(PMPI_Finalize)();
}
