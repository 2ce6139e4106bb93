/* Reads machines from YAML, key by key of the table in keys.h, and makes of them the machine of predicted schedules. */
#include "tools/machines/description.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shipped_machines.h"
#include "tools/machines/keys.h"
#include "tools/settings/nearest.h"
#include "tools/settings/yaml_document.h"

typedef struct reading {
  const char *name; /* of the file */
  yaml_document_t *document;
  sl__machine_description *machine;
  size_t line[SL__MACHINE_KEYS_MOST];   /* of each key that was given; else 0 */
  size_t needed[SL__MACHINE_KEYS_MOST]; /* line of the innermost section of a key that must be there; else 0 */
} reading;

static const sl__machine_key *key_at(int k) { return &sl__machine_keys[k]; }
static const char *last_of(const char *path) { return strrchr(path, '.') ? strrchr(path, '.') + 1 : path; }

static int row_of(const char *path) {
  int k = 0;
  while (k < sl__machine_keys_count && strcmp(key_at(k)->path, path) != 0) k++;
  return k < sl__machine_keys_count ? k : -1;
}

/* Whether path is that of a section: some key begins with it. */
static int is_section(const char *path) {
  const size_t n = strlen(path);
  for (int k = 0; k < sl__machine_keys_count; k++)
    if (strncmp(key_at(k)->path, path, n) == 0 && key_at(k)->path[n] == '.') return 1;
  return 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static sl_status wrong(const reading *r, const sl__machine_key *key, size_t line, const char *text, const char *must) {
  return sl_fail(SL_EINVAL, "%s, line %zu: %s: %s: '%.64s' must be %s, such as %s", r->name, line, key->path,
                 key->meaning, text, must, key->example);
}

static sl_status number(const reading *r, const sl__machine_key *key, size_t line, const char *text, double *value) {
  char must[96], *end;
  const int whole = key->kind != SL__KEY_REAL;
  errno = 0;
  *value = strtod(text, &end);
  if (*text && !isspace((unsigned char)*text) && !*end && isfinite(*value) && *value >= key->least &&
      *value <= key->most && (!whole || *value == floor(*value)))
    return SL_OK;
  snprintf(must, sizeof must, "a %snumber from %g to %g", whole ? "whole " : "", key->least, key->most);
  return wrong(r, key, line, text, must);
}

static sl_status text_value(const reading *r, const sl__machine_key *key, size_t line, const char *text, char *field) {
  const size_t n = strlen(text);
  char must[96];
  int fine = n > 0 && n < key->size;
  for (const char *c = text; *c && fine; c++)
    fine = key->kind == SL__KEY_TEXT ? *c == '\n' || (unsigned char)*c >= ' '
                                     : isalnum((unsigned char)*c) || (c > text && strchr(".-_+", *c));
  if (fine) return memcpy(field, text, n + 1), SL_OK;
  snprintf(must, sizeof must, "a text of 1 to %zu %s", key->size - 1,
           key->kind == SL__KEY_TEXT ? "printable bytes" : "letters, digits and . - _ +");
  return wrong(r, key, line, text, must);
}

static sl_status topology(const reading *r, const sl__machine_key *key, size_t line, const char *text, void *field) {
  int n = 0, found = -1;
  char suggestion[128];
  for (; sl__topology_names[n]; n++)
    if (strcmp(sl__topology_names[n], text) == 0) found = n;
  *(sl__topology *)field = found < 0 ? SL__STAR : (sl__topology)found;
  if (found >= 0) return SL_OK;
  return sl_fail(SL_EINVAL, "%s, line %zu: %s: unknown topology '%.64s'; choose %s%s", r->name, line, key->path, text,
                 key->meaning, sl__suggestion(text, sl__topology_names, n, suggestion, sizeof suggestion));
}

/* A list [8, 8], or one number. */
static sl_status extents(const reading *r, const sl__machine_key *key, size_t line, const yaml_node_t *value,
                         double *field) {
  const char *one = sl__yaml_text(value);
  if (one) return number(r, key, line, one, &field[0]);
  int n = 0;
  if (value->type == YAML_SEQUENCE_NODE)
    for (yaml_node_item_t *item = value->data.sequence.items.start; item < value->data.sequence.items.top; item++) {
      const char *text = sl__yaml_text(yaml_document_get_node(r->document, *item));
      if (!text || n == 3) return wrong(r, key, line, text ? text : "a list in it", "a list of one to three numbers");
      SL_TRY(number(r, key, line, text, &field[n++]));
    }
  return n ? SL_OK : wrong(r, key, line, "", "a list of one to three numbers");
}

static sl_status set(reading *r, int k, size_t line, const yaml_node_t *value) {
  const sl__machine_key *key = key_at(k);
  void *field = (char *)r->machine + key->offset;
  const char *text = sl__yaml_text(value);
  double real;
  r->line[k] = line;
  if (key->kind == SL__KEY_EXTENTS) return extents(r, key, line, value, field);
  if (!text)
    return sl_fail(SL_EINVAL, "%s, line %zu: %s needs one plain value, such as %s", r->name, line, key->path,
                   key->example);
  switch (key->kind) {
    case SL__KEY_NAME:
    case SL__KEY_TEXT:
      return text_value(r, key, line, text, field);
    case SL__KEY_TOPOLOGY:
      return topology(r, key, line, text, field);
    default:
      SL_TRY(number(r, key, line, text, &real));
      if (key->kind == SL__KEY_COUNT)
        *(int *)field = (int)real;
      else
        *(double *)field = real * key->unit;
      return SL_OK;
  }
}

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static sl_status unknown(const reading *r, const char *prefix, size_t line, const char *key) {
  char name[SL__MACHINE_KEYS_MOST][32], suggestion[128];
  const char *names[SL__MACHINE_KEYS_MOST];
  const size_t n = strlen(prefix);
  int count = 0;
  for (int k = 0; k < sl__machine_keys_count; k++) {
    const char *path = key_at(k)->path;
    if (strncmp(path, prefix, n) != 0) continue;
    snprintf(name[count], sizeof name[count], "%.*s", (int)strcspn(path + n, "."), path + n);
    if (!count || strcmp(name[count], name[count - 1]) != 0) names[count] = name[count], count++;
  }
  return sl_fail(SL_EINVAL, "%s, line %zu: unknown key '%s%.64s'%s", r->name, line, prefix, key,
                 sl__suggestion(key, names, count, suggestion, sizeof suggestion));
}

/* Reads a section; path: "" of the whole file, else "cpu". */
static sl_status section(reading *r, const char *path, size_t line, const yaml_node_t *node) {
  char prefix[80], below[160];
  snprintf(prefix, sizeof prefix, "%s%s", path, *path ? "." : "");
  for (int k = 0; k < sl__machine_keys_count; k++)
    if (strcmp(key_at(k)->section, path) == 0 ||
        (r->needed[k] && strncmp(key_at(k)->path, prefix, strlen(prefix)) == 0))
      r->needed[k] = line;
  for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(r->document, pair->key),
                      *value = yaml_document_get_node(r->document, pair->value);
    const size_t at = key->start_mark.line + 1;
    const char *name = sl__yaml_text(key);
    if (!name) return sl_fail(SL_EINVAL, "%s, line %zu: a list or section cannot be a key", r->name, at);
    if (sl__yaml_twice(r->document, node, pair))
      return sl_fail(SL_EINVAL, "%s, line %zu: key '%s%.64s' occurs twice", r->name, at, prefix, name);
    const int fits = snprintf(below, sizeof below, "%s%.64s", prefix, name) < (int)sizeof below && strlen(name) <= 64 &&
                     !strchr(name, '.');
    const int k = fits ? row_of(below) : -1;
    if (k >= 0)
      SL_TRY(set(r, k, at, value));
    else if (!fits || !is_section(below))
      return unknown(r, prefix, at, name);
    else if (value->type != YAML_MAPPING_NODE)
      return sl_fail(SL_EINVAL, "%s, line %zu: %s must be a section of keys (docs/reference/machines.md lists them)",
                     r->name, at, below);
    else
      SL_TRY(section(r, below, at, value));
  }
  return SL_OK;
}

