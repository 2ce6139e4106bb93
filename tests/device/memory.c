/* Device memory: separate addresses for each device, blocks with guard pages between them, and a shadow byte for each
 * byte. A new block is filled with ones bits, which are NaN in every floating-point type. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"

enum { LARGE = 64 << 10 };
static const uintptr_t FIRST = (uintptr_t)0x2000 << 32, APART = (uintptr_t)0x100 << 32;

bool emulated_memory_open(device *d) {
  d->base = FIRST + APART * (uintptr_t)d->number;
  d->span = emulated_settings.memory * 4 + ((size_t)64 << 20);
  d->cursor = d->base + PAGE;
  const int memory = memfd_create("emulated GPU", MFD_CLOEXEC), shadow = memfd_create("emulated shadow", MFD_CLOEXEC);
  const int both = PROT_READ | PROT_WRITE;
  if (memory < 0 || shadow < 0 || ftruncate(memory, (off_t)d->span) || ftruncate(shadow, (off_t)d->span)) return false;
  void *own = mmap((void *)d->base, d->span, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, memory, 0);
  d->alias = mmap(NULL, d->span, both, MAP_SHARED | MAP_NORESERVE, memory, 0);
  d->shadow = mmap(NULL, d->span, both, MAP_SHARED | MAP_NORESERVE, shadow, 0);
  d->control = mmap(NULL, sizeof(control), both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void *table = mmap(NULL, PAGE + MOST_BLOCKS * sizeof(block), both, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  close(memory);
  close(shadow);
  if (table == MAP_FAILED) return false;
  d->table_used = table;
  d->table = (block *)((char *)table + PAGE);
  return own == (void *)d->base && d->alias != MAP_FAILED && d->shadow != MAP_FAILED && d->control != MAP_FAILED;
}

device *emulated_owner(const void *address) {
  const uintptr_t at = (uintptr_t)address;
  if (at < FIRST) return NULL;
  device *d = emulated_device((int)((at - FIRST) / APART < MOST_DEVICES ? (at - FIRST) / APART : MOST_DEVICES));
  return d && at - d->base < d->span ? d : NULL;
}

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* The first gap from `from` on with room for the block and a guard page on either side. */
static block **gap(device *d, uintptr_t from, size_t bytes, uintptr_t *at) {
  block **link = &d->blocks;
  uintptr_t begin = d->base + PAGE;
  for (;; link = &(*link)->next) {
    const uintptr_t end = *link ? (*link)->at - PAGE : d->base + d->span - PAGE;
    *at = begin > from ? begin : from;
    if (end > *at && end - *at >= pages(bytes)) return link;
    if (!*link) return NULL;
    begin = (*link)->at + pages((*link)->bytes) + PAGE;
  }
}

static cudaError_t allocate(device *d, void **pointer, size_t bytes) {
  *pointer = NULL;
  if (bytes == 0) return cudaSuccess;
  pthread_mutex_lock(&d->memory);
  block **link = NULL;
  uintptr_t at = 0;
  const size_t counted = (bytes + 511) / 512 * 512;
  if (counted >= bytes && d->used + counted <= emulated_settings.memory) {
    link = gap(d, d->cursor, bytes, &at);
    if (!link) link = gap(d, d->base, bytes, &at);
  }
  if (link && !d->unused && *d->table_used == MOST_BLOCKS) link = NULL;
  if (link) {
    block *b = d->unused;
    if (b)
      d->unused = b->next;
    else
      b = &d->table[(*d->table_used)++];
    b->next = *link;
    *link = b;
    b->at = at;
    b->bytes = bytes;
    d->used += counted;
    d->cursor = at + pages(bytes) + PAGE;
    *pointer = (void *)at;
    if (bytes <= LARGE) {
      memset(emulated_alias(d, *pointer), 0xff, bytes);
      memset(emulated_shadow(d, *pointer), SHADOW_FRESH, bytes);
    }
  }
  pthread_mutex_unlock(&d->memory);
  return link ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  device *d = emulated_device(emulated_current());
  if (!d) return emulated_fail(cudaErrorNoDevice);
  emulated_guard_host();
  if (d->error) return emulated_fail((cudaError_t)d->error);
  return emulated_fail(allocate(d, pointer, bytes));
}
cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned flags) {
  (void)bytes, (void)flags;
  *pointer = NULL;
  return emulated_fail(cudaErrorNotSupported);
}
cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(pointer, *pitch * height);
}

cudaError_t cudaFree(void *pointer) {
  if (!pointer) return cudaSuccess;
  device *d = emulated_owner(pointer);
  block *gone = NULL;
  if (d) {
    emulated_wait_device(d);
    pthread_mutex_lock(&d->memory);
    block **link = &d->blocks;
    while (*link && (*link)->at != (uintptr_t)pointer) link = &(*link)->next;
    gone = *link;
    if (gone) {
      *link = gone->next;
      d->used -= (gone->bytes + 511) / 512 * 512;
      madvise(emulated_alias(d, pointer), pages(gone->bytes), MADV_REMOVE);
      madvise(emulated_shadow(d, pointer), pages(gone->bytes), MADV_REMOVE); /* zeros: not allocated */
      gone->bytes = 0;
      gone->next = d->unused;
      d->unused = gone;
    }
    pthread_mutex_unlock(&d->memory);
  }
  if (!gone) {
    emulated_say(d ? d->number : emulated_current(), "cudaFree of %p, which is no block of device memory", pointer);
    return emulated_fail(cudaErrorInvalidValue);
  }
  return emulated_fail((cudaError_t)d->error);
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
  device *d = emulated_device(emulated_current());
  if (!d) return emulated_fail(cudaErrorNoDevice);
  pthread_mutex_lock(&d->memory);
  *total = emulated_settings.memory;
  *unused = *total - d->used;
  pthread_mutex_unlock(&d->memory);
  return cudaSuccess;
}

