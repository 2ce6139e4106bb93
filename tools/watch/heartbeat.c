/* The heartbeat's thread and file. Each beat is renamed into place without fsync, except the last: losing a beat in a
 * crash does no harm. */
#include "tools/watch/heartbeat.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/machine/comm.h"

enum { PATH = 4200, PROCESS = 128 };

static const char *const states[] = {"starting", "training", "validating", "checkpointing", "ended"};

static struct beat {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t thread;
  int open, beats, leave, ranks; /* beats: this rank has the thread */
  char path[PATH], temporary[PATH], host[64];
  char *processes; /* JSON */
  sl__heartbeat_state state;
  int64_t from, step, steps;
  double loss;
  int exit_code;
  int now;    /* write at once */
  ino_t ours; /* of the file last written; if it differs, another rank has ended the job */
} b = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* The file's text; the caller frees it. NULL: no memory. Call with the lock held. */
static char *text_of(size_t *n) {
  char date[32], code[16] = "null", loss[32] = "null", launch[128] = "";
  struct timespec now;
  struct tm utc;
  char *text = NULL;
  clock_gettime(CLOCK_REALTIME, &now);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
  if (b.state == SL__ENDED) snprintf(code, sizeof code, "%d", b.exit_code);
  if (isfinite(b.loss)) snprintf(loss, sizeof loss, "%.9g", b.loss);
  const char *variable = getenv(SL__HEARTBEAT_LAUNCH);
  if (variable && strlen(variable) < sizeof launch && !variable[strcspn(variable, "\"\\\n")])
    snprintf(launch, sizeof launch, "%s", variable);
  const int length =
      asprintf(&text,
               "{\n  \"state\": \"%s\",\n  \"exit_code\": %s,\n  \"step\": %lld,\n  \"steps\": %lld,\n"
               "  \"from_step\": %lld,\n  \"loss\": %s,\n  \"time\": \"%s.%03ldZ\",\n  \"host\": \"%s\",\n"
               "  \"pid\": %ld,\n  \"ranks\": %d,\n  \"launch\": \"%s\",\n  \"processes\": [%s]\n}\n",
               states[b.state], code, (long long)b.step, (long long)b.steps, (long long)b.from, loss, date,
               now.tv_nsec / 1000000, b.host, (long)getpid(), b.ranks, launch, b.processes ? b.processes : "");
  *n = length > 0 ? (size_t)length : 0;
  return length > 0 ? text : NULL;
}

/* A failure costs one beat. Call without the lock: training takes it, and the disk may hang. */
static void write_beat(char *text, size_t n) {
  struct stat info;
  if (b.ours && stat(b.path, &info) == 0 && info.st_ino != b.ours) return;
  sl_activity_begin_call("write", b.path, 1);
  const int fd = text ? open(b.temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  if (fd >= 0) {
    const int fine = write(fd, text, n) == (ssize_t)n && fstat(fd, &info) == 0;
    close(fd);
    if (!fine || rename(b.temporary, b.path) != 0)
      unlink(b.temporary);
    else
      b.ours = info.st_ino;
  }
  sl_activity_end_call(0);
}

static void beat(void) {
  size_t n;
  char *text = text_of(&n);
  pthread_mutex_unlock(&b.lock);
  write_beat(text, n);
  free(text);
  pthread_mutex_lock(&b.lock);
}

static void write_last(void) {
  size_t n;
  char *text = text_of(&n);
  if (text) sl_file_replace(b.path, text, n);
  free(text);
}

/* Also writes the last beat: if that fails, its error text does not replace the one that the main thread is about to
 * print. */
static void *run(void *arg) {
  (void)arg;
  pthread_mutex_lock(&b.lock);
  while (!b.leave) {
    struct timespec until;
    if (!b.now) {
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec++;
      pthread_cond_timedwait(&b.wake, &b.lock, &until);
    }
    b.now = 0;
    if (!b.leave) beat();
  }
  if (b.state == SL__ENDED) write_last();
  pthread_mutex_unlock(&b.lock);
  return NULL;
}

static void take_host(char *to, size_t n) {
  gethostname(to, n - 1);
  to[n - 1] = '\0';
  for (char *c = to; *c; c++)
    if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = '?';
}

/* Gathers the processes of all ranks on rank 0, as JSON. */
static sl_status gather(MPI_Comm comm, int rank, int ranks) {
  char mine[PROCESS], *all = NULL;
  snprintf(mine, sizeof mine, "{\"rank\": %d, \"host\": \"%s\", \"pid\": %ld}", rank, b.host, (long)getpid());
  if (rank == 0) all = calloc((size_t)ranks, PROCESS), b.processes = calloc((size_t)ranks, PROCESS + 2);
  sl_status status = rank > 0 || (all && b.processes) ? SL_OK : sl_no_memory("for the processes of %d ranks", ranks);
  SL_TRY_OUT(sl_comm_agree(comm, status));
  if (comm != MPI_COMM_NULL)
    SL_TRY_OUT(sl_comm_status(MPI_Gather(mine, PROCESS, MPI_CHAR, all, PROCESS, MPI_CHAR, 0, comm), "MPI_Gather"));
  else
    memcpy(all, mine, PROCESS);
  char *end = b.processes;
  for (int r = 0; r < ranks && rank == 0; r++) end += sprintf(end, "%s%s", r ? ", " : "", all + (size_t)r * PROCESS);
out:
  free(all);
  return status;
}

sl_status sl__heartbeat_open(const char *folder, MPI_Comm comm, int64_t step, int64_t steps) {
  int rank = 0;
  b.ranks = 1;
  if (comm != MPI_COMM_NULL) MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &b.ranks);
  take_host(b.host, sizeof b.host);
  SL_TRY(gather(comm, rank, b.ranks));
  snprintf(b.path, sizeof b.path, "%.4000s/" SL__HEARTBEAT_NAME, folder);
  snprintf(b.temporary, sizeof b.temporary, "%.4000s/." SL__HEARTBEAT_NAME ".%ld.tmp", folder, (long)getpid());
  b.from = b.step = step, b.steps = steps, b.loss = NAN, b.state = SL__STARTING;
  b.open = 1;
  if (rank > 0) return SL_OK;
  pthread_mutex_lock(&b.lock);
  beat();
  pthread_mutex_unlock(&b.lock);
  if (pthread_create(&b.thread, NULL, run, NULL) != 0) return sl_fail(SL_EIO, "no thread for the heartbeat");
  pthread_setname_np(b.thread, "sl-heartbeat");
  b.beats = 1;
  return SL_OK;
}

