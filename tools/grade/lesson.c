/* Finding a lesson and reading it into memory. */
#include "tools/grade/lesson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"

/* The folder of this program, and where an installation has its pkg-config files, seen from there. */
static const char *const places[] = {"", "/../lib/pkgconfig", "/../lib64/pkgconfig",
                                     "/../lib/x86_64-linux-gnu/pkgconfig"};

static int own_folder(char *self, size_t n) {
  const ssize_t length = readlink("/proc/self/exe", self, n - 1);
  self[length > 0 ? length : 0] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  return slash != NULL;
}

char *sl__pkg_config_folder(void) {
  char self[4096], path[4200];
  if (!own_folder(self, sizeof self)) return NULL;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, sizeof path, "%s%s/starling.pc", self, places[i]);
    if (sl__kind_of(path) != S_IFREG) continue;
    *strrchr(path, '/') = 0;
    return realpath(path, NULL);
  }
  return NULL;
}

static void set_search_path(void) {
  const char *given = getenv("PKG_CONFIG_PATH");
  char *own = sl__pkg_config_folder(), *path;
  if (own && asprintf(&path, "%s%s%s", own, given ? ":" : "", given ? given : "") >= 0) {
    setenv("PKG_CONFIG_PATH", path, 1);
    free(path);
  }
  free(own);
}

char *sl__pkg_config(const char *question) {
  char command[256], line[16384] = "";
  snprintf(command, sizeof command, "pkg-config %s starling 2>/dev/null", question);
  FILE *answer = popen(command, "r");
  if (!answer) return NULL;
  if (!fgets(line, sizeof line, answer)) line[0] = 0;
  if (pclose(answer) != 0) return NULL;
  line[strcspn(line, "\n")] = 0;
  return strdup(line);
}

/* The lesson of that name, or of that number, in the folder of examples. */
static char *among(const char *examples, const char *name) {
  char *end, *path = sl__joined(examples, name);
  const long number = strtol(name, &end, 10);
  sl__names all = {.n = 0};
  if (sl__kind_of(path) == S_IFDIR || *end || end == name || sl__names_read(examples, &all) != SL_OK) return path;
  for (int i = 0; i < all.n; i++) {
    const long its = strtol(all.name[i], &end, 10);
    if (end == all.name[i] || *end != '-' || its != number) continue;
    free(path);
    path = sl__joined(examples, all.name[i]);
    break;
  }
  sl__names_free(&all);
  return path;
}

static sl_status find_folder(const char *name, sl__lesson *l) {
  if (sl__kind_of(name) == S_IFDIR) {
    l->folder = realpath(name, NULL);
  } else {
    char *examples = sl__pkg_config("--variable=examples");
    l->folder = among(examples && *examples ? examples : ".", name);
    if (sl__kind_of(l->folder) != S_IFDIR) {
      const sl_status status = sl_fail(
          SL_EINVAL, "no lesson '%s', neither as a folder nor in %s", name,
          examples ? examples
                   : "the examples, which pkg-config does not find: add the folder of starling.pc to PKG_CONFIG_PATH");
      free(examples);
      return status;
    }
    free(examples);
  }
  if (!l->folder) return sl_no_memory("for a path");
  const char *slash = strrchr(l->folder, '/');
  l->name = l->program = slash ? slash + 1 : l->folder;
  l->program += strspn(l->program, "0123456789");
  l->program += *l->program == '-';
  return SL_OK;
}

/* Whether a file is a program or a library. */
static int is_built(const char *path) {
  char begin[4] = "";
  FILE *file = sl_file_stream(path);
  const int built = file && fread(begin, 1, 4, file) == 4 && memcmp(begin, "\177ELF", 4) == 0;
  if (file) fclose(file);
  return built;
}

/* Adds a folder's regular files, except those that `except` names and files that were built there. */
static sl_status read_files(const char *folder, const sl__names *except, sl__texts *texts) {
  sl__names files;
  sl_status status = SL_OK;
  SL_TRY(sl__names_read(folder, &files));
  for (int i = 0; i < files.n && status == SL_OK; i++) {
    char *path = sl__joined(folder, files.name[i]);
    if (sl__kind_of(path) == S_IFREG && !sl__names_hold(except, files.name[i]) && !is_built(path))
      status = sl__texts_read(texts, path, files.name[i]);
    free(path);
  }
  sl__names_free(&files);
  return status;
}

sl_status sl__lesson_find(const char *name, sl__lesson *l) {
  set_search_path();
  SL_TRY(find_folder(name, l));
  char *skeleton = sl__joined(l->folder, "skeleton"), *makefile = sl__joined(l->folder, "Makefile");
  sl_status status = SL_OK;
  if (sl__kind_of(makefile) != S_IFREG)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "%s is not a lesson: it has no Makefile", l->folder));
  if (sl__kind_of(skeleton) == S_IFDIR) {
    SL_TRY_OUT(sl__names_read(skeleton, &l->skeleton));
    SL_TRY_OUT(read_files(skeleton, &(sl__names){.n = 0}, &l->start));
  }
  status = read_files(l->folder, &l->skeleton, &l->own);
out:
  free(skeleton), free(makefile);
  return status;
}

char *sl__simulated_folder(void) {
  char *known = sl__pkg_config("--variable=simulated"), path[4200];
  const char *given = getenv("SIMULATED"); /* as for the lesson's Makefile */
  snprintf(path, sizeof path, "%s/starling-sim", given && *given ? given : known ? known : "");
  free(known);
  if (access(path, X_OK) != 0) return NULL;
  *strrchr(path, '/') = 0;
  return realpath(path, NULL);
}

static int asks_for_simulator(const sl__text *t) { return strstr(t->bytes, "--variable=simulated") != NULL; }

int sl__lesson_simulates(const sl__lesson *l) {
  int found = 0;
  for (int i = 0; i < l->own.n; i++)
    found |= strcmp(l->own.text[i].name, "Makefile") == 0 && asks_for_simulator(&l->own.text[i]);
  return found;
}

sl_status sl__lesson_can_be_graded(const sl__lesson *l) {
  SL_TRY(sl__lesson_can_run(l));
  int needs_gpus = 0;
  for (int i = 0; i < l->own.n; i++) needs_gpus |= strstr(l->own.text[i].bytes, "--variable=nvcc") != NULL;
  if (!needs_gpus) return SL_OK;
  char *nvcc = sl__pkg_config("--variable=nvcc");
  const int there = nvcc && *nvcc;
  free(nvcc);
  return there ? SL_OK
               : sl_fail(SL_EUNSUPPORTED,
                         "lesson %s needs GPUs, and this build of Starling drives none: in Starling's sources, "
                         "'./quickstart check' makes one for emulated GPUs, whose command grades it: "
                         "build-emulated/starling grade ...",
                         l->name);
}

sl_status sl__lesson_can_run(const sl__lesson *l) {
  char *simulated = NULL;
  int found = 0;
  for (int i = 0; i < l->own.n; i++) found |= asks_for_simulator(&l->own.text[i]);
  if (!found) return SL_OK;
  simulated = sl__simulated_folder();
  if (!simulated)
    return sl_fail(SL_EUNSUPPORTED,
                   "lesson %s simulates, and starling-sim is not built: './quickstart simulate' in Starling's sources "
                   "builds it, or SIMULATED=FOLDER names the folder that has it",
                   l->name);
  free(simulated);
  return SL_OK;
}

void sl__lesson_free(sl__lesson *l) {
  sl__names_free(&l->skeleton);
  sl__texts_free(&l->own), sl__texts_free(&l->start);
  free(l->folder);
}
