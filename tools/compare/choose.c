/* starling compare: chooses the scheduling policies that take part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine/policies.h"
#include "runtime/machine/runtime.h"
#include "tools/compare/parts.h"

enum { NAMES = 4096 };
static const char BASE[] = "eager"; /* the denominator of all ratios */

/* One policy of each kind: a common queue, work stealing, priorities, placement by performance models without and with
 * priorities. StarPU's other policies are variants of these. */
static const struct {
  const char *name;
  int needs_gpu;
} usual[] = {{"eager", 0}, {"lws", 0}, {"prio", 0}, {"dmda", 0}, {"dmdas", 0}, {"heteroprio", 1}};

int sl__compare_default(const char *policy, int gpus) {
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strcmp(policy, usual[i].name) == 0) return gpus > 0 || !usual[i].needs_gpu;
  return 0;
}

/* Whether a list, separated by commas and optional blanks, contains a name of n bytes. */
static int listed(const char *list, const char *name, size_t n) {
  for (const char *at = list; *at; at += strspn(at, ", ")) {
    const size_t length = strcspn(at, ", ");
    if (length == n && strncmp(at, name, n) == 0) return 1;
    at += length;
  }
  return 0;
}

static int all(const sl__options *o) { return o->policies && strcmp(o->policies, "all") == 0; }

/* Writes the names of the policies: those of this program's StarPU, unless a simulation has told its own. */
static sl_status find_names(const sl__options *o, const char *told, char *names) {
  if (!told) return sl_policies_names(o->sched_lib, names, NAMES);
  snprintf(names, NAMES, "%s", told);
  return SL_OK;
}

sl_status sl__compare_check_policies(const sl__options *o, const char *told) {
  char there[NAMES];
  if (!o->policies || all(o)) return SL_OK;
  SL_TRY(find_names(o, told, there));
  for (const char *at = o->policies; *at; at += strspn(at, ", ")) {
    const size_t n = strcspn(at, ", ");
    if (!listed(there, at, n))
      return sl_fail(SL_EINVAL, "--policies: no policy '%.*s'; StarPU %s%s%s has %s", (int)n, at, sl_runtime_starpu(),
                     o->sched_lib ? " with " : "", o->sched_lib ? o->sched_lib : "", there);
    at += n;
  }
  return SL_OK;
}

static int wanted(const sl__comparison *c, const char *policy) {
  const sl__options *o = c->o;
  if (strcmp(policy, BASE) == 0 || all(o)) return 1;
  return o->policies ? listed(o->policies, policy, strlen(policy)) : sl__compare_default(policy, c->gpus);
}

sl_status sl__compare_choose(sl__comparison *c) {
  char names[NAMES], copy[NAMES], *rest = NULL;
  const int on = strcmp(c->o->priorities, "off") != 0, off = strcmp(c->o->priorities, "on") != 0;
  c->variant = calloc(2 * SL__MOST_POLICIES, sizeof *c->variant);
  if (!c->variant) return sl_no_memory("for the policies");
  SL_TRY(find_names(c->o, c->names, names));
  for (int pass = 0; pass < 2; pass++) { /* the base first */
    for (char *p = strtok_r(strcpy(copy, names), ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
      if ((strcmp(p, BASE) == 0) != (pass == 0) || !wanted(c, p) || c->n + 2 > 2 * SL__MOST_POLICIES) continue;
      for (int priorities = 1; priorities >= 0; priorities--) {
        if (!(priorities ? on : off)) continue;
        sl__variant *v = &c->variant[c->n++];
        snprintf(v->policy, sizeof v->policy, "%s", p);
        v->priorities = priorities;
        v->measured = calloc((size_t)c->room, sizeof *v->measured);
        if (!v->measured) return sl_no_memory("for %d repetitions", c->room);
      }
    }
  }
  return SL_OK;
}
