/* Writes a rank's part of the stall file, and joins the parts. */
#include "tools/watch/stall.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "tools/watch/siblings.h"
#include "tools/watch/stacks.h"

enum { AGE = 30 /* s: an older part belongs to an earlier stall */, PATH = 4200 };

static const char *part_path(const char *folder, int rank, char *path) {
  snprintf(path, PATH, "%s/.stall-%d.part", folder, rank);
  return path;
}

static const char *state_name(char state) {
  return state == 'T' || state == 't' ? "stopped by a signal"
         : state == 'D'               ? "waits for a device"
         : state == 'Z'               ? "dead"
         : state == '?'               ? "gone"
                                      : "runs";
}

/* Renames the file into place without fsync: the disk may be what hangs. */
static sl_status write_json(const char *path, const json_t *value) {
  char temporary[PATH + 8];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  if (value && json_dump_file(value, temporary, JSON_INDENT(2)) == 0 && rename(temporary, path) == 0) return SL_OK;
  unlink(temporary);
  return sl_fail(SL_EIO, "cannot write %s", path);
}

/* A rank's object, without threads. */
static json_t *object_of(const sl__stall_rank *r) {
  json_t *object = json_object();
  json_object_set_new(object, "rank", json_integer(r->rank));
  if (*r->host) json_object_set_new(object, "host", json_string(r->host));
  if (r->pid) json_object_set_new(object, "pid", json_integer(r->pid));
  if (r->state) json_object_set_new(object, "process", json_string(state_name(r->state)));
  json_object_set_new(object, "in", json_string(*r->place ? r->place : "its own computation"));
  json_object_set_new(object, "waits", json_boolean(r->waits));
  return object;
}

sl_status sl__stall_write_part(const char *folder, const sl__stall_rank *mine, double still, const char *waits_for,
                               const char *late, int ranks) {
  char path[PATH];
  json_t *part = object_of(mine), *whom = json_array();
  json_object_set_new(part, "still_s", json_real(still));
  for (int r = 0; r < ranks && mine->waits; r++)
    if (late[r] && r != mine->rank) json_array_append_new(whom, json_integer(r));
  if (*waits_for) json_object_set_new(part, "what", json_string(waits_for));
  if (json_array_size(whom) > 0) json_object_set(part, "waits_for", whom);
  json_decref(whom);
  json_object_set_new(part, "threads", sl__stacks_json());
  const sl_status status = write_json(part_path(folder, mine->rank, path), part);
  json_decref(part);
  return status;
}

int sl__stall_has_part(const char *folder, int rank, double age) {
  char path[PATH];
  struct stat info;
  struct timespec now;
  if (stat(part_path(folder, rank, path), &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return 0;
  return (double)(now.tv_sec - info.st_mtim.tv_sec) + 1e-9 * (double)(now.tv_nsec - info.st_mtim.tv_nsec) < age;
}

void sl__stall_ask(sl__stall_rank *all, int ranks, int go_on) {
  static sl__sibling found[SL__SIBLINGS_MOST];
  static char host[64];
  const int n = sl__siblings_find(found);
  gethostname(host, sizeof host - 1);
  for (int i = 0; i < n; i++) {
    if (found[i].rank < 0 || found[i].rank >= ranks) continue;
    sl__stall_rank *r = &all[found[i].rank];
    const int stands = sl__sibling_stands(&found[i]);
    r->pid = found[i].pid, r->state = found[i].state;
    if (!*r->host) r->host = host;
    if (stands && !go_on) continue;
    r->asked = sl__stacks_ask(found[i].pid);
    if (stands && r->asked) kill(found[i].pid, SIGCONT);
  }
}

void sl__stall_wait(const char *folder, const sl__stall_rank *all, int ranks, int most_ms) {
  enum { STEP = 20 };
  for (int waited = 0; waited < most_ms; waited += STEP) {
    int missing = 0;
    for (int r = 0; r < ranks; r++) missing += all[r].asked && !sl__stall_has_part(folder, r, 2e-3 * most_ms);
    if (!missing) return;
    usleep(STEP * 1000);
  }
}

/* Returns the rank's own part or, if it wrote none, what this rank knows about it. */
static json_t *rank_of(const char *folder, const sl__stall_rank *r) {
  char path[PATH];
  json_t *object = NULL;
  if (sl__stall_has_part(folder, r->rank, AGE)) sl_json_read_regular(part_path(folder, r->rank, path), &object);
  if (object) {
    if (r->state) json_object_set_new(object, "process", json_string(state_name(r->state)));
  } else {
    object = object_of(r);
    if (r->pid) json_object_set_new(object, "threads", sl__process_threads((pid_t)r->pid));
    json_object_set_new(object, "note", json_string("this rank wrote nothing itself"));
  }
  json_object_set_new(object, "late", json_boolean(r->late));
  if (r->heard >= 0) json_object_set_new(object, "heard_s", json_real(r->heard));
  return object;
}

sl_status sl__stall_write(const char *folder, const char *message, double seconds, const sl__stall_rank *all, int ranks,
                          int told_by, char *path, size_t n) {
  char date[32], part[PATH];
  const time_t now = time(NULL);
  struct tm local;
  json_t *late = json_array(), *of_ranks = json_array();
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
  snprintf(path, n, "%s/stall-%s.json", folder, date);
  for (int r = 0; r < ranks; r++) {
    if (all[r].late) json_array_append_new(late, json_integer(r));
    json_array_append_new(of_ranks, rank_of(folder, &all[r]));
  }
  json_t *whole = json_pack("{s:s, s:s, s:f, s:i, s:o, s:o}", "message", message, "time", date, "seconds", seconds,
                            "told_by", told_by, "late", late, "ranks", of_ranks);
  const sl_status status = write_json(path, whole);
  json_decref(whole);
  for (int r = 0; r < ranks && status == SL_OK; r++) unlink(part_path(folder, r, part));
  return status;
}