/* ---- what must be there, and what excludes what ------------------------------------------------------------------ */

static sl_status missing(const reading *r, int k, size_t line, const char *because) {
  const sl__machine_key *key = key_at(k);
  return sl_fail(SL_EINVAL, "%s, line %zu: %s is missing%s: add '%s: %s' (%s)", r->name, line, key->path, because,
                 last_of(key->path), key->example, key->meaning);
}

/* The line of the first given key of a set; 0: none is given. */
static size_t line_of_set(const reading *r, sl__key_set which) {
  for (int k = 0; k < sl__machine_keys_count; k++)
    if (key_at(k)->set == which && r->line[k]) return r->line[k];
  return 0;
}

/* Checks that the keys of the network between nodes are complete or absent, and that no other topology has parameters.
 */
static sl_status check_network(const reading *r) {
  const sl__topology is = r->machine->network.topology;
  const int topology = row_of("network.topology");
  for (int k = 0; k < sl__machine_keys_count; k++) {
    const sl__key_set set = key_at(k)->set;
    const int of = (int)(set - SL__SET_FAT_TREE) + SL__FAT_TREE, here = r->line[topology] && (int)is == of;
    char because[80];
    if (set == SL__SET_BETWEEN && !r->line[k] && line_of_set(r, set))
      return missing(r, k, line_of_set(r, set), " beside the other keys of the network between nodes");
    if (set < SL__SET_FAT_TREE) continue;
    if (r->line[k] && !r->line[topology]) return missing(r, topology, r->line[k], "");
    if (r->line[k] && !here)
      return sl_fail(SL_EINVAL, "%s, line %zu: %s belongs to the topology %s, but network.topology is %s: remove one",
                     r->name, r->line[k], key_at(k)->path, sl__topology_names[of], sl__topology_names[is]);
    snprintf(because, sizeof because, ", which the topology %s needs", sl__topology_names[of]);
    if (!r->line[k] && here) return missing(r, k, r->line[topology], because);
  }
  return SL_OK;
}

