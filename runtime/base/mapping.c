/* Mapped files, and the handler of SIGBUS. The handler walks a list of all mappings while other threads may add and
 * remove some: entries are added at the front, and removed ones stay in the list to be used again. */
#include "runtime/base/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/activity.h"

struct sl_mapping {
  _Atomic(uint8_t *) data; /* NULL: not in use */
  size_t bytes;
  char *path;
  dev_t device;
  ino_t inode;
  atomic_int lost; /* an access failed */
  struct sl_mapping *next;
};

static _Atomic(sl_mapping *) first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static size_t page;

/* Replaces the mapping by zeros from the faulting page on, so that the access succeeds when repeated. */
static void on_bus(int number, siginfo_t *info, void *context) {
  const int error = errno;
  (void)context;
  for (sl_mapping *m = first; m; m = m->next) {
    uint8_t *data = m->data, *at = info->si_addr;
    const size_t bytes = (m->bytes + page - 1) / page * page;
    if (!data || at < data || at >= data + bytes) continue;
    const size_t from = (size_t)(at - data) / page * page;
    m->lost = 1;
    if (mmap(data + from, bytes - from, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    errno = error;
    return;
  }
  sigaction(number, &before, NULL); /* the repeated access runs under that handler */
  errno = error;
}

/* Installs the handler, again if another library has replaced it. The caller holds the lock. */
static void set_handler(void) {
  struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_RESTART}, now;
  page = (size_t)sysconf(_SC_PAGESIZE);
  if (sigaction(SIGBUS, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus)) return;
  before = now;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, NULL);
}

/* Returns a free entry or adds one to the list. The caller holds the lock. */
static sl_mapping *entry(void) {
  for (sl_mapping *m = first; m; m = m->next)
    if (!m->data) return m;
  sl_mapping *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->next = first;
  first = m;
  return m;
}

sl_status sl_mapping_open(int fd, const char *path, size_t bytes, sl_mapping **mapping) {
  struct stat info;
  *mapping = NULL;
  if (fstat(fd, &info) != 0) return sl_fail(SL_EIO, "cannot map %s: %s", path, strerror(errno));
  char *copy = strdup(path);
  void *data = copy ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (!copy) return sl_no_memory("for mapping %s", path);
  if (data == MAP_FAILED) {
    const int error = errno;
    free(copy);
    return sl_fail(SL_EIO, "cannot map %s: %s", path, strerror(error));
  }
  pthread_mutex_lock(&lock);
  set_handler();
  sl_mapping *m = entry();
  if (m) {
    m->bytes = bytes, m->path = copy, m->device = info.st_dev, m->inode = info.st_ino, m->lost = 0;
    m->data = data; /* set last: now the handler sees the entry */
  }
  pthread_mutex_unlock(&lock);
  if (!m) {
    munmap(data, bytes);
    free(copy);
    return sl_no_memory("for mapping %s", path);
  }
  *mapping = m;
  return SL_OK;
}

void sl_mapping_close(sl_mapping *m) {
  if (!m) return;
  pthread_mutex_lock(&lock);
  munmap(m->data, m->bytes);
  free(m->path);
  m->path = NULL;
  m->data = NULL;
  pthread_mutex_unlock(&lock);
}

const uint8_t *sl_mapping_data(const sl_mapping *m) { return m->data; }
const char *sl_mapping_path(const sl_mapping *m) { return m->path; }

/* Also compares the size, because the rest of a shortened file's last page reads as zeros without a fault. Ignores
 * another file that now has the name. */
sl_status sl_mapping_check(const sl_mapping *m) {
  struct stat info;
  const int cut = !m->lost && SL_CALL_OF_FILE("stat", m->path, stat(m->path, &info)) == 0 && info.st_dev == m->device &&
                  info.st_ino == m->inode && (size_t)info.st_size < m->bytes;
  if (!m->lost && !cut) return SL_OK;
  return sl_fail(SL_EIO, "%s was cut short while it was being read, or its disk failed: restore the file", m->path);
}
