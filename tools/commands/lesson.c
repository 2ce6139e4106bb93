/* starling lesson: makes a student's folder: a lesson's files with the skeleton in place of the solution, its page, the
 * images that it reads, and a Makefile that finds this Starling from anywhere. */
#include "tools/grade/lesson.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/data/dataset.h"
#include "tools/commands/commands.h"

static const char HERE[] = "../../build"; /* where a Makefile of a lesson in the source tree looks for Starling */
enum { MOST_DATA = 1 << 27 };             /* bytes of a file of images */

static sl_status put(const char *folder, const char *name, const char *bytes, size_t n) {
  char *path = sl__joined(folder, name);
  const sl_status status = path ? sl_file_replace(path, bytes, n) : sl_no_memory("for a path");
  free(path);
  return status;
}

typedef struct change {
  const char *old, *new;
} change;

/* Writes a head, then the text with each old string of changes[n_changes] replaced. */
static sl_status put_changed(const char *folder, const char *name, const char *head, const char *text,
                             const change *changes, int n_changes) {
  char *changed = NULL;
  size_t n = 0;
  FILE *file = open_memstream(&changed, &n);
  if (!file) return sl_no_memory("for %s", name);
  fputs(head, file);
  while (*text) {
    const change *found = NULL;
    for (int i = 0; i < n_changes && !found; i++)
      if (strncmp(text, changes[i].old, strlen(changes[i].old)) == 0) found = &changes[i];
    if (found)
      fputs(found->new, file), text += strlen(found->old);
    else
      fputc(*text++, file);
  }
  const sl_status status = fclose(file) == 0 ? put(folder, name, changed, n) : sl_no_memory("for %s", name);
  free(changed);
  return status;
}

static const char *text_of(const sl__texts *texts, const char *name) {
  for (int i = 0; i < texts->n; i++)
    if (strcmp(texts->text[i].name, name) == 0) return texts->text[i].bytes;
  return "";
}

/* Copies the images into DIR/data, if the lesson reads images and they are installed. */
static sl_status put_data(const sl__options *o, const char *to, int *put_any) {
  static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                      "t10k-labels-idx1-ubyte"};
  const char *from = o->data ? o->data : SL_DATASET_DEFAULT;
  char *folder = sl__joined(to, "data"), name[64], *bytes;
  sl_status status = folder ? SL_OK : sl_no_memory("for a path");
  size_t n;
  for (int i = 0; i < 8 && status == SL_OK; i++) {
    snprintf(name, sizeof name, "%s%s", names[i / 2], i % 2 ? "" : ".gz");
    char *path = sl__joined(from, name);
    FILE *file = path ? fopen(path, "re") : NULL;
    if (file) {
      fclose(file);
      status = sl_folder_make(folder);
      if (status == SL_OK) status = sl_file_read(path, MOST_DATA, &bytes, &n);
      if (status == SL_OK) {
        status = put(folder, name, bytes, n);
        free(bytes);
        *put_any = 1;
      }
    }
    free(path);
  }
  free(folder);
  if (status == SL_OK && !*put_any && o->data) status = sl_fail(SL_ENOTFOUND, "%s has no IDX files", from);
  return status;
}

/* Reads the link to another page that begins at text: its words, and the other page's path. Returns the link's length;
 * 0: no link begins there. */
static size_t read_link(const char *text, const char *pages, char words[256], char place[PATH_MAX]) {
  char target[256], *path;
  int n = 0;
  if (sscanf(text, "[%255[^][]](%255[^)# \n]%n", words, target, &n) != 2 || !(path = sl__joined(pages, target)))
    return 0;
  const char *end = strchr(text + n, ')');
  const int known = end && realpath(path, place) != NULL;
  free(path);
  return known ? (size_t)(end + 1 - text) : 0;
}

/* Returns a copy of the page in which each link to another page is plain text, the link's words and the other page's
 * path: the folder gets only this page. The caller must free() the copy. NULL: no memory. */
static char *with_places(const char *page, const char *pages) {
  char *changed = NULL, words[256], place[PATH_MAX];
  size_t n;
  FILE *file = open_memstream(&changed, &n);
  while (file && *page) {
    const size_t length = *page == '[' ? read_link(page, pages, words, place) : 0;
    if (length == 0)
      fputc(*page++, file);
    else if (strcmp(strrchr(place, '/') + 1, words) == 0)
      fprintf(file, "`%s`", place);
    else
      fprintf(file, "%s (`%s`)", words, place);
    page += length;
  }
  if (file && fclose(file) != 0) free(changed), changed = NULL;
  return changed;
}