const block *emulated_block(const device *d, uintptr_t at, size_t bytes) {
  const uint32_t used = *d->table_used;
  for (uint32_t i = 0; i < used; i++) {
    const block *b = &d->table[i];
    if (b->bytes && at >= b->at && at - b->at <= b->bytes && bytes <= b->bytes - (at - b->at)) return b;
  }
  return NULL;
}
bool emulated_inside(device *d, const void *address, size_t bytes) {
  pthread_mutex_lock(&d->memory);
  const bool inside = emulated_block(d, (uintptr_t)address, bytes) != NULL;
  pthread_mutex_unlock(&d->memory);
  return inside;
}

/* "16 bytes behind the end of a block of 4096 bytes", for messages. */
void emulated_describe(device *d, uintptr_t address, char *text, size_t n) {
  const block *before = NULL, *after = NULL;
  pthread_mutex_lock(&d->memory);
  for (const block *b = d->blocks; b; b = b->next) {
    if (b->at <= address) before = b;
    if (b->at > address && !after) after = b;
  }
  if (before && address - before->at < before->bytes)
    snprintf(text, n, "byte %zu of a block of %zu bytes", (size_t)(address - before->at), before->bytes);
  else if (before && (!after || address - (before->at + before->bytes) <= after->at - address))
    snprintf(text, n, "%zu bytes behind the end of a block of %zu bytes",
             (size_t)(address - before->at - before->bytes), before->bytes);
  else if (after)
    snprintf(text, n, "%zu bytes before a block of %zu bytes", (size_t)(after->at - address), after->bytes);
  else
    snprintf(text, n, "where nothing is allocated");
  pthread_mutex_unlock(&d->memory);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *pointer) {
  device *d = emulated_owner(pointer);
  a->type = d ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->device = d ? d->number : -1;
  a->devicePointer = d ? (void *)pointer : NULL;
  a->hostPointer = d ? NULL : (void *)pointer;
  return cudaSuccess;
}

/* ---- host memory ------------------------------------------------------------------------------------------------- */

/* Pinned memory: allocated here, or registered. */
typedef struct pinned {
  struct pinned *next;
  uintptr_t from, to;
} pinned;
static pinned *first_pinned;
static pthread_mutex_t pinning = PTHREAD_MUTEX_INITIALIZER;

static bool pin(const void *pointer, size_t bytes) {
  pinned *p = malloc(sizeof *p);
  if (!p) return false;
  p->from = (uintptr_t)pointer, p->to = p->from + bytes;
  pthread_mutex_lock(&pinning);
  p->next = first_pinned, first_pinned = p;
  pthread_mutex_unlock(&pinning);
  return true;
}
static void unpin(const void *pointer) {
  pthread_mutex_lock(&pinning);
  pinned **link = &first_pinned, *p;
  while (*link && (*link)->from != (uintptr_t)pointer) link = &(*link)->next;
  if ((p = *link)) *link = p->next;
  pthread_mutex_unlock(&pinning);
  free(p);
}
bool emulated_pinned(const void *address, size_t bytes) {
  const uintptr_t from = (uintptr_t)address;
  pthread_mutex_lock(&pinning);
  const pinned *p = first_pinned;
  while (p && !(from >= p->from && from + bytes <= p->to)) p = p->next;
  pthread_mutex_unlock(&pinning);
  return p != NULL;
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  (void)flags;
  *pointer = aligned_alloc(PAGE, pages(bytes ? bytes : 1));
  return *pointer && pin(*pointer, bytes) ? cudaSuccess : emulated_fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
cudaError_t cudaFreeHost(void *pointer) {
  for (int i = 0; i < emulated_settings.devices; i++) emulated_wait_device(emulated_device(i));
  unpin(pointer);
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return pin(pointer, bytes) ? cudaSuccess : emulated_fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaHostUnregister(void *pointer) {
  unpin(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void **there, void *host, unsigned flags) {
  (void)host, (void)flags;
  *there = NULL;
  return emulated_fail(cudaErrorNotSupported);
}

/* ---- host code at device memory ---------------------------------------------------------------------------------- */

static struct sigaction former;

static void caught(int signal, siginfo_t *info, void *context) {
  device *d = emulated_owner(info->si_addr);
  if (d) {
    char what[160];
    emulated_describe(d, (uintptr_t)info->si_addr, what, sizeof what);
    emulated_say(d->number, "host code uses device memory: %p, %s", info->si_addr, what);
    abort();
  }
  if (former.sa_flags & SA_SIGINFO && former.sa_sigaction) {
    former.sa_sigaction(signal, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
  } else { /* the repeated access ends the process */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &plain, NULL);
  }
}

void emulated_guard_host(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  struct sigaction there, own = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigemptyset(&own.sa_mask);
  pthread_mutex_lock(&lock);
  if (sigaction(SIGSEGV, NULL, &there) == 0 && (!(there.sa_flags & SA_SIGINFO) || there.sa_sigaction != caught)) {
    former = there;
    sigaction(SIGSEGV, &own, NULL);
  }
  pthread_mutex_unlock(&lock);
}
