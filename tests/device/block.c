/* Grids, blocks and threads. The threads of a block are fibers of one system thread. A fiber runs one thread after
 * another as plain calls; a thread that waits at a barrier keeps its fiber, and another fiber continues. If all
 * remaining threads wait, they would wait for ever; this is reported as a fault. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#ifndef __x86_64__
#include <ucontext.h>
#endif

enum { MOST_THREADS = 1024, STACK = 128 << 10, WARP = 32 };

typedef struct fiber {
  void *stack;
#ifdef __x86_64__
  void *sp;
#else
  ucontext_t context;
#endif
  int thread;
  const char *file; /* where it waits */
  int line;
} fiber;

typedef struct warp {
  unsigned arrived, exists; /* lanes */
  uint32_t epoch;
  fiber *fiber[WARP];
  void *value[WARP];
  int from[WARP];
  size_t bytes;
  _Alignas(16) char slot[WARP][16];
} warp;

emulated_position emulated_at;

static fiber fibers[MOST_THREADS], outside;
static int n_fibers;
static fiber *current, *idle[MOST_THREADS], *ready[MOST_THREADS];
static int n_idle, first_ready, n_ready;
static warp warps[MOST_THREADS / WARP];
static emulated_triple position[MOST_THREADS];

/* The running block. */
static const emulated_launch *job;
static void *job_arguments;
static int n, next, ended, arrived, predicate, result, order_from, order_step;
static const char *barrier_file;
static int barrier_line, barrier_thread;
static bool running;

/* ---- switching --------------------------------------------------------------------------------------------------- */

#ifdef __x86_64__
/* Saves the callee-saved registers, and continues where `load` stopped. */
void emulated_switch(void **save, void *load);
__asm__(
    ".text\n.globl emulated_switch\n.hidden emulated_switch\n.type emulated_switch,@function\n"
    "emulated_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
    ".size emulated_switch, .-emulated_switch\n");
#endif

static void set_thread(const fiber *f) {
  if (f == &outside) {
    emulated_access.thread = ~0u;
    return;
  }
  emulated_at.thread = position[f->thread];
  emulated_access.thread = (uint32_t)f->thread;
  emulated_access.warp_epoch = warps[f->thread / WARP].epoch;
}

static void go_to(fiber *to) {
  fiber *from = current;
  if (to == from) return;
  current = to;
  set_thread(to);
#ifdef __x86_64__
  emulated_switch(&from->sp, to->sp);
#else
  swapcontext(&from->context, &to->context);
#endif
}

fault emulated_where(fault_kind kind) {
  fault f = {.kind = kind};
  f.has_thread = running && emulated_access.thread != ~0u;
  f.block = emulated_at.block;
  f.thread = emulated_at.thread;
  return f;
}
emulated_triple emulated_thread_at(uint32_t index) { return position[index]; }

/* Reports that all remaining threads wait and none can wake another. */
static void stuck(void) {
  fault f = emulated_where(FAULT_ENDED);
  f.ended = ended;
  f.waiting = n - ended;
  int found = 0;
  for (int i = 0; i < n_fibers && found < 2; i++) {
    const fiber *w = &fibers[i];
    if (!w->file || (found && w->file == f.file && w->line == f.line)) continue;
    if (!found) f.has_thread = 1, f.thread = position[w->thread], f.file = w->file, f.line = w->line;
    if (found) f.kind = FAULT_DIVERGED, f.other = position[w->thread], f.other_file = w->file, f.other_line = w->line;
    found++;
  }
  emulated_process_fault(&f);
}

static void run_threads(void) {
  for (;;) {
    fiber *me = current;
    while (next < n) {
      int index = order_from + order_step * next++;
      if (index >= n) index -= n;
      if (index < 0) index += n;
      me->thread = index;
      set_thread(me);
      job->run(job_arguments);
      ended++;
    }
    idle[n_idle++] = me;
    if (n_ready) {
      fiber *to = ready[first_ready];
      first_ready = (first_ready + 1) % MOST_THREADS, n_ready--;
      go_to(to);
    } else if (ended == n) {
      go_to(&outside);
    } else {
      stuck();
    }
  }
}

static fiber *fresh(void) {
  if (n_idle) return idle[--n_idle];
  fiber *f = &fibers[n_fibers++];
#ifdef __x86_64__
  /* stack tops at different offsets within a page, so that they do not all use the same cache sets */
  void **sp = (void **)((char *)f->stack + STACK - PAGE - (size_t)(n_fibers * 256) % 16384);
  *--sp = NULL;
  *--sp = (void *)run_threads;
  for (int i = 0; i < 6; i++) *--sp = NULL;
  f->sp = sp;
#else
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = STACK - PAGE;
  makecontext(&f->context, run_threads, 0);
#endif
  return f;
}

/* Lets other threads run until one makes this one ready. */
static void wait_turn(const char *file, int line) {
  fiber *me = current;
  me->file = file, me->line = line;
  if (n_ready) {
    fiber *to = ready[first_ready];
    first_ready = (first_ready + 1) % MOST_THREADS, n_ready--;
    go_to(to);
  } else if (next < n) {
    go_to(fresh());
  } else {
    stuck();
  }
  me->file = NULL;
}
static void wake(fiber *f) { ready[(first_ready + n_ready++) % MOST_THREADS] = f; }

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static fiber *at_barrier[MOST_THREADS];

