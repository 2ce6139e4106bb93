/* Shared by the parts of the emulated device. A device consists of memory with several mappings, streams (threads of
 * the program), and a process that runs its kernels:
 *
 *   where                 device memory at a pointer's address   its shadow
 *   the program           no access: host code that uses a device pointer ends there
 *   streams, for copies   through `alias`, another mapping       read and written
 *   the device's process  read and written                      read and written
 * So neither side can use the other's memory unnoticed, and host accesses cost nothing extra. */
#ifndef DEVICE_H
#define DEVICE_H

#define EMULATED_DEVICE 1
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "emulated_launch.h"

enum { MOST_DEVICES = 16, MOST_BLOCKS = 1 << 16, PAGE = 4096, SHARED_BYTES = 227 << 10, SHARED_DEFAULT = 48 << 10 };

/* State of a byte of memory, in the shadow. Bit 0: allocated; bit 1: written. In a large block a byte that was never
 * used may still be SHADOW_NONE, so that gigabytes can be allocated quickly; then the table of blocks decides. */
enum { SHADOW_NONE = 0, SHADOW_FRESH = 1, SHADOW_WRITTEN = 3 };

/* ---- settings, from the environment (runtime.c) ------------------------------------------------------------------ */

typedef struct settings {
  int devices;     /* EMULATED_DEVICES */
  size_t memory;   /* EMULATED_MEMORY, MiB: bytes of each device */
  uint64_t seed;   /* EMULATED_SEED: if not 0, shuffles the order of threads, blocks and streams */
  double delay;    /* EMULATED_DELAY, microseconds: the longest delay of an operation, if seed != 0 */
  bool lazy;       /* EMULATED_LAZY: an operation runs only when waited for */
  bool peers;      /* EMULATED_PEERS: devices copy to one another */
  int fail_device; /* EMULATED_FAIL=DEVICE:NUMBER: the device fails at its kernel of that number, from 1 on */
  long fail_at;
  double patience;    /* EMULATED_PATIENCE, seconds: a kernel that runs longer counts as hung */
  double copy_rate;   /* EMULATED_GBPS: a copy between two memories lasts at least bytes / rate; 0: what it needs */
  double access_rate; /* EMULATED_TIMED: a kernel lasts accesses / rate, and runs only once for each size; 0: it runs */
  const char *computed; /* EMULATED_COMPUTED: words in the names of kernels that run each time all the same */
  bool report;          /* EMULATED_REPORT: at the end, what each device did */
} settings;
extern settings emulated_settings;

/* ---- faults ------------------------------------------------------------------------------------------------------ */

typedef enum fault_kind {
  FAULT_NONE,
  FAULT_OUTSIDE,  /* device memory that is not allocated */
  FAULT_FRESH,    /* a read of unwritten memory */
  FAULT_HOST,     /* memory of the host */
  FAULT_PEER,     /* memory of another device */
  FAULT_CONSTANT, /* a write to constants */
  FAULT_SHARED,   /* outside the block's arrays in shared memory */
  FAULT_FRESH_SHARED,
  FAULT_RACE,     /* two threads, one of which writes, with no barrier between */
  FAULT_DIVERGED, /* threads that wait at different barriers */
  FAULT_ENDED,    /* threads wait for one that has ended, or for a lane outside the mask */
  FAULT_LANES,    /* a mask that lacks the running lane or another lane of the warp */
  FAULT_LIMIT,    /* more shared memory than the launch may have */
  FAULT_LIBM,     /* a call of the host's mathematical library, at an address */
  FAULT_SIGNAL,   /* a signal, at an address */
  FAULT_TIME,     /* longer than the patience */
  FAULT_DEAD,     /* the process ended */
  FAULT_WISHED    /* EMULATED_FAIL */
} fault_kind;

typedef struct fault {
  fault_kind kind;
  uintptr_t address;
  int bytes, write, signal;
  emulated_triple block, thread, other; /* other: the second thread of a race or a divergence */
  int other_write, has_thread, waiting, ended;
  const char *file, *other_file; /* where they wait */
  int line, other_line;
} fault;

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Shared between a device's process and the program. */
typedef struct control {
  _Atomic uint32_t asked, answered; /* launches; futexes */
  emulated_launch launch;
  uint64_t seed, accesses; /* of the last launch, to device and shared memory */
  fault fault;
  _Alignas(64) char arguments[EMULATED_ARGUMENT_BYTES];
} control;