/* Writes the page, after a note on where to find the command. */
static sl_status put_page(const sl__lesson *l, const char *found, const char *to) {
  char *pages = sl__pkg_config("--variable=lessons"), *name = NULL, *path = NULL, *page = NULL, *head = NULL;
  char *changed = NULL;
  char self[4096] = "", command[4096], folder[300];
  sl_status status = SL_OK;
  size_t n;
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) self[0] = 0;
  char *slash = strrchr(self, '/');
  snprintf(command, sizeof command, "%s", self);
  if (slash) *slash = 0;
  snprintf(folder, sizeof folder, "examples/%s/", l->name); /* its files lie beside the page */
  const change changes[] = {{"../../build/starling", command}, {folder, ""}};
  if (asprintf(&name, "%s.md", l->name) < 0 || !(path = sl__joined(pages ? pages : ".", name)) ||
      asprintf(&head,
               "Your copy of a lesson of Starling: `make run` builds and runs it. For the commands below:\n"
               "`export PATH=\"$PATH:%s\"`. Starling is in `%s`; elsewhere: `make run PKG_CONFIG_PATH=FOLDER`.\n\n",
               self, found) < 0)
    SL_TRY_OUT(sl_no_memory("for a page"));
  if (sl_file_read(path, SL__MOST_BYTES, &page, &n) != SL_OK) goto out; /* a user's own lesson has no page there */
  if (!(changed = with_places(page, pages ? pages : "."))) SL_TRY_OUT(sl_no_memory("for %s", name));
  status = put_changed(to, "README.md", head, changed, changes, 2);
out:
  free(pages), free(name), free(path), free(page), free(head), free(changed);
  return status;
}

static sl_status tell(const sl__options *o, const sl__lesson *l, const char *folder, int with_data) {
  if (!o->json) {
    sl_text_print("%s: lesson %s%s; begin with README.md\n", folder, l->name, with_data ? ", with its images" : "");
    for (int i = 0; i < l->start.n; i++) sl_text_print("complete and hand in %s/%s\n", folder, l->start.text[i].name);
    return SL_OK;
  }
  json_t *files = json_array(), *all = json_pack("{s:s, s:s, s:b, s:O}", "lesson", l->name, "folder", folder, "images",
                                                 with_data, "complete", files);
  for (int i = 0; i < l->start.n; i++) json_array_append_new(files, json_string(l->start.text[i].name));
  const sl_status status = sl_json_print(stdout, all, 9);
  json_decref(all), json_decref(files);
  return status;
}

sl_status sl__hand_out(sl__options *o, int *exit_code) {
  sl__lesson l = {0};
  const char *to = o->files[0];
  sl__names there = {.n = 0};
  sl_status status = SL_OK;
  int with_data = 0;
  char *found = NULL;
  (void)exit_code;
  SL_TRY_OUT(sl__lesson_find(o->model, &l));
  SL_TRY_OUT(sl__lesson_can_run(&l));
  if (!(found = sl__pkg_config_folder())) found = strdup(HERE);
  if (!found) SL_TRY_OUT(sl_no_memory("for a path"));
  SL_TRY_OUT(sl_folder_make_all(to, 0777, NULL));
  SL_TRY_OUT(sl__names_read(to, &there));
  if (there.n > 0) SL_TRY_OUT(sl_fail(SL_EEXIST, "%s is not empty: name a new folder", to));
  const char *makefile = text_of(&l.own, "Makefile");
  /* First: where the images are missing, nothing is left behind. */
  if (strstr(makefile, "DATA") || strstr(text_of(&l.own, "faults"), "DATA")) SL_TRY_OUT(put_data(o, to, &with_data));
  SL_TRY_OUT(sl__texts_write(&l.own, to));
  SL_TRY_OUT(sl__texts_write(&l.start, to));
  SL_TRY_OUT(put_changed(to, "Makefile", with_data ? "export DATA = data\n" : "", makefile, &(change){HERE, found}, 1));
  SL_TRY_OUT(put_page(&l, found, to));
  status = tell(o, &l, to, with_data);
out:
  free(found);
  sl__names_free(&there);
  sl__lesson_free(&l);
  return status;
}
