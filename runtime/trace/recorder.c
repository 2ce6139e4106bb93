/* The ring buffer of records. */
#include "runtime/trace/recorder.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = sizeof(sl_record) / sizeof(uint64_t) };
_Static_assert(sizeof(sl_record) == 8 * WORDS, "a record is whole words");

/* One cache line. stamp is 2 i + 1 while record i is being written, and 2 i + 2 afterwards: a reader that finds the
 * same even stamp before and after its copy has a complete record. The words are atomic, so a copy that races with a
 * writer is no data race. */
typedef struct slot {
  _Alignas(64) _Atomic uint64_t stamp;
  _Atomic uint64_t word[WORDS];
} slot;

struct sl_recorder {
  _Alignas(64) _Atomic uint64_t next;  /* index of the next record */
  _Alignas(64) _Atomic uint64_t first; /* records before this one have been cleared */
  uint64_t mask;
  slot *slots;
};

sl_status sl_recorder_create(size_t capacity, sl_recorder **recorder) {
  *recorder = NULL;
  if (capacity == 0) capacity = SL_RECORDER_CAPACITY;
  if (capacity > (size_t)1 << 32)
    return sl_fail(SL_EINVAL, "a recorder of %zu records: at most 2^32 can be kept", capacity);
  size_t whole = 1;
  while (whole < capacity) whole *= 2;
  sl_recorder *made = aligned_alloc(64, sizeof *made);
  slot *slots = made ? aligned_alloc(64, whole * sizeof *slots) : NULL;
  if (!slots) {
    free(made);
    return sl_no_memory("for a recorder of %zu records", whole);
  }
  memset(slots, 0, whole * sizeof *slots); /* also touches the pages, so that no task pays for it */
  memset(made, 0, sizeof *made);
  made->mask = whole - 1;
  made->slots = slots;
  *recorder = made;
  return SL_OK;
}

size_t sl_recorder_bytes(void) { return sizeof(sl_recorder) + SL_RECORDER_CAPACITY * sizeof(slot); }

void sl_recorder_destroy(sl_recorder *recorder) {
  if (!recorder) return;
  free(recorder->slots);
  free(recorder);
}

void sl_recorder_add(sl_recorder *recorder, const sl_record *record) {
  const uint64_t i = atomic_fetch_add_explicit(&recorder->next, 1, memory_order_relaxed);
  slot *s = &recorder->slots[i & recorder->mask];
  uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed), word[WORDS];
  /* A thread that finds a writer one lap away in its slot drops its own record. */
  if (stamp & 1 || stamp > 2 * i ||
      !atomic_compare_exchange_strong_explicit(&s->stamp, &stamp, 2 * i + 1, memory_order_acquire,
                                               memory_order_relaxed))
    return;
  atomic_thread_fence(memory_order_release);
  memcpy(word, record, sizeof word);
  for (int w = 0; w < WORDS; w++) atomic_store_explicit(&s->word[w], word[w], memory_order_relaxed);
  atomic_store_explicit(&s->stamp, 2 * i + 2, memory_order_release);
}

void sl_recorder_clear(sl_recorder *recorder) { atomic_store(&recorder->first, atomic_load(&recorder->next)); }
size_t sl_recorder_capacity(const sl_recorder *recorder) { return (size_t)recorder->mask + 1; }
uint64_t sl_recorder_added(const sl_recorder *recorder) {
  return atomic_load_explicit(&recorder->next, memory_order_relaxed);
}

/* The oldest record since the last clear that the ring may still hold. */
static uint64_t oldest(const sl_recorder *recorder, uint64_t end) {
  const uint64_t capacity = recorder->mask + 1, first = atomic_load(&recorder->first);
  return end > capacity && first < end - capacity ? end - capacity : first;
}

uint64_t sl_recorder_lost(const sl_recorder *recorder) {
  const uint64_t first = atomic_load(&recorder->first);
  return oldest(recorder, atomic_load(&recorder->next)) - first;
}

sl_status sl_recorder_snapshot(const sl_recorder *recorder, sl_record **records, size_t *n) {
  *records = NULL;
  *n = 0;
  const uint64_t end = atomic_load(&recorder->next), begin = oldest(recorder, end);
  if (begin >= end) return SL_OK;
  sl_record *copy = malloc((size_t)(end - begin) * sizeof *copy);
  if (!copy) return sl_no_memory("for a copy of %" PRIu64 " task records", end - begin);
  size_t kept = 0;
  for (uint64_t i = begin; i < end; i++) {
    const slot *s = &recorder->slots[i & recorder->mask];
    uint64_t word[WORDS];
    if (atomic_load_explicit(&s->stamp, memory_order_acquire) != 2 * i + 2) continue;
    for (int w = 0; w < WORDS; w++) word[w] = atomic_load_explicit(&s->word[w], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&s->stamp, memory_order_relaxed) != 2 * i + 2) continue;
    memcpy(&copy[kept++], word, sizeof word);
  }
  if (kept == 0) {
    free(copy);
    return SL_OK;
  }
  *records = copy;
  *n = kept;
  return SL_OK;
}
