/* Checks each memory access of a kernel. tests/device/nvcc compiles kernels with -fsanitize=thread, which inserts a
 * call before every access; these functions replace the sanitizer's. In the program itself they return at once.
 *
 * Device memory: a shadow byte for each byte says whether it is allocated, and whether it was written. Shared memory:
 * the same, and for each word of four bytes who wrote and who read it last, and when. Two accesses of different
 * threads, of which one writes, must have a barrier between them: of the block, or of the warp if both are in it. */
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"

enum { GAP = 64, MOST_SITES = 64, MOST_RANGES = 512, MANY = 0xffff, MANY_WARPS = 0xfffe };

typedef struct word {
  uint32_t write_epoch, write_warp_epoch, read_epoch, read_warp_epoch;
  uint16_t writer, reader; /* reader: MANY of warp read_warp; MANY_WARPS */
  uint8_t read_warp;
} word;

access_state emulated_access = {.thread = ~0u};
uint64_t emulated_accesses;

/* All zeros in the program itself. */
static struct {
  uintptr_t base, span; /* of the device's memory */
  uintptr_t shared;     /* SHARED_BYTES of it, with its shadow and words */
  uintptr_t shared_span;
  uintptr_t stacks, stacks_span;
  uint8_t *shadow, *shared_shadow;
  word *words;
  device *device;
} view;

static struct { uintptr_t from, to; } constant[MOST_RANGES];
static int n_constant;

static struct {
  const void *site;
  size_t at, bytes;
} sites[MOST_SITES];
static int n_sites;
static size_t dynamic_bytes, shared_used;

/* ---- what else there is ------------------------------------------------------------------------------------------ */

