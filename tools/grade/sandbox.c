/* What a program in the sandbox sees, as arguments of bwrap. */
#include "tools/grade/sandbox.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/grade/lesson.h"

#define INSIDE "/lesson" /* a program's folder, as the program sees it */
#define TMP_BYTES "67108864"
enum { FIRST_UID = 61184, UIDS = 4336 /* which no account has */ };

static sl_status add(sl__sandbox *s, const char *word) {
  if (s->n >= SL__SANDBOX_WORDS - 1) return sl_fail(SL_EUNSUPPORTED, "the sandbox has too many folders");
  if (!(s->word[s->n] = strdup(word))) return sl_no_memory("for the sandbox");
  s->n++;
  return SL_OK;
}

static sl_status add_all(sl__sandbox *s, const char *const *words) {
  for (; *words; words++) SL_TRY(add(s, *words));
  return SL_OK;
}
#define ADD(...) SL_TRY(add_all(s, (const char *const[]){__VA_ARGS__, NULL}))

static int is_system(const char *path) { return strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/opt/", 5) == 0; }

/* A path that a compiler or linker needs, read-only. */
static sl_status add_path(sl__sandbox *s, const char *path) {
  char headers[4096];
  static const char *const folders[] = {"runtime", "tasks", "codelets", "models"};
  if (*path != '/' || is_system(path)) return SL_OK;
  snprintf(headers, sizeof headers, "%s/tasks/graph", path);
  if (sl__kind_of(headers) != S_IFDIR) {
    ADD("--ro-bind-try", path, path);
    return SL_OK;
  }
  /* Starling's sources, or its installed headers: lessons and solutions may stand beside them. */
  for (int i = 0; i < 4; i++) {
    snprintf(headers, sizeof headers, "%s/%s", path, folders[i]);
    ADD("--ro-bind-try", headers, headers);
  }
  return SL_OK;
}

/* The words of a compiler's command line that name folders or libraries. */
static sl_status add_words(sl__sandbox *s, const char *question) {
  char *line = sl__pkg_config(question), *rest = line;
  sl_status status =
      line ? SL_OK
           : sl_fail(SL_EUNSUPPORTED,
                     "pkg-config does not find Starling: add the folder of starling.pc to PKG_CONFIG_PATH");
  for (char *word; status == SL_OK && (word = strsep(&rest, " "));) {
    if (strncmp(word, "-I", 2) == 0 || strncmp(word, "-L", 2) == 0)
      status = add_path(s, word + 2);
    else if (strncmp(word, "-Wl,-rpath,", 11) == 0)
      status = add_path(s, word + 11);
    else if (*word == '/')
      status = add_path(s, word);
  }
  free(line);
  return status;
}

/* The CUDA toolkit that nvcc, in its folder bin, belongs to. */
static sl_status add_toolkit(sl__sandbox *s) {
  char *nvcc = sl__pkg_config("--variable=nvcc"), *bin = nvcc ? strstr(nvcc, "/bin/nvcc") : NULL;
  if (bin) *bin = 0;
  const sl_status status = bin ? add_path(s, nvcc) : SL_OK;
  free(nvcc);
  return status;
}

/* Adds pkg-config's files: all of a folder named pkgconfig, and Starling's files of any other folder. */
static sl_status add_pkg_config(sl__sandbox *s) {
  char *path = strdup(getenv("PKG_CONFIG_PATH") ? getenv("PKG_CONFIG_PATH") : ""), *rest = path, file[4096];
  static const char *const files[] = {"starling.pc", "starling-uninstalled.pc"};
  sl_status status = path ? SL_OK : sl_no_memory("for a path");
  for (char *folder; status == SL_OK && (folder = strsep(&rest, ":"));) {
    const size_t n = strlen(folder);
    if (n > 10 && strcmp(folder + n - 10, "/pkgconfig") == 0) status = add_path(s, folder);
    for (int i = 0; i < 2 && *folder && status == SL_OK; i++) {
      snprintf(file, sizeof file, "%s/%s", folder, files[i]);
      status = add_path(s, file);
    }
  }
  free(path);
  return status;
}

/* The command and starling-sim, for lessons that simulate, with all that policies for it are compiled against. */
static sl_status add_simulator(sl__sandbox *s) {
  static const char *const files[] = {"starling-sim", "starling.pc", "starling-uninstalled.pc"};
  char *folder = sl__simulated_folder(), *starling = sl__pkg_config("--variable=starling"), file[4200];
  char *before = strdup(getenv("PKG_CONFIG_PATH") ? getenv("PKG_CONFIG_PATH") : "");
  sl_status status = before ? SL_OK : sl_no_memory("for a path");
  if (!folder || !starling || !before) goto out;
  s->simulator = sl__joined(folder, "starling-sim"), s->starling = realpath(starling, NULL);
  if (!s->simulator || !s->starling) SL_TRY_OUT(sl_no_memory("for a path"));
  SL_TRY_OUT(add_path(s, starling));
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(file, sizeof file, "%s/%s", folder, files[i]);
    SL_TRY_OUT(add_path(s, file));
  }
  setenv("PKG_CONFIG_PATH", folder, 1);
  status = add_words(s, "--cflags");
  if (status == SL_OK) status = add_words(s, "--libs");
  setenv("PKG_CONFIG_PATH", before, 1);
out:
  free(folder), free(starling), free(before);
  return status;
}

