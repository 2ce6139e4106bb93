/* Changes of a machine's keys, "KEY=VALUE" or "KEY=FACTORx": another network, more memory, faster cores. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/machines/keys.h"
#include "tools/settings/nearest.h"

enum { NAME = 96 };

/* A key's name without its unit: "gpu.memory" for gpu.memory_gigabytes, "gpu.bandwidth" for gpu.gigabytes_per_s. Its
 * value then counts in bytes, bytes/s or seconds. A key without such a unit keeps its name. */
static void without_unit(const char *path, char name[NAME]) {
  static const char *const units[][2] = {{"gigabytes_per_s", "bandwidth"}, {"_gigabytes", ""}, {"_us", ""}};
  snprintf(name, NAME, "%s", path);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    const char *at = strstr(path, units[i][0]);
    if (!at) continue;
    snprintf(name, NAME, "%.*s%s%s", (int)(at - path), path, units[i][1], at + strlen(units[i][0]));
    return;
  }
}

/* Whether a change may name the key: only keys with numbers may be changed. */
static int is_number(const sl__machine_key *key) {
  return key->kind == SL__KEY_REAL || key->kind == SL__KEY_COUNT || key->kind == SL__KEY_WHOLE;
}

/* Whether name means this key. 1: in the key's unit; 2: without its unit; 0: it does not. network.bandwidth means two
 * keys, those of a rank and of a node. */
static int named(const sl__machine_key *key, const char *name) {
  char bare[NAME];
  if (!is_number(key)) return 0;
  if (strcmp(key->path, name) == 0) return 1;
  without_unit(key->path, bare);
  const size_t n = strlen(name);
  const int whole = strncmp(bare, name, n) == 0 &&
                    (!bare[n] || strcmp(bare + n, "_per_rank") == 0 || strcmp(bare + n, "_per_node") == 0);
  return whole ? 2 : 0;
}

static double get(const sl__machine_description *m, const sl__machine_key *key) {
  const void *field = (const char *)m + key->offset;
  return key->kind == SL__KEY_COUNT ? *(const int *)field : *(const double *)field;
}

static void set(sl__machine_description *m, const sl__machine_key *key, double value) {
  void *field = (char *)m + key->offset;
  if (key->kind == SL__KEY_COUNT)
    *(int *)field = (int)value;
  else
    *(double *)field = value;
}

static sl_status unknown(const char *name) {
  const char *names[SL__MACHINE_KEYS_MOST];
  char suggestion[128], *list = NULL;
  size_t bytes;
  int n = 0;
  FILE *to = open_memstream(&list, &bytes);
  for (int k = 0; to && k < sl__machine_keys_count; k++) {
    if (!is_number(&sl__machine_keys[k])) continue;
    fprintf(to, "%s%s", n ? ", " : "", sl__machine_keys[k].path);
    names[n++] = sl__machine_keys[k].path;
  }
  if (!to || fclose(to) != 0) return sl_no_memory("for the keys of machines");
  const sl_status status = sl_fail(SL_EINVAL, "--what-if: no number of a machine is called '%.64s'%s; there are %s",
                                   name, sl__suggestion(name, names, n, suggestion, sizeof suggestion), list);
  free(list);
  return status;
}

/* One change, "KEY=VALUE" or "KEY=FACTORx". */
static sl_status change(sl__machine_description *m, const char *text) {
  char name[NAME], *end;
  const size_t n = strcspn(text, "=");
  snprintf(name, sizeof name, "%.*s", (int)n, text);
  if (!text[n] || n >= sizeof name || n == 0)
    return sl_fail(SL_EINVAL, "--what-if: '%.96s' must be KEY=VALUE or KEY=FACTORx, such as network.bandwidth=2x",
                   text);
  int found = 0;
  for (int k = 0; k < sl__machine_keys_count; k++) found |= named(&sl__machine_keys[k], name);
  if (!found) return unknown(name);
  const char *given = text + n + 1;
  errno = 0;
  const double number = strtod(given, &end);
  const int factor = end > given && *end == 'x';
  if (end == given || isspace((unsigned char)*given) || end[factor] || !isfinite(number) || !(number >= 0))
    return sl_fail(SL_EINVAL, "--what-if %s: '%.64s' must be a number, or a factor such as 2x", name, given);
  for (int k = 0; k < sl__machine_keys_count; k++) {
    const sl__machine_key *key = &sl__machine_keys[k];
    const int as = named(key, name);
    if (!as) continue;
    if (!sl__machine_has_topology_of(m, key))
      return sl_fail(SL_EINVAL, "--what-if %s: the network of machine '%s' is of another topology, without %s", text,
                     m->name, key->path);
    const double is = get(m, key), value = factor ? is * number : as == 2 ? number : number * key->unit;
    if (factor && !(is > 0))
      return sl_fail(SL_EINVAL, "--what-if %s: machine '%s' has no %s to multiply: give a value", text, m->name,
                     key->path);
    if (!(value >= key->least * key->unit) || !(value <= key->most * key->unit) ||
        (key->kind != SL__KEY_REAL && value != floor(value)))
      return sl_fail(SL_EINVAL, "--what-if %s: %s (%s) would be %g: it must be a %snumber from %g to %g", text,
                     key->path, key->meaning, value / key->unit, key->kind == SL__KEY_REAL ? "" : "whole ", key->least,
                     key->most);
    set(m, key, value);
  }
  return SL_OK;
}

/* Whether its keys still fit together, by the rules for files. */
static sl_status check(const sl__machine_description *m) {
  sl__machine_description again;
  char *text;
  SL_TRY(sl__machine_to_yaml(m, &text));
  const sl_status status = sl__machine_parse("the machine changed by --what-if", text, strlen(text), &again);
  free(text);
  return status;
}

sl_status sl__machine_change(sl__machine_description *m, const char *changes) {
  char *copy = strdup(changes);
  sl_status status = copy ? SL_OK : sl_no_memory("for --what-if");
  for (char *at = copy, *next; at && status == SL_OK; at = next) {
    next = strchr(at, ',');
    if (next) *next++ = 0;
    status = change(m, at);
  }
  free(copy);
  return status == SL_OK ? check(m) : status;
}
