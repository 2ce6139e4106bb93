/* Activities of threads. A thread writes only its own slot. The slot's version is odd while the thread begins an
 * activity, so that readers know when to try again. */
#include "runtime/base/activity.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/time.h"

/* WORDS: the end of a path, in words of 8 bytes. CALL and ASIDE are added to an sl_activity_kind. */
enum { SLOTS = 16, DEPTH = 6, TRIES = 100, WORDS = 24, CALL = 1 << 8, ASIDE = 1 << 9 };

typedef struct slot {
  atomic_uint version;
  atomic_int depth; /* may exceed DEPTH; deeper activities are not kept */
  _Atomic(const char *) what[DEPTH];
  atomic_int kind[DEPTH];        /* sl_activity_kind, with CALL and ASIDE */
  _Atomic(double) since;         /* seconds, of the last begin or end */
  _Atomic(uint64_t) path[WORDS]; /* of the innermost activity, if it is a CALL */
  atomic_int first;              /* whether the thread is the program's first */
  atomic_int taken;              /* whether a thread has the slot */
} slot;

/* A copy of a slot. */
typedef struct stack {
  const char *what[DEPTH];
  int kind[DEPTH], depth, first;
  double since;
  char path[8 * WORDS + 1];
} stack;

static slot slots[SLOTS];
static atomic_ulong moves;
/* The number of this thread's slot + 1; 0: none yet; above SLOTS: none was free, so nobody sees this thread. */
static _Thread_local int mine;
static pthread_key_t key; /* the thread's slot, given back when the thread ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void give_back(void *arg) {
  slot *s = arg;
  atomic_store(&s->depth, 0);
  atomic_store(&s->taken, 0);
}
static void make_key(void) { pthread_key_create(&key, give_back); }

static slot *own(void) {
  if (mine == 0) {
    pthread_once(&once, make_key);
    for (mine = 1; mine <= SLOTS; mine++) {
      int free = 0;
      if (atomic_compare_exchange_strong(&slots[mine - 1].taken, &free, 1)) break;
    }
    if (mine <= SLOTS) {
      atomic_store(&slots[mine - 1].first, gettid() == getpid());
      pthread_setspecific(key, &slots[mine - 1]);
    }
  }
  return mine <= SLOTS ? &slots[mine - 1] : NULL;
}

void sl_activity_move(void) { atomic_fetch_add(&moves, 1); }

static void begin(int kind, const char *what, const char *path) {
  slot *s = own();
  if (!s) return;
  const int depth = atomic_load(&s->depth);
  atomic_fetch_add(&s->version, 1);
  if (depth < DEPTH) {
    atomic_store(&s->what[depth], what);
    atomic_store(&s->kind[depth], kind);
    if (path) {
      char text[8 * WORDS] = "";
      const size_t n = strlen(path), most = sizeof text;
      uint64_t words[WORDS];
      memcpy(text, n > most ? path + n - most : path, n > most ? most : n);
      memcpy(words, text, most);
      for (int i = 0; i < WORDS; i++) atomic_store_explicit(&s->path[i], words[i], memory_order_relaxed);
    }
  }
  atomic_store(&s->since, sl_seconds());
  atomic_store(&s->depth, depth + 1);
  atomic_fetch_add(&s->version, 1);
}

/* Ends the innermost activity. Returns its kind; -1: it was not kept. */
static int end(void) {
  slot *s = own();
  const int depth = s ? atomic_load(&s->depth) : 0;
  if (depth == 0) return -1;
  atomic_store(&s->since, sl_seconds());
  atomic_store(&s->depth, depth - 1);
  return depth <= DEPTH ? atomic_load(&s->kind[depth - 1]) : -1;
}

void sl_activity_begin(sl_activity_kind kind, const char *what) {
  sl_activity_move();
  begin((int)kind, what, NULL);
}

void sl_activity_end(void) {
  sl_activity_move();
  end();
}

int sl_activity_end_with(int result) {
  sl_activity_end();
  return result;
}

void sl_activity_begin_call(const char *call, const char *path, int aside) {
  begin(SL_WORKS | CALL | (aside ? ASIDE : 0), call, path);
}

long sl_activity_end_call(long result) {
  const int error = errno, kind = end();
  if (result >= 0 && (kind < 0 || !(kind & ASIDE))) sl_activity_move();
  errno = error;
  return result;
}

void *sl_activity_end_pointer(void *result) {
  sl_activity_end_call(result ? 0 : -1);
  return result;
}

/* Copies a slot and returns its depth. 0: no activity, or the slot keeps changing, so the thread is not stuck. */
static int copy(slot *s, stack *to) {
  uint64_t words[WORDS];
  for (int i = 0; i < TRIES; i++) {
    const unsigned before = atomic_load(&s->version);
    to->depth = atomic_load(&s->depth);
    if (to->depth > DEPTH) to->depth = DEPTH;
    for (int k = 0; k < to->depth; k++) to->what[k] = atomic_load(&s->what[k]), to->kind[k] = atomic_load(&s->kind[k]);
    for (int k = 0; k < WORDS; k++) words[k] = atomic_load_explicit(&s->path[k], memory_order_relaxed);
    to->since = atomic_load(&s->since);
    if (before % 2 == 0 && atomic_load(&s->version) == before) {
      memcpy(to->path, words, sizeof words);
      to->path[sizeof words] = '\0';
      to->first = atomic_load(&s->first);
      return to->depth;
    }
  }
  return to->depth = 0;
}

sl_activities sl_activity_read(char *text, size_t n) {
  sl_activities all = {.moves = atomic_load(&moves)};
  const char *between = "";
  stack t;
  size_t at = 0;
  if (n) text[0] = '\0';
  for (int i = 0; i < SLOTS; i++) {
    const int depth = copy(&slots[i], &t), kind = depth ? t.kind[depth - 1] : ASIDE;
    if (kind & ASIDE) continue;
    int inside_long = 0;
    for (int k = 0; k < depth; k++) {
      inside_long |= t.kind[k] == SL_WORKS_LONG;
      if (at < n) at += (size_t)snprintf(text + at, n - at, "%s%s", between, t.what[k]);
      between = ": ";
    }
    if ((kind & CALL) && at < n) at += (size_t)snprintf(text + at, n - at, " of %s", t.path);
    between = "; ";
    switch ((sl_activity_kind)(kind & ~CALL)) {
      case SL_WORKS:
        all.works++;
        break;
      case SL_WORKS_LONG:
        all.works_long++;
        break;
      case SL_WAITS:
        all.waits++;
        all.waits_long += inside_long;
        break;
    }
  }
  return all;
}

sl_activity_call sl_activity_longest_call(void) {
  sl_activity_call longest = {.text = ""};
  stack t;
  const double now = sl_seconds();
  for (int i = 0; i < SLOTS; i++) {
    const int depth = copy(&slots[i], &t), kind = depth ? t.kind[depth - 1] : 0;
    if (t.first && depth && ((kind & CALL) || kind == SL_WAITS)) longest.waited = now - t.since;
    if (!(kind & CALL) || now - t.since <= longest.seconds) continue;
    longest.seconds = now - t.since, longest.began = t.since;
    snprintf(longest.text, sizeof longest.text, "%s of %s", t.what[depth - 1], t.path);
  }
  return longest;
}