void sl__heartbeat_step(int64_t step, double loss) {
  if (!b.beats) return;
  pthread_mutex_lock(&b.lock);
  const int first = b.step == b.from;
  if (b.state != SL__ENDED) b.state = SL__TRAINING, b.step = step, b.loss = loss;
  if (first) b.now = 1, pthread_cond_signal(&b.wake); /* a launcher may be waiting for the first step */
  pthread_mutex_unlock(&b.lock);
}

void sl__heartbeat_is(sl__heartbeat_state state) {
  if (!b.beats) return;
  pthread_mutex_lock(&b.lock);
  if (b.state != SL__ENDED) b.state = state;
  pthread_mutex_unlock(&b.lock);
}

static void stop(void) {
  if (!b.beats) return;
  pthread_mutex_lock(&b.lock);
  b.leave = 1;
  pthread_cond_signal(&b.wake);
  pthread_mutex_unlock(&b.lock);
  sl_activity_begin(SL_WAITS, "the last heartbeat");
  pthread_join(b.thread, NULL);
  sl_activity_end();
  b.beats = 0;
}

void sl__heartbeat_end(int exit_code) {
  if (!b.beats) return;
  pthread_mutex_lock(&b.lock);
  b.state = SL__ENDED, b.exit_code = exit_code;
  pthread_mutex_unlock(&b.lock);
  sl__heartbeat_drop();
}

void sl__heartbeat_abort(int exit_code) {
  if (!b.open) return;
  if (b.beats) {
    sl__heartbeat_end(exit_code);
    return;
  }
  json_t *file;
  if (sl_json_read_regular(b.path, &file) != SL_OK) return;
  if (json_is_null(json_object_get(file, "exit_code"))) {
    json_object_set_new(file, "state", json_string(states[SL__ENDED]));
    json_object_set_new(file, "exit_code", json_integer(exit_code));
    sl_json_write(b.path, file);
  }
  json_decref(file);
}

void sl__heartbeat_drop(void) {
  stop();
  free(b.processes);
  b.processes = NULL, b.open = 0;
}

sl_status sl__heartbeat_read(const char *folder, sl__heartbeat *h) {
  char path[PATH];
  json_t *file;
  snprintf(path, sizeof path, "%.4000s/" SL__HEARTBEAT_NAME, folder);
  SL_TRY(sl_json_read_regular(path, &file));
  const char *launch = json_string_value(json_object_get(file, "launch"));
  const json_t *code = json_object_get(file, "exit_code");
  snprintf(h->launch, sizeof h->launch, "%s", launch ? launch : "");
  h->from = json_integer_value(json_object_get(file, "from_step"));
  h->step = json_integer_value(json_object_get(file, "step"));
  h->ranks = (int)json_integer_value(json_object_get(file, "ranks"));
  h->exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1;
  json_decref(file);
  return SL_OK;
}

/* The parsed file; NULL: it cannot be read. */
static json_t *read_file(const char *folder) {
  char path[PATH];
  json_t *file = NULL;
  snprintf(path, sizeof path, "%.4000s/" SL__HEARTBEAT_NAME, folder);
  return sl_json_read_regular(path, &file) == SL_OK ? file : NULL;
}

static int is_on(const json_t *process, const char *host) {
  const char *there = json_string_value(json_object_get(process, "host"));
  return !host || (there && strcmp(host, there) == 0);
}

int sl__heartbeat_rank(const char *folder, const char *host, long pid) {
  json_t *file = read_file(folder), *p;
  size_t i;
  int rank = -1;
  json_array_foreach(json_object_get(file, "processes"), i, p) {
    if (json_integer_value(json_object_get(p, "pid")) == pid && is_on(p, host))
      rank = (int)json_integer_value(json_object_get(p, "rank"));
  }
  json_decref(file);
  return rank;
}

int sl__heartbeat_processes(const char *folder, const char *host, long *pid, int n) {
  json_t *file = read_file(folder), *p;
  size_t i;
  int found = 0;
  json_array_foreach(json_object_get(file, "processes"), i, p) {
    if (found < n && is_on(p, host)) pid[found++] = (long)json_integer_value(json_object_get(p, "pid"));
  }
  json_decref(file);
  return found;
}
