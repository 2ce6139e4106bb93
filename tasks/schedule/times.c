/* A list of times with a hash table of its entries. */
#include "tasks/schedule/times.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/numbers/hash.h"

struct sl_times {
  sl_time *time;
  int n;
  int *place; /* [room] index of an entry, plus 1; 0: free */
  int room;   /* a power of two, at least twice n */
  double overhead[SL_KINDS];
};

sl_status sl_times_create(sl_times **times) {
  *times = calloc(1, sizeof **times);
  return *times ? SL_OK : sl_no_memory("for measured times");
}

void sl_times_destroy(sl_times *t) {
  if (!t) return;
  free(t->time), free(t->place), free(t);
}

static uint32_t hash_of(const char *operation, uint32_t footprint) {
  uint32_t h = sl_hash32_number(SL_HASH32_START, footprint);
  for (; *operation; operation++) h = sl_hash32_number(h, (unsigned char)*operation);
  return h;
}

static int *place_of(const sl_times *t, const char *operation, uint32_t footprint) {
  uint32_t at = hash_of(operation, footprint) & (uint32_t)(t->room - 1);
  for (;; at = (at + 1) & (uint32_t)(t->room - 1)) {
    if (t->place[at] == 0) return &t->place[at];
    const sl_time *e = &t->time[t->place[at] - 1];
    if (e->footprint == footprint && strcmp(e->operation, operation) == 0) return &t->place[at];
  }
}

static sl_status grow(sl_times *t) {
  const int room = t->room ? 2 * t->room : 64;
  sl_time *time = realloc(t->time, (size_t)(room / 2) * sizeof *time);
  if (time) t->time = time;
  int *place = calloc((size_t)room, sizeof *place);
  if (!time || !place) {
    free(place);
    return sl_no_memory("for %d measured times", room / 2);
  }
  free(t->place);
  t->place = place, t->room = room;
  for (int i = 0; i < t->n; i++) *place_of(t, t->time[i].operation, t->time[i].footprint) = i + 1;
  return SL_OK;
}

sl_status sl_times_put(sl_times *t, const sl_time *time) {
  if (2 * (t->n + 1) > t->room) SL_TRY(grow(t));
  int *place = place_of(t, time->operation, time->footprint);
  if (*place == 0) {
    t->time[t->n] = *time;
    *place = ++t->n;
    return SL_OK;
  }
  sl_time *old = &t->time[*place - 1];
  for (int k = 0; k < SL_KINDS; k++)
    if (time->seconds[k] > 0) old->seconds[k] = time->seconds[k], old->deviation[k] = time->deviation[k];
  return SL_OK;
}

static const sl_time *find(const sl_times *t, const char *operation, uint32_t footprint) {
  static const sl_time none;
  if (!t || t->n == 0) return &none;
  const int place = *place_of(t, operation, footprint);
  return place ? &t->time[place - 1] : &none;
}

double sl_times_find(const sl_times *t, const char *operation, uint32_t footprint, int kind) {
  return find(t, operation, footprint)->seconds[kind];
}

double sl_times_deviation(const sl_times *t, const char *operation, uint32_t footprint, int kind) {
  return find(t, operation, footprint)->deviation[kind];
}

double sl_times_overhead(const sl_times *t, int kind) { return t ? t->overhead[kind] : 0; }
void sl_times_set_overhead(sl_times *t, int kind, double seconds) { t->overhead[kind] = seconds; }

int sl_times_count(const sl_times *t) { return t->n; }
const sl_time *sl_times_at(const sl_times *t, int i) { return &t->time[i]; }
