/* starling compare --bundle: writes one archive (pax, gzip; by libarchive) with which others can repeat a comparison,
 * or compute with its figures. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <hwloc.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/machine/runtime.h"
#include "tools/compare/page.h"
#include "tools/compare/parts.h"
#include "tools/run/session.h"

typedef struct bundle {
  sl_file *file;
  struct archive *archive;
  char folder[NAME_MAX + 1]; /* the archive's only top folder */
  sl_status wrote;           /* status of writing the file */
} bundle;

static la_ssize_t write_part(struct archive *a, void *arg, const void *bytes, size_t n) {
  bundle *b = arg;
  b->wrote = sl_file_write(b->file, bytes, n);
  if (b->wrote == SL_OK) return (la_ssize_t)n;
  archive_set_error(a, EIO, "%s", sl_error());
  return -1;
}

static sl_status failed(const bundle *b) {
  return b->wrote != SL_OK ? b->wrote : sl_fail(SL_EIO, "--bundle: %s", archive_error_string(b->archive));
}

static void discard(bundle *b) {
  if (b->archive) archive_write_free(b->archive);
  sl_file_discard(b->file);
}

/* The archive appears at its path only when the file is committed. */
static sl_status begin(const char *path, bundle *b) {
  static const char *const ends[] = {".tar.gz", ".tgz"};
  size_t n = 0;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const size_t whole = strlen(name), end = strlen(ends[i]);
    if (whole > end && whole <= NAME_MAX && strcmp(name + whole - end, ends[i]) == 0) n = whole - end;
  }
  *b = (bundle){0};
  if (n == 0) return sl_fail(SL_EINVAL, "--bundle: '%s' does not end in .tar.gz or .tgz", path);
  memcpy(b->folder, name, n);
  SL_TRY(sl_file_create(path, &b->file));
  b->archive = archive_write_new();
  if (!b->archive) return sl_no_memory("for a bundle");
  return archive_write_add_filter_gzip(b->archive) < ARCHIVE_WARN ||
                 archive_write_set_format_pax_restricted(b->archive) != ARCHIVE_OK ||
                 archive_write_open(b->archive, b, NULL, write_part, NULL) != ARCHIVE_OK
             ? failed(b)
             : SL_OK;
}

sl_status sl__bundle_check(const char *path) {
  bundle b;
  const sl_status status = begin(path, &b);
  discard(&b);
  return status;
}

static sl_status add(bundle *b, const char *name, int executable, const void *bytes, size_t n) {
  char path[PATH_MAX];
  struct archive_entry *entry = archive_entry_new();
  if (!entry) return sl_no_memory("for a bundle");
  snprintf(path, sizeof path, "%s/%s", b->folder, name);
  archive_entry_set_pathname(entry, path);
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, executable ? 0755 : 0644);
  archive_entry_set_mtime(entry, time(NULL), 0);
  archive_entry_set_size(entry, (la_int64_t)n);
  const int fine = archive_write_header(b->archive, entry) == ARCHIVE_OK &&
                   (n == 0 || archive_write_data(b->archive, bytes, n) == (la_ssize_t)n);
  archive_entry_free(entry);
  return fine ? SL_OK : failed(b);
}

static sl_status add_text(bundle *b, const char *name, const char *text) { return add(b, name, 0, text, strlen(text)); }

static sl_status add_json(bundle *b, const char *name, const json_t *json) {
  char *text = sl_json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  const sl_status status = text ? add_text(b, name, text) : sl_no_memory("for %s", name);
  free(text);
  return status;
}

static sl_status add_file(bundle *b, const char *name, int executable, const char *path) {
  enum { LIMIT = 256 << 20 };
  char *bytes;
  size_t n;
  SL_TRY(sl_file_read(path, LIMIT, &bytes, &n));
  const sl_status status = add(b, name, executable, bytes, n);
  free(bytes);
  return status;
}

/* ---- contents --------------------------------------------------------------------------------------------------- */

/* The policies compared, separated by commas; the caller frees the text. */
static sl_status join_policies(const sl__comparison *c, char **text) {
  size_t n;
  *text = NULL;
  FILE *to = open_memstream(text, &n);
  for (int i = 0; to && i < c->n; i++)
    if (i == 0 || strcmp(c->variant[i].policy, c->variant[i - 1].policy) != 0)
      fprintf(to, "%s%s", i ? "," : "", c->variant[i].policy);
  return to && fclose(to) == 0 ? SL_OK : sl_no_memory("for a bundle");
}

/* The options that decide what is measured, with this machine's defaults written out, since other machines have other
 * defaults. */
static sl_status add_configuration(bundle *b, const sl__comparison *c) {
  static const char *const others[] = {"out",       "bundle",       "json",    "quiet",     "sched",
                                       "calibrate", "uncalibrated", "machine", "sched-lib", NULL};
  sl__options o = *c->o;
  char *text = NULL;
  const struct {
    int64_t *option;
    const char *name;
  } plan[] = {{&o.batch, "batch"}, {&o.leaves, "leaves"}, {&o.shards, "shards"}, {&o.row_blocks, "row_blocks"}};
  for (size_t i = 0; i < sizeof plan / sizeof *plan; i++)
    sl__option_default_integer(plan[i].option, json_integer_value(json_object_get(c->plan, plan[i].name)));
  char workers[16];
  snprintf(workers, sizeof workers, "%d", c->workers);
  if (!o.workers) o.workers = workers;
  sl__option_default_integer(&o.threads_per_worker, c->threads);
  sl__option_default_integer(&o.repetitions, c->planned);
  sl__option_default_integer(&o.steps, c->steps);
  SL_TRY(join_policies(c, &o.policies));
  sl_status status = sl__options_effective(&o, sl__compare_itself(), others, &text);
  if (status == SL_OK) status = add_text(b, "config.yaml", text);
  free(o.policies), free(text);
  return status;
}