/* Adds a folder of the root or, if it is a symbolic link, the link. */
static sl_status add_root(sl__sandbox *s, const char *path) {
  char to[4096];
  const ssize_t n = readlink(path, to, sizeof to - 1);
  if (n > 0) {
    to[n] = 0;
    ADD("--symlink", to, path);
  } else
    ADD("--ro-bind-try", path, path);
  return SL_OK;
}

/* Puts an empty folder in the place of a folder of the system. */
static sl_status hide(sl__sandbox *s, const char *folder) {
  char path[PATH_MAX];
  if (!realpath(folder, path) || !is_system(path) || sl__kind_of(path) != S_IFDIR) return SL_OK;
  return add_all(s, (const char *const[]){"--size", "4096", "--tmpfs", path, "--remount-ro", path, NULL});
}

static sl_status make_arguments(sl__sandbox *s, const char *const *hidden) {
  ADD("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox");
  ADD("--ro-bind", "/usr", "/usr", "--ro-bind-try", "/opt", "/opt");
  static const char *const roots[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64"};
  for (int i = 0; i < 5; i++) SL_TRY(add_root(s, roots[i]));
  static const char *const parts[] = {"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
                                      "/sys/devices",      "/sys/bus",         "/sys/class",      "/sys/fs/cgroup"};
  for (int i = 0; i < 8; i++) ADD("--ro-bind-try", parts[i], parts[i]);
  ADD("--proc", "/proc", "--dev", "/dev", "--size", TMP_BYTES, "--tmpfs", "/dev/shm", "--remount-ro", "/dev");
  ADD("--size", TMP_BYTES, "--tmpfs", "/tmp");
  SL_TRY(add_words(s, "--cflags"));
  SL_TRY(add_words(s, "--libs"));
  SL_TRY(add_toolkit(s));
  SL_TRY(add_pkg_config(s));
  SL_TRY(add_simulator(s));
  /* Installed lessons hold the solutions, so programs see an empty folder in their place. */
  char *examples = sl__pkg_config("--variable=examples");
  sl_status status = examples ? hide(s, examples) : SL_OK;
  free(examples);
  for (int i = 0; status == SL_OK && hidden[i]; i++) status = hide(s, hidden[i]);
  return status;
}

static sl_status make_environment(sl__sandbox *s, const char *home) {
  const char *at = s->on ? "/tmp" : home, *pkg = getenv("PKG_CONFIG_PATH");
  char *text[] = {NULL, NULL, NULL, NULL, NULL};
  int n = 0;
  if (asprintf(&text[0], "HOME=%s", at) < 0 || asprintf(&text[1], "TMPDIR=%s", at) < 0 ||
      asprintf(&text[2], "STARPU_HOME=%s", at) < 0 || asprintf(&text[3], "PKG_CONFIG_PATH=%s", pkg ? pkg : "") < 0 ||
      (s->simulator &&
       asprintf(&text[4], "SIMULATED=%.*s", (int)(strrchr(s->simulator, '/') - s->simulator), s->simulator) < 0))
    return sl_no_memory("for an environment");
  while (s->environment[n]) free(s->environment[n]), s->environment[n++] = NULL;
  for (n = 0; n < 5 && text[n]; n++) s->environment[n] = text[n];
  s->environment[n++] = strdup("PATH=/usr/local/bin:/usr/bin:/bin");
  s->environment[n++] = strdup("LC_ALL=C"); /* compiler messages that all can read and that we can search */
  s->environment[n++] = strdup("STARPU_SILENT=1");
  return SL_OK;
}

/* Whether a small program runs in the sandbox. */
static int works(sl__sandbox *s, const char *folder, sl__trial *t) {
  char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"true & wait; echo fine", NULL};
  const sl__limits limits = {.seconds = 5, .bytes = (size_t)1 << 30, .processes = 64};
  return sl__sandbox_try(s, folder, 0, -1, argv, &limits, t) == SL_OK && t->exit == 0 &&
         strcmp(t->output, "fine\n") == 0;
}

/* Whether this user is root of the machine and not only root inside a user namespace. For root of the machine, the
 * kernel does not limit the number of processes. */