/* Checks that an idle power comes with a busy power that is not less. */
static sl_status check_power(const reading *r, const char *idle, double idle_watts, const char *busy, double watts) {
  const int k = row_of(idle);
  if (r->line[k] && !r->line[row_of(busy)]) return missing(r, row_of(busy), r->line[k], "");
  if (idle_watts <= watts) return SL_OK;
  return sl_fail(SL_EINVAL, "%s, line %zu: %s: more than %s, which is for a busy one", r->name, r->line[k], idle, busy);
}

static sl_status check(const reading *r) {
  const sl__machine_description *m = r->machine;
  for (int k = 0; k < sl__machine_keys_count; k++)
    if (key_at(k)->set == SL__SET_SECTION && r->needed[k] && !r->line[k]) return missing(r, k, r->needed[k], "");
  SL_TRY(check_network(r));
  const int latency = row_of("network.latency_us");
  if (r->needed[latency] && !r->line[latency] && !(m->network.shared > 0))
    return missing(r, latency, r->needed[latency], "");
  if (m->cpu.numa_domains > m->cpu.cores)
    return sl_fail(SL_EINVAL, "%s, line %zu: cpu.numa_domains: %d domains of %d cores: each has a core at least",
                   r->name, r->line[row_of("cpu.numa_domains")], m->cpu.numa_domains, m->cpu.cores);
  SL_TRY(check_power(r, "cpu.idle_watts", m->cpu.idle, "cpu.watts", m->cpu.watts));
  SL_TRY(check_power(r, "gpu.idle_watts", m->gpu.idle, "gpu.watts", m->gpu.watts));
  if (m->gpu.count == 1 && m->gpu.peer_link > 0)
    return sl_fail(SL_EINVAL,
                   "%s, line %zu: gpu.peers: a node with one GPU has no links between GPUs: remove gpu.peers", r->name,
                   r->line[row_of("gpu.peers.gigabytes_per_s")]);
  if (m->network.per_rank > m->network.per_node)
    return sl_fail(
        SL_EINVAL,
        "%s, line %zu: network.gigabytes_per_s_per_rank: more than gigabytes_per_s_per_node, which all ranks "
        "of a node share",
        r->name, r->line[row_of("network.gigabytes_per_s_per_rank")]);
  return SL_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static sl_status describe(const char *name, yaml_document_t *document, sl__machine_description *machine) {
  reading r = {.name = name, .document = document, .machine = machine};
  const yaml_node_t *root = yaml_document_get_root_node(document);
  *machine = (sl__machine_description){0};
  if (!root || root->type != YAML_MAPPING_NODE)
    return sl_fail(SL_EINVAL, "%s, line 1: a machine is a section of keys, the first of them 'name: my-cluster'", name);
  SL_TRY(section(&r, "", 1, root));
  return check(&r);
}

sl_status sl__machine_parse(const char *name, const char *text, size_t n, sl__machine_description *machine) {
  yaml_document_t document;
  SL_TRY(sl__yaml_parse(name, text, n, &document));
  const sl_status status = describe(name, &document, machine);
  yaml_document_delete(&document);
  return status;
}

int sl__machines(void) { return (int)(sizeof shipped / sizeof *shipped); }
const char *sl__machine_name(int i) { return shipped[i].name; }
const char *sl__machine_text(int i, size_t *n) {
  *n = shipped[i].n;
  return (const char *)shipped[i].text;
}

static sl_status unknown_machine(const char *name) {
  const char *names[sizeof shipped / sizeof *shipped];
  char suggestion[128];
  for (int i = 0; i < sl__machines(); i++) names[i] = shipped[i].name;
  return sl_fail(SL_EINVAL,
                 "--machine %s: neither a machine that comes with Starling ('starling info --machines' lists them) nor "
                 "a file%s",
                 name, sl__suggestion(name, names, sl__machines(), suggestion, sizeof suggestion));
}

/* Makes the path of the file of times valid here: as written it is relative to the folder of the machine's file. */
static sl_status find_times(const char *file, sl__machine_description *m) {
  const char *slash = strrchr(file, '/');
  char path[sizeof m->times];
  if (!m->times[0] || m->times[0] == '/' || !slash) return SL_OK;
  if (snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, m->times) >= (int)sizeof path)
    return sl_fail(SL_EINVAL, "%s: the path of `times` is too long", file);
  memcpy(m->times, path, sizeof path);
  return SL_OK;
}