static sl_status add_topology(bundle *b) {
  hwloc_topology_t topology;
  char *xml = NULL;
  int n = 0;
  if (hwloc_topology_init(&topology) != 0) return sl_fail(SL_ETOPOLOGY, "hwloc does not start");
  const int fine = hwloc_topology_load(topology) == 0 && hwloc_topology_export_xmlbuffer(topology, &xml, &n, 0) == 0;
  const sl_status status = fine ? add(b, "topology.xml", 0, xml, strlen(xml))
                                : sl_fail(SL_ETOPOLOGY, "hwloc cannot export this machine's topology");
  if (fine) hwloc_free_xmlbuffer(topology, xml);
  hwloc_topology_destroy(topology);
  return status;
}

/* StarPU's performance models, at the place below STARPU_HOME where StarPU looks for them. */
static sl_status add_models(bundle *b, const sl__comparison *c) {
  size_t i;
  json_t *value;
  json_array_foreach(c->models, i, value) {
    const char *path = json_string_value(value), *part = NULL;
    char name[PATH_MAX];
    for (const char *at = path; at && (at = strstr(at, "/codelets/")); at++) part = at;
    if (!part) return sl_fail(SL_EFORMAT, "%s is not below a folder of performance models", path ? path : "?");
    snprintf(name, sizeof name, "starpu/.starpu/sampling%s", part);
    SL_TRY(add_file(b, name, 0, path));
  }
  return SL_OK;
}

static sl_status add_script(bundle *b, const sl__comparison *c) {
  char *text = NULL;
  size_t n;
  FILE *to = open_memstream(&text, &n);
  if (!to) return sl_no_memory("for a bundle");
  fprintf(
      to,
      "#!/bin/sh\n"
      "# Repeats this comparison of scheduling policies, into the folder repeated: ./run.sh [OPTION]...\n"
      "# Options of `starling compare` win over those in config.yaml. STARLING names the program (default: starling).\n"
      "# Calibrates performance models on this machine first; MODELS=original uses those of the\n"
      "# measured machine, in starpu/.\n"
      "set -eu\n"
      "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
      "if [ \"${MODELS-}\" = original ]; then\n"
      "  STARPU_HOME=$here/starpu\n"
      "  export STARPU_HOME\n"
      "  unset STARPU_PERF_MODEL_DIR\n"
      "  set -- --performance-models ");
  sl__options_quote(to, (const char *const *)&c->machine, 1);
  fprintf(to,
          "%s \"$@\"\n"
          "else\n"
          "  set -- --calibrate \"$@\"\n"
          "fi\n"
          "exec \"${STARLING:-starling}\" compare --config \"$here/config.yaml\"%s --out \"$here/repeated\" \"$@\"\n",
          sl__compare_uncalibrated(c) ? " --uncalibrated" : "",
          c->o->sched_lib ? " --sched-lib \"$here/policy.so\"" : "");
  const sl_status status = fclose(to) == 0 ? add(b, "run.sh", 1, text, n) : sl_no_memory("for a bundle");
  free(text);
  return status;
}

static sl_status add_readme(bundle *b, const sl__comparison *c) {
  char *text = NULL, *command;
  size_t n;
  SL_TRY(sl__page_command(c->o, &command));
  FILE *to = open_memstream(&text, &n);
  if (to)
    fprintf(to,
            "A comparison of StarPU's scheduling policies on training steps of %s, measured by\n\n"
            "  %s\n\n"
            "with Starling, commit %s.\n\n"
            "  run.sh            repeats it\n"
            "  config.yaml       the options, defaults written out\n"
            "  environment.json  machine, versions, variables\n"
            "  topology.xml      the machine, for hwloc (lstopo -i topology.xml)\n"
            "  compare.html      the result, for any browser\n"
            "  compare.json      its figures\n"
            "  compare.csv       every repetition\n"
            "%s%s%s",
            c->o->model, command, sl__commit(),
            json_array_size(c->models) ? "  starpu/           the performance models that policies used\n" : "",
            c->o->sched_lib ? "  policy.so         scheduling policies, as --sched-lib loads them\n" : "",
            c->o->data ? "\nThe data set is not included; --data names its folder.\n" : "");
  free(command);
  const sl_status status = to && fclose(to) == 0 ? add(b, "README", 0, text, n) : sl_no_memory("for a bundle");
  free(text);
  return status;
}

static sl_status fill(bundle *b, const sl__comparison *c, const sl__tables *tables) {
  SL_TRY(add_readme(b, c));
  SL_TRY(add_script(b, c));
  SL_TRY(add_configuration(b, c));
  SL_TRY(add_json(b, "environment.json", c->environment));
  SL_TRY(add_topology(b));
  SL_TRY(add_json(b, "compare.json", tables->json));
  SL_TRY(add_text(b, "compare.csv", tables->csv));
  SL_TRY(add_text(b, "compare.html", tables->html));
  if (c->models_needed) SL_TRY(add_models(b, c));
  if (c->o->sched_lib) SL_TRY(add_file(b, "policy.so", 1, c->o->sched_lib));
  return archive_write_close(b->archive) == ARCHIVE_OK ? SL_OK : failed(b);
}

sl_status sl__bundle_write(const char *path, const sl__comparison *c, const sl__tables *tables) {
  bundle b;
  sl_status status = begin(path, &b);
  if (status == SL_OK) status = fill(&b, c, tables);
  if (status == SL_OK) {
    sl_file *file = b.file;
    b.file = NULL;
    status = sl_file_commit(file);
  }
  discard(&b);
  return status;
}
