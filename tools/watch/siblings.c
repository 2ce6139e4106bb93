/* Reads the processes of this host, and their threads, from /proc. */
#include "tools/watch/siblings.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t read_text(const char *path, char *text, size_t n) {
  FILE *file = fopen(path, "re");
  const size_t got = file ? fread(text, 1, n - 1, file) : 0;
  if (file) fclose(file);
  text[got] = '\0';
  return got;
}

static int rank_of(pid_t pid) {
  static char text[1 << 16];
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
  const size_t n = read_text(path, text, sizeof text);
  for (const char *at = text; at < text + n; at += strlen(at) + 1)
    if (strncmp(at, "PMI_RANK=", 9) == 0) return atoi(at + 9);
  return -1;
}

/* Returns whether the process exists. */
static int read_stat(const char *path, char *state, long *parent) {
  char text[512];
  const char *end = read_text(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
  return end && sscanf(end + 1, " %c %ld", state, parent) == 2;
}

/* The next process in /proc that has this one's parent; 0: there is none. */
static pid_t next_sibling(DIR *all, char *state) {
  for (struct dirent *d; (d = readdir(all));) {
    char path[300];
    long parent;
    if (!isdigit((unsigned char)d->d_name[0])) continue;
    snprintf(path, sizeof path, "/proc/%s/stat", d->d_name);
    if (read_stat(path, state, &parent) && parent == (long)getppid()) return (pid_t)atol(d->d_name);
  }
  return 0;
}

int sl__siblings_find(sl__sibling *found) {
  char state;
  int n = 0;
  DIR *all = opendir("/proc");
  for (pid_t pid; all && n < SL__SIBLINGS_MOST && (pid = next_sibling(all, &state));)
    found[n++] = (sl__sibling){pid, rank_of(pid), state};
  if (all) closedir(all);
  return n;
}

int sl__siblings_standing(void) {
  char state;
  int n = 0;
  DIR *all = opendir("/proc");
  while (all && next_sibling(all, &state)) n += state == 'T' || state == 't';
  if (all) closedir(all);
  return n;
}

char sl__process_state(pid_t pid) {
  char path[64], state = '?';
  long parent;
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  return read_stat(path, &state, &parent) ? state : '?';
}

int sl__process_catches(pid_t pid, int signal) {
  char path[64], line[256];
  unsigned long long caught = 0;
  snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "SigCgt: %llx", &caught) == 1) break;
  if (file) fclose(file);
  return (int)(caught >> (signal - 1) & 1);
}

/* The first line of a thread's file in /proc; empty if it cannot be read. */
static const char *line_of(const char *folder, const char *thread, const char *name, char *text, size_t n) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s/%s", folder, thread, name);
  read_text(path, text, n);
  text[strcspn(text, "\n")] = '\0';
  return text;
}

json_t *sl__process_threads(pid_t pid) {
  char folder[64], name[64], in[128], call[256], stat[512];
  snprintf(folder, sizeof folder, "/proc/%ld/task", (long)pid);
  json_t *threads = json_array();
  DIR *all = opendir(folder);
  for (struct dirent *d; all && threads && (d = readdir(all));) {
    char state[2] = "?";
    long parent;
    if (!isdigit((unsigned char)d->d_name[0])) continue;
    snprintf(stat, sizeof stat, "%s/%s/stat", folder, d->d_name);
    read_stat(stat, state, &parent);
    json_array_append_new(threads, json_pack("{s:I, s:s*, s:s, s:s*, s:s*}", "thread", (json_int_t)atol(d->d_name),
                                             "name", line_of(folder, d->d_name, "comm", name, sizeof name), "state",
                                             state, "in", line_of(folder, d->d_name, "wchan", in, sizeof in), "syscall",
                                             line_of(folder, d->d_name, "syscall", call, sizeof call)));
  }
  if (all) closedir(all);
  return threads;
}
