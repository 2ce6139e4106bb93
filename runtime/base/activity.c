/* Activities of threads. A thread writes only its own slot; a version, odd while it writes, tells readers to try again.
 */
#include "runtime/base/activity.h"

#include <stdatomic.h>
#include <stdio.h>

enum { SLOTS = 16, DEPTH = 6, TRIES = 100 };

typedef struct slot {
  atomic_uint version;
  atomic_int depth; /* may exceed DEPTH; what is deeper is not kept */
  _Atomic(const char *) what[DEPTH];
  atomic_int kind[DEPTH];
} slot;

static slot slots[SLOTS];
static atomic_int taken; /* slots; threads beyond SLOTS are not seen */
static atomic_ulong moves;
static _Thread_local int mine; /* number of the slot + 1; 0: none yet */

static slot *own(void) {
  if (mine == 0) mine = atomic_fetch_add(&taken, 1) + 1;
  return mine <= SLOTS ? &slots[mine - 1] : NULL;
}

void sl_activity_move(void) { atomic_fetch_add(&moves, 1); }

void sl_activity_begin(sl_activity_kind kind, const char *what) {
  slot *s = own();
  sl_activity_move();
  if (!s) return;
  const int depth = atomic_load(&s->depth);
  atomic_fetch_add(&s->version, 1);
  if (depth < DEPTH) {
    atomic_store(&s->what[depth], what);
    atomic_store(&s->kind[depth], (int)kind);
  }
  atomic_store(&s->depth, depth + 1);
  atomic_fetch_add(&s->version, 1);
}

void sl_activity_end(void) {
  slot *s = own();
  sl_activity_move();
  if (s && atomic_load(&s->depth) > 0) atomic_fetch_sub(&s->depth, 1);
}

int sl_activity_end_with(int result) {
  sl_activity_end();
  return result;
}

/* A copy of a slot's stack; returns its depth. */
static int copy(slot *s, const char **what, int *kind) {
  int depth = 0;
  for (int i = 0; i < TRIES; i++) {
    const unsigned before = atomic_load(&s->version);
    depth = atomic_load(&s->depth);
    if (depth > DEPTH) depth = DEPTH;
    for (int k = 0; k < depth; k++) what[k] = atomic_load(&s->what[k]), kind[k] = atomic_load(&s->kind[k]);
    if (before % 2 == 0 && atomic_load(&s->version) == before) return depth;
  }
  return 0; /* it changes all the time, so it neither waits nor stands still */
}

sl_activities sl_activity_read(char *text, size_t n) {
  sl_activities all = {.moves = atomic_load(&moves)};
  const char *what[DEPTH], *between = "";
  int kind[DEPTH];
  const int last = atomic_load(&taken);
  size_t at = 0;
  if (n) text[0] = '\0';
  for (int i = 0; i < last && i < SLOTS; i++) {
    const int depth = copy(&slots[i], what, kind);
    if (depth == 0) continue;
    for (int k = 0; k < depth; k++) {
      if (at < n) at += (size_t)snprintf(text + at, n - at, "%s%s", between, what[k]);
      between = ": ";
    }
    between = "; ";
    switch ((sl_activity_kind)kind[depth - 1]) {
      case SL_WORKS:
        all.works++;
        break;
      case SL_WORKS_LONG:
        all.works_long++;
        break;
      case SL_WAITS:
        all.waits++;
        break;
    }
  }
  return all;
}
