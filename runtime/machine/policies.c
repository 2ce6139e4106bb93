/* Finds scheduling policies by name, those of a given library before StarPU's own. */
#include "runtime/machine/policies.h"

#include <dlfcn.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/machine/runtime.h"

static const char ENTRY[] = "starpu_get_sched_lib_policies";
typedef struct starpu_sched_policy **(*entry_function)(void);

static sl_status load_list(const char *path, struct starpu_sched_policy ***list) {
  static struct starpu_sched_policy *none[] = {NULL};
  *list = none;
  if (!path || !*path) return SL_OK;
  if (access(path, R_OK) != 0) return sl_fail(SL_ENOTFOUND, "cannot read the policy library %s", path);
  char *whole = realpath(path, NULL); /* dlopen would search the system's folders for a bare name */
  void *library = whole ? dlopen(whole, RTLD_NOW | RTLD_LOCAL) : NULL;
  free(whole);
  if (!library) return sl_fail(SL_EFORMAT, "cannot load the policy library %s: %s", path, dlerror());
  void *symbol = dlsym(library, ENTRY);
  entry_function entry;
  memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from data to functions */
  if (!entry) return sl_fail(SL_EFORMAT, "the policy library %s has no function %s", path, ENTRY);
  struct starpu_sched_policy **found = entry();
  if (!found || !*found)
    return sl_fail(SL_EFORMAT, "function %s of the policy library %s returned no policy", ENTRY, path);
  for (struct starpu_sched_policy **p = found; *p; p++)
    if (!(*p)->policy_name || !*(*p)->policy_name || strpbrk((*p)->policy_name, ", "))
      return sl_fail(SL_EFORMAT, "policy %d of the policy library %s needs a policy_name without commas and blanks",
                     (int)(p - found), path);
  *list = found;
  return SL_OK;
}

static sl_status load(const char *path, struct starpu_sched_policy ***list) {
  const sl_status status = load_list(path, list);
  return status == SL_OK ? SL_OK : sl_blame(status, "sched_lib");
}

sl_status sl_policies_names(const char *library, char *text, size_t n) {
  struct starpu_sched_policy **own;
  size_t used = 0;
  if (n) text[0] = 0;
  SL_TRY(load(library, &own));
  for (int pass = 0; pass < 2; pass++)
    for (struct starpu_sched_policy **p = pass ? starpu_sched_get_predefined_policies() : own; *p && used < n; p++)
      used += (size_t)snprintf(text + used, n - used, "%s%s", used ? ", " : "", (*p)->policy_name);
  return SL_OK;
}

sl_status sl_policies_find(const char *library, const char *name, struct starpu_sched_policy **policy, int *own) {
  struct starpu_sched_policy **list;
  SL_TRY(load(library, &list));
  if (!name || !*name) name = *list ? (*list)->policy_name : SL_POLICY_STANDARD;
  for (int pass = 0; pass < 2; pass++)
    for (struct starpu_sched_policy **p = pass ? starpu_sched_get_predefined_policies() : list; *p; p++)
      if (strcmp((*p)->policy_name, name) == 0) {
        *policy = *p, *own = pass == 0;
        return SL_OK;
      }
  char text[2048];
  SL_TRY(sl_policies_names(library, text, sizeof text));
  if (library && *library)
    return sl_fail(SL_EINVAL, "unknown scheduling policy '%s'; %s and StarPU %s have %s", name, library,
                   sl_runtime_starpu(), text);
  return sl_fail(SL_EINVAL, "unknown scheduling policy '%s'; StarPU %s has %s", name, sl_runtime_starpu(), text);
}

int sl_policies_need_models(const char *name) { return strncmp(name, "dm", 2) == 0 || strstr(name, "heft") != NULL; }