static void diverged(int other_thread, const char *other_file, int other_line, const char *file, int line) {
  fault f = emulated_where(FAULT_DIVERGED);
  f.file = file, f.line = line;
  f.other = position[other_thread], f.other_file = other_file, f.other_line = other_line;
  emulated_process_fault(&f);
}

int emulated_barrier(int value, const char *file, int line) {
  if (!running) return value;
  if (arrived == 0) {
    predicate = 0;
    barrier_file = file, barrier_line = line, barrier_thread = current->thread;
  } else if (file != barrier_file || line != barrier_line) {
    if (line != barrier_line || strcmp(file, barrier_file) != 0)
      diverged(barrier_thread, barrier_file, barrier_line, file, line);
  }
  predicate |= value != 0;
  if (arrived + 1 < n) {
    at_barrier[arrived++] = current;
    wait_turn(file, line);
  } else {
    for (int i = 0; i < arrived; i++) wake(at_barrier[i]);
    arrived = 0;
    result = predicate;
    emulated_access.epoch++;
  }
  return result;
}

int emulated_lane(void) { return current->thread % WARP; }

void emulated_exchange(unsigned mask, void *value, size_t bytes, int from, const char *file, int line) {
  if (!running) return;
  warp *w = &warps[current->thread / WARP];
  const int lane = current->thread % WARP;
  if (!(mask >> lane & 1) || (mask & w->exists) != w->exists) {
    fault f = emulated_where(FAULT_LANES);
    f.file = file, f.line = line;
    f.address = mask;
    emulated_process_fault(&f);
  }
  if (w->arrived) {
    int first = 0;
    while (!(w->arrived >> first & 1)) first++;
    const fiber *other = w->fiber[first];
    if (line != other->line || strcmp(file, other->file) != 0)
      diverged(other->thread, other->file, other->line, file, line);
  }
  memcpy(w->slot[lane], value ? value : w->slot[lane], value ? bytes : 0);
  w->fiber[lane] = current, w->value[lane] = value, w->from[lane] = from;
  w->arrived |= 1u << lane;
  if (w->arrived != w->exists) {
    wait_turn(file, line);
    return;
  }
  w->arrived = 0;
  w->epoch++;
  emulated_access.warp_epoch = w->epoch;
  for (int i = 0; i < WARP; i++)
    if (w->exists >> i & 1) {
      const int source = w->from[i] >= 0 && w->from[i] < WARP && w->exists >> w->from[i] & 1 ? w->from[i] : i;
      if (w->value[i]) memcpy(w->value[i], w->slot[source], bytes);
      if (i != lane) wake(w->fiber[i]);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void make_stacks(void) {
  const size_t bytes = (size_t)STACK * MOST_THREADS;
  char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) {
    fault f = emulated_where(FAULT_DEAD);
    emulated_process_fault(&f);
  }
  for (int i = 0; i < MOST_THREADS; i++) {
    fibers[i].stack = all + (size_t)STACK * (size_t)i + PAGE; /* the page below ends a stack that overflows */
    mprotect(all + (size_t)STACK * (size_t)i, PAGE, PROT_NONE);
  }
  emulated_access_stacks(all, bytes);
}

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

void emulated_grid(const emulated_launch *launch, void *arguments, uint64_t seed) {
  if (launch->block.x == 0) {
    launch->run(arguments);
    return;
  }
  if (!fibers[0].stack) make_stacks();
  job = launch, job_arguments = arguments;
  n = (int)(launch->block.x * launch->block.y * launch->block.z);
  emulated_at.block_size = launch->block, emulated_at.grid_size = launch->grid;
  for (int i = 0; i < n; i++) {
    const unsigned x = (unsigned)i % launch->block.x, rest = (unsigned)i / launch->block.x;
    position[i] = (emulated_triple){x, rest % launch->block.y, rest / launch->block.y};
  }
  for (int w = 0; w * WARP < n; w++) {
    const int lanes = n - w * WARP < WARP ? n - w * WARP : WARP;
    warps[w].exists = lanes == WARP ? ~0u : (1u << lanes) - 1;
    warps[w].arrived = 0;
  }
  emulated_access_kernel(launch->shared_bytes);
  const uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
  uint64_t step = 1, at = 0;
  order_from = 0, order_step = 1;
  if (seed) { /* blocks in some order, threads from some one on, up or down */
    step = emulated_mix(seed) % blocks | 1;
    while (divisor(step, blocks) != 1) step++;
    at = emulated_mix(seed + 1) % blocks;
    order_from = (int)(emulated_mix(seed + 2) % (uint64_t)n);
    if (emulated_mix(seed + 3) & 1) order_step = -1;
  }
  running = true;
  current = &outside;
  for (uint64_t i = 0; i < blocks; i++, at = (at + step) % blocks) {
    const uint64_t rest = at / launch->grid.x;
    emulated_at.block = (emulated_triple){(unsigned)(at % launch->grid.x), (unsigned)(rest % launch->grid.y),
                                          (unsigned)(rest / launch->grid.y)};
    next = ended = arrived = 0;
    emulated_access_block();
    go_to(fresh());
  }
  running = false;
}
