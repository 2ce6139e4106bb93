/* Computes what a crash of the machine may leave of the files that tests/support/record.c has recorded. "replay LOG CUT
 * HOW SEED FOLDER" applies the first CUT operations of the log and writes what is left into FOLDER. CUT all: only
 * prints the number of operations.
 *
 * A file's bytes are safe once the file was synchronised, a folder's names once the folder was: POSIX promises this,
 * and no file system does worse. HOW says what is left of later changes: all; none; or some: each write, whole or its
 * first half, and each change of a name, by chance. Prints the step of the newest checkpoint whose name is safe; 0:
 * none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 4096, MOST = 1 << 14 };

typedef struct text {
  char *bytes;
  size_t n;
} text;
typedef struct change { /* of a file's bytes, or of a folder's names */
  size_t offset;        /* of bytes; with cut: the new length */
  text bytes;
  int cut;
  char *gone, *name; /* a name that is removed, a name that is added (either may be NULL) ... */
  int node;          /* ... for this */
} change;
typedef struct entry {
  char *name;
  int node;
} entry;
typedef struct node {
  int is_folder;
  text now, safe;         /* of a file: as programs see it; what is on the disk for sure */
  entry *names, *certain; /* of a folder, likewise */
  int n_names, n_certain;
  change *waits; /* since it was synchronised */
  int n_waits;
} node;

static node nodes[MOST];
static int n_nodes = 1; /* 0: the folder that was recorded */
static unsigned long long seed;

static void stop(const char *why, const char *what) {
  fprintf(stderr, "replay: %s %s\n", why, what);
  exit(2);
}
static void *more(void *p, size_t bytes) {
  if (!(p = realloc(p, bytes + 1))) stop("no memory", "");
  return p;
}
static int chance(void) { /* 0 to 3 */
  seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return (int)(seed >> 40 & 3);
}

/* ---- applying changes ------------------------------------------------------------------------------------------- */

static void change_bytes(text *t, const change *c, size_t part) {
  const size_t end = c->cut ? c->offset : c->offset + part;
  if (c->cut ? end != t->n : end > t->n) {
    t->bytes = more(t->bytes, end);
    if (end > t->n) memset(t->bytes + t->n, 0, end - t->n);
    t->n = end;
  }
  if (part) memcpy(t->bytes + c->offset, c->bytes.bytes, part);
}
static int find(const entry *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i].name, name) == 0) return i;
  return -1;
}
static void change_names(entry **names, int *n, const change *c) {
  int i = c->gone ? find(*names, *n, c->gone) : -1;
  if (i >= 0) (*names)[i] = (*names)[--*n];
  if (!c->name) return;
  if ((i = find(*names, *n, c->name)) < 0) {
    *names = more(*names, (size_t)(*n + 1) * sizeof **names);
    i = (*n)++;
    (*names)[i].name = c->name;
  }
  (*names)[i].node = c->node;
}
static void apply(node *to, change c) {
  if (to->is_folder)
    change_names(&to->names, &to->n_names, &c);
  else
    change_bytes(&to->now, &c, c.bytes.n);
  to->waits = more(to->waits, (size_t)(to->n_waits + 1) * sizeof c);
  to->waits[to->n_waits++] = c;
}
/* Waiting changes reach the disk: all of them, or each by chance. */
static void settle(node *of, int all) {
  for (int i = 0; i < of->n_waits; i++) {
    const change *c = &of->waits[i];
    const int luck = all ? 3 : chance();
    if (luck == 0 || (of->is_folder && luck == 1)) continue;
    if (of->is_folder)
      change_names(&of->certain, &of->n_certain, c);
    else
      change_bytes(&of->safe, c, luck == 1 ? c->bytes.n / 2 : c->bytes.n);
  }
  of->n_waits = 0;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

/* The folder of a path, and its last name. */
static node *above(const char *path, char **name) {
  char part[PATH];
  int at = 0;
  for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    const int i = find(nodes[at].names, nodes[at].n_names, part);
    if (i < 0) stop("no folder for", path);
    at = nodes[at].names[i].node;
  }
  if (!(*name = strdup(path))) stop("no memory", "");
  return &nodes[at];
}
static int number_of(const char *path) {
  char *name;
  if (!*path) return 0;
  const node *folder = above(path, &name);
  const int i = find(folder->names, folder->n_names, name);
  if (i < 0) stop("nothing at", path);
  return folder->names[i].node;
}
static int new_node(int is_folder) {
  if (n_nodes == MOST) stop("too many files", "");
  nodes[n_nodes].is_folder = is_folder;
  return n_nodes++;
}
static void set(const char *gone, const char *path, int number) {
  char *name = NULL, *old = NULL;
  node *folder = path ? above(path, &name) : NULL, *from = gone ? above(gone, &old) : folder;
  if (folder && from != folder) stop("from one folder to another:", path);
  apply(from, (change){.gone = old, .name = name, .node = number});
}