static int note_constants(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  for (int i = 0; i < info->dlpi_phnum && n_constant < MOST_RANGES; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if ((p->p_type == PT_LOAD && !(p->p_flags & PF_W)) || p->p_type == PT_GNU_RELRO) {
      constant[n_constant].from = info->dlpi_addr + p->p_vaddr;
      constant[n_constant++].to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
  }
  return 0;
}

/* The device's process must not ask for the libraries itself: another thread of the program may have held the loader's
 * lock when the process was forked, and then nobody ever releases it. */
void emulated_access_libraries(void) {
  n_constant = 0;
  dl_iterate_phdr(note_constants, NULL);
}

void emulated_access_begin(device *d) {
  const int both = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  view.shared = (uintptr_t)mmap(NULL, SHARED_BYTES, both, flags, -1, 0);
  view.shared_shadow = mmap(NULL, SHARED_BYTES, both, flags, -1, 0);
  view.words = mmap(NULL, SHARED_BYTES / 4 * sizeof(word), both, flags, -1, 0);
  view.shared_span = SHARED_BYTES;
  view.shadow = d->shadow;
  view.base = d->base, view.span = d->span;
  emulated_access.epoch = emulated_access.warp_epoch = 1;
  view.device = d;
}
void emulated_access_stacks(void *from, size_t bytes) { view.stacks = (uintptr_t)from, view.stacks_span = bytes; }

static void fail(fault_kind kind, uintptr_t at, size_t bytes, int write) {
  fault f = emulated_where(kind);
  f.address = at, f.bytes = (int)bytes, f.write = write;
  emulated_process_fault(&f);
}

static __attribute__((noinline)) void elsewhere(uintptr_t at, size_t bytes, int write) {
  if (!view.device) return;
  const control *c = view.device->control;
  if (at >= (uintptr_t)c->arguments && at < (uintptr_t)c->arguments + sizeof c->arguments) return;
  for (int i = 0; i < n_constant; i++)
    if (at >= constant[i].from && at < constant[i].to) {
      if (write) fail(FAULT_CONSTANT, at, bytes, write);
      return;
    }
  fail(emulated_owner((void *)at) ? FAULT_PEER : FAULT_HOST, at, bytes, write);
}

/* ---- device memory ----------------------------------------------------------------------------------------------- */

/* Handles an access that the shadow does not simply allow: a fault, or the first access to a page of a large block. */
static __attribute__((noinline)) void slow_access(uintptr_t at, size_t bytes, int write) {
  const block *b = emulated_block(view.device, at, bytes);
  if (!b) {
    uintptr_t first = at;
    while (first < at + bytes && emulated_block(view.device, first, 1)) first++;
    fail(FAULT_OUTSIDE, first, bytes, write);
    return;
  }
  if (!write && emulated_settings.access_rate > 0)
    return; /* with EMULATED_TIMED most kernels were not run, so memory may be unwritten */
  if (!write) fail(FAULT_FRESH, at, bytes, write);
  uintptr_t from = at / PAGE * PAGE, to = (at + bytes + PAGE - 1) / PAGE * PAGE;
  if (from < b->at) from = b->at;
  if (to > b->at + b->bytes) to = b->at + b->bytes;
  for (uint8_t *s = view.shadow + (from - view.base); from < to; from++, s++)
    if (*s == SHADOW_NONE) *s = SHADOW_FRESH;
}

void emulated_check(const void *address, size_t bytes, int write) {
  const uintptr_t at = (uintptr_t)address;
  if (!view.device) return;
  if (at - view.base >= view.span) {
    elsewhere(at, bytes, write);
    return;
  }
  uint8_t *s = view.shadow + (at - view.base);
  if (write) {
    if (!emulated_block(view.device, at, bytes)) slow_access(at, bytes, write);
    memset(s, SHADOW_WRITTEN, bytes);
    return;
  }
  unsigned all = SHADOW_WRITTEN;
  for (size_t i = 0; i < bytes; i++) all &= s[i];
  if (all != SHADOW_WRITTEN) slow_access(at, bytes, write);
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

static void freshen(size_t at, size_t bytes) {
  memset((void *)(view.shared + at), 0xff, bytes);
  memset(view.shared_shadow + at, SHADOW_FRESH, bytes);
}

void emulated_access_kernel(size_t bytes) {
  memset(view.shared_shadow, SHADOW_NONE, shared_used);
  n_sites = 0;
  dynamic_bytes = bytes;
  shared_used = bytes ? (bytes + GAP + 63) / 64 * 64 : 0;
}
void emulated_access_block(void) {
  emulated_access.epoch++;
  if (dynamic_bytes) freshen(0, dynamic_bytes);
  for (int i = 0; i < n_sites; i++) freshen(sites[i].at, sites[i].bytes);
}

void *emulated_shared(const void *site, size_t bytes) {
  if (!view.device) return NULL;
  if (!site) return (void *)view.shared;
  for (int i = 0; i < n_sites; i++)
    if (sites[i].site == site) return (void *)(view.shared + sites[i].at);
  size_t arrays = bytes;
  for (int i = 0; i < n_sites; i++) arrays += sites[i].bytes;
  if (n_sites == MOST_SITES || arrays > SHARED_DEFAULT || shared_used + bytes + GAP > SHARED_BYTES)
    fail(FAULT_LIMIT, arrays + dynamic_bytes, bytes, 0);
  sites[n_sites].site = site, sites[n_sites].at = shared_used, sites[n_sites].bytes = bytes;
  shared_used += (bytes + GAP + 63) / 64 * 64;
  freshen(sites[n_sites].at, bytes);
  return (void *)(view.shared + sites[n_sites++].at);
}

static void race(uintptr_t at, size_t bytes, int write, uint16_t other, int other_write) {
  fault f = emulated_where(FAULT_RACE);
  f.address = at - view.shared, f.bytes = (int)bytes, f.write = write;
  f.other = emulated_thread_at(other), f.other_write = other_write;
  emulated_process_fault(&f);
}

static void note_word(word *w, uintptr_t at, size_t bytes, int write) {
  const access_state now = emulated_access;
  const uint16_t me = (uint16_t)now.thread;
  if (w->write_epoch == now.epoch && w->writer != me &&
      !(w->writer / 32 == me / 32 && w->write_warp_epoch < now.warp_epoch))
    race(at, bytes, write, w->writer, 1);
  if (!write) {
    if (w->read_epoch != now.epoch) {
      w->read_epoch = now.epoch, w->reader = me, w->read_warp = (uint8_t)(me / 32);
    } else if (w->reader != me && w->reader != MANY_WARPS) {
      w->reader = w->read_warp == me / 32 ? MANY : MANY_WARPS;
    }
    w->read_warp_epoch = now.warp_epoch;
    return;
  }
  if (w->read_epoch == now.epoch && w->reader != me) {
    const bool same_warp = w->reader != MANY_WARPS && w->read_warp == me / 32;
    if (!same_warp || w->read_warp_epoch >= now.warp_epoch)
      race(at, bytes, write, w->reader < MANY_WARPS ? w->reader : (uint16_t)(w->read_warp * 32), 0);
  }
  w->write_epoch = now.epoch, w->write_warp_epoch = now.warp_epoch, w->writer = me;
}

static __attribute__((noinline)) void shared_access(uintptr_t at, size_t bytes, int write) {
  const size_t o = at - view.shared;
  uint8_t *s = view.shared_shadow + o;
  for (size_t i = 0; i < bytes; i++) {
    if (s[i] == SHADOW_NONE) fail(FAULT_SHARED, o + i, bytes, write);
    if (!write && s[i] != SHADOW_WRITTEN) fail(FAULT_FRESH_SHARED, o + i, bytes, write);
    if (write) s[i] = SHADOW_WRITTEN;
  }
  for (size_t i = 0; i + 4 <= bytes; i += 4) note_word(&view.words[(o + i) / 4], at, bytes, write);
}

/* Fast path for the most frequent access: four written bytes, read again in the epoch of an earlier read. */
static inline __attribute__((always_inline)) void shared_read4(uintptr_t at) {
  const size_t o = at - view.shared;
  uint32_t s;
  memcpy(&s, view.shared_shadow + o, sizeof s);
  word *w = &view.words[o / 4];
  if (s == 0x03030303 && o % 4 == 0 && w->read_epoch == emulated_access.epoch &&
      w->write_epoch != emulated_access.epoch &&
      (w->reader == MANY_WARPS || w->reader == (uint16_t)emulated_access.thread)) {
    w->read_warp_epoch = emulated_access.warp_epoch;
    return;
  }
  shared_access(at, 4, 0);
}

/* ---- the hooks --------------------------------------------------------------------------------------------------- */

#define HOOKS(name, type, written, fresh)                                        \
  void __tsan_read##name(void *p);                                               \
  void __tsan_write##name(void *p);                                              \
  void __tsan_unaligned_read##name(void *p);                                     \
  void __tsan_unaligned_write##name(void *p);                                    \
  void __tsan_read##name(void *p) {                                              \
    const uintptr_t at = (uintptr_t)p;                                           \
    if (at - view.base < view.span) {                                            \
      type s;                                                                    \
      emulated_accesses++;                                                       \
      memcpy(&s, view.shadow + (at - view.base), sizeof s);                      \
      if (s != (type)(written)) slow_access(at, sizeof s, 0);                    \
    } else if (at - view.shared < view.shared_span) {                            \
      emulated_accesses++;                                                       \
      sizeof(type) == 4 ? shared_read4(at) : shared_access(at, sizeof(type), 0); \
    } else if (at - view.stacks >= view.stacks_span) {                           \
      elsewhere(at, sizeof(type), 0);                                            \
    }                                                                            \
  }                                                                              \
  void __tsan_write##name(void *p) {                                             \
    const uintptr_t at = (uintptr_t)p;                                           \
    if (at - view.base < view.span) {                                            \
      type s;                                                                    \
      const type all = (type)(written);                                          \
      emulated_accesses++;                                                       \
      memcpy(&s, view.shadow + (at - view.base), sizeof s);                      \
      if ((s & (type)(fresh)) != (type)(fresh)) slow_access(at, sizeof s, 1);    \
      memcpy(view.shadow + (at - view.base), &all, sizeof all);                  \
    } else if (at - view.shared < view.shared_span) {                            \
      emulated_accesses++;                                                       \
      shared_access(at, sizeof(type), 1);                                        \
    } else if (at - view.stacks >= view.stacks_span) {                           \
      elsewhere(at, sizeof(type), 1);                                            \
    }                                                                            \
  }                                                                              \
  void __tsan_unaligned_read##name(void *p) { __tsan_read##name(p); }            \
  void __tsan_unaligned_write##name(void *p) { __tsan_write##name(p); }