sl_status sl__machine_describe(const char *name, sl__machine_description *machine) {
  yaml_document_t document;
  for (int i = 0; i < sl__machines(); i++)
    if (strcmp(shipped[i].name, name) == 0)
      return sl__machine_parse(name, (const char *)shipped[i].text, shipped[i].n, machine);
  sl_status status = sl__yaml_load(name, sl_file_read, &document);
  if (status != SL_OK) return status == SL_ENOTFOUND ? unknown_machine(name) : status;
  status = describe(name, &document, machine);
  yaml_document_delete(&document);
  return status == SL_OK ? find_times(name, machine) : status;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

sl_machine sl__machine_of(const sl__machine_description *m, int workers, int gpus) {
  const double memory = m->cpu.bandwidth * m->cpu.numa_domains;
  const int sharing = workers > 0 ? workers : 1; /* workers that share the memory */
  return (sl_machine){
      .kind = {[SL_KIND_CPU] = {workers, m->cpu.peak.fp32 * m->cpu.efficiency, memory / sharing, m->cpu.overhead,
                                m->cpu.peak.bf16 * m->cpu.efficiency},
               [SL_KIND_GPU] = {gpus, m->gpu.peak.fp32 * m->gpu.efficiency, m->gpu.bandwidth, m->gpu.overhead,
                                m->gpu.peak.bf16 * m->gpu.efficiency, m->gpu.peak.tf32 * m->gpu.efficiency}},
      .exchange = m->network.per_rank > 0 ? m->network.per_rank
                  : m->network.shared > 0 ? m->network.shared
                                          : sl_machine_default(workers, 1, gpus).exchange,
      .link = m->gpu.link,
      .latency = m->gpu.link_latency,
      .peer = m->gpu.peer_link,
      .peer_latency = m->gpu.peer_latency};
}