/* An allocated block of device memory; bytes 0: unused. Blocks lie in memory shared with the device's process, which
 * only reads `at` and `bytes`. */
typedef struct block {
  _Atomic uintptr_t at;
  _Atomic size_t bytes;
  struct block *next; /* the next by address, or the next unused one */
} block;

typedef struct device {
  int number;
  uintptr_t base; /* of its addresses */
  size_t span;    /* of its addresses: more than its memory, so that freed ones are not reused soon */
  char *alias;
  uint8_t *shadow;
  size_t used;
  block *blocks, *unused, *table;
  _Atomic uint32_t *table_used; /* entries of the table that have ever held a block */
  uintptr_t cursor;
  pthread_mutex_t memory; /* guards used, blocks and cursor */
  pthread_mutex_t kernel; /* one kernel at a time */
  control *control;
  pid_t process;
  unsigned long long modules; /* loaded when the process began */
  _Atomic int error;          /* cudaError_t: returned by every later call */
  atomic_ulong kernels, copies[4], copied[4];
  atomic_ulong unpinned; /* bytes of asynchronous copies from or to host memory that is not pinned */
  struct emulated_stream *streams, *default_stream;
  pthread_mutex_t stream_list;
} device;

device *emulated_device(int number); /* NULL if there is none */
int emulated_current(void);
cudaError_t emulated_fail(cudaError_t error); /* remembered for cudaGetLastError */
/* Prints a line that begins with "emulated GPU N: ", with what printf makes of the rest. */
void emulated_say(int number, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* memory.c */
bool emulated_memory_open(device *d);
device *emulated_owner(const void *address); /* the device with this address, or NULL */
/* Whether [address, address + bytes) lies in one block of the device. */
bool emulated_inside(device *d, const void *address, size_t bytes);
bool emulated_pinned(const void *address, size_t bytes);                  /* whether all of it is pinned host memory */
const block *emulated_block(const device *d, uintptr_t at, size_t bytes); /* needs no lock */
void emulated_describe(device *d, uintptr_t address, char *text, size_t n);
static inline char *emulated_alias(const device *d, const void *address) {
  return d->alias + ((uintptr_t)address - d->base);
}
static inline uint8_t *emulated_shadow(const device *d, const void *address) {
  return d->shadow + ((uintptr_t)address - d->base);
}
void emulated_guard_host(void); /* names the fault when host code uses a device pointer */

/* stream.c */
void emulated_wait_device(device *d);
double emulated_now(void);
uint64_t emulated_mix(uint64_t x);

/* process.c, in the program: runs a kernel on the device and waits; its error breaks the device. */
cudaError_t emulated_run(device *d, const emulated_launch *launch, const void *arguments, uint64_t seed);
void emulated_stop(device *d);

/* report.c */
void emulated_report_fault(device *d, const emulated_launch *launch, const fault *f);
const char *emulated_symbol(void *address, char *text, size_t n);

/* ---- in the device's process ------------------------------------------------------------------------------------- */

void emulated_process_fault(const fault *f) __attribute__((noreturn));             /* process.c */
void emulated_grid(const emulated_launch *launch, void *arguments, uint64_t seed); /* block.c */
fault emulated_where(fault_kind kind); /* block.c: with the running thread */
/* access.c */
void emulated_access_libraries(void); /* in the program, before the process begins: notes where constants lie */
typedef struct access_state {
  uint32_t thread; /* the running one; ~0: none */
  uint32_t epoch, warp_epoch;
} access_state;
extern access_state emulated_access;
extern uint64_t emulated_accesses; /* to device and shared memory, so far */
void emulated_access_begin(device *d);
void emulated_access_stacks(void *from, size_t bytes);
void emulated_access_block(void); /* begins a block: its shared memory is unwritten */
void emulated_access_kernel(size_t dynamic);
emulated_triple emulated_thread_at(uint32_t index); /* block.c */

#endif
