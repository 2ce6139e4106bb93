/* Records what the threads of this process are doing, for the watch: each thread keeps a short stack of activities,
 * which any thread can read. */
#ifndef SL_ACTIVITY_H
#define SL_ACTIVITY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_activity_kind {
  SL_WORKS,
  SL_WORKS_LONG, /* work that may take minutes without a sign, such as StarPU's measurement of the buses */
  SL_WAITS       /* for other ranks */
} sl_activity_kind;

/* Begins an activity of the calling thread, nested in its current one. what: a noun phrase with static storage. */
void sl_activity_begin(sl_activity_kind kind, const char *what);
void sl_activity_end(void);
int sl_activity_end_with(int result); /* returns it */

/* Begins a file-system call that may hang: "write", "fsync". path is copied. aside: nothing waits for the call, so
 * sl_activity_read leaves it out. */
void sl_activity_begin_call(const char *call, const char *path, int aside);
/* Ends the call. Counts as progress unless the result is negative or `aside` was set. Returns the result; keeps
 * errno. */
long sl_activity_end_call(long result);
#define SL_CALL_OF_FILE(name, path, call) (sl_activity_begin_call(name, path, 0), sl_activity_end_call(call))
/* Likewise for a call that returns a pointer. */
void *sl_activity_end_pointer(void *result);
#define SL_POINTER_OF_FILE(name, path, call) (sl_activity_begin_call(name, path, 0), sl_activity_end_pointer(call))
/* Reports progress, such as a written part of a file. Each begin and end counts as progress, too. */
void sl_activity_move(void);

/* All threads of the process. */
typedef struct sl_activities {
  int waits, works, works_long; /* threads whose innermost activity is of that kind */
  int waits_long;               /* of `waits`: threads that wait inside an SL_WORKS_LONG activity */
  unsigned long moves;          /* so far */
} sl_activities;

/* text[n]: what the threads do, outer activities first: "the start: an agreement among the ranks; a checkpoint". Empty
 * where no thread has an activity. */
sl_activities sl_activity_read(char *text, size_t n);

/* The longest file-system call under way in any thread: "fsync of runs/a/metrics.jsonl". */
typedef struct sl_activity_call {
  char text[256];
  double seconds; /* so far; 0: there is none */
  double began;   /* sl_seconds() at its begin, which tells one call from the next of the same text */
  double waited;  /* seconds that the program's first thread has been in such a call or waiting; 0: it works */
} sl_activity_call;
sl_activity_call sl_activity_longest_call(void);

#ifdef __cplusplus
}
#endif
#endif