static int is_real_root(void) {
  long inside = 0, outside = 0;
  FILE *map = fopen("/proc/self/uid_map", "re");
  const int known = map && fscanf(map, "%ld %ld", &inside, &outside) == 2;
  if (map) fclose(map);
  return geteuid() == 0 && (!known || outside == 0);
}

/* Tries users, and with each of them the kernel's own limit on processes. Real root is no choice: a submission that
 * forks without end would stop the machine before the judge could end it. */
static int find_way(sl__sandbox *s, const char *folder, int unprotected, sl__trial *t) {
  for (int drop = geteuid() == 0; drop >= (is_real_root() && !unprotected); drop--)
    for (s->with_prlimit = 1; s->with_prlimit >= 0; s->with_prlimit--) {
      s->uid = drop ? (uid_t)(FIRST_UID + getpid() % UIDS) : 0;
      if (sl__sandbox_give(s, folder) == SL_OK && works(s, folder, t)) return 1;
    }
  s->with_prlimit = 0;
  return 0;
}

sl_status sl__sandbox_create(const char *home, const char *const *hidden, int unprotected, sl__sandbox *s) {
  sl__trial *t = malloc(sizeof *t);
  sl_status status = t ? SL_OK : sl_no_memory("for the sandbox");
  *s = (sl__sandbox){.on = 1};
  if (status == SL_OK) status = make_arguments(s, hidden);
  if (status == SL_OK) status = make_environment(s, home);
  if (status != SL_OK || find_way(s, home, unprotected, t)) goto out;
  t->output[strcspn(t->output, "\n")] = 0;
  if (!unprotected)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED,
                       "submissions cannot be shut in a sandbox here: %s. Install bubblewrap 0.7 or later (Debian: "
                       "apt-get install bubblewrap) on a system that allows user namespaces; or go on without one, in "
                       "a container or account that has nothing to lose: --unprotected",
                       t->exit == 127 ? "bwrap cannot be run" : t->output));
  s->on = 0;
  SL_TRY_OUT(make_environment(s, home));
  if (!find_way(s, home, unprotected, t)) status = sl_fail(SL_EUNSUPPORTED, "no program can be run: %s", t->output);
out:
  free(t);
  return status;
}

void sl__sandbox_free(sl__sandbox *s) {
  while (s->n > 0) free(s->word[--s->n]);
  for (int i = 0; i < 16; i++) free(s->environment[i]), s->environment[i] = NULL;
  free(s->simulator), free(s->starling), s->simulator = s->starling = NULL;
}

sl_status sl__sandbox_give(const sl__sandbox *s, const char *folder) {
  DIR *d = s->uid ? opendir(folder) : NULL;
  if (!d) return SL_OK;
  int bad = lchown(folder, s->uid, s->uid);
  for (struct dirent *entry; (entry = readdir(d));) {
    if (entry->d_name[0] == '.') continue;
    char *path = sl__joined(folder, entry->d_name);
    bad |= !path || lchown(path, s->uid, s->uid) != 0;
    free(path);
  }
  closedir(d);
  return bad ? sl_fail(SL_EIO, "cannot give %s to another user", folder) : SL_OK;
}

sl_status sl__sandbox_try(const sl__sandbox *s, const char *folder, int may_write, int in, char *const argv[],
                          const sl__limits *limits, sl__trial *trial) {
  char *words[SL__SANDBOX_WORDS + 40], most[64];
  int n = 0;
  if (s->on) {
    const char *const at[] = {
        may_write ? "--bind" : "--ro-bind", folder, INSIDE, "--chdir", INSIDE, "--remount-ro", "/", "--"};
    for (; n < s->n; n++) words[n] = s->word[n];
    if (s->simulator && !s->simulates) {
      char *const hidden[] = {s->simulator, s->starling};
      for (int i = 0; i < 2; i++) {
        words[n++] = (char *)(uintptr_t) "--ro-bind", words[n++] = (char *)(uintptr_t) "/dev/null";
        words[n++] = hidden[i];
      }
    }
    for (int i = 0; i < 8; i++) words[n++] = (char *)(uintptr_t)at[i];
  }
  if (s->with_prlimit) { /* threads count, too */
    snprintf(most, sizeof most, "--nproc=%ld", limits->processes + 16 * sysconf(_SC_NPROCESSORS_ONLN));
    words[n++] = (char *)(uintptr_t) "prlimit";
    words[n++] = most;
    words[n++] = (char *)(uintptr_t) "--";
  }
  for (int i = 0; argv[i] && i < 16; i++) words[n++] = argv[i];
  words[n] = NULL;
  const sl__attempt run = {.folder = folder, .argv = words, .environment = s->environment, .in = in, .uid = s->uid};
  return sl__try(&run, limits, trial);
}
