/* Copies between memories: bytes in all, from StarPU's bus counters; records of single copies; and the peak of each
 * memory. */
#include "runtime/machine/transfers.h"

#include <pthread.h>
#include <starpu.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/machine/vectors.h"

int sl_transfers_nodes(void) { return (int)starpu_memory_nodes_get_count(); }

uint64_t sl_transfers_bytes(void) {
  uint64_t bytes = 0;
  for (int bus = 0; bus < starpu_bus_get_count(); bus++) {
    struct starpu_profiling_bus_info info;
    if (starpu_bus_get_profiling_info(bus, &info) == 0 && info.transferred_bytes > 0)
      bytes += (uint64_t)info.transferred_bytes;
  }
  return bytes;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

enum { MOST = SL_TRANSFERS_KEPT };
static sl_copy_record ring[MOST]; /* pages are allocated when first used */
static _Atomic uint64_t added;
static _Atomic int64_t step; /* 0: nothing is recorded */

void sl_transfers_record(int64_t number) { atomic_store(&step, number); }
void sl_transfers_clear(void) { atomic_store(&added, 0); }

/* Finds a handle by the address of an interface (there is one for each memory): a hash table with open addressing.
 * Addresses of freed interfaces stay until another handle gets them. */
static struct {
  pthread_mutex_t lock;
  const void **interface, **handle; /* [room] */
  size_t n, room;                   /* room: a power of two */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t place_of(const void *interface) {
  size_t at = ((uintptr_t)interface >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20 & (known.room - 1);
  while (known.interface[at] && known.interface[at] != interface) at = (at + 1) & (known.room - 1);
  return at;
}

static const void *handle_at(const void *interface) {
  pthread_mutex_lock(&known.lock);
  const void *handle = known.room ? known.handle[place_of(interface)] : NULL;
  pthread_mutex_unlock(&known.lock);
  return handle;
}

/* Adds an interface. If memory is short, its copies are recorded without a handle. */
static void know(const void *interface, const void *handle) {
  pthread_mutex_lock(&known.lock);
  if (2 * known.n >= known.room) {
    const size_t old = known.room, room = old ? 2 * old : 1024;
    const void **was = known.interface, **of = known.handle;
    const void **interfaces = calloc(room, sizeof *interfaces), **handles = calloc(room, sizeof *handles);
    if (!interfaces || !handles) {
      free(interfaces), free(handles);
      goto out;
    }
    known.interface = interfaces, known.handle = handles, known.room = room;
    for (size_t i = 0; i < old; i++)
      if (was[i]) {
        const size_t at = place_of(was[i]);
        known.interface[at] = was[i], known.handle[at] = of[i];
      }
    free(was), free(of);
  }
  const size_t at = place_of(interface);
  known.n += !known.interface[at];
  known.interface[at] = interface, known.handle[at] = handle;
out:
  pthread_mutex_unlock(&known.lock);
}

static void add(unsigned from, unsigned to, size_t bytes, const void *interface) {
  const int64_t number = atomic_load_explicit(&step, memory_order_relaxed), now = sl_now();
  if (number == 0) return;
  const double us = starpu_transfer_predict(from, to, bytes);
  ring[atomic_fetch_add(&added, 1) % MOST] =
      (sl_copy_record){.step = number,
                       .start = now,
                       .end = now + (us > 0 && us < 1e12 ? (int64_t)(1e3 * us) : 0),
                       .asked = now,
                       .bytes = (int64_t)bytes,
                       .data = handle_at(interface),
                       .from = (int32_t)from,
                       .to = (int32_t)to};
}

sl_status sl_transfers_snapshot(sl_copy_record **transfers, size_t *n) {
  const uint64_t count = atomic_load(&added), first = count > MOST ? count - MOST : 0;
  *n = (size_t)(count - first);
  *transfers = NULL;
  if (*n == 0) return SL_OK;
  if (!(*transfers = malloc(*n * sizeof **transfers))) return sl_no_memory("for the records of %zu copies", *n);
  int64_t free_at[STARPU_MAXNODES][STARPU_MAXNODES] = {{0}};
  for (uint64_t i = first; i < count; i++) {
    sl_copy_record *r = &(*transfers)[i - first];
    *r = ring[i % MOST];
    int64_t *link = &free_at[r->from][r->to];
    const int64_t late = *link > r->start ? *link - r->start : 0;
    r->start += late, r->end += late;
    *link = r->end;
  }
  return SL_OK;
}

/* ---- vectors that record their copies ---------------------------------------------------------------------------- */

static int copy(void *from, unsigned from_node, void *to, unsigned to_node, void *async) {
  const struct starpu_vector_interface *v = from;
  add(from_node, to_node, v->nx * v->elemsize, from);
  return starpu_interface_vector_ops.copy_methods->any_to_any(from, from_node, to, to_node, async);
}

static _Atomic size_t peak[STARPU_MAXNODES];

static size_t held(unsigned node) {
  const starpu_ssize_t all = starpu_memory_get_total(node), left = starpu_memory_get_available(node);
  return all > left ? (size_t)(all - left) : 0;
}

static void look(unsigned node) {
  const size_t now = held(node);
  size_t most = atomic_load_explicit(&peak[node], memory_order_relaxed);
  while (now > most && !atomic_compare_exchange_weak(&peak[node], &most, now)) continue;
}

size_t sl_transfers_peak(int node) { return atomic_load(&peak[node]); }
void sl_transfers_peak_restart(void) {
  for (int node = 0; node < sl_transfers_nodes(); node++) atomic_store(&peak[node], held((unsigned)node));
}

static starpu_ssize_t allocate(void *interface, unsigned node) {
  const starpu_ssize_t bytes = starpu_interface_vector_ops.allocate_data_on_node(interface, node);
  if (bytes > 0) look(node);
  return bytes;
}

/* StarPU's vectors, but with copy and allocate. */
static struct starpu_data_copy_methods copy_methods;
static struct starpu_data_interface_ops vector_ops;

static void set_vector_ops(void) {
  copy_methods = *starpu_interface_vector_ops.copy_methods;
  copy_methods.any_to_any = copy;
  vector_ops = starpu_interface_vector_ops;
  vector_ops.copy_methods = &copy_methods;
  vector_ops.allocate_data_on_node = allocate;
}

void sl_vector_register(starpu_data_handle_t *handle, void *data, size_t n, size_t bytes_each) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;               /* vectors may be registered while tasks use others */
  for (; n > UINT32_MAX && n % 2 == 0; n /= 2) bytes_each *= 2; /* StarPU counts elements in 32 bits */
  struct starpu_vector_interface vector = {.id = STARPU_VECTOR_INTERFACE_ID,
                                           .ptr = (uintptr_t)data,
                                           .dev_handle = (uintptr_t)data,
                                           .nx = (uint32_t)n,
                                           .elemsize = bytes_each,
                                           .allocsize = n * bytes_each};
  if (sl_transfers_nodes() < 2 || !starpu_interface_vector_ops.copy_methods->any_to_any) {
    starpu_vector_data_register(handle, STARPU_MAIN_RAM, (uintptr_t)data, (uint32_t)n, bytes_each);
  } else {
    pthread_once(&once, set_vector_ops);
    starpu_data_register(handle, STARPU_MAIN_RAM, &vector, &vector_ops);
    for (int node = 0; node < sl_transfers_nodes(); node++)
      know(starpu_data_get_interface_on_node(*handle, (unsigned)node), *handle);
  }
  starpu_data_set_sequential_consistency_flag(*handle, 0);
}