HOOKS(1, uint8_t, 0x03, 0x01)
HOOKS(2, uint16_t, 0x0303, 0x0101)
HOOKS(4, uint32_t, 0x03030303, 0x01010101)
HOOKS(8, uint64_t, 0x0303030303030303, 0x0101010101010101)

static void each(void *p, size_t bytes, int write) {
  const uintptr_t at = (uintptr_t)p;
  emulated_accesses += view.device && at - view.stacks >= view.stacks_span;
  if (at - view.base < view.span)
    emulated_check(p, bytes, write);
  else if (at - view.shared < view.shared_span)
    shared_access(at, bytes, write);
  else if (at - view.stacks >= view.stacks_span)
    elsewhere(at, bytes, write);
}

void __tsan_read16(void *p);
void __tsan_write16(void *p);
void __tsan_unaligned_read16(void *p);
void __tsan_unaligned_write16(void *p);
void __tsan_read_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_vptr_update(void **to, void *from);
void __tsan_vptr_read(void **from);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);

void __tsan_read16(void *p) { each(p, 16, 0); }
void __tsan_write16(void *p) { each(p, 16, 1); }
void __tsan_unaligned_read16(void *p) { each(p, 16, 0); }
void __tsan_unaligned_write16(void *p) { each(p, 16, 1); }
void __tsan_read_range(void *p, size_t bytes) { each(p, bytes, 0); }
void __tsan_write_range(void *p, size_t bytes) { each(p, bytes, 1); }
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **to, void *from) { (void)to, (void)from; }
void __tsan_vptr_read(void **from) { (void)from; }
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  each((void *)from, bytes, 0);
  each(to, bytes, 1);
  return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
  each((void *)from, bytes, 0);
  each(to, bytes, 1);
  return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
  each(to, bytes, 1);
  return memset(to, value, bytes);
}