static long step_of(const char *name) { return strncmp(name, "step-", 5) == 0 ? atol(name + 5) : 0; }

/* ---- the log ---------------------------------------------------------------------------------------------------- */

static long newest; /* checkpoint for sure */

static void synchronise(const char *path) {
  node *n = &nodes[number_of(path)];
  settle(n, 1);
  for (int i = 0; n->is_folder && i < n->n_certain; i++)
    if (step_of(n->certain[i].name) > newest) newest = step_of(n->certain[i].name);
}

static void take(FILE *log, char *line) {
  char *path = line + 2, *second = strchr(line, '\t');
  long long offset = 0, bytes = 0;
  change c = {.offset = 0};
  int used = 0;
  if (second) *second++ = '\0';
  switch (line[0]) {
    case 'C':
      set(NULL, path, new_node(0));
      break;
    case 'M':
      set(NULL, path, new_node(1));
      break;
    case 'R':
      set(path, second, number_of(path));
      break;
    case 'L':
      set(NULL, second, number_of(path));
      break;
    case 'U':
    case 'D':
      set(path, NULL, 0);
      break;
    case 'S':
      synchronise(path);
      break;
    case 'T':
      if (sscanf(path, "%lld %n", &bytes, &used) != 1) stop("not understood:", line);
      apply(&nodes[number_of(path + used)], (change){.cut = 1, .offset = (size_t)bytes});
      break;
    case 'W':
      if (sscanf(path, "%lld %lld %n", &offset, &bytes, &used) != 2) stop("not understood:", line);
      c = (change){.offset = (size_t)offset, .bytes = {more(NULL, (size_t)bytes), (size_t)bytes}};
      if (fread(c.bytes.bytes, 1, c.bytes.n, log) != c.bytes.n) stop("the log ends too early:", line);
      apply(&nodes[number_of(path + used)], c);
      break;
    default:
      stop("not understood:", line);
  }
}

static void put(const node *n, const char *path) {
  char below[PATH + 512];
  if (n->is_folder) {
    mkdir(path, 0777);
    for (int i = 0; i < n->n_certain; i++) {
      snprintf(below, sizeof below, "%s/%s", path, n->certain[i].name);
      put(&nodes[n->certain[i].node], below);
    }
    return;
  }
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(n->safe.bytes, 1, n->safe.n, file) != n->safe.n || fclose(file) != 0) stop("cannot write", path);
}

int main(int argc, char **argv) {
  char line[2 * PATH + 64];
  long operations = 0;
  FILE *log = argc == 6 ? fopen(argv[1], "rb") : NULL;
  if (!log) stop("usage: replay LOG CUT all|none|some SEED FOLDER;", argc > 1 ? argv[1] : "");
  const long cut = strcmp(argv[2], "all") == 0 ? -1 : atol(argv[2]);
  seed = strtoull(argv[4], NULL, 10) * 2654435761ULL + (unsigned long long)cut;
  nodes[0].is_folder = 1;
  for (; operations != cut && fgets(line, sizeof line, log); operations++) {
    line[strcspn(line, "\n")] = '\0';
    take(log, line);
  }
  fclose(log);
  if (cut < 0) {
    printf("%ld\n", operations);
    return 0;
  }
  for (int i = 0; i < n_nodes && strcmp(argv[3], "none") != 0; i++) settle(&nodes[i], strcmp(argv[3], "all") == 0);
  put(&nodes[0], argv[5]);
  printf("%ld\n", newest);
  return 0;
}
